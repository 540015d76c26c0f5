//! Admission policies generated from FieldPolicies, on a real control plane where no webhook answers.

mod ground;
mod random;
mod sample;

use std::time::Duration;

use fieldkeeper::policy::export_vap::MAX_RULES;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use self::ground::Ground;
use crate::arena::{Call, Reply};
use crate::harness::Identity;

/// For what several processes have to notice on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether a generated admission policy, and nobody else, refused.
pub fn by_admission_policy(reply: &Reply) -> bool {
    reply.code == 403
        && reply.message().contains("denied request: FieldPolicy ")
        && reply.message().contains(".fieldpolicies.fieldkeeper.dev'")
}

fn person(name: &str) -> Identity {
    Identity::person(name, &[])
}

/// The policy of these tests: every kind of rule.
fn policy(rest: &Value) -> Value {
    let user = |name: &str| json!([{"kind": "User", "name": name}]);
    let mut spec = json!({
        "target": {"group": "arena.example.com", "version": "v1", "resource": "ponds"},
        "mode": "Enforce", "failurePolicy": "Ignore", "admissionPolicy": "Deny",
        "creation": {"policy": "Anyone"},
        "breakGlass": {"subjects": user("eve")},
        "deletion": {"subjects": user("root")},
        "owners": [
            {"name": "keeper", "subjects": user("ann"), "fields": [
                {"path": ".spec.size"}, {"path": ".spec.mode"}, {"path": ".spec.replicas"}, {"path": ".spec.labels"},
                {"path": ".spec.limits.cpu"}, {"path": ".spec.zones"}, {"path": ".spec.args"},
                {"path": ".spec.taints[key=\"a\",effect=\"NoSchedule\"]"}, {"path": ".spec.window"},
                {"path": ".metadata.labels.x"}, {"path": ".metadata.ownerReferences"},
                {"path": ".metadata.finalizers[=\"arena.example.com/fin\"]"}, {"path": ".status"},
            ]},
            {"name": "storm", "subjects": user("sam"), "fields": [
                {"path": ".spec.note", "when": "oldObject.spec.mode == 'storm'"},
            ]},
            {"name": "nobody", "fields": [{"path": ".spec.shape", "instead": "leave ponds round"}]},
        ],
    });
    for (key, value) in rest.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy", "metadata": {"name": "ponds"}, "spec": spec})
}

fn merge(name: &str, patch: &Value) -> Call {
    Call::merge_patch(&format!("ponds/{name}"), patch)
}

#[tokio::test]
async fn without_a_webhook_the_api_server_refuses_a_stranger_and_nobody_else() {
    let ground = Ground::new().await;
    ground.write(&policy(&json!({}))).await;
    ground.pond("p", &json!({"size": "S", "replicas": 1})).await;
    ground.until_refused(&merge("p", &json!({"spec": {"size": "L"}})), &person("bob")).await;

    let reply = ground.send(&merge("p", &json!({"spec": {"size": "L"}})), &person("bob")).await;
    let message = reply.message();
    assert!(message.contains("ValidatingAdmissionPolicy 'ponds.fieldpolicies.fieldkeeper.dev'"), "{message}");
    assert!(
        message.contains("FieldPolicy ponds: .spec.size: owned by keeper (User ann). Instead: "),
        "{message}"
    );
    let closed = ground.send(&merge("p", &json!({"spec": {"shape": "flat"}})), &person("ann")).await;
    assert!(
        closed.message().contains(".spec.shape: nobody may write it. Instead: leave ponds round"),
        "{}",
        closed.message()
    );
    let taint = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule", "value": "v"}]}});
    for change in [
        json!({"spec": {"size": null}}),
        json!({"spec": {"labels": {"l": "v"}}}),
        json!({"spec": {"limits": {"cpu": 1}}}),
        json!({"spec": {"zones": ["z"]}}),
        json!({"spec": {"args": ["a"]}}),
        json!({"spec": {"window": {"from": "1"}}}),
        json!({"metadata": {"labels": {"x": "1"}}}),
        json!({"metadata": {"finalizers": ["arena.example.com/fin"]}}),
        taint,
    ] {
        let reply = ground.send(&merge("p", &change).dry_run(), &person("bob")).await;
        assert!(by_admission_policy(&reply), "{change}: {} {}", reply.code, reply.body);
        ground.send(&merge("p", &change).dry_run(), &person("ann")).await.allowed();
        ground.send(&merge("p", &change).dry_run(), &person("eve")).await.allowed();
        let bypass = Identity::person("bob", &["fieldkeeper.dev:bypass"]);
        ground.send(&merge("p", &change).dry_run(), &bypass).await.allowed();
    }
    // What nobody claims, and subresources.
    ground.send(&merge("p", &json!({"spec": {"free": {"a": 1}}})), &person("bob")).await.allowed();
    for part in ["p/scale", "p/status"] {
        let change = if part == "p/scale" {
            json!({"spec": {"replicas": 3}})
        } else {
            json!({"status": {"phase": "Wet"}})
        };
        let reply = ground.send(&merge(part, &change), &person("bob")).await;
        assert!(by_admission_policy(&reply), "{part}: {} {}", reply.code, reply.body);
        ground.send(&merge(part, &change), &person("ann")).await.allowed();
    }
    // One commit may switch the mode and rely on it, if it may switch it.
    let both = json!({"spec": {"mode": "storm", "note": "n"}});
    assert!(by_admission_policy(&ground.send(&merge("p", &both).dry_run(), &person("sam")).await));
    ground.send(&merge("p", &json!({"spec": {"mode": "storm"}})), &person("ann")).await.allowed();
    ground.send(&merge("p", &json!({"spec": {"note": "n"}})), &person("sam")).await.allowed();
    assert!(by_admission_policy(&ground.send(&Call::delete("ponds/p"), &person("ann")).await));
    ground.send(&Call::delete("ponds/p"), &person("root")).await.allowed();
    ground.end().await;
}

#[tokio::test]
async fn the_garbage_collector_is_never_in_the_way() {
    let ground = Ground::new().await;
    ground.write(&policy(&json!({}))).await;
    let owner = ground.pond("owner", &json!({})).await;
    let reference = json!({
        "apiVersion": "arena.example.com/v1", "kind": "Pond", "name": "owner", "uid": owner["metadata"]["uid"],
    });
    ground.pond("owned", &json!({"size": "S"})).await;
    let change =
        json!({"metadata": {"ownerReferences": [reference], "finalizers": ["arena.example.com/fin"]}});
    ground.send(&merge("owned", &change), &person("ann")).await.allowed();
    ground.until_refused(&merge("owned", &json!({"spec": {"size": "L"}})), &person("bob")).await;
    let collector =
        Identity::impersonated("system:serviceaccount:kube-system:generic-garbage-collector", &[]);
    let free = json!({"metadata": {"ownerReferences": null, "finalizers": null}});
    ground.send(&merge("owned", &free), &collector).await.allowed();
    ground.send(&Call::delete("ponds/owned"), &collector).await.allowed();
    ground.end().await;
}

#[tokio::test]
async fn what_a_mutating_policy_makes_of_a_write_is_not_held_against_it() {
    let ground = Ground::new().await;
    ground.write(&policy(&json!({}))).await;
    ground.pond("p", &json!({"size": "S"})).await;
    if !ground.mutate_size_of_what_bob_writes().await {
        return ground.end().await;
    }
    ground.until_refused(&merge("p", &json!({"spec": {"args": ["x"]}})), &person("bob")).await;
    let mutated = json!({"metadata": {"annotations": {"some": "note"}}});
    ground
        .until("the mutation", async || {
            let reply = ground.send(&merge("p", &mutated).dry_run(), &person("bob")).await;
            assert_eq!(reply.code, 200, "{}", reply.body);
            (reply.body["spec"]["size"] == "mutated").then_some(())
        })
        .await;
    // The same change by the request itself.
    let own = json!({"spec": {"size": "mine"}});
    assert!(by_admission_policy(&ground.send(&merge("p", &own), &person("bob")).await));
    ground.end().await;
}

#[tokio::test]
async fn a_paused_policy_only_records_and_refuses_again_when_the_pause_ends() {
    let ground = Ground::new().await;
    ground.write(&policy(&json!({}))).await;
    ground.pond("p", &json!({"size": "S"})).await;
    let change = merge("p", &json!({"spec": {"size": "L"}}));
    ground.until_refused(&change, &person("bob")).await;

    let until = Timestamp::from_second(Timestamp::now().as_second() + 8).unwrap();
    ground.write(&policy(&json!({"pausedUntil": until.to_string()}))).await;
    let user = person("bob");
    ground
        .until("a write to pass", async || (ground.send(&change, &user).await.code == 200).then_some(()))
        .await;
    let event = ground
        .plane
        .audit_event("with the broken rule", |event| {
            event.user.username == "bob"
                && event.annotations.iter().any(|(key, value)| {
                    key == "validation.policy.admission.k8s.io/validation_failure"
                        && value.contains(".spec.size: owned by")
                })
        })
        .await
        .unwrap();
    assert_eq!(event.verb, "patch");
    ground.until_refused(&merge("p", &json!({"spec": {"size": "M"}})), &person("bob")).await;
    assert!(Timestamp::now() >= until, "not before the pause is over");
    ground.end().await;
}

#[tokio::test]
async fn the_objects_come_and_go_with_the_wish_for_them() {
    let mut ground = Ground::new().await;
    ground.write(&policy(&json!({}))).await;
    ground.generated("one of each", 1).await;
    let message = ground.message_of_registered("rules, its annotation fieldkeeper.dev/left-out").await;
    assert!(
        message.contains("ValidatingAdmissionPolicy ponds.fieldpolicies.fieldkeeper.dev refuses by"),
        "{message}"
    );
    let rules = ground.checked_rules().await;
    let left_out = rules["metadata"]["annotations"]["fieldkeeper.dev/left-out"].as_str().unwrap();
    assert!(left_out.contains("integrity of managedFields"), "{left_out}");
    assert!(left_out.contains(".metadata.ownerReferences: "), "{left_out}");

    // Nothing is written while nothing changes, also by a new instance; an edit by hand is put right.
    ground.restart().await;
    ground.write(&policy(&json!({"unlisted": "Warn"}))).await;
    ground.message_of_registered("refuses by").await;
    assert_eq!(ground.rules().await["metadata"]["resourceVersion"], rules["metadata"]["resourceVersion"]);
    ground.weaken().await;
    ground
        .until("the edit to be undone", async || {
            (ground.rules().await["spec"] == rules["spec"]).then_some(())
        })
        .await;

    for wish in [json!({"admissionPolicy": "None"}), json!({"admissionPolicy": "Audit"})] {
        ground.write(&policy(&wish)).await;
        ground.generated("none, then one again", usize::from(wish["admissionPolicy"] == "Audit")).await;
    }
    // Taken away while nobody looks.
    ground.stop().await;
    ground.delete_policy().await;
    ground.generated("one that is left behind", 1).await;
    ground.restart().await;
    ground.generated("none", 0).await;
    ground.write(&policy(&json!({}))).await;
    ground.generated("one of each", 1).await;
    ground.delete_policy().await;
    ground.generated("none", 0).await;
    ground.end().await;
}

#[tokio::test]
async fn the_type_checker_has_nothing_against_the_rules_and_if_it_had_the_policy_would_say_so() {
    let ground = Ground::new().await;
    ground.write(&policy(&json!({}))).await;
    ground.generated("one of each", 1).await;
    if !ground.plane.has_controller_manager() {
        return ground.end().await;
    }
    let checked = ground.checked_rules().await;
    let warnings = &checked["status"]["typeChecking"]["expressionWarnings"];
    assert!(warnings.is_null(), "{warnings:#}");
    ground.warn_of("spec.validations[0].expression", "undefined field 'size'").await;
    let message = ground.message_of_registered("undefined field 'size'").await;
    assert!(message.contains("do not fit the kind"), "{message}");
    ground.end().await;
}

#[tokio::test]
async fn without_the_right_to_keep_them_the_policy_says_so_and_is_registered_all_the_same() {
    let mut ground = Ground::new().await;
    ground.take_rights().await;
    ground.restart().await;
    ground.write(&policy(&json!({}))).await;
    let message = ground.message_of_registered("cannot be kept").await;
    assert!(message.contains("validatingadmissionpolic"), "{message}");
    ground.end().await;
}

fn deployment(name: &str, container: &str, replicas: Option<u32>) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": container, "image": "one"}]},
            },
        },
    });
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = replicas.into();
    }
    object
}

#[tokio::test]
async fn a_built_in_kind_is_judged_like_any_other_where_the_policy_governs() {
    let ground = Ground::new().await;
    ground.plane.ensure_namespace("free").await.unwrap();
    let ann = json!([{"kind": "User", "name": "ann"}]);
    ground
        .write(&policy(&json!({
            "target": {"group": "apps", "version": "v1", "resource": "deployments"},
            "match": {"namespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["free"]}]}},
            "creation": {"policy": "Owners"},
            "owners": [{"name": "keeper", "subjects": ann, "fields": [
                {"path": ".spec.replicas"}, {"path": ".metadata.labels"},
                {"path": ".spec.template.spec.containers[name=\"app\"].image"},
            ]}],
        })))
        .await;
    let (ann, bob) = (person("ann"), person("bob"));
    let create = |namespace: &str, object: &Value| {
        Call::create("", object).at(&format!("/apis/apps/v1/namespaces/{namespace}/deployments"))
    };
    ground.until_refused(&create("default", &deployment("a", "app", None)), &bob).await;
    ground.send(&create("default", &deployment("a", "app", Some(2))), &ann).await.allowed();
    // A default was set by nobody, and one replica is it.
    for (replicas, fine) in [(None, true), (Some(1), true), (Some(2), false)] {
        let call = create("default", &deployment("b", "other", replicas)).dry_run();
        let reply = ground.send(&call, &bob).await;
        assert_eq!(by_admission_policy(&reply), !fine, "{replicas:?}: {} {}", reply.code, reply.body);
    }
    for namespace in ["free", "kube-system"] {
        let call = create(namespace, &deployment("a", "app", Some(2))).dry_run();
        ground.send(&call, &bob).await.allowed();
    }
    let at =
        |call: Call, part: &str| call.at(&format!("/apis/apps/v1/namespaces/default/deployments/a{part}"));
    let container = "/spec/template/spec/containers/0";
    let patch = |op: &str, path: &str, value: Value| {
        at(Call::json_patch("", &json!([{"op": op, "path": path, "value": value}])), "").dry_run()
    };
    let image = patch("replace", &format!("{container}/image"), json!("two"));
    let renamed = patch("replace", container, json!({"name": "new", "image": "one"}));
    let labelled = patch("add", "/metadata/labels", json!({"l": "v"}));
    let scaled = at(Call::merge_patch("", &json!({"spec": {"replicas": 5}})), "/scale").dry_run();
    for (what, call) in [("image", image), ("container", renamed), ("labels", labelled), ("scale", scaled)] {
        let reply = ground.send(&call, &bob).await;
        assert!(by_admission_policy(&reply), "{what}: {} {}", reply.code, reply.body);
        ground.send(&call, &ann).await.allowed();
    }
    let command = patch("add", &format!("{container}/command"), json!(["sleep"]));
    ground.send(&command, &bob).await.allowed();
    ground.send(&at(Call::delete(""), ""), &person("root")).await.allowed();
    ground.end().await;
}

#[tokio::test]
async fn a_policy_of_the_largest_size_stays_within_the_cost_that_the_api_server_allows() {
    let ground = Ground::new().await;
    // All rules but the one about deletion.
    let names: Vec<String> = (0..MAX_RULES).map(|number| format!("label-{number}")).collect();
    let field = |name: &String| json!({"path": format!(".spec.labels[\"{name}\"]")});
    let owners: Vec<Value> = names
        .chunks(50)
        .enumerate()
        .map(|(number, names)| {
            let fields: Vec<Value> = names.iter().map(field).collect();
            json!({"name": format!("keeper-{number}"), "subjects": [{"kind": "User", "name": "ann"}], "fields": fields})
        })
        .collect();
    ground.write(&policy(&json!({"owners": owners}))).await;
    let labels = |value: &str| -> Value { names.iter().map(|name| (name.clone(), json!(value))).collect() };
    ground.pond("p", &json!({"labels": labels("a")})).await;
    // As many entries as an object has that a dozen tools write.
    for number in 0..12 {
        let note = json!({
            "apiVersion": "arena.example.com/v1", "kind": "Pond", "metadata": {"name": "p", "annotations": {
                format!("note-{number}"): "x"}},
        });
        let call = Call::apply("ponds/p", &format!("tool-{number}"), &note);
        ground.send(&call, &person("bob")).await.allowed();
    }
    let last = json!({"spec": {"labels": {names.last().unwrap(): "b"}}});
    ground.until_refused(&merge("p", &last), &person("bob")).await;
    let all = merge("p", &json!({"spec": {"labels": labels("b")}})).dry_run();
    let reply = ground.send(&all, &person("bob")).await;
    assert!(by_admission_policy(&reply), "{} {}", reply.code, reply.body);
    ground.send(&all, &person("ann")).await.allowed();
    ground.end().await;
}
