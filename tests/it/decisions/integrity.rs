//! `managedFields`: what nobody may do to it, and what the API server does to it every day.

use fieldkeeper::ownership::rule::Mode;
use fieldkeeper::ownership::verdict::{Reason, Tampering, Verdict};
use serde_json::{Value, json};

use super::{NODEPOOLS, Request, entry, paths, pool, refused, target, with};

const ENTRIES: &str = "/metadata/managedFields";

fn tampering(verdict: &Verdict) -> Vec<Tampering> {
    let of = |finding: &fieldkeeper::ownership::verdict::Finding| match finding.reason {
        Reason::Integrity(tampering) => Some(tampering),
        _ => None,
    };
    let mut found: Vec<Tampering> = verdict.findings.iter().filter_map(of).collect();
    found.dedup();
    found
}

fn by_mallory(new: &Value) -> Verdict {
    Request::update(&pool(), new).by("mallory").under("mallory").judge(&target(&[NODEPOOLS]))
}

fn target_nodes() -> Value {
    json!({"f:spec": {"f:targetNodes": {}}})
}

#[test]
fn wiping_the_list_is_refused() {
    for wiped in [json!([]), Value::Null] {
        let verdict = by_mallory(&with(pool(), ENTRIES, wiped));
        assert_eq!(tampering(&verdict), [Tampering::Wiped], "{verdict:?}");
    }
}

#[test]
fn dropping_the_entry_of_a_holder_is_refused() {
    let verdict = by_mallory(&with(pool(), "/metadata/managedFields/1", Value::Null));
    assert_eq!(refused(&verdict), [".spec.targetNodes"]);
    assert_eq!(tampering(&verdict), [Tampering::Stripped]);
}

#[test]
fn handing_a_field_to_somebody_else_is_refused() {
    let gitops = json!({"f:spec": {"f:handOff": {}, "f:minNodes": {}, "f:maxNodes": {}, "f:targetNodes": {},
        "f:template": {"f:taints": {"k:{\"effect\":\"NoSchedule\",\"key\":\"team\"}":
            {".": {}, "f:effect": {}, "f:key": {}, "f:value": {}}}}}});
    let verdict =
        by_mallory(&with(pool(), "/metadata/managedFields/0", entry("gitops", "Apply", "", gitops)));
    assert_eq!(refused(&verdict), [".spec.targetNodes"]);
    assert_eq!(tampering(&verdict), [Tampering::Forged]);
}

#[test]
fn an_entry_of_a_version_that_the_kind_does_not_have_is_refused() {
    for version in ["compute.fieldkeeper.dev/v999", "a/b/c", ""] {
        let poison = with(entry("mallory", "Update", "", json!({})), "/apiVersion", json!(version));
        let verdict = by_mallory(&with(pool(), "/metadata/managedFields/-", poison));
        assert_eq!(tampering(&verdict), [Tampering::Poisoned], "{version}: {verdict:?}");
    }
}

#[test]
fn moving_the_time_of_a_foreign_entry_is_refused() {
    let verdict = by_mallory(&with(pool(), "/metadata/managedFields/1/time", json!("2020-01-01T00:00:00Z")));
    assert_eq!(tampering(&verdict), [Tampering::Retimed]);
}

#[test]
fn applying_an_equal_value_holds_the_field_beside_its_owner() {
    let mut joined = entry("mallory", "Apply", "", target_nodes());
    joined.as_object_mut().unwrap().remove("time");
    let verdict = by_mallory(&with(pool(), "/metadata/managedFields/-", joined));
    assert_eq!(refused(&verdict), [".spec.targetNodes"]);
    assert_eq!(verdict.findings[0].reason, Reason::CoOwnership);
}

#[test]
fn co_ownership_is_only_audited_unless_the_policy_says_otherwise() {
    let default = NODEPOOLS.replace("  integrity:\n    coOwnership: Enforce\n", "");
    let new = with(pool(), "/metadata/managedFields/-", entry("mallory", "Apply", "", target_nodes()));
    let verdict = Request::update(&pool(), &new).by("mallory").under("mallory").judge(&target(&[&default]));
    assert_eq!(refused(&verdict), [""; 0]);
    assert_eq!(paths(&verdict, Mode::Audit), [".spec.targetNodes"]);
}

#[test]
fn containers_and_list_keys_are_held_by_all_who_hold_something_inside() {
    let policy = NODEPOOLS
        .replace("    - path: .spec\n", "    - path: .spec\n    - path: .spec.template.taints[*].value\n");
    let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:mine": {}}}, "f:spec": {".": {}, "f:template": {".": {}}}});
    let new = with(pool(), "/metadata/labels/mine", json!("x"));
    let new = with(new, "/metadata/managedFields/-", entry("mallory", "Update", "", fields));
    let verdict = Request::update(&pool(), &new).by("mallory").under("mallory").judge(&target(&[&policy]));
    assert_eq!(verdict.findings, []);
}

#[test]
fn membership_alone_would_pin_an_item_and_so_counts() {
    let fields = json!({"f:spec": {"f:template": {"f:taints": {"k:{\"effect\":\"NoSchedule\",\"key\":\"team\"}":
        {".": {}, "f:effect": {}, "f:key": {}}}}}});
    let verdict =
        by_mallory(&with(pool(), "/metadata/managedFields/-", entry("mallory", "Apply", "", fields)));
    assert_eq!(refused(&verdict), [".spec.template.taints[effect=\"NoSchedule\",key=\"team\"]"]);
}

#[test]
fn a_value_that_changed_explains_why_its_holder_lost_it() {
    let new = with(pool(), "/spec/targetNodes", json!(7));
    let new = with(new, "/metadata/managedFields/1", entry("other", "Update", "", target_nodes()));
    let verdict = Request::update(&pool(), &new)
        .by("fieldkeeper-system/autoscaler")
        .under("other")
        .judge(&target(&[NODEPOOLS]));
    assert_eq!(verdict.findings, []);
}

#[test]
fn named_editors_may_rewrite_the_list() {
    let editors = NODEPOOLS
        .replace("coOwnership: Enforce", "coOwnership: Enforce\n    editors: [{kind: User, name: migrator}]");
    let new = with(pool(), "/metadata/managedFields/1", Value::Null);
    let verdict = Request::update(&pool(), &new).by("migrator").judge(&target(&[&editors]));
    assert_eq!(verdict.findings, []);
}

#[test]
fn the_first_apply_on_an_untracked_object_files_what_was_there() {
    let old = with(pool(), ENTRIES, json!([]));
    let everything = json!({"f:spec": {".": {}, "f:targetNodes": {}, "f:minNodes": {}}});
    let label = json!({"f:metadata": {"f:labels": {"f:team": {}}}});
    let new = with(
        old.clone(),
        ENTRIES,
        json!([entry("gitops", "Apply", "", label), entry("before-first-apply", "Update", "", everything)]),
    );
    let verdict = Request::update(&old, &new).by("mallory").under("gitops").judge(&target(&[NODEPOOLS]));
    assert_eq!(verdict.findings, []);
}

#[test]
fn merging_old_update_entries_into_ancient_changes_is_the_servers_work() {
    let old = with(pool(), "/metadata/managedFields/1/operation", json!("Update"));
    let merged = entry("ancient-changes", "Update", "", target_nodes());
    let label = entry("mallory", "Update", "", json!({"f:metadata": {"f:labels": {"f:mine": {}}}}));
    let new = with(old.clone(), "/metadata/labels/mine", json!("x"));
    let new = with(with(new, "/metadata/managedFields/1", merged), "/metadata/managedFields/-", label);
    let verdict = Request::update(&old, &new).by("mallory").under("mallory").judge(&target(&[NODEPOOLS]));
    assert_eq!(verdict.findings, []);
    assert!(!verdict.notes.is_empty());
}

#[test]
fn an_upgrade_from_client_side_apply_is_recognised_by_its_shape() {
    let policy = NODEPOOLS
        .replace("  - name: autoscaler\n", "  - name: autoscaler-unused\n")
        .replace("{name: autoscaler, use: Reserve}", "{name: scaler, use: Expect}");
    let held = json!({"f:spec": {"f:minNodes": {}}});
    let old = with(pool(), ENTRIES, json!([entry("kubectl-client-side-apply", "Update", "", held.clone())]));
    let new = with(pool(), ENTRIES, json!([entry("kubectl", "Apply", "", held.clone())]));
    let verdict = Request::update(&old, &new).by("mallory").under("kubectl").judge(&target(&[&policy]));
    assert_eq!(verdict.findings, []);
    assert!(!verdict.notes.is_empty());
    // Under a name that another owner declares it is no upgrade but a forgery.
    let new = with(pool(), ENTRIES, json!([entry("nodepool-controller-status", "Apply", "", held)]));
    let verdict = Request::update(&old, &new).by("mallory").under("kubectl").judge(&target(&[&policy]));
    assert!(verdict.denies(), "{verdict:?}");
}

#[test]
fn a_list_wiped_because_of_a_removed_version_is_not_the_requesters_doing() {
    let old = with(pool(), "/metadata/managedFields/0/apiVersion", json!("compute.fieldkeeper.dev/v1alpha0"));
    let new = with(with(old.clone(), ENTRIES, json!([])), "/metadata/labels/team", json!("blue"));
    let verdict = Request::update(&old, &new).by("mallory").judge(&target(&[NODEPOOLS]));
    assert_eq!(verdict.findings, []);
    assert!(!verdict.notes.is_empty());
    // The value is judged all the same.
    let new = with(new, "/spec/targetNodes", json!(7));
    assert!(Request::update(&old, &new).by("mallory").judge(&target(&[NODEPOOLS])).denies());
}

#[test]
fn what_a_subresource_takes_from_the_part_that_it_ignores_is_the_servers_doing() {
    let target = target(&[NODEPOOLS]);
    let held = json!({"f:metadata": {"f:finalizers": {"v:\"compute.fieldkeeper.dev/nodepool\"": {}}}});
    let old = with(pool(), ENTRIES, json!([entry("nodepool-controller-finalizer", "Apply", "", held)]));
    let new = with(
        pool(),
        ENTRIES,
        json!([entry("curl", "Update", "", json!({"f:metadata": {"f:labels": {"f:team": {}}}}))]),
    );
    let judged = |subresource: &str| {
        refused(&Request::update(&old, &new).on(subresource).by("mallory").under("curl").judge(&target))
    };
    assert_eq!(judged(""), [r#".metadata.finalizers[="compute.fieldkeeper.dev/nodepool"]"#]);
    for subresource in ["status", "resize", "ephemeralcontainers"] {
        assert_eq!(judged(subresource), [""; 0], "{subresource}");
    }
}
