//! A control plane to play with, and a tour of what is in it.
//!
//! Purpose: `cargo run --example playground` shows every step as one would type it, with its real output, and then
//! stays until Ctrl-C, so that the reader can go on by hand. `--once` ends after the tour (for CI).
//! Input: nothing. Output: the tour on standard output; an error if a step went otherwise than told.
//! Must not: touch the reader's own kubeconfig or clusters.

#[path = "harness/mod.rs"]
mod harness;

use anyhow::{Result, bail};
use harness::{ControlPlane, Expect, Options, Tour};

#[tokio::main]
async fn main() -> Result<()> {
    let mut once = false;
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "--once" => once = true,
            _ => bail!("usage: playground [--once]"),
        }
    }
    // Ctrl-C in the middle of the tour ends it in the same orderly way.
    tokio::select! {
        result = play(once) => result,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn play(once: bool) -> Result<()> {
    let start = std::time::Instant::now();
    let plane = ControlPlane::start(Options::full()).await?;
    println!("The control plane is ready after {:.1} s: {}", start.elapsed().as_secs_f64(), plane.url());
    tour(&plane).await?;
    if once {
        return Ok(());
    }
    println!("\nGo on by hand:\n");
    println!("export KUBECONFIG={}", plane.admin_kubeconfig().display());
    println!("alias kubectl={}", plane.kubectl_path().display());
    println!("\nCtrl-C ends everything and removes it.");
    std::future::pending().await
}

async fn tour(plane: &ControlPlane) -> Result<()> {
    let mut tour = Tour::new(plane);
    tour.step("A real API server answers.")?;
    tour.kubectl(&["version"], Expect::Says("Server Version")).await?;
    tour.finish()
}
