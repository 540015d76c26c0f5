//! The cluster's own controllers, and those of users.

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::arena::{Arena, Call, Kind, Pond, admin, alice, arena, controller, hpa, kind};
use crate::harness::Identity;

fn ctrl_a() -> Identity {
    controller("ctrl-a")
}

/// Whether kube-controller-manager runs; where it does not, its tests have nothing to show.
async fn has_controllers() -> bool {
    arena().await.plane.has_controller_manager()
}

fn kube_system(account: &str) -> Identity {
    Identity::service_account("kube-system", account)
}

/// Waits until an object is gone.
async fn gone(pond: &Pond) {
    let absent = async || (pond.send(&Call::get(&pond.at("")), &admin()).await.code == 404).then_some(());
    arena().await.until(&format!("{} to be gone", pond.name), absent).await;
}

/// Ponds of which all finalizers belong to ctrl-a and the owner references to the administrators.
async fn guarded() -> &'static Kind {
    static KIND: OnceCell<Kind> = OnceCell::const_new();
    let made = async || {
        kind("guardedponds", |policy| {
            policy
                .replace("    - path: .metadata.finalizers[=\"arena.example.com/fin\"]\n    - path: .metadata.ownerReferences\n", "    - path: .metadata.finalizers\n")
                .replace("  creation:", "  - name: admins\n    subjects: [{kind: Group, name: pond-admins}]\n    fields: [{path: .metadata.ownerReferences}]\n  creation:")
        })
        .await
    };
    KIND.get_or_init(made).await
}

/// Ponds with a namespace, that of the test.
async fn namespaced(namespace: &str) -> Kind {
    static DEFINED: OnceCell<()> = OnceCell::const_new();
    let first = async || {
        let kind = Kind::in_namespace("nsponds", "default");
        kind.define(|_| {}).await;
        kind.enforce(|policy| policy).await;
    };
    DEFINED.get_or_init(first).await;
    arena().await.plane.ensure_namespace(namespace).await.unwrap();
    Kind::in_namespace("nsponds", namespace)
}

/// As a backup puts it back: with references to these owners.
async fn dependent(name: &str, owners: &[&Pond]) -> Pond {
    let pond = Pond::absent(guarded().await, name).await;
    let mut references = Vec::new();
    for owner in owners {
        references.push(reference(owner).await);
    }
    let body = pond.body(&json!({"metadata": {"ownerReferences": references}, "spec": {"mode": "calm"}}));
    pond.send(&Call::create(&pond.kind.resource(), &body), &Identity::person("restore", &[])).await.allowed();
    pond
}

async fn reference(owner: &Pond) -> Value {
    json!({"apiVersion": "arena.example.com/v1", "kind": owner.kind.kind(), "name": owner.name,
        "uid": owner.read().await["metadata"]["uid"], "blockOwnerDeletion": true})
}

async fn delete(pond: &Pond, policy: &str) {
    pond.send(&Call::delete(&pond.at("")).query("propagationPolicy", policy), &admin()).await.allowed();
}

#[tokio::test]
async fn f14_a_storage_version_migration_writes_every_object_as_it_is() {
    let pond = Pond::new("f14").await;
    let migrator = kube_system("storage-version-migrator-controller");
    let stored = pond.read().await;
    let metadata =
        json!({"uid": stored["metadata"]["uid"], "resourceVersion": stored["metadata"]["resourceVersion"]});
    for version in ["v1", "v2"] {
        let mut body = pond.body(&json!({"metadata": metadata}));
        body["apiVersion"] = json!(format!("arena.example.com/{version}"));
        let call =
            Call::apply(&pond.at(""), "storage-version-migrator-controller", &body).version(version).force();
        pond.send(&call, &migrator).await.allowed();
    }
    assert_eq!(pond.read().await["metadata"]["managedFields"], stored["metadata"]["managedFields"]);
    // Its name is no licence to write, not even what is there.
    for size in ["L", "XL"] {
        let body = json!({"metadata": metadata, "spec": {"size": size}});
        pond.force(&migrator, "storage-version-migrator-controller", &body).await.refused(&[".spec.size"]);
    }
}

#[tokio::test]
async fn f15_the_garbage_collector_takes_its_finalizers_and_references_to_owners_that_are_gone() {
    if !has_controllers().await {
        return;
    }
    let kind = guarded().await;
    let names = ["front", "orphaner", "dead", "alive", "ring-a"];
    let mut owners = Vec::new();
    for name in names {
        owners.push(Pond::bare_of(kind, name).await);
    }
    let [front, orphaner, dead, alive, ring_a] = owners.as_slice() else { unreachable!() };
    let behind = dependent("behind", &[front]).await;
    let orphan = dependent("orphan", &[orphaner]).await;
    let shared = dependent("shared", &[dead, alive]).await;
    let ring_b = dependent("ring-b", &[ring_a]).await;
    let closing = json!({"metadata": {"ownerReferences": [reference(&ring_b).await]}});
    // What the collector is about to do, by somebody else.
    ring_b.patch(&alice(), &json!({"metadata": {"ownerReferences": null}})).await.refused(&[
        ".metadata.ownerReferences[uid=\"UID\"]".replace("UID", uid(ring_a).await.as_str()).as_str(),
    ]);
    ring_a.patch(&admin(), &closing).await.allowed();

    delete(front, "Foreground").await;
    delete(ring_a, "Foreground").await;
    delete(orphaner, "Orphan").await;
    delete(dead, "Background").await;
    for pond in [front, &behind, orphaner, dead, ring_a, &ring_b] {
        gone(pond).await;
    }
    let references = async |pond: &Pond| pond.read().await["metadata"]["ownerReferences"].clone();
    let left = async || (references(&shared).await.as_array()?.len() == 1).then_some(());
    arena().await.until("the reference to the owner that is gone", left).await;
    assert_eq!(references(&shared).await[0]["name"], "alive");
    let left = async || references(&orphan).await.is_null().then_some(());
    arena().await.until("the orphan without a reference", left).await;
    // It had to lift a block to get through the ring.
    let collector = kube_system("generic-garbage-collector").username();
    for name in ["ring-b", "shared", "orphan", "front", "orphaner"] {
        let patched = arena().await.plane.audit_event("of the garbage collector", |event| {
            event.actor() == collector
                && event.verb == "patch"
                && event.object_ref.name == name
                && event.code() == 200
        });
        patched.await.unwrap();
    }
}

async fn uid(pond: &Pond) -> String {
    pond.read().await["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn f15_the_garbage_collector_may_write_nothing_else_under_either_of_its_names() {
    let kind = guarded().await;
    let (owner, other) = (Pond::bare_of(kind, "f15-owner").await, Pond::bare_of(kind, "f15-other").await);
    let manager = Identity::person("system:kube-controller-manager", &[]);
    for (who, name) in [(kube_system("generic-garbage-collector"), "f15-one"), (manager, "f15-two")] {
        let pond = dependent(name, &[&owner]).await;
        let path = format!(".metadata.ownerReferences[uid=\"{}\"]", uid(&owner).await);
        let mut block = reference(&owner).await;
        let finalizers = json!({"metadata": {"finalizers": ["arena.example.com/fin", "orphan"]}});
        pond.patch(&ctrl_a(), &finalizers).await.allowed();
        // Not its business: a field, a finalizer of somebody else, a reference that was not there, another owner.
        pond.patch(&who, &json!({"spec": {"size": "XL"}})).await.refused(&[".spec.size"]);
        pond.patch(&who, &json!({"metadata": {"finalizers": ["orphan"]}}))
            .await
            .refused(&[".metadata.finalizers[=\"arena.example.com/fin\"]"]);
        let more = json!({"metadata": {"ownerReferences": [block, reference(&other).await]}});
        assert!(pond.patch(&who, &more).await.is_refused());
        let mut renamed = block.clone();
        renamed["name"] = json!("other");
        pond.patch(&who, &json!({"metadata": {"ownerReferences": [renamed]}})).await.refused(&[&path]);
        // Its business, and nobody else's.
        block["blockOwnerDeletion"] = json!(false);
        for change in [
            json!({"metadata": {"ownerReferences": [block]}}),
            json!({"metadata": {"finalizers": ["arena.example.com/fin"]}}),
            json!({"metadata": {"ownerReferences": null}}),
        ] {
            assert!(pond.patch(&alice(), &change).await.is_refused(), "{change}");
            pond.patch(&who, &change).await.allowed();
        }
    }
}

#[tokio::test]
async fn f16_a_namespace_that_goes_takes_its_objects_along() {
    if !has_controllers().await {
        return;
    }
    let pond = Pond::bare_of(&namespaced("f16").await, "pool").await.written().await;
    assert!(pond.send(&Call::delete(&pond.at("")), &alice()).await.is_refused());
    assert!(pond.send(&Call::delete(&pond.kind.resource()), &alice()).await.is_refused());
    let namespace = Call::delete("").at("/api/v1/namespaces/f16");
    pond.send(&namespace, &Identity::admin()).await.allowed();
    let plane = arena().await.plane;
    let deleted = async || {
        let events = plane.audit_log().ok()?;
        let by_controller = |event: &crate::harness::AuditEvent| {
            event.actor() == kube_system("namespace-controller").username()
                && event.object_ref.resource == "nsponds"
                && event.object_ref.namespace == "f16"
                && event.verb == "deletecollection"
                && event.code() == 200
        };
        events.iter().any(by_controller).then_some(())
    };
    arena().await.until("the deletion by the namespace controller", deleted).await;
    gone(&pond).await;
    // Outside a namespace it has nothing to delete, and no other account of the system has anywhere.
    let pond = Pond::bare("f16").await;
    for account in ["namespace-controller", "default", "deployment-controller"] {
        assert!(
            pond.send(&Call::delete(&pond.at("")), &kube_system(account)).await.is_refused(),
            "{account}"
        );
    }
}

#[tokio::test]
async fn f17_the_owner_of_a_finalizer_takes_it_from_an_object_that_is_being_deleted() {
    let pond = Pond::new("f17").await;
    let fin = json!({"metadata": {"finalizers": ["arena.example.com/fin"]}});
    pond.patch(&alice(), &fin).await.refused(&[".metadata.finalizers[=\"arena.example.com/fin\"]"]);
    pond.apply(&ctrl_a(), "ctrl-a-finalizer", &fin).await.allowed();
    pond.send(&Call::delete(&pond.at("")), &admin()).await.allowed();
    for body in [json!({"metadata": {"finalizers": null}}), json!({"metadata": {"finalizers": []}})] {
        pond.patch(&alice(), &body).await.refused(&[".metadata.finalizers[=\"arena.example.com/fin\"]"]);
    }
    // Together with a field of another owner it is refused for that field only.
    let both = json!({"metadata": {"finalizers": null}, "data": {"k": "w"}});
    pond.patch(&ctrl_a(), &both).await.refused(&[".data.k"]);
    pond.apply(&ctrl_a(), "ctrl-a-finalizer", &json!({})).await.allowed();
    gone(&pond).await;
}

#[tokio::test]
async fn f35_a_horizontal_pod_autoscaler_writes_the_scale_without_naming_a_manager() {
    let pond = Pond::new("f35").await;
    let put = async |pond: &Pond, who: &Identity, replicas: i64| {
        let mut scale = pond.send(&Call::get(&pond.at("/scale")), &admin()).await.allowed();
        scale["spec"]["replicas"] = json!(replicas);
        let agent = "kube-controller-manager/v1.37.2 (linux/amd64) kubernetes/0000000/system:serviceaccount:kube-system:horizontal-pod-autoscaler";
        pond.send(&Call::put(&pond.at("/scale"), &scale).user_agent(agent), who).await
    };
    put(&pond, &hpa(), 5).await.allowed();
    // Of a custom resource the server keeps no entry for it: who wrote the count is in no managedFields.
    assert_eq!(pond.read().await["spec"]["replicas"], 5);
    assert_eq!(pond.holders("f:spec/f:replicas").await, [""; 0]);
    put(&pond, &alice(), 6).await.refused(&[".spec.replicas"]);
    // Where all controllers share one credential, the policy has to say so.
    put(&pond, &Identity::person("system:kube-controller-manager", &[]), 6)
        .await
        .refused(&[".spec.replicas"]);

    // The real one: more replicas than it may have, so that it needs no metrics.
    if !has_controllers().await {
        return;
    }
    let pond = Pond::bare_of(&namespaced("f35").await, "scaled").await;
    pond.patch(&hpa(), &json!({"spec": {"replicas": 2}})).await.allowed();
    put(&pond, &hpa(), 5).await.allowed();
    let autoscaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "scaled", "namespace": "f35"},
        "spec": {"minReplicas": 1, "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "arena.example.com/v1", "kind": pond.kind.kind(), "name": "scaled"}}});
    arena().await.plane.apply(&autoscaler.to_string()).await.unwrap();
    let scaled = async || (pond.read().await["spec"]["replicas"] == 3).then_some(());
    arena().await.until("the autoscaler's write", scaled).await;
}

/// A kubeconfig file with the token that a pod of this account would have.
async fn token_of_a_pod(arena: &Arena, pod: &str) -> std::path::PathBuf {
    let plane = arena.plane;
    plane.token("ponds", "ctrl-a").await.unwrap();
    let manifest = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": "ponds"},
        "spec": {"serviceAccountName": "ctrl-a", "containers": [{"name": "c", "image": "c"}]}});
    plane.apply(&manifest.to_string()).await.unwrap();
    let args = [
        "create",
        "token",
        "ctrl-a",
        "-n=ponds",
        "--bound-object-kind=Pod",
        &format!("--bound-object-name={pod}"),
    ];
    let token = plane.kubectl(&args).await.unwrap().ok().unwrap();
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": plane.url(), "certificate-authority": plane.authority().certificate_file()}}],
        "users": [{"name": "c", "user": {"token": token.trim()}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]});
    let path = plane.dir().join("kubeconfig").join(format!("pod-{pod}"));
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

#[tokio::test]
async fn f36_two_pods_of_one_leader_elected_controller_are_one_owner() {
    let arena = arena().await;
    let pod = "authentication.kubernetes.io/pod-name";
    let pinned = kind("f36ponds", |policy| {
        policy.replacen("name: ctrl-a}]", &format!("name: ctrl-a, extra: {{{pod}: ctrl-a-0}}}}]"), 1)
    })
    .await;
    let (free, pinned) = (Pond::bare("f36").await, Pond::bare_of(&pinned, "f36").await);
    for (number, name) in ["ctrl-a-0", "ctrl-a-1"].into_iter().enumerate() {
        let kubeconfig = token_of_a_pod(arena, name).await;
        let patch = json!({"spec": {"size": format!("by {name}")}}).to_string();
        for pond in [&free, &pinned] {
            let kind = pond.kind.plural();
            let args = ["patch", kind, &pond.name, "--type=merge", "--patch", &patch];
            let output = arena.plane.run_kubectl(&kubeconfig, &args, "").await.unwrap();
            // A policy that pins the pod's name knows only one of them: so do not.
            assert_eq!(output.success, number == 0 || kind == "ponds", "{name} {kind}: {}", output.text());
            assert!(output.success || output.stderr.contains(".spec.size"), "{}", output.text());
        }
    }
}
