//! A copy of the arena's kind under a name of its own, for tests that need another policy, another CRD or both.

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{Arena, Call, PATIENCE, Reply, alice, arena};
use crate::harness::{ControlPlane, Identity, eventually};

/// Who may do everything, as RBAC has it.
pub fn root() -> Identity {
    Identity::admin()
}

/// A kind for one test: its CRD, its policy of the same name, and that the policy is judged by.
pub struct OwnKind {
    pub arena: &'static Arena,
    pub plural: String,
    type_name: String,
}

impl OwnKind {
    /// Plural `<name>ponds` under `spec` of a FieldPolicy, to which the target is added.
    pub async fn new(name: &str, spec: Value) -> Self {
        Self::with_crd(name, spec, |_| {}).await
    }

    /// The same, with a change to the copied CRD.
    pub async fn with_crd(name: &str, spec: Value, change: impl FnOnce(&mut Value)) -> Self {
        let arena = arena().await;
        let this = Self { arena, plural: format!("{name}ponds"), type_name: format!("Pond{name}") };
        let mut crd = this.crd();
        change(&mut crd);
        arena.plane.apply(&crd.to_string()).await.unwrap();
        let call = |version: &str| Call::get(&this.plural).version(version);
        let served: Vec<String> = crd["spec"]["versions"].as_array().unwrap().iter().map(name_of).collect();
        for version in &served {
            let listed = async || (arena.send(&call(version), &root()).await.code == 200).then_some(());
            eventually(&format!("{} in {version}", this.plural), PATIENCE, listed).await.unwrap();
        }
        // Nobody may set the probe's field: as soon as that is refused, the policy is judged by.
        if crd["spec"]["scope"] == "Cluster" {
            this.create(&root(), "probe", &json!({})).await.allowed();
            this.enforce(spec).await;
        } else {
            this.register(spec).await;
        }
        this
    }

    /// The arena's CRD under another name.
    fn crd(&self) -> Value {
        let text = include_str!("../../data/arena-crd.yaml").replace("ponds", &self.plural);
        let mut crd: Value = serde_saphyr::from_str(&text).unwrap();
        let names =
            json!({"kind": self.type_name, "plural": self.plural, "singular": self.type_name.to_lowercase()});
        crd["spec"]["names"] = names;
        crd
    }

    /// Puts another spec in place of the policy's and waits until writes are judged by it.
    pub async fn enforce(&self, spec: Value) {
        self.register(spec).await;
        let probe = Call::merge_patch(&self.at("probe"), &json!({"data": {"probe": "x"}})).dry_run();
        self.arena.until_refused(&probe, &alice()).await;
    }

    /// Writes the policy and waits until it is registered.
    pub async fn register(&self, mut spec: Value) {
        if spec.get("target").is_none() {
            spec["target"] = json!({"group": "arena.example.com", "version": "v1", "resource": self.plural});
        }
        let probe = json!({"name": "probe", "mode": "Enforce", "fields": [{"path": ".data.probe"}]});
        let owners = spec.as_object_mut().unwrap().entry("owners").or_insert_with(|| json!([]));
        owners.as_array_mut().unwrap().push(probe);
        apply_policy(self.arena.plane, &self.plural, &spec).await;
    }

    /// What the API server and fieldkeeper have for this kind.
    pub fn at(&self, rest: &str) -> String {
        format!("{}/{rest}", self.plural)
    }

    /// An object of this kind with these fields.
    pub fn object(&self, name: &str, fields: &Value) -> Value {
        let mut object =
            json!({"apiVersion": "arena.example.com/v1", "kind": self.type_name, "metadata": {}});
        super::pond::merge(&mut object, fields);
        object["metadata"]["name"] = json!(name);
        object
    }

    pub async fn create(&self, who: &Identity, name: &str, fields: &Value) -> Reply {
        self.send(&Call::create(&self.plural, &self.object(name, fields)), who).await
    }

    pub async fn patch(&self, who: &Identity, name: &str, fields: &Value) -> Reply {
        self.send(&Call::merge_patch(&self.at(name), fields), who).await
    }

    pub async fn read(&self, name: &str) -> Value {
        self.send(&Call::get(&self.at(name)), &root()).await.allowed()
    }

    pub async fn send(&self, call: &Call, who: &Identity) -> Reply {
        self.arena.send(call, who).await
    }

    /// A JSON patch of the CRD.
    pub async fn patch_crd(&self, patch: &Value) {
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/";
        let call = Call::json_patch("", patch).at(&format!("{crds}{}.arena.example.com", self.plural));
        self.send(&call, &root()).await.allowed();
    }

    /// Takes CRD and policy away: what converts the kind ends with the test.
    pub async fn remove(self) {
        let policy = format!("/apis/fieldkeeper.dev/v1alpha1/fieldpolicies/{}", self.plural);
        self.send(&Call::delete("").at(&policy), &root()).await.allowed();
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let crd = format!("{crds}/{}.arena.example.com", self.plural);
        self.send(&Call::delete("").at(&crd), &root()).await.allowed();
        let gone = async || (self.send(&Call::get("").at(&crd), &root()).await.code == 404).then_some(());
        eventually("the CRD to be gone", PATIENCE, gone).await.unwrap();
    }

    /// Waits until a condition of the policy has this status and reason, and returns its message.
    pub async fn condition(&self, kind: &str, status: &str, reason: &str) -> String {
        condition(self.arena.plane, &self.plural, kind, status, reason).await
    }
}

fn name_of(version: &Value) -> String {
    version["name"].as_str().unwrap().to_owned()
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
