//! What the HTTP edge asks the cluster and the compiler for.
//!
//! Input: a client, the compiler. Output: [`Parents`] for `/scale`,
//! [`policy_review`] for FieldPolicies that are being written, and [`connect`],
//! which puts the cluster side together.
//!
//! Must not refuse a policy that the webhook would honour, nor pass one that
//! it would not: both go through the compiler that makes the snapshot.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::notices::{self, PolicyIds};
use super::state::{Hooks, ParentError, ParentReader, ParentRef, PolicyReview, Readiness, Snapshots};
use super::{Connected, snapshot};
use crate::api::FieldPolicySpec;
use crate::cluster::events::Events;
use crate::cluster::in_force::{Compile, with_compiler};
use crate::cluster::namespaces::Namespaces;
use crate::cluster::read::{ObjectRef, ReadError, get_raw};
use crate::cluster::write::Writer;
use crate::ownership::decide::MAX_PAUSE;
use crate::ownership::rule::Policy;
use crate::policy::lint::{self, Facts, Severity};
use crate::telemetry::policies::PolicyMetrics;

/// Who reports events.
const CONTROLLER: &str = "fieldkeeper.dev/webhook";

/// A review has 3 seconds altogether, and the API server's clients wait for it.
pub const PARENT_TIMEOUT: Duration = Duration::from_millis(500);

/// The cluster side of the webhook: snapshots from `client`'s watches, and live answers.
#[must_use]
pub fn connect(
    client: Client,
    snapshots: Snapshots,
    readiness: &Readiness,
    metrics: PolicyMetrics,
) -> Connected {
    let gate = readiness.gate(snapshot::GATE, snapshot::GATE_REASON);
    let (notices, arriving) = mpsc::channel(notices::WAITING);
    let ids = PolicyIds::default();
    let instance = std::env::var("HOSTNAME").unwrap_or_else(|_| "webhook".to_owned());
    let events = Events::new(Writer::new(client.clone()), CONTROLLER, &instance);
    let namespaces = Namespaces::default();
    let hooks = Hooks {
        parents: Arc::new(Parents::new(client.clone())),
        policy_review: policy_review(with_compiler, snapshots.clone()),
        namespaces: namespaces.clone(),
        notices: Some(notices),
    };
    let follow = snapshot::run(client, with_compiler, snapshots, namespaces, gate, metrics, ids.clone());
    // The watches alone keep this going: without them there is nothing to be ready with.
    let background = async move {
        let tell = async {
            notices::run(arriving, ids, events).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = follow => {}
            () = tell => {}
        }
    };
    Connected { hooks, background: background.boxed() }
}

/// Reads parents live.
#[derive(Clone)]
pub struct Parents {
    client: Client,
}

impl Parents {
    /// Reads with `client`, whose identity needs `get` on the governed kinds with `/scale`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

impl ParentReader for Parents {
    fn read(&self, parent: ParentRef) -> BoxFuture<'static, Result<Box<RawValue>, ParentError>> {
        let client = self.client.clone();
        let ParentRef { group, version, resource, namespace, name } = parent;
        let object = ObjectRef { group, version, resource, namespace, name };
        async move {
            get_raw(&client, &object, PARENT_TIMEOUT).await.map_err(|error| match error {
                ReadError::NotFound(_) => ParentError::NotFound,
                ReadError::Forbidden(_) if object.group.is_empty() => ParentError::Forbidden(object.resource),
                ReadError::Forbidden(_) => {
                    ParentError::Forbidden(format!("{}.{}", object.resource, object.group))
                }
                ReadError::TimedOut(_) => ParentError::TimedOut,
                ReadError::Failed(message) => ParentError::Failed(message),
            })
        }
        .boxed()
    }
}

/// Claims on one target that are checked in a review: lint compares them with each other.
const MAX_LINTED: usize = 512;
/// Warnings of one review; a terminal shows them all.
const MAX_WARNINGS: usize = 10;
/// Characters of one warning.
const MAX_WARNING: usize = 250;

/// The part of a FieldPolicy that its review needs.
#[derive(Deserialize)]
struct Reviewed {
    #[serde(default)]
    metadata: ReviewedMetadata,
    spec: FieldPolicySpec,
}

#[derive(Default, Deserialize)]
struct ReviewedMetadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    generation: i64,
}

/// Judges FieldPolicies with `compile`, and warns of what lint finds beside those in `snapshots`.
pub fn policy_review(compile: impl Compile + Send + Sync + 'static, snapshots: Snapshots) -> PolicyReview {
    Arc::new(move |object| {
        let Reviewed { metadata, spec } = serde_json::from_str(object.get())
            .map_err(|error| format!("this FieldPolicy cannot be read: {error}"))?;
        let policy = compile(&metadata.name, metadata.generation, &spec)?;
        // One that lies further ahead would not count now, and begin by itself later: nobody means that.
        let now = Timestamp::now().as_second();
        if policy.paused_until.is_some_and(|until| until - now > MAX_PAUSE) {
            return Err("spec.pausedUntil: a pause lasts 24 hours at most".to_owned());
        }
        Ok(warnings(&policy, &spec, &snapshots, now))
    })
}

/// What lint says, as far as it wants mending: notes are for who asks `fieldkeeper lint`.
fn warnings(policy: &Policy, spec: &FieldPolicySpec, snapshots: &Snapshots, now: i64) -> Vec<String> {
    let snapshot = snapshots.load();
    let target = snapshot
        .as_ref()
        .and_then(|snapshot| snapshot.policies.target(&spec.target.group, &spec.target.resource));
    let others: Vec<Arc<Policy>> = target
        .into_iter()
        .flat_map(|target| target.policies.iter().filter(|other| other.name != policy.name).cloned())
        .collect();
    let claims: usize = others.iter().map(|other| other.claims.len()).sum();
    if claims + policy.claims.len() > MAX_LINTED {
        return vec!["fieldkeeper: too large to be checked here; run fieldkeeper lint".to_owned()];
    }
    // The schema is of the version that the policies in force are written for.
    let same_version = target.filter(|target| *target.version == *spec.target.version);
    let facts =
        Facts { schema: same_version.map(|target| &*target.schema), now: Some(now), ..Facts::default() };
    let findings = lint::lint(policy, spec, &others, &facts);
    let heavy = findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let mut warnings: Vec<String> =
        heavy.map(|finding| cut(&format!("fieldkeeper: {finding}"), MAX_WARNING)).collect();
    let more = warnings.len().saturating_sub(MAX_WARNINGS);
    if more > 0 {
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("fieldkeeper: {more} more; run fieldkeeper lint"));
    }
    warnings
}

/// The first `length` characters at most, with a sign where something is cut off.
fn cut(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    text.chars().take(length.saturating_sub(1)).chain(['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(object: &str) -> Result<Vec<String>, String> {
        let compile = |name: &str, generation: i64, _: &FieldPolicySpec| {
            Err(format!("{name} {generation} spec.owners[0].fields[1].path: a key is missing"))
        };
        policy_review(compile, Snapshots::default())(&RawValue::from_string(object.to_owned()).unwrap())
    }

    #[test]
    fn what_does_not_compile_is_refused_with_the_compilers_words() {
        let object = r#"{"metadata": {"name": "a", "generation": 2},
            "spec": {"target": {"version": "v1", "resource": "pods"}}}"#;
        assert_eq!(review(object).unwrap_err(), "a 2 spec.owners[0].fields[1].path: a key is missing");
    }

    #[test]
    fn a_pause_of_more_than_a_day_is_refused() {
        let in_hours = |hours: i64| {
            let until = Timestamp::from_second(Timestamp::now().as_second() + hours * 3600).unwrap();
            let object = format!(
                r#"{{"metadata": {{"name": "a"}}, "spec": {{"pausedUntil": "{until}", "deletion": {{}},
                    "target": {{"version": "v1", "resource": "pods"}}}}}}"#
            );
            policy_review(with_compiler, Snapshots::default())(&RawValue::from_string(object).unwrap())
        };
        assert_eq!(in_hours(23), Ok(Vec::new()));
        assert_eq!(in_hours(25).unwrap_err(), "spec.pausedUntil: a pause lasts 24 hours at most");
    }

    #[test]
    fn what_lint_finds_is_warned_of_in_short_lines() {
        let fields = |count: usize| {
            let names =
                (0..count).map(|n| format!(r#"{{"path": ".spec.{}{n}", "when": "false"}}"#, "x".repeat(240)));
            names.collect::<Vec<_>>().join(",")
        };
        let warned = |count: usize| {
            let object = format!(
                r#"{{"metadata": {{"name": "a"}}, "spec": {{"target": {{"version": "v1", "resource": "pods"}},
                    "owners": [{{"name": "o", "fields": [{}]}}]}}}}"#,
                fields(count)
            );
            let review = policy_review(with_compiler, Snapshots::default());
            review(&RawValue::from_string(object).unwrap()).unwrap()
        };
        let warnings = warned(30);
        assert_eq!(warnings.len(), MAX_WARNINGS + 1);
        assert!(
            warnings[0].starts_with("fieldkeeper: spec.owners[o].fields[0].when: never true"),
            "{warnings:?}"
        );
        assert!(warnings[0].ends_with('\u{2026}') && warnings[0].chars().count() == MAX_WARNING);
        assert_eq!(warnings[MAX_WARNINGS], "fieldkeeper: 20 more; run fieldkeeper lint");
        assert_eq!(warned(MAX_LINTED + 1).len(), 1, "a review has no time for that");
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_position() {
        let message = review(r#"{"metadata": {}, "spec": {"target": 7}}"#).unwrap_err();
        assert!(message.contains("line 1 column"), "{message}");
    }
}
