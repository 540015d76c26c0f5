//! Objects that come and go.

use fieldkeeper::api::FieldPolicy;
use fieldkeeper::ownership::rule::Target;
use fieldkeeper::ownership::schema::Schema;
use fieldkeeper::ownership::verdict::Reason;
use fieldkeeper::policy::compile::compile;
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

/// A policy on a built-in kind that keeps deletion to `admin`.
fn nobody_deletes(group: &str, resource: &str) -> Target {
    let policy = format!(
        "apiVersion: fieldkeeper.dev/v1alpha1\nkind: FieldPolicy\nmetadata: {{name: p}}\nspec:\n  \
        target: {{group: '{group}', version: v1, resource: {resource}}}\n  mode: Enforce\n  \
        deletion: {{subjects: [{{kind: User, name: admin}}]}}\n  integrity: {{mode: Audit}}\n"
    );
    let policy: FieldPolicy = serde_saphyr::from_str(&policy).unwrap();
    Target {
        group: group.into(),
        resource: resource.into(),
        version: "v1".into(),
        any_version: false,
        schema: Schema::deduced().into(),
        versions: Vec::new(),
        scale: None,
        sensitive: false,
        policies: vec![compile("p", 1, &policy.spec).unwrap().into()],
    }
}

#[test]
fn an_eviction_is_a_deletion_although_its_review_shows_no_pod() {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}});
    let evict = |who: &str| {
        let request = Request::create(&eviction).on("eviction").of("", "v1", "pods", "Eviction").by(who);
        request.judge(&nobody_deletes("", "pods"))
    };
    assert_eq!(evict("mallory").findings[0].reason, Reason::Deletion);
    assert!(evict("mallory").denies());
    assert_eq!(evict("admin").findings, []);
}

#[test]
fn a_shorter_life_after_the_end_of_a_job_is_a_deletion() {
    let job = |seconds: Value| {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 1}});
        if seconds.is_null() { job } else { with(job, "/spec/ttlSecondsAfterFinished", seconds) }
    };
    let target = nobody_deletes("batch", "jobs");
    let judged = |who: &str, old: Value, new: Value| {
        let request = Request::update(&job(old), &job(new)).of("batch", "v1", "jobs", "Job").by(who);
        refused(&request.judge(&target))
    };
    for (old, new) in [(json!(60), json!(5)), (json!(60), json!(0)), (Value::Null, json!(100_000))] {
        assert_eq!(
            judged("mallory", old.clone(), new.clone()),
            [".spec.ttlSecondsAfterFinished"],
            "{old} {new}"
        );
        assert_eq!(judged("admin", old, new), [""; 0]);
    }
    for (old, new) in [(json!(5), json!(60)), (json!(5), Value::Null)] {
        assert_eq!(judged("mallory", old, new), [""; 0], "a longer life deletes nothing");
    }
    let created = Request::create(&job(json!(5))).of("batch", "v1", "jobs", "Job").by("mallory");
    assert_eq!(refused(&created.judge(&target)), [""; 0]);
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

/// Break-glass, exceptions for creation, deleters and editors are of the policy that names them.
#[test]
fn what_one_policy_permits_another_does_not() {
    let mallory = "{subjects: [{kind: User, name: mallory}]}";
    let permits = NODEPOOLS
        .replace("  mode: Enforce\n", &format!("  mode: Enforce\n  breakGlass: {mallory}\n  deletion: {mallory}\n  creation: {{policy: Owners, except: [{{kind: User, name: mallory}}]}}\n"))
        .replace("coOwnership: Enforce", "coOwnership: Enforce\n    editors: [{kind: User, name: mallory}]");
    let strict = NODEPOOLS
        .replace("{name: nodepools}", "{name: strict}")
        .replace("  name: nodepools\n", "  name: strict\n")
        .replace("  mode: Enforce\n", "  mode: Enforce\n  deletion: {subjects: []}\n");
    let by_mallory = |policies: &[&str]| {
        let requests = [
            Request::update(&pool(), &with(pool(), "/spec/targetNodes", json!(7))),
            Request::create(&created("mallory")),
            Request::delete(&pool()),
            Request::update(&pool(), &with(pool(), "/metadata/managedFields/1", Value::Null)),
        ];
        requests.map(|request| request.by("mallory").under("mallory").judge(&target(policies)).denies())
    };
    assert_eq!(by_mallory(&[&permits]), [false; 4]);
    assert_eq!(by_mallory(&[&strict]), [true; 4]);
    assert_eq!(by_mallory(&[&permits, &strict]), [true; 4]);
    assert_eq!(by_mallory(&[&strict, &permits]), [true; 4]);
}
