//! Which spec of each FieldPolicy is in force. Pure.
//!
//! Input: FieldPolicies as stored, and the compiler. Output: for each of them
//! the compiled policy that holds, if any, and why its present spec does not.
//!
//! Webhook replicas and the policy controller call the same function, so they
//! agree without talking to each other. Must not leave a resource without
//! rules because of an edit that does not work: the last accepted spec holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use super::policies::StoredPolicy;
use crate::api::FieldPolicySpec;
use crate::ownership::rule::Policy;
use crate::policy::compile;

/// A resource, whatever its version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// API group, empty for the core group.
    pub group: String,
    /// Plural resource name.
    pub resource: String,
}

impl std::fmt::Display for GroupResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}", self.resource, self.group)
    }
}

/// Why the present spec of a policy is not in force. [`std::fmt::Display`] is for its author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It does not have the shape of a spec: written by another version of fieldkeeper, or past the CRD's checks.
    #[error("spec cannot be read: {0}")]
    Unreadable(String),
    /// It does not compile: one problem a line.
    #[error("{0}")]
    Invalid(String),
    /// Others on the same resource are written for another version.
    #[error(
        "policies on {resource} are written for version {version}, this one for {own}: all of them must name the same version"
    )]
    VersionDisagrees {
        /// The resource.
        resource: GroupResource,
        /// The version that counts.
        version: String,
        /// The version in this spec.
        own: String,
    },
}

impl Problem {
    /// The reason in the condition `Accepted`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "Unreadable",
            Self::Invalid(_) => "Invalid",
            Self::VersionDisagrees { .. } => "VersionDisagrees",
        }
    }
}

/// A spec that compiled.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// As it was stored, byte for byte: this becomes `acceptedSpec`.
    pub raw: Value,
    /// As it was read.
    pub spec: FieldPolicySpec,
    /// As it is judged by.
    pub policy: Arc<Policy>,
}

impl Compiled {
    /// The resource it governs.
    #[must_use]
    pub fn resource(&self) -> GroupResource {
        let target = &self.spec.target;
        GroupResource { group: target.group.clone(), resource: target.resource.clone() }
    }
}

/// One policy and what of it holds.
#[derive(Clone, Debug)]
pub struct Judged {
    /// As stored.
    pub stored: Arc<StoredPolicy>,
    /// What holds; `None` for a policy that never was acceptable.
    pub in_force: Option<Compiled>,
    /// Why that is not the present spec.
    pub problem: Option<Problem>,
}

/// Turns a readable spec into a policy, or says what is wrong with it, one problem a line.
pub trait Compile: Fn(&str, i64, &FieldPolicySpec) -> Result<Policy, String> {}

impl<F: Fn(&str, i64, &FieldPolicySpec) -> Result<Policy, String>> Compile for F {}

/// The compiler of this version as a [`Compile`].
pub fn with_compiler(name: &str, generation: i64, spec: &FieldPolicySpec) -> Result<Policy, String> {
    compile::compile(name, generation, spec).map_err(|errors| errors.to_string())
}

/// Judges all policies together, in the order of their names.
pub fn judge(policies: impl IntoIterator<Item = Arc<StoredPolicy>>, compile: impl Compile) -> Vec<Judged> {
    let candidates: Vec<Candidate> =
        policies.into_iter().map(|stored| Candidate::read(stored, &compile)).collect();
    let versions = versions(&candidates);
    candidates.into_iter().map(|candidate| candidate.settle(&versions)).collect()
}

/// The version that counts for each resource with a policy in force.
#[must_use]
pub fn targets(policies: &[Judged]) -> BTreeMap<GroupResource, String> {
    policies
        .iter()
        .filter_map(|judged| judged.in_force.as_ref())
        .map(|compiled| (compiled.resource(), compiled.spec.target.version.clone()))
        .collect()
}

/// A policy with both of its specs tried.
struct Candidate {
    stored: Arc<StoredPolicy>,
    present: Result<Compiled, Problem>,
    accepted: Option<Compiled>,
}

impl Candidate {
    fn read(stored: Arc<StoredPolicy>, compile: &impl Compile) -> Self {
        let present = compiled(&stored, &stored.spec, compile);
        let accepted = stored
            .status
            .get("acceptedSpec")
            .and_then(|raw| compiled(&stored, raw, compile).ok())
            .filter(|accepted| names_the_same(&stored.spec, accepted))
            .map(|accepted| paused_as_the_present_spec_says(&stored, accepted));
        Self { stored, present, accepted }
    }

    fn any(&self) -> Option<&Compiled> {
        self.present.as_ref().ok().or(self.accepted.as_ref())
    }

    fn settle(self, versions: &BTreeMap<GroupResource, String>) -> Judged {
        let Self { stored, present, accepted } = self;
        let (in_force, problem) = match present.and_then(|compiled| agrees(compiled, versions)) {
            Ok(compiled) => (Some(compiled), None),
            Err(problem) => (accepted.and_then(|spec| agrees(spec, versions).ok()), Some(problem)),
        };
        Judged { stored, in_force, problem }
    }
}

fn compiled(stored: &StoredPolicy, raw: &Value, compile: &impl Compile) -> Result<Compiled, Problem> {
    let spec = FieldPolicySpec::deserialize(raw).map_err(|error| Problem::Unreadable(error.to_string()))?;
    let policy = compile(&stored.name, stored.generation, &spec).map_err(Problem::Invalid)?;
    Ok(Compiled { raw: raw.clone(), spec, policy: Arc::new(policy) })
}

/// Group and resource are immutable, but a restored status may be of another policy of that name.
fn names_the_same(spec: &Value, accepted: &Compiled) -> bool {
    let text =
        |key: &str| spec.pointer(&format!("/target/{key}")).and_then(Value::as_str).unwrap_or_default();
    let target = &accepted.spec.target;
    text("group") == target.group && text("resource") == target.resource
}

/// A pause must work while the rest of the spec does not.
fn paused_as_the_present_spec_says(stored: &StoredPolicy, mut accepted: Compiled) -> Compiled {
    let until = stored.spec.get("pausedUntil").and_then(Value::as_str);
    let until = until.and_then(|text| text.parse::<Timestamp>().ok());
    Arc::make_mut(&mut accepted.policy).paused_until = until.map(Timestamp::as_second);
    accepted
}

fn agrees(compiled: Compiled, versions: &BTreeMap<GroupResource, String>) -> Result<Compiled, Problem> {
    let resource = compiled.resource();
    let own = &compiled.spec.target.version;
    match versions.get(&resource) {
        Some(version) if version != own => {
            Err(Problem::VersionDisagrees { version: version.clone(), own: own.clone(), resource })
        }
        _ => Ok(compiled),
    }
}

/// The version of each resource: the one that all name, else the one that the oldest policy was last accepted with.
///
/// So a resource moves to another version when the last of its policies does, in whatever order they are edited, and
/// nothing falls out of force on the way.
fn versions(candidates: &[Candidate]) -> BTreeMap<GroupResource, String> {
    let mut by_resource: BTreeMap<GroupResource, Vec<&Candidate>> = BTreeMap::new();
    for candidate in candidates {
        if let Some(compiled) = candidate.any() {
            by_resource.entry(compiled.resource()).or_default().push(candidate);
        }
    }
    by_resource
        .into_iter()
        .filter_map(|(resource, mut candidates)| {
            // A policy without a time is newer than any with one: it cannot claim to have been first.
            candidates.sort_by_key(|candidate| {
                let stored = &candidate.stored;
                (stored.created.is_none(), stored.created, stored.name.clone())
            });
            let oldest = candidates.first()?;
            let present = &oldest.any()?.spec.target.version;
            let all_agree = candidates
                .iter()
                .filter_map(|candidate| candidate.any())
                .all(|compiled| compiled.spec.target.version == *present);
            let accepted = oldest.accepted.as_ref().filter(|_| !all_agree);
            let version = accepted.map_or(present, |accepted| &accepted.spec.target.version);
            Some((resource, version.clone()))
        })
        .collect()
}

#[cfg(test)]
#[path = "in_force_tests.rs"]
mod tests;
