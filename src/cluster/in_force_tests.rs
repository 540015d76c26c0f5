//! With a compiler that knows one bad word, so that only the choice between specs is tested.

use serde_json::json;

use super::*;
use crate::ownership::rule::{Creation, Integrity, Mode, Unlisted};
use crate::ownership::selection::Selection;

fn compile(name: &str, generation: i64, spec: &FieldPolicySpec) -> Result<Policy, String> {
    if spec.owners.iter().any(|owner| owner.name == "bad") {
        return Err("spec.owners[0].name: bad".to_owned());
    }
    Ok(Policy {
        name: name.into(),
        generation,
        selection: Selection::default(),
        mode: Mode::Enforce,
        owners: Vec::new(),
        claims: Vec::new(),
        unlisted: Unlisted::Allow,
        creation: Creation::Anyone,
        deletion: None,
        integrity: Integrity { mode: Mode::Audit, co_ownership: Mode::Audit, editors: Vec::new() },
        break_glass: Vec::new(),
        paused_until: None,
    })
}

fn spec(version: &str, owner: &str) -> Value {
    json!({
        "target": {"group": "apps", "version": version, "resource": "deployments"},
        "mode": "Enforce",
        "owners": [{"name": owner, "fields": [{"path": ".spec"}]}],
    })
}

fn policy(name: &str, age: i64, spec: Value, accepted: Option<Value>) -> Arc<StoredPolicy> {
    Arc::new(StoredPolicy {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        generation: 2,
        created: Some(Timestamp::from_second(1_000_000 - age).unwrap()),
        spec,
        status: accepted.map_or(Value::Null, |accepted| json!({"acceptedSpec": accepted})),
    })
}

fn one(stored: Arc<StoredPolicy>) -> Judged {
    judge([stored], compile).pop().unwrap()
}

/// Name, version in force, reason of the problem.
fn summary(judged: &[Judged]) -> Vec<(&str, Option<&str>, Option<&'static str>)> {
    judged
        .iter()
        .map(|judged| {
            let version = judged.in_force.as_ref().map(|compiled| compiled.spec.target.version.as_str());
            (judged.stored.name.as_str(), version, judged.problem.as_ref().map(Problem::reason))
        })
        .collect()
}

#[test]
fn a_spec_that_compiles_is_in_force_whatever_was_accepted_before() {
    let judged = one(policy("a", 1, spec("v1", "new"), Some(spec("v1", "old"))));
    assert_eq!(judged.in_force.unwrap().spec.owners[0].name, "new");
    assert_eq!(judged.problem, None);
}

#[test]
fn a_spec_that_does_not_compile_leaves_the_accepted_one_in_force() {
    let judged = one(policy("a", 1, spec("v1", "bad"), Some(spec("v1", "old"))));
    assert_eq!(judged.in_force.unwrap().raw, spec("v1", "old"));
    assert_eq!(judged.problem, Some(Problem::Invalid("spec.owners[0].name: bad".to_owned())));
}

#[test]
fn a_policy_that_was_never_acceptable_is_not_in_force() {
    let judged = one(policy("a", 1, spec("v1", "bad"), None));
    assert!(judged.in_force.is_none());
    let judged = one(policy("a", 1, json!({"target": 7}), Some(json!("junk"))));
    assert!(judged.in_force.is_none());
    assert_eq!(judged.problem.unwrap().reason(), "Unreadable");
}

#[test]
fn a_status_of_another_target_counts_for_nothing() {
    let mut other = spec("v1", "old");
    other["target"]["resource"] = "statefulsets".into();
    assert!(one(policy("a", 1, spec("v1", "bad"), Some(other))).in_force.is_none());
}

#[test]
fn a_pause_works_while_the_spec_does_not_compile() {
    let mut bad = spec("v1", "bad");
    bad["pausedUntil"] = "1970-01-01T00:01:00Z".into();
    let judged = one(policy("a", 1, bad, Some(spec("v1", "old"))));
    assert_eq!(judged.in_force.unwrap().policy.paused_until, Some(60));
}

#[test]
fn the_older_policy_decides_the_version() {
    let judged =
        judge([policy("a", 1, spec("v2", "x"), None), policy("b", 9, spec("v1", "y"), None)], compile);
    assert_eq!(summary(&judged), [("a", None, Some("VersionDisagrees")), ("b", Some("v1"), None)]);
}

#[test]
fn of_two_created_in_one_second_the_name_decides() {
    let judged =
        judge([policy("a", 1, spec("v2", "x"), None), policy("b", 1, spec("v1", "y"), None)], compile);
    assert_eq!(summary(&judged), [("a", Some("v2"), None), ("b", None, Some("VersionDisagrees"))]);
}

#[test]
fn a_move_to_another_version_leaves_nothing_ungoverned_whoever_moves_first() {
    let v1 = || Some(spec("v1", "x"));
    for (older, younger) in [("v2", "v1"), ("v1", "v2")] {
        let judged = judge(
            [policy("older", 9, spec(older, "x"), v1()), policy("younger", 1, spec(younger, "x"), v1())],
            compile,
        );
        assert!(summary(&judged).iter().all(|(_, version, _)| *version == Some("v1")), "{older} {younger}");
        assert_eq!(judged.iter().filter(|judged| judged.problem.is_some()).count(), 1);
    }
    let judged = judge(
        [policy("older", 9, spec("v2", "x"), v1()), policy("younger", 1, spec("v2", "x"), v1())],
        compile,
    );
    assert_eq!(summary(&judged), [("older", Some("v2"), None), ("younger", Some("v2"), None)]);
}
