//! Who asks, and under which name.

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{MANAGER_REQUIRED, MANAGER_RESERVED, OWNED, WHOLE};
use crate::arena::{Call, Kind, Pond, Reply, admin, alice, arena, controller, policy};
use crate::harness::Identity;

const CTRL_A: &str = "system:serviceaccount:ponds:ctrl-a";
const SUBJECT_A: &str = "{kind: ServiceAccount, namespace: ponds, name: ctrl-a}";
const SUBJECT_B: &str = "{kind: ServiceAccount, namespace: ponds, name: ctrl-b}";

/// A merge patch of the size.
fn resize(pond: &Pond, size: &str) -> Call {
    Call::merge_patch(&pond.at(""), &json!({"spec": {"size": size}}))
}

#[tokio::test]
async fn b01_a_stranger_may_not_borrow_the_owners_manager_name() {
    let pond = Pond::new("b01").await;
    let before = pond.read().await;
    let body = pond.edited("/spec/size", json!("XL")).await;
    let call = Call::put(&pond.at(""), &body).manager("ctrl-a");
    pond.send(&call, &alice()).await.refused_for(&[(".spec.size", OWNED)]);
    assert_eq!(pond.read().await, before);
}

#[tokio::test]
async fn b02_a_user_agent_is_no_identity_either_and_may_be_reserved() {
    let pond = Pond::new("b02").await;
    // The server does record the name of the User-Agent for what alice may write ...
    let mode = Call::merge_patch(&pond.at(""), &json!({"spec": {"mode": "wild"}})).user_agent("ctrl-a/1.0");
    pond.send(&mode, &alice()).await.allowed();
    assert_eq!(pond.holders("f:spec/f:mode").await, ["ctrl-a"]);
    // ... and it gives no right to anything.
    let call = resize(&pond, "XL").user_agent("ctrl-a/1.0");
    pond.send(&call, &alice()).await.refused_for(&[(".spec.size", OWNED)]);

    let reserving =
        format!("subjects: [{SUBJECT_A}]\n    fieldManagers: [{{name: ctrl-a, use: Reserve}}]\n    fields:");
    let policy = policy(&[(&format!("subjects: [{SUBJECT_A}]\n    fields:"), &reserving)]);
    let kind = arena().await.kind("reservingponds", &policy).await;
    let pond = Pond::of(&kind, "b02").await;
    let mode = Call::merge_patch(&pond.at(""), &json!({"spec": {"mode": "wild"}}));
    for borrowed in [mode.clone().user_agent("ctrl-a/1.0"), mode.clone().manager("ctrl-a")] {
        pond.send(&borrowed, &alice()).await.refused_for(&[(WHOLE, MANAGER_RESERVED)]);
    }
    // Nor may it be written into an entry, beside a name of her own.
    let entry = json!({"manager": "ctrl-a", "operation": "Update", "apiVersion": "arena.example.com/v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:shape": {}}}});
    let mut entries = pond.entries().await;
    entries.push(entry);
    let call = Call::put(&pond.at(""), &pond.with_entries(&entries).await).manager("alice");
    pond.send(&call, &alice()).await.refused_for(&[(WHOLE, MANAGER_RESERVED)]);
    pond.send(&mode, &alice()).await.allowed();
    pond.send(&resize(&pond, "XL").user_agent("ctrl-a/1.0"), &controller("ctrl-a")).await.allowed();
}

#[tokio::test]
async fn b03_a_forced_apply_under_the_owners_name_is_judged_by_the_user() {
    let pond = Pond::new("b03").await;
    let before = pond.read().await;
    let taint = json!([{"key": "a", "effect": "NoSchedule", "value": "x"}]);
    let same = json!({"spec": {"size": "XL", "zones": ["a"], "taints": taint}});
    pond.force(&alice(), "ctrl-a", &same).await.refused_for(&[(".spec.size", OWNED)]);
    // What is left out would be un-applied in the owner's name.
    let less = json!({"spec": {"size": "L", "taints": taint}});
    pond.force(&alice(), "ctrl-a", &less).await.refused_for(&[(r#".spec.zones[="a"]"#, OWNED)]);
    assert_eq!(pond.read().await, before);
}

/// The uid that tokens of ctrl-a carry.
async fn uid_of_ctrl_a() -> String {
    let arena = arena().await;
    arena.plane.token("ponds", "ctrl-a").await.unwrap();
    let account = Call::get("").at("/api/v1/namespaces/ponds/serviceaccounts/ctrl-a");
    let account = arena.send(&account, &admin()).await.allowed();
    account["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// A kind whose policy wants of ctrl-a the uid that only the API server's own tokens carry.
async fn pinned() -> &'static Kind {
    static KIND: OnceCell<Kind> = OnceCell::const_new();
    KIND.get_or_init(|| async {
        let subject = SUBJECT_A.replace('}', &format!(", uid: {}}}", uid_of_ctrl_a().await));
        arena().await.kind("pinnedponds", &policy(&[(SUBJECT_A, &subject)])).await
    })
    .await
}

#[tokio::test]
async fn b04_an_impersonated_owner_passes_by_name_and_not_where_the_uid_is_pinned() {
    let impersonated = Identity::impersonated(CTRL_A, &[]);
    let pond = Pond::new("b04").await;
    pond.send(&resize(&pond, "XL"), &impersonated).await.allowed();

    let pond = Pond::of(pinned().await, "b04").await;
    pond.send(&resize(&pond, "XL"), &impersonated).await.refused_for(&[(".spec.size", OWNED)]);
    pond.send(&resize(&pond, "XL"), &controller("ctrl-a")).await.allowed();
}

/// Alice asks for a token of ctrl-a, which RBAC should never let her, and uses it.
async fn minted(bound_to: Option<&str>) -> Identity {
    let arena = arena().await;
    let mut spec = json!({"audiences": [], "expirationSeconds": 3600});
    if let Some(pod) = bound_to {
        let manifest = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod},
            "spec": {"serviceAccountName": "ctrl-a", "containers": [{"name": "c", "image": "none"}]}});
        let call = Call::create("", &manifest).at("/api/v1/namespaces/ponds/pods");
        let uid = arena.send(&call, &admin()).await.allowed()["metadata"]["uid"].clone();
        spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
    }
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let call = Call::create("", &request).at("/api/v1/namespaces/ponds/serviceaccounts/ctrl-a/token");
    let answer = arena.send(&call, &alice()).await.allowed();
    Identity::bearer(CTRL_A, answer["status"]["token"].as_str().unwrap())
}

#[tokio::test]
async fn b05_whoever_can_mint_a_token_is_the_owner_and_a_pinned_pod_narrows_it() {
    let pond = Pond::new("b05").await;
    pond.send(&resize(&pond, "XL"), &minted(None).await).await.allowed();

    let pin = r#", extra: {"authentication.kubernetes.io/pod-name": ctrl-a-0}}"#;
    let policy = policy(&[(SUBJECT_A, &SUBJECT_A.replace('}', pin))]);
    let kind = arena().await.kind("podpinnedponds", &policy).await;
    let pond = Pond::bare_of(&kind, "b05").await;
    for other in [minted(None).await, minted(Some("intruder")).await, controller("ctrl-a")] {
        pond.send(&resize(&pond, "XL"), &other).await.refused_for(&[(".spec.size", OWNED)]);
    }
    pond.send(&resize(&pond, "XL"), &minted(Some("ctrl-a-0")).await).await.allowed();
}

#[tokio::test]
async fn b06_a_certificate_for_the_owners_name_passes_by_name_and_not_where_the_uid_is_pinned() {
    let forged = Identity::person(CTRL_A, &["system:serviceaccounts", "system:serviceaccounts:ponds"]);
    let pond = Pond::new("b06").await;
    pond.send(&resize(&pond, "XL"), &forged).await.allowed();

    let pond = Pond::of(pinned().await, "b06").await;
    pond.send(&resize(&pond, "XL"), &forged).await.refused_for(&[(".spec.size", OWNED)]);
}

#[tokio::test]
async fn b07_a_name_that_only_ends_like_the_owners_is_somebody_else() {
    let pond = Pond::new("b07").await;
    let before = pond.read().await;
    for other in [
        Identity::service_account("evil", "ctrl-a"),
        Identity::service_account("ponds", "ctrl-a2"),
        Identity::person("ctrl-a", &["system:serviceaccounts:ponds"]),
        Identity::person("evil:system:serviceaccount:ponds:ctrl-a", &[]),
        Identity::person("system:serviceaccount:ponds:ctrl-a:x", &[]),
        Identity::person("System:ServiceAccount:ponds:ctrl-a", &[]),
    ] {
        pond.send(&resize(&pond, "XL"), &other).await.refused_for(&[(".spec.size", OWNED)]);
    }
    assert_eq!(pond.read().await, before);
}

#[tokio::test]
async fn b08_an_owner_of_one_field_may_not_write_another_under_its_right_name() {
    let pond = Pond::new("b08").await;
    let before = pond.read().await;
    let ctrl_a = controller("ctrl-a");
    let taint = json!([{"key": "a", "effect": "NoSchedule", "value": "x"}]);
    let own_and_more = json!({"spec": {"size": "XL", "zones": ["a"], "taints": taint, "limits": {"cpu": 8}}});
    pond.force(&ctrl_a, "ctrl-a", &own_and_more).await.refused_for(&[(".spec.limits.cpu", OWNED)]);
    let body = pond.edited("/spec/limits/cpu", json!(8)).await;
    let call = Call::put(&pond.at(""), &body).manager("ctrl-a");
    pond.send(&call, &ctrl_a).await.refused_for(&[(".spec.limits.cpu", OWNED)]);
    assert_eq!(pond.read().await, before);
}

fn warns_of(reply: &Reply, text: &str) -> bool {
    reply.warnings.iter().any(|warning| warning.contains(text))
}

#[tokio::test]
async fn b09_a_required_manager_name_must_come_with_the_options() {
    let requiring = |subject: &str, manager: &str, more: &str| {
        format!(
            "subjects: [{subject}]\n    fieldManagers: [{{name: {manager}, use: Require}}]\n{more}    fields:"
        )
    };
    let policy = policy(&[
        (&format!("subjects: [{SUBJECT_A}]\n    fields:"), &requiring(SUBJECT_A, "ctrl-a", "")),
        (
            &format!("subjects: [{SUBJECT_B}]\n    fields:"),
            &requiring(SUBJECT_B, "ctrl-b", "    mode: Warn\n"),
        ),
    ]);
    let kind = arena().await.kind("requiringponds", &policy).await;
    let pond = Pond::of(&kind, "b09").await;
    let ctrl_a = controller("ctrl-a");
    let before = pond.read().await;
    let unnamed = resize(&pond, "XL");
    for call in [unnamed.clone(), unnamed.clone().user_agent("ctrl-a/1.0"), unnamed.clone().manager("other")]
    {
        pond.send(&call, &ctrl_a).await.refused_for(&[(".spec.size", MANAGER_REQUIRED)]);
    }
    assert_eq!(pond.read().await, before);
    pond.send(&unnamed.manager("ctrl-a"), &ctrl_a).await.allowed();

    // While it is being rolled out, the same is only said.
    let limits = Call::merge_patch(&pond.at(""), &json!({"spec": {"limits": {"cpu": 8}}}));
    let reply = pond.send(&limits, &controller("ctrl-b")).await;
    assert!(warns_of(&reply, ".spec.limits.cpu"), "{:?}", reply.warnings);
    let stored: Value = reply.allowed();
    assert_eq!(stored["spec"]["limits"]["cpu"], 8);
}
