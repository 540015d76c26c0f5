//! Schemas of built-in kinds reach the policy's status.

use serde_json::Value;

use super::{owner, policy};
use crate::arena::{PATIENCE, arena};
use crate::harness::eventually;

/// The condition `SchemaResolved` of a policy on a built-in kind that only audits.
async fn resolved(name: &str, api: &str, resource: &str, paths: &[&str]) -> (String, String) {
    let arena = arena().await;
    let rest = format!("  owners:\n{}", owner("a", paths));
    let policy = policy(name, api, resource, &rest).replace("mode: Enforce", "mode: Audit");
    arena.enforce(&policy, name).await;
    let condition = async || {
        let output = arena.plane.kubectl(&["get", "fieldpolicy", name, "-o", "json"]).await.unwrap();
        let object: Value = serde_json::from_str(&output.text()).ok()?;
        let conditions = object.pointer("/status/conditions")?.as_array()?.clone();
        let condition = conditions.into_iter().find(|condition| condition["type"] == "SchemaResolved")?;
        let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        (text("reason") != "NotLoaded").then(|| (text("reason"), text("message")))
    };
    let found = eventually("SchemaResolved", PATIENCE, condition).await.unwrap();
    arena.plane.kubectl(&["delete", "fieldpolicy", name]).await.unwrap().ok().unwrap();
    found
}

#[tokio::test]
async fn paths_of_built_in_kinds_are_checked_against_their_schema() {
    let paths = [".spec.replicas", ".spec.template.spec.containers[*].image", ".metadata.labels[\"a\"]"];
    assert_eq!(resolved("kind-apps", "apps/v1", "statefulsets", &paths).await.0, "Resolved");
    assert_eq!(resolved("kind-core", "v1", "limitranges", &[".spec.limits"]).await.0, "Resolved");
    let (reason, message) = resolved("kind-typo", "apps/v1", "daemonsets", &[".spec.tmeplate"]).await;
    assert_eq!(reason, "PathNotFound");
    assert_eq!(message, "the schema has no .spec.tmeplate; did you mean .spec.template?");
}

#[tokio::test]
async fn a_version_or_a_resource_that_the_api_server_does_not_have_is_named() {
    let (reason, message) = resolved("kind-version", "batch/v2", "cronjobs", &[".spec"]).await;
    assert_eq!(reason, "VersionNotServed");
    assert!(message.contains("served: v1"), "{message}");
    assert_eq!(resolved("kind-resource", "batch/v1", "chores", &[".spec"]).await.0, "NoSuchKind");
}
