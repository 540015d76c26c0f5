//! `match` where it takes the whole chain: labels of namespaces, labels behind `/scale`.

use serde_json::{Value, json};

use super::{Field, object, owner, person};
use crate::arena::{Call, alice, hpa};
use crate::harness::eventually;

/// The webhook reads the object whose count is written; whoever writes the policy grants that.
const PARENTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: anykind-parents
  labels: {fieldkeeper.dev/aggregate-to-webhook: "true"}
rules:
- {apiGroups: [apps], resources: [deployments], verbs: [get]}
"#;

fn deployment(name: &str, labels: &Value, replicas: &Value) -> Value {
    let app = json!({"app": name});
    object(
        "apps/v1",
        "Deployment",
        name,
        &json!({"metadata": {"labels": labels}, "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": app},
            "template": {"metadata": {"labels": app}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}},
        }}),
    )
}

#[tokio::test]
async fn only_labelled_deployments_are_scaled_by_the_autoscaler_alone() {
    // The helper's own `match` is extended: objects in the namespace, with the label.
    let rest = [
        "  owners:\n  - name: hpa\n    subjects: [{kind: ServiceAccount, namespace: kube-system, name: \
         horizontal-pod-autoscaler}]\n    fields: [{path: .spec.replicas}]\n",
        &owner("gitops", &[".metadata.labels[\"autoscaled\"]"]),
    ];
    let probe = deployment("probe", &json!({"autoscaled": "yes"}), &json!(2));
    let selector = "{matchExpressions: [{key: autoscaled, operator: In, values: ['yes']}]}";
    let field =
        Field::selecting("anykind-match", "apps/v1/deployments", Some(selector), &rest.concat(), &probe)
            .await;
    field.arena.plane.apply(PARENTS).await.unwrap();
    let gitops = person("gitops");
    let autoscaled = deployment("auto", &json!({"autoscaled": "yes"}), &Value::Null);
    field.send(&field.create(&autoscaled), &gitops).await.allowed();
    field.send(&field.create(&deployment("free", &json!({}), &json!(2))), &alice()).await.allowed();
    let scale = |name: &str, count: i64| {
        let body = json!({"spec": {"replicas": count}});
        Call::merge_patch("", &body).at(&field.path(&format!("/{name}/scale")))
    };
    // The right to read arrives by aggregation, which takes a moment; until then nothing is decided, so refused.
    eventually("the webhook to read deployments", crate::arena::PATIENCE, async || {
        let reply = field.send(&scale("free", 3), &alice()).await;
        (200..300).contains(&reply.code).then_some(())
    })
    .await
    .unwrap();
    field.send(&scale("auto", 3), &alice()).await.refused(&[".spec.replicas"]);
    field.send(&scale("auto", 3), &hpa()).await.allowed();
    field
        .send(&field.patch("auto", &json!({"spec": {"replicas": 4}})), &alice())
        .await
        .refused(&[".spec.replicas"]);
    field.send(&field.patch("free", &json!({"spec": {"replicas": 4}})), &alice()).await.allowed();
    // The label decides, so it has an owner, in both directions.
    let label =
        |name: &str, value: Value| field.patch(name, &json!({"metadata": {"labels": {"autoscaled": value}}}));
    field.send(&label("auto", Value::Null), &alice()).await.refused(&[".metadata.labels.autoscaled"]);
    field.send(&label("free", json!("yes")), &alice()).await.refused(&[".metadata.labels.autoscaled"]);
    field.send(&label("auto", Value::Null), &gitops).await.allowed();
    field.send(&scale("auto", 5), &alice()).await.allowed();
}

#[tokio::test]
async fn a_namespace_enters_and_leaves_a_policy_with_its_labels() {
    let rest = format!("  failurePolicy: Ignore\n  owners:\n{}", owner("platform", &[".spec.hard"]));
    let quota = |name: &str| object("v1", "ResourceQuota", name, &json!({"spec": {"hard": {"pods": "1"}}}));
    let field = Field::new("anykind-in", "v1/resourcequotas", &rest, &quota("probe")).await;
    field.arena.plane.ensure_namespace("anykind-out").await.unwrap();
    let out = |name: &str| {
        Call::create("", &quota(name)).at("/api/v1/namespaces/anykind-out/resourcequotas").dry_run()
    };
    // A namespace is governed until the webhook has seen its labels.
    eventually("the other namespace to be known", crate::arena::PATIENCE, async || {
        (200..300).contains(&field.send(&out("a"), &alice()).await.code).then_some(())
    })
    .await
    .unwrap();
    field.send(&field.create(&quota("a")), &alice()).await.refused(&[".spec.hard.pods"]);
    // Another policy by a label that people give.
    let by_label = super::policy(
        "anykind-labelled",
        "v1",
        "resourcequotas",
        &format!("  match: {{namespaceSelector: {{matchLabels: {{quota: strict}}}}}}\n{rest}"),
    );
    field.arena.enforce(&by_label, "anykind-labelled").await;
    field.send(&out("b"), &alice()).await.allowed();
    field
        .arena
        .plane
        .kubectl(&["label", "namespace", "anykind-out", "quota=strict"])
        .await
        .unwrap()
        .ok()
        .unwrap();
    field.arena.until_refused(&out("c"), &alice()).await;
    field.arena.plane.kubectl(&["label", "namespace", "anykind-out", "quota-"]).await.unwrap().ok().unwrap();
    eventually("the namespace to leave the policy", crate::arena::PATIENCE, async || {
        (200..300).contains(&field.send(&out("d"), &alice()).await.code).then_some(())
    })
    .await
    .unwrap();
}
