//! Real policies through the real compiler; kinds as a CRD would give them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::cluster::in_force::{judge, with_compiler};
use crate::cluster::policies::StoredPolicy;
use crate::cluster::schemas::Unresolved;

fn policy(name: &str, target: &Value, rest: &Value) -> Arc<StoredPolicy> {
    let mut spec = json!({
        "target": target,
        "owners": [{"name": "o", "subjects": [{"kind": "User", "name": "u"}], "fields": [{"path": ".spec"}]}],
    });
    for (key, value) in rest.as_object().unwrap() {
        spec[key] = value.clone();
    }
    Arc::new(StoredPolicy {
        name: name.to_owned(),
        uid: "u".to_owned(),
        generation: 1,
        created: None,
        spec,
        status: Value::Null,
    })
}

fn deployments(name: &str, rest: &Value) -> Arc<StoredPolicy> {
    policy(name, &json!({"group": "apps", "version": "v1", "resource": "deployments"}), rest)
}

fn scene(policies: Vec<Arc<StoredPolicy>>) -> Scene {
    let policies = judge(policies, with_compiler);
    for judged in &policies {
        assert_eq!(judged.problem, None);
    }
    let kinds = policies
        .iter()
        .filter_map(|judged| Some(judged.in_force.as_ref()?.resource()))
        .map(|resource| (resource.clone(), Arc::new(Kind::without_crd(&resource, Unresolved::NotLoaded))))
        .collect();
    Scene { policies, kinds: Arc::new(kinds), held: None }
}

/// Plans from nothing, and returns the rules of the last step as `entry: resources`.
fn rules_of(scene: &Scene) -> Vec<(Entry, Vec<String>)> {
    let steps = plan(scene, Some(&Registration::default())).steps;
    let rules = steps.last().cloned().unwrap_or_default();
    rules
        .into_iter()
        .map(|(entry, rules)| (entry, rules.into_iter().flat_map(|rule| rule.resources.unwrap()).collect()))
        .collect()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_policy_that_only_audits_is_observed() {
    let scene = scene(vec![deployments("a", &json!({}))]);
    let resources = texts(&["deployments", "deployments/status", "deployments/scale"]);
    assert_eq!(rules_of(&scene), [(Entry::Observe, resources)]);
}

#[test]
fn what_is_enforced_is_judged_closed_or_open_and_seen_when_bypassed() {
    let resources = texts(&["deployments", "deployments/status", "deployments/scale"]);
    let closed = scene(vec![deployments("a", &json!({"mode": "Enforce"}))]);
    assert_eq!(rules_of(&closed), [(Entry::Enforce, resources.clone()), (Entry::Bypass, resources.clone())]);
    let open = scene(vec![deployments("a", &json!({"mode": "Enforce", "failurePolicy": "Ignore"}))]);
    assert_eq!(rules_of(&open), [(Entry::EnforceOpen, resources.clone()), (Entry::Bypass, resources)]);
}

#[test]
fn the_strictest_policy_decides_for_the_target() {
    let scene = scene(vec![
        deployments("a", &json!({"mode": "Warn"})),
        deployments("b", &json!({"mode": "Enforce"})),
        deployments("c", &json!({"mode": "Enforce", "failurePolicy": "Ignore"})),
    ]);
    let plan = plan(&scene, Some(&Registration::default()));
    assert_eq!(plan.entries.values().copied().collect::<Vec<_>>(), [Entry::Enforce]);
    assert_eq!(plan.steps[0][&Entry::Enforce].len(), 1, "one rule, however many policies");
}

#[test]
fn any_part_that_enforces_counts() {
    let owner = |rest: Value| {
        let mut owner =
            json!({"name": "o", "subjects": [{"kind": "User", "name": "u"}], "fields": [{"path": ".spec"}]});
        for (key, value) in rest.as_object().unwrap() {
            owner[key] = value.clone();
        }
        json!({ "owners": [owner] })
    };
    for (part, entry) in [
        (json!({"mode": "Warn"}), Entry::Observe),
        (json!({"integrity": {"mode": "Warn", "coOwnership": "Warn"}}), Entry::Observe),
        (json!({"integrity": {"mode": "Enforce"}}), Entry::Enforce),
        (json!({"integrity": {"coOwnership": "Enforce"}}), Entry::Enforce),
        (owner(json!({"mode": "Enforce"})), Entry::Enforce),
        (owner(json!({"fields": [{"path": ".spec", "mode": "Enforce"}]})), Entry::Enforce),
    ] {
        let judged = scene(vec![deployments("a", &part)]).policies.remove(0);
        assert_eq!(entry_for(&judged.in_force.unwrap().spec), entry, "{part}");
    }
}

#[test]
fn rules_name_one_version_all_scopes_and_what_writes() {
    let scene = scene(vec![deployments("a", &json!({}))]);
    let plan = plan(&scene, Some(&Registration::default()));
    let rule = &plan.steps[0][&Entry::Observe][0];
    assert_eq!(rule.api_versions, Some(texts(&["v1"])));
    assert_eq!(rule.operations, Some(texts(&["CREATE", "UPDATE", "DELETE"])));
    assert_eq!(rule.scope.as_deref(), Some("*"));
}

#[test]
fn a_version_that_is_not_served_is_replaced_by_all_that_are() {
    let target = json!({"group": "example.com", "version": "v1", "resource": "things"});
    let mut scene = scene(vec![policy("a", &target, &json!({}))]);
    let resource = GroupResource { group: "example.com".to_owned(), resource: "things".to_owned() };
    let mut kind = Kind::without_crd(&resource, Unresolved::NotLoaded);
    kind.served = texts(&["v2", "v3"]);
    kind.subresources = Some(vec!["scale"]);
    scene.kinds = Arc::new([(resource, Arc::new(kind))].into_iter().collect());
    let plan = plan(&scene, Some(&Registration::default()));
    let rule = &plan.steps[0][&Entry::Observe][0];
    assert_eq!(rule.api_versions, Some(texts(&["v2", "v3"])));
    assert_eq!(rule.resources, Some(texts(&["things", "things/scale"])));
}

#[test]
fn eviction_is_seen_where_deletion_is_governed() {
    let pods = json!({"group": "", "version": "v1", "resource": "pods"});
    let last = |rest: Value| rules_of(&scene(vec![policy("a", &pods, &rest)])).remove(0).1.pop();
    assert_eq!(last(json!({"deletion": {"subjects": []}})).as_deref(), Some("pods/eviction"));
    assert_eq!(last(json!({})).as_deref(), Some("pods/ephemeralcontainers"));
}

/// The live registration after all steps of a plan for `scene`.
fn registered(scene: &Scene) -> Registration {
    let rules = plan(scene, Some(&Registration::default())).steps.pop().unwrap();
    Registration { rules, ..Registration::default() }
}

#[test]
fn what_is_right_already_is_not_written() {
    let scene = scene(vec![deployments("a", &json!({"mode": "Enforce"}))]);
    assert!(plan(&scene, Some(&registered(&scene))).steps.is_empty());
}

#[test]
fn a_target_that_moves_is_in_its_new_entry_before_it_leaves_the_old_one() {
    let observed = scene(vec![deployments("a", &json!({}))]);
    let enforced = scene(vec![deployments("a", &json!({"mode": "Enforce"}))]);
    for (from, to, old, new) in [
        (&observed, &enforced, Entry::Observe, Entry::Enforce),
        (&enforced, &observed, Entry::Enforce, Entry::Observe),
    ] {
        let steps = plan(to, Some(&registered(from))).steps;
        assert_eq!(steps.len(), 2);
        assert!(steps[0].contains_key(&old) && steps[0].contains_key(&new));
        assert!(!steps[1].contains_key(&old) && steps[1].contains_key(&new));
        // Interrupted between the two, only the second is left to do.
        let halfway = Registration { rules: steps[0].clone(), ..Registration::default() };
        assert_eq!(plan(to, Some(&halfway)).steps, steps[1..]);
    }
}

#[test]
fn others_stay_where_they_are_while_one_moves() {
    let pods = json!({"group": "", "version": "v1", "resource": "pods"});
    let before = scene(vec![deployments("a", &json!({})), policy("b", &pods, &json!({}))]);
    let after = scene(vec![deployments("a", &json!({"mode": "Enforce"})), policy("b", &pods, &json!({}))]);
    for step in plan(&after, Some(&registered(&before))).steps {
        let observed = step[&Entry::Observe].iter().filter_map(|rule| rule.resources.as_ref());
        assert_eq!(observed.filter(|resources| resources[0] == "pods").count(), 1);
    }
}

#[test]
fn the_last_policy_leaves_no_rule_behind() {
    let before = scene(vec![deployments("a", &json!({"mode": "Enforce"}))]);
    let steps = plan(&scene(Vec::new()), Some(&registered(&before))).steps;
    assert_eq!(steps, [Rules::new()]);
}

#[test]
fn a_policy_that_is_not_in_force_registers_nothing() {
    let mut policy = (*deployments("a", &json!({}))).clone();
    policy.spec["owners"][0]["fields"][0]["path"] = "spec".into();
    let policies = judge([Arc::new(policy)], with_compiler);
    assert!(policies[0].problem.is_some());
    let scene = Scene { policies, kinds: Arc::default(), held: None };
    assert_eq!(plan(&scene, Some(&Registration::default())), Plan::default());
}
