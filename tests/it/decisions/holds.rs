//! Holds that go without anybody's doing, and holds that their owner moves to the name under which it writes now.

use serde_json::{Value, json};

use super::{NODEPOOLS, Request, entry, pool, refused, target, with};

#[test]
fn a_hold_on_a_field_that_is_not_there_can_be_lost() {
    let held = |field: &str| {
        let entry = entry("tool", "Apply", "", json!({"f:spec": {field: {}}}));
        with(pool(), "/metadata/managedFields/-", entry)
    };
    let lost =
        |old: &Value| Request::update(old, &pool()).by("mallory").under("tool").judge(&target(&[NODEPOOLS]));
    assert_eq!(lost(&held("f:drained")).findings, []);
    assert_eq!(refused(&lost(&held("f:handOff"))), [""; 0], "gitops holds it still");
    assert_eq!(refused(&lost(&with(held("f:paused"), "/spec/paused", json!(true)))), [".spec.paused"]);
}

/// A scale write that changes nothing leaves the holder of the count with two entries, of which the server keeps
/// one in the next write of the object, whoever sends it.
#[test]
fn an_entry_that_the_server_wrote_twice_is_not_the_next_writers_fault() {
    let mut count = entry("tool", "Update", "", json!({"f:spec": {"f:targetNodes": {}}}));
    count.as_object_mut().unwrap().remove("time");
    let rest = |fields: Value| entry("tool", "Update", "", json!({"f:spec": fields}));
    let own = entry("mallory", "Update", "", json!({"f:metadata": {"f:labels": {"f:mine": {}}}}));
    let both = rest(json!({"f:minNodes": {}, "f:maxNodes": {}}));
    let old = with(pool(), "/metadata/managedFields", json!([count, both]));
    let judged = |left: Value| {
        let new = with(pool(), "/metadata/labels/mine", json!("x"));
        let new = with(new, "/metadata/managedFields", json!([left, own]));
        refused(&Request::update(&old, &new).by("mallory").under("mallory").judge(&target(&[NODEPOOLS])))
    };
    assert_eq!(judged(both.clone()), [""; 0]);
    // Nothing else may go that way, nor may the time of what is left be another.
    assert_eq!(judged(rest(json!({"f:maxNodes": {}}))), [".spec.minNodes"]);
    assert_eq!(judged(with(both.clone(), "/time", json!("2027-01-01T00:00:00Z"))), [".spec.maxNodes"]);
}

/// A new release of a program writes under a new name. Its policy says what it was called, and the owner, nobody
/// else, may move what is left of the old entry: fields included that others own by now.
#[test]
fn an_owner_moves_its_entries_from_a_former_name() {
    let policy = NODEPOOLS.replace(
        "    - {kind: Group, name: platform-admins}\n",
        "    - {kind: Group, name: platform-admins}\n    fieldManagers: [{name: gitops}]\n    \
         formerFieldManagers: [gitops-v1]\n",
    );
    let fields = |more: &[&str]| {
        let names = ["f:minNodes", "f:targetNodes"].iter().chain(more);
        json!({"f:spec": names.map(|name| ((*name).to_owned(), json!({}))).collect::<Value>()})
    };
    let autoscaler = || entry("autoscaler", "Apply", "", json!({"f:spec": {"f:maxNodes": {}}}));
    let pool_of = |name: &str, operation: &str, more: &[&str]| {
        let held = entry(name, operation, "", fields(more));
        with(pool(), "/metadata/managedFields", json!([held, autoscaler()]))
    };
    let moved = |who: &str, (operation, policy): (&str, &str), (to, more): (&str, &[&str])| {
        let (old, new) = (pool_of("gitops-v1", operation, &[]), pool_of(to, "Apply", more));
        let verdict = Request::update(&old, &new).by(who).under(to).judge(&target(&[policy]));
        (refused(&verdict), verdict.notes.len())
    };
    for operation in ["Apply", "Update"] {
        assert_eq!(
            moved("@platform-admins", (operation, &policy), ("gitops", &[])),
            (vec![], 1),
            "{operation}"
        );
        let unknown = policy.replace("gitops-v1", "gitops-v0");
        assert_eq!(
            moved("@platform-admins", (operation, &unknown), ("gitops", &[])).0,
            [".spec.targetNodes"; 2],
            "taken from one name and given to the other, which says nowhere that it was called so"
        );
        // Neither somebody else, nor under another name, nor with more than the old entry held.
        assert!(!moved("mallory", (operation, &policy), ("gitops", &[])).0.is_empty());
        assert!(!moved("@platform-admins", (operation, &policy), ("mallory", &[])).0.is_empty());
    }
    let poached = entry("gitops-v1", "Apply", "", json!({"f:spec": {"f:minNodes": {}}}));
    let old = with(pool(), "/metadata/managedFields/0", poached);
    let grown = entry("gitops", "Apply", "", fields(&[]));
    let new = with(old.clone(), "/metadata/managedFields/0", grown);
    let verdict = Request::update(&old, &new).by("@platform-admins").under("x").judge(&target(&[&policy]));
    assert_eq!(refused(&verdict), [".spec.targetNodes"], "the autoscaler's, which the old name did not hold");
}

/// Nobody may pass off an entry as what its owner left behind.
#[test]
fn an_upgrade_does_not_lead_into_a_former_name_of_another_owner() {
    let policy = NODEPOOLS.replace(
        "    fieldManagers:\n    - {name: autoscaler, use: Reserve}\n",
        "    formerFieldManagers: [scaler]\n",
    );
    assert!(policy.contains("scaler]"));
    let held = json!({"f:spec": {"f:targetNodes": {}}});
    let client_side = entry("kubectl-client-side-apply", "Update", "", held.clone());
    let old = with(pool(), "/metadata/managedFields", json!([client_side]));
    let into = |name: &str| {
        let new = with(pool(), "/metadata/managedFields", json!([entry(name, "Apply", "", held.clone())]));
        refused(&Request::update(&old, &new).by("mallory").under("kubectl").judge(&target(&[&policy])))
    };
    assert_eq!(into("kubectl"), [""; 0]);
    assert!(!into("scaler").is_empty());
}

/// An upgrade from client-side apply moves what the old entry held, and nothing beside it.
#[test]
fn an_upgrade_that_gains_more_than_the_old_entry_held_is_a_forgery() {
    let client_side = entry("kubectl-client-side-apply", "Update", "", json!({"f:spec": {"f:minNodes": {}}}));
    let old = with(pool(), "/metadata/managedFields/0", client_side);
    let into = |fields: Value| {
        let new = with(
            old.clone(),
            "/metadata/managedFields/0",
            entry("helm", "Apply", "", json!({"f:spec": fields})),
        );
        refused(&Request::update(&old, &new).by("mallory").under("kubectl").judge(&target(&[NODEPOOLS])))
    };
    assert_eq!(into(json!({"f:minNodes": {}})), [""; 0]);
    assert!(into(json!({"f:minNodes": {}, "f:targetNodes": {}})).contains(&".spec.targetNodes".to_owned()));
}

/// An apply of `/status` is recorded for the rest of what it sends, each time with a new time, though nothing of it
/// is stored.
#[test]
fn an_entry_that_holds_only_what_is_not_there_may_get_a_new_time() {
    let held = |field: &str, time: &str| {
        let entry =
            with(entry("tool", "Update", "status", json!({"f:spec": {field: {}}})), "/time", json!(time));
        with(pool(), "/metadata/managedFields/-", entry)
    };
    let retimed = |field: &str| {
        let (old, new) = (held(field, "2026-01-01T00:00:00Z"), held(field, "2026-01-01T00:00:01Z"));
        refused(&Request::update(&old, &new).on("status").by("mallory").judge(&target(&[NODEPOOLS])))
    };
    assert_eq!(retimed("f:drained"), [""; 0]);
    assert_eq!(retimed("f:minNodes"), [".spec.minNodes"]);
}

/// The server takes no entries from a write of `/status`, so the new time is its own. It records what was sent for
/// the rest of the object, though nothing of it is stored.
#[test]
fn an_entry_gets_a_new_time_with_a_stale_part_in_a_write_of_the_status() {
    let held = |fields: Value, time: &str| {
        let entry = with(entry("tool", "Update", "status", fields), "/time", json!(time));
        with(pool(), "/metadata/managedFields/-", entry)
    };
    let status = json!({"f:nodes": {}});
    let old = held(json!({"f:status": status}), "2026-01-01T00:00:00Z");
    let judged = |gained: Value| {
        let new = held(json!({"f:spec": gained, "f:status": status}), "2026-01-01T00:00:01Z");
        refused(
            &Request::update(&old, &new)
                .on("status")
                .by("mallory")
                .under("tool")
                .judge(&target(&[NODEPOOLS])),
        )
    };
    let free = json!({"f:drained": {}});
    assert!(!judged(free).contains(&".status.nodes".to_owned()));
    assert_eq!(judged(json!({"f:minNodes": {}})), [".spec.minNodes"]);
}

/// What was only defaulted and a list without items are in no entry of an apply that creates.
#[test]
fn an_object_of_which_nothing_was_set_is_created_without_entries() {
    let created = |spec: Value| {
        let object = json!({"apiVersion": "compute.fieldkeeper.dev/v1alpha1", "kind": "NodePool",
            "metadata": {"name": "general", "uid": "u-1"}, "spec": spec});
        Request::create(&object)
            .by("@platform-admins")
            .under("kubectl")
            .judge(&target(&[NODEPOOLS]))
            .findings
            .len()
    };
    assert_eq!(created(json!({"handOff": "Manual", "template": {"taints": []}})), 0);
    assert_eq!(created(json!({"handOff": "Direct", "template": {"taints": []}})), 1, "wiped");
    assert_eq!(created(json!({"template": {"taints": [], "labels": {}}})), 1, "an empty map is in the entry");
}

/// The server shows `labels: {}` in the review of a request that sends it, and stores nothing.
#[test]
fn empty_metadata_is_no_value() {
    let policy =
        NODEPOOLS.replace("    - path: .spec\n", "    - path: .spec\n    - path: .metadata.labels\n");
    let bare = with(pool(), "/metadata/labels", Value::Null);
    let judged = |old: &Value, new: &Value| {
        refused(&Request::update(old, new).by("mallory").under("mallory").judge(&target(&[&policy])))
    };
    assert_eq!(judged(&bare, &with(bare.clone(), "/metadata/labels", json!({}))), [""; 0]);
    assert_eq!(judged(&with(bare.clone(), "/metadata/labels", json!({})), &bare), [""; 0]);
    assert_eq!(
        judged(&bare, &with(bare.clone(), "/metadata/labels", json!({"a": "b"}))),
        [".metadata.labels.a"]
    );
    assert_eq!(judged(&pool(), &with(pool(), "/metadata/labels", json!({}))), [".metadata.labels.team"]);
}
