//! Runs `kubectl` of the server's own release.
//!
//! Input: a kubeconfig file and arguments. Output: status and what was printed.
//! Must not: read or write anything in the caller's home folder.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::control_plane::ControlPlane;

/// What a program printed and how it ended.
#[derive(Clone, Debug)]
pub struct Output {
    pub success: bool,
    /// The exit code; -1 if a signal ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// Both streams, as a person at a terminal sees them.
    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// The standard output of a program that must have succeeded.
    pub fn ok(self) -> Result<String> {
        if !self.success {
            bail!("ended with {}: {}", self.code, self.text().trim());
        }
        Ok(self.stdout)
    }
}

impl ControlPlane {
    /// Where `kubectl` is.
    pub fn kubectl_path(&self) -> &Path {
        &self.binaries().kubectl
    }

    /// `kubectl` as the administrator; `--as`, `-n` and the rest are arguments like any other.
    pub async fn kubectl(&self, args: &[&str]) -> Result<Output> {
        self.run_kubectl(&self.admin_kubeconfig(), args, "").await
    }

    /// `kubectl` with another kubeconfig file and with `input` on its standard input.
    pub async fn run_kubectl(&self, kubeconfig: &Path, args: &[&str], input: &str) -> Result<Output> {
        self.run(self.kubectl_path().to_owned(), kubeconfig, args, input).await
    }

    /// Server-side apply as the administrator, for what a test needs as its ground.
    pub async fn apply(&self, manifests: &str) -> Result<()> {
        let args = ["apply", "--server-side", "--field-manager=test-setup", "-f", "-"];
        self.run_kubectl(&self.admin_kubeconfig(), &args, manifests).await?.ok()?;
        Ok(())
    }

    /// Any program that is done when it is done, with `KUBECONFIG` set.
    pub async fn run(
        &self,
        program: PathBuf,
        kubeconfig: &Path,
        args: &[&str],
        input: &str,
    ) -> Result<Output> {
        let mut command = Command::new(&program);
        command.args(args).env("KUBECONFIG", kubeconfig).env("HOME", self.dir());
        let input = input.to_owned();
        // Not on the runtime's own thread: a webhook in the same process must be able to answer meanwhile.
        tokio::task::spawn_blocking(move || output(command, &input))
            .await?
            .with_context(|| format!("cannot run {}", program.display()))
    }
}

fn output(mut command: Command, input: &str) -> Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that does not read its input closes it; that is its right.
            let _ = stdin.map(|mut pipe| pipe.write_all(input.as_bytes()));
        });
        child.wait_with_output()
    })?;
    Ok(Output {
        success: output.status.success(),
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
