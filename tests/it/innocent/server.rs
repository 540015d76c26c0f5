//! What the API server adds to a request, or takes from it, before anybody is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::endpoint::mutating;
use crate::arena::{Call, Kind, Pond, admin, alice, arena, controller, hpa, kind};
use crate::harness::Identity;

#[tokio::test]
async fn f01_anybody_may_write_what_is_there_already() {
    let pond = Pond::new("f01").await;
    let stored = pond.read().await;
    pond.put(&alice(), &stored).await.allowed();
    pond.patch(&alice(), &json!({})).await.allowed();
    pond.patch(&alice(), &json!({"spec": {"size": "L", "limits": {"cpu": 4}}})).await.allowed();
    pond.json_patch(&alice(), &json!([])).await.allowed();
    pond.json_patch(&alice(), &json!([{"op": "test", "path": "/spec/size", "value": "L"}])).await.allowed();
    pond.send(&Call::put(&pond.at(""), &stored).manager("ctrl-a"), &alice()).await.allowed();
    pond.apply(&alice(), "alice", &json!({})).await.allowed();
    pond.apply(&alice(), "alice", &json!({"spec": {"mode": "calm"}})).await.allowed();
    pond.apply(&alice(), "alice", &json!({"spec": {"mode": "calm"}})).await.allowed();
    pond.send(&Call::put(&pond.at("/status"), &pond.read().await), &alice()).await.allowed();
    pond.scale(&alice(), 3).await.allowed();
    let scale = pond.send(&Call::get(&pond.at("/scale")), &alice()).await.allowed();
    pond.send(&Call::put(&pond.at("/scale"), &scale), &alice()).await.allowed();
    // With one value beside it that is another one.
    let body = pond.edited("/spec/replicas", json!(4)).await;
    pond.put(&alice(), &body).await.refused(&[".spec.replicas"]);
    pond.scale(&alice(), 4).await.refused(&[".spec.replicas"]);
    let call = Call::put(&pond.at("/scale"), &scale).manager("alice");
    pond.send(&call, &alice()).await.refused(&[".spec.replicas"]);
}

#[tokio::test]
async fn f04_what_only_the_server_writes_is_nobodys() {
    let pond = Pond::new("f04").await;
    let stale = pond.read().await;
    pond.patch(&controller("ctrl-a"), &json!({"spec": {"size": "XL"}})).await.allowed();
    pond.patch(&controller("ctrl-a"), &json!({"spec": {"size": "L"}})).await.allowed();
    let mut body = stale.clone();
    body["spec"]["mode"] = json!("wild");
    body["metadata"]["resourceVersion"] = pond.read().await["metadata"]["resourceVersion"].clone();
    body["metadata"]["generation"] = json!(99);
    body["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    body["metadata"]["selfLink"] = json!("/nowhere");
    // An old list of entries would be an old list of entries: the server takes what it is given.
    body["metadata"].as_object_mut().unwrap().retain(|name, _| name != "uid" && name != "managedFields");
    let after = pond.put(&alice(), &body).await.allowed();
    assert_ne!(after["metadata"]["generation"], stale["metadata"]["generation"]);
    assert_eq!(after["metadata"]["uid"], stale["metadata"]["uid"]);
    // An object that is being deleted differs from others in what the server set; the rest is judged as ever.
    let finalizer = json!({"metadata": {"finalizers": ["example.com/mine"]}});
    pond.patch(&alice(), &finalizer).await.allowed();
    pond.send(&Call::delete(&pond.at("")), &admin()).await.allowed();
    let deleting = pond.read().await;
    assert!(deleting["metadata"]["deletionTimestamp"].is_string());
    pond.patch(&alice(), &json!({"spec": {"mode": "calm"}})).await.allowed();
    pond.patch(&alice(), &json!({"spec": {"size": "XL"}})).await.refused(&[".spec.size"]);
    let body = pond.edited("/metadata/finalizers", Value::Null).await;
    pond.put(&alice(), &body).await.allowed();
    assert_eq!(pond.send(&Call::get(&pond.at("")), &admin()).await.code, 404);
}

#[tokio::test]
async fn f32_one_request_is_reviewed_again_after_another_has_come_between() {
    let kind = kind("f32ponds", |policy| policy).await;
    let racer = Arc::new(Pond::bare_of(&kind, "racer").await);
    let reviews = Arc::new(AtomicUsize::new(0));
    let (between, count) = (racer.clone(), reviews.clone());
    // While the first review of alice's write is under way, the owner writes: the store refuses what was reviewed,
    // and the server begins again with the owner's value.
    mutating("arena.example.com", kind.plural(), move |request: Value| {
        let (pond, count) = (between.clone(), count.clone());
        async move {
            let real = request["dryRun"] == json!(false) && request["userInfo"]["username"] == "alice";
            if real && count.fetch_add(1, Ordering::SeqCst) == 0 {
                pond.patch(&controller("ctrl-a"), &json!({"spec": {"size": "XL"}})).await.allowed();
            }
            json!({"allowed": true})
        }
        .boxed()
    })
    .await;
    let patch = json!({"spec": {"mode": "wild"}});
    arena()
        .await
        .until("a review that another write came between", async || {
            reviews.store(0, Ordering::SeqCst);
            racer.patch(&alice(), &patch).await.allowed();
            (reviews.load(Ordering::SeqCst) >= 2).then_some(())
        })
        .await;
    let after = racer.read().await;
    assert_eq!((&after["spec"]["size"], &after["spec"]["mode"]), (&json!("XL"), &json!("wild")));
    // A denial is as final in the second review as in the first.
    racer.patch(&controller("ctrl-a"), &json!({"spec": {"size": "S"}})).await.allowed();
    reviews.store(0, Ordering::SeqCst);
    racer.patch(&alice(), &json!({"spec": {"size": "S", "mode": "calm"}})).await.refused(&[".spec.size"]);
    let writers = (0..4).map(|number| {
        let racer = racer.clone();
        let label = json!({"spec": {"labels": {format!("l{number}"): "x"}}});
        async move { racer.patch(&Identity::person(&format!("writer-{number}"), &[]), &label).await.allowed() }
    });
    futures::future::join_all(writers).await;
}

#[tokio::test]
async fn f33_a_deletion_is_reviewed_for_each_object_and_more_than_once() {
    let labelled = json!({"metadata": {"labels": {"test": "f33"}, "finalizers": ["example.com/mine"]}});
    let ponds = [Pond::bare("f33-a").await, Pond::bare("f33-b").await];
    for pond in &ponds {
        pond.patch(&alice(), &labelled).await.allowed();
    }
    // The reviews of a collection do not carry a name.
    let all = Call::delete("ponds").query("labelSelector", "test=f33");
    assert!(ponds[0].send(&all, &alice()).await.is_refused());
    ponds[0].send(&all, &admin()).await.allowed();
    for pond in &ponds {
        assert!(pond.read().await["metadata"]["deletionTimestamp"].is_string());
        // Again, with and without conditions, while it is being deleted.
        pond.send(&Call::delete(&pond.at("")), &admin()).await.allowed();
        let uid = pond.read().await["metadata"]["uid"].clone();
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
        pond.send(&Call::delete(&pond.at("")).body(&options), &admin()).await.allowed();
        assert!(pond.send(&Call::delete(&pond.at("")), &alice()).await.is_refused());
        pond.patch(&alice(), &json!({"metadata": {"finalizers": null}})).await.allowed();
        assert_eq!(pond.send(&Call::get(&pond.at("")), &admin()).await.code, 404);
    }
    ponds[0].send(&all, &admin()).await.allowed();
}

#[tokio::test]
async fn f40_an_object_with_nothing_but_a_name_has_no_managed_fields() {
    let kind = Kind::ponds();
    let (pond, other) = (Pond::absent(&kind, "f40").await, Pond::absent(&kind, "f40-b").await);
    let made = pond.send(&Call::create("ponds", &pond.body(&json!({}))), &alice()).await.allowed();
    assert!(made["metadata"]["managedFields"].is_null(), "{made}");
    pond.patch(&alice(), &json!({"spec": {"mode": "calm"}})).await.allowed();
    pond.scale(&hpa(), 2).await.allowed();
    // An owner's field in an object whose tracking was broken by the request itself is something else.
    let poison = json!([{"manager": "x", "operation": "Update", "apiVersion": "arena.example.com/v999",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:size": {}}}}]);
    let body = other.body(&json!({"metadata": {"managedFields": poison}, "spec": {"size": "L"}}));
    assert!(other.send(&Call::create("ponds", &body), &controller("ctrl-a")).await.is_refused());
    let body = other.body(&json!({"spec": {"size": "L"}}));
    other.send(&Call::create("ponds", &body), &controller("ctrl-a")).await.allowed();
    other.send(&Call::create("ponds", &body).dry_run(), &alice()).await.refused(&[".spec.size"]);
}
