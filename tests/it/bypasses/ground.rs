//! A control plane for what must not happen to the one that other tests use.
//!
//! Input: the shipped installation and a copy of the arena's kind. Output: [`Ground`], to one test at a time.
//! Must not: let a test leave it broken for the next.

use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::arena::{Call, PATIENCE, Reply, alice, apply_policy, root, send_to};
use crate::harness::{ControlPlane, Identity, Installation, Options, eventually};

/// Where things may be broken; one test at a time.
pub struct Ground {
    pub plane: ControlPlane,
    pub fieldkeeper: Installation,
}

/// RBAC as somebody might have granted it too freely: writers of ponds who may also edit and delete CRDs.
const RBAC: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pond-writers}
rules:
- {apiGroups: [arena.example.com], resources: ["*"], verbs: ["*"]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: pond-writers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pond-writers}
subjects:
- {kind: User, name: alice, apiGroup: rbac.authorization.k8s.io}
- {kind: Group, name: platform-admins, apiGroup: rbac.authorization.k8s.io}
"#;

pub async fn ground() -> MutexGuard<'static, Ground> {
    static GROUND: OnceCell<Mutex<Ground>> = OnceCell::const_new();
    let ground = GROUND.get_or_init(|| async {
        let plane = ControlPlane::start(Options::api_only()).await.unwrap();
        let fieldkeeper = plane.install_fieldkeeper().await.unwrap();
        let ground = Ground { plane, fieldkeeper };
        ground.plane.apply(RBAC).await.unwrap();
        ground.kind("ponds", "Fail").await;
        ground.kind("openponds", "Ignore").await;
        Mutex::new(ground)
    });
    ground.await.lock().await
}

impl Ground {
    /// A copy of the arena's kind whose `.spec.size` is ann's, and one object `x` of it.
    pub async fn kind(&self, plural: &str, failure_policy: &str) {
        let crd = include_str!("../../data/arena-crd.yaml").replace("ponds", plural);
        let kind = plural.trim_end_matches('s');
        let crd = crd.replace("kind: Pond,", &format!("kind: {kind},"));
        let crd = crd.replace("singular: pond}", &format!("singular: {kind}}}"));
        self.plane.apply(&crd).await.unwrap();
        let object = json!({"apiVersion": "arena.example.com/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {"size": "L"}});
        let created = async || {
            let reply = self.send(&Call::create(plural, &object), &root()).await;
            (reply.code == 201).then_some(())
        };
        eventually("the kind to be served", PATIENCE, created).await.unwrap();
        let policy = json!({
            "target": {"group": "arena.example.com", "version": "v1", "resource": plural},
            "mode": "Enforce", "failurePolicy": failure_policy, "creation": {"policy": "Anyone"},
            "owners": [{"name": "ann", "subjects": [{"kind": "User", "name": "ann"}], "fields": [{"path": ".spec.size"}]}],
        });
        apply_policy(&self.plane, plural, &policy).await;
        self.until_refused(&size(plural, "probe").dry_run(), &alice()).await;
    }

    pub async fn send(&self, call: &Call, who: &Identity) -> Reply {
        send_to(&self.plane, call, who).await
    }

    pub async fn until_refused(&self, call: &Call, who: &Identity) {
        let refused = async || self.send(call, who).await.is_refused().then_some(());
        eventually("a refusal", PATIENCE, refused).await.unwrap();
    }

    pub async fn stored_size(&self, plural: &str) -> Value {
        let object = self.send(&Call::get(&format!("{plural}/x")), &root()).await.allowed();
        object["spec"]["size"].clone()
    }
}

/// A write of ann's field.
pub fn size(plural: &str, size: &str) -> Call {
    Call::merge_patch(&format!("{plural}/x"), &json!({"spec": {"size": size}}))
}
