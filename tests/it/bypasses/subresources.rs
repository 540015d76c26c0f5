//! Subresources and versions: the same field, written through another door.

use std::collections::BTreeSet;
use std::sync::Arc;

use fieldkeeper::cluster::feed::Scene;
use fieldkeeper::cluster::in_force::{GroupResource, judge, with_compiler};
use fieldkeeper::cluster::policies::StoredPolicy;
use fieldkeeper::cluster::schemas::{Kind as KnownKind, Unresolved};
use fieldkeeper::controllers::policy::entry::Registration;
use fieldkeeper::controllers::policy::plan::plan;
use serde_json::{Value, json};

use crate::arena::{
    Arena, Call, Kind, Pond, alice, apply_policy, arena, controller, converter, hpa, rename_in_v2, root,
};
use crate::decisions::with;
use crate::harness::{Identity, eventually};

const CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fieldkeeper";

/// The rule of the enforcing entry for a resource, as it is live.
async fn live_rule(arena: &Arena, resource: &str) -> Value {
    let live = arena.send(&Call::get("").at(CONFIGURATION), &root()).await.allowed();
    let rules = live["webhooks"][0]["rules"].as_array().unwrap().clone();
    rules.into_iter().find(|rule| rule["resources"][0] == resource).unwrap_or_default()
}

/// A merge patch of `/scale` in some version of some kind.
fn scaled(object: &str, replicas: i64) -> Call {
    Call::merge_patch(&format!("{object}/scale"), &json!({"spec": {"replicas": replicas}}))
}

#[tokio::test]
async fn b36_the_registration_names_status_and_scale_with_their_kind() {
    let pond = Pond::new("b36").await;
    let rule = live_rule(pond.arena, "ponds").await;
    assert_eq!(rule["resources"], json!(["ponds", "ponds/status", "ponds/scale"]));
    assert_eq!(rule["operations"], json!(["CREATE", "UPDATE", "DELETE"]));
    pond.scale(&alice(), 9).await.refused(&[".spec.replicas"]);
    assert_eq!(pond.read().await["spec"]["replicas"], 3);
}

#[tokio::test]
async fn b37_no_entry_has_an_object_selector_that_would_exempt_scale() {
    let pond = Pond::new("b37").await;
    let live = pond.send(&Call::get("").at(CONFIGURATION), &root()).await.allowed();
    for entry in live["webhooks"].as_array().unwrap() {
        assert_eq!(entry["objectSelector"], json!({}), "{}", entry["name"]);
    }
    // A Scale has no labels, whatever its object has.
    pond.patch(&alice(), &json!({"metadata": {"labels": {"any": "thing"}}})).await.allowed();
    pond.scale(&alice(), 9).await.refused(&[".spec.replicas"]);
}

#[tokio::test]
async fn b38_zero_on_an_object_without_a_count_is_a_write_that_the_review_does_not_show() {
    let pond = Pond::bare("b38").await;
    let scale = pond.send(&Call::get(&pond.at("/scale")), &alice()).await;
    assert_eq!(scale.code, 500, "there is no count to show: {}", scale.body);
    let version = pond.read().await["metadata"]["resourceVersion"].clone();
    let zero = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "b38", "resourceVersion": version}, "spec": {"replicas": 0}});
    let call = Call::put(&pond.at("/scale"), &zero);
    pond.send(&call, &alice()).await.refused(&[".spec.replicas"]);
    assert_eq!(pond.read().await["spec"].get("replicas"), None);
    pond.send(&call, &hpa()).await.allowed();
    assert_eq!(pond.read().await["spec"]["replicas"], 0);
    // Now zero is what is there.
    pond.scale(&alice(), 0).await.allowed();
}

#[tokio::test]
async fn b39_however_scale_is_written_it_is_one_write_of_the_count() {
    let pond = Pond::new("b39").await;
    let at = pond.at("/scale");
    let scale = pond.send(&Call::get(&at), &alice()).await.allowed();
    let put = Call::put(&at, &with(scale, "/spec/replicas", json!(9)));
    let json_patch = Call::json_patch(&at, &json!([{"op": "replace", "path": "/spec/replicas", "value": 9}]));
    let merge_patch = scaled(&pond.at(""), 9);
    for call in [put, json_patch, merge_patch] {
        pond.send(&call, &alice()).await.refused(&[".spec.replicas"]);
        pond.send(&call.clone().manager("horizontal-pod-autoscaler"), &alice())
            .await
            .refused(&[".spec.replicas"]);
        pond.send(&call.dry_run(), &hpa()).await.allowed();
    }
    assert_eq!(pond.read().await["spec"]["replicas"], 3);
}

#[tokio::test]
async fn b40_what_is_unapplied_on_scale_is_a_write_of_the_count_where_the_server_can_do_it_at_all() {
    // Upstream cannot apply to /scale of a custom resource, whoever asks.
    let pond = Pond::new("b40").await;
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "b40"}, "spec": {"replicas": 9}});
    for who in [alice(), hpa()] {
        let reply = pond.send(&Call::apply(&pond.at("/scale"), "scaler", &scale).force(), &who).await;
        assert_eq!(reply.code, 500, "{}", reply.body);
        assert!(reply.message().contains("to proper version"), "{}", reply.message());
    }
    assert_eq!(pond.read().await["spec"]["replicas"], 3);

    // On a built-in kind it works: 5, and then nothing.
    let arena = arena().await;
    let policy = json!({
        "target": {"group": "apps", "version": "v1", "resource": "statefulsets"}, "mode": "Enforce",
        "creation": {"policy": "Anyone"},
        "owners": [{"name": "scaler", "subjects": [{"kind": "User", "name": "b40-scaler"}],
            "fields": [{"path": ".spec.replicas", "when": "oldObject.metadata.name == 'b40'"}]}],
    });
    apply_policy(arena.plane, "b40-statefulsets", &policy).await;
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "b40"}, "spec": {
        "replicas": 1, "serviceName": "b40", "selector": {"matchLabels": {"app": "b40"}},
        "template": {"metadata": {"labels": {"app": "b40"}},
            "spec": {"nodeName": "nowhere", "containers": [{"name": "c", "image": "example.com/c"}]}},
    }});
    arena.send(&Call::create("", &set).at(sets), &root()).await.allowed();
    let at = format!("{sets}/b40/scale");
    let apply = |replicas: Value| {
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "b40"}, "spec": replicas});
        Call::apply("", "scaler", &scale).force().at(&at)
    };
    let scaler = Identity::person("b40-scaler", &[]);
    arena.until_refused(&apply(json!({"replicas": 2})).dry_run(), &alice()).await;
    // The StatefulSet's controller writes its status meanwhile: a conflict is answered by asking again.
    let applied = async |replicas: Value, who: &Identity| {
        let ask =
            async || Some(arena.send(&apply(replicas.clone()), who).await).filter(|reply| reply.code != 409);
        eventually("an answer", crate::arena::PATIENCE, ask).await.unwrap()
    };
    applied(json!({"replicas": 5}), &scaler).await.allowed();
    applied(json!({"replicas": 4}), &alice()).await.refused(&[".spec.replicas"]);
    applied(json!({"replicas": 0}), &alice()).await.refused(&[".spec.replicas"]);
    let count = async || {
        let stored = arena.send(&Call::get("").at(&format!("{sets}/b40")), &root()).await.allowed();
        stored["spec"]["replicas"].clone()
    };
    assert_eq!(count().await, 5);
    applied(json!({}), &scaler).await.allowed();
    assert_eq!(count().await, 0, "the owner's un-apply takes the count to zero");
}

#[tokio::test]
async fn b41_a_write_in_another_version_is_converted_and_judged() {
    let pond = Pond::new("b41").await;
    assert_eq!(live_rule(pond.arena, "ponds").await["apiVersions"], json!(["v1"]));
    let patch = |at: &str, body: Value| Call::merge_patch(&pond.at(at), &body).version("v2");
    let size = patch("", json!({"spec": {"size": "XL"}}));
    pond.send(&size, &alice()).await.refused(&[".spec.size"]);
    pond.send(&patch("/scale", json!({"spec": {"replicas": 9}})), &alice())
        .await
        .refused(&[".spec.replicas"]);
    let phase = patch("/status", json!({"status": {"phase": "Dry"}}));
    pond.send(&phase, &alice()).await.refused(&[".status.phase"]);
    let other = crate::arena::pond("b41-other", &json!({"size": "S"}));
    let other = with(other, "/apiVersion", json!("arena.example.com/v2"));
    pond.send(&Call::create("ponds", &other).version("v2"), &alice()).await.refused(&[".spec.size"]);
    pond.send(&size, &controller("ctrl-a")).await.allowed();
}

#[tokio::test]
async fn b42_a_field_with_another_name_in_another_version_is_judged_under_its_own() {
    let conversion = converter(arena().await.plane, "b42-converter").await;
    let policy = json!({"mode": "Enforce", "creation": {"policy": "Anyone"}, "owners": [
        {"name": "ann", "subjects": [{"kind": "User", "name": "ann"}], "fields": [{"path": ".spec.size"}]}]});
    let kind = Kind::with_crd("b42ponds", policy, |crd| {
        crd["spec"]["conversion"] = conversion;
        rename_in_v2(crd);
    })
    .await;
    kind.create(&root(), "x", &json!({"spec": {"size": "L", "mode": "calm"}})).await.allowed();
    let patch = |spec: Value| Call::merge_patch(&kind.at("x"), &json!({"spec": spec})).version("v2");
    kind.send(&patch(json!({"width": "XL"})), &alice()).await.refused(&[".spec.size"]);
    kind.send(&patch(json!({"width": null})), &alice()).await.refused(&[".spec.size"]);
    kind.send(&patch(json!({"mode": "wild"})), &alice()).await.allowed();
    kind.send(&patch(json!({"width": "XL"})), &Identity::person("ann", &[])).await.allowed();
    assert_eq!(kind.read("x").await["spec"]["size"], "XL");
    kind.remove().await;
    kind.gone().await;
}

#[tokio::test]
async fn b43_a_kind_that_drops_the_version_of_its_policies_is_judged_in_all_others() {
    let policy = json!({"mode": "Enforce", "creation": {"policy": "Anyone"}, "owners": [
        {"name": "ann", "subjects": [{"kind": "User", "name": "ann"}],
         "fields": [{"path": ".spec.size"}, {"path": ".spec.replicas"}]}]});
    let stored_in_v2 = |crd: &mut Value| {
        crd["spec"]["versions"][0]["storage"] = json!(false);
        crd["spec"]["versions"][1]["storage"] = json!(true);
    };
    let ann = Identity::person("ann", &[]);
    let in_v2 = |call: Call| call.version("v2");

    // With conversion None all versions hold the same fields: the paths still hold.
    let kind = Kind::with_crd("b43ponds", policy.clone(), stored_in_v2).await;
    kind.create(&root(), "x", &json!({"spec": {"size": "L"}})).await.allowed();
    kind.patch_crd(&json!([{"op": "replace", "path": "/spec/versions/0/served", "value": false}])).await;
    let message = kind.condition("SchemaResolved", "False", "VersionNotServed").await;
    assert_eq!(message, "version v1 is not served; served: v2");
    kind.condition("Ready", "False", "VersionNotServed").await;
    let rule = async || {
        let rule = live_rule(arena().await, &kind.plural).await;
        (rule["apiVersions"] == json!(["v2"])).then_some(())
    };
    eventually("all served versions to be registered", crate::arena::PATIENCE, rule).await.unwrap();
    let size = |size: &str| in_v2(Call::merge_patch(&kind.at("x"), &json!({"spec": {"size": size}})));
    arena().await.until_refused(&size("XL").dry_run(), &alice()).await;
    kind.send(&size("XL"), &alice()).await.refused(&[".spec.size"]);
    kind.send(&in_v2(scaled(&kind.at("x"), 9)), &alice()).await.refused(&[".spec.replicas"]);
    kind.send(&in_v2(scaled(&kind.at("x"), 0)), &alice()).await.refused(&[".spec.replicas"]);
    let mode = in_v2(Call::merge_patch(&kind.at("x"), &json!({"spec": {"mode": "wild"}})));
    kind.send(&mode, &alice()).await.allowed();
    kind.send(&size("S"), &ann).await.allowed();
    // Gone altogether, entries of v1 are unreadable and tracking stands still: values still tell.
    kind.patch_crd(&json!([{"op": "remove", "path": "/spec/versions/0"}])).await;
    let served = async || (kind.send(&size("S"), &ann).await.code == 200).then_some(());
    eventually("the version to be gone", crate::arena::PATIENCE, served).await.unwrap();
    // A moment earlier, before the webhook knows, a release that wipes the list looks as if she had.
    let told = async || {
        let reply = kind.send(&size("XL"), &alice()).await;
        assert!(reply.is_refused(), "{reply:?}");
        (reply.fields() == [".spec.size"]).then_some(())
    };
    eventually("the webhook to know that the version is gone", crate::arena::PATIENCE, told).await.unwrap();

    // With a conversion webhook nothing is known of the other versions' fields.
    let conversion = converter(arena().await.plane, "b43-converter").await;
    let kind = Kind::with_crd("b43convertedponds", policy, |crd| {
        stored_in_v2(crd);
        crd["spec"]["conversion"] = conversion;
        rename_in_v2(crd);
    })
    .await;
    kind.create(&root(), "x", &json!({"spec": {"size": "L"}})).await.allowed();
    kind.patch_crd(&json!([{"op": "replace", "path": "/spec/versions/0/served", "value": false}])).await;
    kind.condition("SchemaResolved", "False", "VersionNotServed").await;
    let width = in_v2(Call::merge_patch(&kind.at("x"), &json!({"spec": {"width": "XL"}})));
    for who in [alice(), ann] {
        arena().await.until_refused(&width.clone().dry_run(), &who).await;
        let reply = kind.send(&width, &who).await;
        assert_eq!(reply.reasons(), ["Undecided"]);
        reply.refused(&[""]);
    }
    kind.remove().await;
    kind.gone().await;
}

/// The annotation that is claimed on built-in kinds here.
const OWNED: &str = "arena.example.com/owned";

#[tokio::test]
async fn b54_built_in_kinds_are_judged_through_every_subresource_that_writes_them() {
    let arena = arena().await;
    every_door_is_registered(arena).await;
    metadata_goes_through_no_other_door(arena).await;
    an_eviction_is_a_deletion(arena).await;
}

/// What the API server lists, against what a policy on each kind registers.
async fn every_door_is_registered(arena: &Arena) {
    let get = async |path: &str| arena.send(&Call::get("").at(path), &root()).await.allowed();
    let mut lists = vec![(String::new(), "/api/v1".to_owned())];
    for group in get("/apis").await["groups"].as_array().unwrap() {
        let name = group["name"].as_str().unwrap();
        if !name.contains('.') || name.ends_with(".k8s.io") {
            let version = group["preferredVersion"]["groupVersion"].as_str().unwrap();
            lists.push((name.to_owned(), format!("/apis/{version}")));
        }
    }
    let mut missing = BTreeSet::new();
    let mut doors = 0;
    for (group, path) in lists {
        let list = get(&path).await;
        let resources = list["resources"].as_array().unwrap();
        for door in resources {
            let name = door["name"].as_str().unwrap();
            let Some((main, _)) = name.split_once('/') else { continue };
            let verbs = door["verbs"].to_string();
            let parent = resources.iter().find(|resource| resource["name"] == main).unwrap();
            // Of another kind are Scale, which is the object's count, and what is asked for: tokens, bindings, evictions.
            let writes = verbs.contains("update") || verbs.contains("patch");
            if writes && (door["kind"] == parent["kind"] || door["kind"] == "Scale") {
                doors += 1;
                if !planned(&group, main).contains(&name.to_owned()) {
                    missing.insert(format!("{group}/{name}"));
                }
            }
        }
    }
    assert_eq!(missing, BTreeSet::new());
    assert!(doors > 20, "only {doors} subresources that write");
}

/// The resources of the rule for one built-in kind.
fn planned(group: &str, resource: &str) -> Vec<String> {
    let policy = StoredPolicy {
        name: "p".to_owned(),
        uid: "u".to_owned(),
        generation: 1,
        created: None,
        spec: json!({"target": {"group": group, "version": "v1", "resource": resource}, "unlisted": "Warn"}),
        status: Value::Null,
    };
    let kind = GroupResource { group: group.to_owned(), resource: resource.to_owned() };
    let kinds = [(kind.clone(), Arc::new(KnownKind::without_crd(&kind, Unresolved::NotLoaded)))]
        .into_iter()
        .collect();
    let scene =
        Scene { policies: judge(vec![Arc::new(policy)], with_compiler), kinds: Arc::new(kinds), held: None };
    let steps = plan(&scene, Some(&Registration::default())).steps;
    let rules = steps.into_iter().next().unwrap_or_default().into_values().flatten();
    rules.flat_map(|rule| rule.resources.unwrap_or_default()).collect()
}

/// An annotation that is claimed, through subresources of which some let metadata pass.
async fn metadata_goes_through_no_other_door(arena: &Arena) {
    let pod = json!({"containers": [{"name": "c", "image": "example.com/c",
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]});
    let template = json!({"metadata": {"labels": {"app": "b54"}}, "spec": pod});
    let selector = json!({"matchLabels": {"app": "b54"}});
    // Resource, the folder of its objects, kind, the rest of the object, its subresources.
    let cases = [
        (
            "apps",
            "deployments",
            "Deployment",
            "/apis/apps/v1/namespaces/default",
            json!({"spec": {"selector": selector, "template": template, "replicas": 0}}),
            vec!["status"],
        ),
        (
            "",
            "pods",
            "Pod",
            "/api/v1/namespaces/default",
            json!({"spec": pod}),
            vec!["status", "resize", "ephemeralcontainers"],
        ),
        ("", "namespaces", "Namespace", "/api/v1", json!({}), vec!["status", "finalize"]),
        ("", "nodes", "Node", "/api/v1", json!({}), vec!["status"]),
    ];
    for (group, resource, kind, folder, rest, doors) in cases {
        let policy = json!({
            "target": {"group": group, "version": "v1", "resource": resource},
            "mode": "Enforce", "failurePolicy": "Ignore", "creation": {"policy": "Anyone"},
            "owners": [{"name": "ann", "subjects": [{"kind": "User", "name": "ann"}],
                "fields": [{"path": format!(".metadata.annotations[\"{OWNED}\"]")}]}],
        });
        apply_policy(arena.plane, &format!("b54-{resource}"), &policy).await;
        let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "b54"}});
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        let folder = format!("{folder}/{resource}");
        arena.send(&Call::create("", &object).at(&folder), &root()).await.allowed();
        let at = format!("{folder}/b54");
        let annotated = json!({"metadata": {"annotations": {OWNED: "mine"}}});
        arena.until_refused(&Call::merge_patch("", &annotated).at(&at).dry_run(), &alice()).await;
        for door in doors {
            let stored = arena.send(&Call::get("").at(&at), &root()).await.allowed();
            let mut body = with(stored, "/metadata/resourceVersion", Value::Null);
            body["metadata"]["annotations"][OWNED] = json!("mine");
            let call = Call::put("", &body).at(&format!("{at}/{door}"));
            let reply = arena.send(&call, &alice()).await;
            // Through some the server lets no metadata pass, but files the annotation under the writer all the same.
            let ignored = ["resize", "ephemeralcontainers"].contains(&door);
            assert_eq!(reply.reasons(), [if ignored { super::TAMPERED } else { super::OWNED }]);
            reply.refused(&[&format!(".metadata.annotations[\"{OWNED}\"]")]);
            let stored = arena.send(&Call::get("").at(&at), &root()).await.allowed();
            assert_eq!(stored["metadata"]["annotations"].get(OWNED), None, "{resource}/{door}");
        }
    }
}

/// A pod that is evicted is deleted, and the deletion inside is never reviewed.
async fn an_eviction_is_a_deletion(arena: &Arena) {
    // Everybody but plain users may delete pods, so that no other test is met.
    let groups = ["system:masters", "system:serviceaccounts", "system:nodes"];
    let subjects: Vec<Value> = groups.iter().map(|name| json!({"kind": "Group", "name": name})).collect();
    let policy = json!({
        "target": {"group": "", "version": "v1", "resource": "pods"},
        "mode": "Enforce", "failurePolicy": "Ignore", "deletion": {"subjects": subjects},
    });
    apply_policy(arena.plane, "b54-evictions", &policy).await;
    let at = "/api/v1/namespaces/default/pods/b54";
    arena.until_refused(&Call::delete("").at(at).dry_run(), &alice()).await;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "b54", "namespace": "default"}});
    let evict = Call::create("", &eviction).at(&format!("{at}/eviction"));
    let reply = arena.send(&evict, &alice()).await;
    assert_eq!(reply.reasons(), ["DeletionNotAllowed"]);
    assert!(reply.message().contains("user \"alice\" may not evict Pod \"b54\""), "{}", reply.message());
    reply.refused(&[""]);
    arena.send(&Call::get("").at(at), &root()).await.allowed();
    arena.send(&evict, &root()).await.allowed();
    let gone = arena.send(&Call::get("").at(at), &root()).await;
    assert!(gone.code == 404 || !gone.body["metadata"]["deletionTimestamp"].is_null(), "{}", gone.body);
}
