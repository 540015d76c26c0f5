//! The `fieldkeeper` program: crypto provider, logging, runtime, one command, its exit code.

use std::process::ExitCode;

use clap::Parser as _;
use fieldkeeper::cli::Cli;
use fieldkeeper::{commands, telemetry};

/// Whoever runs here waits most of the time (reviews have threads of their own): more would only cost memory.
const WORKERS: usize = 2;

/// For file reads.
const BLOCKING_THREADS: usize = 8;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match start(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fieldkeeper: {error:#}");
            ExitCode::from(commands::FAILED)
        }
    }
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    // First of all: whatever uses TLS before would choose for itself, or panic.
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a TLS provider is already installed"))?;
    telemetry::logs::init(cli.logs.log_format, &cli.logs.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()?;
    Ok(runtime.block_on(commands::run(cli)))
}
