//! A control plane with fieldkeeper's CRDs, rights, registration and policy controller, and no webhook behind it.
//!
//! Input: manifests of this repository. Output: [`Ground`], one at a time: policies are objects of the whole cluster.
//! Must not: run the controller with more rights than it is shipped with.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::{PATIENCE, by_admission_policy};
use crate::arena::{Call, Reply, send, send_to};
use crate::harness::{ControlPlane, Identity, NAMESPACE, Options, Process, eventually, repository};
use fieldkeeper::cluster::policies;

const RULES: &str = "ponds.fieldpolicies.fieldkeeper.dev";
const RIGHTS: &str = "fieldkeeper-policy-controller-admission-policies";

/// RBAC lets everybody do everything with ponds and deployments, and nothing else: the controller has the shipped
/// rights.
const PONDS_RBAC: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ponds}
rules:
- {apiGroups: [arena.example.com], resources: ["*"], verbs: ["*"]}
- {apiGroups: [apps], resources: [deployments, deployments/scale], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ponds}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ponds}
subjects: [{kind: Group, name: "system:authenticated", apiGroup: rbac.authorization.k8s.io}]
"#;

/// The control plane of these tests, and what a test does to it.
pub struct Ground {
    pub plane: &'static ControlPlane,
    client: Client,
    controller: Option<Process>,
    _alone: MutexGuard<'static, ()>,
}

impl Ground {
    pub async fn new() -> Self {
        static PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
        static ALONE: Mutex<()> = Mutex::const_new(());
        let alone = ALONE.lock().await;
        let plane = PLANE.get_or_init(|| async { ControlPlane::start(Options::full()).await.unwrap() }).await;
        let mut ground =
            Self { plane, client: plane.admin().await.unwrap(), controller: None, _alone: alone };
        for folder in ["crds", "deploy/base", "webhooks"] {
            let folder = repository(folder);
            let args =
                ["apply", "--server-side", "--field-manager=installer", "-k", folder.to_str().unwrap()];
            plane.kubectl(&args).await.unwrap().ok().unwrap();
        }
        plane.apply(PONDS_RBAC).await.unwrap();
        plane.apply(include_str!("../../data/arena-crd.yaml")).await.unwrap();
        let list = Call::get("ponds");
        let admin = Identity::admin();
        let served = async || (send_to(plane, &list, &admin).await.code == 200).then_some(());
        eventually("the kind to be served", PATIENCE, served).await.unwrap();
        ground.restart().await;
        ground.clear().await;
        ground
    }

    /// Ends the controller, and says what it thinks of that.
    pub async fn end(mut self) {
        self.stop().await;
    }

    /// Takes everything away that a test has left.
    async fn clear(&self) {
        self.delete_policy().await;
        self.generated("none", 0).await;
        let gone = [
            "delete",
            "mutatingadmissionpolicy,mutatingadmissionpolicybinding",
            "sizes",
            "--ignore-not-found",
        ];
        // Some releases have none.
        let _ = self.plane.kubectl(&gone).await.unwrap();
        // The API server forgets what is deleted a second later: until then an old rule would pass for a new one.
        self.pond("probe", &json!({})).await;
        let change = Call::merge_patch("ponds/probe", &json!({"spec": {"size": "free"}})).dry_run();
        let bob = Identity::person("bob", &[]);
        self.until("rules of other tests to be gone", async || {
            let reply = self.send(&change, &bob).await;
            (reply.code == 200 && reply.body["spec"]["size"] == "free").then_some(())
        })
        .await;
        let kind = GroupVersionKind::gvk("arena.example.com", "v1", "Pond");
        let ponds: Api<DynamicObject> = Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind));
        let free = json!({"metadata": {"finalizers": null}});
        for pond in ponds.list(&ListParams::default()).await.unwrap() {
            let name = pond.metadata.name.unwrap();
            self.send(&Call::merge_patch(&format!("ponds/{name}"), &free), &maker()).await;
            self.send(&Call::delete(&format!("ponds/{name}")), &maker()).await;
        }
    }

    /// Starts the controller as its service account, after one that may run.
    pub async fn restart(&mut self) {
        self.stop().await;
        let account = Identity::service_account(NAMESPACE, "policy-controller");
        let args = ["controller", "policy"];
        let process = self.plane.start_fieldkeeper("policy-controller", &account, &args, &[]).await.unwrap();
        self.controller = Some(process);
    }

    /// Ends the controller as a cluster would.
    pub async fn stop(&mut self) {
        if let Some(mut process) = self.controller.take() {
            let status = process.stop(Duration::from_secs(5)).await.unwrap();
            assert!(status.success(), "{status}\n{}", process.log_tail());
        }
    }

    pub async fn send(&self, call: &Call, who: &Identity) -> Reply {
        send_to(self.plane, call, who).await
    }

    /// Sends as a dry run until a generated admission policy refuses: the API server learns of it by watching.
    pub async fn until_refused(&self, call: &Call, who: &Identity) {
        let call = call.clone().dry_run();
        self.until("a refusal", async || {
            let reply = self.send(&call, who).await;
            by_admission_policy(&reply).then_some(())
        })
        .await;
    }

    pub async fn until<T>(&self, what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
        let log = || self.controller.as_ref().map(Process::log_tail).unwrap_or_default();
        match eventually(what, PATIENCE, || ask()).await {
            Ok(found) => found,
            Err(error) => panic!("{error}\n{}", log()),
        }
    }

    /// Makes an object past the rules.
    pub async fn pond(&self, name: &str, spec: &Value) -> Value {
        let body = json!({
            "apiVersion": "arena.example.com/v1", "kind": "Pond", "metadata": {"name": name}, "spec": spec,
        });
        // Applied, so that no later writer shares the entry.
        self.send(&Call::apply(&format!("ponds/{name}"), "maker", &body), &maker()).await.allowed()
    }

    /// The rules, once the API server has checked their types, where it does.
    pub async fn checked_rules(&self) -> Value {
        self.until("the rules to be checked", async || {
            let rules = serde_json::to_value(self.all_rules().get_opt(RULES).await.ok()??).ok()?;
            let checked = rules["status"]["observedGeneration"] == rules["metadata"]["generation"];
            (checked || !self.plane.has_controller_manager()).then_some(rules)
        })
        .await
    }

    fn policies(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &policies::resource())
    }

    pub async fn write(&self, policy: &Value) {
        let params = PatchParams::apply("author").force();
        self.policies().patch("ponds", &params, &Patch::Apply(policy)).await.unwrap();
    }

    pub async fn delete_policy(&self) {
        let _ = self.policies().delete("ponds", &DeleteParams::default()).await;
    }

    fn all_rules(&self) -> Api<ValidatingAdmissionPolicy> {
        Api::all(self.client.clone())
    }

    pub async fn rules(&self) -> Value {
        serde_json::to_value(self.all_rules().get(RULES).await.unwrap()).unwrap()
    }

    /// Waits until there are so many generated policies and bindings.
    pub async fn generated(&self, what: &str, count: usize) {
        let label = ListParams::default().labels("fieldkeeper.dev/generated-from=ponds");
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.client.clone());
        self.until(&format!("generated objects: {what}"), async || {
            let policies = self.all_rules().list(&label).await.ok()?.items.len();
            let bindings = bindings.list(&label).await.ok()?.items.len();
            (policies == count && bindings == count).then_some(())
        })
        .await;
    }

    /// The message of the condition `Registered`, once it is about the present spec and holds `text`.
    pub async fn message_of_registered(&self, text: &str) -> String {
        self.until(&format!("Registered to say {text:?}"), async || {
            let policy = serde_json::to_value(self.policies().get("ponds").await.ok()?).ok()?;
            let conditions = policy["status"]["conditions"].as_array()?;
            let condition = conditions.iter().find(|condition| condition["type"] == "Registered")?;
            let current = condition["observedGeneration"] == policy["metadata"]["generation"];
            let message = condition["message"].as_str()?.to_owned();
            (current && message.contains(text)).then_some(message)
        })
        .await
    }

    /// Somebody edits the generated rules.
    pub async fn weaken(&self) {
        let fields = Patch::Merge(json!({"spec": {"validations": [{"expression": "true"}]}}));
        self.all_rules().patch(RULES, &PatchParams::default(), &fields).await.unwrap();
    }

    /// As the API server's type checker reports.
    pub async fn warn_of(&self, field: &str, warning: &str) {
        let warnings = json!([{"fieldRef": field, "warning": warning}]);
        let status = Patch::Merge(json!({"status": {"typeChecking": {"expressionWarnings": warnings}}}));
        self.all_rules().patch_status(RULES, &PatchParams::default(), &status).await.unwrap();
    }

    pub async fn take_rights(&self) {
        self.plane.kubectl(&["delete", "clusterrolebinding", RIGHTS]).await.unwrap().ok().unwrap();
    }

    /// A mutating admission policy that sets the size in whatever bob writes; false where the release has none.
    pub async fn mutate_size_of_what_bob_writes(&self) -> bool {
        if !mutates(&self.client).await {
            return false;
        }
        let policy = include_str!("../../data/mutating-policy.yaml");
        self.plane.apply(policy).await.unwrap();
        true
    }
}

/// Passes all rules.
fn maker() -> Identity {
    Identity::person("maker", &["fieldkeeper.dev:bypass"])
}

/// Whether the API server has mutating admission policies.
pub async fn mutates(client: &Client) -> bool {
    let version = send(client, &Call::get("").at("/version")).await.allowed();
    let minor: u32 = version["minor"].as_str().unwrap().trim_end_matches('+').parse().unwrap();
    minor >= 36
}
