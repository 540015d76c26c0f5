//! Where each target belongs. Pure.
//!
//! Input: policies in force, their kinds, the live registration. Output: the
//! rules of each entry, and the steps that lead there.
//!
//! Must not widen: a target is in exactly one of the three judging entries, the
//! strictest that any of its policies needs, and in no step in none of them.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;

use super::entry::{Entry, Registration, Rules};
use super::subresources;
use crate::api::field_policy::{FailurePolicy, FieldPolicySpec, Mode};
use crate::cluster::feed::Scene;
use crate::cluster::in_force::GroupResource;
use crate::cluster::schemas::Kind;

/// What should be, and how to get there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The entry that judges each target.
    pub entries: BTreeMap<GroupResource, Entry>,
    /// Rules to apply one after the other; empty when the live ones are right.
    pub steps: Vec<Rules>,
}

/// Plans for one scene; without a registration there is nowhere to go.
#[must_use]
pub fn plan(scene: &Scene, live: Option<&Registration>) -> Plan {
    let needs = needs(scene);
    let rules = rules(scene, &needs);
    let steps = live.map(|live| steps(&live.rules, rules)).unwrap_or_default();
    let entries = needs.into_iter().map(|(resource, need)| (resource, need.entry)).collect();
    Plan { entries, steps }
}

/// Whether anything in the policy can end in a refusal. The CRD asks the same of unsafe targets.
#[must_use]
pub fn enforces(spec: &FieldPolicySpec) -> bool {
    let owners = spec.owners.iter();
    let mut modes = owners
        .flat_map(|owner| owner.mode.into_iter().chain(owner.fields.iter().filter_map(|field| field.mode)));
    spec.mode == Mode::Enforce
        || spec.integrity.mode == Some(Mode::Enforce)
        || spec.integrity.co_ownership == Mode::Enforce
        || modes.any(|mode| mode == Mode::Enforce)
}

/// The entry that one policy needs.
#[must_use]
pub fn entry_for(spec: &FieldPolicySpec) -> Entry {
    match (enforces(spec), spec.failure_policy) {
        (false, _) => Entry::Observe,
        (true, FailurePolicy::Ignore) => Entry::EnforceOpen,
        (true, FailurePolicy::Fail) => Entry::Enforce,
    }
}

/// What the policies on a target need, taken together.
struct Need {
    version: String,
    entry: Entry,
    /// Some policy says who may delete.
    deletion: bool,
}

fn needs(scene: &Scene) -> BTreeMap<GroupResource, Need> {
    let mut needs: BTreeMap<GroupResource, Need> = BTreeMap::new();
    for compiled in scene.policies.iter().filter_map(|judged| judged.in_force.as_ref()) {
        let spec = &compiled.spec;
        let need = needs.entry(compiled.resource()).or_insert_with(|| Need {
            version: spec.target.version.clone(),
            entry: Entry::Observe,
            deletion: false,
        });
        need.entry = need.entry.max(entry_for(spec));
        need.deletion |= spec.deletion.is_some();
    }
    needs
}

fn rules(scene: &Scene, needs: &BTreeMap<GroupResource, Need>) -> Rules {
    let mut rules = Rules::new();
    for (resource, need) in needs {
        let rule = rule(resource, need, &scene.kinds.get(resource));
        if need.entry.denies() {
            rules.entry(Entry::Bypass).or_default().push(rule.clone());
        }
        rules.entry(need.entry).or_default().push(rule);
    }
    rules
}

fn rule(resource: &GroupResource, need: &Need, kind: &Kind) -> RuleWithOperations {
    let below = subresources::of(resource, kind.subresources.as_deref(), kind.built_in).iter().copied();
    let deletes = subresources::that_deletes(resource).filter(|_| need.deletion);
    let main = &resource.resource;
    let resources = std::iter::once(main.clone())
        .chain(below.chain(deletes).map(|subresource| format!("{main}/{subresource}")));
    // Equivalent matching needs one version that is served; without it, all that are.
    let versions = if kind.served.is_empty() || kind.served.contains(&need.version) {
        vec![need.version.clone()]
    } else {
        kind.served.clone()
    };
    RuleWithOperations {
        api_groups: Some(vec![resource.group.clone()]),
        api_versions: Some(versions),
        operations: Some(["CREATE", "UPDATE", "DELETE"].map(str::to_owned).to_vec()),
        resources: Some(resources.collect()),
        scope: Some("*".to_owned()),
    }
}

/// Where a target changes its entry, the first step adds it to the new one and only the second takes it from the
/// old one, so that whatever becomes of the second, no write goes unseen.
fn steps(live: &Rules, desired: Rules) -> Vec<Rules> {
    if *live == desired {
        return Vec::new();
    }
    let holds = |entry: &Entry, rule: &RuleWithOperations| {
        desired.get(entry).into_iter().flatten().any(|wanted| governed(wanted) == governed(rule))
    };
    let (mut both, mut moves) = (desired.clone(), false);
    for (entry, rules) in live {
        for leaving in rules.iter().filter(|rule| !holds(entry, rule)) {
            moves |= desired.keys().any(|other| holds(other, leaving));
            both.entry(*entry).or_default().push(leaving.clone());
        }
    }
    if moves && both != *live { vec![both, desired] } else { vec![desired] }
}

/// Group and main resource of a rule of ours.
fn governed(rule: &RuleWithOperations) -> (Option<&String>, Option<&String>) {
    let group = rule.api_groups.as_ref().and_then(|groups| groups.first());
    (group, rule.resources.as_ref().and_then(|resources| resources.first()))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
