//! Part B: what appliers of one object do to each other's fields.

use serde_json::{Value, json};

use super::pools::{
    apply_status, autoscaler, dana, gitops, holders, manifest, node_pools, nodepool_controller, oncall,
    owners, pool, pool_of, pools, sizeless, strict_pools, target, under, with_properties,
};
use crate::arena::{Call, Kind, Pond, alice, arena, mutator};
use crate::bypasses::annotation;
use crate::decisions::with;

fn manifest_with(nodes: i64) -> Value {
    with(manifest(), "/spec/targetNodes", json!(nodes))
}

#[tokio::test]
async fn case_b01_a_manifest_with_the_size_is_stopped_and_told_what_to_do() {
    let pool = pool("b01").await;
    pool.apply(&autoscaler(), "autoscaler", &target(6)).await.allowed();
    let apply = async |fields: &Value| pool.apply(&gitops(), "gitops-applier", fields).await;
    let conflict = apply(&manifest_with(4)).await;
    assert!(conflict.code == 409 && conflict.message().contains(r#""autoscaler""#), "{}", conflict.message());
    let reply = pool.force(&gitops(), "gitops-applier", &manifest_with(4)).await;
    let words = [".spec.targetNodes: 6 -> 4", "autoscaler (ServiceAccount np-system/autoscaler)"];
    for part in words.iter().chain(&["instead: ", "leave it out of what you apply"]) {
        assert!(reply.message().contains(part), "{part}: {}", reply.message());
    }
    reply.refused(&[".spec.targetNodes"]);
    apply(&manifest()).await.allowed();
    assert_eq!(pool.read().await["spec"]["targetNodes"], 6);
}

#[tokio::test]
async fn case_b02_the_new_owner_claims_before_the_old_one_drops() {
    let pool = Pond::absent(pools().await, "b02").await;
    // As it was before there was a policy.
    pool.apply(&oncall(), "gitops-applier", &manifest_with(20)).await.allowed();
    let drop = async || pool.apply(&gitops(), "gitops-applier", &manifest()).await;
    let reply = drop().await;
    assert!(reply.message().contains(".spec.targetNodes: 20 -> (removed)"), "{}", reply.message());
    reply.refused(&[".spec.targetNodes"]);
    pool.apply(&autoscaler(), "autoscaler", &target(20)).await.allowed();
    drop().await.allowed();
    assert_eq!(pool.read().await["spec"]["targetNodes"], 20);
    assert_eq!(pool.holders("f:spec/f:targetNodes").await, ["autoscaler"]);
}

#[tokio::test]
async fn case_b03_a_default_that_fills_an_omitted_size_is_the_writers_change() {
    let kind = Kind::with_crd("defaultedpools", owners(json!({})), |crd| {
        node_pools(crd);
        with_properties(crd, "spec", |spec| spec["properties"]["targetNodes"]["default"] = json!(1));
    })
    .await;
    let pool = Pond::absent(&kind, "b03").await;
    // A creation shows the default too, and nobody is blamed for it.
    pool.apply(&gitops(), "gitops-applier", &manifest()).await.allowed();
    pool.apply(&autoscaler(), "autoscaler", &target(6)).await.allowed();
    let body = pool.edited("/spec/targetNodes", Value::Null).await;
    let reply = pool.put(&gitops(), &body).await;
    assert!(reply.message().contains(".spec.targetNodes: 6 -> 1"), "{}", reply.message());
    reply.refused(&[".spec.targetNodes"]);
    assert_eq!(pool.read().await["spec"]["targetNodes"], 6);
}

#[tokio::test]
async fn case_b10_one_name_under_update_and_apply_is_two_holders_of_one_owner() {
    let pool = Pond::absent(pools().await, "b10").await;
    let create = Call::create(&pool.kind.resource(), &pool.body(&target(4))).manager("autoscaler");
    pool.send(&create, &autoscaler()).await.allowed();
    let conflict = pool.apply(&autoscaler(), "autoscaler", &target(5)).await;
    assert!(conflict.code == 409 && conflict.message().contains(r#""autoscaler""#), "{}", conflict.message());
    // Both entries are one identity's, so nothing but the API server stands against the force.
    pool.force(&autoscaler(), "autoscaler", &target(5)).await.allowed();
    let entries = pool.entries().await;
    let operations: Vec<&Value> = entries.iter().map(|entry| &entry["operation"]).collect();
    assert_eq!(operations, ["Apply", "Update"]);
    assert_eq!(
        pool.holders("f:spec/f:targetNodes").await,
        ["autoscaler"],
        "the second holds the container still"
    );
    // What is refused names the holder with its operation.
    let reply = pool.patch(&dana(), &target(1)).await;
    assert!(reply.message().contains("field manager autoscaler (Apply)"), "{}", reply.message());
    reply.refused(&[".spec.targetNodes"]);
}

#[tokio::test]
async fn case_b15_a_value_that_a_mutating_step_replaces_alarms_nobody() {
    let pool = pool("b15").await;
    let larger = json!([{"op": "replace", "path": "/spec/instanceType", "value": "m.xlarge"}]);
    mutator(&pool, &gitops(), &larger).await;
    for _ in 0..2 {
        let reply = pool.apply(&gitops(), "gitops-applier", &manifest()).await;
        assert_eq!(reply.warnings, [""; 0]);
        assert_eq!(reply.allowed()["spec"]["instanceType"], "m.xlarge");
    }
    // A second applier of the very same manifest has a conflict with the first: the API server's, and none of ours.
    let same = pool.apply(&dana(), "dana", &json!({"spec": {"instanceType": "m.large"}})).await;
    assert_eq!((same.code, same.is_refused()), (409, false), "{}", same.message());
}

#[tokio::test]
async fn case_b16_applying_the_same_again_writes_nothing_and_is_told_to_nobody() {
    let pool = pool("b16").await;
    let before = pool.read().await;
    for _ in 0..5 {
        let reply = pool.apply(&autoscaler(), "autoscaler", &target(4)).await;
        assert_eq!(reply.warnings, [""; 0]);
        reply.allowed();
    }
    assert_eq!(pool.read().await, before);
    // The next refusal is recorded after all of them.
    pool.patch(&alice(), &target(1)).await.refused(&[".spec.targetNodes"]);
    annotation(&pool, "alice", "denied").await;
    let events = arena().await.plane.audit_log().unwrap();
    let of_pool = events.iter().filter(|event| {
        event.object_ref.resource == pool.kind.plural
            && event.object_ref.name == "b16"
            && event.actor() == autoscaler().username()
    });
    let told: Vec<_> =
        of_pool.map(|event| event.annotations.keys().any(|key| key.contains("fieldkeeper"))).collect();
    assert_eq!(told, [false; 6]);
}

/// Of an empty list the design's default says what the API server says: it is there. With `compare: EmptyIsAbsent` it
/// is as good as none, as the case wants it. Zero is a number in either.
#[tokio::test]
async fn case_b17_an_empty_list_is_none_where_the_policy_says_so_and_zero_is_a_number() {
    let subject = json!({"kind": "ServiceAccount", "namespace": "gitops", "name": "applier"});
    let fields = json!([{"path": ".spec.taints", "compare": "EmptyIsAbsent"}, {"path": ".spec.ports"},
        {"path": ".spec.targetNodes"}]);
    let owner = json!({"name": "gitops", "subjects": [subject], "fields": fields});
    let kind = under("emptypools", json!({"mode": "Enforce", "owners": [owner]})).await;
    let pool = Pond::absent(&kind, "b17").await;
    pool.apply(&dana(), "dana", &json!({"spec": {"minNodes": 2}})).await.allowed();
    pool.patch(&dana(), &json!({"spec": {"taints": []}})).await.allowed();
    pool.patch(&dana(), &json!({"spec": {"ports": []}})).await.refused(&[".spec.ports"]);
    let zero = pool.patch(&dana(), &target(0)).await;
    assert!(zero.message().contains(".spec.targetNodes: (unset) -> 0"), "{}", zero.message());
    zero.refused(&[".spec.targetNodes"]);
    // An owner may write either.
    let pool = sizeless(pools().await, "b17").await;
    pool.apply(&gitops(), "gitops-applier", &with(manifest(), "/spec/taints", json!([]))).await.allowed();
}

#[tokio::test]
async fn case_b23_a_status_in_a_manifest_is_dropped_and_through_its_own_door_refused() {
    let pool = pool("b23").await;
    let before = pool.read().await["status"].clone();
    for status in [json!({}), json!({"readyNodes": 0})] {
        let mut fields = manifest();
        fields["status"] = status;
        let reply = pool.apply(&gitops(), "gitops-applier", &fields).await;
        assert_eq!(reply.warnings, [""; 0]);
        reply.allowed();
    }
    assert_eq!(pool.read().await["status"], before);
    apply_status(&pool, &gitops(), "gitops-applier", &json!({"readyNodes": 0}))
        .await
        .refused(&[".status.readyNodes"]);
    apply_status(&pool, &nodepool_controller(), "nodepool-controller", &json!({"readyNodes": 0}))
        .await
        .allowed();
}

/// The claim that strict policies refuse is only recorded by default.
#[tokio::test]
async fn case_b26_applying_a_fetched_object_claims_everything_in_it() {
    let fetched = async |pool: &Pond| {
        let object = with(pool.read().await, "/metadata/managedFields", Value::Null);
        with(object, "/spec/targetNodes", json!(5))
    };
    let pool = pool_of(strict_pools().await, "b26").await;
    let before = pool.read().await;
    let reply = pool.apply(&autoscaler(), "autoscaler", &fetched(&pool).await).await;
    assert_eq!(reply.reasons(), ["FieldCoOwned"]);
    for field in [".spec.instanceType", r#".metadata.finalizers[="fleet.example.io/drain"]"#] {
        assert!(reply.fields().contains(&field.to_owned()), "{field}: {:?}", reply.fields());
    }
    assert!(!reply.fields().contains(&".spec.targetNodes".to_owned()), "{:?}", reply.fields());
    assert_eq!(pool.read().await, before);

    let pool = pool_of(pools().await, "b26").await;
    pool.apply(&autoscaler(), "autoscaler", &fetched(&pool).await).await.allowed();
    assert_eq!(holders(&pool, "f:spec/f:instanceType").await, ["autoscaler", "gitops-applier"]);
    let noted = annotation(&pool, &autoscaler().username(), "would-deny").await;
    assert!(noted.contains(".spec.instanceType"), "{noted}");
}
