//! The policy controller as a process of its own, under its own service account and the shipped rights, against a
//! real API server.

#![allow(unreachable_pub, reason = "`ground` is shared inside the one test binary")]

pub mod ground;
mod kinds;
mod replicas;

use std::time::{Duration, Instant};

use serde_json::json;

use self::ground::{Ground, NOBODY, POOLS, policy};
use crate::harness::eventually;

/// The design's word for "a person does not wait": from the write of a policy to its rules.
const SOON: Duration = Duration::from_secs(1);
/// For what may take several writes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

const OBSERVE: &str = "observe.fieldkeeper.dev";
const ENFORCE: &str = "enforce.fieldkeeper.dev";
const OPEN: &str = "enforce-open.fieldkeeper.dev";
const BYPASS: &str = "bypass.fieldkeeper.dev";

#[tokio::test]
async fn a_policy_is_registered_within_a_second_and_leaves_no_rule_behind() {
    let mut ground = Ground::new().await;
    ground.start().await;
    let start = Instant::now();
    ground.write(&policy("pools", POOLS, &json!({}))).await;
    ground.registered("nodepools in observe", &[(OBSERVE, "nodepools")]).await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let rule = ground.rules(OBSERVE).await.remove(0);
    assert_eq!(
        rule,
        json!({"apiGroups": ["compute.fieldkeeper.dev"], "apiVersions": ["v1alpha1"],
               "operations": ["CREATE", "UPDATE", "DELETE"], "scope": "*",
               "resources": ["nodepools", "nodepools/status", "nodepools/scale"]})
    );

    // Open and closed, and the bypass with both.
    ground.write(&policy("pools", POOLS, &json!({"mode": "Enforce", "failurePolicy": "Ignore"}))).await;
    ground.registered("nodepools open", &[(OPEN, "nodepools"), (BYPASS, "nodepools")]).await;
    ground.write(&policy("pools", POOLS, &json!({"mode": "Enforce"}))).await;
    ground.registered("nodepools closed", &[(ENFORCE, "nodepools"), (BYPASS, "nodepools")]).await;

    ground.delete("pools").await;
    ground.registered("no rules", &[]).await;
    let managers = ground.managers_of_rules().await;
    assert!(managers.is_empty(), "what is not ours any more is not held: {managers:?}");
    ground.stop().await;
}

#[tokio::test]
async fn a_target_that_changes_its_entry_is_never_in_none() {
    let mut ground = Ground::new().await;
    ground.start().await;
    ground.write(&policy("pools", POOLS, &json!({}))).await;
    ground.registered("nodepools in observe", &[(OBSERVE, "nodepools")]).await;
    let mut history = ground.history().await;
    ground.write(&policy("pools", POOLS, &json!({"mode": "Enforce"}))).await;
    ground.registered("nodepools in enforce", &[(ENFORCE, "nodepools"), (BYPASS, "nodepools")]).await;
    ground.write(&policy("pools", POOLS, &json!({"mode": "Warn"}))).await;
    ground.registered("nodepools in observe again", &[(OBSERVE, "nodepools")]).await;
    let states = history.entries_of("nodepools", 5).await;
    assert_eq!(
        states,
        [
            vec![OBSERVE],
            vec![ENFORCE, OBSERVE, BYPASS],
            vec![ENFORCE, BYPASS],
            vec![ENFORCE, OBSERVE, BYPASS],
            vec![OBSERVE],
        ]
    );
    ground.stop().await;
}

#[tokio::test]
async fn others_share_the_configuration_and_keep_what_is_theirs() {
    let mut ground = Ground::new().await;
    ground.start().await;
    ground.inject_ca(&[ENFORCE, OBSERVE]).await;
    ground.write(&policy("pools", POOLS, &json!({"mode": "Enforce"}))).await;
    ground.registered("nodepools in enforce", &[(ENFORCE, "nodepools"), (BYPASS, "nodepools")]).await;
    assert_eq!(ground.condition("pools", "Enforcing", "NoReplica").await, "False");
    // The installer applies the same manifest again, as at every upgrade.
    ground.install_registration().await;
    assert!(ground.ca(ENFORCE).await.is_some());
    assert_eq!(ground.rules(ENFORCE).await.len(), 1);
    assert_eq!(ground.managers_of_rules().await, ["policy-controller-rules"]);
    ground.delete("pools").await;
    ground.registered("no rules", &[]).await;
    assert!(ground.ca(ENFORCE).await.is_some());
    ground.stop().await;
}

#[tokio::test]
async fn rules_of_somebody_else_are_reported_and_not_fought_over() {
    let mut ground = Ground::new().await;
    ground.list_rules_as("helm", OBSERVE).await;
    ground.start().await;
    ground.write(&policy("pools", POOLS, &json!({}))).await;
    assert_eq!(ground.condition("pools", "Registered", "OwnershipConflict").await, "False");
    let message = ground.message("pools", "Registered").await;
    assert!(message.contains("\"helm\"") && message.contains(OBSERVE), "{message}");
    assert_eq!(ground.managers_of_rules().await, ["helm"]);
    ground.stop().await;
}

#[tokio::test]
async fn an_edit_that_does_not_compile_changes_nothing_in_force_also_after_a_restart() {
    let mut ground = Ground::new().await;
    ground.start().await;
    ground.write(&policy("pools", POOLS, &json!({"mode": "Enforce"}))).await;
    ground.registered("nodepools in enforce", &[(ENFORCE, "nodepools"), (BYPASS, "nodepools")]).await;
    assert_eq!(ground.condition("pools", "Accepted", "Accepted").await, "True");
    let accepted = ground.policy("pools").await["status"]["acceptedSpec"].clone();
    assert_eq!(accepted, ground.policy("pools").await["spec"]);

    let bad = json!({"mode": "Audit", "owners": [{"name": "o", "fields": [{"path": ".spec[unclosed"}]}]});
    ground.write(&policy("pools", POOLS, &bad)).await;
    assert_eq!(ground.condition("pools", "Accepted", "Invalid").await, "False");
    let message = ground.message("pools", "Accepted").await;
    assert!(
        message.contains("spec.owners[o].fields[0].path") && message.contains("stays in force"),
        "{message}"
    );
    let entries = [(ENFORCE, "nodepools"), (BYPASS, "nodepools")];
    ground.registered("still enforced", &entries).await;

    ground.stop().await;
    ground.start().await;
    // A policy that was never accepted shows that the new instance has looked at everything.
    ground.write(&policy("never", NOBODY, &bad)).await;
    assert_eq!(ground.condition("never", "Registered", "NotAccepted").await, "False");
    ground.registered("still enforced", &entries).await;
    assert_eq!(ground.policy("pools").await["status"]["acceptedSpec"], accepted);
    ground.stop().await;
}

#[tokio::test]
async fn nothing_is_written_while_nothing_happens() {
    let mut ground = Ground::new().await;
    ground.start().await;
    ground.write(&policy("pools", POOLS, &json!({"mode": "Enforce"}))).await;
    ground.registered("nodepools in enforce", &[(ENFORCE, "nodepools"), (BYPASS, "nodepools")]).await;
    assert_eq!(ground.condition("pools", "Registered", "Registered").await, "True");
    assert_eq!(ground.condition("pools", "SchemaResolved", "Resolved").await, "True");
    let before = ground.versions("pools").await;
    // An event that concerns nothing of it, and a whole new look by a new instance.
    ground.label_registration().await;
    ground.stop().await;
    ground.start().await;
    ground.write(&policy("marker", NOBODY, &json!({}))).await;
    ground
        .registered("the marker", &[(ENFORCE, "nodepools"), (OBSERVE, "unheards"), (BYPASS, "nodepools")])
        .await;
    assert_eq!(ground.condition("marker", "SchemaResolved", "NoSuchKind").await, "False");
    assert_eq!(ground.versions("pools").await.0, before.0, "the policy was not written again");
    ground.stop().await;
}

#[tokio::test]
async fn policies_on_one_resource_must_agree_on_the_version() {
    let mut ground = Ground::new().await;
    ground.start().await;
    ground.write(&policy("first", POOLS, &json!({}))).await;
    ground.registered("nodepools in observe", &[(OBSERVE, "nodepools")]).await;
    // Older by a second at least, which is how fine creationTimestamp is.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let other = json!({"group": "compute.fieldkeeper.dev", "version": "v2", "resource": "nodepools"});
    ground.write(&policy("a-second", &other.to_string(), &json!({"mode": "Enforce"}))).await;
    assert_eq!(ground.condition("a-second", "Accepted", "VersionDisagrees").await, "False");
    ground.registered("only what agrees", &[(OBSERVE, "nodepools")]).await;
    ground.delete("first").await;
    assert_eq!(ground.condition("a-second", "Accepted", "Accepted").await, "True");
    assert_eq!(ground.condition("a-second", "SchemaResolved", "VersionNotServed").await, "False");
    let rule = ground.rules(ENFORCE).await.remove(0);
    assert_eq!(rule["apiVersions"], json!(["v1alpha1"]), "all that are served");
    ground.stop().await;
}

#[tokio::test]
async fn the_loss_of_the_crd_takes_no_rules_away() {
    let mut ground = Ground::new().await;
    ground.start().await;
    ground.write(&policy("pools", POOLS, &json!({"mode": "Enforce"}))).await;
    let entries = [(ENFORCE, "nodepools"), (BYPASS, "nodepools")];
    ground.registered("nodepools in enforce", &entries).await;
    ground.lose_policy_crd().await;
    ground.says("the last good ones stay in force").await;
    ground.registered("still registered", &entries).await;
    // The CRD comes back, empty: that is no wish to have no policies.
    ground.install_crds().await;
    tokio::time::sleep(SOON).await;
    ground.registered("still registered", &entries).await;
    ground.write(&policy("pools", POOLS, &json!({}))).await;
    let limit = Duration::from_mins(1); // the watch waits longer after each failure
    let what = "the policy to count again";
    eventually(what, limit, async || (ground.entries().await == [(OBSERVE, "nodepools")]).then_some(()))
        .await
        .unwrap();
    ground.stop().await;
}

#[tokio::test]
async fn a_configuration_that_comes_late_is_filled() {
    let mut ground = Ground::new().await;
    ground.remove_registration().await;
    ground.start().await;
    ground.write(&policy("pools", POOLS, &json!({}))).await;
    assert_eq!(ground.condition("pools", "Registered", "NotInstalled").await, "False");
    ground.install_registration().await;
    ground.registered("nodepools in observe", &[(OBSERVE, "nodepools")]).await;
    assert_eq!(ground.condition("pools", "Registered", "Registered").await, "True");
    ground.stop().await;
}
