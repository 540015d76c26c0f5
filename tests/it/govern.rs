//! Who may write FieldPolicies and their status: the shipped admission policies, in a real API server.

use serde_json::{Value, json};

use crate::arena::{Arena, Call, PATIENCE, Reply, alice, arena};
use crate::harness::{Identity, eventually};

const POLICIES: &str = "/apis/fieldkeeper.dev/v1alpha1/fieldpolicies";

/// RBAC lets everybody write FieldPolicies here; `governor` may also govern `lagoons`.
const GOVERNOR: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: governs-lagoons}
rules: [{apiGroups: [arena.example.com], resources: [lagoons], verbs: [govern]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: governs-lagoons}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: governs-lagoons}
subjects: [{kind: User, name: governor, apiGroup: rbac.authorization.k8s.io}]
";

fn governor() -> Identity {
    Identity::person("governor", &[])
}

/// A policy that judges nothing that other tests write.
fn policy(name: &str, resource: &str) -> Value {
    json!({
        "apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy", "metadata": {"name": name},
        "spec": {"target": {"group": "arena.example.com", "version": "v1", "resource": resource},
                 "unlisted": "Warn", "deletion": {"subjects": []}},
    })
}

fn create(name: &str, resource: &str) -> Call {
    Call::create("", &Value::Null).at(POLICIES).body(&policy(name, resource))
}

fn named(call: Call, name: &str) -> Call {
    call.at(&format!("{POLICIES}/{name}"))
}

/// With the right granted and everything noticed: rights and policies are cached.
async fn ready() -> &'static Arena {
    let arena = arena().await;
    arena.plane.apply(GOVERNOR).await.unwrap();
    let refused = async || {
        let refused = arena.send(&create("probe", "lagoons").dry_run(), &alice()).await.code == 403;
        let allowed = arena.send(&create("probe", "lagoons").dry_run(), &governor()).await.code == 201;
        (refused && allowed).then_some(())
    };
    eventually("the govern policy to hold", PATIENCE, refused).await.unwrap();
    arena
}

#[track_caller]
fn refused(reply: &Reply, parts: &[&str]) {
    assert_eq!((reply.code, reply.body["reason"].as_str()), (403, Some("Forbidden")), "{reply:?}");
    for part in parts {
        assert!(reply.message().contains(part), "{part} is missing in {}", reply.message());
    }
}

#[tokio::test]
async fn only_who_governs_the_target_may_create_change_and_delete_a_policy() {
    let arena = ready().await;
    let reply = arena.send(&create("govern-a", "lagoons"), &alice()).await;
    refused(
        &reply,
        &[
            "user \"alice\" may not create FieldPolicies on lagoons.arena.example.com",
            "apiGroups [\"arena.example.com\"], resources [\"lagoons\"], verbs [\"govern\"]",
        ],
    );
    arena.send(&create("govern-a", "lagoons"), &governor()).await.allowed();

    let change = named(Call::merge_patch("", &json!({"spec": {"mode": "Warn"}})), "govern-a");
    refused(&arena.send(&change, &alice()).await, &["may not update FieldPolicies"]);
    arena.send(&change, &governor()).await.allowed();

    let label = named(Call::merge_patch("", &json!({"metadata": {"finalizers": ["x.y/z"]}})), "govern-a");
    refused(&arena.send(&label, &alice()).await, &["may not update FieldPolicies"]);

    let delete = named(Call::delete(""), "govern-a");
    refused(
        &arena.send(&delete, &alice()).await,
        &["may not delete FieldPolicies on lagoons.arena.example.com"],
    );
    arena.send(&delete, &governor()).await.allowed();
}

#[tokio::test]
async fn to_govern_one_resource_says_nothing_of_another() {
    let arena = ready().await;
    refused(&arena.send(&create("govern-b", "ponds").dry_run(), &governor()).await, &["on ponds.arena"]);
    let core = {
        let mut object = policy("govern-b", "configmaps");
        object["spec"]["target"]["group"] = json!("");
        create("govern-b", "").body(&object).dry_run()
    };
    refused(&arena.send(&core, &governor()).await, &["on configmaps:", "apiGroups [\"\"]"]);
    // What others have is not taken away by deletecollection either.
    let all = Call::delete("").at(POLICIES);
    refused(&arena.send(&all.dry_run(), &governor()).await, &["may not delete FieldPolicies"]);
}

#[tokio::test]
async fn an_administrator_may_remove_any_policy() {
    let arena = ready().await;
    arena.plane.apply(&serde_json::to_string(&policy("govern-c", "lagoons")).unwrap()).await.unwrap();
    arena.plane.kubectl(&["delete", "fieldpolicy", "govern-c"]).await.unwrap().ok().unwrap();
}

#[tokio::test]
async fn the_status_is_the_policy_controllers_alone() {
    let arena = ready().await;
    let status = json!({"status": {"acceptedSpec": {"target": {"version": "v1", "resource": "x"}}}});
    let call = named(Call::merge_patch("", &status), "ponds/status");
    for who in
        [alice(), governor(), Identity::service_account("fieldkeeper-system", "webhook"), Identity::admin()]
    {
        let parts = ["written by fieldkeeper's policy controller only", &who.username()];
        refused(&arena.send(&call, &who).await, &parts);
    }
    // The controller itself has written the status that the arena waited for.
    let stored = arena.send(&named(Call::get(""), "ponds"), &alice()).await.allowed();
    assert_eq!(stored["status"]["acceptedSpec"]["target"]["resource"], "ponds");
}

#[tokio::test]
async fn the_expressions_fit_the_types_they_are_about() {
    let arena = ready().await;
    for name in ["govern.fieldkeeper.dev", "policy-status.fieldkeeper.dev"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}");
        let checked = async || {
            let policy = arena.send(&Call::get("").at(&path), &alice()).await.body;
            policy.pointer("/status/typeChecking").cloned()
        };
        let checking = eventually("the type check", PATIENCE, checked).await.unwrap();
        assert_eq!(checking.get("expressionWarnings"), None, "{name}: {checking:#}");
    }
}
