//! What a mutating webhook makes of somebody's request.

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::endpoint::{MUTATE, mutating, mutating_as_annotated, patched};
use crate::arena::{Call, Pond, admin, alice, arena, controller, kind};
use crate::harness::Identity;

/// A request's fields with the note that tells the webhook what to do.
fn with_note(fields: &Value, patch: &Value) -> Value {
    let mut fields = fields.clone();
    fields["metadata"]["annotations"][MUTATE] = json!(patch.to_string());
    fields
}

fn sets(path: &str, value: &str) -> Value {
    json!([{"op": "add", "path": path, "value": value}])
}

#[tokio::test]
async fn f18_a_mutating_webhook_changes_an_owned_field_in_a_strangers_request() {
    let kind = kind("f18ponds", |policy| {
        policy
            .replace("    - path: .spec.note\n", "    - path: .spec.note\n      mutators: [{name: sidecar, when: \"object.spec.note == 'sidecar'\"}]\n")
            .replace("  creation:", "  unlisted: Deny\n  creation:")
            .replace("  - name: ctrl-b\n", "  - name: people\n    subjects: [{kind: User, name: alice}, {kind: User, name: creator}]\n    fields: [{path: .spec.mode}]\n  - name: ctrl-b\n")
    })
    .await;
    mutating_as_annotated(&kind).await;
    let pond = Pond::bare_of(&kind, "pool").await.written().await;
    let mode = |mode: &str| json!({"spec": {"mode": mode}});
    let size = sets("/spec/size", "sidecar");
    // Applied, updated under a name, and updated under that of the client's program.
    pond.apply(&alice(), "alice", &with_note(&json!({"metadata": {}}), &json!([]))).await.allowed();
    pond.force(&alice(), "alice", &with_note(&mode("applied"), &size)).await.allowed();
    assert_eq!(pond.read().await["spec"]["size"], "sidecar");
    assert_eq!(pond.holders("f:spec/f:size").await, ["ctrl-a"], "the request is not recorded for it");
    let call = |fields: &Value| Call::merge_patch(&pond.at(""), fields);
    let again = with_note(&mode("named"), &sets("/spec/size", "again"));
    pond.send(&call(&again).manager("alice"), &alice()).await.allowed();
    pond.patch(&alice(), &with_note(&mode("unnamed"), &sets("/spec/size", "once more"))).await.allowed();
    assert_eq!(pond.read().await["spec"]["size"], "once more");
    // A field that nobody claims, in a policy that denies what it does not list. Under a new name, since the time of an
    // entry moves but once a second, and one that did not move proves nothing.
    let listed = with_note(&mode("listed"), &sets("/spec/shape", "square"));
    pond.send(&call(&listed).manager("listed"), &alice()).await.allowed();
    assert_eq!(pond.read().await["spec"]["shape"], "square");
    // In a creation.
    let fresh = Pond::absent(&kind, "made").await;
    let body = fresh.body(&with_note(&mode("made"), &sets("/spec/size", "sidecar")));
    fresh.send(&Call::create(&kind.resource(), &body), &alice()).await.allowed();
    assert_eq!(fresh.read().await["spec"]["size"], "sidecar");
    // A field that names its mutators, by what they set.
    pond.patch(&alice(), &with_note(&mode("noted"), &sets("/spec/note", "sidecar"))).await.allowed();
    let other = with_note(&mode("other"), &sets("/spec/note", "other"));
    pond.patch(&alice(), &other).await.refused(&[".spec.note"]);

    // The same values by the request itself, alone and together with a mutator.
    let own = json!({"spec": {"mode": "own", "size": "sidecar"}});
    pond.patch(&alice(), &with_note(&own, &json!([]))).await.refused(&[".spec.size"]);
    pond.patch(&alice(), &with_note(&own, &sets("/spec/size", "other"))).await.refused(&[".spec.size"]);
    pond.patch(&alice(), &with_note(&json!({"spec": {"mode": "own", "shape": "flat"}}), &json!([])))
        .await
        .refused(&[".spec.shape"]);
    // A removal cannot be told from the requester's.
    let gone = json!([{"op": "remove", "path": "/spec/size"}]);
    pond.patch(&alice(), &with_note(&mode("gone"), &gone)).await.refused(&[".spec.size"]);
}

#[tokio::test]
async fn f17_a_mutating_webhook_does_not_keep_a_finalizer_on_an_object_that_is_being_deleted() {
    let kind = kind("f17ponds", |policy| policy).await;
    mutating("arena.example.com", kind.plural(), |request: Value| {
        // As some do on every write that they see: here as soon as the object is being deleted.
        let deleting = request["object"]["metadata"]["deletionTimestamp"].is_string();
        let stamp =
            sets("/data", "").as_array().map(|_| r#"[{"op": "add", "path": "/data/stamp", "value": "x"}]"#);
        let answer = if deleting { patched(stamp.unwrap_or_default()) } else { json!({"allowed": true}) };
        std::future::ready(answer).boxed()
    })
    .await;
    let pond = Pond::bare_of(&kind, "stuck").await.written().await;
    let fins = json!({"metadata": {"finalizers": ["arena.example.com/fin", "example.com/other"]}});
    pond.apply(&controller("ctrl-a"), "ctrl-a-finalizer", &fins).await.allowed();
    pond.send(&Call::delete(&pond.at("")), &admin()).await.allowed();
    arena()
        .await
        .until("the mutating webhook to be asked", async || {
            let call = Call::merge_patch(&pond.at(""), &json!({"spec": {"mode": "wild"}})).dry_run();
            let reply = pond.send(&call, &controller("ctrl-b")).await;
            (reply.body["data"]["stamp"] == "x").then_some(())
        })
        .await;
    // Whoever owns neither the finalizer nor the field has no such licence.
    let released = json!({"metadata": {"finalizers": ["example.com/other"]}});
    let other = json!({"metadata": {"finalizers": ["arena.example.com/fin"]}});
    pond.patch(&alice(), &other).await.refused(&[".data.stamp"]);
    let with_data = json!({"metadata": {"finalizers": ["example.com/other"]}, "data": {"k": "w"}});
    pond.patch(&controller("ctrl-a"), &with_data).await.refused(&[".data.k"]);
    pond.patch(&controller("ctrl-a"), &released).await.allowed();
    assert_eq!(pond.read().await["metadata"]["finalizers"], json!(["example.com/other"]));
}

#[tokio::test]
async fn f09_the_server_drops_the_entry_of_a_version_that_a_built_in_kind_never_had() {
    let arena = arena().await;
    let policy = r#"
apiVersion: fieldkeeper.dev/v1alpha1
kind: FieldPolicy
metadata: {name: limitranges}
spec:
  target: {group: "", version: v1, resource: limitranges}
  mode: Enforce
  owners:
  - name: ctrl-a
    subjects: [{kind: ServiceAccount, namespace: ponds, name: ctrl-a}]
    fields: [{path: '.metadata.labels["size"]'}]
  creation: {policy: Owners}
  integrity: {mode: Enforce, coOwnership: Enforce}
"#;
    arena.enforce(policy, "limitranges").await;
    arena.plane.ensure_namespace("f09").await.unwrap();
    // As an object that was stored by an older server: only a mutating webhook can still make one.
    mutating("", "limitranges", |request: Value| {
        let create = request["operation"] == "CREATE";
        let entry = |manager: &str, version: &str| {
            json!([{"op": "add", "path": "/metadata/managedFields/-", "value": {
            "manager": manager, "operation": "Apply", "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:size": {}}}}}}])
        };
        let mut patch = entry("old-controller", "v1beta9").as_array().unwrap().clone();
        patch.extend(entry("ctrl-a", "v1").as_array().unwrap().clone());
        let answer =
            if create { patched(&Value::Array(patch).to_string()) } else { json!({"allowed": true}) };
        std::future::ready(answer).boxed()
    })
    .await;
    let limits = |name: &str| {
        json!({"apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": name, "namespace": "f09", "labels": {"size": "L"}}, "spec": {"limits": []}})
    };
    let all = "/api/v1/namespaces/f09/limitranges";
    let probe = Call::create("", &limits("probe")).at(all).dry_run();
    let managers = |object: &Value| -> Vec<String> {
        let list = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        list.iter().map(|entry| entry["manager"].as_str().unwrap_or_default().to_owned()).collect()
    };
    arena
        .until("the mutating webhook to be asked", async || {
            let made = arena.send(&probe, &controller("ctrl-a")).await;
            managers(&made.body).contains(&"old-controller".to_owned()).then_some(())
        })
        .await;
    arena.until_refused(&probe, &alice()).await;
    arena.send(&Call::create("", &limits("old")).at(all), &controller("ctrl-a")).await.allowed();
    let one = format!("{all}/old");
    let patch = |fields: Value| Call::merge_patch("", &fields).at(&one);
    let annotated =
        arena.send(&patch(json!({"metadata": {"annotations": {"mine": "1"}}})), &alice()).await.allowed();
    assert!(!managers(&annotated).contains(&"old-controller".to_owned()), "{annotated}");
    // An entry that the server could read does not vanish by itself.
    let mut stripped = annotated.clone();
    stripped["metadata"]["managedFields"]
        .as_array_mut()
        .unwrap()
        .retain(|entry| entry["manager"] != "ctrl-a");
    let call = Call::put("", &stripped).at(&one);
    let who = Identity::person("alice", &[]);
    arena.send(&call, &who).await.refused(&[".metadata.labels.size"]);
    arena
        .send(&patch(json!({"metadata": {"labels": {"size": "XL"}}})), &who)
        .await
        .refused(&[".metadata.labels.size"]);
}
