//! A control plane to play with, and a tour of what is in it.
//!
//! Purpose: `cargo run --example playground` shows every step as one would type it, with its real output, and then
//! stays until Ctrl-C, so that the reader can go on by hand. `--once` ends after the tour (for CI).
//! Input: nothing. Output: the tour on standard output; an error if a step went otherwise than told.
//! Must not: touch the reader's own kubeconfig or clusters.

#[path = "harness/mod.rs"]
mod harness;

use anyhow::{Result, bail};
use harness::{ControlPlane, Expect, Options, Tour, print};

#[tokio::main]
async fn main() -> Result<()> {
    let mut once = false;
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "--once" => once = true,
            _ => bail!("usage: playground [--once]"),
        }
    }
    tokio::select! {
        result = play(once) => result,
        // The control plane is gone by now. Returning would wait for a build that may be running.
        _ = tokio::signal::ctrl_c() => std::process::exit(if once { 130 } else { 0 }),
    }
}

async fn play(once: bool) -> Result<()> {
    let start = std::time::Instant::now();
    let plane = ControlPlane::start(Options::full()).await?;
    print(&format!(
        "The control plane is ready after {:.1} s: {}\n",
        start.elapsed().as_secs_f64(),
        plane.url()
    ))?;
    tour(&plane).await?;
    if once {
        return Ok(());
    }
    print(&format!(
        "\nGo on by hand:\n\nexport KUBECONFIG={}\nalias kubectl={}\n\nCtrl-C ends everything and removes it.\n",
        plane.admin_kubeconfig().display(),
        plane.kubectl_path().display()
    ))?;
    std::future::pending().await
}

async fn tour(plane: &ControlPlane) -> Result<()> {
    let mut tour = Tour::new(plane);
    tour.step("A real API server answers.")?;
    tour.kubectl(&["version"], Expect::Says("Server Version")).await?;
    tour.finish()
}
