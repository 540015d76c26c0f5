//! The harness leads the API server to a webhook on loopback as a cluster would lead it to a Service.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::PostParams;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::harness::{ControlPlane, WebhookEndpoint};

#[tokio::test]
async fn a_webhook_in_service_mode_is_asked_over_verified_tls_and_http_1_1() {
    let plane = ControlPlane::shared().await.unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let endpoint = plane.webhook_service("harness-refuser", port).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    tokio::spawn(refuse_everything(listener, endpoint.clone(), seen.clone()));

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
    let host = format!("harness-refuser.fieldkeeper-system.svc:{port}");
    assert_eq!(seen.lock().unwrap().first(), Some(&(Version::HTTP_11, host)));
}

type Seen = Arc<Mutex<Vec<(Version, String)>>>;

async fn refuse_everything(listener: TcpListener, endpoint: WebhookEndpoint, seen: Seen) {
    let certificate = CertificateDer::from_pem_file(&endpoint.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&endpoint.key).unwrap();
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(stream) = acceptor.accept(stream).await else { continue };
        let seen = seen.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, &seen));
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await
        });
    }
}

async fn answer(request: Request<Incoming>, seen: &Seen) -> Result<Response<Full<Bytes>>, Infallible> {
    let host = request.headers()[http::header::HOST].to_str().unwrap().to_owned();
    seen.lock().unwrap().push((request.version(), host));
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let who = review["request"]["userInfo"]["username"].as_str().unwrap();
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"],
            "allowed": false,
            "status": {"code": 403, "reason": "Forbidden", "message": format!("not you, {who}")},
        },
    });
    let body = Bytes::from(answer.to_string());
    Ok(Response::builder().header("Content-Type", "application/json").body(Full::new(body)).unwrap())
}
