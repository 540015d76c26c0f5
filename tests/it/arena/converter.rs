//! A conversion webhook: version v2 of a kind calls `.spec.size` of v1 `.spec.width`.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::harness::ControlPlane;

/// Starts one that serves as long as the calling test runs, and returns `spec.conversion` of a CRD that asks it.
pub async fn converter(plane: &ControlPlane, name: &str) -> Value {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let endpoint = plane.webhook_service(name, listener.local_addr().unwrap().port()).await.unwrap();
    let certificate = CertificateDer::from_pem_file(&endpoint.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&endpoint.key).unwrap();
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let stream = acceptor.accept(stream).await.ok()?;
                let served = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(answer));
                served.await.ok()
            });
        }
    });
    json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": endpoint.client_config("/convert"),
    }})
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let wanted = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let objects = review["request"]["objects"].as_array().unwrap();
    let converted: Vec<Value> = objects.iter().map(|object| convert(object.clone(), wanted)).collect();
    let answer = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {
        "uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": converted,
    }});
    let body = Full::new(Bytes::from(answer.to_string()));
    Ok(Response::builder().header("Content-Type", "application/json").body(body).unwrap())
}

fn convert(mut object: Value, wanted: &str) -> Value {
    let (from, to) = if wanted.ends_with("/v2") { ("size", "width") } else { ("width", "size") };
    object["apiVersion"] = json!(wanted);
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        && let Some(value) = spec.remove(from)
    {
        spec.insert(to.to_owned(), value);
    }
    object
}

/// Renames the field in the schema of v2.
pub fn rename_in_v2(crd: &mut Value) {
    let properties = crd.pointer_mut("/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties");
    let properties = properties.unwrap().as_object_mut().unwrap();
    let size = properties.remove("size").unwrap();
    properties.insert("width".to_owned(), size);
}
