//! ConfigMaps, Secrets, Services and RoleBindings.

use serde_json::{Value, json};

use super::{Field, object, owner, person};
use crate::arena::{Call, alice, arena};

fn owners(text: &str) -> String {
    format!("  failurePolicy: Ignore\n  owners:\n{text}")
}

fn config(name: &str, data: &Value) -> Value {
    object("v1", "ConfigMap", name, &json!({"data": data}))
}

#[tokio::test]
async fn a_key_of_a_config_map_has_an_owner_and_the_others_stay_free() {
    let keys = owners(&owner("platform", &[".data[\"a.b\"]"]));
    let field =
        Field::new("anykind-config", "v1/configmaps", &keys, &config("probe", &json!({"a.b": "x"}))).await;
    let platform = person("platform");
    field.send(&field.create(&config("c", &json!({"a.b": "1", "free": "1"}))), &platform).await.allowed();
    field.send(&field.patch("c", &json!({"data": {"free": "2", "new": "3"}})), &alice()).await.allowed();
    let path = ".data[\"a.b\"]";
    field.send(&field.patch("c", &json!({"data": {"a.b": "2"}})), &alice()).await.refused(&[path]);
    field.send(&field.patch("c", &json!({"data": {"a.b": null}})), &alice()).await.refused(&[path]);
    field.send(&field.patch("c", &json!({"data": null})), &alice()).await.refused(&[path]);
    field.send(&field.patch("c", &json!({"data": {"a.b": "2"}})), &platform).await.allowed();
    // An empty text is a value like any other, not what the schema calls a default.
    field.send(&field.create(&config("empty", &json!({"a.b": ""}))), &alice()).await.refused(&[path]);
}

#[tokio::test]
async fn a_secret_value_is_refused_without_being_printed_anywhere() {
    let secret =
        |name: &str, value: &str| object("v1", "Secret", name, &json!({"stringData": {"password": value}}));
    let keys = owners(&owner("vault", &[".data[\"password\"]"]));
    let field = Field::new("anykind-secret", "v1/secrets", &keys, &secret("probe", "x")).await;
    let vault = person("vault");
    field.send(&field.create(&secret("db", "hunter2")), &vault).await.allowed();
    let reply =
        field.send(&field.patch("db", &json!({"stringData": {"password": "correct horse"}})), &alice()).await;
    let told = reply.body.to_string();
    reply.refused(&[".data.password"]);
    assert!(told.contains("(hidden)"), "{told}");
    let log = field.arena.fieldkeeper.lock().await.webhook.log();
    assert!(log.contains("anykind-secret") && log.contains(".data.password"), "the refusal is logged");
    // Plain and as they are stored.
    for value in ["hunter2", "correct horse", "aHVudGVyMg==", "Y29ycmVjdCBob3JzZQ=="] {
        assert!(!told.contains(value), "{told}");
        assert!(!log.contains(value), "the log shows {value}");
    }
    field.send(&field.patch("db", &json!({"stringData": {"other": "x"}})), &alice()).await.allowed();
}

#[tokio::test]
async fn ports_of_a_service_are_told_apart_by_port_and_protocol() {
    let service = |name: &str, ports: &Value| {
        object("v1", "Service", name, &json!({"spec": {"ports": ports, "selector": {"app": name}}}))
    };
    let port = |port: i64, protocol: &str, target: i64| json!({"name": format!("{protocol}-{port}").to_lowercase(), "port": port, "protocol": protocol, "targetPort": target});
    let keys = owners(&owner("mesh", &[".spec.ports[port=53,protocol=\"TCP\"]"]));
    let probe = service("probe", &json!([{"port": 53, "targetPort": 1}]));
    let field = Field::new("anykind-service", "v1/services", &keys, &probe).await;
    let ports = json!([port(53, "TCP", 53), port(53, "UDP", 53)]);
    field.send(&field.create(&service("dns", &ports)), &person("mesh")).await.allowed();
    let change = |tcp: i64, udp: i64| {
        field.patch("dns", &json!({"spec": {"ports": [port(53, "TCP", tcp), port(53, "UDP", udp)]}}))
    };
    field.send(&change(53, 54), &alice()).await.allowed();
    let path = ".spec.ports[port=53,protocol=\"TCP\"]";
    field.send(&change(54, 54), &alice()).await.refused(&[&format!("{path}.targetPort")]);
    field.send(&change(54, 54), &person("mesh")).await.allowed();
    let gone = field.patch("dns", &json!({"spec": {"ports": [port(53, "UDP", 54)]}}));
    let reply = field.send(&gone, &alice()).await;
    assert!(reply.is_refused() && reply.fields().iter().all(|at| at.starts_with(path)), "{reply:?}");
    // The protocol may be left out by whoever writes: the API server fills it in.
    let mut plain = port(53, "TCP", 54);
    plain.as_object_mut().unwrap().remove("protocol");
    let more = json!([plain, port(53, "UDP", 54), {"name": "web", "port": 80}]);
    field.send(&field.patch("dns", &json!({"spec": {"ports": more}})), &alice()).await.allowed();
}

/// `RoleBinding`s, as requests name them.
const RESOURCE: &str = "rbac.authorization.k8s.io/v1/rolebindings";

#[tokio::test]
async fn subjects_of_a_role_binding_are_one_value_unless_a_claim_names_one_of_them() {
    let subject = |name: &str| json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
    let binding = |name: &str, subjects: &[&str]| {
        let subjects: Vec<Value> = subjects.iter().map(|name| subject(name)).collect();
        object(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            name,
            &json!({
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "anykind-reader"},
                "subjects": subjects,
            }),
        )
    };
    let whole = owners(&owner("security", &[".subjects"]));
    let role = json!({"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]});
    let role = object("rbac.authorization.k8s.io/v1", "ClusterRole", "anykind-reader", &role);
    arena().await.plane.apply(&role.to_string()).await.unwrap();
    let field = Field::new("anykind-binding", RESOURCE, &whole, &binding("probe", &["x"])).await;
    let security = person("security");
    field.send(&field.create(&binding("b", &["ann"])), &security).await.allowed();
    let change =
        |field: &Field, subjects: &[&str]| Call::put("", &binding("b", subjects)).at(&field.path("/b"));
    field.send(&change(&field, &["ann", "mallory"]), &alice()).await.refused(&[".subjects"]);
    field.send(&change(&field, &["ann", "bob"]), &security).await.allowed();
    field.send(&field.patch("b", &json!({"metadata": {"labels": {"a": "b"}}})), &alice()).await.allowed();

    let one = owners(&owner("security", &[".subjects[kind=\"User\",name=\"ann\"]"]));
    let field = Field::new("anykind-subject", RESOURCE, &one, &binding("probe", &["ann"])).await;
    field.send(&field.create(&binding("b", &["ann"])), &security).await.allowed();
    field.send(&change(&field, &["ann", "bob"]), &alice()).await.allowed();
    let reply = field.send(&change(&field, &["bob"]), &alice()).await;
    let path = ".subjects[kind=\"User\",name=\"ann\"]";
    assert!(reply.is_refused() && reply.fields().iter().all(|at| at.starts_with(path)), "{reply:?}");
    field.send(&change(&field, &["bob"]), &security).await.allowed();
}
