//! Changes that a mutating webhook or policy makes inside somebody's innocent request.

use fieldkeeper::ownership::verdict::Reason;
use serde_json::{Value, json};

use super::{NODEPOOLS, Request, entry, pool, refused, target, with};

/// Mallory sets a label, is recorded for it, and a mutator changes the size on the way.
fn mutated() -> Value {
    let new = with(with(pool(), "/metadata/labels/mine", json!("x")), "/spec/targetNodes", json!(7));
    let mine = json!({"f:metadata": {"f:labels": {"f:mine": {}}}});
    with(new, "/metadata/managedFields/-", entry("mallory", "Update", "", mine))
}

fn by_mallory(new: &Value, policy: &str) -> fieldkeeper::ownership::verdict::Verdict {
    Request::update(&pool(), new).by("mallory").under("mallory").judge(&target(&[policy]))
}

fn naming_mutators(condition: &str) -> String {
    NODEPOOLS.replace(
        "      when: oldObject.spec.handOff == 'Direct'\n",
        &format!("      when: oldObject.spec.handOff == 'Direct'\n      mutators: [{{name: sidecar, when: \"{condition}\"}}]\n"),
    )
}

#[test]
fn a_change_that_the_request_is_not_recorded_for_is_a_mutators() {
    let verdict = by_mallory(&mutated(), NODEPOOLS);
    assert_eq!(verdict.findings, []);
    assert_eq!(verdict.notes, [".spec.targetNodes: changed by a mutating webhook or policy"]);
}

#[test]
fn a_change_that_the_request_is_recorded_for_is_its_own() {
    let taken = json!({"f:metadata": {"f:labels": {"f:mine": {}}}, "f:spec": {"f:targetNodes": {}}});
    let new = with(mutated(), "/metadata/managedFields/3", entry("mallory", "Update", "", taken));
    let new = with(new, "/metadata/managedFields/1", Value::Null);
    assert_eq!(refused(&by_mallory(&new, NODEPOOLS)), [".spec.targetNodes"]);
}

#[test]
fn nothing_is_proven_where_tracking_stood_still() {
    let new = with(pool(), "/spec/targetNodes", json!(7));
    let verdict = by_mallory(&new, NODEPOOLS);
    assert_eq!(refused(&verdict), [".spec.targetNodes"]);
    assert!(verdict.findings[0].untracked);
}

#[test]
fn an_entry_of_another_version_proves_nothing() {
    let mut new = mutated();
    new["metadata"]["managedFields"][3]["apiVersion"] = json!("compute.fieldkeeper.dev/v1beta1");
    assert!(by_mallory(&new, NODEPOOLS).denies());
}

#[test]
fn a_removal_is_never_a_mutators() {
    let new = with(mutated(), "/spec/targetNodes", Value::Null);
    assert_eq!(refused(&by_mallory(&new, NODEPOOLS)), [".spec.targetNodes"]);
}

#[test]
fn a_claim_that_names_its_mutators_lets_only_those_pass() {
    assert_eq!(by_mallory(&mutated(), &naming_mutators("object.spec.targetNodes == 7")).findings, []);
    let unfit = naming_mutators("object.spec.targetNodes == 8");
    let verdict = by_mallory(&mutated(), &unfit);
    assert_eq!(refused(&verdict), [".spec.targetNodes"]);
    assert!(verdict.findings[0].untracked, "the refusal says that another may have done it");
    let taken = json!({"f:metadata": {"f:labels": {"f:mine": {}}}, "f:spec": {"f:targetNodes": {}}});
    let own = with(mutated(), "/metadata/managedFields/3", entry("mallory", "Update", "", taken));
    let verdict = by_mallory(&own, &unfit);
    let own = verdict.findings.iter().find(|finding| finding.reason == Reason::OwnedByAnother);
    assert!(!own.unwrap().untracked, "and not where the request is recorded for it");
}

#[test]
fn a_value_that_took_its_default_because_the_request_let_go_of_it_is_not_a_mutators() {
    let held = json!({"f:spec": {"f:targetNodes": {}}});
    let old = with(pool(), "/metadata/managedFields/1", entry("mallory", "Apply", "", held));
    let new = with(with(old.clone(), "/metadata/labels/mine", json!("x")), "/spec/targetNodes", json!(7));
    let label = json!({"f:metadata": {"f:labels": {"f:mine": {}}}});
    let new = with(new, "/metadata/managedFields/1", entry("mallory", "Apply", "", label));
    let verdict = Request::update(&old, &new).by("mallory").under("mallory").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [".spec.targetNodes"]);
}

/// The pool controller takes its finalizer from a pool that is being deleted, and a mutator changes the size on the way.
fn released() -> (Value, Value) {
    let old = with(pool(), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let held =
        json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"compute.fieldkeeper.dev/nodepool\"": {}}}});
    let new = with(with(old.clone(), "/metadata/finalizers", Value::Null), "/spec/targetNodes", json!(7));
    (with(old, "/metadata/managedFields/-", entry("nodepool-controller-finalizer", "Update", "", held)), new)
}

#[test]
fn the_owner_of_a_finalizer_is_not_kept_from_releasing_it_by_a_mutator() {
    let (old, new) = released();
    let judged = |old: &Value, new: &Value, who: &str, policy: &str| {
        refused(&Request::update(old, new).by(who).under("x").judge(&target(&[policy])))
    };
    let controller = "fieldkeeper-system/nodepool-controller";
    assert_eq!(judged(&old, &new, controller, NODEPOOLS), [""; 0]);
    let unfit = naming_mutators("object.spec.targetNodes == 8");
    assert_eq!(judged(&old, &new, controller, &unfit), [""; 0]);
    // Not where the request holds the size, where nothing is being deleted, where tracking stood still, or for others.
    let size = json!({"f:spec": {"f:targetNodes": {}}});
    let own = with(new.clone(), "/metadata/managedFields/-", entry("x", "Update", "", size));
    assert_eq!(judged(&old, &own, controller, NODEPOOLS), [".spec.targetNodes"]);
    let alive = |object: &Value| with(object.clone(), "/metadata/deletionTimestamp", Value::Null);
    assert_eq!(judged(&alive(&old), &alive(&new), controller, NODEPOOLS), [".spec.targetNodes"]);
    let frozen = with(new.clone(), "/metadata/managedFields", old["metadata"]["managedFields"].clone());
    assert_eq!(judged(&old, &frozen, controller, NODEPOOLS), [".spec.targetNodes"]);
    let wiped = with(new.clone(), "/metadata/managedFields", Value::Null);
    assert!(judged(&old, &wiped, controller, NODEPOOLS).contains(&".spec.targetNodes".to_owned()));
    assert!(judged(&old, &new, "mallory", NODEPOOLS).contains(&".spec.targetNodes".to_owned()));
}

#[test]
fn a_mutators_change_outside_every_claim_is_not_the_requesters_either() {
    let policy = "apiVersion: fieldkeeper.dev/v1alpha1\nkind: FieldPolicy\nmetadata: {name: p}\nspec:\n  \
        target: {group: compute.fieldkeeper.dev, version: v1alpha1, resource: nodepools}\n  mode: Enforce\n  \
        unlisted: Deny\n  owners:\n  - name: a\n    subjects: [{kind: User, name: ann}]\n    fields: [{path: .spec.minNodes}]\n";
    assert_eq!(by_mallory(&mutated(), policy).findings, []);
    let untraced = with(pool(), "/spec/targetNodes", json!(7));
    assert_eq!(refused(&by_mallory(&untraced, policy)), [".spec.targetNodes"]);
    assert!(by_mallory(&untraced, policy).findings[0].untracked);
}

#[test]
fn a_list_of_items_that_is_applied_empty_is_the_requests_though_no_entry_holds_it() {
    let new = with(with(pool(), "/spec/requested", json!([])), "/metadata/labels/mine", json!("x"));
    let judged = |operation: &str| {
        let label = entry("mallory", operation, "", json!({"f:metadata": {"f:labels": {"f:mine": {}}}}));
        refused(&by_mallory(&with(new.clone(), "/metadata/managedFields/-", label), NODEPOOLS))
    };
    assert_eq!(judged("Apply"), [".spec.requested"]);
    // Of a plain write an empty list is recorded like any other value.
    assert_eq!(judged("Update"), [""; 0]);
    // The first apply on an untracked object, of nothing but the list, leaves no entry of its own at all.
    let untracked = with(pool(), "/metadata/managedFields", json!([]));
    let past =
        entry("before-first-apply", "Update", "", json!({"f:spec": {"f:handOff": {}, "f:targetNodes": {}}}));
    let new = with(with(pool(), "/spec/requested", json!([])), "/metadata/managedFields", json!([past]));
    let verdict =
        Request::update(&untracked, &new).by("mallory").under("mallory").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [".spec.requested"]);
}

#[test]
fn an_entry_that_holds_the_field_already_need_not_move() {
    let new = with(pool(), "/spec/targetNodes", json!(7));
    let verdict = |manager: &str| {
        Request::update(&pool(), &new).by("mallory").under(manager).judge(&target(&[NODEPOOLS]))
    };
    assert!(!verdict("autoscaler").findings[0].untracked);
    assert!(verdict("mallory").findings[0].untracked);
}

/// Without a schema a list is one value, unless a claim tells its items apart.
#[test]
fn a_claim_on_an_item_makes_no_other_policy_look_at_items() {
    let policy = |name: &str, who: &str, path: &str| {
        format!(
            "apiVersion: fieldkeeper.dev/v1alpha1\nkind: FieldPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
             target: {{group: compute.fieldkeeper.dev, version: v1alpha1, resource: nodepools}}\n  mode: Enforce\n  \
             owners:\n  - name: {who}\n    subjects: [{{kind: User, name: {who}}}]\n    fields: [{{path: '{path}'}}]\n"
        )
    };
    let list = policy("list", "gitops", ".spec.steps");
    let item = policy("item", "mallory", ".spec.steps[name=\"a\"]");
    let steps = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Value>();
    let old = with(pool(), "/spec/steps", steps(&["a", "b"]));
    let judged = |new: &Value, policies: &[&str]| {
        let mut target = target(policies);
        target.schema = fieldkeeper::ownership::schema::Schema::deduced().into();
        refused(&Request::update(&old, new).by("mallory").under("mallory").judge(&target))
    };
    // A mutator takes one away: what is gone from a list is gone from its value, and no item that anybody claims.
    let by_mutator = with(mutated(), "/spec/steps", steps(&["a"]));
    // Mallory does the same, and no entry shows another list.
    let by_mallory = with(old.clone(), "/spec/steps", steps(&["a"]));
    for policies in [&[&*list] as &[&str], &[&list, &item], &[&item, &list]] {
        assert_eq!(judged(&by_mutator, policies), [""; 0]);
        assert_eq!(judged(&by_mallory, policies), [".spec.steps"]);
    }
    // Nor a policy that claims any item and names none.
    let any = policy("any", "gitops", ".spec.steps[*]");
    let new = with(mutated(), "/spec/steps", steps(&["a", "c"]));
    for new in [&by_mutator, &by_mallory, &new] {
        assert_eq!(judged(new, &[&any]), judged(new, &[&any, &item]));
    }
    // The policy whose claim it is does look: another's item is another's.
    let others = policy("item", "ann", ".spec.steps[name=\"b\"]");
    assert_eq!(judged(&by_mutator, &[&list, &others])[0], ".spec.steps[name=\"b\"]");
}
