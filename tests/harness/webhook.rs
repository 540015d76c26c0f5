//! A webhook in service mode without a cluster network.
//!
//! Input: a port on loopback. Output: a Service and a serving certificate, such that the API server calls the
//! webhook exactly as in a cluster: by service name, over HTTP/1.1, verifying that name.
//! Must not: register the webhook; what is registered is what the test is about.

use std::path::PathBuf;

use anyhow::Result;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{ServiceReference, WebhookClientConfig};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

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
