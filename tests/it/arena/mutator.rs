//! A mutating webhook of a test's own: a real one, called by the API server over TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::{Call, PATIENCE, Pond};
use crate::harness::{Identity, eventually};

/// From now on, and as long as the test runs, what `user` writes to this pond is changed by a JSON patch on its way.
pub async fn mutator(pond: &Pond, user: &Identity, patch: &Value) {
    let plane = pond.arena.plane;
    let name = format!("mutator-{}", pond.name);
    let (patch, asked) = (patch.to_string(), Arc::new(AtomicUsize::new(0)));
    let counter = asked.clone();
    let served = plane.serve_webhook(&name, move |request| {
        counter.fetch_add(1, Ordering::Relaxed);
        std::future::ready(answer(request.body(), &patch))
    });
    let (endpoint, _) = served.await.unwrap();

    let whose =
        format!("request.name == '{}' && request.userInfo.username == '{}'", pond.name, user.username());
    let configuration: MutatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": name},
        "webhooks": [{
            "name": "mutator.arena.test",
            "clientConfig": endpoint.client_config("/mutate"),
            "rules": [{"operations": ["UPDATE"], "apiGroups": ["arena.example.com"], "apiVersions": ["*"],
                "resources": [pond.kind.plural]}],
            "matchConditions": [{"name": "whose", "expression": whose}],
            // When the test is over, nobody listens any more.
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    }))
    .unwrap();
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(plane.admin().await.unwrap());
    configurations.create(&PostParams::default(), &configuration).await.unwrap();
    let probe = Call::merge_patch(&pond.at(""), &json!({})).dry_run();
    let active = async || {
        pond.send(&probe, user).await;
        (asked.load(Ordering::Relaxed) > 0).then_some(())
    };
    eventually("the mutating webhook to be asked", PATIENCE, active).await.unwrap();
}

fn answer(body: &[u8], patch: &str) -> Value {
    let review: Value = serde_json::from_slice(body).unwrap();
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"],
            "allowed": true,
            "patchType": "JSONPatch",
            // Encoded in base64, as the API server wants it.
            "patch": ByteString(patch.as_bytes().to_vec()),
        },
    })
}
