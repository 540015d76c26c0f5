//! A control plane that asks fieldkeeper through a balancer, and replicas that tests start and end.
//!
//! Input: the shipped manifests, the ponds and their policy. Output: [`Ground`], for one test at a time: the API
//! server is stopped under some of them.
//! Must not: leave a replica behind for the next test.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::balancer::Balancer;
use crate::arena::{Call, OPEN_RBAC, PATIENCE, alice, pond, try_send};
use crate::harness::{
    ControlPlane, Identity, Installation, NAMESPACE, Options, Process, Signal, WebhookEndpoint, eventually,
    free_ports,
};

/// The name by which the API server calls, and that certificates are for.
pub const HOST: &str = "fieldkeeper.fieldkeeper-system.svc";

/// How long a replica serves on after SIGTERM; shipped are 10 s, for balancers that are slower than ours.
const SHUTDOWN_DELAY: &str = "--shutdown-delay=2s";

/// See the module.
pub struct Ground {
    pub plane: ControlPlane,
    pub balancer: Balancer,
    endpoint: WebhookEndpoint,
    started: usize,
    _controller: Process,
}

/// One webhook process.
pub struct Replica {
    pub process: Process,
    pub port: u16,
    pub health: u16,
    pub metrics: u16,
    balancer: Balancer,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.balancer.remove(self.port);
    }
}

/// The ground, for the caller alone.
pub async fn ground() -> MutexGuard<'static, Ground> {
    static GROUND: OnceCell<Mutex<Ground>> = OnceCell::const_new();
    GROUND.get_or_init(|| async { Mutex::new(Ground::new().await.unwrap()) }).await.lock().await
}

impl Ground {
    async fn new() -> Result<Self> {
        let plane = ControlPlane::start(Options::api_only()).await?;
        let installation = plane.install_fieldkeeper().await?;
        plane.apply(include_str!("../../data/arena-crd.yaml")).await?;
        plane.apply(OPEN_RBAC).await?;
        for (policy, name) in [(include_str!("../../data/arena-policy.yaml"), "ponds"), (NOTES, "notes")] {
            plane.apply(policy).await?;
            installation.registered(&plane, name).await?;
        }
        let Installation { webhook, controller, endpoint, .. } = installation;
        // From here on the port that the API server was told is the balancer's.
        drop(webhook);
        let balancer = Balancer::listen(endpoint.port)?;
        Ok(Self { plane, balancer, endpoint, started: 0, _controller: controller })
    }

    /// Starts a replica and puts it behind the balancer, which waits for it to be ready.
    pub async fn replica(&mut self) -> Replica {
        let endpoint = self.endpoint.clone();
        let certificate = format!("--cert-file={}", endpoint.certificate.display());
        let key = format!("--key-file={}", endpoint.key.display());
        self.replica_with(&[&certificate, &key]).await
    }

    /// The same with the certificate of a directory, as a mounted Secret is one.
    pub async fn replica_of(&mut self, directory: &Path) -> Replica {
        self.replica_with(&[&format!("--tls-dir={}", directory.display())]).await
    }

    async fn replica_with(&mut self, certificate: &[&str]) -> Replica {
        self.started += 1;
        let name = format!("webhook-{}", self.started);
        let [port, health, metrics] = free_ports().unwrap();
        let listen = [("", port), ("-health", health), ("-metrics", metrics)]
            .map(|(what, port)| format!("--listen{what}=127.0.0.1:{port}"));
        let mut args = vec!["webhook", "--log-format=text", SHUTDOWN_DELAY];
        args.extend(listen.iter().map(String::as_str));
        args.extend(certificate);
        let identity = Identity::service_account(NAMESPACE, "webhook");
        let process = self.plane.start_fieldkeeper(&name, &identity, &args, &[]).await.unwrap();
        self.balancer.add(port, health);
        Replica { process, port, health, metrics, balancer: self.balancer.clone() }
    }

    /// A replica that new connections go to, while the API server has noticed the policy.
    pub async fn serving(&mut self) -> Replica {
        let replica = self.replica().await;
        self.is_serving(&replica).await;
        replica
    }

    pub async fn is_serving(&self, replica: &Replica) {
        if let Err(error) = self.balancer.sees(replica.port, true).await {
            panic!("{error}\n{}", replica.process.log_tail());
        }
        self.until_refused().await;
    }

    /// Asks until fieldkeeper refuses a stranger.
    pub async fn until_refused(&self) {
        let client = self.plane.client(&alice(), "probe").await.unwrap();
        let call = Call::create("ponds", &pond("probe", &json!({"size": "S"}))).dry_run();
        let refused =
            async || try_send(&client, &call).await.is_ok_and(|reply| reply.is_refused()).then_some(());
        eventually("a refusal", PATIENCE, refused).await.unwrap();
    }

    /// A TLS connection to a replica, verified as the API server verifies it.
    pub async fn connect(&self, port: u16) -> Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.endpoint.ca_bundle.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        Ok(TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(HOST)?, stream).await?)
    }

    /// The certificate that a replica shows to a new connection.
    pub async fn served(&self, port: u16) -> Result<Vec<u8>> {
        let stream = self.connect(port).await?;
        let chain = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        Ok(chain.map(|leaf| leaf.to_vec()).unwrap_or_default())
    }

    /// Sends a body to `/validate` past the API server; the whole answer, or an error where there is none.
    pub async fn review(&self, port: u16, body: &str) -> Result<String> {
        let ask = async {
            let mut stream = self.connect(port).await?;
            let head = format!(
                "POST /validate HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(format!("{head}{body}").as_bytes()).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            Ok(String::from_utf8_lossy(&answer).into_owned())
        };
        match timeout(Duration::from_secs(2), ask).await {
            Ok(answer) => answer,
            Err(_) => bail!("no answer"),
        }
    }
}

impl Replica {
    /// Asks it to end, as the kubelet does, and gives it the time that it needs.
    pub async fn stop(mut self) {
        self.process.signal(Signal::TERM).unwrap();
        self.ended().await;
    }

    /// Waits for the end that it was asked to come to.
    pub async fn ended(&mut self) {
        let status = self.process.wait(Duration::from_secs(15)).await.unwrap();
        assert!(status.success(), "{status}\n{}", self.process.log_tail());
    }
}

/// A target on which nothing is enforced: its entry is one with failurePolicy Ignore.
const NOTES: &str = "
apiVersion: fieldkeeper.dev/v1alpha1
kind: FieldPolicy
metadata: {name: notes}
spec:
  target: {group: '', version: v1, resource: configmaps}
  mode: Audit
  owners:
  - {name: nobody, fields: [{path: .data}]}
";
