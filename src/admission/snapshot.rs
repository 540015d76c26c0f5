//! Keeps the webhook's [`Snapshot`] up to date.
//!
//! Input: the feed of policies and kinds. Output: a new [`PolicySet`] in
//! [`Snapshots`] at each change, and an open gate from the first one on.
//!
//! Must not wait for schemas (a target without one is judged by what its
//! objects show), nor ever replace policies by the lack of them: `cluster`
//! holds the last good list back where the CRD goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Client;

use super::state::{Gate, Snapshot, Snapshots};
use crate::cluster::feed::{Scene, feed};
use crate::cluster::in_force::{Compile, GroupResource};
use crate::cluster::schemas::{Kind, Kinds};
use crate::ownership::pattern::Pattern;
use crate::ownership::rule::{Policy, PolicySet, ScalePath, Target};

/// Name of the readiness gate that [`run`] needs.
pub const GATE: &str = "policies";
/// Why the gate is closed at first.
pub const GATE_REASON: &str = "policies are not loaded yet";

/// Follows the cluster for ever. When it ends, its gate closes.
pub async fn run(client: Client, compile: impl Compile, snapshots: Snapshots, gate: Gate) {
    let (mut feed, watches) = feed(client);
    let follow = async {
        while let Some(scene) = feed.next(&compile).await {
            let policies = policy_set(&scene);
            report(&scene);
            snapshots.store(Snapshot { policies });
            gate.open();
        }
    };
    tokio::select! {
        () = watches => {}
        () = follow => {}
    }
    tracing::error!("the watches have ended; policies will not change any more");
}

/// The policies in force, by target.
#[must_use]
pub fn policy_set(scene: &Scene) -> PolicySet {
    let mut by_target: BTreeMap<GroupResource, (String, Vec<Arc<Policy>>)> = BTreeMap::new();
    for compiled in scene.policies.iter().filter_map(|judged| judged.in_force.as_ref()) {
        by_target
            .entry(compiled.resource())
            // All that are in force on one resource name the same version.
            .or_insert_with(|| (compiled.spec.target.version.clone(), Vec::new()))
            .1
            .push(compiled.policy.clone());
    }
    PolicySet::new(by_target.into_iter().map(|(resource, (version, policies))| {
        Arc::new(target(&resource, &version, policies, &scene.kinds))
    }))
}

fn target(resource: &GroupResource, version: &str, policies: Vec<Arc<Policy>>, kinds: &Kinds) -> Target {
    let kind = kinds.get(resource);
    Target {
        group: resource.group.as_str().into(),
        resource: resource.resource.as_str().into(),
        version: version.into(),
        schema: kind.schema.clone(),
        versions: kind.versions.clone(),
        scale: scale(resource, &kind),
        sensitive: resource.group.is_empty() && resource.resource == "secrets",
        policies,
    }
}

/// From the CRD, or from the table of the built-in kinds with `/scale`.
fn scale(resource: &GroupResource, kind: &Kind) -> Option<ScalePath> {
    let built_in = match (resource.group.as_str(), resource.resource.as_str()) {
        ("apps", "deployments" | "replicasets" | "statefulsets") | ("", "replicationcontrollers") => {
            Some(".spec.replicas")
        }
        _ => None,
    };
    let path = kind.replicas.as_deref().or(built_in)?;
    match Pattern::parse(path) {
        Ok(replicas) => Some(ScalePath { replicas }),
        Err(error) => {
            // The API server accepts only plain paths, so this is a bug of ours.
            tracing::error!(%resource, path, %error, "the path behind /scale cannot be read");
            None
        }
    }
}

fn report(scene: &Scene) {
    let in_force = scene.policies.iter().filter(|judged| judged.in_force.is_some()).count();
    tracing::info!(in_force, stored = scene.policies.len(), held = scene.held, "policies loaded");
    for judged in &scene.policies {
        if let Some(problem) = &judged.problem {
            tracing::warn!(
                policy = judged.stored.name,
                generation = judged.stored.generation,
                reason = problem.reason(),
                accepted_spec_in_force = judged.in_force.is_some(),
                "the present spec of a policy is not in force: {problem}"
            );
        }
    }
}
