//! Part A, and what is of its kind: several controllers on one object.

use serde_json::{Value, json};

use super::pools::{
    autoscaler, dana, gitops, manifest, node_pools, nodepool_controller, owners, pool, pool_of, target,
};
use crate::anykind::{Field, object, owner};
use crate::arena::{Call, Kind, Pond};
use crate::decisions::{self, NODEPOOLS, Request, refused, with};
use crate::harness::Identity;

#[test]
fn case_a08_a_review_in_which_only_time_and_version_moved_is_no_change() {
    let target = decisions::target(&[NODEPOOLS]);
    let old = decisions::pool();
    let new = with(old.clone(), "/metadata/managedFields/1/time", json!("2026-01-01T00:00:09Z"));
    let new = with(new, "/metadata/resourceVersion", json!("11"));
    let review = || Request::update(&old, &new).under("autoscaler");
    let verdict = review().by("fieldkeeper-system/autoscaler").judge(&target);
    assert_eq!((verdict.findings.len(), verdict.notes.len()), (0, 0));
    // A server moves the time of nobody but the writer: by anybody else it is a forgery, and of a reserved name here.
    let foreign = Request::update(&old, &new).under("kubectl").by("mallory").judge(&target);
    assert_eq!(refused(&foreign), [".spec.targetNodes", "*"]);
}

#[tokio::test]
async fn case_a10_a_status_without_a_subresource_is_guarded_on_the_object_itself() {
    let kind = Kind::with_crd("plainpools", owners(json!({})), |crd| {
        node_pools(crd);
        for version in crd["spec"]["versions"].as_array_mut().unwrap() {
            version["subresources"] = Value::Null;
        }
    })
    .await;
    let pool = Pond::absent(&kind, "a10").await;
    pool.apply(&gitops(), "gitops-applier", &manifest()).await.allowed();
    let ready = |nodes: i64| json!({"status": {"readyNodes": nodes}});
    pool.patch(&nodepool_controller(), &ready(4)).await.allowed();
    let before = pool.read().await;
    let body = pool.edited("/status/readyNodes", json!(99)).await;
    pool.put(&dana(), &body).await.refused(&[".status.readyNodes"]);
    pool.force(&dana(), "dana", &ready(99)).await.refused(&[".status.readyNodes"]);
    assert_eq!(pool.read().await, before);
    // The owner's write is what the report warns of: it counts as a new generation.
    let after = pool.patch(&nodepool_controller(), &ready(5)).await.allowed();
    assert!(after["metadata"]["generation"].as_i64() > before["metadata"]["generation"].as_i64());
}

/// A file from before the autoscaler's last write, put without a version. Custom resources may not be put so at all,
/// which the report could not know: there the same file with the present version is the case. Built-in kinds may.
#[tokio::test]
async fn case_a16_a_put_without_a_version_does_not_bring_the_old_size_back() {
    let pool = pool("a16").await;
    pool.apply(&autoscaler(), "autoscaler", &target(8)).await.allowed();
    let file = |nodes: i64, version: Value| {
        let mut body = pool.body(&manifest());
        body["metadata"]["resourceVersion"] = version;
        body["metadata"]["finalizers"] = json!(["fleet.example.io/drain"]);
        body["spec"]["targetNodes"] = json!(nodes);
        body["spec"]["zones"] = json!(["a"]);
        body
    };
    let reply = pool.put(&dana(), &file(4, Value::Null)).await;
    assert!(reply.code == 422 && reply.message().contains("metadata.resourceVersion"), "{}", reply.message());
    let version = pool.read().await["metadata"]["resourceVersion"].clone();
    let reply = pool.put(&dana(), &file(4, version.clone())).await;
    assert!(reply.message().contains(".spec.targetNodes: 8 -> 4"), "{}", reply.message());
    reply.refused(&[".spec.targetNodes"]);
    let stored = pool.put(&dana(), &file(8, version)).await.allowed();
    assert_eq!((&stored["spec"]["targetNodes"], &stored["spec"]["zones"]), (&json!(8), &json!(["a"])));

    let rules = format!("owners:\n{}", owner("case-scaler", &[".spec.replicas"]));
    let rules = rules.replace('\n', "\n  ");
    let deployment = |name: &str, replicas: i64, image: &str| {
        let template = json!({"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": image}]}});
        let spec =
            json!({"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template});
        object("apps/v1", "Deployment", name, &json!({"spec": spec}))
    };
    let probe = deployment("probe", 7, "x");
    let field =
        Field::new("case-a16", "apps/v1/deployments", &format!("  {}", rules.trim_end()), &probe).await;
    let scaler = Identity::person("case-scaler", &[]);
    field.send(&field.create(&deployment("web", 8, "x")), &scaler).await.allowed();
    let put = |replicas: i64| Call::put("", &deployment("web", replicas, "y")).at(&field.path("/web"));
    field.send(&put(4), &dana()).await.refused(&[".spec.replicas"]);
    field.send(&put(8), &dana()).await.allowed();
    assert_eq!(field.read("web").await["spec"]["replicas"], 8);
}

#[tokio::test]
async fn case_d23_a_retried_put_of_an_old_copy_is_refused_although_no_version_conflicts() {
    let pool = pool("d23").await;
    let mut copy = pool.read().await;
    pool.apply(&autoscaler(), "autoscaler", &target(6)).await.allowed();
    assert_eq!(pool.put(&nodepool_controller(), &copy).await.code, 409, "which is all that a retry solves");
    copy["metadata"]["resourceVersion"] = pool.read().await["metadata"]["resourceVersion"].clone();
    let reply = pool.put(&nodepool_controller(), &copy).await;
    assert!(reply.message().contains(".spec.targetNodes: 6 -> 4"), "{}", reply.message());
    reply.refused(&[".spec.targetNodes"]);
    assert_eq!(pool.read().await["spec"]["targetNodes"], 6);
}

#[tokio::test]
async fn case_e15_parts_of_a_status_have_owners_of_their_own() {
    let pool = pool_of(super::pools::pools().await, "e15").await;
    let apply = async |who: &Identity, manager: &str, status: Value| {
        super::pools::apply_status(&pool, who, manager, &status).await
    };
    let (scaler, controller) = (autoscaler(), nodepool_controller());
    apply(&scaler, "autoscaler-status", json!({"pendingRequests": 1})).await.allowed();
    apply(&controller, "nodepool-controller", json!({"readyNodes": 5})).await.allowed();
    apply(&controller, "nodepool-controller", json!({"readyNodes": 5, "pendingRequests": 0}))
        .await
        .refused(&[".status.pendingRequests"]);
    apply(&scaler, "autoscaler-status", json!({"pendingRequests": 1, "readyNodes": 9}))
        .await
        .refused(&[".status.readyNodes"]);
    assert_eq!(pool.read().await["status"], json!({"readyNodes": 5, "pendingRequests": 1}));
}
