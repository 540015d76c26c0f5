//! A webhook in service mode without a cluster network.
//!
//! Input: a port on loopback, or the answers of a webhook of a test's own. Output: a Service and a serving
//! certificate, such that the API server calls the webhook exactly as in a cluster: by service name, over HTTP/1.1,
//! verifying that name.
//! Must not: register the webhook; what is registered is what the test is about.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{ServiceReference, WebhookClientConfig};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{Patch, PatchParams};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::control_plane::ControlPlane;

/// Where fieldkeeper is installed.
pub const NAMESPACE: &str = "fieldkeeper-system";

/// What a webhook needs to serve, and a registration to name it.
#[derive(Clone, Debug)]
pub struct WebhookEndpoint {
    pub service: String,
    pub port: u16,
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// PEM.
    pub ca_bundle: String,
}

impl ControlPlane {
    /// Makes (or moves) the service `name` so that it leads to `port` on loopback.
    ///
    /// A Service of type `ExternalName` is the one way to give the API server a service reference that it can
    /// follow without kube-proxy: it dials the external name and still verifies `<name>.<namespace>.svc`.
    pub async fn webhook_service(&self, name: &str, port: u16) -> Result<WebhookEndpoint> {
        self.ensure_namespace(NAMESPACE).await?;
        let services: Api<Service> = Api::namespaced(self.admin().await?, NAMESPACE);
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"name": "https", "port": port}]},
        });
        services.patch(name, &PatchParams::apply("test-setup").force(), &Patch::Apply(&service)).await?;
        let host = format!("{name}.{NAMESPACE}.svc");
        let pair = self.authority().serving(&format!("webhook-{name}"), &[&host])?;
        Ok(WebhookEndpoint {
            service: name.to_owned(),
            port,
            certificate: pair.certificate,
            key: pair.key,
            ca_bundle: self.authority().certificate().to_owned(),
        })
    }

    /// Serves a webhook of a test's own until the task is aborted or its runtime ends.
    pub async fn serve_webhook<F, A>(
        &self,
        name: &str,
        answer: F,
    ) -> Result<(WebhookEndpoint, JoinHandle<()>)>
    where
        F: Fn(Request<Bytes>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Value> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let endpoint = self.webhook_service(name, listener.local_addr()?.port()).await?;
        let task = serve(listener, &endpoint.certificate, &endpoint.key, answer)?;
        Ok((endpoint, task))
    }
}

/// Answers what comes to a listener, under this certificate.
pub fn serve<F, A>(listener: TcpListener, certificate: &Path, key: &Path, answer: F) -> Result<JoinHandle<()>>
where
    F: Fn(Request<Bytes>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Value> + Send + 'static,
{
    let respond = async move |request: Request<Body>| {
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect().await else { return StatusCode::BAD_REQUEST.into_response() };
        let answer = answer(Request::from_parts(head, body.to_bytes())).await;
        ([(CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
    };
    serve_router(listener, certificate, key, Router::new().fallback(respond))
}

/// The same for routes.
pub fn serve_router(
    listener: TcpListener,
    certificate: &Path,
    key: &Path,
    router: Router,
) -> Result<JoinHandle<()>> {
    let certificate = CertificateDer::from_pem_file(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Ok(tokio::spawn(async move {
        // Connections end with the task.
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, router) = (acceptor.clone(), router.clone());
            connections.spawn(async move {
                stream.set_nodelay(true)?;
                let stream = acceptor.accept(stream).await?;
                let answer = |request: Request<Incoming>| router.clone().oneshot(request.map(Body::new));
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await?;
                anyhow::Ok(())
            });
        }
    }))
}

impl WebhookEndpoint {
    /// For `clientConfig` of a webhook configuration.
    pub fn client_config(&self, path: &str) -> WebhookClientConfig {
        WebhookClientConfig {
            ca_bundle: Some(ByteString(self.ca_bundle.clone().into_bytes())),
            service: Some(ServiceReference {
                name: self.service.clone(),
                namespace: NAMESPACE.to_owned(),
                path: Some(path.to_owned()),
                port: Some(i32::from(self.port)),
            }),
            url: None,
        }
    }
}
