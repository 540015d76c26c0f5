//! A small webhook of a test's own: mutating, or converting.

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Request;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::arena::{Call, Kind, PATIENCE, alice, arena};
use crate::harness::{WebhookEndpoint, eventually};

/// Serves until the test ends, or until the handle is aborted. `answer` gets the body's `request` and gives the
/// `response`, without the `uid`.
pub async fn serve<F>(name: &str, answer: F) -> (WebhookEndpoint, JoinHandle<()>)
where
    F: Fn(Value) -> BoxFuture<'static, Value> + Clone + Send + Sync + 'static,
{
    let respond = move |request: Request<Bytes>| {
        let mut review: Value = serde_json::from_slice(request.body()).unwrap();
        let request = review["request"].take();
        let uid = request["uid"].clone();
        answer(request).map(move |mut response| {
            response["uid"] = uid;
            json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
        })
    };
    arena().await.plane.serve_webhook(name, respond).await.unwrap()
}

/// The annotation in which a request of the tests says what the mutating webhook shall do with it.
pub const MUTATE: &str = "arena.example.com/mutate";

/// What [`MUTATE`] of the reviewed object asks for, as an admission response.
pub fn as_annotated(request: &Value) -> Value {
    match request["object"]["metadata"]["annotations"][MUTATE].as_str() {
        Some(patch) => patched(patch),
        None => json!({"allowed": true}),
    }
}

/// An admission response with a JSON patch.
pub fn patched(patch: &str) -> Value {
    let patch = ByteString(patch.as_bytes().to_vec());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

/// Has the API server ask `answer` to mutate what is created and updated of a resource, and waits until it does.
pub async fn mutating<F>(group: &str, resource: &str, answer: F)
where
    F: Fn(Value) -> BoxFuture<'static, Value> + Clone + Send + Sync + 'static,
{
    let arena = arena().await;
    let name = format!("mutate-{resource}");
    let (endpoint, _) = serve(&name, answer).await;
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": format!("{name}.arena.example.com"), "clientConfig": endpoint.client_config("/mutate"),
            "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [group], "apiVersions": ["v1"],
                "resources": [resource]}],
            // Another test's writes of a shared kind must not be held up when this test has ended.
            "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }],
    });
    arena.plane.apply(&configuration.to_string()).await.unwrap();
}

/// The same for a kind of the arena that does what [`MUTATE`] says.
pub async fn mutating_as_annotated(kind: &Kind) {
    mutating("arena.example.com", kind.plural(), |request| {
        std::future::ready(as_annotated(&request)).boxed()
    })
    .await;
    let note = r#"[{"op": "add", "path": "/metadata/labels", "value": {"mutated": "yes"}}]"#;
    let probe = json!({"apiVersion": "arena.example.com/v1", "kind": kind.kind(),
        "metadata": {"name": "mutated-probe", "annotations": {MUTATE: note}}, "spec": {"mode": "calm"}});
    let call = Call::create(&kind.resource(), &probe).dry_run();
    let mutated = async || {
        let made = arena().await.send(&call, &alice()).await.allowed();
        made["metadata"]["labels"]["mutated"].is_string().then_some(())
    };
    eventually("the mutating webhook to be asked", PATIENCE, mutated).await.unwrap();
}
