//! What people and GitOps tools send: migrations to server-side apply, backups, previews, a first installation.

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::arena::{Call, Kind, Pond, alice, arena, controller, kind};
use crate::harness::{Identity, Output};

fn ctrl_a() -> Identity {
    controller("ctrl-a")
}

fn restore() -> Identity {
    Identity::person("restore", &[])
}

/// Ponds of which nobody claims the annotation of client-side apply, and ctrl-a declares its manager's name.
async fn tooled() -> &'static Kind {
    static KIND: OnceCell<Kind> = OnceCell::const_new();
    let made = async || {
        kind("toolponds", |policy| {
            policy
                .replace("    - path: .metadata.annotations[\"kubectl.kubernetes.io/last-applied-configuration\"]\n", "")
                .replacen("name: ctrl-a}]\n", "name: ctrl-a}]\n    fieldManagers: [{name: ctrl-a}]\n", 1)
        })
        .await
    };
    KIND.get_or_init(made).await
}

async fn kubectl(who: &Identity, args: &[&str], manifest: &Value) -> Output {
    let args: Vec<&str> = args.iter().copied().chain(["-f", "-"]).collect();
    arena().await.kubectl(who, &args, &manifest.to_string()).await
}

/// kubectl with its exit code and its words in the message of a failed test.
#[track_caller]
fn succeeded(output: &Output) {
    assert!(output.success && !output.text().contains("Warning: failed"), "{}", output.text());
}

const LAST_APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

#[tokio::test]
async fn f28_kubectl_upgrades_an_object_from_client_side_to_server_side_apply() {
    let kind = tooled().await;
    // All that the manifest sets is the applier's own, or nobody's.
    let pond = Pond::absent(kind, "f28").await;
    let manifest = pond.body(&json!({"spec": {"size": "L", "mode": "calm", "args": ["x"]}}));
    succeeded(&kubectl(&ctrl_a(), &["apply"], &manifest).await);
    succeeded(&kubectl(&ctrl_a(), &["apply", "--server-side"], &manifest).await);
    assert_eq!(pond.holders("f:spec/f:size").await, ["kubectl"]);
    // An administrator's manifest without the size, on an object that was once applied with it: kubectl moves the whole
    // old entry and then gives up what the manifest lacks, which its owner holds as well.
    let pond = Pond::absent(kind, "f28-shared").await;
    let whole = pond.body(&json!({"spec": {"size": "L", "mode": "calm"}}));
    succeeded(&kubectl(&restore(), &["apply"], &whole).await);
    pond.apply(&ctrl_a(), "ctrl-a", &json!({"spec": {"size": "L"}})).await.allowed();
    let part = pond.body(&json!({"spec": {"mode": "wild"}}));
    succeeded(&kubectl(&alice(), &["apply", "--server-side", "--force-conflicts"], &part).await);
    assert_eq!(pond.holders("f:spec/f:size").await, ["ctrl-a"]);
    assert_eq!(pond.holders("f:spec/f:mode").await, ["kubectl"]);
    // Where its owner does not hold it, the same takes the value away.
    let pond = Pond::absent(kind, "f28-lost").await;
    let whole = pond.body(&json!({"spec": {"size": "L", "mode": "calm"}}));
    succeeded(&kubectl(&restore(), &["apply"], &whole).await);
    let part = pond.body(&json!({"spec": {"mode": "wild"}}));
    let output = kubectl(&alice(), &["apply", "--server-side", "--force-conflicts"], &part).await;
    assert!(output.text().contains(".spec.size: \"L\" -> (removed)"), "{}", output.text());
    assert_eq!(pond.read().await["spec"]["size"], "L");
}

/// What client-go's `csaupgrade` makes of the entries of these managers: one Apply entry.
async fn upgraded(pond: &Pond, from: &[&str], into: &str) -> Value {
    let object = pond.read().await;
    let mut entries = object["metadata"]["managedFields"].as_array().unwrap().clone();
    for entry in &mut entries {
        if entry["operation"] == "Update" && from.iter().any(|name| entry["manager"] == *name) {
            entry["operation"] = json!("Apply");
            entry["manager"] = json!(into);
        }
    }
    json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": object["metadata"]["resourceVersion"]},
    ])
}

#[tokio::test]
async fn f28_tools_move_the_entries_of_their_past_into_one_of_server_side_apply() {
    let kind = tooled().await;
    // The manager in the object, and the manager that the tool applies under from now on.
    for (tool, from, into) in [
        ("helm", "helm", "helm"),
        ("argocd", "argocd-controller", "argocd-controller"),
        ("argocd-kubectl", "kubectl-client-side-apply", "argocd-controller"),
        ("flux", "kubectl-client-side-apply", "kustomize-controller"),
        ("flux-edit", "kubectl-edit", "kustomize-controller"),
        ("flux-first", "before-first-apply", "kustomize-controller"),
    ] {
        let pond = Pond::absent(kind, &format!("f28-{tool}")).await;
        let body = pond.body(&json!({"spec": {"size": "L", "mode": "calm"}}));
        pond.send(&Call::create(&kind.resource(), &body).manager(from), &restore()).await.allowed();
        // Into a name that belongs to an owner it is no upgrade but a forgery.
        let forged = upgraded(&pond, &[from], "ctrl-a").await;
        pond.json_patch(&alice(), &forged).await.refused(&[".spec.size"]);
        let patch = upgraded(&pond, &[from], into).await;
        // With a change of value it is no upgrade either.
        let mut changing = patch.as_array().unwrap().clone();
        changing.push(json!({"op": "replace", "path": "/spec/size", "value": "XL"}));
        pond.json_patch(&alice(), &json!(changing)).await.refused(&[".spec.size"]);
        pond.json_patch(&alice(), &patch).await.allowed();
        assert_eq!(pond.holders("f:spec/f:size").await, [into], "{tool}");
        pond.apply(&alice(), into, &json!({"spec": {"size": "L", "mode": "calm"}})).await.allowed();
        pond.apply(&alice(), into, &json!({"spec": {"mode": "calm"}})).await.refused(&[".spec.size"]);
    }
    // The entry of a controller that is none of these is nobody else's to move, save for a named editor.
    let pond = Pond::absent(kind, "f28-controller").await;
    let body = pond.body(&json!({"spec": {"size": "L", "mode": "calm"}}));
    pond.send(&Call::create(&kind.resource(), &body).manager("capi-manager"), &restore()).await.allowed();
    let patch = upgraded(&pond, &["capi-manager"], "capi-topology").await;
    pond.json_patch(&alice(), &patch).await.refused(&[".spec.size"]);
    pond.json_patch(&Identity::person("migrator", &[]), &patch).await.allowed();
}

#[tokio::test]
async fn f29_kubectl_rewrites_the_last_applied_annotation_in_a_server_side_apply() {
    for (kind, who, refused) in [
        (tooled().await.clone(), alice(), false),
        (Kind::ponds(), ctrl_a(), false),
        (Kind::ponds(), alice(), true),
    ] {
        let pond = Pond::absent(&kind, if refused { "f29-refused" } else { "f29" }).await;
        let manifest = pond.body(&json!({"spec": {"mode": "calm"}}));
        succeeded(&kubectl(&restore(), &["apply"], &manifest).await);
        let before = pond.read().await.pointer(LAST_APPLIED).cloned();
        assert!(before.is_some());
        let manifest = pond.body(&json!({"spec": {"mode": "wild"}}));
        let output = kubectl(&who, &["apply", "--server-side", "--force-conflicts"], &manifest).await;
        if refused {
            // Where the annotation is claimed, it is a value like any other.
            assert!(output.stderr.contains("last-applied-configuration"), "{}", output.text());
            continue;
        }
        succeeded(&output);
        let after = pond.read().await.pointer(LAST_APPLIED).cloned();
        assert!(after.is_some() && after != before, "{after:?}");
    }
}

#[tokio::test]
async fn f34_a_preview_by_a_stranger_is_refused_with_the_same_words_and_changes_nothing() {
    let pond = Pond::new("f34").await;
    let before = pond.read().await;
    let larger = json!({"spec": {"size": "XL"}});
    let patch = Call::merge_patch(&pond.at(""), &larger);
    let apply = Call::apply(&pond.at(""), "alice", &pond.body(&larger)).force();
    for call in [patch, apply, Call::delete(&pond.at(""))] {
        let preview = pond.send(&call.clone().dry_run(), &alice()).await;
        let real = pond.send(&call, &alice()).await;
        assert!(preview.is_refused() && real.is_refused(), "{preview:?}");
        assert_eq!(preview.message(), real.message());
        assert_eq!(preview.body["details"], real.body["details"]);
    }
    let args = ["apply", "--server-side", "--dry-run=server", "--force-conflicts"];
    let output = kubectl(&alice(), &args, &pond.body(&larger)).await;
    assert!(!output.success && output.stderr.contains(".spec.size: \"L\" -> \"XL\""), "{}", output.text());
    let output =
        kubectl(&alice(), &["diff", "--server-side", "--force-conflicts"], &pond.body(&larger)).await;
    assert!(output.code > 1 && output.stderr.contains(".spec.size: \"L\" -> \"XL\""), "{}", output.text());
    // What is allowed is previewed.
    let output = kubectl(&ctrl_a(), &args, &pond.body(&larger)).await;
    assert!(output.success, "{}", output.text());
    pond.send(&Call::merge_patch(&pond.at(""), &larger).dry_run(), &ctrl_a()).await.allowed();
    assert_eq!(pond.read().await, before);
}

#[tokio::test]
async fn f41_a_backup_is_restored_with_the_entries_and_fields_of_its_owners() {
    let saved = Pond::new("f41").await.read().await;
    let pond = Pond::absent(&Kind::ponds(), "f41-restored").await;
    let mut body = saved.clone();
    body["metadata"]["name"] = json!(pond.name);
    body["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    body["metadata"]["finalizers"] = json!(["arena.example.com/fin"]);
    let create = Call::create("ponds", &body).manager("velero-server");
    assert!(pond.send(&create, &alice()).await.is_refused());
    assert!(pond.send(&create, &ctrl_a()).await.is_refused());
    pond.send(&create, &restore()).await.allowed();
    assert_eq!(pond.read().await["spec"], saved["spec"]);
    // Creating is all that it may.
    pond.patch(&restore(), &json!({"spec": {"size": "XL"}})).await.refused(&[".spec.size"]);
    pond.force(&ctrl_a(), "ctrl-a", &json!({"spec": {"size": "XL"}})).await.allowed();
}

#[tokio::test]
async fn f42_an_owner_takes_over_from_whoever_is_recorded_when_its_policy_comes() {
    let kind = Kind::cluster_wide("f42ponds");
    kind.define(|_| {}).await;
    let manifest = |pond: &Pond| pond.body(&json!({"spec": {"size": "L", "mode": "calm"}}));
    let [by_kubectl, by_edit, untracked] = [
        Pond::absent(&kind, "by-kubectl").await,
        Pond::absent(&kind, "by-edit").await,
        Pond::absent(&kind, "untracked").await,
    ];
    succeeded(&kubectl(&alice(), &["apply"], &manifest(&by_kubectl)).await);
    for pond in [&by_edit, &untracked] {
        let call = Call::create(&kind.resource(), &manifest(pond)).manager("kubectl-edit");
        pond.send(&call, &alice()).await.allowed();
    }
    untracked.patch(&alice(), &json!({"metadata": {"managedFields": [{}]}})).await.allowed();
    kind.enforce(|policy| policy).await;
    let larger = json!({"spec": {"size": "XL"}});
    for pond in [&by_kubectl, &by_edit, &untracked] {
        // Recorded is not owned.
        pond.patch(&alice(), &larger).await.refused(&[".spec.size"]);
        pond.force(&ctrl_a(), "ctrl-a", &larger).await.allowed();
        assert_eq!(pond.holders("f:spec/f:size").await, ["ctrl-a"]);
        pond.patch(&ctrl_a(), &json!({"spec": {"size": "M"}})).await.allowed();
        pond.patch(&alice(), &json!({"spec": {"mode": "wild"}})).await.allowed();
    }
}
