//! Deployments: the count, an image by the name of its container, and resources of every container.

use serde_json::{Value, json};

use super::{Field, object, owner, person};
use crate::arena::{Call, alice, hpa};

/// GitOps writes containers, but a delivery tool the image of `app`, and a recommender all resources.
async fn field(namespace: &'static str) -> Field {
    let owners = [
        "  owners:\n  - name: hpa\n    subjects: [{kind: ServiceAccount, namespace: kube-system, name: \
         horizontal-pod-autoscaler}]\n    fields: [{path: .spec.replicas}]\n",
        &owner("gitops", &[".spec.template.spec.containers[*]", ".spec.revisionHistoryLimit"]),
        &owner("delivery", &[".spec.template.spec.containers[name=\"app\"].image"]),
        &owner("recommender", &[".spec.template.spec.containers[*].resources"]),
        "  integrity: {mode: Enforce, coOwnership: Enforce}\n",
    ];
    let mut probe = deployment("probe");
    probe["spec"]["replicas"] = json!(3);
    Field::new(namespace, "apps/v1/deployments", &owners.concat(), &probe).await
}

fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    object(
        "apps/v1",
        "Deployment",
        name,
        &json!({"spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "app", "image": "app:1", "ports": [{"containerPort": 80}]}]},
            },
        }}),
    )
}

/// A strategic merge patch of one container, as `kubectl set image` sends it.
fn container(name: &str, fields: &Value) -> Value {
    let mut container = fields.clone();
    container["name"] = json!(name);
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

fn strategic(field: &Field, name: &str, body: &Value) -> Call {
    Call::merge_patch("", body)
        .at(&field.path(&format!("/{name}")))
        .content("application/strategic-merge-patch+json")
}

#[tokio::test]
async fn the_count_of_a_deployment_belongs_to_whoever_may_scale_it_through_either_endpoint() {
    let field = field("anykind-count").await;
    let gitops = person("gitops");
    field.send(&field.create(&deployment("web")).manager("gitops"), &gitops).await.allowed();
    let count = json!({"spec": {"replicas": 3}});
    let scale = |name: &str| Call::merge_patch("", &count).at(&field.path(&format!("/{name}/scale")));
    field.send(&scale("web"), &gitops).await.refused(&[".spec.replicas"]);
    field.send(&field.patch("web", &count), &gitops).await.refused(&[".spec.replicas"]);
    field.send(&scale("web"), &hpa()).await.allowed();
    assert_eq!(field.read("web").await["spec"]["replicas"], 3);
    let mut back = field.read("web").await;
    back["spec"]["replicas"] = json!(1);
    // The deployment controller writes, too; here only ownership decides.
    back["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let put = |body: &Value| Call::put("", body).at(&field.path("/web"));
    field.send(&put(&back), &gitops).await.refused(&[".spec.replicas"]);
    back["spec"]["replicas"] = json!(3);
    back["spec"]["revisionHistoryLimit"] = json!(2);
    field.send(&put(&back), &gitops).await.allowed();
}

#[tokio::test]
async fn what_the_api_server_adds_to_a_new_deployment_was_set_by_nobody() {
    let field = field("anykind-defaults").await;
    // A creator who owns nothing may leave everything out, or say what would be there anyway.
    for (value, fields) in [(json!(null), &[][..]), (json!(1), &[]), (json!(2), &[".spec.replicas"])] {
        let mut new = deployment("new");
        new["spec"]["replicas"] = value;
        let reply = field.send(&field.create(&new).dry_run(), &person("gitops")).await;
        if fields.is_empty() {
            reply.allowed();
        } else {
            reply.refused(fields);
        }
    }
    // Nor does anybody have to own what is filled in beside a container's own fields.
    field.send(&field.create(&deployment("new")).dry_run(), &alice()).await.refused(&[
        ".spec.template.spec.containers[name=\"app\"]",
        ".spec.template.spec.containers[name=\"app\"].image",
        ".spec.template.spec.containers[name=\"app\"].name",
        ".spec.template.spec.containers[name=\"app\"].ports[containerPort=80,protocol=\"TCP\"]",
        ".spec.template.spec.containers[name=\"app\"].ports[containerPort=80,protocol=\"TCP\"].containerPort",
    ]);
}

#[tokio::test]
async fn an_image_has_another_owner_than_the_container_around_it() {
    let field = field("anykind-image").await;
    let (gitops, delivery) = (person("gitops"), person("delivery"));
    // Whoever owns the items adds and removes them whole, the image included.
    field.send(&field.create(&deployment("web")).manager("gitops"), &gitops).await.allowed();
    let image = strategic(&field, "web", &container("app", &json!({"image": "app:2"})));
    let path = ".spec.template.spec.containers[name=\"app\"].image";
    field.send(&image, &gitops).await.refused(&[path]);
    field.send(&image, &alice()).await.refused(&[path]);
    field.send(&image, &delivery).await.allowed();
    let both = strategic(&field, "web", &container("app", &json!({"image": "app:3", "tty": true})));
    field.send(&both, &delivery).await.refused(&[".spec.template.spec.containers[name=\"app\"].tty"]);
    let sidecar = container("sidecar", &json!({"image": "sidecar:1"}));
    field.send(&strategic(&field, "web", &sidecar).dry_run(), &gitops).await.allowed();
    let refused = field.send(&strategic(&field, "web", &sidecar).dry_run(), &delivery).await;
    assert!(refused.is_refused(), "{refused:?}");
}

#[tokio::test]
async fn a_recommender_owns_the_resources_of_every_container_and_nothing_else() {
    let field = field("anykind-resources").await;
    let (gitops, recommender) = (person("gitops"), person("recommender"));
    field.send(&field.create(&deployment("web")).manager("gitops"), &gitops).await.allowed();
    let requests = |cpu: &str| {
        let resources = json!({"resources": {"requests": {"cpu": cpu}}});
        strategic(&field, "web", &container("app", &resources))
    };
    field.send(&requests("1"), &recommender).await.allowed();
    let path = ".spec.template.spec.containers[name=\"app\"].resources.requests.cpu";
    field.send(&requests("2"), &gitops).await.refused(&[path]);
    // Quantities are stored in one spelling, so another spelling is no change.
    field.send(&requests("1000m"), &gitops).await.allowed();
    let env = strategic(&field, "web", &container("app", &json!({"env": [{"name": "A", "value": "b"}]})));
    let reply = field.send(&env, &recommender).await;
    assert!(
        reply.is_refused() && reply.fields().iter().all(|at| at.contains("[name=\"app\"].env")),
        "{reply:?}"
    );
    field.send(&env, &gitops).await.allowed();
    // An applier that leaves resources and image out keeps what their owners wrote.
    let mut applied = deployment("web");
    applied["spec"]["template"]["spec"]["containers"] = json!([{"name": "app", "tty": true}]);
    field.send(&field.apply("web", "gitops-apply", &applied).force(), &gitops).await.allowed();
    assert_eq!(
        field.read("web").await.pointer("/spec/template/spec/containers/0/resources/requests/cpu"),
        Some(&json!("1"))
    );
}
