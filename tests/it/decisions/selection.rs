//! `match`: which objects a policy governs.

use fieldkeeper::ownership::decide::{Decision, undecided};
use serde_json::{Value, json};

use super::{NODEPOOLS, Request, pool, refused, target, with};

/// The shipped policy for some pools only; the label `team` has an owner.
fn selecting(selection: &str) -> String {
    let owner = "  owners:\n  - name: labels\n    subjects: [{kind: User, name: labeller}]\n    \
                 fields: [{path: '.metadata.labels[\"team\"]'}]\n";
    assert!(NODEPOOLS.contains("  owners:\n"));
    NODEPOOLS.replace("  mode: Enforce\n", &format!("  match: {selection}\n  mode: Enforce\n")).replacen(
        "  owners:\n",
        owner,
        1,
    )
}

const RED: &str = "{objectSelector: {matchLabels: {team: red}}}";

fn team(pool: Value, team: &str) -> Value {
    with(pool, "/metadata/labels/team", json!(team))
}

fn more_nodes(pool: Value) -> Value {
    with(pool, "/spec/minNodes", json!(2))
}

#[test]
fn only_objects_with_the_labels_are_governed() {
    let target = target(&[&selecting(RED)]);
    let write = |pool: &Value| Request::update(pool, &more_nodes(pool.clone())).by("mallory").judge(&target);
    assert_eq!(refused(&write(&team(pool(), "red"))), [".spec.minNodes"]);
    assert_eq!(write(&team(pool(), "blue")).findings, []);
    assert_eq!(write(&with(pool(), "/metadata/labels", Value::Null)).findings, []);
}

#[test]
fn nobody_takes_an_object_out_of_a_policy_or_into_it_by_a_label() {
    let target = target(&[&selecting(RED)]);
    let (red, blue) = (team(pool(), "red"), team(pool(), "blue"));
    for (old, new) in [(&red, &blue), (&blue, &red)] {
        let both = more_nodes(new.clone());
        let verdict = Request::update(old, &both).by("mallory").judge(&target);
        assert_eq!(refused(&verdict), [".metadata.labels.team", ".spec.minNodes"]);
        assert_eq!(Request::update(old, new).by("labeller").judge(&target).findings, []);
    }
    let without = with(red.clone(), "/metadata/labels", Value::Null);
    let verdict = Request::update(&red, &without).by("mallory").judge(&target);
    assert_eq!(refused(&verdict), [".metadata.labels.team"]);
}

#[test]
fn a_deletion_is_judged_by_the_labels_of_what_is_deleted() {
    let policy = selecting(RED).replace("  mode: Enforce\n", "  mode: Enforce\n  deletion: {subjects: []}\n");
    let target = target(&[&policy]);
    assert!(Request::delete(&team(pool(), "red")).by("mallory").judge(&target).denies());
    assert_eq!(Request::delete(&team(pool(), "blue")).by("mallory").judge(&target).findings, []);
}

#[test]
fn every_operator_means_what_it_means_elsewhere() {
    let governs = |requirement: &str, team_label: Option<&str>| {
        let selection = format!("{{objectSelector: {{matchExpressions: [{{key: team, {requirement}}}]}}}}");
        let pool = match team_label {
            Some(label) => team(pool(), label),
            None => with(pool(), "/metadata/labels/team", Value::Null),
        };
        let target = target(&[&selecting(&selection)]);
        Request::update(&pool, &more_nodes(pool.clone())).by("mallory").judge(&target).denies()
    };
    for (requirement, red, green, absent) in [
        ("operator: In, values: [red, blue]", true, false, false),
        ("operator: NotIn, values: [red, blue]", false, true, true),
        ("operator: Exists", true, true, false),
        ("operator: DoesNotExist", false, false, true),
    ] {
        let found = [Some("red"), Some("green"), None].map(|label| governs(requirement, label));
        assert_eq!(found, [red, green, absent], "{requirement}");
    }
}

#[test]
fn a_scale_shows_no_labels_so_its_object_is_asked_for() {
    let target = target(&[&selecting(RED)]);
    let request = || Request::scale(Some(5), Some(7)).by("mallory");
    assert_eq!(request().decide(&target), Decision::NeedsParent);
    let judged = |parent: &Value| request().with_parent(parent).judge(&target);
    assert_eq!(refused(&judged(&team(pool(), "red"))), [".spec.targetNodes"]);
    assert_eq!(judged(&team(pool(), "blue")).findings, []);
    // An object that cannot be read may be a governed one.
    assert!(undecided(&request().facts(), &target, "no answer").denies());
}

#[test]
fn what_an_unknown_subresource_carries_is_governed() {
    let target = target(&[&selecting(RED)]);
    let blue = team(pool(), "blue");
    let write = |subresource: &str| {
        Request::update(&blue, &more_nodes(blue.clone())).on(subresource).by("mallory").judge(&target)
    };
    assert_eq!(write("status").findings, []);
    assert_eq!(refused(&write("binding")), [".spec.minNodes"]);
}

#[test]
fn labels_of_the_namespace_count_and_an_unknown_namespace_is_governed() {
    let target = target(&[&selecting("{namespaceSelector: {matchLabels: {env: prod}}}")]);
    let write = |labels: Option<&[(&str, &str)]>| {
        let request = Request::update(&pool(), &more_nodes(pool())).by("mallory");
        refused(&request.in_namespace("web", labels).judge(&target))
    };
    assert_eq!(write(Some(&[("env", "prod")])), [".spec.minNodes"]);
    assert_eq!(write(Some(&[("env", "test")])), [""; 0]);
    assert_eq!(write(None), [".spec.minNodes"]);
    let cluster_scoped = Request::update(&pool(), &more_nodes(pool())).by("mallory").judge(&target);
    assert_eq!(refused(&cluster_scoped), [".spec.minNodes"], "there is no namespace to select");
}

#[test]
fn a_scale_in_a_namespace_that_is_not_selected_asks_for_nothing() {
    let policy = selecting("{namespaceSelector: {matchLabels: {env: prod}}, objectSelector: {}}");
    let request = Request::scale(Some(5), Some(7)).by("mallory").in_namespace("web", Some(&[]));
    assert!(
        matches!(request.decide(&target(&[&policy])), Decision::Decided(verdict) if verdict.findings.is_empty())
    );
}

#[test]
fn a_policy_for_some_objects_leaves_the_others_to_the_other_policies() {
    let rest = NODEPOOLS.replace("name: nodepools\n", "name: all\n");
    let target = target(&[&selecting("{objectSelector: {matchLabels: {team: green}}}"), &rest]);
    let verdict = Request::update(&pool(), &more_nodes(pool())).by("mallory").judge(&target);
    let policies: Vec<&str> = verdict.findings.iter().map(|finding| &*finding.policy).collect();
    assert_eq!(policies, ["all"]);
}
