//! Values that are the same although they are written differently, and parts that belong to nobody.

use serde_json::{Value, json};

use crate::arena::{Call, Kind, Pond, alice, controller, pond};
use crate::harness::Identity;

fn ctrl_a() -> Identity {
    controller("ctrl-a")
}

fn taint(key: &str, value: &str) -> Value {
    json!({"key": key, "effect": "NoSchedule", "value": value})
}

async fn taints(pond: &Pond) -> Vec<String> {
    let object = pond.read().await;
    let of = |taint: &Value| taint["key"].as_str().unwrap().to_owned();
    object["spec"]["taints"].as_array().unwrap().iter().map(of).collect()
}

#[tokio::test]
async fn f26_an_apply_puts_the_items_of_others_into_another_order() {
    let pond = Pond::new("f26").await;
    assert_eq!(taints(&pond).await, ["a", "b"]);
    // An applier that holds both items, as one from before the policy does.
    let both = json!({"spec": {"taints": [taint("a", "x"), taint("b", "x")]}});
    pond.apply(&Identity::person("migrator", &[]), "alice", &both).await.allowed();
    let turned = json!({"spec": {"taints": [taint("b", "x"), taint("a", "x")]}});
    pond.apply(&alice(), "alice", &turned).await.allowed();
    assert_eq!(taints(&pond).await, ["b", "a"]);
    let changed = json!({"spec": {"taints": [taint("a", "y"), taint("b", "x")]}});
    pond.force(&alice(), "alice", &changed)
        .await
        .refused(&[".spec.taints[effect=\"NoSchedule\",key=\"a\"].value"]);
    // The order of keyed lists and sets is nobody's, whatever the way of writing.
    let body = pond.edited("/spec/taints", json!([taint("a", "x"), taint("b", "x")])).await;
    pond.put(&alice(), &body).await.allowed();
    assert_eq!(taints(&pond).await, ["a", "b"]);
    pond.patch(&alice(), &json!({"spec": {"zones": ["z", "a"]}})).await.allowed();
    pond.patch(&alice(), &json!({"spec": {"zones": ["z"]}})).await.refused(&[".spec.zones[=\"a\"]"]);
}

#[tokio::test]
async fn f27_numbers_and_objects_are_the_same_however_they_are_written() {
    let pond = Pond::new("f27").await;
    pond.apply(&ctrl_a(), "ctrl-a-free", &json!({"spec": {"free": {"deep": {"one": 1, "half": 0.5}}}}))
        .await
        .allowed();
    let stored = pond.read().await;
    let version = &stored["metadata"]["resourceVersion"];
    let body = |one: &str, half: &str, cpu: &str| {
        // The members in another order than the server's, the numbers as another client writes them.
        format!(
            r#"{{"spec": {{"zones": ["a"], "size": "L", "taints": [
                {{"value": "x", "key": "b", "effect": "NoSchedule"}}, {{"value": "x", "effect": "NoSchedule", "key": "a"}}],
                "free": {{"deep": {{"one": {one}, "half": {half}}}}}, "replicas": 3, "mode": "wild",
                "limits": {{"memory": "1Gi", "cpu": {cpu}}}}},
              "metadata": {{"name": "f27", "managedFields": [], "resourceVersion": {version}}},
              "kind": "Pond", "data": {{"k": "v"}}, "apiVersion": "arena.example.com/v1"}}"#
        )
    };
    let put = |text: &str| Call::put(&pond.at(""), &Value::Null).text(text);
    pond.send(&put(&body("1.0", "5e-1", "4.0")).dry_run(), &alice()).await.allowed();
    pond.send(&put(&body("1.1", "0.5", "4")), &alice()).await.refused(&[".spec.free.deep.one"]);
    // A number and a text of the same look are different values.
    pond.send(&put(&body("1", "0.5", "\"4\"")), &alice()).await.refused(&[".spec.limits.cpu"]);
    // An empty list of entries is none to a custom resource; one empty entry wipes the list.
    let wiped = body("1", "0.5", "4").replace("\"managedFields\": []", "\"managedFields\": [{}]");
    assert!(pond.send(&put(&wiped), &alice()).await.is_refused());
    pond.send(&put(&body("1e0", "0.50", "4")), &alice()).await.allowed();
    assert_eq!(pond.holders("f:spec/f:size").await, ["ctrl-a"]);
}

#[tokio::test]
async fn f31_a_stranger_adds_the_first_part_of_its_own_below_a_container_that_was_not_there() {
    let pond = Pond { arena: crate::arena::arena().await, name: "f31".to_owned(), kind: Kind::ponds() };
    let empty = json!({"apiVersion": "arena.example.com/v1", "kind": "Pond", "metadata": {"name": "f31"}});
    pond.send(&Call::create("ponds", &empty), &alice()).await.allowed();
    for part in [
        json!({"spec": {"mode": "calm"}}),
        json!({"spec": {"labels": {"mine": "1"}}}),
        json!({"spec": {"free": {"mine": {"a": [1, 2]}}}}),
        json!({"spec": {"taints": [taint("c", "x")]}}),
        json!({"spec": {"zones": ["z"]}}),
        json!({"spec": {"window": {"to": "18:00"}}}),
        json!({"spec": {"rules": [{"name": "ftp", "port": 21}]}}),
        json!({"metadata": {"annotations": {"mine": "1"}, "finalizers": ["example.com/mine"]}}),
        json!({"status": {"phase": "Wet"}}),
    ] {
        pond.patch(&alice(), &part).await.allowed();
    }
    // The same containers with a part in them that is claimed.
    for (part, field) in [
        (json!({"spec": {"labels": {"a.b/c": "1"}}}), ".spec.labels[\"a.b/c\"]"),
        (json!({"spec": {"free": {"deep": 1}}}), ".spec.free.deep"),
        (json!({"spec": {"zones": ["z", "a"]}}), ".spec.zones[=\"a\"]"),
        (json!({"spec": {"window": {"from": "8:00"}}}), ".spec.window.from"),
        (json!({"spec": {"limits": {}}}), ".spec.limits"),
        (json!({"spec": {"rules": [{"name": "web"}]}}), ".spec.rules[name=\"web\"]"),
    ] {
        let reply = pond.patch(&alice(), &part).await;
        assert!(
            reply.fields().iter().any(|refused| refused.starts_with(field)),
            "{field}: {}",
            reply.message()
        );
    }
    // What is only hers goes away with its container.
    let away = json!({"spec": {"labels": null, "free": null, "taints": null, "zones": null, "window": null, "rules": null}});
    pond.patch(&alice(), &away).await.allowed();
    pond.patch(&alice(), &json!({"spec": null})).await.allowed();
}

#[tokio::test]
async fn f37_large_integers_are_compared_digit_by_digit() {
    let pond = Pond::new("f37").await;
    let deep = |text: &str| {
        Call::merge_patch(&pond.at(""), &Value::Null)
            .text(&format!(r#"{{"spec": {{"mode": "wild", "free": {{"deep": {text}}}}}}}"#))
    };
    // Two integers that are one and the same to a client that counts in floating point.
    let (odd, even) = ("9007199254740993", "9007199254740992");
    pond.send(&deep(&format!("[{odd}, 0.1, -9223372036854775808, 1e300]")), &ctrl_a()).await.allowed();
    assert!(pond.read().await["spec"]["free"]["deep"].to_string().starts_with(&format!("[{odd},")));
    pond.send(&deep(&format!("[{odd}, 0.10, -9223372036854775808, 1E+300]")), &alice()).await.allowed();
    for other in [
        format!("[{even}, 0.1, -9223372036854775808, 1e300]"),
        format!("[{odd}, 0.1, -9223372036854775807, 1e300]"),
        format!("[{odd}, 0.1, -9223372036854775808, 1.1e300]"),
    ] {
        pond.send(&deep(&other), &alice()).await.refused(&[".spec.free.deep"]);
    }
    // And an unclaimed one beside it may be as large as it likes.
    let mine = r#"{"spec": {"free": {"mine": 123456789012345678901234567890}}}"#;
    pond.send(&Call::merge_patch(&pond.at(""), &Value::Null).text(mine), &alice()).await.allowed();
    pond.patch(&alice(), &json!({"spec": {"mode": "calm"}})).await.allowed();
}

#[tokio::test]
async fn f38_a_null_that_is_kept_is_no_change_in_any_version() {
    let name = "f38";
    let mut body = pond(name, &json!({"mode": "calm"}));
    body["spec"]["note"] = Value::Null;
    let pond = Pond { arena: crate::arena::arena().await, name: name.to_owned(), kind: Kind::ponds() };
    pond.send(&Call::create("ponds", &body), &ctrl_a()).await.allowed();
    let stored = pond.read().await;
    assert!(
        stored["spec"].as_object().unwrap().contains_key("note"),
        "a nullable field keeps its null: {stored}"
    );
    let mut body = stored.clone();
    body["spec"]["mode"] = json!("wild");
    pond.put(&alice(), &body).await.allowed();
    let in_v2 = Call::get(&pond.at("")).version("v2");
    let mut body = pond.send(&in_v2, &alice()).await.allowed();
    assert!(body["spec"].as_object().unwrap().contains_key("note"));
    body["spec"]["mode"] = json!("calm");
    pond.send(&Call::put(&pond.at(""), &body).version("v2"), &alice()).await.allowed();
    // Left out it is another value: the field was there, and is not any more.
    let mut without = pond.read().await;
    without["spec"].as_object_mut().unwrap().remove("note");
    pond.put(&alice(), &without).await.refused(&[".spec.note"]);
    // Where null is no value the server drops it, and nobody has written anything.
    pond.apply(&ctrl_a(), "ctrl-a", &json!({"spec": {"size": "L", "note": null}})).await.allowed();
    let mut body = pond.read().await;
    body["spec"]["limits"] = Value::Null;
    body["spec"]["args"] = Value::Null;
    pond.put(&alice(), &body).await.allowed();
}
