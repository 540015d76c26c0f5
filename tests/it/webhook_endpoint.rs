//! The harness leads the API server to a webhook on loopback as a cluster would lead it to a Service.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Version};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::harness::ControlPlane;

#[tokio::test]
async fn a_webhook_in_service_mode_is_asked_over_verified_tls_and_http_1_1() {
    let plane = ControlPlane::shared().await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let served =
        plane.serve_webhook("harness-refuser", move |request| std::future::ready(refuse(&request, &noted)));
    let (endpoint, _) = served.await.unwrap();

    plane.ensure_namespace("harness-refused").await.unwrap();
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(plane.admin().await.unwrap());
    let configuration = serde_json::from_value(json!({
        "metadata": {"name": "harness-refuser"},
        "webhooks": [{
            "name": "refuser.harness.test",
            "clientConfig": endpoint.client_config("/validate"),
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "harness-refused"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    }))
    .unwrap();
    configurations.create(&PostParams::default(), &configuration).await.unwrap();

    // The API server learns of a registration by watching, so the first writes may still pass.
    let mut refusal = String::new();
    for attempt in 0..200 {
        let name = format!("attempt-{attempt}");
        let args =
            ["-n=harness-refused", "create", "configmap", &name, "--as=erin", "--as-group=system:masters"];
        let output = plane.kubectl(&args).await.unwrap();
        if !output.success {
            refusal = output.stderr;
            break;
        }
    }
    assert!(
        refusal.contains(r#"admission webhook "refuser.harness.test" denied the request: not you, erin"#),
        "{refusal}"
    );
    let host = format!("harness-refuser.fieldkeeper-system.svc:{}", endpoint.port);
    assert_eq!(seen.lock().unwrap().first(), Some(&(Version::HTTP_11, host)));
}

type Seen = Arc<Mutex<Vec<(Version, String)>>>;

fn refuse(request: &Request<Bytes>, seen: &Seen) -> Value {
    let host = request.headers()[http::header::HOST].to_str().unwrap().to_owned();
    seen.lock().unwrap().push((request.version(), host));
    let review: Value = serde_json::from_slice(request.body()).unwrap();
    let who = review["request"]["userInfo"]["username"].as_str().unwrap();
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"],
            "allowed": false,
            "status": {"code": 403, "reason": "Forbidden", "message": format!("not you, {who}")},
        },
    })
}
