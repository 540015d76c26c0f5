//! fieldkeeper as it is shipped, installed in a control plane: CRDs, rights, registration, both processes.
//!
//! Input: the manifests of this repository. Output: [`Installation`], whose processes run under their own service
//! accounts and the shipped rights, with the webhook called in service mode.
//! Must not: change a manifest beyond the port, which in a cluster is the Service's to map.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::json;

use super::control_plane::ControlPlane;
use super::identity::Identity;
use super::process::{Process, Signal};
use super::wait::{eventually, free_ports, get};
use super::webhook::{NAMESPACE, WebhookEndpoint};

/// How long a start may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The entries of the registration that our own CA has to be written into.
const ENTRIES: [&str; 5] = ["enforce", "enforce-open", "observe", "bypass", "policies"];

/// A running fieldkeeper.
pub struct Installation {
    pub webhook: Process,
    pub controller: Process,
    pub endpoint: WebhookEndpoint,
    pub health_port: u16,
    pub metrics_port: u16,
}

/// A file or folder of this repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

impl ControlPlane {
    /// Installs and starts everything, and waits until a policy would be judged.
    pub async fn install_fieldkeeper(&self) -> Result<Installation> {
        for folder in ["crds", "deploy/base"] {
            let folder = repository(folder);
            let folder = folder.to_str().context("a folder name that is not UTF-8")?;
            self.kubectl(&["apply", "--server-side", "--field-manager=installer", "-k", folder])
                .await?
                .ok()?;
        }
        let [port, health_port, metrics_port] = free_ports()?;
        let endpoint = self.webhook_service("fieldkeeper", port).await?;
        let webhook = self.start_webhook(&endpoint, health_port, metrics_port).await?;
        self.register_webhook(&endpoint).await?;
        let identity = Identity::service_account(NAMESPACE, "policy-controller");
        let controller = self
            .start_fieldkeeper(
                "policy-controller",
                &identity,
                &["controller", "policy", "--log-format=text"],
                &[],
            )
            .await?;
        let mut installation = Installation { webhook, controller, endpoint, health_port, metrics_port };
        installation.ready().await?;
        Ok(installation)
    }

    /// Applies the shipped registration, for tests that take it away.
    pub async fn register_webhook(&self, endpoint: &WebhookEndpoint) -> Result<()> {
        let registration =
            std::fs::read_to_string(repository("webhooks/validating-webhook-configuration.yaml"))?;
        let registration = registration.replace("port: 443", &format!("port: {}", endpoint.port));
        let govern = std::fs::read_to_string(repository("webhooks/govern-policies.yaml"))?;
        let registration = format!("{registration}---\n{govern}");
        let args = ["apply", "--server-side", "--field-manager=installer", "-f", "-"];
        self.run_kubectl(&self.admin_kubeconfig(), &args, &registration).await?.ok()?;
        inject_ca(&self.admin().await?, endpoint).await
    }

    /// Starts the webhook alone, for tests that start it again.
    pub async fn start_webhook(
        &self,
        endpoint: &WebhookEndpoint,
        health: u16,
        metrics: u16,
    ) -> Result<Process> {
        let listen = format!("--listen=127.0.0.1:{}", endpoint.port);
        let health = format!("--listen-health=127.0.0.1:{health}");
        let metrics = format!("--listen-metrics=127.0.0.1:{metrics}");
        let certificate = format!("--cert-file={}", endpoint.certificate.display());
        let key = format!("--key-file={}", endpoint.key.display());
        let args = ["webhook", &listen, &health, &metrics, &certificate, &key, "--shutdown-delay=1s"];
        self.start_fieldkeeper("webhook", &Identity::service_account(NAMESPACE, "webhook"), &args, &[]).await
    }
}

/// What cert-manager's cainjector does: the bundle, under a manager of its own.
async fn inject_ca(client: &Client, endpoint: &WebhookEndpoint) -> Result<()> {
    let bundle = endpoint.client_config("/").ca_bundle;
    let entries: Vec<_> = ENTRIES
        .iter()
        .map(
            |entry| json!({"name": format!("{entry}.fieldkeeper.dev"), "clientConfig": {"caBundle": bundle}}),
        )
        .collect();
    let patch = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "fieldkeeper"}, "webhooks": entries,
    });
    let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    api.patch("fieldkeeper", &PatchParams::apply("ca-injector"), &Patch::Apply(&patch)).await?;
    Ok(())
}

impl Installation {
    /// Waits until the webhook says that it is ready.
    pub async fn ready(&mut self) -> Result<()> {
        let port = self.health_port;
        self.webhook.ready(PATIENCE, async || matches!(get(port, "/readyz").await, Ok((200, _)))).await
    }

    /// Waits until a policy of this name is registered, as its status says.
    pub async fn registered(&self, plane: &ControlPlane, policy: &str) -> Result<()> {
        let kind = GroupVersionKind::gvk("fieldkeeper.dev", "v1alpha1", "FieldPolicy");
        let api: Api<DynamicObject> = Api::all_with(plane.admin().await?, &ApiResource::from_gvk(&kind));
        let ready = async || {
            let object = api.get(policy).await.ok()?;
            let generation = object.metadata.generation?;
            let conditions = object.data.pointer("/status/conditions")?.as_array()?;
            let current = |kind: &str| {
                conditions.iter().any(|condition| {
                    condition["type"] == kind
                        && condition["status"] == "True"
                        && condition["observedGeneration"] == generation
                })
            };
            (current("Accepted") && current("Registered")).then_some(())
        };
        match eventually(&format!("FieldPolicy {policy} to be registered"), PATIENCE, ready).await {
            Ok(()) => Ok(()),
            Err(error) => {
                let object = api.get(policy).await?;
                Err(error.context(serde_json::to_string_pretty(&object.data).unwrap_or_default()))
            }
        }
    }

    /// Waits until the answer to a dry run says this. The API server and the webhook learn of a policy by
    /// watching, and neither tells when it has.
    pub async fn says(&self, plane: &ControlPlane, text: &str, dry_run: &[&str]) -> Result<()> {
        let asked = async || plane.kubectl(dry_run).await.ok().filter(|output| output.text().contains(text));
        eventually(&format!("kubectl {} to say {text:?}", dry_run.join(" ")), PATIENCE, asked).await?;
        Ok(())
    }

    /// Ends the webhook as a cluster would, and says whether it went without an error.
    pub async fn stop_webhook(&mut self) -> Result<()> {
        self.webhook.signal(Signal::TERM)?;
        let status = self.webhook.wait(PATIENCE).await?;
        if status.success() {
            Ok(())
        } else {
            bail!("the webhook ended with {status}\n{}", self.webhook.log_tail())
        }
    }
}
