//! Shapes of values: parents, atomic nodes, keys, duplicates, types.

use serde_json::{Value, json};

use crate::arena::{Call, Kind, Pond, alice, controller, root};
use crate::harness::Identity;

#[tokio::test]
async fn b56_removing_a_parent_is_a_write_of_every_claimed_field_below() {
    let pond = Pond::new("b56").await;
    let limits = [".spec.limits.cpu", ".spec.limits.memory"];
    let body = pond.edited("/spec/limits", Value::Null).await;
    pond.put(&alice(), &body).await.refused(&limits);
    pond.put(&controller("ctrl-a"), &body).await.refused(&limits);
    let body = pond.edited("/spec", Value::Null).await;
    pond.put(&alice(), &body).await.refused(&[
        ".spec.limits.cpu",
        ".spec.limits.memory",
        ".spec.replicas",
        ".spec.size",
        r#".spec.taints[effect="NoSchedule",key="a"]"#,
        r#".spec.taints[effect="NoSchedule",key="a"].effect"#,
        r#".spec.taints[effect="NoSchedule",key="a"].key"#,
        r#".spec.taints[effect="NoSchedule",key="a"].value"#,
        r#".spec.taints[effect="NoSchedule",key="b"]"#,
        r#".spec.taints[effect="NoSchedule",key="b"].effect"#,
        r#".spec.taints[effect="NoSchedule",key="b"].key"#,
        r#".spec.taints[effect="NoSchedule",key="b"].value"#,
        r#".spec.zones[="a"]"#,
    ]);
    pond.put(&controller("ctrl-b"), &pond.edited("/spec/limits", Value::Null).await).await.allowed();
    assert_eq!(pond.read().await["spec"]["size"], "L");
}

/// An item of the atomic list that comes or goes, with its parts.
const WEB_AND_PARTS: [&str; 3] =
    [r#".spec.rules[name="web"]"#, r#".spec.rules[name="web"].name"#, r#".spec.rules[name="web"].port"#];

/// A pond with an atomic map and an atomic list, each with a part that ctrl-a owns and a part that nobody does.
async fn with_atomic_nodes(name: &str) -> Pond {
    let pond = Pond::new(name).await;
    let fields = json!({"spec": {
        "window": {"from": "08", "to": "17"},
        "rules": [{"name": "web", "port": 80}, {"name": "api", "port": 81}],
    }});
    pond.apply(&controller("ctrl-a"), "ctrl-a-atomic", &fields).await.allowed();
    pond
}

#[tokio::test]
async fn b57_replacing_an_atomic_node_is_judged_by_the_claims_below_it() {
    let pond = with_atomic_nodes("b57").await;
    let spec = |name: &str, value: Value| json!({"spec": {name: value}});
    for window in [json!({"from": "09", "to": "17"}), json!({"from": null}), json!(null)] {
        pond.patch(&alice(), &spec("window", window)).await.refused(&[".spec.window.from"]);
    }
    let body = pond.edited("/spec/window", json!({"from": "09", "to": "18"})).await;
    pond.put(&alice(), &body).await.refused(&[".spec.window.from"]);
    let rule = |name: &str, port: i64| json!({"name": name, "port": port});
    let web = WEB_AND_PARTS;
    for (rules, refused) in [
        (json!([rule("web", 8080), rule("api", 81)]), &web[2..]),
        (json!([{"name": "web"}, rule("api", 81)]), &web[2..]),
        (json!([rule("api", 81)]), &web),
        (json!([rule("www", 80), rule("api", 81)]), &web),
        (json!([]), &web),
        (json!(null), &web),
    ] {
        pond.patch(&alice(), &spec("rules", rules)).await.refused(refused);
    }
    // The parts that nobody owns, and the order.
    pond.patch(&alice(), &spec("window", json!({"to": "18"}))).await.allowed();
    pond.patch(&alice(), &spec("rules", json!([rule("api", 8081), rule("web", 80)]))).await.allowed();
    let stored = pond.read().await;
    assert_eq!(stored["spec"]["window"], json!({"from": "08", "to": "18"}));
    pond.patch(&controller("ctrl-a"), &spec("window", json!({"from": "09"}))).await.allowed();

    // What no claim covers is judged at the node itself.
    let policy = json!({"mode": "Enforce", "unlisted": "Deny", "creation": {"policy": "Anyone"}, "owners": [
        {"name": "ann", "subjects": [{"kind": "User", "name": "ann"}],
         "fields": [{"path": ".spec.window.from"}, {"path": ".spec.rules[name=\"web\"]"}]}]});
    let kind = Kind::under("b57ponds", policy).await;
    let object = json!({"spec": {"window": {"from": "08", "to": "17"}, "rules": [rule("web", 80)]}});
    kind.create(&root(), "x", &object).await.allowed();
    let ann = Identity::person("ann", &[]);
    for (value, anns) in [(json!({"to": "18"}), vec![".spec.window"]), (json!({"from": "09"}), vec![])] {
        let call = Call::merge_patch(&kind.at("x"), &spec("window", value)).dry_run();
        let reply = kind.send(&call, &ann).await;
        if anns.is_empty() { drop(reply.allowed()) } else { reply.refused(&anns) }
    }
    let both = spec("window", json!({"from": "09", "to": "18"}));
    kind.patch(&alice(), "x", &both).await.refused(&[".spec.window", ".spec.window.from"]);
    let more = spec("rules", json!([rule("web", 80), rule("api", 81)]));
    kind.patch(&ann, "x", &more).await.refused(&[".spec.rules"]);
}

#[tokio::test]
async fn b58_emptying_or_nulling_a_container_removes_what_was_in_it() {
    let pond = Pond::new("b58").await;
    let limits = [".spec.limits.cpu", ".spec.limits.memory"];
    for value in [json!({}), json!({"cpu": null})] {
        let refused = if value == json!({}) { &limits[..] } else { &limits[..1] };
        let body = pond.edited("/spec/limits", value.clone()).await;
        let call = if value == json!({}) {
            Call::put(&pond.at(""), &body)
        } else {
            Call::merge_patch(&pond.at(""), &json!({"spec": {"limits": value}}))
        };
        pond.send(&call, &alice()).await.refused(refused);
    }
    let null = json!([{"op": "add", "path": "/spec/limits", "value": null}]);
    pond.json_patch(&alice(), &null).await.refused(&limits);
    // Null is a value where the schema lets it be one.
    let null = json!([{"op": "add", "path": "/spec/note", "value": null}]);
    pond.json_patch(&alice(), &null).await.refused(&[".spec.note"]);
    pond.json_patch(&controller("ctrl-a"), &null).await.allowed();
    let absent = json!([{"op": "remove", "path": "/spec/note"}]);
    pond.json_patch(&alice(), &absent).await.refused(&[".spec.note"]);
    assert_eq!(pond.read().await["spec"]["limits"], json!({"cpu": 4, "memory": "1Gi"}));
}

#[tokio::test]
async fn b59_dots_in_a_key_are_part_of_the_key() {
    let pond = Pond::new("b59").await;
    let labels = |key: &str| json!({"spec": {"labels": {key: "x"}}});
    let owned = r#".spec.labels["a.b/c"]"#;
    pond.patch(&alice(), &labels("a.b/c")).await.refused(&[owned]);
    for key in ["a", "a.b", "b/c", "a.b/cc", "c"] {
        pond.patch(&alice(), &labels(key)).await.allowed();
    }
    // `.spec.free.deep` is a path of three names.
    let free = |value: Value| json!({"spec": {"free": value}});
    pond.patch(&alice(), &free(json!({"free.deep": 1, "deep.er": 1, "deeper": 1, "x": {"deep": 1}})))
        .await
        .allowed();
    pond.patch(&alice(), &free(json!({"deep": {"a.b": 1}}))).await.refused(&[r#".spec.free.deep["a.b"]"#]);
    pond.patch(&controller("ctrl-a"), &free(json!({"deep": {"a.b": 1}}))).await.allowed();
    // A claim on a key with dots is no claim on the names in it.
    let policy = json!({"mode": "Enforce", "creation": {"policy": "Anyone"}, "owners": [
        {"name": "ann", "subjects": [{"kind": "User", "name": "ann"}], "fields": [{"path": ".spec.free[\"a.b\"]"}]}]});
    let kind = Kind::under("b59ponds", policy).await;
    kind.create(&alice(), "x", &json!({})).await.allowed();
    kind.patch(&alice(), "x", &free(json!({"a": {"b": 1}}))).await.allowed();
    kind.patch(&alice(), "x", &free(json!({"a.b": 1}))).await.refused(&[r#".spec.free["a.b"]"#]);
}

#[tokio::test]
async fn b60_an_annotation_is_claimed_by_its_whole_key() {
    let pond = Pond::new("b60").await;
    let annotate = |key: &str| json!({"metadata": {"annotations": {key: "x"}}});
    let key = "kubectl.kubernetes.io/last-applied-configuration";
    pond.patch(&alice(), &annotate(key)).await.refused(&[&format!(".metadata.annotations[\"{key}\"]")]);
    for other in [
        "kubectl.kubernetes.io/last-applied",
        "last-applied-configuration",
        "x.kubectl.kubernetes.io/last-applied-configuration",
    ] {
        pond.patch(&alice(), &annotate(other)).await.allowed();
    }
    let longer = format!("{key}-2");
    pond.patch(&alice(), &annotate(&longer)).await.allowed();
}

#[tokio::test]
async fn b61_items_with_one_key_are_judged_as_one_group() {
    // Atomic for the server, told apart by the policy.
    let pond = with_atomic_nodes("b61").await;
    let rule = |name: &str, port: i64| json!({"name": name, "port": port});
    let rules = |items: Value| json!({"spec": {"rules": items}});
    let doubled = rules(json!([rule("web", 80), rule("web", 8080), rule("api", 81)]));
    pond.patch(&alice(), &doubled).await.refused(&WEB_AND_PARTS);
    pond.patch(&alice(), &rules(json!([rule("web", 80), rule("api", 81), rule("api", 82)]))).await.allowed();
    pond.patch(&controller("ctrl-a"), &doubled).await.allowed();
    let one_of_them = rules(json!([rule("web", 80), rule("web", 9), rule("api", 81)]));
    pond.patch(&alice(), &one_of_them).await.refused(&[r#".spec.rules[name="web"]"#]);
    pond.patch(&alice(), &rules(json!([rule("web", 80)]))).await.refused(&WEB_AND_PARTS);

    // Atomic in v1, keyed in v2, which the policy is written for: v1 lets duplicates in.
    let policy = json!({"mode": "Enforce", "creation": {"policy": "Anyone"},
        "target": {"group": "arena.example.com", "version": "v2", "resource": "b61ponds"},
        "owners": [{"name": "ann", "subjects": [{"kind": "User", "name": "ann"}],
            "fields": [{"path": ".spec.rules[name=\"web\"].port"}]}]});
    let kind = Kind::with_crd("b61ponds", policy, |crd| {
        let rules = "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties/rules";
        let rules = crd.pointer_mut(rules).unwrap();
        rules["x-kubernetes-list-type"] = json!("map");
        rules["x-kubernetes-list-map-keys"] = json!(["name"]);
        rules["items"]["required"] = json!(["name"]);
    })
    .await;
    kind.create(&root(), "x", &rules(json!([rule("web", 80), rule("api", 81)]))).await.allowed();
    let (web, port) = (r#".spec.rules[name="web"]"#, r#".spec.rules[name="web"].port"#);
    kind.patch(&alice(), "x", &doubled).await.refused(&[web, port]);
    let other = rules(json!([rule("web", 80), rule("api", 81), rule("api", 82)]));
    kind.patch(&alice(), "x", &other).await.allowed();
    let moved = rules(json!([rule("api", 81), rule("api", 82), rule("web", 8080)]));
    kind.patch(&alice(), "x", &moved).await.refused(&[port]);
}

#[tokio::test]
async fn b62_another_type_at_an_untyped_place_is_another_value() {
    let pond = Pond::new("b62").await;
    let deep = |value: Value| json!([{"op": "add", "path": "/spec/free", "value": {"deep": value}}]);
    let ctrl_a = controller("ctrl-a");
    pond.json_patch(&ctrl_a, &deep(json!(1))).await.allowed();
    for value in [json!("1"), json!([1]), json!({"a": 1}), json!(true), json!(2), json!({})] {
        let reply = pond.json_patch(&alice(), &deep(value.clone())).await;
        assert!(reply.is_refused(), "{value}: {} {}", reply.code, reply.body);
        assert!(
            reply.fields().iter().all(|field| field.starts_with(".spec.free.deep")),
            "{:?}",
            reply.fields()
        );
    }
    pond.json_patch(&alice(), &deep(json!(1.0))).await.allowed();
    pond.json_patch(&ctrl_a, &deep(json!({"a": {"b": [1]}}))).await.allowed();
    for value in [json!(1), json!({"a": 1}), json!({"a": {"b": 1}}), json!({"a": {"b": [[1]]}})] {
        let reply = pond.json_patch(&alice(), &deep(value.clone())).await;
        assert!(reply.is_refused(), "{value}: {} {}", reply.code, reply.body);
        assert!(
            reply.fields().iter().all(|field| field.starts_with(".spec.free.deep")),
            "{:?}",
            reply.fields()
        );
    }
    assert_eq!(pond.read().await["spec"]["free"]["deep"], json!({"a": {"b": [1]}}));
}
