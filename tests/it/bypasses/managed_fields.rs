//! `managedFields` as the target: who seems to own what, without a change of value.

use serde_json::{Value, json};

use super::{CO_OWNED, OWNED, TAMPERED, WHOLE, annotation, unguarded};
use crate::arena::{Call, Pond, alice, arena, controller, mutator, pond};
use crate::decisions::with;
use crate::harness::Identity;

/// Who may edit `managedFields` here: what it does stands for what happened before fieldkeeper came.
fn migrator() -> Identity {
    Identity::person("migrator", &[])
}

fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "arena.example.com/v1",
        "fieldsType": "FieldsV1", "fieldsV1": fields, "time": "2026-01-01T00:00:00Z"})
}

fn of<'e>(entries: &'e mut [Value], manager: &str) -> &'e mut Value {
    entries.iter_mut().find(|entry| entry["manager"] == manager).unwrap()
}

/// The fields of ctrl-a in a full pond.
const OF_CTRL_A: [&str; 5] = [
    ".spec.size",
    r#".spec.taints[effect="NoSchedule",key="a"].effect"#,
    r#".spec.taints[effect="NoSchedule",key="a"].key"#,
    r#".spec.taints[effect="NoSchedule",key="a"].value"#,
    r#".spec.zones[="a"]"#,
];

/// What ctrl-a always applies.
fn by_ctrl_a() -> Value {
    json!({"spec": {"size": "L", "zones": ["a"], "taints": [{"key": "a", "effect": "NoSchedule", "value": "x"}]}})
}

#[tokio::test]
async fn b20_only_editors_may_wipe_managed_fields() {
    let wipe = json!({"metadata": {"managedFields": [{}]}});
    let pond = Pond::new("b20").await;
    let before = pond.read().await;
    pond.patch(&alice(), &wipe).await.refused_for(&[(WHOLE, TAMPERED)]);
    pond.patch(&controller("ctrl-a"), &wipe).await.refused_for(&[(WHOLE, TAMPERED)]);
    assert_eq!(pond.read().await, before);
    pond.patch(&migrator(), &wipe).await.allowed();
    // What it would have done: the next apply files everything under a manager that is nobody.
    pond.apply(&controller("ctrl-a"), "ctrl-a", &by_ctrl_a()).await.allowed();
    assert_eq!(pond.holders("f:spec/f:limits/f:cpu").await, ["before-first-apply"]);

    let pond = Pond::of(unguarded().await, "b20").await;
    pond.patch(&alice(), &wipe).await.allowed();
    assert!(annotation(&pond, "alice", "would-deny").await.contains("managedFields would be wiped"));
}

#[tokio::test]
async fn b21_dropping_the_owners_entry_is_refused_and_so_is_what_it_would_make_possible() {
    let pond = Pond::new("b21").await;
    let before = pond.read().await;
    let mut entries = pond.entries().await;
    entries.retain(|entry| entry["manager"] != "ctrl-a");
    let dropped = pond.with_entries(&entries).await;
    // To write under the owner's own name does not make its entry hers.
    let put = Call::put(&pond.at(""), &dropped);
    for call in [put.clone(), put.clone().manager("ctrl-a"), put.user_agent("ctrl-a/1.0")] {
        let reply = pond.send(&call, &alice()).await;
        reply.refused_for(&OF_CTRL_A.map(|field| (field, TAMPERED)));
        assert!(reply.message().contains("its holder would lose it"), "{}", reply.message());
    }
    assert_eq!(pond.read().await, before);

    pond.put(&migrator(), &dropped).await.allowed();
    // No conflict any more, and still refused: by value.
    pond.apply(&alice(), "alice", &json!({"spec": {"size": "XL"}}))
        .await
        .refused_for(&[(".spec.size", OWNED)]);
}

#[tokio::test]
async fn b22_nobody_may_put_a_field_into_the_entry_of_another_who_would_then_remove_it() {
    let pond = Pond::new("b22").await;
    let before = pond.read().await;
    let limits = json!({"f:cpu": {}, "f:memory": {}});
    let mut entries = pond.entries().await;
    of(&mut entries, "ctrl-a")["fieldsV1"]["f:spec"]["f:limits"] = limits;
    let forged = pond.with_entries(&entries).await;
    let reply = pond.put(&alice(), &forged).await;
    reply.refused_for(&[(".spec.limits.cpu", TAMPERED), (".spec.limits.memory", TAMPERED)]);
    assert!(reply.message().contains("an entry would gain it without a write of it"), "{}", reply.message());
    assert_eq!(pond.read().await, before);

    of(&mut entries, "ctrl-b")["fieldsV1"]["f:spec"].as_object_mut().unwrap().remove("f:limits");
    let forged = pond.with_entries(&entries).await;
    pond.put(&migrator(), &forged).await.allowed();
    let before = pond.read().await;
    // What ctrl-a always does would now remove the limits in its name.
    pond.apply(&controller("ctrl-a"), "ctrl-a", &by_ctrl_a())
        .await
        .refused_for(&[(".spec.limits.cpu", OWNED), (".spec.limits.memory", OWNED)]);
    assert_eq!(pond.read().await, before);
}

#[tokio::test]
async fn b23_a_creation_may_not_bring_an_entry_of_an_owner() {
    let arena = arena().await;
    let forged = entry("ctrl-a", "Apply", &json!({"f:spec": {"f:limits": {"f:cpu": {}}, "f:size": {}}}));
    let body = with(pond("b23", &json!({"mode": "calm"})), "/metadata/managedFields", json!([forged]));
    let call = Call::create("ponds", &body);
    // The name of the request makes no difference.
    for call in [call.clone(), call.clone().manager("ctrl-a")] {
        let reply = arena.send(&call, &alice()).await;
        reply.refused_for(&[(".spec.limits.cpu", TAMPERED), (".spec.size", TAMPERED)]);
    }
    // A restore tool brings entries as they were.
    arena.send(&call, &Identity::person("restore", &[])).await.allowed();
    let stored = arena.send(&Call::get("ponds/b23"), &alice()).await.allowed();
    assert_eq!(stored["metadata"]["managedFields"][0]["manager"], "ctrl-a");
}

#[tokio::test]
async fn b24_an_object_may_not_be_created_untracked() {
    let arena = arena().await;
    let creation = |entries: Value| {
        let body = with(pond("b24", &json!({"mode": "calm"})), "/metadata/managedFields", entries);
        Call::create("ponds", &body).dry_run()
    };
    let mut poison = entry("mallory", "Update", &json!({}));
    poison["apiVersion"] = json!("arena.example.com/v999");
    let call = creation(json!([poison]));
    let reply = arena.send(&call, &alice()).await;
    reply.refused_for(&[(WHOLE, TAMPERED)]);
    assert!(reply.message().contains("managedFields would be wiped"), "{}", reply.message());
    let restored = arena.send(&call, &Identity::person("restore", &[])).await.allowed();
    assert_eq!(restored["metadata"].get("managedFields"), None);
    // An empty entry, which wipes an existing list, does nothing here.
    let created = arena.send(&creation(json!([{}])), &alice()).await.allowed();
    assert_eq!(created["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:mode"], json!({}));
    // What has nothing to be tracked has no entries by right.
    arena.send(&Call::create("ponds", &pond("b24", &json!({}))).dry_run(), &alice()).await.allowed();
}

#[tokio::test]
async fn b25_a_made_up_scaler_may_not_hold_the_count() {
    let pond = Pond::new("b25").await;
    let before = pond.read().await;
    let mut entries = pond.entries().await;
    let mut forged = entry("kube-controller-manager", "Update", &json!({"f:spec": {"f:replicas": {}}}));
    forged["subresource"] = json!("scale");
    entries.push(forged);
    let body = pond.with_entries(&entries).await;
    pond.put(&alice(), &body).await.refused_for(&[(".spec.replicas", TAMPERED)]);
    let call = Call::put(&pond.at(""), &body).manager("kube-controller-manager");
    pond.send(&call, &alice()).await.refused_for(&[(".spec.replicas", TAMPERED)]);
    assert_eq!(pond.read().await, before);
}

#[tokio::test]
async fn b26_applying_an_equal_value_to_own_it_too_is_refused_where_the_policy_says_so() {
    let equal = json!({"spec": {"size": "L"}});
    let pond = Pond::new("b26").await;
    let before = pond.read().await;
    pond.apply(&alice(), "alice", &equal).await.refused_for(&[(".spec.size", CO_OWNED)]);
    assert_eq!(pond.read().await, before);

    let pond = Pond::of(unguarded().await, "b26").await;
    pond.apply(&alice(), "alice", &equal).await.allowed();
    assert_eq!(annotation(&pond, "alice", "would-deny").await, "unguardedponds: .spec.size");
    let mut holders = pond.holders("f:spec/f:size").await;
    holders.sort();
    assert_eq!(holders, ["alice", "ctrl-a"]);
    // Why one may want to refuse it: the owner's own change is now a conflict.
    let mut changed = by_ctrl_a();
    changed["spec"]["size"] = json!("XL");
    assert_eq!(pond.apply(&controller("ctrl-a"), "ctrl-a", &changed).await.code, 409);
}

#[tokio::test]
async fn b27_a_value_that_a_mutating_webhook_puts_back_does_not_take_the_field_away() {
    let pond = Pond::new("b27").await;
    mutator(&pond, &alice(), &json!([{"op": "add", "path": "/spec/size", "value": "L"}])).await;
    let before = pond.read().await;
    let call = Call::merge_patch(&pond.at(""), &json!({"spec": {"size": "XL"}}));
    // Taken from ctrl-a, and given to an entry that no value of this write explains.
    pond.send(&call, &alice()).await.refused_for(&[(".spec.size", TAMPERED), (".spec.size", TAMPERED)]);
    let named = call.manager("alice");
    pond.send(&named, &alice()).await.refused_for(&[(".spec.size", CO_OWNED), (".spec.size", TAMPERED)]);
    assert_eq!(pond.read().await, before);
    // What the mutator does to other writes of hers is none of her doing.
    pond.patch(&alice(), &json!({"spec": {"mode": "wild"}})).await.allowed();
}

/// Labels set under made-up names until the server has no room for the entries of others.
async fn crowd_out(pond: &Pond) {
    for number in 0..13 {
        let label = json!({"metadata": {"labels": {format!("l{number}"): "x"}}});
        let call = Call::merge_patch(&pond.at(""), &label).manager(&format!("m{number:02}"));
        pond.send(&call, &alice()).await.allowed();
    }
}

#[tokio::test]
async fn b28_crowding_out_an_entry_costs_the_record_and_not_the_right() {
    let pond = Pond::new("b28").await;
    let note = |text: &str| Call::merge_patch(&pond.at(""), &json!({"spec": {"note": text}}));
    pond.send(&note("a").manager("ctrl-a"), &controller("ctrl-a")).await.allowed();
    crowd_out(&pond).await;
    assert_eq!(pond.holders("f:spec/f:note").await, ["ancient-changes"]);
    assert_eq!(pond.holders("f:spec/f:size").await, ["ctrl-a"], "what was applied is never crowded out");
    pond.send(&note("b").manager("ancient-changes"), &alice()).await.refused_for(&[(".spec.note", OWNED)]);
    pond.send(&note("b").manager("ctrl-a"), &controller("ctrl-a")).await.allowed();
}

#[tokio::test]
async fn b29_the_time_of_anothers_entry_may_not_be_changed_to_crowd_it_out() {
    let pond = Pond::new("b29").await;
    let note = Call::merge_patch(&pond.at(""), &json!({"spec": {"note": "a"}})).manager("noter");
    pond.send(&note, &controller("ctrl-a")).await.allowed();
    let before = pond.read().await;
    let mut entries = pond.entries().await;
    of(&mut entries, "noter")["time"] = json!("2001-01-01T00:00:00Z");
    // By itself, with another change, and under the name of the entry itself.
    let only = pond.with_entries(&entries).await;
    let more = with(only.clone(), "/spec/mode", json!("wild"));
    for body in [&only, &more] {
        pond.put(&alice(), body).await.refused_for(&[(".spec.note", TAMPERED)]);
    }
    let call = Call::put(&pond.at(""), &only).manager("noter");
    pond.send(&call, &alice()).await.refused_for(&[(".spec.note", TAMPERED)]);
    // Nor is it hidden by a path that concerns nobody.
    of(&mut entries, "noter")["fieldsV1"]["f:spec"]["f:shape"] = json!({});
    let body = with(pond.with_entries(&entries).await, "/spec/mode", json!("wild"));
    pond.put(&alice(), &body).await.refused_for(&[(".spec.note", TAMPERED)]);
    assert_eq!(pond.read().await, before);
}

#[tokio::test]
async fn b30_managed_fields_in_a_write_of_the_status_are_ignored_and_harmless() {
    let pond = Pond::new("b30").await;
    let before = pond.read().await;
    let mut entries = pond.entries().await;
    of(&mut entries, "ctrl-a")["manager"] = json!("alice");
    for entries in [json!([{}]), json!(entries)] {
        let body = with(pond.read().await, "/metadata/managedFields", entries);
        let call = Call::put(&pond.at("/status"), &body);
        pond.send(&call, &alice()).await.allowed();
        assert_eq!(pond.read().await, before);
        let call = Call::put(&pond.at("/status"), &with(body, "/status/phase", json!("Dry")));
        pond.send(&call.dry_run(), &controller("ctrl-status")).await.allowed();
    }
}

#[tokio::test]
async fn b31_a_write_of_the_status_may_not_take_a_top_level_field_from_its_owner() {
    let pond = Pond::new("b31").await;
    let before = pond.read().await;
    let body = pond.edited("/data/k", json!("w")).await;
    let call = Call::put(&pond.at("/status"), &body);
    // Taken from ctrl-b, and given to the writer.
    pond.send(&call, &alice()).await.refused_for(&[(".data.k", TAMPERED), (".data.k", TAMPERED)]);
    let taken = [(".data.k", CO_OWNED), (".data.k", TAMPERED)];
    let call =
        Call::put(&pond.at("/status"), &with(body, "/status/phase", json!("Dry"))).manager("ctrl-status");
    pond.send(&call, &controller("ctrl-status")).await.refused_for(&taken);
    assert_eq!(pond.read().await, before);
}

#[tokio::test]
async fn b32_a_stale_status_in_another_version_strips_its_entries_and_is_noted() {
    let pond = Pond::new("b32").await;
    assert_eq!(pond.holders("f:status/f:phase").await, ["ctrl-status"]);
    let body = with(pond.edited("/status/phase", json!("Dry")).await, "/spec/mode", json!("wild"));
    let body = with(body, "/apiVersion", json!("arena.example.com/v2"));
    pond.send(&Call::put(&pond.at(""), &body).version("v2"), &alice()).await.allowed();
    let stored = pond.read().await;
    assert_eq!((&stored["status"]["phase"], &stored["spec"]["mode"]), (&json!("Wet"), &json!("wild")));
    assert_eq!(pond.holders("f:status/f:phase").await, [""; 0]);
    let noted = annotation(&pond, "alice", "tolerated").await;
    assert!(noted.contains("ctrl-status lost .status.phase: a stale status"), "{noted}");
}

#[tokio::test]
async fn b33_an_unreadable_entry_that_a_mutating_webhook_adds_is_refused() {
    let pond = Pond::new("b33").await;
    let mut poison = entry("mallory", "Update", &json!({"f:spec": {"f:mode": {}}}));
    poison["apiVersion"] = json!("arena.example.com/v999");
    let patch = json!([{"op": "add", "path": "/metadata/managedFields/-", "value": poison}]);
    mutator(&pond, &alice(), &patch).await;
    let before = pond.read().await;
    let reply = pond.patch(&alice(), &json!({"spec": {"mode": "wild"}})).await;
    reply.refused_for(&[(WHOLE, TAMPERED)]);
    assert!(reply.message().contains("a version that this kind does not have"), "{}", reply.message());
    assert_eq!(pond.read().await, before);
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const LAST_APPLIED_PATH: &str =
    r#".metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]"#;

/// The annotation by which an apply under the name `kubectl` meets no conflict on the size.
fn last_applied(pond: &Pond, size: &str) -> Value {
    let applied = pond.body(&json!({"spec": {"size": size}})).to_string();
    json!({"metadata": {"annotations": {LAST_APPLIED: applied}}})
}

#[tokio::test]
async fn b34_a_forged_last_applied_annotation_forces_nothing() {
    let pond = Pond::new("b34").await;
    pond.patch(&alice(), &last_applied(&pond, "L")).await.refused_for(&[(LAST_APPLIED_PATH, OWNED)]);
    // Were it there, kubectl's name would be enough for the server.
    pond.patch(&controller("ctrl-a"), &last_applied(&pond, "L")).await.allowed();
    let before = pond.read().await;
    pond.apply(&alice(), "kubectl", &json!({"spec": {"size": "XXL"}}))
        .await
        .refused_for(&[(".spec.size", OWNED)]);
    assert_eq!(pond.read().await, before);
    let other = pond.apply(&alice(), "alice", &json!({"spec": {"size": "XXL"}})).await;
    assert_eq!(other.code, 409, "any other name meets the conflict: {}", other.body);
}

#[tokio::test]
async fn b35_the_last_applied_trick_with_an_equal_value_is_co_ownership() {
    let pond = Pond::new("b35").await;
    pond.patch(&controller("ctrl-a"), &last_applied(&pond, "L")).await.allowed();
    let before = pond.read().await;
    let reply = pond.apply(&alice(), "kubectl", &json!({"spec": {"size": "L"}})).await;
    reply.refused_for(&[(".spec.size", CO_OWNED)]);
    assert_eq!(pond.read().await, before);
}
