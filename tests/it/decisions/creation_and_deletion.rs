//! Objects that come and go.

use fieldkeeper::ownership::verdict::Reason;
use serde_json::{Value, json};

use super::{NODEPOOLS, Request, pool, refused, target, with};

fn new_pool() -> Value {
    with(
        with(with(pool(), "/status", Value::Null), "/metadata/managedFields", json!([])),
        "/metadata/finalizers",
        json!([]),
    )
}

fn created(by: &str) -> Value {
    let fields = json!({"f:spec": {"f:handOff": {}, "f:maxNodes": {}, "f:minNodes": {}, "f:targetNodes": {},
        "f:template": {"f:taints": {"k:{\"effect\":\"NoSchedule\",\"key\":\"team\"}": {".": {}, "f:effect": {}, "f:key": {}, "f:value": {}}}}}});
    with(new_pool(), "/metadata/managedFields", json!([super::entry(by, "Update", "", fields)]))
}

#[test]
fn whoever_creates_an_object_sets_only_the_fields_it_owns() {
    let target = target(&[NODEPOOLS]);
    let verdict = Request::create(&created("kubectl-create"))
        .by("@platform-admins")
        .under("kubectl-create")
        .judge(&target);
    assert_eq!(refused(&verdict), [".spec.targetNodes"]);
    let without = with(created("kubectl-create"), "/spec/targetNodes", Value::Null);
    let without = with(without, "/metadata/managedFields/0/fieldsV1/f:spec/f:targetNodes", Value::Null);
    let verdict = Request::create(&without).by("@platform-admins").under("kubectl-create").judge(&target);
    assert_eq!(refused(&verdict), [""; 0]);
}

#[test]
fn a_value_that_the_schema_puts_there_was_set_by_nobody() {
    let policy = "apiVersion: fieldkeeper.dev/v1alpha1\nkind: FieldPolicy\nmetadata: {name: p}\nspec:\n  \
        target: {group: compute.fieldkeeper.dev, version: v1alpha1, resource: nodepools}\n  mode: Enforce\n  owners:\n  \
        - name: a\n    subjects: [{kind: User, name: ann}]\n    fields: [{path: .spec.handOff}]\n";
    let target = target(&[policy]);
    let by_default = with(created("x"), "/spec/handOff", json!("Manual"));
    assert_eq!(refused(&Request::create(&by_default).by("bob").under("x").judge(&target)), [""; 0]);
    let chosen = with(created("x"), "/spec/handOff", json!("Direct"));
    assert_eq!(refused(&Request::create(&chosen).by("bob").under("x").judge(&target)), [".spec.handOff"]);
}

#[test]
fn restore_tools_and_anyone_may_create_where_the_policy_says_so() {
    let anyone = NODEPOOLS.replace("  mode: Enforce\n", "  mode: Enforce\n  creation: {policy: Anyone}\n");
    let except = NODEPOOLS.replace(
        "  mode: Enforce\n",
        "  mode: Enforce\n  creation: {policy: Owners, except: [{kind: User, name: velero}]}\n",
    );
    for policy in [anyone, except] {
        let verdict =
            Request::create(&created("velero")).by("velero").under("velero").judge(&target(&[&policy]));
        assert_eq!(refused(&verdict), [""; 0]);
    }
}

#[test]
fn deletion_is_left_to_rbac_unless_the_policy_names_who_may() {
    let verdict = Request::delete(&pool()).by("mallory").judge(&target(&[NODEPOOLS]));
    assert_eq!(verdict.findings, []);
    let named = NODEPOOLS.replace(
        "  mode: Enforce\n",
        "  mode: Enforce\n  deletion: {subjects: [{kind: Group, name: platform-admins}]}\n",
    );
    let target = target(&[&named]);
    let verdict = Request::delete(&pool()).by("mallory").judge(&target);
    assert_eq!(verdict.findings[0].reason, Reason::Deletion);
    assert!(verdict.denies());
    for who in ["@platform-admins", "kube-system/generic-garbage-collector", "system:kube-controller-manager"]
    {
        assert_eq!(Request::delete(&pool()).by(who).judge(&target).findings, [], "{who}");
    }
    for who in
        ["kube-system/default", "evil/generic-garbage-collector", "kube-system/generic-garbage-collector-x"]
    {
        assert!(Request::delete(&pool()).by(who).judge(&target).denies(), "{who}");
    }
}

#[test]
fn an_owner_reference_counts_as_a_deletion_where_deletion_is_kept_to_some() {
    let named = NODEPOOLS.replace("  mode: Enforce\n", "  mode: Enforce\n  deletion: {subjects: []}\n");
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u-9"}]);
    let new = with(pool(), "/metadata/ownerReferences", reference);
    let verdict = Request::update(&pool(), &new).by("mallory").judge(&target(&[&named]));
    assert!(verdict.findings.iter().any(|finding| finding.reason == Reason::Deletion), "{verdict:?}");
    assert_eq!(Request::update(&pool(), &new).by("mallory").judge(&target(&[NODEPOOLS])).findings, []);
    // What is created with a reference, as controllers create what is theirs, was not there to be deleted.
    let made = with(created("x"), "/spec/targetNodes", Value::Null);
    let made = with(made, "/metadata/managedFields/0/fieldsV1/f:spec/f:targetNodes", Value::Null);
    let made = with(made, "/metadata/ownerReferences", new["metadata"]["ownerReferences"].clone());
    let verdict = Request::create(&made).by("@platform-admins").under("x").judge(&target(&[&named]));
    assert_eq!(verdict.findings, []);
}

#[test]
fn the_garbage_collector_takes_its_own_finalizer_and_nothing_else() {
    let policy = NODEPOOLS.replace(
        "fields:\n    - path: .status\n",
        "fields:\n    - path: .metadata.finalizers\n    - path: .status\n",
    );
    let target = target(&[&policy]);
    let old = with(pool(), "/metadata/finalizers/-", json!("foregroundDeletion"));
    let collector = "kube-system/generic-garbage-collector";
    assert_eq!(Request::update(&old, &pool()).by(collector).judge(&target).findings, []);
    let theirs = with(old.clone(), "/metadata/finalizers/0", Value::Null);
    assert!(Request::update(&old, &theirs).by(collector).judge(&target).denies());
    assert!(Request::update(&old, &pool()).by("mallory").judge(&target).denies());
}

#[test]
fn the_garbage_collector_drops_a_reference_or_lifts_its_block_and_changes_nothing_else_in_it() {
    let policy = NODEPOOLS.replace(
        "fields:\n    - path: .status\n",
        "fields:\n    - path: .metadata.ownerReferences\n    - path: .status\n",
    );
    let target = target(&[&policy]);
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u-9",
        "blockOwnerDeletion": true}]);
    let old = with(pool(), "/metadata/ownerReferences", reference);
    let collected =
        |new: &Value| Request::update(&old, new).by("kube-system/generic-garbage-collector").judge(&target);
    let member = |name: &str| format!("/metadata/ownerReferences/0/{name}");
    assert_eq!(collected(&pool()).findings, []);
    assert_eq!(collected(&with(old.clone(), &member("blockOwnerDeletion"), json!(false))).findings, []);
    for (name, value) in [("name", json!("other")), ("controller", json!(true))] {
        let verdict = collected(&with(old.clone(), &member(name), value));
        assert_eq!(refused(&verdict), [".metadata.ownerReferences[uid=\"u-9\"]"], "{name}");
    }
}
