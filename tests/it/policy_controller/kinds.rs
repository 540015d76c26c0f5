//! The registration and the reports follow the things that a policy names: kinds and service accounts.

use std::time::Instant;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::ground::{Ground, POOLS, policy};
use super::{OBSERVE, PATIENCE, SOON};
use crate::harness::eventually;

const KETTLES: &str = r#"{"group": "example.com", "version": "v1", "resource": "kettles"}"#;
const CRD: &str = "kettles.example.com";

/// The versions of the kind, each with its name, whether it is served, and its subresources.
fn crd(versions: &[(&str, bool, Value)]) -> Value {
    let spec = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": spec}}});
    let versions = versions.iter().enumerate().map(|(index, (name, served, subresources))| {
        json!({"name": name, "served": served, "storage": index == 0, "schema": schema, "subresources": subresources})
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": CRD},
        "spec": {"group": "example.com", "scope": "Cluster", "versions": versions.collect::<Vec<_>>(),
            "names": {"kind": "Kettle", "plural": "kettles", "singular": "kettle"}},
    })
}

#[tokio::test]
async fn rules_follow_a_kind_within_a_second() {
    let mut ground = Ground::new().await;
    let crds: Api<CustomResourceDefinition> = Api::all(ground.plane().admin().await.unwrap());
    ground.start().await;
    ground.write(&policy("kettles", KETTLES, &json!({}))).await;
    ground.registered("kettles in observe", &[(OBSERVE, "kettles")]).await;
    let ground = ground;
    let becomes = async |what: &str, change: &Value, versions: Value, resources: Value| {
        let params = PatchParams::apply("installer").force();
        crds.patch(CRD, &params, &Patch::Apply(change)).await.unwrap();
        let start = Instant::now();
        eventually(what, PATIENCE, async || {
            let rule = ground.rules(OBSERVE).await.remove(0);
            (rule["apiVersions"] == versions && rule["resources"] == resources).then_some(())
        })
        .await
        .unwrap();
        assert!(start.elapsed() < SOON, "{what}: {:?}", start.elapsed());
    };
    let (none, scale) = (
        json!({}),
        json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}),
    );
    let both = json!({"status": {}, "scale": scale["scale"]});
    let plain = json!(["kettles"]);
    let change = crd(&[("v1", true, none.clone())]);
    becomes("a kind that comes after its policy", &change, json!(["v1"]), plain).await;
    let change = crd(&[("v1", true, json!({"status": {}}))]);
    becomes("a new subresource", &change, json!(["v1"]), json!(["kettles", "kettles/status"])).await;
    let change = crd(&[("v1", true, both.clone())]);
    let all = json!(["kettles", "kettles/status", "kettles/scale"]);
    becomes("another subresource", &change, json!(["v1"]), all.clone()).await;
    let change = crd(&[("v2", true, both.clone()), ("v1", false, both)]);
    becomes("a version that is served no more", &change, json!(["v2"]), all).await;
    assert_eq!(ground.condition("kettles", "SchemaResolved", "VersionNotServed").await, "False");
    crds.delete(CRD, &DeleteParams::default()).await.unwrap();
    assert_eq!(ground.condition("kettles", "SchemaResolved", "NoSuchKind").await, "False");
    let mut ground = ground;
    ground.stop().await;
}

#[tokio::test]
async fn a_service_account_that_does_not_exist_is_reported_and_keeps_nothing_from_being_enforced() {
    let mut ground = Ground::new().await;
    ground.start().await;
    let of = |account: &str| {
        let subject = json!({"kind": "ServiceAccount", "namespace": "fieldkeeper-system", "name": account});
        json!({"owners": [{"name": "o", "subjects": [subject], "fields": [{"path": ".spec"}]}]})
    };
    ground.write(&policy("pools", POOLS, &of("webhok"))).await;
    assert_eq!(ground.condition("pools", "SubjectsResolved", "SubjectNotFound").await, "False");
    let message = ground.message("pools", "SubjectsResolved").await;
    assert_eq!(message, "spec.owners[o].subjects[0]: there is no ServiceAccount fieldkeeper-system/webhok");
    assert_eq!(ground.condition("pools", "Ready", "Ready").await, "True");
    ground.write(&policy("pools", POOLS, &of("webhook"))).await;
    assert_eq!(ground.condition("pools", "SubjectsResolved", "Found").await, "True");
    ground.stop().await;
}
