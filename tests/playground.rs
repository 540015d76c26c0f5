//! A control plane with fieldkeeper in it to play with, and a tour of what it does.
//!
//! Purpose: `cargo run --example playground` shows every step as one would type it, with its real output, and then
//! stays until Ctrl-C, so that the reader can go on by hand. `-- --once` ends after the tour (for CI).
//! Input: nothing. Output: the tour on standard output; an error if a step went otherwise than told.
//! Must not: touch the reader's own kubeconfig or clusters.

#[path = "harness/mod.rs"]
mod harness;

use anyhow::{Context, Result, bail};
use harness::{ControlPlane, Expect, Installation, Options, Tour, get, print};

/// Who plays: flags for kubectl.
const AUTOSCALER: &str = "--as=system:serviceaccount:fieldkeeper-system:autoscaler";
const ALICE: &str = "--as=alice";
const PAULA: [&str; 2] = ["--as=paula", "--as-group=platform-admins"];
const ONCALL: [&str; 2] = ["--as=oncall", "--as-group=fieldkeeper.dev:bypass"];

/// What Alice tries again and again.
const EMPTY_THE_POOL: &str = r#"-p={"spec":{"targetNodes":0}}"#;

#[tokio::main]
async fn main() -> Result<()> {
    let mut once = false;
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "--once" => once = true,
            _ => bail!("usage: playground [--once]"),
        }
    }
    // The commands name the samples as seen from here.
    std::env::set_current_dir(env!("CARGO_MANIFEST_DIR")).context("the sources are gone")?;
    tokio::select! {
        result = play(once) => result,
        // The control plane is gone by now. Returning would wait for a build that may be running.
        _ = tokio::signal::ctrl_c() => std::process::exit(if once { 130 } else { 0 }),
    }
}

async fn play(once: bool) -> Result<()> {
    let start = std::time::Instant::now();
    let plane = ControlPlane::start(Options::full()).await?;
    let fieldkeeper = plane.install_fieldkeeper().await?;
    print(&format!(
        "A Kubernetes control plane with fieldkeeper in it is ready after {:.1} s: {}\n",
        start.elapsed().as_secs_f64(),
        plane.url()
    ))?;
    tour(&plane, &fieldkeeper).await?;
    if once {
        return Ok(());
    }
    print(&format!(
        "\nGo on by hand, in another terminal:\n\nexport KUBECONFIG={}\nalias kubectl={}\n\n\
         Ctrl-C ends everything and removes it.\n",
        plane.admin_kubeconfig().display(),
        plane.kubectl_path().display()
    ))?;
    std::future::pending().await
}

async fn tour(plane: &ControlPlane, fieldkeeper: &Installation) -> Result<()> {
    let mut tour = Tour::new(plane);
    declare(&mut tour, plane, fieldkeeper).await?;
    owners_write(&mut tour).await?;
    strangers_are_refused(&mut tour, plane, fieldkeeper).await?;
    milder_modes(&mut tour, plane, fieldkeeper).await?;
    emergency(&mut tour, fieldkeeper).await?;
    tour.finish()
}

async fn declare(tour: &mut Tour<'_>, plane: &ControlPlane, fieldkeeper: &Installation) -> Result<()> {
    tour.step("A real API server.")?;
    tour.kubectl(&["version"], Expect::Says("Server Version")).await?;
    tour.step("RBAC lets everybody write NodePools. A FieldPolicy says whose each field is.")?;
    tour.kubectl(&["apply", "-f", "deploy/samples/nodepool-editors.yaml"], Expect::Says("created")).await?;
    tour.kubectl(&["apply", "-f", "deploy/samples/nodepools-policy.yaml"], Expect::Says("created")).await?;
    fieldkeeper.registered(plane, "nodepools").await?;
    let create = ["create", "--dry-run=server", "-f", "deploy/samples/nodepool-general.yaml", ALICE];
    fieldkeeper.says(plane, "may not set", &create).await?;
    tour.kubectl(&["get", "fieldpolicies"], Expect::Says("nodepools")).await?;
    Ok(())
}

async fn owners_write(tour: &mut Tour<'_>) -> Result<()> {
    tour.step(
        "The platform team makes a pool, and the autoscaler sets its size: each writes what is its own.",
    )?;
    let create = ["create", "-f", "deploy/samples/nodepool-general.yaml", PAULA[0], PAULA[1]];
    tour.kubectl(&create, Expect::Says("created")).await?;
    let apply = ["apply", "--server-side", "--field-manager=autoscaler", AUTOSCALER, "-f", "-"];
    tour.kubectl_with(&apply, &size_of(5), Expect::Says("serverside-applied")).await?;
    let size = "-o=custom-columns=NAME:.metadata.name,HAND-OFF:.spec.handOff,TARGET:.spec.targetNodes";
    tour.kubectl(&["get", "nodepools", size], Expect::Says("5")).await?;
    Ok(())
}

fn size_of(nodes: u32) -> String {
    format!(
        "apiVersion: compute.fieldkeeper.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: general}}\nspec: {{targetNodes: {nodes}}}"
    )
}

async fn strangers_are_refused(
    tour: &mut Tour<'_>,
    plane: &ControlPlane,
    fieldkeeper: &Installation,
) -> Result<()> {
    let patch = ["patch", "nodepool", "general", "--type=merge", EMPTY_THE_POOL, ALICE];
    let dry_run = [&patch[..], &["--dry-run=server"]].concat();
    fieldkeeper.says(plane, "may not change", &dry_run).await?;
    tour.step(
        "Alice tries whether she may empty the pool. A dry run gets the same answer as the real thing.",
    )?;
    tour.kubectl(&dry_run, Expect::Refused(".spec.targetNodes: 5 -> 0")).await?;
    tour.step("Not through /scale either ...")?;
    let scale = ["scale", "nodepool", "general", "--replicas=0", ALICE];
    tour.kubectl(&scale, Expect::Refused(".spec.targetNodes: 5 -> 0")).await?;
    tour.step("... nor by a forced apply under the autoscaler's own manager name ...")?;
    let force =
        ["apply", "--server-side", "--force-conflicts", "--field-manager=autoscaler", ALICE, "-f", "-"];
    tour.kubectl_with(&force, &size_of(0), Expect::Refused("is reserved for autoscaler")).await?;
    tour.step("... nor by taking the field away.")?;
    let remove = r#"-p=[{"op":"remove","path":"/spec/targetNodes"}]"#;
    let remove = ["patch", "nodepool", "general", "--type=json", remove, ALICE];
    tour.kubectl(&remove, Expect::Refused(".spec.targetNodes: 5 -> (removed)")).await?;
    tour.step("What nobody claims is free.")?;
    tour.kubectl(&["label", "nodepool", "general", "cost-center=42", ALICE], Expect::Says("labeled")).await?;
    Ok(())
}

async fn milder_modes(tour: &mut Tour<'_>, plane: &ControlPlane, fieldkeeper: &Installation) -> Result<()> {
    tour.step("In mode Warn the same write passes, with a warning. That is how a policy is rolled out.")?;
    let warn = ["patch", "fieldpolicy", "nodepools", "--type=merge", r#"-p={"spec":{"mode":"Warn"}}"#];
    tour.kubectl(&warn, Expect::Says("patched")).await?;
    let patch = ["patch", "nodepool", "general", "--type=merge", EMPTY_THE_POOL, ALICE, "--dry-run=server"];
    fieldkeeper.registered(plane, "nodepools").await?;
    fieldkeeper.says(plane, "Warning", &patch).await?;
    tour.kubectl(&patch, Expect::Says("Warning: .spec.targetNodes: 5 -> 0")).await?;
    let enforce = ["patch", "fieldpolicy", "nodepools", "--type=merge", r#"-p={"spec":{"mode":"Enforce"}}"#];
    tour.kubectl(&enforce, Expect::Says("patched")).await?;
    fieldkeeper.registered(plane, "nodepools").await?;
    fieldkeeper.says(plane, "may not change", &patch).await?;
    Ok(())
}

async fn emergency(tour: &mut Tour<'_>, fieldkeeper: &Installation) -> Result<()> {
    tour.step("In an emergency a member of the bypass group writes as usual, and it is recorded.")?;
    let patch = ["patch", "nodepool", "general", "--type=merge", EMPTY_THE_POOL, ONCALL[0], ONCALL[1]];
    tour.kubectl(&patch, Expect::Says("allowed by break-glass and recorded")).await?;
    let (_, metrics) = get(fieldkeeper.metrics_port, "/metrics").await?;
    let used =
        metrics.lines().any(|line| line.starts_with("fieldkeeper_webhook_bypass") && line.ends_with(" 1"));
    tour.check("fieldkeeper counted one use of the bypass", used)
}
