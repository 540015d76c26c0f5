//! Changes of values that leave little or no trace in `managedFields`.

use serde_json::{Value, json};

use super::{OWNED, TAINT_A, TAMPERED, WHOLE, place, unguarded, untracked_writes_freeze};
use crate::arena::{Call, PATIENCE, Pond, alice, arena, controller, policy};
use crate::decisions::with;
use crate::harness::{Identity, eventually};

#[tokio::test]
async fn b10_removing_a_field_leaves_no_trace_in_managed_fields_and_is_refused() {
    let pond = Pond::new("b10").await;
    let before = pond.read().await;
    let body = pond.edited("/spec/size", json!(null)).await;
    pond.put(&alice(), &body).await.refused_for(&[(".spec.size", OWNED)]);
    assert_eq!(pond.read().await, before);

    // The owner's own removal shows that nothing but the value tells who did it.
    let pond = Pond::of(unguarded().await, "b10").await;
    let body = pond.edited("/spec/size", json!(null)).await;
    let call = Call::put(&pond.at(""), &body).manager("remover");
    pond.send(&call, &controller("ctrl-a")).await.allowed();
    assert_eq!(pond.holders("f:spec/f:size").await, [""; 0]);
    assert!(pond.entries().await.iter().all(|entry| entry["manager"] != "remover"));
}

#[tokio::test]
async fn b11_wiping_managed_fields_with_the_change_hides_nothing() {
    let pond = Pond::new("b11").await;
    let before = pond.read().await;
    let body = with(pond.with_entries(&[json!({})]).await, "/spec/size", json!("XL"));
    pond.put(&alice(), &body).await.refused_for(&[(".spec.size", OWNED), (WHOLE, TAMPERED)]);
    assert_eq!(pond.read().await, before);
    // Where managedFields are only audited the value is still guarded.
    let pond = Pond::of(unguarded().await, "b11").await;
    let body = with(pond.with_entries(&[json!({})]).await, "/spec/size", json!("XL"));
    pond.put(&alice(), &body).await.refused_for(&[(".spec.size", OWNED)]);
}

#[tokio::test]
async fn b12_an_untracked_object_is_guarded_by_value() {
    let pond = Pond::new("b12").await;
    let wipe = json!({"metadata": {"managedFields": [{}]}});
    pond.patch(&Identity::person("migrator", &[]), &wipe).await.allowed();
    assert_eq!(pond.entries().await, [json!(null); 0]);
    let before = pond.read().await;
    let reply = pond.patch(&alice(), &json!({"spec": {"size": "XL"}})).await;
    reply.refused_for(&[(".spec.size", OWNED)]);
    assert!(reply.message().contains("no entry of managedFields records it"), "{}", reply.message());
    assert_eq!(pond.read().await, before);
    // Untracked it stays, whoever writes.
    pond.patch(&alice(), &json!({"spec": {"mode": "wild"}})).await.allowed();
    pond.patch(&controller("ctrl-a"), &json!({"spec": {"size": "XL"}})).await.allowed();
    assert_eq!(pond.entries().await, [json!(null); 0]);
}

fn poison(api_version: &str) -> Value {
    json!({"manager": "mallory", "operation": "Update", "apiVersion": api_version, "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:mode": {}}}, "time": "2026-01-01T00:00:00Z"})
}

#[tokio::test]
async fn b13_an_entry_that_no_server_can_read_stops_tracking_and_not_the_judgement() {
    let pond = Pond::new("b13").await;
    let before = pond.read().await;
    let frozen = untracked_writes_freeze().await;
    for api_version in ["arena.example.com/v999", "a/b/c"] {
        let mut entries = pond.entries().await;
        entries.push(poison(api_version));
        let body = with(pond.with_entries(&entries).await, "/spec/size", json!("XL"));
        let reply = pond.put(&alice(), &body).await;
        if frozen {
            // To the webhook managedFields are the same before and after, with ctrl-a as the owner of the size.
            reply.refused_for(&[(".spec.size", OWNED)]);
            assert!(reply.message().contains("no entry of managedFields records it"), "{}", reply.message());
        } else {
            reply.refused_for(&[(".spec.size", OWNED), (WHOLE, TAMPERED)]);
            assert!(reply.message().contains("managedFields would be wiped"), "{}", reply.message());
        }
    }
    assert_eq!(pond.read().await, before);
    // The trick is real: the owner's own write of the kind goes through and is not recorded.
    let pond = Pond::of(unguarded().await, "b13").await;
    let mut entries = pond.entries().await;
    let untouched = if frozen { entries.clone() } else { Vec::new() };
    entries.push(poison("arena.example.com/v999"));
    let body = with(pond.with_entries(&entries).await, "/spec/size", json!("XL"));
    pond.put(&controller("ctrl-a"), &body).await.allowed();
    assert_eq!(pond.entries().await, untouched);
}

#[tokio::test]
async fn b14_an_entry_of_a_removed_version_stops_tracking_and_not_the_judgement() {
    let arena = arena().await;
    let kind = arena.kind("shrinkingponds", &policy(&[])).await;
    let pond = Pond::of(&kind, "b14").await;
    let by_v2 = Call::merge_patch(&pond.at(""), &json!({"spec": {"shape": "square"}})).version("v2");
    pond.send(&by_v2.manager("old-tool"), &alice()).await.allowed();
    assert_eq!(pond.holders("f:spec/f:shape").await, ["old-tool"]);

    kind.define(|crd| {
        crd["spec"]["versions"].as_array_mut().unwrap().retain(|version| version["name"] != "v2");
    })
    .await;
    let gone = async || {
        let reply = pond.send(&Call::get(&pond.at("")).version("v2"), &alice()).await;
        (reply.code == 404).then_some(())
    };
    eventually("version v2 to be gone", PATIENCE, gone).await.unwrap();
    // What harms nobody passes, once the webhook has noticed too that the server cannot help it.
    let harmless = Call::merge_patch(&pond.at(""), &json!({"spec": {"mode": "wild"}}));
    let probe = harmless.clone().dry_run();
    let noticed = async || (pond.send(&probe, &alice()).await.code == 200).then_some(());
    eventually("the webhook to know the versions", PATIENCE, noticed).await.unwrap();

    let before = pond.read().await;
    pond.patch(&alice(), &json!({"spec": {"size": "XL"}})).await.refused_for(&[(".spec.size", OWNED)]);
    assert_eq!(pond.read().await, before);
    let entries = pond.entries().await;
    assert!(!entries.is_empty());
    pond.send(&harmless, &alice()).await.allowed();
    let expected = if untracked_writes_freeze().await { entries } else { Vec::new() };
    assert_eq!(pond.entries().await, expected);
    pond.patch(&alice(), &json!({"spec": {"size": "XL"}})).await.refused_for(&[(".spec.size", OWNED)]);
}

/// Names so long that with their copies in `managedFields` the object is more than etcd takes; without, it is not.
fn bulk() -> Value {
    (0..900).map(|number| (format!("{number:01000}"), json!("x"))).collect::<serde_json::Map<_, _>>().into()
}

#[tokio::test]
async fn b15_an_object_too_large_to_be_tracked_is_refused_as_a_wipe() {
    let bulk = json!({"spec": {"free": bulk()}});
    let pond = Pond::new("b15").await;
    let before = pond.read().await;
    // Storage refuses the size, the server tries again without managedFields, and that is reviewed anew.
    pond.patch(&alice(), &bulk).await.refused_for(&[(WHOLE, TAMPERED)]);
    let with_size = with(bulk.clone(), "/spec/size", json!("XL"));
    pond.patch(&alice(), &with_size).await.refused_for(&[(".spec.size", OWNED)]);
    assert_eq!(pond.read().await, before);
    // The trick is real where nobody looks at managedFields; the value stays guarded.
    let pond = Pond::of(unguarded().await, "b15").await;
    pond.patch(&alice(), &bulk).await.allowed();
    assert_eq!(pond.entries().await, [json!(null); 0]);
    pond.patch(&alice(), &json!({"spec": {"size": "XL"}})).await.refused_for(&[(".spec.size", OWNED)]);
}

#[tokio::test]
async fn b16_a_status_field_is_its_owners_for_all_other_writers_of_the_status() {
    let pond = Pond::new("b16").await;
    let before = pond.read().await;
    for stranger in [alice(), controller("ctrl-a")] {
        let patch = Call::merge_patch(&pond.at("/status"), &json!({"status": {"phase": "Dry"}}));
        pond.send(&patch, &stranger).await.refused_for(&[(".status.phase", OWNED)]);
        let put = Call::put(&pond.at("/status"), &pond.edited("/status/phase", json!("Dry")).await);
        pond.send(&put, &stranger).await.refused_for(&[(".status.phase", OWNED)]);
        let apply = Call::apply(&pond.at("/status"), "x", &pond.body(&json!({"status": {"phase": "Dry"}})));
        pond.send(&apply.force(), &stranger).await.refused_for(&[(".status.phase", OWNED)]);
    }
    assert_eq!(pond.read().await, before);
    let own = Call::merge_patch(&pond.at("/status"), &json!({"status": {"phase": "Dry"}}));
    pond.send(&own, &controller("ctrl-status")).await.allowed();
}

#[tokio::test]
async fn b17_a_status_sent_to_the_main_resource_changes_nothing_and_passes() {
    let pond = Pond::new("b17").await;
    let before = pond.read().await;
    let body = pond.edited("/status/phase", json!("Dry")).await;
    pond.put(&alice(), &body).await.allowed();
    assert_eq!(pond.read().await, before);
}

#[tokio::test]
async fn b18_the_order_of_a_keyed_list_is_nobodys() {
    let pond = Pond::new("b18").await;
    let mut body = pond.read().await;
    let taints = body["spec"]["taints"].as_array_mut().unwrap();
    taints.reverse();
    let reversed = taints.clone();
    let entries = pond.entries().await;
    pond.put(&alice(), &body).await.allowed();
    assert_eq!(pond.read().await["spec"]["taints"], json!(reversed));
    assert_eq!(pond.entries().await, entries);
}

#[tokio::test]
async fn b19_renaming_the_key_of_an_item_removes_its_owners_item() {
    let pond = Pond::new("b19").await;
    let before = pond.read().await;
    let parts = ["", ".effect", ".key", ".value"].map(|part| format!("{TAINT_A}{part}"));
    let taint_a = parts.each_ref().map(|part| (part.as_str(), OWNED));
    let at = place(&before, "/spec/taints", |taint| taint["key"] == "a");
    let body = with(before.clone(), &format!("/spec/taints/{at}/key"), json!("zz"));
    pond.put(&alice(), &body).await.refused_for(&taint_a);
    assert_eq!(pond.read().await, before);
    let patch = json!([{"op": "replace", "path": format!("/spec/taints/{at}/key"), "value": "zz"}]);
    pond.json_patch(&alice(), &patch).await.refused_for(&taint_a);
    pond.json_patch(&controller("ctrl-a"), &patch).await.allowed();
}
