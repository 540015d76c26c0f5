//! The status of one policy. Pure.
//!
//! Input: the policy as judged, and the facts about its target and the
//! registration. Output: its status as this controller's manager owns it, or
//! `None` when that is what it says already, times aside.
//!
//! Must not let go of an accepted spec: it is what holds while the present one
//! does not compile.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::apply::Failure;
use super::entry::{Entry, Registration};
use super::paths;
use super::pause::Pause;
use super::plan::enforces;
use super::subjects::Subjects;
use crate::api::AGGREGATE_LABEL;
use crate::api::conditions::{Observation, Status, set_condition};
use crate::api::field_policy::status::{
    ACCEPTED, ENFORCING, PARENTS_READABLE, READY, REGISTERED, SCHEMA_RESOLVED, SUBJECTS_RESOLVED,
};
use crate::cluster::in_force::{Compiled, Judged};
use crate::cluster::replicas::{Replica, Replicas};
use crate::cluster::schemas::{Kind, Unresolved};
use crate::ownership::rule::Policy;
use crate::policy::export_vap::{Action, LEFT_OUT_ANNOTATION};

/// What is known beside the policy itself.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The kind of its target, if the policy is in force.
    pub kind: Option<Arc<Kind>>,
    /// What of its subjects exists, if the policy is in force.
    pub subjects: Option<Subjects>,
    /// Where its target is judged, if the policy is in force.
    pub entry: Option<Entry>,
    /// The registration, if there is one.
    pub registration: Option<&'a Registration>,
    /// What webhook replicas report.
    pub replicas: &'a Replicas,
    /// Whether the registration is as planned.
    pub outcome: Result<(), &'a Failure>,
    /// The generated admission policy, if one is wanted.
    pub admission: Option<Admission>,
    /// The time.
    pub now: Timestamp,
}

/// What is known of a generated admission policy.
#[derive(Clone, Debug)]
pub enum Admission {
    /// It is there, or about to be.
    Says {
        /// Its name.
        name: String,
        /// How many rules it has; none, then there is no such object.
        rules: usize,
        /// How much of the policy they leave out.
        left_out: usize,
        /// What a broken rule leads to.
        action: Action,
    },
    /// It cannot be kept.
    Failed(String),
    /// The API server's type checker has something against it.
    Warned(Vec<String>),
}

/// One condition without its type.
struct Finding {
    status: Status,
    reason: &'static str,
    message: String,
}

impl Finding {
    fn new(status: impl Into<Status>, reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: status.into(), reason, message: message.into() }
    }

    /// Whether it stands in the way of `Ready`.
    fn blocks(&self) -> bool {
        self.status != Status::True && ![NOTHING_TO_ENFORCE, NOT_REPORTED].contains(&self.reason)
    }
}

const NOT_ACCEPTED: &str = "NotAccepted";
const NOTHING_TO_ENFORCE: &str = "NothingToEnforce";
/// That nobody is there is said by [`ENFORCING`].
const NOT_REPORTED: &str = "NotReported";

/// The status to apply, or `None` if it is there already.
#[must_use]
pub fn status(judged: &Judged, facts: &Facts<'_>) -> Option<Value> {
    let stored = &judged.stored;
    let mut changed = false;
    let findings = findings(judged, facts);
    let mut conditions = ours(&stored.status, &findings);
    for (type_, finding) in &findings {
        let Finding { status, reason, message } = finding;
        let seen = Observation { type_, status: *status, reason, message, generation: stored.generation };
        changed |= set_condition(&mut conditions, &seen, facts.now);
    }
    let old = |key: &str| stored.status.get(key).filter(|value| !value.is_null());
    let accepted = match judged.problem {
        None => Some(&stored.spec),
        Some(_) => old("acceptedSpec"),
    };
    changed |= accepted != old("acceptedSpec");
    changed |= old("observedGeneration") != Some(&json!(stored.generation));
    if !changed {
        return None;
    }
    let mut status = Map::new();
    status.insert("observedGeneration".to_owned(), stored.generation.into());
    if let Some(accepted) = accepted {
        status.insert("acceptedSpec".to_owned(), accepted.clone());
    }
    status.insert("conditions".to_owned(), json!(conditions));
    Some(Value::Object(status))
}

/// Our conditions as they are stored; what cannot be read, or is another writer's, is left out.
fn ours(status: &Value, findings: &[(&'static str, Finding)]) -> Vec<Condition> {
    let stored = status.get("conditions").and_then(Value::as_array);
    stored
        .into_iter()
        .flatten()
        .filter_map(|condition| serde_json::from_value::<Condition>(condition.clone()).ok())
        .filter(|condition| findings.iter().any(|(type_, _)| *type_ == condition.type_))
        .collect()
}

fn findings(judged: &Judged, facts: &Facts<'_>) -> Vec<(&'static str, Finding)> {
    let accepted = accepted(judged);
    let [schema, subjects, registered, parents, enforcing] = match &judged.in_force {
        None => {
            let nothing = |status| Finding::new(status, NOT_ACCEPTED, "nothing of this policy is in force");
            let unknown = || nothing(Status::Unknown);
            [unknown(), unknown(), nothing(Status::False), unknown(), nothing(Status::False)]
        }
        Some(compiled) => {
            let registered = registered(facts);
            let enforcing = enforcing(compiled, facts, &registered);
            let parents = parents_readable(compiled, facts);
            [schema_resolved(compiled, facts), subjects_resolved(facts), registered, parents, enforcing]
        }
    };
    let ready = ready([&accepted, &schema, &registered, &parents, &enforcing]);
    vec![
        (ACCEPTED, accepted),
        (SCHEMA_RESOLVED, schema),
        (SUBJECTS_RESOLVED, subjects),
        (REGISTERED, registered),
        (PARENTS_READABLE, parents),
        (ENFORCING, enforcing),
        (READY, ready),
    ]
}

fn accepted(judged: &Judged) -> Finding {
    match &judged.problem {
        None => Finding::new(true, "Accepted", "this spec is in force"),
        Some(problem) => {
            let instead = if judged.in_force.is_some() {
                "The spec that was accepted last stays in force."
            } else {
                "Nothing of this policy is in force."
            };
            Finding::new(false, problem.reason(), format!("{problem}\n{instead}"))
        }
    }
}

fn schema_resolved(compiled: &Compiled, facts: &Facts<'_>) -> Finding {
    let not_loaded = || Arc::new(Kind::unknown(Unresolved::NotLoaded));
    let kind = facts.kind.clone().unwrap_or_else(not_loaded);
    match &kind.unresolved {
        Some(why @ Unresolved::NotLoaded) => Finding::new(Status::Unknown, why.reason(), why.to_string()),
        Some(why) => Finding::new(false, why.reason(), why.to_string()),
        None => match paths::unknown(&compiled.policy, &kind.schema).as_slice() {
            [] => Finding::new(true, "Resolved", "the schema has every path"),
            unknown => Finding::new(false, "PathNotFound", unknown.join("\n")),
        },
    }
}

fn subjects_resolved(facts: &Facts<'_>) -> Finding {
    match &facts.subjects {
        Some(Subjects::Found) => Finding::new(true, "Found", "every service account that it names exists"),
        Some(Subjects::Missing(missing)) => Finding::new(false, "SubjectNotFound", missing.join("\n")),
        Some(Subjects::Unread(namespaces)) => {
            let names: Vec<&str> = namespaces.iter().map(String::as_str).collect();
            let message = format!("the service accounts of {} could not be read", names.join(", "));
            Finding::new(Status::Unknown, "NotReadable", message)
        }
        None => Finding::new(Status::Unknown, "NotLoaded", "service accounts are not read yet"),
    }
}

fn registered(facts: &Facts<'_>) -> Finding {
    let sent = sent(facts);
    let (reason, message) = match &facts.admission {
        None => return sent,
        Some(Admission::Failed(why)) => {
            ("AdmissionPolicyFailed", format!("the generated admission policy cannot be kept: {why}"))
        }
        Some(Admission::Warned(warnings)) => (
            "AdmissionPolicyWarnings",
            format!("rules of the generated admission policy do not fit the kind:\n{}", warnings.join("\n")),
        ),
        Some(Admission::Says { rules: 0, .. }) => (
            "AdmissionPolicyEmpty",
            "CEL can say nothing of this policy: no admission policy is generated".to_owned(),
        ),
        Some(Admission::Says { name, rules, left_out, action }) => {
            let does = match action {
                Action::Audit => "records",
                Action::Deny => "refuses",
            };
            let rules = if *rules == 1 { "1 rule".to_owned() } else { format!("{rules} rules") };
            let message = format!(
                "{}; the ValidatingAdmissionPolicy {name} {does} by {rules}, its annotation {LEFT_OUT_ANNOTATION} \
                 names what they leave out ({left_out})",
                sent.message
            );
            return Finding { message, ..sent };
        }
    };
    // What stands in the way of the webhook weighs more.
    if sent.status == Status::True {
        Finding::new(false, reason, message)
    } else {
        Finding { message: format!("{}\n{message}", sent.message), ..sent }
    }
}

fn sent(facts: &Facts<'_>) -> Finding {
    match (facts.outcome, facts.entry) {
        (Err(Failure { reason, message, retry: _ }), _) => Finding::new(false, reason, message.as_str()),
        (Ok(()), Some(entry)) => {
            Finding::new(true, "Registered", format!("writes are sent to {}", entry.name()))
        }
        (Ok(()), None) => Finding::new(Status::Unknown, "NotPlanned", "no entry was planned"),
    }
}

fn parents_readable(compiled: &Compiled, facts: &Facts<'_>) -> Finding {
    let resource = compiled.resource().to_string();
    let live = live(facts);
    if live.iter().any(|replica| replica.report.unreadable.contains(&resource)) {
        let message = format!(
            "the webhook may not read {resource}: a write of /scale that only the object itself can decide (`when`, \
             `match`, a count of 0) is refused; grant it by a ClusterRole with the label {AGGREGATE_LABEL}: \"true\" \
             that allows `get` on {resource}"
        );
        return Finding::new(false, "MissingRight", message);
    }
    if live.is_empty() {
        return Finding::new(Status::Unknown, NOT_REPORTED, "no webhook replica says what it may read");
    }
    Finding::new(true, "Readable", "the webhook may read what it needs to judge writes of /scale")
}

fn live<'a>(facts: &Facts<'a>) -> Vec<&'a Replica> {
    facts.replicas.values().filter(|replica| replica.expires > facts.now.as_second()).collect()
}

fn enforcing(compiled: &Compiled, facts: &Facts<'_>, registered: &Finding) -> Finding {
    if !enforces(&compiled.spec) {
        return Finding::new(false, NOTHING_TO_ENFORCE, "no part of this policy has mode Enforce");
    }
    if let Some(Pause { began: true, .. }) = Pause::of(&compiled.policy, facts.now) {
        return Finding::new(false, "Paused", "until spec.pausedUntil this policy only audits");
    }
    let (Status::True, Some(entry), Some(registration)) =
        (registered.status, facts.entry, facts.registration)
    else {
        return Finding::new(false, "NotRegistered", "writes are not sent here yet");
    };
    if !registration.with_ca.contains(&entry) {
        let then = if entry == Entry::Enforce { "refused" } else { "let through unjudged" };
        return Finding::new(
            Status::Unknown,
            "NoCertificateAuthority",
            format!(
                "{} has no caBundle: unless the API server trusts the webhook's certificate by itself, every write \
                 is {then}",
                entry.name()
            ),
        );
    }
    let live = live(facts);
    if live.is_empty() {
        let then = match (entry, &facts.admission) {
            (Entry::Enforce, _) => "refused",
            (_, Some(Admission::Says { action: Action::Deny, .. })) => {
                "let through but for what its ValidatingAdmissionPolicy refuses"
            }
            _ => "let through unjudged",
        };
        let message =
            format!("no webhook replica reports that it is there: every write is {then} until one does");
        return Finding::new(false, "NoReplica", message);
    }
    let Policy { name, generation, .. } = &*compiled.policy;
    let behind = |replica: &&&Replica| replica.report.generations.get(&**name) != Some(generation);
    let behind: Vec<&str> = live.iter().filter(behind).map(|replica| &*replica.name).collect();
    if !behind.is_empty() {
        let message = format!(
            "{} of {} webhook replicas do not judge by generation {generation} yet: {}",
            behind.len(),
            live.len(),
            behind.join(", ")
        );
        return Finding::new(false, "ReplicasBehind", message);
    }
    let excluded: Vec<&str> = registration.excluded_namespaces.iter().map(String::as_str).collect();
    let outside = if excluded.is_empty() {
        String::new()
    } else {
        format!(", outside of the namespaces {}", excluded.join(", "))
    };
    let replicas = match live.len() {
        1 => "1 webhook replica".to_owned(),
        count => format!("{count} webhook replicas"),
    };
    Finding::new(true, "RulesLive", format!("{} sends writes to {replicas}{outside}", entry.name()))
}

/// In one word: the first thing that stands in the way.
fn ready(findings: [&Finding; 5]) -> Finding {
    match findings.into_iter().find(|finding| finding.blocks()) {
        None => Finding::new(true, "Ready", "this policy does what it says"),
        Some(Finding { status, reason, message }) => Finding::new(*status, reason, message.as_str()),
    }
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
