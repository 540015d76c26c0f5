//! What is said of a FieldPolicy that is being written.
//!
//! Input: the object, the policies in force, and a client for what they do not say: the kind behind the
//! target, service accounts. Output: a refusal with every problem, or warnings.
//!
//! Must not refuse a policy that the webhook would honour, nor pass one that it would not: both go
//! through the compiler that makes the snapshot. What could not be read in time is not warned of.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::state::{PolicyReview, Snapshots};
use crate::api::FieldPolicySpec;
use crate::cluster::accounts::{self, Accounts};
use crate::cluster::in_force::{Compile, GroupResource};
use crate::cluster::schemas::{self, Kind};
use crate::ownership::decide::MAX_PAUSE;
use crate::ownership::rule::Policy;
use crate::policy::lint::{self, Facts, Severity};

/// For reading kind and accounts: a review has 3 seconds altogether, and warnings are worth one of them.
const LOOK: Duration = Duration::from_secs(1);

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

/// Judges FieldPolicies with `compile`, and warns of what lint finds beside those in `snapshots` and, where
/// there is a client, in the cluster.
pub fn policy_review(
    compile: impl Compile + Send + Sync + 'static,
    snapshots: Snapshots,
    client: Option<Client>,
) -> PolicyReview {
    Arc::new(move |object| {
        let now = Timestamp::now().as_second();
        let (policy, spec) = match accepted(&compile, &object, now) {
            Ok(accepted) => accepted,
            Err(refusal) => return std::future::ready(Err(refusal)).boxed(),
        };
        let (snapshots, client) = (snapshots.clone(), client.clone());
        async move {
            let cluster = match &client {
                Some(client) => look_around(client, &spec).await,
                None => Cluster::default(),
            };
            Ok(warnings(&policy, &spec, &snapshots, &cluster, now))
        }
        .boxed()
    })
}

/// The policy, if it compiles and its pause counts.
fn accepted(
    compile: &impl Compile,
    object: &RawValue,
    now: i64,
) -> Result<(Policy, FieldPolicySpec), String> {
    let Reviewed { metadata, spec } = serde_json::from_str(object.get())
        .map_err(|error| format!("this FieldPolicy cannot be read: {error}"))?;
    let policy = compile(&metadata.name, metadata.generation, &spec)?;
    // One that lies further ahead would not count now, and begin by itself later: nobody means that.
    if policy.paused_until.is_some_and(|until| until - now > MAX_PAUSE) {
        return Err("spec.pausedUntil: a pause lasts 24 hours at most".to_owned());
    }
    Ok((policy, spec))
}

/// What the cluster says of the things that a policy names, as far as it said so in time.
#[derive(Default)]
struct Cluster {
    kind: Option<Kind>,
    accounts: Option<Accounts>,
}

async fn look_around(client: &Client, spec: &FieldPolicySpec) -> Cluster {
    let target = &spec.target;
    let resource = GroupResource { group: target.group.clone(), resource: target.resource.clone() };
    let namespaces = accounts::namespaces(spec);
    let (kind, accounts) = tokio::join!(
        timeout(LOOK, schemas::look_up(client, &resource, &target.version)),
        timeout(LOOK, accounts::read(client, &namespaces)),
    );
    Cluster { kind: kind.ok(), accounts: accounts.ok() }
}

/// What lint says, as far as it wants mending: notes are for who asks `fieldkeeper lint`.
fn warnings(
    policy: &Policy,
    spec: &FieldPolicySpec,
    snapshots: &Snapshots,
    cluster: &Cluster,
    now: i64,
) -> Vec<String> {
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
    let known = cluster.kind.as_ref().map(Kind::lint_facts).unwrap_or_default();
    let facts = Facts { accounts: cluster.accounts.as_ref(), now: Some(now), ..known };
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
    use super::super::state::PolicyOpinion;
    use super::*;
    use crate::cluster::in_force::with_compiler;

    fn run(review: &PolicyReview, object: &str) -> PolicyOpinion {
        review(RawValue::from_string(object.to_owned()).unwrap()).now_or_never().unwrap()
    }

    fn review(object: &str) -> PolicyOpinion {
        let compile = |name: &str, generation: i64, _: &FieldPolicySpec| {
            Err(format!("{name} {generation} spec.owners[0].fields[1].path: a key is missing"))
        };
        run(&policy_review(compile, Snapshots::default(), None), object)
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
            run(&policy_review(with_compiler, Snapshots::default(), None), &object)
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
            run(&policy_review(with_compiler, Snapshots::default(), None), &object).unwrap()
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
