//! Which admission policies there should be, and how to get there. Pure.
//!
//! Input: policies in force, their kinds, the generated objects as they are. Output: what is wanted of each policy,
//! and the steps that lead there.
//!
//! Must not take a rule away because something about its policy is not known yet.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use super::entry::Registration;
use super::generated::Generated;
use super::pause::Pause;
use super::subresources;
use crate::api::field_policy::AdmissionPolicy;
use crate::cluster::feed::Scene;
use crate::cluster::in_force::Compiled;
use crate::cluster::schemas::{Kind, Unresolved};
use crate::cluster::target::target;
use crate::policy::export_vap::{self, Action, EXCLUDED_NAMESPACES, Facts, POLICY_LABEL};

/// What is wanted of one FieldPolicy.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// As the generator says it; `None` while the kind is not known yet: then everything stays as it is.
    pub generated: Option<export_vap::Generated>,
    /// What a broken rule leads to.
    pub action: Action,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Write the policy of a FieldPolicy.
    WritePolicy(Box<ValidatingAdmissionPolicy>),
    /// Write the binding of a FieldPolicy.
    WriteBinding(Box<ValidatingAdmissionPolicyBinding>),
    /// Delete a policy.
    DeletePolicy(ObjectMeta),
    /// Delete a binding.
    DeleteBinding(ObjectMeta),
}

impl Step {
    /// For the log.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::WritePolicy(_) => "write policy",
            Self::WriteBinding(_) => "write binding",
            Self::DeletePolicy(_) => "delete policy",
            Self::DeleteBinding(_) => "delete binding",
        }
    }

    /// The FieldPolicy that it is about.
    #[must_use]
    pub fn policy(&self) -> &str {
        let metadata = match self {
            Self::WritePolicy(policy) => &policy.metadata,
            Self::WriteBinding(binding) => &binding.metadata,
            Self::DeletePolicy(metadata) | Self::DeleteBinding(metadata) => metadata,
        };
        metadata.labels.as_ref().and_then(|labels| labels.get(POLICY_LABEL)).map_or("", String::as_str)
    }
}

/// What is wanted, by FieldPolicy; those that want nothing are not in it.
#[must_use]
pub fn wanted(
    scene: &Scene,
    registration: Option<&Registration>,
    now: Timestamp,
) -> BTreeMap<String, Wanted> {
    let mut excluded: BTreeSet<String> = EXCLUDED_NAMESPACES.map(str::to_owned).into();
    // Where an installer keeps the webhook out of more, a rule beside it must not be stricter.
    excluded.extend(registration.iter().flat_map(|live| live.excluded_namespaces.iter().cloned()));
    let in_force = scene.policies.iter().filter_map(|judged| judged.in_force.as_ref());
    let wanting = in_force.filter(|compiled| compiled.spec.admission_policy != AdmissionPolicy::None);
    wanting
        .map(|compiled| {
            let kind = scene.kinds.get(&compiled.resource());
            (compiled.policy.name.to_string(), of_one(compiled, &kind, &excluded, now))
        })
        .collect()
}

fn of_one(compiled: &Compiled, kind: &Kind, excluded: &BTreeSet<String>, now: Timestamp) -> Wanted {
    let resource = compiled.resource();
    let paused = Pause::of(&compiled.policy, now).is_some_and(|pause| pause.began);
    let action = if compiled.spec.admission_policy == AdmissionPolicy::Deny && !paused {
        Action::Deny
    } else {
        Action::Audit
    };
    if kind.unresolved == Some(Unresolved::NotLoaded) {
        return Wanted { generated: None, action };
    }
    let target = target(&resource, &compiled.spec.target.version, vec![compiled.policy.clone()], kind);
    let facts = Facts {
        target: &target,
        schema_known: kind.unresolved.is_none(),
        subresources: subresources::of(&resource, kind.subresources.as_deref(), kind.built_in),
        custom: !kind.built_in,
        excluded_namespaces: excluded,
        action,
    };
    // Of the target: there its paths are complete.
    let generated = target.policies.first().map(|policy| export_vap::generate(policy, &facts));
    Wanted { generated, action }
}

/// The steps; none while it is not known what there is.
#[must_use]
pub fn steps(wanted: &BTreeMap<String, Wanted>, live: &Generated) -> Vec<Step> {
    let (Some(policies), Some(bindings)) = (&live.policies.objects, &live.bindings.objects) else {
        return Vec::new();
    };
    let mut steps = Vec::new();
    let mut kept: BTreeSet<String> = BTreeSet::new();
    for (name, wanted) in wanted {
        let Some(generated) = &wanted.generated else {
            kept.insert(export_vap::name(name));
            continue;
        };
        let Some((policy, binding)) = generated.objects.as_deref() else { continue };
        let name = export_vap::name(name);
        let stands = |live: &ValidatingAdmissionPolicy| {
            live.spec == policy.spec && holds(&live.metadata, &policy.metadata)
        };
        if !policies.get(&name).is_some_and(stands) {
            steps.push(Step::WritePolicy(Box::new(policy.clone())));
        }
        let stands = |live: &ValidatingAdmissionPolicyBinding| {
            live.spec == binding.spec && holds(&live.metadata, &binding.metadata)
        };
        if !bindings.get(&name).is_some_and(stands) {
            steps.push(Step::WriteBinding(Box::new(binding.clone())));
        }
        kept.insert(name);
    }
    // The binding first: a policy without one says nothing, a binding without its policy is an error.
    let gone = |name: &&String| !kept.contains(*name);
    let stale = bindings.iter().filter(|(name, _)| gone(name));
    steps.extend(stale.map(|(_, binding)| Step::DeleteBinding(binding.metadata.clone())));
    let stale = policies.iter().filter(|(name, _)| gone(name));
    steps.extend(stale.map(|(_, policy)| Step::DeletePolicy(policy.metadata.clone())));
    steps
}

/// Whether the labels and annotations are there, among whichever others.
fn holds(live: &ObjectMeta, wanted: &ObjectMeta) -> bool {
    let all = |live: &Option<BTreeMap<String, String>>, wanted: &Option<BTreeMap<String, String>>| {
        let there =
            |(key, value): (&String, &String)| live.as_ref().and_then(|live| live.get(key)) == Some(value);
        wanted.iter().flatten().all(there)
    };
    all(&live.labels, &wanted.labels) && all(&live.annotations, &wanted.annotations)
}

/// What the API server's type checker has against the rules, each a line.
#[must_use]
pub fn warnings(live: &ValidatingAdmissionPolicy) -> Vec<String> {
    let Some(status) =
        live.status.as_ref().filter(|status| status.observed_generation == live.metadata.generation)
    else {
        return Vec::new();
    };
    let found =
        status.type_checking.iter().flat_map(|checking| checking.expression_warnings.iter().flatten());
    found.map(|warning| format!("{}: {}", warning.field_ref, warning.warning.trim())).collect()
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
