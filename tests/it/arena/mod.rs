//! Requests by real identities to a real API server that asks a real fieldkeeper.
//!
//! One control plane and one installation serve all tests; each test has objects of its own. A request is sent as
//! clients send it, with every part of it free to choose: verb, content type, manager, force, User-Agent, body.

mod converter;
mod kind;
mod mutator;
mod own_policy;
mod pond;

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};

use crate::harness::{ControlPlane, Identity, Installation, Options, Output, eventually};

pub use converter::{converter, rename_in_v2};
pub use kind::{Kind, kind, policy};
pub use mutator::mutator;
pub use own_policy::{apply_policy, condition, root};
pub use pond::{Pond, pond};

/// For what several processes have to notice on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The control plane with fieldkeeper and the kind of these tests in it.
pub struct Arena {
    pub plane: &'static ControlPlane,
    pub fieldkeeper: Mutex<Installation>,
}

/// The shared arena, made by the first test that asks.
pub async fn arena() -> &'static Arena {
    static PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
    static ARENA: OnceCell<Arena> = OnceCell::const_new();
    // Not the plane that all tests share: rights are wide here, and policies are in force.
    let plane = PLANE.get_or_init(|| async { ControlPlane::start(Options::full()).await.unwrap() }).await;
    ARENA
        .get_or_init(|| async {
            let fieldkeeper = plane.install_fieldkeeper().await.unwrap();
            plane.apply(include_str!("../../data/arena-crd.yaml")).await.unwrap();
            plane.apply(OPEN_RBAC).await.unwrap();
            let arena = Arena { plane, fieldkeeper: Mutex::new(fieldkeeper) };
            arena.enforce(include_str!("../../data/arena-policy.yaml"), "ponds").await;
            // Until the API server and the webhook have noticed: a creation that must be refused.
            let probe = pond("probe", &json!({"size": "S"}));
            arena.until_refused(&Call::create("ponds", &probe).dry_run(), &alice()).await;
            arena
        })
        .await
}

/// RBAC lets everybody who is logged in do everything here: what is refused is refused by fieldkeeper.
pub const OPEN_RBAC: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: arena}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch, create, update, patch, delete, deletecollection]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: arena}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: arena}
subjects: [{kind: Group, name: "system:authenticated", apiGroup: rbac.authorization.k8s.io}]
"#;

/// Somebody who owns nothing.
pub fn alice() -> Identity {
    Identity::person("alice", &[])
}

/// A controller of the tests by its real token.
pub fn controller(name: &str) -> Identity {
    Identity::service_account("ponds", name)
}

/// The owner of `.spec.replicas`.
pub fn hpa() -> Identity {
    Identity::service_account("kube-system", "horizontal-pod-autoscaler")
}

/// Who may delete ponds.
pub fn admin() -> Identity {
    Identity::person("pond-admin", &["pond-admins"])
}

impl Arena {
    /// Writes a policy and waits until it is registered.
    pub async fn enforce(&self, policy: &str, name: &str) {
        self.plane.apply(policy).await.unwrap();
        self.fieldkeeper.lock().await.registered(self.plane, name).await.unwrap();
    }

    /// Sends until fieldkeeper refuses: the API server and the webhook learn of a policy by watching.
    pub async fn until_refused(&self, call: &Call, who: &Identity) {
        let refused = async || self.send(call, who).await.is_refused().then_some(());
        eventually("a refusal", PATIENCE, refused).await.unwrap();
    }

    /// Sends one request.
    pub async fn send(&self, call: &Call, who: &Identity) -> Reply {
        send_to(self.plane, call, who).await
    }

    /// Runs kubectl as somebody, with `input` to read.
    pub async fn kubectl(&self, who: &Identity, args: &[&str], input: &str) -> Output {
        let kubeconfig = self.plane.kubeconfig(who).await.unwrap();
        self.plane.run_kubectl(&kubeconfig, args, input).await.unwrap()
    }
}

/// Sends one request to another control plane.
pub async fn send_to(plane: &ControlPlane, call: &Call, who: &Identity) -> Reply {
    let client = plane.client(who, &call.user_agent).await.unwrap();
    send(&client, call).await
}

/// Sends one request.
pub async fn send(client: &Client, call: &Call) -> Reply {
    try_send(client, call).await.unwrap()
}

/// Sends one request to a server that may be away.
pub async fn try_send(client: &Client, call: &Call) -> kube::Result<Reply> {
    let mut request = Request::builder().method(call.method.clone()).uri(call.uri());
    if !call.content_type.is_empty() {
        request = request.header(CONTENT_TYPE, call.content_type);
    }
    let request = request
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, &call.user_agent)
        .body(Body::from(call.body.clone().into_bytes()))
        .unwrap();
    let response = client.send(request).await?;
    let code = response.status().as_u16();
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|value| value.to_str().unwrap_or_default().to_owned()).collect();
    let bytes = response.into_body().collect_bytes().await?;
    Ok(Reply { code, warnings, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) })
}

/// One request, built up like a sentence.
#[derive(Clone, Debug)]
pub struct Call {
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    content_type: &'static str,
    user_agent: String,
    body: String,
}

impl Call {
    fn new(method: Method, path: String, content_type: &'static str, body: String) -> Self {
        Self { method, path, query: Vec::new(), content_type, user_agent: "curl/8.0".to_owned(), body }
    }

    /// The path of an object of the arena's group, `resource/name` or `resource/name/subresource`, in version v1.
    fn arena_path(object: &str) -> String {
        format!("/apis/arena.example.com/v1/{object}")
    }

    pub fn get(object: &str) -> Self {
        Self::new(Method::GET, Self::arena_path(object), "", String::new())
    }

    pub fn create(resource: &str, body: &Value) -> Self {
        Self::new(Method::POST, Self::arena_path(resource), "application/json", body.to_string())
    }

    pub fn put(object: &str, body: &Value) -> Self {
        Self::new(Method::PUT, Self::arena_path(object), "application/json", body.to_string())
    }

    pub fn merge_patch(object: &str, body: &Value) -> Self {
        Self::new(Method::PATCH, Self::arena_path(object), "application/merge-patch+json", body.to_string())
    }

    pub fn json_patch(object: &str, body: &Value) -> Self {
        Self::new(Method::PATCH, Self::arena_path(object), "application/json-patch+json", body.to_string())
    }

    /// Server-side apply under `manager`.
    pub fn apply(object: &str, manager: &str, body: &Value) -> Self {
        Self::new(Method::PATCH, Self::arena_path(object), "application/apply-patch+yaml", body.to_string())
            .manager(manager)
    }

    pub fn delete(object: &str) -> Self {
        Self::new(Method::DELETE, Self::arena_path(object), "", String::new())
    }

    /// Any other path, as `/api/v1/namespaces/x/configmaps/y`.
    pub fn at(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// The same in another version of the arena's group.
    pub fn version(mut self, version: &str) -> Self {
        self.path = self.path.replace("/arena.example.com/v1/", &format!("/arena.example.com/{version}/"));
        self
    }

    pub fn manager(self, name: &str) -> Self {
        self.query("fieldManager", name)
    }

    pub fn force(self) -> Self {
        self.query("force", "true")
    }

    pub fn dry_run(self) -> Self {
        self.query("dryRun", "All")
    }

    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn user_agent(mut self, name: &str) -> Self {
        name.clone_into(&mut self.user_agent);
        self
    }

    /// A body for a DELETE, such as delete options.
    pub fn body(mut self, body: &Value) -> Self {
        self.body = body.to_string();
        self.content_type = "application/json";
        self
    }

    /// Another way to patch.
    pub fn content(mut self, content_type: &'static str) -> Self {
        self.content_type = content_type;
        self
    }

    /// A body as it is written, not as a JSON library would.
    pub fn text(mut self, body: &str) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    /// Puts `text` in place of the string `mark` in the body: for what is too deep for a `Value`.
    pub fn with_text(mut self, mark: &str, text: &str) -> Self {
        self.body = self.body.replace(&format!("\"{mark}\""), text);
        self
    }

    /// The manager that the request names.
    pub fn field_manager(&self) -> Option<&str> {
        let mut options = self.query.iter();
        options.find(|(name, _)| name == "fieldManager").map(|(_, value)| value.as_str())
    }

    /// Which part of an object it is sent to; empty for the object itself.
    pub fn subresource(&self) -> &str {
        ["status", "scale"]
            .into_iter()
            .find(|name| self.path.ends_with(&format!("/{name}")))
            .unwrap_or_default()
    }

    fn uri(&self) -> String {
        let mut uri = self.path.clone();
        for (index, (name, value)) in self.query.iter().enumerate() {
            uri.push(if index == 0 { '?' } else { '&' });
            uri.extend([name, "=", &form_encoded(value)]);
        }
        uri
    }
}

fn form_encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    value.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// What the API server answered.
#[derive(Clone, Debug)]
pub struct Reply {
    pub code: u16,
    pub warnings: Vec<String>,
    pub body: Value,
}

impl Reply {
    /// Whether fieldkeeper, and nobody else, refused.
    pub fn is_refused(&self) -> bool {
        self.code == 403 && self.message().contains("fieldkeeper.dev\" denied the request")
    }

    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The fields of the causes, sorted.
    pub fn fields(&self) -> Vec<String> {
        let causes =
            self.body.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut fields: Vec<String> =
            causes.iter().map(|cause| cause["field"].as_str().unwrap_or_default().to_owned()).collect();
        fields.sort();
        fields.dedup();
        fields
    }

    /// The reasons of the causes, sorted.
    pub fn reasons(&self) -> Vec<String> {
        let causes =
            self.body.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut reasons: Vec<String> =
            causes.iter().map(|cause| cause["reason"].as_str().unwrap_or_default().to_owned()).collect();
        reasons.sort();
        reasons.dedup();
        reasons
    }

    /// Field and reason of each cause, sorted.
    pub fn causes(&self) -> Vec<(String, String)> {
        let causes =
            self.body.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut causes: Vec<_> =
            causes.iter().map(|cause| (text(&cause["field"]), text(&cause["reason"]))).collect();
        causes.sort();
        causes
    }

    /// Stops the test unless fieldkeeper refused for exactly these fields and reasons (in any order); the whole
    /// object is the field `""`.
    #[track_caller]
    pub fn refused_for(&self, causes: &[(&str, &str)]) {
        assert!(self.is_refused(), "should be refused by fieldkeeper: {} {}", self.code, self.body);
        let mut expected: Vec<_> =
            causes.iter().map(|(field, reason)| ((*field).to_owned(), (*reason).to_owned())).collect();
        expected.sort();
        assert_eq!(self.causes(), expected, "{}", self.message());
    }

    /// Stops the test unless the write was done.
    #[track_caller]
    pub fn allowed(self) -> Value {
        assert!((200..300).contains(&self.code), "should be allowed: {} {}", self.code, self.body);
        self.body
    }

    /// Stops the test unless fieldkeeper refused, for exactly these fields (in any order).
    #[track_caller]
    pub fn refused(self, fields: &[&str]) {
        assert!(self.is_refused(), "should be refused by fieldkeeper: {} {}", self.code, self.body);
        let mut expected: Vec<&str> = fields.to_vec();
        expected.sort_unstable();
        assert_eq!(self.fields(), expected, "{}", self.message());
    }
}
