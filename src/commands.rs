//! From parsed arguments to the parts that do the work, and from results to exit codes.

mod lint;

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::admission::tls::TlsFiles;
use crate::admission::{self, Options, hooks};
use crate::cli::{
    Cli, ClusterArgs, Command, ControllerCommand, CrdArgs, PolicyControllerArgs, TlsVersion, WebhookArgs,
};
use crate::cluster::client::{self, Component, Source};
use crate::{api, controllers};

/// Nothing was found, everything was done.
pub const DONE: u8 = 0;
/// What was looked for was found.
pub const FOUND: u8 = 1;
/// Wrong usage, or it could not run.
pub const FAILED: u8 = 2;
/// The cluster cannot be reached, or does not let us.
pub const UNREACHABLE: u8 = 3;

/// Runs one command to its end.
pub async fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Webhook(args) => webhook(*args).await.map(|()| DONE),
        Command::Controller(ControllerCommand::Policy(args)) => policy_controller(args).await.map(|()| DONE),
        Command::Crd(args) => crd(&args).map(|()| DONE),
        Command::Lint(args) => lint::run(&args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = writeln!(io::stderr(), "fieldkeeper: {}", chain(&error));
            ExitCode::from(FAILED)
        }
    }
}

/// The error and its causes, without those that are already part of the text.
fn chain(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

async fn webhook(args: WebhookArgs) -> anyhow::Result<()> {
    let source = Source::from(&args.cluster);
    let connect = async |snapshots, readiness, metrics| {
        let client = client::connect(Component::Webhook, &source).await?;
        Ok::<_, client::Error>(hooks::connect(client, snapshots, &readiness, metrics))
    };
    Ok(admission::run(Options::from(args), connect).await?)
}

async fn policy_controller(args: PolicyControllerArgs) -> anyhow::Result<()> {
    let client = client::connect(Component::PolicyController, &Source::from(&args.cluster)).await?;
    Ok(controllers::until_stopped(controllers::policy::run(client)).await?)
}

impl From<&ClusterArgs> for Source {
    fn from(args: &ClusterArgs) -> Self {
        Self { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() }
    }
}

impl From<WebhookArgs> for Options {
    fn from(args: WebhookArgs) -> Self {
        let (certificate, key) = match (args.tls_dir, args.cert_file, args.key_file) {
            (Some(directory), _, _) => (directory.join("tls.crt"), directory.join("tls.key")),
            (None, certificate, key) => (certificate.unwrap_or_default(), key.unwrap_or_default()),
        };
        Self {
            listen: args.listen,
            listen_health: args.listen_health,
            listen_metrics: args.listen_metrics,
            tls: TlsFiles {
                certificate,
                key,
                client_ca: args.client_ca_file,
                client_names: args.client_names,
                tls12: args.tls_min_version == TlsVersion::Tls12,
            },
            shutdown_delay: args.shutdown_delay,
        }
    }
}

fn crd(args: &CrdArgs) -> anyhow::Result<()> {
    let files = api::crd_files().context("generate the CustomResourceDefinitions")?;
    match &args.write {
        Some(directory) => write_files(directory, &files),
        None => print(&files.iter().map(|(_, yaml)| yaml.as_str()).collect::<Vec<_>>().join("---\n")),
    }
}

fn write_files(directory: &Path, files: &[(String, String)]) -> anyhow::Result<()> {
    for (name, yaml) in files {
        let path = directory.join(name);
        std::fs::write(&path, yaml).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// A reader that has seen enough (`| head`) is no failure.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("write to standard output"),
        _ => Ok(()),
    }
}
