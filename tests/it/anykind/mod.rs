//! Built-in kinds under policies, on a real API server: their schemas, defaults, `/scale`, and `match`.
//!
//! Each test governs objects in a namespace of its own, or with a label of its own, so that the other tests of the
//! arena are left alone.

mod config;
mod deployments;
mod nodes;
mod schemas;
mod selection;

use serde_json::{Value, json};

use crate::arena::{Arena, Call, Reply, arena};
use crate::harness::Identity;

/// A namespace whose objects of one kind are governed by a policy of the same name.
pub struct Field {
    pub arena: &'static Arena,
    pub namespace: &'static str,
    /// `apps/v1` or `v1`.
    api: &'static str,
    resource: &'static str,
}

/// A person who owns something by name.
pub fn person(name: &str) -> Identity {
    Identity::person(name, &[])
}

impl Field {
    /// Puts `resource` (as `apps/v1/deployments` or `v1/configmaps`) under a policy; `rest` is YAML below `spec`, and
    /// `probe` an object that a stranger must not create.
    pub async fn new(namespace: &'static str, resource: &'static str, rest: &str, probe: &Value) -> Self {
        Self::selecting(namespace, resource, None, rest, probe).await
    }

    /// The same for those objects alone that have the labels.
    pub async fn selecting(
        namespace: &'static str,
        resource: &'static str,
        objects: Option<&str>,
        rest: &str,
        probe: &Value,
    ) -> Self {
        let (api, resource) = resource.rsplit_once('/').unwrap();
        let this = Self { arena: arena().await, namespace, api, resource };
        this.arena.plane.ensure_namespace(namespace).await.unwrap();
        let objects = objects.map(|selector| format!(", objectSelector: {selector}")).unwrap_or_default();
        let labels = format!("{{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}");
        let selection = format!("  match: {{namespaceSelector: {labels}{objects}}}\n");
        this.arena.enforce(&policy(namespace, api, resource, &(selection + rest)), namespace).await;
        this.arena.until_refused(&this.create(probe).dry_run(), &person("stranger")).await;
        this
    }

    /// The path of the collection, or of what is below it.
    pub fn path(&self, rest: &str) -> String {
        let root = if self.api.contains('/') { "apis" } else { "api" };
        format!("/{root}/{}/namespaces/{}/{}{rest}", self.api, self.namespace, self.resource)
    }

    pub fn create(&self, object: &Value) -> Call {
        Call::create("", object).at(&self.path(""))
    }

    pub fn patch(&self, name: &str, body: &Value) -> Call {
        Call::merge_patch("", body).at(&self.path(&format!("/{name}")))
    }

    pub fn apply(&self, name: &str, manager: &str, body: &Value) -> Call {
        Call::apply("", manager, body).at(&self.path(&format!("/{name}")))
    }

    pub async fn send(&self, call: &Call, who: &Identity) -> Reply {
        self.arena.send(call, who).await
    }

    pub async fn read(&self, name: &str) -> Value {
        self.send(&Call::get("").at(&self.path(&format!("/{name}"))), &person("reader")).await.allowed()
    }
}

/// An object with these fields; `api` is `apps/v1` or `v1`.
pub fn object(api: &str, kind: &str, name: &str, fields: &Value) -> Value {
    let mut object = fields.clone();
    object["apiVersion"] = json!(api);
    object["kind"] = json!(kind);
    object["metadata"]["name"] = json!(name);
    object
}

/// A policy that enforces.
pub fn policy(name: &str, api: &str, resource: &str, rest: &str) -> String {
    let (group, version) = api.split_once('/').unwrap_or(("", api));
    format!(
        "apiVersion: fieldkeeper.dev/v1alpha1\nkind: FieldPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
         target: {{group: '{group}', version: {version}, resource: {resource}}}\n  mode: Enforce\n{rest}"
    )
}

/// An owner that is one person of that name.
pub fn owner(name: &str, paths: &[&str]) -> String {
    let fields: Vec<String> = paths.iter().map(|path| format!("    - path: '{path}'\n")).collect();
    let fields = fields.concat();
    format!("  - name: {name}\n    subjects: [{{kind: User, name: {name}}}]\n    fields:\n{fields}")
}
