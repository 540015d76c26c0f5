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
    let updaters = |count: usize| {
        let of = |number: usize| {
            let label = json!({"f:metadata": {"f:labels": {format!("f:l{number}"): {}}}});
            entry(&format!("updater-{number}"), "Update", "", label)
        };
        (0..count).map(of).collect::<Vec<_>>()
    };
    for (others, merged_by_server) in [(9, true), (8, false)] {
        let held = |manager: &str| {
            let mut entries = updaters(others);
            entries.push(entry(manager, "Update", "", target_nodes()));
            with(pool(), ENTRIES, json!(entries))
        };
        let new = with(held("ancient-changes"), "/metadata/labels/l0", json!("x"));
        let verdict = Request::update(&held("scaler"), &new)
            .by("mallory")
            .under("mallory")
            .judge(&target(&[NODEPOOLS]));
        assert_eq!(verdict.findings.is_empty(), merged_by_server, "{verdict:?}");
        assert_eq!(verdict.notes.is_empty(), !merged_by_server, "{verdict:?}");
    }
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

/// A pool in which the autoscaler's hold came about by an update under the name `writer`.
fn updated_pool() -> Value {
    with(pool(), "/metadata/managedFields/1", entry("writer", "Update", "", target_nodes()))
}

fn by_nobody_in_particular(new: &Value) -> Verdict {
    Request::update(&updated_pool(), new).by("mallory").judge(&target(&[NODEPOOLS]))
}

#[test]
fn without_a_manager_name_a_foreign_entry_that_moves_is_not_taken_for_the_requests_own() {
    let retimed = with(updated_pool(), "/metadata/managedFields/1/time", json!("2020-01-01T00:00:00Z"));
    assert_eq!(tampering(&by_nobody_in_particular(&retimed)), [Tampering::Retimed]);
    let other = entry("writer", "Update", "", json!({"f:metadata": {"f:labels": {"f:x": {}}}}));
    let swapped = with(updated_pool(), "/metadata/managedFields/1", other);
    assert_eq!(tampering(&by_nobody_in_particular(&swapped)), [Tampering::Stripped]);
}

#[test]
fn a_path_that_concerns_nobody_does_not_hide_another_time() {
    let fields = json!({"f:metadata": {"f:labels": {"f:x": {}}}, "f:spec": {"f:targetNodes": {}}});
    let mut forged = entry("writer", "Update", "", fields);
    forged["time"] = json!("2020-01-01T00:00:00Z");
    let new = with(updated_pool(), "/metadata/managedFields/1", forged);
    assert_eq!(tampering(&by_nobody_in_particular(&new)), [Tampering::Retimed]);
}

#[test]
fn a_borrowed_manager_name_is_no_leave_to_strip_or_retime_its_entry() {
    for (operation, tampering_with) in [
        ("Apply", vec![(Value::Null, Tampering::Stripped)]),
        (
            "Update",
            vec![(Value::Null, Tampering::Stripped), (json!("2020-01-01T00:00:00Z"), Tampering::Retimed)],
        ),
    ] {
        let old = with(pool(), "/metadata/managedFields/1", entry("writer", operation, "", target_nodes()));
        for (time, expected) in tampering_with {
            let at = if time.is_null() { "" } else { "/time" };
            let new = with(old.clone(), &format!("/metadata/managedFields/1{at}"), time);
            let verdict =
                Request::update(&old, &new).by("mallory").under("writer").judge(&target(&[NODEPOOLS]));
            assert_eq!(tampering(&verdict), [expected], "{operation}: {verdict:?}");
        }
    }
}

#[test]
fn who_applied_a_field_beside_its_owner_may_let_go_of_it() {
    let old = with(pool(), "/metadata/managedFields/-", entry("mallory", "Apply", "", target_nodes()));
    let verdict = Request::update(&old, &pool()).by("mallory").under("mallory").judge(&target(&[NODEPOOLS]));
    assert_eq!(verdict.findings, []);
}

#[test]
fn a_creation_with_anything_to_track_is_not_left_untracked() {
    let by = |object: &Value| Request::create(object).by("mallory").judge(&target(&[NODEPOOLS]));
    let bare = json!({"apiVersion": "compute.fieldkeeper.dev/v1alpha1", "kind": "NodePool",
        "metadata": {"name": "general", "uid": "u-1"}});
    assert_eq!(by(&bare).findings, []);
    for (pointer, value) in [("/unclaimed", json!({})), ("/metadata/labels", json!({"a": "b"}))] {
        assert_eq!(tampering(&by(&with(bare.clone(), pointer, value))), [Tampering::Wiped], "{pointer}");
    }
    let label = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}});
    let tracked = with(
        with(bare, "/metadata/labels", json!({"a": "b"})),
        ENTRIES,
        json!([entry("m", "Update", "", label)]),
    );
    assert_eq!(by(&tracked).findings, []);
}

#[test]
fn an_entry_of_a_version_that_the_kind_does_not_have_vanishes_by_itself() {
    let strip = |target: &fieldkeeper::ownership::rule::Target, version: &str| {
        let old = with(pool(), "/metadata/managedFields/1/apiVersion", json!(version));
        let new = with(
            with(old.clone(), "/metadata/managedFields/1", Value::Null),
            "/metadata/labels/team",
            json!("blue"),
        );
        Request::update(&old, &new).by("mallory").under("mallory").judge(target)
    };
    let mut kind = target(&[NODEPOOLS]);
    assert_eq!(strip(&kind, "compute.fieldkeeper.dev/v0").findings, []);
    assert!(!strip(&kind, "compute.fieldkeeper.dev/v0").notes.is_empty());
    assert_eq!(refused(&strip(&kind, "compute.fieldkeeper.dev/v1alpha1")), [".spec.targetNodes"]);
    // A version that the kind has is evidence, also where another one is reviewed.
    kind.versions.push("compute.fieldkeeper.dev/v1beta1".into());
    assert_eq!(refused(&strip(&kind, "compute.fieldkeeper.dev/v1beta1")), [".spec.targetNodes"]);
    // Of a built-in kind only the reviewed version is known.
    kind.versions.clear();
    assert_eq!(strip(&kind, "compute.fieldkeeper.dev/v1beta1").findings, []);
    assert_eq!(refused(&strip(&kind, "compute.fieldkeeper.dev/v1alpha1")), [".spec.targetNodes"]);
}

#[test]
fn a_list_that_becomes_atomic_takes_in_what_everybody_held_in_it() {
    let fields = |taints: Value| json!({"f:spec": {"f:handOff": {}, "f:minNodes": {}, "f:maxNodes": {}, "f:template": {"f:taints": taints}}});
    let item = |key: &str| json!({format!("k:{{\"effect\":\"NoSchedule\",\"key\":\"{key}\"}}"): {".": {}, "f:effect": {}, "f:key": {}, "f:value": {}}});
    let held = |gitops: Value, mallory: Value| {
        let object = with(pool(), "/metadata/managedFields/0", entry("gitops", "Apply", "", fields(gitops)));
        let mallorys = json!({"f:spec": {"f:template": {"f:taints": mallory}}});
        with(object, "/metadata/managedFields/-", entry("mallory", "Apply", "", mallorys))
    };
    let old = held(item("team"), item("team"));
    let judged = |new: Value| {
        let new = with(new, "/metadata/labels/team", json!("blue"));
        Request::update(&old, &new).by("mallory").under("mallory").judge(&target(&[NODEPOOLS]))
    };
    let everybody = judged(held(json!({}), json!({})));
    assert_eq!(everybody.findings, []);
    assert!(!everybody.notes.is_empty());
    // Where one holds a part of it still, or the other not even the list, it has not become atomic.
    assert!(judged(held(json!({}), item("team"))).denies());
    assert!(
        judged(held(json!({".": {}, "k:{\"effect\":\"NoSchedule\",\"key\":\"x\"}": {}}), json!({}))).denies()
    );
    let dropped = with(
        old.clone(),
        "/metadata/managedFields/0",
        entry(
            "gitops",
            "Apply",
            "",
            json!({"f:spec": {"f:handOff": {}, "f:minNodes": {}, "f:maxNodes": {}}}),
        ),
    );
    assert!(judged(dropped).denies());
    // Nor has a whole spec that somebody strips.
    let spec = with(held(json!({}), json!({})), "/metadata/managedFields/0/fieldsV1", json!({"f:spec": {}}));
    assert!(judged(spec).denies());
}

#[test]
fn a_hold_on_what_is_not_there_is_forged_under_whatever_name() {
    let default = NODEPOOLS.replace("  integrity:\n    coOwnership: Enforce\n", "");
    let absent = json!({"f:spec": {"f:zones": {}}});
    let new = with(pool(), "/metadata/managedFields/-", entry("mallory", "Apply", "", absent));
    let verdict = Request::update(&pool(), &new).by("mallory").under("mallory").judge(&target(&[&default]));
    assert_eq!(tampering(&verdict), [Tampering::Forged]);
    assert!(verdict.denies());
}

#[test]
fn a_new_container_does_not_explain_a_hold_on_what_is_not_in_it() {
    let bare = json!({"apiVersion": "compute.fieldkeeper.dev/v1alpha1", "kind": "NodePool",
        "metadata": {"name": "general", "uid": "u-1"}, "spec": {"handOff": "Direct"}});
    let new = with(bare, ENTRIES, json!([entry("gitops", "Apply", "", target_nodes())]));
    let verdict = Request::create(&new).by("@platform-admins").under("gitops").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [".spec.targetNodes"]);
    assert_eq!(tampering(&verdict), [Tampering::Forged]);
}

#[test]
fn a_reserved_name_may_not_be_written_into_an_entry_either() {
    let label = json!({"f:metadata": {"f:labels": {"f:x": {}}}});
    for (operation, subresource) in [("Apply", ""), ("Update", "status")] {
        let forged = entry("autoscaler-x", operation, subresource, label.clone());
        let policy =
            NODEPOOLS.replace("{name: autoscaler, use: Reserve}", "{name: autoscaler-x, use: Reserve}");
        let new = with(pool(), "/metadata/managedFields/-", forged);
        let verdict =
            Request::update(&pool(), &new).by("mallory").under("mallory").judge(&target(&[&policy]));
        assert!(matches!(verdict.findings[0].reason, Reason::ReservedManager(_)), "{verdict:?}");
        // Those who may edit entries may name anybody in them.
        let policy = policy.replace(
            "coOwnership: Enforce",
            "coOwnership: Enforce\n    editors: [{kind: User, name: migrator}]",
        );
        let verdict = Request::update(&pool(), &new).by("migrator").under("m").judge(&target(&[&policy]));
        assert_eq!(verdict.findings, []);
    }
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

#[test]
fn who_may_create_anything_may_still_not_do_it_under_a_reserved_name() {
    let held = json!({"f:metadata": {"f:labels": {".": {}, "f:team": {}}}});
    let new = with(pool(), ENTRIES, json!([entry("autoscaler", "Update", "", held)]));
    let judge = |creation: &str| {
        let policy =
            NODEPOOLS.replace("  mode: Enforce\n", &format!("  mode: Enforce\n  creation: {creation}\n"));
        Request::create(&new).by("velero").judge(&target(&[&policy]))
    };
    let anyone = judge("{policy: Anyone}");
    assert!(matches!(anyone.findings[0].reason, Reason::ReservedManager(_)), "{anyone:?}");
    // A restore tool brings entries as they were.
    assert_eq!(judge("{policy: Owners, except: [{kind: User, name: velero}]}").findings, []);
}
