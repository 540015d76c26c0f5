//! What webhook replicas report of themselves reaches the policies.

use fieldkeeper::admission::hooks;
use fieldkeeper::admission::state::{Readiness, Snapshots};
use fieldkeeper::telemetry::policies::PolicyMetrics;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::ground::{Ground, POOLS, policy};
use super::{ENFORCE, PATIENCE};
use crate::harness::{Identity, NAMESPACE, eventually};

/// Lets the webhook read objects of one kind, as the label of an aggregated role does where controllers run.
async fn let_read(ground: &Ground, group: &str, resource: &str) {
    let name = format!("reads-{resource}");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": [group], "resources": [resource], "verbs": ["get"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "webhook", "namespace": NAMESPACE}]});
    for object in [role, binding] {
        ground.plane().apply(&object.to_string()).await.unwrap();
    }
}

#[tokio::test]
async fn a_missing_right_to_read_what_a_write_of_scale_is_about_is_a_condition_until_it_is_there() {
    let mut ground = Ground::new().await;
    ground.start().await;
    ground.inject_ca(&[ENFORCE]).await;
    let account = Identity::service_account(NAMESPACE, "webhook");
    let client = ground.plane().client(&account, "fieldkeeper-test").await.unwrap();
    let webhook =
        hooks::connect(client, Snapshots::default(), &Readiness::default(), PolicyMetrics::default());
    let replica = tokio::spawn(webhook.background);
    let deployments = r#"{"group": "apps", "version": "v1", "resource": "deployments"}"#;
    let config = r#"{"version": "v1", "resource": "configmaps"}"#;
    let image =
        json!({"mode": "Enforce", "owners": [{"name": "people", "fields": [{"path": ".spec.paused"}]}]});
    ground.write(&policy("image", deployments, &image)).await;
    ground.write(&policy("plain", config, &json!({"mode": "Enforce"}))).await;
    assert_eq!(
        ground.condition("image", "ParentsReadable", "Readable").await,
        "True",
        "no claim on the count"
    );

    ground.write(&policy("deployments", deployments, &json!({"mode": "Enforce"}))).await;
    assert_eq!(ground.condition("deployments", "ParentsReadable", "MissingRight").await, "False");
    assert_eq!(ground.condition("deployments", "Ready", "MissingRight").await, "False");
    assert_eq!(ground.condition("plain", "ParentsReadable", "Readable").await, "True");
    let message = ground.message("deployments", "ParentsReadable").await;
    assert!(message.contains("may not read deployments.apps"), "{message}");

    let_read(&ground, "apps", "deployments").await;
    assert_eq!(ground.condition("deployments", "ParentsReadable", "Readable").await, "True");
    assert_eq!(ground.condition("deployments", "Ready", "Ready").await, "True");
    ground.plane().kubectl(&["delete", "clusterrolebinding/reads-deployments"]).await.unwrap().ok().unwrap();
    replica.abort();
    webhook.farewell.await;
    ground.stop().await;
}

#[tokio::test]
async fn a_policy_enforces_once_every_webhook_replica_judges_by_it_and_not_without_any() {
    let mut ground = Ground::new().await;
    ground.start().await;
    ground.inject_ca(&[ENFORCE]).await;
    let_read(&ground, "compute.fieldkeeper.dev", "nodepools").await;
    ground.write(&policy("pools", POOLS, &json!({"mode": "Enforce"}))).await;
    assert_eq!(ground.condition("pools", "Enforcing", "NoReplica").await, "False");
    assert_eq!(ground.condition("pools", "Ready", "NoReplica").await, "False");

    // The watches of a webhook, with the identity and the rights that it is shipped with.
    let account = Identity::service_account(NAMESPACE, "webhook");
    let client = ground.plane().client(&account, "fieldkeeper-test").await.unwrap();
    let webhook =
        hooks::connect(client, Snapshots::default(), &Readiness::default(), PolicyMetrics::default());
    let replica = tokio::spawn(webhook.background);
    assert_eq!(ground.condition("pools", "Enforcing", "RulesLive").await, "True");
    assert_eq!(ground.condition("pools", "Ready", "Ready").await, "True");
    let wait = ["wait", "--for=condition=Ready", "fieldpolicy/pools", "--timeout=10s"];
    ground.plane().kubectl(&wait).await.unwrap().ok().unwrap();
    let message = ground.message("pools", "Enforcing").await;
    assert!(message.contains("to 1 webhook replica, outside of the namespaces"), "{message}");
    ground.write(&policy("pools", POOLS, &json!({"mode": "Enforce", "unlisted": "Warn"}))).await;
    assert_eq!(ground.condition("pools", "Enforcing", "RulesLive").await, "True", "of the new generation");

    // One that hangs: it is there, and has not seen the last change.
    let leases: Api<Lease> = Api::namespaced(ground.plane().admin().await.unwrap(), NAMESPACE);
    let stuck: Lease = serde_json::from_value(json!({
        "metadata": {"name": "webhook-stuck", "labels": {"fieldkeeper.dev/webhook-replica": "true"},
            "annotations": {"fieldkeeper.dev/policies": "{\"pools\": 1}"}},
        "spec": {"holderIdentity": "stuck", "leaseDurationSeconds": 600,
            "renewTime": format!("{:.6}", Timestamp::now())},
    }))
    .unwrap();
    leases.create(&PostParams::default(), &stuck).await.unwrap();
    assert_eq!(ground.condition("pools", "Enforcing", "ReplicasBehind").await, "False");
    let message = ground.message("pools", "Enforcing").await;
    assert_eq!(message, "1 of 2 webhook replicas do not judge by generation 2 yet: webhook-stuck");
    leases.delete("webhook-stuck", &DeleteParams::default()).await.unwrap();
    assert_eq!(ground.condition("pools", "Enforcing", "RulesLive").await, "True");

    // It ends as it is asked to.
    replica.abort();
    webhook.farewell.await;
    eventually("nobody to be left", PATIENCE, async || {
        (ground.message("pools", "Enforcing").await.starts_with("no webhook replica")).then_some(())
    })
    .await
    .unwrap();
    ground.stop().await;
}
