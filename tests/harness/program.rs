//! Our own program, `fieldkeeper`, as a process beside the control plane.
//!
//! Input: how this crate was built, an identity, arguments. Output: a [`Process`] built from the same sources.
//! Must not: run a stale one.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};

use super::control_plane::ControlPlane;
use super::identity::Identity;
use super::kubectl::Output;
use super::process::Process;

impl ControlPlane {
    /// Starts `fieldkeeper webhook …` or `fieldkeeper controller …` under `identity`; its log is `logs/<name>.log`.
    pub async fn start_fieldkeeper(
        &self,
        name: &str,
        identity: &Identity,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Result<Process> {
        let kubeconfig = self.kubeconfig(identity).await?;
        let program = tokio::task::spawn_blocking(fieldkeeper).await??;
        self.run_beside(name, &program, &kubeconfig, args, env)
    }

    /// Runs a command of `fieldkeeper` that is done when it is done, such as `fieldkeeper audit`.
    pub async fn fieldkeeper(&self, identity: &Identity, args: &[&str], input: &str) -> Result<Output> {
        let kubeconfig = self.kubeconfig(identity).await?;
        let program = tokio::task::spawn_blocking(fieldkeeper).await??;
        self.run(program, &kubeconfig, args, input).await
    }
}

/// Cargo builds the program for an integration test and says where it is. For an example it does not, so there we
/// ask Cargo to; a build of what is built already takes a fraction of a second.
pub fn fieldkeeper() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf>> = OnceLock::new();
    if let Some(path) = option_env!("CARGO_BIN_EXE_fieldkeeper") {
        return Ok(PathBuf::from(path));
    }
    match BUILT.get_or_init(build) {
        Ok(path) => Ok(path.clone()),
        Err(error) => Err(anyhow!("{error:#}")),
    }
}

fn build() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    // target/<profile>/examples/playground
    let profile = here.parent().and_then(|examples| examples.parent()).context("not in a target folder")?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--bin", "fieldkeeper", "--manifest-path"]);
    cargo.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(name) => {
            cargo.args(["--profile", name]);
        }
    }
    if let Some(target) = profile.parent() {
        cargo.arg("--target-dir").arg(target);
    }
    ensure!(cargo.status().context("cannot run cargo")?.success(), "cannot build fieldkeeper");
    let program = profile.join("fieldkeeper");
    ensure!(program.exists(), "cargo built fieldkeeper, but there is no {}", program.display());
    Ok(program)
}
