//! A control plane with fieldkeeper's CRDs, rights and registration, emptied for each test.
//!
//! Input: manifests of this repository. Output: [`Ground`], one at a time: policies and the registration are
//! objects of the whole cluster. Must not: run the controller with more rights than it is shipped with.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhook, ValidatingWebhookConfiguration};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::runtime::watcher;
use kube::{Api, Client, CustomResourceExt};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::PATIENCE;
use crate::harness::{ControlPlane, Identity, NAMESPACE, Options, Process, eventually, fieldkeeper};
use fieldkeeper::api::FieldPolicy;
use fieldkeeper::cluster::policies;

/// Target of NodePools, as JSON.
pub const POOLS: &str =
    r#"{"group": "compute.fieldkeeper.dev", "version": "v1alpha1", "resource": "nodepools"}"#;
/// Target of a kind that does not exist.
pub const NOBODY: &str = r#"{"group": "example.com", "version": "v1", "resource": "unheards"}"#;

const CONFIGURATION: &str = "fieldkeeper";

/// A FieldPolicy with one owner.
pub fn policy(name: &str, target: &str, rest: &Value) -> Value {
    let mut spec = json!({
        "target": serde_json::from_str::<Value>(target).unwrap(),
        "owners": [{"name": "people", "subjects": [{"kind": "Group", "name": "people"}], "fields": [{"path": ".spec"}]}],
    });
    for (key, value) in rest.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy", "metadata": {"name": name}, "spec": spec})
}

/// The control plane of these tests, and what a test does to it.
pub struct Ground {
    plane: &'static ControlPlane,
    client: Client,
    controller: Option<Process>,
    _alone: MutexGuard<'static, ()>,
}

impl Ground {
    pub async fn new() -> Self {
        static PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
        static ALONE: Mutex<()> = Mutex::const_new(());
        let alone = ALONE.lock().await;
        let plane =
            PLANE.get_or_init(|| async { ControlPlane::start(Options::api_only()).await.unwrap() }).await;
        let ground = Self { plane, client: plane.admin().await.unwrap(), controller: None, _alone: alone };
        ground.install_crds().await;
        ground.apply_folder("deploy/base").await;
        let none = ListParams::default();
        ground.policies().delete_collection(&DeleteParams::default(), &none).await.unwrap();
        let leases: Api<Lease> = Api::namespaced(ground.client.clone(), NAMESPACE);
        leases.delete_collection(&DeleteParams::default(), &none).await.unwrap();
        ground.remove_registration().await;
        ground.install_registration().await;
        ground
    }

    pub fn plane(&self) -> &'static ControlPlane {
        self.plane
    }

    async fn apply_folder(&self, folder: &str) {
        let folder = format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"));
        let args = ["apply", "--server-side", "--field-manager=installer", "-k", &folder];
        self.plane.kubectl(&args).await.unwrap().ok().unwrap();
    }

    pub async fn install_crds(&self) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for crd in fieldkeeper::api::crds() {
            let name = crd.metadata.name.clone().unwrap();
            crds.patch(&name, &PatchParams::apply("installer"), &Patch::Apply(&crd)).await.unwrap();
        }
        eventually("the CRDs to be served", PATIENCE, async || {
            self.policies().list(&ListParams::default()).await.ok()
        })
        .await
        .unwrap();
    }

    /// Takes every check out of the FieldPolicy CRD; [`Self::install_crds`] puts them back.
    pub async fn loosen_policy_crd(&self) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let name = FieldPolicy::crd_name();
        let crd = fieldkeeper::api::crds().into_iter().find(|crd| crd.metadata.name.as_deref() == Some(name));
        let mut crd = serde_json::to_value(crd.unwrap()).unwrap();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        crds.patch(name, &PatchParams::apply("installer"), &Patch::Apply(&crd)).await.unwrap();
    }

    /// Writes a policy as soon as the CRD in force lets it.
    pub async fn write_when_possible(&self, policy: &Value) {
        let name = policy["metadata"]["name"].as_str().unwrap();
        eventually("a CRD without checks", PATIENCE, async || {
            self.policies().patch(name, &PatchParams::apply("author"), &Patch::Apply(policy)).await.ok()
        })
        .await
        .unwrap();
    }

    pub async fn lose_policy_crd(&self) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let name = FieldPolicy::crd_name();
        crds.delete(name, &DeleteParams::default()).await.unwrap();
        eventually("the CRD to be gone", PATIENCE, async || {
            crds.get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await
        .unwrap();
    }

    pub async fn install_registration(&self) {
        self.apply_folder("webhooks").await;
    }

    pub async fn remove_registration(&self) {
        let deleted = self.configurations().delete(CONFIGURATION, &DeleteParams::default()).await;
        if let Err(error) = deleted {
            assert!(matches!(&error, kube::Error::Api(status) if status.is_not_found()), "{error}");
        }
    }

    /// Starts the controller as its service account.
    pub async fn start(&mut self) {
        let account = Identity::service_account(NAMESPACE, "policy-controller");
        let kubeconfig = self.plane.kubeconfig(&account).await.unwrap();
        let program = fieldkeeper().unwrap();
        let args = ["controller", "policy"];
        let process = self.plane.run_beside("policy-controller", &program, &kubeconfig, &args, &[]).unwrap();
        self.controller = Some(process);
    }

    /// Ends the controller as a cluster would.
    pub async fn stop(&mut self) {
        let mut process = self.controller.take().unwrap();
        let status = process.stop(Duration::from_secs(5)).await.unwrap();
        assert!(status.success(), "{status}\n{}", process.log_tail());
    }

    /// Waits until the controller's log holds `text`.
    pub async fn says(&mut self, text: &str) {
        self.controller.as_mut().unwrap().wait_for_log(text, PATIENCE).await.unwrap();
    }

    fn policies(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &policies::resource())
    }

    fn configurations(&self) -> Api<ValidatingWebhookConfiguration> {
        Api::all(self.client.clone())
    }

    pub async fn write(&self, policy: &Value) {
        let name = policy["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply("author").force();
        self.policies().patch(name, &params, &Patch::Apply(policy)).await.unwrap();
    }

    pub async fn delete(&self, name: &str) {
        self.policies().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn policy(&self, name: &str) -> Value {
        serde_json::to_value(self.policies().get(name).await.unwrap()).unwrap()
    }

    async fn configuration(&self) -> ValidatingWebhookConfiguration {
        self.configurations().get(CONFIGURATION).await.unwrap()
    }

    async fn webhook(&self, entry: &str) -> ValidatingWebhook {
        let webhooks = self.configuration().await.webhooks.unwrap();
        webhooks.into_iter().find(|webhook| webhook.name == entry).unwrap()
    }

    pub async fn rules(&self, entry: &str) -> Vec<Value> {
        let rules = self.webhook(entry).await.rules.unwrap_or_default();
        rules.into_iter().map(|rule| serde_json::to_value(rule).unwrap()).collect()
    }

    /// Which entries have which targets, in the order of the manifest.
    pub async fn entries(&self) -> Vec<(&'static str, &'static str)> {
        entries(&self.configuration().await)
    }

    /// Waits until exactly these targets are in these entries.
    pub async fn registered(&self, what: &str, expected: &[(&str, &str)]) {
        let mut seen = Vec::new();
        let found = eventually(what, PATIENCE, async || {
            let now = self.entries().await;
            (now == expected).then_some(())
        })
        .await;
        if found.is_err() {
            seen = self.entries().await;
        }
        let log = self.controller.as_ref().map(Process::log_tail).unwrap_or_default();
        assert!(found.is_ok(), "{what}: expected {expected:?}, there is {seen:?}\n{log}");
    }

    /// Waits until a condition has this reason, and returns its status.
    pub async fn condition(&self, policy: &str, type_: &str, reason: &str) -> String {
        let what = format!("condition {type_} of {policy} with reason {reason}");
        let found = eventually(&what, PATIENCE, async || {
            let policy = self.policy(policy).await;
            let condition = condition(&policy, type_)?;
            let current = condition["observedGeneration"] == policy["metadata"]["generation"];
            (condition["reason"] == reason && current)
                .then(|| condition["status"].as_str().unwrap().to_owned())
        })
        .await;
        match found {
            Ok(status) => status,
            Err(error) => panic!(
                "{error}: {:#}\n{}",
                self.policy(policy).await["status"],
                self.controller.as_ref().map(Process::log_tail).unwrap_or_default()
            ),
        }
    }

    pub async fn message(&self, policy: &str, type_: &str) -> String {
        let policy = self.policy(policy).await;
        condition(&policy, type_).unwrap()["message"].as_str().unwrap().to_owned()
    }

    /// As cert-manager's cainjector: a forced apply of `caBundle` alone.
    pub async fn inject_ca(&self, entries: &[&str]) {
        let bundle = self.plane.authority().certificate().as_bytes().to_vec();
        let webhooks: Vec<_> = entries
            .iter()
            .map(|name| json!({"name": name, "clientConfig": {"caBundle": ByteString(bundle.clone())}}))
            .collect();
        self.apply_configuration("cert-manager-cainjector", &json!({ "webhooks": webhooks })).await;
    }

    pub async fn ca(&self, entry: &str) -> Option<ByteString> {
        self.webhook(entry).await.client_config.ca_bundle
    }

    /// An installer that lists rules where it should not.
    pub async fn list_rules_as(&self, manager: &str, entry: &str) {
        let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]);
        self.apply_configuration(manager, &json!({"webhooks": [{"name": entry, "rules": rules}]})).await;
    }

    pub async fn label_registration(&self) {
        self.apply_configuration("somebody", &json!({"metadata": {"labels": {"some": "label"}}})).await;
    }

    async fn apply_configuration(&self, manager: &str, fields: &Value) {
        let mut object = fields.clone();
        object["apiVersion"] = "admissionregistration.k8s.io/v1".into();
        object["kind"] = "ValidatingWebhookConfiguration".into();
        object["metadata"]["name"] = CONFIGURATION.into();
        let params = PatchParams::apply(manager).force();
        self.configurations().patch(CONFIGURATION, &params, &Patch::Apply(&object)).await.unwrap();
    }

    /// Who holds rules of the entries that are ours to fill.
    pub async fn managers_of_rules(&self) -> Vec<String> {
        let held = self.configuration().await.metadata.managed_fields.unwrap();
        let mut managers: Vec<String> = held
            .into_iter()
            .filter(|entry| {
                let webhooks = entry.fields_v1.as_ref().map(|fields| fields.0["f:webhooks"].clone());
                webhooks.as_ref().and_then(Value::as_object).into_iter().flatten().any(|(key, fields)| {
                    !key.contains("policies.fieldkeeper.dev") && fields.get("f:rules").is_some()
                })
            })
            .filter_map(|entry| entry.manager)
            .collect();
        managers.dedup();
        managers
    }

    /// resourceVersions of a policy and of the registration.
    pub async fn versions(&self, policy: &str) -> (String, String) {
        let policy = self.policies().get(policy).await.unwrap().metadata.resource_version.unwrap();
        (policy, self.configuration().await.metadata.resource_version.unwrap())
    }

    /// Every state of the registration from now on.
    pub async fn history(&self) -> History {
        let config = watcher::Config::default().fields(&format!("metadata.name={CONFIGURATION}"));
        let mut events = watcher::watcher(self.configurations(), config).boxed();
        let mut states = Vec::new();
        // Up to the first list, so that nothing is missed.
        loop {
            match events.next().await.unwrap().unwrap() {
                watcher::Event::InitApply(configuration) => states.push(configuration),
                watcher::Event::InitDone => break,
                _ => {}
            }
        }
        History { states, events }
    }
}

fn condition(policy: &Value, type_: &str) -> Option<Value> {
    let conditions = policy["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == type_).cloned()
}

fn entries(configuration: &ValidatingWebhookConfiguration) -> Vec<(&'static str, &'static str)> {
    const ENTRIES: [&str; 4] = [super::ENFORCE, super::OPEN, super::OBSERVE, super::BYPASS];
    const TARGETS: [&str; 4] = ["nodepools", "unheards", "pods", "kettles"];
    let mut found = Vec::new();
    for webhook in configuration.webhooks.iter().flatten() {
        let Some(entry) = ENTRIES.into_iter().find(|entry| *entry == webhook.name) else { continue };
        for rule in webhook.rules.iter().flatten() {
            let resource = &rule.resources.as_ref().unwrap()[0];
            found.push((entry, TARGETS.into_iter().find(|target| target == resource).unwrap()));
        }
    }
    found
}

/// Recorded states of the registration.
pub struct History {
    states: Vec<ValidatingWebhookConfiguration>,
    events:
        Pin<Box<dyn Stream<Item = watcher::Result<watcher::Event<ValidatingWebhookConfiguration>>> + Send>>,
}

impl History {
    /// The first `count` different sets of entries that a target was in.
    pub async fn entries_of(&mut self, target: &str, count: usize) -> Vec<Vec<&'static str>> {
        let mut sets = Vec::new();
        let mut take = |configuration: &ValidatingWebhookConfiguration| {
            let found = entries(configuration).into_iter();
            let set: Vec<_> = found.filter(|(_, name)| *name == target).map(|(entry, _)| entry).collect();
            if sets.last() != Some(&set) {
                sets.push(set);
            }
            sets.len()
        };
        let mut seen = self.states.drain(..).map(|state| take(&state)).last().unwrap_or_default();
        while seen < count {
            let event = tokio::time::timeout(PATIENCE, self.events.next()).await;
            let Ok(Some(Ok(watcher::Event::Apply(configuration)))) = event else { break };
            seen = take(&configuration);
        }
        sets
    }
}
