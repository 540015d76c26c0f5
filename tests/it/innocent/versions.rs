//! CRDs that change under their objects: defaults, topology, versions, conversion.

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::endpoint::serve;
use crate::arena::{Call, Kind, Pond, alice, arena, controller, kind};
use crate::harness::Identity;

fn ctrl_a() -> Identity {
    controller("ctrl-a")
}

/// Changes the properties of `spec` in all versions.
fn with_spec(crd: &mut Value, change: impl Fn(&mut Value)) {
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        change(&mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]);
    }
}

fn default_size(size: &str) -> impl FnOnce(&mut Value) {
    let size = json!({"type": "string", "default": size});
    move |crd| with_spec(crd, |properties| properties["size"] = size.clone())
}

/// Waits until the API server shows this size.
async fn until_size(pond: &Pond, size: &str) {
    let shows = async || (pond.read().await["spec"]["size"] == size).then_some(());
    arena().await.until(&format!("size {size}"), shows).await;
}

#[tokio::test]
async fn f20_a_new_default_shows_in_the_stored_object_too() {
    let kind = kind("f20ponds", |policy| policy).await;
    let pond = Pond::bare_of(&kind, "pool").await;
    let cached = pond.read().await;
    kind.define(default_size("M")).await;
    until_size(&pond, "M").await;
    pond.put(&alice(), &cached).await.allowed();
    pond.patch(&alice(), &json!({"spec": {"mode": "wild"}})).await.allowed();
    pond.send(&Call::merge_patch(&pond.at(""), &json!({"spec": {"mode": "calm"}})).version("v2"), &alice())
        .await
        .allowed();
    pond.apply(&alice(), "alice", &json!({"spec": {"mode": "calm"}})).await.allowed();
    pond.scale(&crate::arena::hpa(), 2).await.allowed();
    pond.patch(&alice(), &json!({"spec": {"size": "S"}})).await.refused(&[".spec.size"]);
    pond.patch(&ctrl_a(), &json!({"spec": {"size": "S"}})).await.allowed();
}

#[tokio::test]
async fn f21_another_default_shows_on_both_sides_where_the_field_was_never_stored() {
    let kind = kind("f21ponds", |policy| policy).await;
    let pond = Pond::bare_of(&kind, "pool").await;
    kind.define(default_size("M")).await;
    until_size(&pond, "M").await;
    let cached = pond.read().await;
    kind.define(default_size("N")).await;
    until_size(&pond, "N").await;
    // A copy from before the change writes the old default, which is a value like any other by now.
    let mut stale = cached.clone();
    stale["spec"]["mode"] = json!("wild");
    pond.put(&alice(), &stale).await.refused(&[".spec.size"]);
    pond.patch(&alice(), &json!({"spec": {"mode": "wild"}})).await.allowed();
    assert_eq!(pond.read().await["spec"]["size"], "N");
    pond.put(&ctrl_a(), &{
        let mut stale = stale;
        stale["metadata"]["resourceVersion"] = pond.read().await["metadata"]["resourceVersion"].clone();
        stale
    })
    .await
    .allowed();
}

#[tokio::test]
async fn f22_a_creation_may_show_a_default_that_nobody_set() {
    let kind = Kind::cluster_wide("f22ponds");
    kind.define(default_size("M")).await;
    kind.enforce(|policy| policy).await;
    let pond = Pond::bare_of(&kind, "plain").await;
    assert_eq!(pond.read().await["spec"]["size"], "M");
    let (written, applied) = (Pond::absent(&kind, "written").await, Pond::absent(&kind, "applied").await);
    let body = written.body(&json!({"spec": {"size": "M", "shape": "round"}}));
    written.send(&Call::create(&kind.resource(), &body), &alice()).await.allowed();
    applied.apply(&alice(), "alice", &json!({"spec": {"mode": "calm"}})).await.allowed();
    let other = Pond::absent(&kind, "other").await;
    let body = other.body(&json!({"spec": {"size": "L"}}));
    other.send(&Call::create(&kind.resource(), &body), &alice()).await.refused(&[".spec.size"]);
    other.apply(&alice(), "alice", &json!({"spec": {"size": "L"}})).await.refused(&[".spec.size"]);
    other.apply(&ctrl_a(), "ctrl-a", &json!({"spec": {"size": "L"}})).await.allowed();
}

#[tokio::test]
async fn f23_an_owner_lets_go_of_a_field_with_a_default() {
    let kind = Kind::cluster_wide("f23ponds");
    kind.define(default_size("M")).await;
    kind.enforce(|policy| policy).await;
    let pond = Pond::bare_of(&kind, "pool").await;
    pond.force(&ctrl_a(), "ctrl-a", &json!({"spec": {"size": "L"}})).await.allowed();
    // A stranger may not have the default back by removing the field.
    pond.patch(&alice(), &json!({"spec": {"size": null}})).await.refused(&[".spec.size"]);
    pond.apply(&ctrl_a(), "ctrl-a", &json!({"spec": {"zones": ["a"]}})).await.allowed();
    assert_eq!(pond.read().await["spec"]["size"], "M");
    assert_eq!(pond.holders("f:spec/f:size").await, [""; 0]);
    // The default is held by nobody and owned all the same.
    pond.patch(&alice(), &json!({"spec": {"mode": "wild"}})).await.allowed();
    pond.patch(&alice(), &json!({"spec": {"size": "L"}})).await.refused(&[".spec.size"]);
    pond.patch(&ctrl_a(), &json!({"spec": {"size": "L"}})).await.allowed();
}

#[tokio::test]
async fn f19_a_schema_that_becomes_atomic_rewrites_the_entries_of_all_in_a_write_of_anybody() {
    let kind = kind("f19ponds", |policy| policy).await;
    let pond = Pond::bare_of(&kind, "pool").await.written().await;
    kind.define(|crd| {
        with_spec(crd, |properties| {
            let taints = properties["taints"].as_object_mut().unwrap();
            taints["x-kubernetes-list-type"] = json!("atomic");
            taints.remove("x-kubernetes-list-map-keys");
            properties["limits"]["x-kubernetes-map-type"] = json!("atomic");
        });
    })
    .await;
    // API server and webhook learn of the new schema in either order; no write may fail in between.
    let number = std::sync::atomic::AtomicUsize::new(0);
    let rewritten = arena().await.until("entries of the new schema", async || {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let call =
            Call::merge_patch(&pond.at(""), &json!({"spec": {"mode": format!("wild-{number}")}})).dry_run();
        let after = pond.send(&call, &alice()).await.allowed();
        let entries = after["metadata"]["managedFields"].as_array().unwrap().clone();
        let whole = entries.iter().any(|entry| entry["fieldsV1"]["f:spec"]["f:taints"] == json!({}));
        whole.then_some(())
    });
    rewritten.await;
    pond.patch(&alice(), &json!({"spec": {"mode": "wild"}})).await.allowed();
    for path in ["f:spec/f:taints", "f:spec/f:limits"] {
        assert!(pond.holders(path).await.contains(&"ctrl-b".to_owned()), "{path}");
    }
    // Claims below the list hold as before.
    let item = |key: &str, value: &str| json!({"key": key, "effect": "NoSchedule", "value": value});
    let changed = json!({"spec": {"taints": [item("a", "y"), item("b", "x")]}});
    let reply = pond.patch(&alice(), &changed).await;
    assert!(
        reply.is_refused() && reply.fields()[0].starts_with(".spec.taints[effect=\"NoSchedule\",key=\"a\"]"),
        "{reply:?}"
    );
    pond.patch(&alice(), &json!({"spec": {"limits": {"cpu": 5}}})).await.refused(&[".spec.limits"]);
    let more = json!({"spec": {"taints": [item("a", "x"), item("b", "x"), item("c", "x")]}});
    pond.patch(&alice(), &more).await.allowed();
    pond.patch(&ctrl_a(), &json!({"spec": {"taints": [item("a", "y"), item("b", "x"), item("c", "x")]}}))
        .await
        .allowed();
    pond.patch(&controller("ctrl-b"), &json!({"spec": {"limits": {"cpu": 5}}})).await.allowed();
}

#[tokio::test]
async fn f10_tracking_breaks_for_all_when_a_version_goes_that_an_entry_names() {
    let kind = kind("f10ponds", |policy| policy).await;
    let pond = Pond::bare_of(&kind, "pool").await;
    let mut body = pond.body(&json!({"spec": {"size": "L"}}));
    body["apiVersion"] = json!("arena.example.com/v2");
    pond.send(&Call::apply(&pond.at(""), "ctrl-a", &body).version("v2"), &ctrl_a()).await.allowed();
    kind.define(|crd| {
        crd["spec"]["versions"].as_array_mut().unwrap().retain(|version| version["name"] == "v1");
    })
    .await;
    // Until 1.36 the list is gone with the next write, later it stands still: either is known by the entry.
    let mode = json!({"spec": {"mode": "wild"}});
    let before = pond.read().await["metadata"]["managedFields"].clone();
    let broken = arena().await.until("the version to be gone", async || {
        let call = Call::merge_patch(&pond.at(""), &mode).manager("alice").dry_run();
        let reply = pond.send(&call, &alice()).await;
        let entries = reply.body["metadata"]["managedFields"].clone();
        let own = entries.as_array().is_some_and(|list| list.iter().any(|entry| entry["manager"] == "alice"));
        ((200..300).contains(&reply.code) && !own).then_some(entries)
    });
    let broken = broken.await;
    assert!(broken.is_null() || broken == before, "{broken}");
    pond.patch(&alice(), &json!({"spec": {"size": "XL", "mode": "wild"}})).await.refused(&[".spec.size"]);
    pond.patch(&alice(), &mode).await.allowed();
    pond.patch(&alice(), &json!({"spec": {"size": "XL"}})).await.refused(&[".spec.size"]);
    pond.patch(&ctrl_a(), &json!({"spec": {"size": "XL"}})).await.allowed();
}

/// v2 calls the size `dimension` and has no note.
fn converted(object: &Value, version: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(version);
    if let Some(spec) = object["spec"].as_object_mut() {
        let (from, to) = if version.ends_with("v2") { ("size", "dimension") } else { ("dimension", "size") };
        if let Some(size) = spec.remove(from) {
            spec.insert(to.to_owned(), size);
        }
        if version.ends_with("v2") {
            spec.remove("note");
        }
    }
    object
}

#[tokio::test]
async fn f39_a_lossy_conversion_loses_the_same_on_both_sides() {
    let (endpoint, converter) = serve("convert-f39ponds", |request: Value| {
        let version = request["desiredAPIVersion"].as_str().unwrap().to_owned();
        let objects = request["objects"].as_array().unwrap();
        let objects: Vec<Value> = objects.iter().map(|object| converted(object, &version)).collect();
        std::future::ready(json!({"convertedObjects": objects, "result": {"status": "Success"}})).boxed()
    })
    .await;
    let kind = Kind::cluster_wide("f39ponds");
    kind.define(|crd| {
        crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": endpoint.client_config("/convert")}});
        let v2 = &mut crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        v2["properties"]["dimension"] = json!({"type": "string"});
        v2["properties"].as_object_mut().unwrap().retain(|name, _| name != "size" && name != "note");
    })
    .await;
    kind.enforce(|policy| policy).await;
    let pond = Pond::bare_of(&kind, "pool").await.written().await;
    pond.patch(&ctrl_a(), &json!({"spec": {"note": "kept"}})).await.allowed();
    let in_v2 = |fields: Value| Call::merge_patch(&pond.at(""), &fields).version("v2");
    pond.send(&in_v2(json!({"spec": {"mode": "wild"}})).dry_run(), &alice()).await.allowed();
    pond.send(&in_v2(json!({"spec": {"dimension": "XL"}})), &alice()).await.refused(&[".spec.size"]);
    pond.send(&in_v2(json!({"spec": {"dimension": null}})), &alice()).await.refused(&[".spec.size"]);
    pond.send(&in_v2(json!({"spec": {"mode": "wild"}})), &alice()).await.allowed();
    pond.send(&in_v2(json!({"spec": {"dimension": "XL"}})), &ctrl_a()).await.allowed();
    assert_eq!(pond.read().await["spec"]["size"], "XL");
    pond.patch(&alice(), &json!({"spec": {"mode": "calm"}})).await.allowed();
    // While nobody converts, the server cannot read the entries of v2. Up to 1.36 it drops them all, which nobody
    // can tell from a list that was wiped on purpose.
    converter.abort();
    if arena().await.minor().await >= 37 {
        pond.patch(&alice(), &json!({"spec": {"mode": "wild"}})).await.allowed();
        assert_eq!(pond.holders("f:spec/f:dimension").await, ["curl"]);
    }
    let reply = pond.patch(&alice(), &json!({"spec": {"size": "S"}})).await;
    assert!(reply.is_refused() && reply.fields().contains(&".spec.size".to_owned()), "{reply:?}");
    kind.remove().await;
}
