//! A mutating webhook of a test's own: a real one, called by the API server over TLS.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::api::PostParams;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Call, PATIENCE, Pond};
use crate::harness::{Identity, WebhookEndpoint, eventually};

/// From now on, and as long as the test runs, what `user` writes to this pond is changed by a JSON patch on its way.
pub async fn mutator(pond: &Pond, user: &Identity, patch: &Value) {
    let plane = pond.arena.plane;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = format!("mutator-{}", pond.name);
    let endpoint = plane.webhook_service(&name, port).await.unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    tokio::spawn(serve(listener, endpoint.clone(), patch.clone(), asked.clone()));

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

async fn serve(listener: TcpListener, endpoint: WebhookEndpoint, patch: Value, asked: Arc<AtomicUsize>) {
    let certificate = CertificateDer::from_pem_file(&endpoint.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&endpoint.key).unwrap();
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(stream) = acceptor.accept(stream).await else { continue };
        let (patch, asked) = (patch.clone(), asked.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, &patch, &asked));
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    patch: &Value,
    asked: &AtomicUsize,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    asked.fetch_add(1, Ordering::Relaxed);
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"],
            "allowed": true,
            "patchType": "JSONPatch",
            // Encoded in base64, as the API server wants it.
            "patch": ByteString(patch.to_string().into_bytes()),
        },
    });
    let body = Bytes::from(answer.to_string());
    Ok(Response::builder().header("Content-Type", "application/json").body(Full::new(body)).unwrap())
}
