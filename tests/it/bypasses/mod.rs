//! Ways around field ownership, each sent to a real API server by a real identity.
//!
//! The number is that of the list in `docs/correctness.md`.

mod ground;
mod identity;
mod lifecycle;
mod limits;
mod managed_fields;
mod structure;
mod subresources;
mod values;

use serde_json::Value;
use tokio::sync::OnceCell;

use crate::arena::{Kind, Pond, arena, policy};

// Reasons of causes, as clients see them.
const OWNED: &str = "FieldOwnedByAnother";
const TAMPERED: &str = "ManagedFieldsTampered";
const CO_OWNED: &str = "FieldCoOwned";
const MANAGER_REQUIRED: &str = "FieldManagerRequired";
const MANAGER_RESERVED: &str = "FieldManagerReserved";

/// The whole object, where a cause names no field.
const WHOLE: &str = "";

/// The taint of ctrl-a as paths name it.
const TAINT_A: &str = r#".spec.taints[effect="NoSchedule",key="a"]"#;

/// A kind on which values are guarded and `managedFields` are only audited.
async fn unguarded() -> &'static Kind {
    static KIND: OnceCell<Kind> = OnceCell::const_new();
    KIND.get_or_init(|| async {
        let policy = policy(&[(
            "mode: Enforce, coOwnership: Enforce, editors: [{kind: User, name: migrator}]",
            "mode: Audit",
        )]);
        arena().await.kind("unguardedponds", &policy).await
    })
    .await
}

/// Whether a write that the server cannot track leaves `managedFields` as they were (from 1.37 on) or wipes them.
async fn untracked_writes_freeze() -> bool {
    arena().await.minor().await >= 37
}

/// An audit annotation of fieldkeeper on the write of `user` to this pond, such as `tolerated`.
pub async fn annotation(pond: &Pond, user: &str, key: &str) -> String {
    let suffix = format!(".fieldkeeper.dev/{key}");
    let value = |event: &crate::harness::AuditEvent| {
        event.annotations.iter().find(|(name, _)| name.ends_with(&suffix)).map(|(_, value)| value.clone())
    };
    let what = format!("{user} on {} with {key}", pond.at(""));
    let wanted = |event: &crate::harness::AuditEvent| {
        let object = &event.object_ref;
        event.actor() == user
            && object.resource == pond.kind.plural
            && object.name == pond.name
            && value(event).is_some()
    };
    let event = pond.arena.plane.audit_event(&what, wanted).await.unwrap();
    value(&event).unwrap()
}

/// The place of an item in a list of the object.
fn place(object: &Value, list: &str, fits: impl Fn(&Value) -> bool) -> usize {
    object.pointer(list).and_then(Value::as_array).unwrap().iter().position(fits).unwrap()
}
