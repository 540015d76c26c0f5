//! A kind under a policy of the test's own, written as JSON.

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{Call, Kind, PATIENCE, Reply, alice, arena};
use crate::harness::{ControlPlane, Identity, eventually};

/// Who may do everything, as RBAC has it.
pub fn root() -> Identity {
    Identity::admin()
}

impl Kind {
    /// A fresh kind of this plural under `spec` of a FieldPolicy, to which the target is added.
    pub async fn under(plural: &str, spec: Value) -> Self {
        Self::with_crd(plural, spec, |_| {}).await
    }

    /// The same, with a change to the copied CRD.
    pub async fn with_crd(plural: &str, spec: Value, change: impl FnOnce(&mut Value)) -> Self {
        let this = Self::cluster_wide(plural);
        let mut namespaced = false;
        this.define(|crd| {
            change(crd);
            namespaced = crd["spec"]["scope"] == "Namespaced";
        })
        .await;
        if namespaced {
            this.register(spec).await;
        } else {
            this.govern(spec).await;
        }
        this
    }

    /// Puts a policy, for the first time or another one, on this kind and waits until writes are judged by it.
    pub async fn govern(&self, spec: Value) {
        // Nobody may set the probe's field: as soon as that is refused, the policy is judged by.
        let created = self.create(&root(), "probe", &json!({})).await;
        assert!([201, 409].contains(&created.code), "{} {}", created.code, created.body);
        self.register(spec).await;
        let probe = Call::merge_patch(&self.at("probe"), &json!({"data": {"probe": "x"}})).dry_run();
        arena().await.until_refused(&probe, &alice()).await;
    }

    /// Writes the policy and waits until it is registered.
    pub async fn register(&self, mut spec: Value) {
        if spec.get("target").is_none() {
            spec["target"] = json!({"group": "arena.example.com", "version": "v1", "resource": self.plural});
        }
        let probe = json!({"name": "probe", "mode": "Enforce", "fields": [{"path": ".data.probe"}]});
        let owners = spec.as_object_mut().unwrap().entry("owners").or_insert_with(|| json!([]));
        owners.as_array_mut().unwrap().push(probe);
        apply_policy(arena().await.plane, &self.plural, &spec).await;
    }

    /// What the API server has for this kind, below its collection.
    pub fn at(&self, rest: &str) -> String {
        format!("{}/{rest}", self.resource())
    }

    pub async fn create(&self, who: &Identity, name: &str, fields: &Value) -> Reply {
        self.send(&Call::create(&self.resource(), &self.object(name, fields)), who).await
    }

    pub async fn patch(&self, who: &Identity, name: &str, fields: &Value) -> Reply {
        self.send(&Call::merge_patch(&self.at(name), fields), who).await
    }

    pub async fn read(&self, name: &str) -> Value {
        self.send(&Call::get(&self.at(name)), &root()).await.allowed()
    }

    pub async fn send(&self, call: &Call, who: &Identity) -> Reply {
        arena().await.send(call, who).await
    }

    /// A JSON patch of the CRD.
    pub async fn patch_crd(&self, patch: &Value) {
        let call = Call::json_patch("", patch).at(&self.crd_path());
        self.send(&call, &root()).await.allowed();
    }

    /// Takes the kind away, with its policy and its objects.
    pub async fn remove(&self) {
        let policy = format!("/apis/fieldkeeper.dev/v1alpha1/fieldpolicies/{}", self.plural);
        for path in [policy, self.crd_path()] {
            self.send(&Call::delete("").at(&path), &root()).await.allowed();
        }
    }

    /// Waits until it is gone: what converts a kind ends with the test.
    pub async fn gone(&self) {
        let crd = Call::get("").at(&self.crd_path());
        let gone = async || (self.send(&crd, &root()).await.code == 404).then_some(());
        eventually("the CRD to be gone", PATIENCE, gone).await.unwrap();
    }

    fn crd_path(&self) -> String {
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        format!("{crds}/{}.arena.example.com", self.plural)
    }

    /// Waits until a condition of the policy has this status and reason, and returns its message.
    pub async fn condition(&self, kind: &str, status: &str, reason: &str) -> String {
        condition(arena().await.plane, &self.plural, kind, status, reason).await
    }
}

fn policies(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("fieldkeeper.dev", "v1alpha1", "FieldPolicy");
    Api::all_with(client, &ApiResource::from_gvk(&kind))
}

/// Writes a policy and waits until it is registered.
pub async fn apply_policy(plane: &ControlPlane, name: &str, spec: &Value) {
    let policy = json!({"apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy",
        "metadata": {"name": name}, "spec": spec});
    plane.apply(&policy.to_string()).await.unwrap();
    condition(plane, name, "Accepted", "True", "Accepted").await;
    condition(plane, name, "Registered", "True", "Registered").await;
}

/// Waits until a condition of a policy has this status and reason for its present generation.
pub async fn condition(plane: &ControlPlane, name: &str, kind: &str, status: &str, reason: &str) -> String {
    let api = policies(plane.admin().await.unwrap());
    let ask = async || {
        let object = api.get(name).await.ok()?;
        let conditions = object.data.pointer("/status/conditions")?.as_array()?;
        let found = conditions.iter().find(|condition| {
            condition["type"] == kind
                && condition["status"] == status
                && condition["reason"] == reason
                && condition["observedGeneration"] == json!(object.metadata.generation)
        });
        Some(found?["message"].as_str().unwrap_or_default().to_owned())
    };
    eventually(&format!("{name}: {kind}={status} ({reason})"), PATIENCE, ask).await.unwrap()
}
