//! The command line: types for clap and nothing else.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::telemetry::logs::Format;

/// Declared, enforced and audited field ownership for Kubernetes objects.
#[derive(Debug, Parser)]
#[command(name = "fieldkeeper", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Options of all commands.
    #[command(flatten)]
    pub logs: LogArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the admission webhook.
    Webhook(Box<WebhookArgs>),
    /// Run a controller.
    #[command(subcommand)]
    Controller(ControllerCommand),
    /// Print the CustomResourceDefinitions.
    Crd(CrdArgs),
    /// Check FieldPolicies in files for what their author can hardly mean. Needs no cluster.
    Lint(LintArgs),
}

/// The controllers.
#[derive(Debug, Subcommand)]
pub enum ControllerCommand {
    /// Check FieldPolicies and keep the webhook's registration in step with them.
    Policy(PolicyControllerArgs),
}

/// How log lines are written, on standard error.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// Form of log lines.
    #[arg(long, global = true, value_enum, default_value_t, env = "FIELDKEEPER_LOG_FORMAT")]
    pub log_format: Format,
    /// What to log: a level, or levels by module such as `fieldkeeper=debug,info`.
    #[arg(long, global = true, default_value = "info", env = "FIELDKEEPER_LOG")]
    pub log: String,
}

/// Which cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// Kubeconfig file; without it KUBECONFIG, the user's own, or the service account of the pod.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; without it the current one.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// `fieldkeeper webhook`.
#[derive(Debug, Args)]
pub struct WebhookArgs {
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// HTTPS address of /validate and /observe; port 0 takes a free one.
    #[arg(long, default_value = "[::]:9443", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// HTTP address of /livez and /readyz.
    #[arg(long, default_value = "[::]:8081", value_name = "ADDRESS")]
    pub listen_health: SocketAddr,
    /// HTTP address of /metrics.
    #[arg(long, default_value = "[::]:8080", value_name = "ADDRESS")]
    pub listen_metrics: SocketAddr,
    /// Directory with tls.crt and tls.key, as a mounted Secret has them.
    #[arg(long, value_name = "DIR", required_unless_present = "cert_file", conflicts_with = "cert_file")]
    pub tls_dir: Option<PathBuf>,
    /// Certificate chain in PEM.
    #[arg(long, value_name = "FILE", requires = "key_file")]
    pub cert_file: Option<PathBuf>,
    /// Private key in PEM.
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    pub key_file: Option<PathBuf>,
    /// Demand a client certificate of one of these authorities (PEM).
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Accept only clients of this common or DNS name; may be given more than once.
    #[arg(long = "client-name", value_name = "NAME", requires = "client_ca_file")]
    pub client_names: Vec<String>,
    /// Oldest TLS version that is spoken.
    #[arg(long, value_enum, default_value_t, value_name = "VERSION")]
    pub tls_min_version: TlsVersion,
    /// How long to serve on after SIGTERM, so that others notice (10s, 500ms).
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = duration)]
    pub shutdown_delay: Duration,
}

/// TLS versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TlsVersion {
    /// 1.2 and 1.3.
    #[value(name = "1.2")]
    Tls12,
    /// 1.3 only.
    #[default]
    #[value(name = "1.3")]
    Tls13,
}

/// `fieldkeeper controller policy`.
#[derive(Debug, Args)]
pub struct PolicyControllerArgs {
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// `fieldkeeper crd`.
#[derive(Debug, Args)]
pub struct CrdArgs {
    /// Write one file for each kind into this directory instead of printing.
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
}

/// `fieldkeeper lint`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 nothing found, 1 findings at or above --fail-on, 2 wrong usage or unreadable files.

Examples:
  fieldkeeper lint -f policy.yaml --crd crd.yaml
  kustomize build deploy | fieldkeeper lint -f - -o json")]
pub struct LintArgs {
    /// File with FieldPolicies, or - for standard input; may be given more than once. CustomResourceDefinitions and
    /// ServiceAccounts in it are heeded, everything else is passed over.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// File with CustomResourceDefinitions of the targets; may be given more than once.
    #[arg(long = "crd", value_name = "FILE")]
    pub crds: Vec<PathBuf>,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: LintOutput,
    /// The lightest finding that makes the exit code 1.
    #[arg(long, value_enum, default_value_t, value_name = "SEVERITY")]
    pub fail_on: FailOn,
}

/// Forms of the findings of `fieldkeeper lint`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LintOutput {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// Which findings count as a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Every one.
    Note,
    /// Warnings and errors.
    #[default]
    Warning,
    /// Errors only.
    Error,
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    Duration::try_from(parsed).map_err(|_| "it must not be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_certificate_is_a_directory_or_a_pair_of_files() {
        let parse = |args: &[&str]| Cli::try_parse_from(["fieldkeeper", "webhook"].iter().chain(args));
        assert!(parse(&[]).is_err());
        assert!(parse(&["--tls-dir", "d"]).is_ok());
        assert!(parse(&["--cert-file", "c", "--key-file", "k"]).is_ok());
        assert!(parse(&["--cert-file", "c"]).is_err());
        assert!(parse(&["--tls-dir", "d", "--cert-file", "c", "--key-file", "k"]).is_err());
        assert!(parse(&["--tls-dir", "d", "--client-name", "kube-apiserver"]).is_err());
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert!(duration("10").is_err());
        assert!(duration("-1s").is_err());
    }
}
