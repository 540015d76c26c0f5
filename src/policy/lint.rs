//! Lint: what a policy says that its author can hardly mean. Pure.
//!
//! Input: one compiled policy with the spec it was made from, the other policies on its target, the
//! schema and whatever else the caller knows. Output: findings, each with the place it is about.
//!
//! Must not refuse anything: what stands in the way of judging is the compiler's. And must not guess:
//! a fact that the caller does not know ([`Facts`]) silences the rules that need it.

mod creation;
mod identities;
mod others;
mod paths;
mod required;
mod shadows;
mod truth;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::compile;
use crate::api::FieldPolicySpec;
use crate::api::field_policy::Target;
use crate::ownership::condition::Expr;
use crate::ownership::decide::MAX_PAUSE;
use crate::ownership::pattern::Pattern;
use crate::ownership::rule::{Claim, Creation, Mode, Owner, Policy, Unlisted};
use crate::ownership::schema::Schema;

pub use identities::missing_account;
pub use paths::{Misfit, misfit, nearest, unknown_keys};
pub use required::required;

/// How much a finding weighs, from lightest to heaviest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; may well be meant so.
    Note,
    /// Hardly meant so.
    Warning,
    /// It cannot do what it says.
    Error,
}

impl Severity {
    /// As it is printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "Note",
            Self::Warning => "Warning",
            Self::Error => "Error",
        }
    }
}

/// One thing that lint has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where in the FieldPolicy, for example `spec.owners[autoscaler].fields[0].path`.
    pub at: String,
    /// How much it weighs.
    pub severity: Severity,
    /// Name of the rule, stable, for filters and for the documentation.
    pub rule: &'static str,
    /// What is wrong, in a sentence.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

/// What the caller knows of the cluster. `None` is "not known", never "there is none".
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// Schema of the target in the policy's version.
    pub schema: Option<&'a Schema>,
    /// Paths that every object must have and that no default fills; see [`required`].
    pub required: &'a [Pattern],
    /// Versions that the target is served in; empty if there is no such kind.
    pub served: Option<&'a [String]>,
    /// Whether objects of the target have a namespace.
    pub namespaced: Option<bool>,
    /// Names of service accounts by namespace; complete for each namespace that it has.
    pub accounts: Option<&'a BTreeMap<String, BTreeSet<String>>>,
    /// The time, in seconds since the Unix epoch.
    pub now: Option<i64>,
}

/// A claim, and where it stands in the policy.
struct Field {
    at: String,
    claim: Claim,
}

impl Field {
    fn when(&self) -> Option<&Expr> {
        self.claim.when.as_ref()
    }
}

/// What all rules look at.
struct Subject<'a> {
    policy: &'a Policy,
    spec: &'a FieldPolicySpec,
    fields: Vec<Field>,
    others: &'a [Arc<Policy>],
    facts: &'a Facts<'a>,
}

impl Subject<'_> {
    fn owner(&self, field: &Field) -> Option<&Owner> {
        self.policy.owners.get(field.claim.owner)
    }

    /// Whether a claim closes its path: it grants nobody anything.
    fn closes(&self, field: &Field) -> bool {
        self.owner(field).is_some_and(|owner| owner.subjects.is_empty())
    }

    fn enforces(&self) -> bool {
        self.policy.strictest() == Mode::Enforce
    }
}

/// Collects findings.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(
        &mut self,
        severity: Severity,
        rule: &'static str,
        at: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.0.push(Finding { at: at.into(), severity, rule, message: message.into() });
    }
}

/// Everything that is to be said about `policy`, which was compiled from `spec`; `others` are the other
/// policies on its target. The heaviest first, then in the order of the policy.
#[must_use]
pub fn lint(
    policy: &Policy,
    spec: &FieldPolicySpec,
    others: &[Arc<Policy>],
    facts: &Facts<'_>,
) -> Vec<Finding> {
    let subject = Subject { policy, spec, fields: fields(policy, spec), others, facts };
    let mut findings = Findings::default();
    whole(&subject, &mut findings);
    shadows::check(&subject, &mut findings);
    others::check(&subject, &mut findings);
    paths::check(&subject, &mut findings);
    identities::check(&subject, &mut findings);
    creation::check(&subject, &mut findings);
    let mut findings = findings.0;
    // Stable: findings of one weight stay in the order in which they were found.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// The claims in the order of the spec. The compiled policy has them in another one, without their places.
fn fields(policy: &Policy, spec: &FieldPolicySpec) -> Vec<Field> {
    let owners = spec.owners.iter().zip(&policy.owners).enumerate();
    owners
        .flat_map(|(index, (owner, compiled))| {
            owner.fields.iter().enumerate().filter_map(move |(position, field)| {
                let at = format!("spec.owners[{}].fields[{position}]", owner.name);
                let claim = compile::claim(index, compiled.mode, field, &at).ok()?;
                Some(Field { at, claim })
            })
        })
        .collect()
}

/// What concerns the policy as a whole.
fn whole(subject: &Subject<'_>, findings: &mut Findings) {
    let Subject { policy, spec, facts, .. } = subject;
    let version = &spec.target.version;
    if facts.served.is_some_and(<[String]>::is_empty) {
        let message = format!("there is no resource {} in this cluster", resource_name(spec));
        findings.add(Severity::Error, "no-such-kind", "spec.target", message);
    } else if let Some(served) = facts.served
        && !served.contains(version)
    {
        findings.add(
            Severity::Error,
            "version-not-served",
            "spec.target.version",
            format!("{version} is not served; served are: {}", served.join(", ")),
        );
    }
    if let (Some(until), Some(now)) = (policy.paused_until, facts.now) {
        if until <= now {
            let message = "this pause is over; remove it, so that nobody takes the policy for paused";
            findings.add(Severity::Warning, "pause-over", "spec.pausedUntil", message);
        } else if until - now > MAX_PAUSE {
            let message = "a pause lasts 24 hours at most; this one does not count";
            findings.add(Severity::Error, "pause-too-long", "spec.pausedUntil", message);
        }
    }
    if subject.enforces() && policy.deletion.is_none() && !policy.claims.is_empty() {
        // Whoever creates the object anew still has to be an owner, unless anyone may set the fields then.
        let (severity, then) = match policy.creation {
            Creation::Anyone => (Severity::Warning, "sets the owned fields as they like"),
            Creation::Owners { .. } => (Severity::Note, "resets the owned fields"),
        };
        findings.add(
            severity,
            "free-deletion",
            "spec.deletion",
            format!("whoever may delete and create again {then}: name the subjects who may delete"),
        );
    }
    if policy.claims.is_empty() && policy.unlisted == Unlisted::Allow && policy.deletion.is_none() {
        let message = "the policy claims no field, so it decides about nothing";
        findings.add(Severity::Warning, "nothing-claimed", "spec.owners", message);
    }
}

fn resource_name(spec: &FieldPolicySpec) -> String {
    let Target { group, resource, .. } = &spec.target;
    if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") }
}

#[cfg(test)]
mod tests;
