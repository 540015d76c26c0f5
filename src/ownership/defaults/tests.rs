//! Which values nobody has to own on CREATE.

use std::sync::Arc;

use super::*;
use crate::ownership::pattern::Pattern;
use crate::ownership::raw::Tree;
use crate::ownership::schema::Schema;

fn is(resource: &str, object: &str, path: &str, given: &str) -> bool {
    let (group, resource) = resource.split_once('/').unwrap_or(("", resource));
    let target = Target {
        group: group.into(),
        resource: resource.into(),
        version: "v1".into(),
        any_version: false,
        schema: Arc::new(Schema::deduced()),
        versions: Vec::new(),
        scale: None,
        sensitive: false,
        policies: Vec::new(),
    };
    let path = Pattern::parse(path).unwrap().literal_path().unwrap();
    let object = Tree::new(Raw::parse(object).unwrap()).unwrap();
    is_default(&target, object.root(), path.elements(), Raw::parse(given).unwrap())
}

#[test]
fn a_default_holds_for_its_kind_path_and_value_alone() {
    assert!(is("apps/deployments", "{}", ".spec.replicas", "1"));
    assert!(is("apps/deployments", "{}", ".spec.replicas", "1.0"));
    assert!(!is("apps/deployments", "{}", ".spec.replicas", "2"));
    assert!(!is("apps/deployments", "{}", ".spec.replicas.x", "1"));
    assert!(!is("apps/deployments", "{}", ".spec", "1"));
    assert!(!is("example.com/deployments", "{}", ".spec.replicas", "1"));
    assert!(!is("configmaps", "{}", ".data.replicas", "\"1\""));
}

#[test]
fn a_pod_spec_has_its_defaults_wherever_it_stands() {
    for (resource, pod) in [
        ("pods", ".spec"),
        ("apps/daemonsets", ".spec.template.spec"),
        ("batch/cronjobs", ".spec.jobTemplate.spec.template.spec"),
    ] {
        assert!(is(resource, "{}", &format!("{pod}.dnsPolicy"), "\"ClusterFirst\""), "{resource}");
        let container = format!("{pod}.containers[name=\"app\"]");
        assert!(is(resource, "{}", &format!("{container}.ports[containerPort=80].protocol"), "\"TCP\""));
        assert!(is(resource, "{}", &format!("{container}.livenessProbe.periodSeconds"), "10"));
        assert!(!is(resource, "{}", &format!("{container}.image"), "\"app\""));
    }
    assert!(!is("apps/daemonsets", "{}", ".spec.dnsPolicy", "\"ClusterFirst\""));
}

#[test]
fn a_default_may_follow_the_field_beside_it() {
    let service = r#"{"spec": {"ports": [{"port": 80, "targetPort": 80}, {"port": 81, "targetPort": 80}]}}"#;
    assert!(is("services", service, ".spec.ports[port=80].targetPort", "80"));
    assert!(!is("services", service, ".spec.ports[port=81].targetPort", "80"));
    assert!(!is("services", "{}", ".spec.ports[port=80].targetPort", "80"));
}

#[test]
fn an_image_is_always_pulled_only_where_its_tag_is_latest() {
    let policy = |image: &str, policy: &str| {
        let pod = format!(r#"{{"spec": {{"containers": [{{"name": "a", "image": "{image}"}}]}}}}"#);
        is("pods", &pod, ".spec.containers[name=\"a\"].imagePullPolicy", &format!("\"{policy}\""))
    };
    for (image, latest) in [
        ("app", true),
        ("app:latest", true),
        ("registry:5000/app", true),
        ("registry:5000/app:1", false),
        ("app:1", false),
        ("app@sha256:00", false),
        ("app:latest@sha256:00", true),
    ] {
        assert_eq!(policy(image, "Always"), latest, "{image}");
        assert_eq!(policy(image, "IfNotPresent"), !latest, "{image}");
        assert!(!policy(image, "Never"));
    }
}
