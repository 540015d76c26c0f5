//! What the API server makes of our kinds besides rules: defaults, nulls, columns, `/scale`, lists with several owners.

use std::time::Duration;

use fieldkeeper::api::{FieldPolicy, NodePool, crds};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::harness::{ControlPlane, eventually};

/// A client of the shared control plane, where our CRDs are served.
pub(crate) async fn client_with_crds() -> Client {
    let client = ControlPlane::shared().await.unwrap().admin().await.unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds() {
        let name = crd.metadata.name.clone().unwrap();
        let params =
            PatchParams { field_manager: Some("test-setup".to_owned()), ..PatchParams::apply("test-setup") };
        api.patch(&name, &params, &Patch::Apply(&crd))
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        eventually(&format!("{name} to be served"), Duration::from_secs(30), || async {
            let conditions = api.get(&name).await.ok()?.status?.conditions?;
            conditions.iter().any(|c| c.type_ == "Established" && c.status == "True").then_some(())
        })
        .await
        .unwrap();
    }
    client
}

fn pool(name: &str, spec: &Value) -> NodePool {
    let mut spec = spec.clone();
    spec["maxNodes"] = json!(10);
    spec["provider"] = json!({"type": "Simulated", "simulated": {"capacity": {"cpu": "4"}}});
    NodePool::new(name, serde_json::from_value(spec).unwrap())
}

/// The object as the API server has it, not as our types read it.
async fn raw(client: &Client, path: &str) -> Value {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    client.request(request).await.unwrap()
}

#[tokio::test]
async fn the_generated_files_apply_without_a_warning() {
    let plane = ControlPlane::shared().await.unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crds");
    let output =
        plane.kubectl(&["apply", "--server-side", "--field-manager=test-setup", "-k", folder]).await.unwrap();
    assert!(output.success && output.stderr.is_empty(), "{}", output.text());
}

#[tokio::test]
async fn a_null_is_as_if_it_were_not_there_and_defaults_are_filled_in() {
    let client = client_with_crds().await;
    let path = "/apis/fieldkeeper.dev/v1alpha1/fieldpolicies";
    let body = json!({
        "apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy", "metadata": {"name": "nulls"},
        "spec": {
            "target": {"version": "v1", "group": "example.com", "resource": "nulls"},
            "pausedUntil": null, "deletion": null, "match": null, "mode": null, "integrity": null,
            "owners": [{"name": "a", "fields": [{"path": ".spec", "when": null, "mode": null}]}],
        },
    });
    let request = http::Request::post(path).body(serde_json::to_vec(&body).unwrap()).unwrap();
    let made: Value = client.request(request).await.unwrap();
    assert_eq!(
        made["spec"],
        json!({
            "target": {"version": "v1", "group": "example.com", "resource": "nulls"},
            "mode": "Audit", "failurePolicy": "Fail", "admissionPolicy": "None", "allowUnsafe": false,
            "unlisted": "Allow", "creation": {"policy": "Owners"}, "integrity": {"coOwnership": "Audit"},
            "owners": [{"name": "a", "fields": [{"path": ".spec", "compare": "Exact"}]}],
        })
    );
    let api: Api<FieldPolicy> = Api::all(client);
    let read = api.get("nulls").await.unwrap();
    assert_eq!(serde_json::to_value(&read.spec).unwrap(), made["spec"], "our types add and lose nothing");
    api.delete("nulls", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn the_accepted_spec_is_kept_as_it_is_even_what_this_version_does_not_know() {
    let client = client_with_crds().await;
    let api: Api<FieldPolicy> = Api::all(client.clone());
    let spec =
        json!({"target": {"group": "example.com", "version": "v1", "resource": "kept"}, "unlisted": "Deny"});
    let policy = FieldPolicy::new("kept", serde_json::from_value(spec).unwrap());
    api.create(&PostParams::default(), &policy).await.unwrap();
    let accepted =
        json!({"target": {"resource": "x", "version": "v9"}, "owners": [], "later": [1, {"a": null}]});
    let status = json!({
        "apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy",
        "status": {"observedGeneration": 1, "acceptedSpec": accepted, "wouldDeny": 3, "conditions": [{
            "type": "Ready", "status": "False", "reason": "NotRegistered", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    });
    api.patch_status("kept", &PatchParams::apply("test"), &Patch::Apply(&status)).await.unwrap();
    let stored = raw(&client, "/apis/fieldkeeper.dev/v1alpha1/fieldpolicies/kept").await;
    assert_eq!(stored["status"]["acceptedSpec"], accepted);

    let plane = ControlPlane::shared().await.unwrap();
    let table = plane.kubectl(&["get", "fpol", "kept"]).await.unwrap().ok().unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "TARGET", "MODE", "READY", "REASON", "WOULD-DENY", "AGE"]);
    assert_eq!(rows[1][..6], ["kept", "kept", "Audit", "False", "NotRegistered", "3"]);
    api.delete("kept", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn an_owner_that_lets_go_of_the_target_leaves_no_default_behind() {
    let client = client_with_crds().await;
    let api: Api<NodePool> = Api::all(client);
    let params = PatchParams::apply("gitops");
    let apply = async |spec: Value| {
        let pool = pool("let-go", &spec);
        api.patch("let-go", &params, &Patch::Apply(&pool)).await.unwrap()
    };
    assert_eq!(apply(json!({"targetNodes": 3})).await.spec.target_nodes, Some(3));
    // In mode Manual, where a rule that asks for the field would refuse this.
    assert_eq!(apply(json!({})).await.spec.target_nodes, None);
    api.delete("let-go", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn scaling_works_with_and_without_a_target_and_within_the_bounds() {
    let client = client_with_crds().await;
    let api: Api<NodePool> = Api::all(client);
    let plane = ControlPlane::shared().await.unwrap();
    api.create(&PostParams::default(), &pool("scaled", &json!({}))).await.unwrap();
    let scale = async |nodes: &str| {
        plane.kubectl(&["scale", "nodepool/scaled", &format!("--replicas={nodes}")]).await.unwrap()
    };
    let target = async || api.get("scaled").await.unwrap().spec.target_nodes;
    scale("3").await.ok().unwrap();
    assert_eq!(target().await, Some(3));
    // The rules of the kind hold for its subresource too.
    let refused = scale("11").await;
    assert!(refused.text().contains("targetNodes is outside minNodes and maxNodes"), "{}", refused.text());
    assert_eq!(target().await, Some(3));
    api.delete("scaled", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn each_requester_applies_its_own_item() {
    let client = client_with_crds().await;
    let api: Api<NodePool> = Api::all(client);
    api.create(&PostParams::default(), &pool("asked", &json!({"handOff": "Requested"}))).await.unwrap();
    for (who, nodes) in [("autoscaler", 3), ("batch", 5), ("autoscaler", 4)] {
        let mine = json!({
            "apiVersion": "compute.fieldkeeper.dev/v1alpha1", "kind": "NodePool",
            "spec": {"requested": [{"requester": who, "nodes": nodes}]},
        });
        api.patch("asked", &PatchParams::apply(who), &Patch::Apply(&mine)).await.unwrap();
    }
    let requested = api.get("asked").await.unwrap().spec.requested;
    let asked: Vec<_> = requested.iter().map(|r| (r.requester.as_str(), r.nodes)).collect();
    assert_eq!(asked, [("autoscaler", 4), ("batch", 5)]);
    api.delete("asked", &DeleteParams::default()).await.unwrap();
}
