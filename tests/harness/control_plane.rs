//! A running control plane.
//!
//! Input: [`Options`]. Output: [`ControlPlane`], ready for requests, gone when dropped or when this process ends.
//! Must not: hold a client or a task between calls; each test has a runtime of its own, and the shared control
//! plane outlives them.

use std::collections::HashMap;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use tokio::sync::{Mutex, OnceCell};

use super::audit;
use super::binaries::{Binaries, say};
use super::components::{self, Layout};
use super::identity::{self, Identity};
use super::lifeline::Lifeline;
use super::pki::{self, Authority, KeyPairFiles};
use super::process::Process;
use super::wait::free_ports;

/// Slow machines start slowly; a program that ends is noticed at once.
const START: Duration = Duration::from_secs(90);

/// What to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Namespaces get their service accounts, owners their garbage collection, workloads their pods.
    pub controller_manager: bool,
    /// Pods get their nodes.
    pub scheduler: bool,
    /// More flags for kube-apiserver, such as `--feature-gates=…`.
    pub api_server_flags: Vec<String>,
}

impl Options {
    /// All four programs.
    pub fn full() -> Self {
        Self { controller_manager: true, scheduler: true, api_server_flags: Vec::new() }
    }

    /// etcd and kube-apiserver alone, which is enough for admission and managedFields.
    pub fn api_only() -> Self {
        Self { controller_manager: false, scheduler: false, api_server_flags: Vec::new() }
    }
}

/// etcd, kube-apiserver and, where wanted, the others, in one temporary folder.
#[derive(Debug)]
pub struct ControlPlane {
    // The order matters: fields are dropped from the first to the last, and the folder goes last.
    scheduler: Option<Process>,
    controller_manager: Option<Process>,
    api_server: Option<Process>,
    etcd: Option<Process>,
    binaries: Binaries,
    options: Options,
    layout: Layout,
    authority: Authority,
    admin: KeyPairFiles,
    ca: PathBuf,
    url: String,
    identities: Mutex<HashMap<Identity, PathBuf>>,
    lifeline: Lifeline,
}

impl ControlPlane {
    /// Starts one for the caller alone.
    pub async fn start(options: Options) -> Result<Self> {
        let binaries = tokio::task::spawn_blocking(Binaries::find).await??;
        let mut tries = 0;
        loop {
            tries += 1;
            let mut plane = Self::prepare(binaries.clone(), options.clone())?;
            match plane.start_all().await {
                Ok(()) => return Ok(plane),
                Err(_) if tries < 3 && plane.lost_a_port() => {}
                Err(error) => return Err(error.context("the control plane did not start")),
            }
        }
    }

    /// The one that all tests of a binary share, started by the first that asks.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Result<ControlPlane>> = OnceCell::const_new();
        let shared = SHARED.get_or_init(|| Self::start(Options::full())).await;
        shared.as_ref().map_err(|error| anyhow!("{error:#}"))
    }

    fn prepare(binaries: Binaries, options: Options) -> Result<Self> {
        let lifeline = Lifeline::new()?;
        let dir = lifeline.dir();
        let authority = Authority::new(&dir.join("pki"), "fieldkeeper test control plane")?;
        let ca = authority.certificate_file();
        let [etcd_port, peer_port, api_port] = free_ports()?;
        let layout = Layout {
            etcd_port,
            peer_port,
            api_port,
            ca: ca.display().to_string(),
            serving: authority
                .serving("kube-apiserver", &["localhost", "kubernetes.default.svc", "127.0.0.1"])?,
            tokens: pki::token_keys(&dir.join("pki"))?,
        };
        let url = format!("https://127.0.0.1:{api_port}");
        fs::write(dir.join("audit-policy.yaml"), audit::POLICY)?;
        fs::create_dir_all(dir.join("kubeconfig"))?;
        let admin = authority.client("admin", "admin", &["system:masters".to_owned()])?;
        Ok(Self {
            scheduler: None,
            controller_manager: None,
            api_server: None,
            etcd: None,
            binaries,
            options,
            layout,
            authority,
            admin,
            ca,
            url,
            identities: Mutex::default(),
            lifeline,
        })
    }

    async fn start_all(&mut self) -> Result<()> {
        identity::write(
            &self.admin_kubeconfig(),
            &self.url,
            &self.ca,
            "admin",
            &identity::by_certificate(&self.admin),
        )?;
        let mut etcd =
            self.spawn("etcd", &self.binaries.etcd, &components::etcd(self.dir(), &self.layout))?;
        let port = self.layout.etcd_port;
        etcd.ready(START, async || TcpStream::connect(("127.0.0.1", port)).is_ok()).await?;
        self.etcd = Some(etcd);
        self.start_api_server().await?;
        self.start_controllers().await
    }

    /// Between finding a free port and listening on it, somebody else may take it.
    fn lost_a_port(&self) -> bool {
        let logs = fs::read_dir(self.dir().join("logs")).into_iter().flatten().flatten();
        logs.filter_map(|log| fs::read(log.path()).ok())
            .any(|log| String::from_utf8_lossy(&log).contains("address already in use"))
    }

    /// Starts the API server again after [`Self::stop_api_server`]: same port, same data.
    pub async fn start_api_server(&mut self) -> Result<()> {
        let args = components::api_server(self.dir(), &self.layout, &self.options.api_server_flags);
        let mut process = self.spawn("kube-apiserver", &self.binaries.api_server, &args)?;
        let client = self.admin().await?;
        process.ready(START, async || api_server_is_ready(&client).await).await?;
        self.api_server = Some(process);
        Ok(())
    }

    /// Ends the API server; everything else keeps running and finds it away.
    pub async fn stop_api_server(&mut self) -> Result<()> {
        if let Some(mut process) = self.api_server.take() {
            process.stop(Duration::from_secs(5)).await?;
        }
        Ok(())
    }

    async fn start_controllers(&mut self) -> Result<()> {
        if self.options.controller_manager {
            if let Some(program) = &self.binaries.controller_manager {
                let kubeconfig = self.component_kubeconfig("system:kube-controller-manager")?;
                let args = components::controller_manager(&self.layout, &kubeconfig);
                let mut process = self.spawn("kube-controller-manager", program, &args)?;
                let accounts: Api<ServiceAccount> = Api::namespaced(self.admin().await?, "default");
                process.ready(START, async || accounts.get("default").await.is_ok()).await?;
                self.controller_manager = Some(process);
            } else {
                say("no kube-controller-manager in KUBEBUILDER_ASSETS: what needs it is skipped");
            }
        }
        if self.options.scheduler {
            if let Some(program) = &self.binaries.scheduler {
                let kubeconfig = self.component_kubeconfig("system:kube-scheduler")?;
                let args = components::scheduler(&kubeconfig);
                self.scheduler = Some(self.spawn("kube-scheduler", program, &args)?);
            } else {
                say("no kube-scheduler in KUBEBUILDER_ASSETS: what needs it is skipped");
            }
        }
        Ok(())
    }

    fn component_kubeconfig(&self, user: &str) -> Result<PathBuf> {
        let file = user.trim_start_matches("system:");
        let pair = self.authority.client(file, user, &[])?;
        let path = self.admin_kubeconfig().with_file_name(file);
        identity::write(&path, &self.url, &self.ca, user, &identity::by_certificate(&pair))?;
        Ok(path)
    }

    fn spawn(&self, name: &str, program: &Path, args: &[String]) -> Result<Process> {
        Process::start(&self.lifeline, name, program, args, &[], true)
    }

    /// Starts a program of ours beside the control plane, with `KUBECONFIG` set; its log is `logs/<name>.log`.
    pub fn run_beside(
        &self,
        name: &str,
        program: &Path,
        kubeconfig: &Path,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Result<Process> {
        let kubeconfig = kubeconfig.to_str().context("a folder name that is not UTF-8")?;
        let env: Vec<_> = [("KUBECONFIG", kubeconfig)].into_iter().chain(env.iter().copied()).collect();
        Process::start(&self.lifeline, name, program, args, &env, true)
    }

    /// Everything of this control plane is in here, and it goes away with it.
    pub fn dir(&self) -> &Path {
        self.lifeline.dir()
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Signs client and serving certificates that the API server trusts.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Whether kube-controller-manager runs; a test that needs it says so and ends where it does not.
    pub fn has_controller_manager(&self) -> bool {
        self.controller_manager.is_some()
    }

    pub fn has_scheduler(&self) -> bool {
        self.scheduler.is_some()
    }

    pub(super) fn authority_file(&self) -> &Path {
        &self.ca
    }

    pub(super) fn admin_certificate(&self) -> KeyPairFiles {
        self.admin.clone()
    }

    pub(super) fn identities(&self) -> &Mutex<HashMap<Identity, PathBuf>> {
        &self.identities
    }
}

async fn api_server_is_ready(client: &Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
    client.request_text(request).await.is_ok()
}
