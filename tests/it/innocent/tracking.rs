//! What the API server does to `managedFields` every day.

use serde_json::{Value, json};

use crate::arena::{Call, Pond, alice, arena, controller};
use crate::harness::Identity;

fn ctrl_a() -> Identity {
    controller("ctrl-a")
}

/// A tool that the policy lets edit `managedFields`.
fn migrator() -> Identity {
    Identity::person("migrator", &[])
}

/// What ctrl-a applies in [`Pond::new`].
fn set_of_a() -> Value {
    json!({"spec": {"size": "L", "zones": ["a"], "taints": [{"key": "a", "effect": "NoSchedule", "value": "x"}]}})
}

/// The entries of the object by manager, operation and version, in the order in which they stand.
async fn entries(pond: &Pond) -> Vec<String> {
    let object = pond.read().await;
    let of = |entry: &Value| {
        let part = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", part("manager"), part("operation"), part("apiVersion"))
    };
    object["metadata"]["managedFields"]
        .as_array()
        .map(|list| list.iter().map(of).collect())
        .unwrap_or_default()
}

#[tokio::test]
async fn f02_an_owner_applies_the_same_set_again() {
    let pond = Pond::new("f02").await;
    let before = entries(&pond).await;
    pond.apply(&ctrl_a(), "ctrl-a", &set_of_a()).await.allowed();
    assert_eq!(entries(&pond).await, before);
    // By anybody else the same set is held beside its owner.
    let joined = pond.apply(&alice(), "alice", &set_of_a()).await;
    joined.refused(&[
        ".spec.size",
        ".spec.taints[effect=\"NoSchedule\",key=\"a\"]",
        ".spec.taints[effect=\"NoSchedule\",key=\"a\"].value",
        ".spec.zones[=\"a\"]",
    ]);
}

#[tokio::test]
async fn f03_a_write_without_managed_fields_gets_them_back_from_the_stored_object() {
    let pond = Pond::new("f03").await;
    let before = pond.holders("f:spec/f:size").await;
    let mut body = pond.edited("/spec/mode", json!("wild")).await;
    body["metadata"].as_object_mut().unwrap().remove("managedFields");
    pond.put(&alice(), &body).await.allowed();
    assert_eq!(pond.holders("f:spec/f:size").await, before);
    let mut body = pond.edited("/spec/size", json!("XL")).await;
    body["metadata"].as_object_mut().unwrap().remove("managedFields");
    pond.put(&alice(), &body).await.refused(&[".spec.size"]);
}

#[tokio::test]
async fn f05_everybody_may_hold_the_containers_of_what_others_own() {
    let pond = Pond::bare("f05").await;
    // The containers come with alice's parts, and the owners' parts come into them.
    let mine = json!({"spec": {"labels": {"mine": "1"}, "free": {"mine": 1}, "zones": ["z"]}});
    pond.patch(&alice(), &mine).await.allowed();
    let theirs = json!({"spec": {"labels": {"a.b/c": "1"}, "free": {"deep": 1}, "zones": ["a"]}});
    pond.apply(&ctrl_a(), "ctrl-a", &theirs).await.allowed();
    pond.apply(&controller("ctrl-b"), "ctrl-b", &json!({"spec": {"limits": {"cpu": 4}}})).await.allowed();
    assert_eq!(pond.holders("f:spec/f:labels/.").await, ["curl"]);
    // An applied container is held as such, also where all that is in it belongs to somebody.
    pond.apply(&alice(), "alice", &json!({"spec": {"limits": {}, "labels": {}}})).await.allowed();
    assert!(pond.holders("f:spec/f:limits").await.contains(&"alice".to_owned()));
    pond.apply(&alice(), "alice", &json!({"spec": {}})).await.allowed();
    let away = json!({"spec": {"labels": {"mine": null}, "free": {"mine": null}, "zones": ["a"]}});
    pond.patch(&alice(), &away).await.allowed();
    pond.patch(&alice(), &json!({"spec": {"labels": null}})).await.refused(&[".spec.labels[\"a.b/c\"]"]);
}

#[tokio::test]
async fn f06_an_owner_that_applies_in_another_version_takes_its_entry_along() {
    let pond = Pond::new("f06").await;
    let of_others = |entries: Vec<String>| -> Vec<String> {
        entries.into_iter().filter(|entry| !entry.starts_with("ctrl-a ")).collect()
    };
    let before = of_others(entries(&pond).await);
    let body = |version: &str, fields: &Value| {
        let mut body = pond.body(fields);
        body["apiVersion"] = json!(format!("arena.example.com/{version}"));
        body
    };
    let in_v2 =
        |manager: &str, fields: &Value| Call::apply(&pond.at(""), manager, &body("v2", fields)).version("v2");
    pond.send(&in_v2("ctrl-a", &set_of_a()), &ctrl_a()).await.allowed();
    let after = entries(&pond).await;
    assert!(after.contains(&"ctrl-a Apply arena.example.com/v2".to_owned()), "{after:?}");
    assert!(!after.contains(&"ctrl-a Apply arena.example.com/v1".to_owned()), "{after:?}");
    assert_eq!(of_others(after), before);
    // And back, in a version that is another one than the entry's.
    pond.apply(&ctrl_a(), "ctrl-a", &set_of_a()).await.allowed();
    let larger = json!({"spec": {"size": "XL"}});
    pond.send(&in_v2("alice", &larger).force(), &alice()).await.refused(&[".spec.size"]);
}

#[tokio::test]
async fn f07_one_updater_has_an_entry_for_each_version_that_it_writes() {
    let pond = Pond::new("f07").await;
    let patch = |fields: Value| Call::merge_patch(&pond.at(""), &fields);
    let one = patch(json!({"spec": {"size": "M"}})).manager("ctrl-a");
    pond.send(&one, &ctrl_a()).await.allowed();
    let two = patch(json!({"spec": {"note": "n"}})).manager("ctrl-a").version("v2");
    pond.send(&two, &ctrl_a()).await.allowed();
    let after = entries(&pond).await;
    for version in ["v1", "v2"] {
        assert!(after.contains(&format!("ctrl-a Update arena.example.com/{version}")), "{after:?}");
    }
    // The same field again in the other version moves it from one of the two to the other.
    let again = patch(json!({"spec": {"size": "S"}})).manager("ctrl-a").version("v2");
    pond.send(&again, &ctrl_a()).await.allowed();
    let wild = patch(json!({"spec": {"mode": "wild"}}));
    pond.send(&wild.clone().manager("alice"), &alice()).await.allowed();
    let calm = patch(json!({"spec": {"mode": "calm"}}));
    pond.send(&calm.manager("alice").version("v2"), &alice()).await.allowed();
    let theirs = patch(json!({"spec": {"size": "XL"}})).manager("ctrl-a").version("v2");
    pond.send(&theirs, &alice()).await.refused(&[".spec.size"]);
}

#[tokio::test]
async fn f08_a_stale_status_in_another_version_costs_its_owner_the_entry_and_nobody_the_request() {
    let pond = Pond::new("f08").await;
    assert_eq!(pond.holders("f:status/f:phase").await, ["ctrl-status"]);
    let mut body = pond.edited("/status/phase", json!("Dry")).await;
    body["apiVersion"] = json!("arena.example.com/v2");
    let call = Call::put(&pond.at(""), &body).version("v2").manager("alice-f08");
    pond.send(&call, &alice()).await.allowed();
    assert_eq!(pond.read().await["status"]["phase"], "Wet", "the status of a main write is ignored");
    assert_eq!(pond.holders("f:status/f:phase").await, [""; 0], "and yet its holder has lost it");
    let tolerated = arena()
        .await
        .plane
        .audit_event("of what was tolerated", |event| {
            event.request_uri.contains("fieldManager=alice-f08")
                && event.annotations.get("enforce.fieldkeeper.dev/tolerated").is_some_and(|note| {
                    note.contains(".status.phase: a stale status in a write of the main resource")
                })
        })
        .await;
    tolerated.unwrap();
    // A stale object in a write of /status, which older servers take out of the entries as well.
    let mut body = pond.edited("/spec/size", json!("S")).await;
    body["apiVersion"] = json!("arena.example.com/v2");
    body["status"]["phase"] = json!("Damp");
    let call = Call::put(&pond.at("/status"), &body).version("v2").manager("ctrl-status");
    pond.send(&call, &controller("ctrl-status")).await.allowed();
    assert_eq!(pond.read().await["spec"]["size"], "L");
    // The same loss in a write that is not of the other endpoint is no accident.
    let pond = Pond::new("f08-stripped").await;
    let mut body = pond.read().await;
    let list = body["metadata"]["managedFields"].as_array_mut().unwrap();
    list.retain(|entry| entry["manager"] != "ctrl-b");
    let taint = ".spec.taints[effect=\"NoSchedule\",key=\"b\"]";
    let stripped = [
        ".data.k",
        ".spec.limits.cpu",
        ".spec.limits.memory",
        &format!("{taint}.effect"),
        &format!("{taint}.key"),
        &format!("{taint}.value"),
    ];
    pond.put(&alice(), &body).await.refused(&stripped);
}

#[tokio::test]
async fn f11_the_first_apply_on_an_untracked_object_files_everything_under_before_first_apply() {
    for (name, fields) in [("f11", json!({"spec": {"mode": "wild"}})), ("f11-empty", json!({}))] {
        let pond = Pond::new(name).await;
        let wiped = json!({"metadata": {"managedFields": [{}]}});
        pond.patch(&migrator(), &wiped).await.allowed();
        assert_eq!(entries(&pond).await, [""; 0]);
        // A field of somebody else in it is still held beside its owner.
        let size = json!({"spec": {"size": "L"}});
        pond.force(&alice(), "alice", &size).await.refused(&[".spec.size"]);
        pond.force(&alice(), "alice", &fields).await.allowed();
        assert_eq!(pond.holders("f:spec/f:size").await, ["before-first-apply"]);
        // Filed under a name that anybody may take, it is the owner's all the same.
        pond.force(&alice(), "before-first-apply", &json!({"spec": {"size": "XL"}}))
            .await
            .refused(&[".spec.size"]);
        pond.force(&ctrl_a(), "ctrl-a", &json!({"spec": {"size": "XL"}})).await.allowed();
    }
}

#[tokio::test]
async fn f12_the_oldest_of_many_updaters_are_merged_into_ancient_changes() {
    let pond = Pond::new("f12").await;
    let size = Call::merge_patch(&pond.at(""), &json!({"spec": {"size": "M"}})).manager("ctrl-a-updates");
    pond.send(&size, &ctrl_a()).await.allowed();
    // What the server does when there are too many, somebody else must not do before.
    let mut body = pond.read().await;
    for entry in body["metadata"]["managedFields"].as_array_mut().unwrap() {
        if entry["manager"] == "ctrl-a-updates" {
            entry["manager"] = json!("ancient-changes");
        }
    }
    let forged = Call::put(&pond.at(""), &body);
    pond.send(&forged, &alice()).await.refused(&[".spec.size"]);
    pond.send(&forged.manager("alice"), &alice()).await.refused(&[".spec.size"]);
    for number in 0..12 {
        let label = json!({"spec": {"labels": {format!("l{number}"): "x"}}});
        let call = Call::merge_patch(&pond.at(""), &label).manager(&format!("updater-{number}"));
        pond.send(&call, &alice()).await.allowed();
    }
    assert_eq!(pond.holders("f:spec/f:size").await, ["ancient-changes"]);
    pond.patch(&alice(), &json!({"spec": {"size": "XL"}})).await.refused(&[".spec.size"]);
    pond.patch(&ctrl_a(), &json!({"spec": {"size": "XL"}})).await.allowed();
}

#[tokio::test]
async fn f13_a_new_entry_has_no_time_where_nothing_changed() {
    let pond = Pond::new("f13").await;
    let without_time = async |manager: &str| {
        let object = pond.read().await;
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        entries.iter().any(|entry| entry["manager"] == manager && entry["time"].is_null())
    };
    pond.apply(&ctrl_a(), "ctrl-a-2", &json!({"spec": {"size": "L"}})).await.allowed();
    assert!(without_time("ctrl-a-2").await);
    // It is no licence: the same entry by somebody else, and then the value.
    pond.force(&alice(), "ctrl-a-2", &json!({"spec": {"size": "XL"}})).await.refused(&[".spec.size"]);
    // Nor is a time moved along with something else; alone the server puts it back.
    let mut body = pond.edited("/spec/mode", json!("wild")).await;
    for entry in body["metadata"]["managedFields"].as_array_mut().unwrap() {
        if entry["manager"] == "ctrl-a" {
            entry["time"] = json!("2020-01-01T00:00:00Z");
        }
    }
    assert!(pond.put(&alice(), &body).await.is_refused());
}

#[tokio::test]
async fn f24_an_owner_lets_go_of_a_field_that_somebody_else_holds_too() {
    let pond = Pond::new("f24").await;
    pond.apply(&migrator(), "tool", &json!({"spec": {"size": "L"}})).await.allowed();
    let without = json!({"spec": {"zones": ["a"], "taints": set_of_a()["spec"]["taints"]}});
    pond.apply(&ctrl_a(), "ctrl-a", &without).await.allowed();
    assert_eq!(pond.read().await["spec"]["size"], "L", "the value stays");
    assert_eq!(pond.holders("f:spec/f:size").await, ["tool"]);
    // Whoever is not the owner may not let go of the last hold: that takes the value away.
    pond.apply(&alice(), "tool", &json!({})).await.refused(&[".spec.size"]);
}

#[tokio::test]
async fn f25_a_stranger_gives_up_its_hold_on_a_field_that_its_owner_holds() {
    let pond = Pond::new("f25").await;
    pond.apply(&migrator(), "alice", &json!({"spec": {"size": "L"}})).await.allowed();
    assert_eq!(pond.holders("f:spec/f:size").await, ["alice", "ctrl-a"]);
    pond.apply(&alice(), "alice", &json!({})).await.allowed();
    assert_eq!(pond.holders("f:spec/f:size").await, ["ctrl-a"]);
    assert_eq!(pond.read().await["spec"]["size"], "L");
    // The owner's own entry is not the stranger's to give up.
    let reply = pond.apply(&alice(), "ctrl-a", &json!({})).await;
    assert!(reply.is_refused() && reply.fields().contains(&".spec.size".to_owned()), "{reply:?}");
}

#[tokio::test]
async fn f30_one_controller_has_an_update_and_an_apply_entry_under_one_name() {
    let pond = Pond::new("f30").await;
    let put = Call::put(&pond.at(""), &pond.edited("/spec/size", json!("XL")).await).manager("ctrl-a");
    pond.send(&put, &ctrl_a()).await.allowed();
    pond.force(&ctrl_a(), "ctrl-a", &json!({"spec": {"size": "L"}})).await.allowed();
    pond.apply(&ctrl_a(), "ctrl-a", &json!({"spec": {"size": "M"}})).await.allowed();
    let put = Call::put(&pond.at(""), &pond.edited("/spec/size", json!("S")).await).manager("ctrl-a");
    pond.send(&put, &ctrl_a()).await.allowed();
    pond.apply(&ctrl_a(), "ctrl-a", &json!({"spec": {"size": "S"}})).await.allowed();
    let both = entries(&pond).await;
    for operation in ["Apply", "Update"] {
        assert!(both.contains(&format!("ctrl-a {operation} arena.example.com/v1")), "{both:?}");
    }
    for call in [
        Call::apply(&pond.at(""), "ctrl-a", &pond.body(&json!({"spec": {"size": "XL"}}))).force(),
        Call::put(&pond.at(""), &pond.edited("/spec/size", json!("XL")).await).manager("ctrl-a"),
    ] {
        pond.send(&call, &alice()).await.refused(&[".spec.size"]);
    }
}
