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
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;

use super::notices::PolicyIds;
use super::state::{Gate, Snapshot, Snapshots};
use crate::cluster::feed::{Scene, feed};
use crate::cluster::in_force::{Compile, GroupResource};
use crate::cluster::namespaces::{self, Namespaces};
use crate::cluster::replicas::Loaded;
use crate::cluster::target::target;
use crate::ownership::rule::{Policy, PolicySet};
use crate::ownership::scale;
use crate::telemetry::policies::PolicyMetrics;

/// Name of the readiness gate that [`run`] needs.
pub const GATE: &str = "policies";
/// Why the gate is closed at first.
pub const GATE_REASON: &str = "policies are not loaded yet";

/// How long new policies wait for the labels of namespaces. Listing them takes milliseconds; without the right to,
/// policies must come into force all the same.
const NAMESPACES: Duration = Duration::from_secs(3);

/// Who is told of the policies besides those who judge by them.
pub struct Told {
    /// Counts them.
    pub metrics: PolicyMetrics,
    /// Writes events about them.
    pub ids: PolicyIds,
    /// Reports what this replica judges by.
    pub loaded: watch::Sender<Loaded>,
}

/// Follows the cluster for ever. When it ends, its gate closes.
pub async fn run(
    client: Client,
    compile: impl Compile + Send + Sync,
    snapshots: Snapshots,
    namespaces: Namespaces,
    gate: Gate,
    told: Told,
) {
    let (mut feed, watches) = feed(client.clone());
    let (needed, asked) = watch::channel(false);
    let follow = async {
        while let Some(scene) = feed.next(&compile).await {
            let policies = policy_set(&scene);
            report(&scene, &told.metrics);
            let stored = scene.policies.iter().map(|judged| &judged.stored);
            told.ids.store(stored.map(|policy| (policy.name.clone(), policy.uid.clone())).collect());
            needed.send_replace(selects_namespaces(&policies));
            // Until they are listed, a policy for a few namespaces would hold in all of them.
            if *needed.borrow() && !namespaces.listed(NAMESPACES).await {
                tracing::warn!(
                    "the labels of namespaces are not known: policies that select by them hold everywhere"
                );
            }
            let loaded = loaded(&policies);
            snapshots.store(Snapshot { policies });
            gate.open();
            // Only now: what is reported is what is judged by.
            told.loaded.send_replace(loaded);
        }
    };
    tokio::select! {
        () = watches => {}
        () = namespaces::run(client, asked, namespaces.clone()) => {}
        () = follow => {}
    }
    tracing::error!("the watches have ended; policies will not change any more");
}

fn loaded(policies: &PolicySet) -> Loaded {
    let all = policies.targets().flat_map(|target| &target.policies);
    let parents = policies.targets().filter(|target| scale::may_need_parent(target));
    Loaded {
        generations: all.map(|policy| (policy.name.to_string(), policy.generation)).collect(),
        parents: parents
            .map(|target| GroupResource {
                group: target.group.to_string(),
                resource: target.resource.to_string(),
            })
            .collect(),
    }
}

fn selects_namespaces(policies: &PolicySet) -> bool {
    let mut all = policies.targets().flat_map(|target| &target.policies);
    all.any(|policy| policy.selection.namespaces.is_some())
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
        Arc::new(target(&resource, &version, policies, &scene.kinds.get(&resource)))
    }))
}

fn report(scene: &Scene, metrics: &PolicyMetrics) {
    let in_force = scene.policies.iter().filter(|judged| judged.in_force.is_some()).count();
    let not_accepted = scene.policies.iter().filter(|judged| judged.problem.is_some()).count();
    metrics.loaded(in_force, not_accepted, scene.held.is_some());
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::in_force::{judge, with_compiler};
    use crate::cluster::policies::StoredPolicy;

    fn policy(name: &str, group: &str, resource: &str, path: &str) -> Arc<StoredPolicy> {
        Arc::new(StoredPolicy {
            name: name.to_owned(),
            uid: "u".to_owned(),
            generation: 1,
            created: None,
            spec: json!({
                "target": {"group": group, "version": "v1", "resource": resource},
                "owners": [{"name": "o", "fields": [{"path": path}]}],
            }),
            status: Value::Null,
        })
    }

    fn scene(policies: Vec<Arc<StoredPolicy>>) -> Scene {
        Scene { policies: judge(policies, with_compiler), kinds: Arc::default(), held: None }
    }

    #[test]
    fn policies_on_one_resource_are_one_target() {
        let set = policy_set(&scene(vec![
            policy("a", "apps", "deployments", ".spec"),
            policy("b", "apps", "deployments", ".spec.replicas"),
            policy("c", "", "secrets", ".data"),
        ]));
        let deployments = set.target("apps", "deployments").unwrap();
        let names: Vec<&str> = deployments.policies.iter().map(|policy| &*policy.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(&*deployments.version, "v1");
        assert!(!deployments.sensitive);
        assert!(set.target("", "secrets").unwrap().sensitive);
        assert_eq!(set.targets().count(), 2);
    }

    #[test]
    fn a_target_is_judged_also_without_a_schema() {
        let set = policy_set(&scene(vec![policy("a", "example.com", "things", ".spec")]));
        let target = set.target("example.com", "things").unwrap();
        assert!(target.versions.is_empty() && target.scale.is_none());
    }

    #[test]
    fn what_does_not_compile_is_not_there() {
        let set = policy_set(&scene(vec![policy("a", "example.com", "things", "spec")]));
        assert_eq!(set.targets().count(), 0);
    }
}
