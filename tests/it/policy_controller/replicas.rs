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

#[tokio::test]
async fn a_policy_enforces_once_every_webhook_replica_judges_by_it_and_not_without_any() {
    let mut ground = Ground::new().await;
    ground.start().await;
    ground.inject_ca(&[ENFORCE]).await;
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
