//! Objects that come and go: creation, deletion, and what leads to either.

use serde_json::{Value, json};

use crate::arena::{Call, Kind, Pond, admin, alice, arena, controller, hpa, pond, root};
use crate::decisions::with;
use crate::harness::Identity;

const FINALIZER: &str = r#".metadata.finalizers[="arena.example.com/fin"]"#;

/// A spec in which ann owns what is given.
fn anns(rest: Value, paths: &[&str]) -> Value {
    let fields: Vec<Value> = paths.iter().map(|path| json!({ "path": path })).collect();
    let mut spec = json!({"mode": "Enforce", "owners": [
        {"name": "ann", "subjects": [{"kind": "User", "name": "ann"}], "fields": fields}]});
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    spec
}

#[tokio::test]
async fn b44_creating_with_a_claimed_field_is_a_write_of_it_unless_the_policy_says_anyone() {
    let arena = arena().await;
    let create = |name: &str, spec: Value| Call::create("ponds", &pond(name, &spec));
    arena.send(&create("b44", json!({"size": "XL"})), &alice()).await.refused(&[".spec.size"]);
    let many = json!({"size": "XL", "replicas": 0, "limits": {"cpu": 1}, "mode": "calm"});
    let refused = [".spec.limits.cpu", ".spec.replicas", ".spec.size"];
    arena.send(&create("b44", many.clone()), &alice()).await.refused(&refused);
    arena.send(&create("b44", many.clone()), &controller("ctrl-a")).await.refused(&refused[..2]);
    assert_eq!(arena.send(&Call::get("ponds/b44"), &alice()).await.code, 404);
    arena.send(&create("b44", json!({"mode": "calm"})), &alice()).await.allowed();
    arena.send(&create("b44-restored", many), &Identity::person("restore", &[])).await.allowed();

    let owners = Kind::under("b44ponds", anns(json!({}), &[".spec.shape"])).await;
    let shape = |shape: &str| json!({"spec": {"shape": shape}});
    let defaulted = owners.create(&alice(), "defaulted", &json!({"spec": {}})).await.allowed();
    assert_eq!(defaulted["spec"]["shape"], "round", "the default was set by nobody");
    owners.create(&alice(), "equal", &shape("round")).await.allowed();
    owners.create(&alice(), "other", &shape("square")).await.refused(&[".spec.shape"]);

    let anyone = anns(json!({"creation": {"policy": "Anyone"}}), &[".spec.shape"]);
    let anyone = Kind::under("b44anyoneponds", anyone).await;
    anyone.create(&alice(), "x", &shape("square")).await.allowed();
    anyone.patch(&alice(), "x", &shape("round")).await.refused(&[".spec.shape"]);
}

#[tokio::test]
async fn b45_applying_what_is_not_there_is_a_creation() {
    let arena = arena().await;
    let body = |spec: Value| pond("b45", &spec);
    let apply = |spec: Value| Call::apply("ponds/b45", "ctrl-a", &body(spec));
    arena.send(&apply(json!({"size": "XL"})), &alice()).await.refused(&[".spec.size"]);
    arena.send(&apply(json!({"size": "XL"})).force(), &alice()).await.refused(&[".spec.size"]);
    assert_eq!(arena.send(&Call::get("ponds/b45"), &alice()).await.code, 404);
    arena.send(&apply(json!({"size": "XL"})), &controller("ctrl-a")).await.allowed();
}

#[tokio::test]
async fn b46_deleting_and_creating_anew_is_no_way_to_other_values() {
    let pond = Pond::new("b46").await;
    let uid = pond.read().await["metadata"]["uid"].clone();
    let delete = Call::delete(&pond.at(""));
    let reply = pond.send(&delete, &alice()).await;
    assert_eq!(reply.reasons(), ["DeletionNotAllowed"]);
    reply.refused(&[""]);
    // The administrator of RBAC is not among those whom the policy names, nor is an owner of fields.
    pond.send(&delete, &root()).await.refused(&[""]);
    pond.send(&delete, &controller("ctrl-a")).await.refused(&[""]);
    assert_eq!(pond.read().await["metadata"]["uid"], uid);
    pond.send(&delete, &admin()).await.allowed();
    let anew = Call::create("ponds", &crate::arena::pond("b46", &json!({"size": "XL"})));
    pond.send(&anew, &alice()).await.refused(&[".spec.size"]);

    // Without a word about deletion RBAC decides; without subjects nobody may.
    let free = Kind::under("b46freeponds", anns(json!({}), &[".spec.size"])).await;
    free.create(&alice(), "x", &json!({})).await.allowed();
    free.send(&Call::delete(&free.at("x")), &alice()).await.allowed();
    free.create(&alice(), "x", &json!({"spec": {"size": "XL"}})).await.refused(&[".spec.size"]);
    let closed =
        Kind::under("b46closedponds", anns(json!({"deletion": {"subjects": []}}), &[".spec.size"])).await;
    closed.create(&alice(), "x", &json!({})).await.allowed();
    for who in [alice(), root(), Identity::person("ann", &[])] {
        closed.send(&Call::delete(&closed.at("x")), &who).await.refused(&[""]);
    }
}

#[tokio::test]
async fn b47_replacing_by_force_and_deleting_a_collection_are_deletions_of_each_object() {
    let deletion = json!({"deletion": {"subjects": [{"kind": "User", "name": "ann"}]}});
    let kind = Kind::under("b47ponds", anns(deletion, &[".spec.size"])).await;
    kind.create(&root(), "one", &json!({})).await.allowed();
    let uid = kind.read("one").await["metadata"]["uid"].clone();

    let manifest = kind.object("one", &json!({"spec": {"mode": "wild"}})).to_string();
    let args = ["replace", "--force", "-f", "-"];
    let output = arena().await.kubectl(&alice(), &args, &manifest).await;
    assert!(!output.success && output.stderr.contains("user \"alice\" may not delete"), "{}", output.text());
    assert_eq!(kind.read("one").await["metadata"]["uid"], uid);

    let all = Call::delete(&kind.plural);
    let reply = kind.send(&all, &alice()).await;
    // The review of a collection names no object: the message does.
    let named = ["\"one\"", "\"probe\""].iter().any(|name| reply.message().contains(name));
    assert!(named, "{}", reply.message());
    reply.refused(&[""]);
    assert_eq!(kind.read("one").await["metadata"]["uid"], uid);
    kind.send(&all, &Identity::person("ann", &[])).await.allowed();
    assert_eq!(kind.send(&Call::get(&kind.at("one")), &root()).await.code, 404);
}

#[tokio::test]
async fn b48_a_reference_to_an_owner_that_is_gone_is_a_deletion() {
    let pond = Pond::new("b48").await;
    let uid = "00000000-0000-0000-0000-00000000b048";
    let reference = json!({"metadata": {"ownerReferences":
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": uid}]}});
    let reply = pond.patch(&alice(), &reference).await;
    assert_eq!(reply.reasons(), ["DeletionNotAllowed"]);
    reply.refused(&[&format!(".metadata.ownerReferences[uid=\"{uid}\"]")]);
    // Who owns the references may not delete with them either.
    let reply = pond.patch(&controller("ctrl-a"), &reference).await;
    assert_eq!(reply.reasons(), ["DeletionNotAllowed"]);
    // Who may delete does not own them.
    let reply = pond.patch(&admin(), &reference).await;
    assert_eq!(reply.reasons(), ["FieldOwnedByAnother"]);
    assert_eq!(pond.read().await["metadata"].get("ownerReferences"), None);

    // Where deletion is free and the references are not listed, RBAC decides.
    let kind = Kind::under("b48ponds", anns(json!({}), &[".spec.size"])).await;
    kind.create(&alice(), "x", &json!({})).await.allowed();
    let dry_run = Call::merge_patch(&kind.at("x"), &reference).dry_run();
    kind.send(&dry_run, &alice()).await.allowed();
}

#[tokio::test]
async fn b49_a_foreign_finalizer_stays_also_on_an_object_that_is_being_deleted() {
    let pond = Pond::new("b49").await;
    let finalizers = |names: Value| json!({"metadata": {"finalizers": names}});
    let ctrl_a = controller("ctrl-a");
    pond.patch(&ctrl_a, &finalizers(json!(["arena.example.com/fin"]))).await.allowed();
    pond.patch(&alice(), &finalizers(json!([]))).await.refused(&[FINALIZER]);
    pond.patch(&alice(), &finalizers(Value::Null)).await.refused(&[FINALIZER]);
    pond.send(&Call::delete(&pond.at("")), &admin()).await.allowed();
    assert!(pond.read().await["metadata"]["deletionTimestamp"].is_string());
    // This would remove the object at once, and no review of a deletion would follow.
    pond.patch(&alice(), &finalizers(json!([]))).await.refused(&[FINALIZER]);
    pond.patch(&admin(), &finalizers(json!([]))).await.refused(&[FINALIZER]);
    pond.read().await;
    pond.patch(&ctrl_a, &finalizers(json!([]))).await.allowed();
    assert_eq!(pond.send(&Call::get(&pond.at("")), &alice()).await.code, 404);
}

#[tokio::test]
async fn b50_a_listed_finalizer_may_not_be_added_to_block_deletion() {
    let pond = Pond::new("b50").await;
    let add = |name: &str| json!({"metadata": {"finalizers": [name]}});
    pond.patch(&alice(), &add("arena.example.com/fin")).await.refused(&[FINALIZER]);
    // Metadata is governed only where it is listed.
    pond.patch(&alice(), &add("alice.example.com/mine")).await.allowed();

    // A claim on the whole list governs every item.
    let kind = Kind::under("b50ponds", anns(json!({}), &[".metadata.finalizers"])).await;
    kind.create(&alice(), "x", &json!({})).await.allowed();
    let mine = r#".metadata.finalizers[="alice.example.com/mine"]"#;
    kind.patch(&alice(), "x", &add("alice.example.com/mine")).await.refused(&[mine]);
    kind.create(&alice(), "y", &add("alice.example.com/mine")).await.refused(&[mine]);
    kind.patch(&Identity::person("ann", &[]), "x", &add("ann.example.com/hers")).await.allowed();
}

#[tokio::test]
async fn b51_the_way_of_deletion_is_the_choice_of_whoever_may_delete() {
    let pond = Pond::bare("b51").await;
    let delete = |way: &str, dry_run: Value| {
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": way, "dryRun": dry_run});
        Call::delete(&pond.at("")).body(&options)
    };
    for way in ["Orphan", "Foreground", "Background"] {
        pond.send(&delete(way, json!([])), &alice()).await.refused(&[""]);
        pond.send(&delete(way, json!(["All"])), &admin()).await.allowed();
    }
    let reply = pond.send(&delete("Orphan", json!([])), &admin()).await.allowed();
    assert_eq!(reply["metadata"]["finalizers"], json!(["orphan"]), "set inside the deletion, by no write");
}

#[tokio::test]
async fn b52_who_removes_its_own_finalizer_may_not_change_a_foreign_field_with_it() {
    let pond = Pond::new("b52").await;
    let ctrl_a = controller("ctrl-a");
    let add = json!({"metadata": {"finalizers": ["arena.example.com/fin"]}});
    pond.patch(&ctrl_a, &add).await.allowed();
    pond.send(&Call::delete(&pond.at("")), &admin()).await.allowed();
    let body = with(pond.edited("/spec/limits/cpu", json!(64)).await, "/metadata/finalizers", json!([]));
    pond.put(&ctrl_a, &body).await.refused(&[".spec.limits.cpu"]);
    let stored = pond.read().await;
    assert_eq!(stored["metadata"]["finalizers"], json!(["arena.example.com/fin"]));
    assert_eq!(stored["spec"]["limits"]["cpu"], 4);
    pond.put(&ctrl_a, &with(stored, "/metadata/finalizers", json!([]))).await.allowed();
}

#[tokio::test]
async fn b53_each_try_of_a_generated_name_gets_the_same_verdict() {
    let arena = arena().await;
    let body = |spec: Value| {
        let pond = with(pond("x", &spec), "/metadata/name", Value::Null);
        with(pond, "/metadata/generateName", json!("b53-"))
    };
    for _ in 0..3 {
        let reply = arena.send(&Call::create("ponds", &body(json!({"size": "XL"}))), &alice()).await;
        assert!(reply.message().contains("\"b53-"), "the name that was generated: {}", reply.message());
        reply.refused(&[".spec.size"]);
        arena.send(&Call::create("ponds", &body(json!({"mode": "calm"}))), &alice()).await.allowed();
    }
}

#[tokio::test]
async fn b55_a_dry_run_gets_the_same_answer_and_changes_nothing() {
    let pond = Pond::new("b55").await;
    let before = pond.read().await;
    let xl = pond.edited("/spec/size", json!("XL")).await;
    let put = Call::put(&pond.at(""), &xl);
    let scale = Call::merge_patch(&pond.at("/scale"), &json!({"spec": {"replicas": 9}}));
    for call in [put.clone(), scale.clone(), Call::delete(&pond.at(""))] {
        let real = pond.send(&call, &alice()).await;
        let dry = pond.send(&call.clone().dry_run(), &alice()).await;
        assert!(real.is_refused() && dry.is_refused(), "{call:?}: {} {}", real.body, dry.body);
        assert_eq!(dry.body, real.body);
    }
    pond.send(&put.dry_run(), &controller("ctrl-a")).await.allowed();
    pond.send(&scale.dry_run(), &hpa()).await.allowed();
    pond.send(&Call::delete(&pond.at("")).dry_run(), &admin()).await.allowed();
    assert_eq!(pond.read().await, before);
}
