//! Part C: the webhook in production.

use serde_json::{Value, json};

use super::pools::{
    apply_status, autoscaler, dana, gitops, manifest, node_pools, nodepool_controller, owners, pool, pool_of,
    pools, sizeless, strict_pools, target, under, with_properties,
};
use crate::arena::{Call, Kind, PATIENCE, Pond, alice, arena, root};
use crate::decisions::with;
use crate::harness::{Identity, eventually, repository};

async fn kubectl_scale(pool: &Pond, who: &Identity, nodes: i64) -> crate::harness::Output {
    let object = format!("{}.arena.example.com/{}", pool.kind.plural, pool.name);
    arena().await.kubectl(who, &["scale", &object, &format!("--replicas={nodes}")], "").await
}

#[tokio::test]
async fn case_c01_kubectl_scale_is_a_write_of_the_size() {
    let pool = pool("c01").await;
    let output = kubectl_scale(&pool, &dana(), 9).await;
    assert!(!output.success && output.stderr.contains(".spec.targetNodes: 4 -> 9"), "{}", output.text());
    assert_eq!(pool.read().await["spec"]["targetNodes"], 4);
}

/// The API server sends an `autoscaling/v1` Scale for a resource of another group.
#[tokio::test]
async fn case_c02_a_scale_is_judged_as_a_scale_of_its_resource() {
    let pool = pool("c02").await;
    kubectl_scale(&pool, &autoscaler(), 5).await.ok().unwrap();
    let mut scale = pool.send(&Call::get(&pool.at("/scale")), &root()).await.allowed();
    assert_eq!((&scale["apiVersion"], &scale["kind"]), (&json!("autoscaling/v1"), &json!("Scale")));
    scale["spec"]["replicas"] = json!(6);
    pool.send(&Call::put(&pool.at("/scale"), &scale), &autoscaler()).await.allowed();
    assert_eq!(pool.read().await["spec"]["targetNodes"], 6);
}

#[tokio::test]
async fn case_c03_a_write_of_the_status_asks_for_nothing_of_the_spec() {
    let pool = Pond::absent(pools().await, "c03").await;
    pool.apply(&dana(), "dana", &json!({})).await.allowed();
    apply_status(&pool, &nodepool_controller(), "nodepool-controller", &json!({"readyNodes": 1}))
        .await
        .allowed();
    // Whatever else stands in the body is dropped by the API server before anybody is asked.
    let body = with(pool.read().await, "/status/readyNodes", json!(2));
    let body = with(body, "/spec", json!({"targetNodes": 9}));
    let stored = pool.send(&Call::put(&pool.at("/status"), &body), &nodepool_controller()).await.allowed();
    assert_eq!((&stored["spec"]["targetNodes"], &stored["status"]["readyNodes"]), (&Value::Null, &json!(2)));
    let body = with(stored, "/status/readyNodes", json!(3));
    pool.send(&Call::put(&pool.at("/status"), &body), &dana()).await.refused(&[".status.readyNodes"]);
}

#[tokio::test]
async fn case_c04_a_write_in_any_served_version_is_judged_by_the_same_path() {
    let pool = pool("c04").await;
    let mut body = with(pool.read().await, "/spec/targetNodes", json!(9));
    body["apiVersion"] = json!("arena.example.com/v2");
    let mut apply = pool.body(&target(9));
    apply["apiVersion"] = body["apiVersion"].clone();
    for call in [
        Call::merge_patch(&pool.at(""), &target(9)),
        Call::put(&pool.at(""), &body),
        Call::apply(&pool.at(""), "dana", &apply).force(),
    ] {
        pool.send(&call.clone().version("v2"), &dana()).await.refused(&[".spec.targetNodes"]);
    }
    let own = Call::merge_patch(&pool.at(""), &target(9)).version("v2");
    pool.send(&own, &autoscaler()).await.allowed();
}

/// What applying the shipped registration once more, as an upgrade does, would leave.
async fn upgraded() -> Value {
    let arena = arena().await;
    let port = arena.fieldkeeper.lock().await.endpoint.port;
    let shipped =
        std::fs::read_to_string(repository("webhooks/validating-webhook-configuration.yaml")).unwrap();
    let shipped = shipped.replace("port: 443", &format!("port: {port}"));
    let args = [
        "apply",
        "--server-side",
        "--dry-run=server",
        "--field-manager=installer",
        "-o=json",
        "--show-managed-fields",
        "-f",
        "-",
    ];
    let output = arena.kubectl(&root(), &args, &shipped).await;
    serde_json::from_str(&output.ok().unwrap()).unwrap()
}

#[tokio::test]
async fn case_c16_an_upgrade_leaves_the_bundle_of_the_injector() {
    let after = upgraded().await;
    let entries = after["webhooks"].as_array().unwrap();
    assert_eq!(entries.len(), 5);
    for entry in entries {
        let bundle = entry["clientConfig"]["caBundle"].as_str().unwrap_or_default();
        assert!(bundle.len() > 100, "{}: {bundle:?}", entry["name"]);
    }
}

#[tokio::test]
async fn case_c17_only_the_injector_holds_the_bundle() {
    // No conflict either: the apply is without force.
    let after = upgraded().await;
    let mut holders = Vec::new();
    for entry in after["metadata"]["managedFields"].as_array().unwrap() {
        if entry["fieldsV1"].to_string().contains("f:caBundle") {
            holders.push(entry["manager"].as_str().unwrap());
        }
    }
    assert_eq!(holders, ["ca-injector"]);
}

/// That a dry run is told to nobody is shown without a control plane, in `http.rs`.
#[tokio::test]
async fn case_c25_diff_and_dry_run_work_and_are_judged() {
    let pool = pool("c25").await;
    let before = pool.read().await;
    let diff = async |who: &Identity, fields: &Value| {
        let args = ["diff", "--server-side", "--force-conflicts", "-f", "-"];
        arena().await.kubectl(who, &args, &pool.body(fields).to_string()).await
    };
    let output = diff(&dana(), &json!({"spec": {"minNodes": 3}})).await;
    assert!(output.code == 1 && output.stdout.contains("minNodes: 3"), "{}", output.text());
    let output = diff(&dana(), &target(9)).await;
    assert!(output.code > 1 && output.stderr.contains(".spec.targetNodes: 4 -> 9"), "{}", output.text());
    let call = Call::merge_patch(&pool.at(""), &target(9)).dry_run();
    pool.send(&call, &dana()).await.refused(&[".spec.targetNodes"]);
    pool.send(&call, &autoscaler()).await.allowed();
    assert_eq!(pool.read().await, before);
    let configuration = upgraded().await;
    for entry in configuration["webhooks"].as_array().unwrap() {
        assert_eq!(entry["sideEffects"], "None", "{}", entry["name"]);
    }
}

#[tokio::test]
async fn case_c26_who_cleans_up_may_delete_and_write_nothing() {
    let cleaner = Identity::service_account("np-system", "cleaner");
    let pool = sizeless(strict_pools().await, "c26").await;
    pool.patch(&cleaner, &target(0)).await.refused(&[".spec.targetNodes"]);
    let delete = Call::delete(&pool.at(""));
    for who in [dana(), gitops(), autoscaler()] {
        pool.send(&delete, &who).await.refused(&[""]);
    }
    pool.send(&delete, &cleaner).await.allowed();
    assert_eq!(pool.send(&Call::get(&pool.at("")), &root()).await.code, 404);
}

#[tokio::test]
async fn case_c27_a_namespace_with_pools_that_nobody_may_delete_still_goes() {
    let kind = Kind::in_namespace("nestedpools", "case-c27");
    kind.define(node_pools).await;
    kind.govern(owners(json!({"deletion": {"subjects": []}}))).await;
    let mut pools = Vec::new();
    for name in ["c27-a", "c27-b", "c27-c"] {
        pools.push(sizeless(&kind, name).await);
    }
    for pool in &pools {
        pool.send(&Call::delete(&pool.at("")), &root()).await.refused(&[""]);
    }
    // Without a namespace controller nobody would empty it.
    if !arena().await.plane.has_controller_manager() {
        return;
    }
    let namespace = "/api/v1/namespaces/case-c27";
    pools[0].send(&Call::delete("").at(namespace), &root()).await.allowed();
    let gone = async || {
        let reply = arena().await.send(&Call::get("").at(namespace), &root()).await;
        (reply.code == 404).then_some(())
    };
    arena().await.until("the namespace to be gone", gone).await;
}

/// A pool with bounds the wrong way round, stored before the CRD got a rule against it.
async fn aged(name: &str) -> Pond {
    static KIND: tokio::sync::OnceCell<Kind> = tokio::sync::OnceCell::const_new();
    let kind = KIND.get_or_init(|| async {
        let kind = under("agedpools", owners(json!({}))).await;
        for name in ["c30", "c31"] {
            let pool = pool_of(&kind, name).await;
            let wrong = with(with(manifest(), "/spec/minNodes", json!(5)), "/spec/maxNodes", json!(3));
            pool.apply(&gitops(), "gitops-applier", &wrong).await.allowed();
        }
        kind.define(|crd| {
            node_pools(crd);
            with_properties(crd, "spec", |spec| {
                spec["x-kubernetes-validations"] = json!([{"rule": "!has(self.minNodes) || self.minNodes <= self.maxNodes",
                    "message": "minNodes is above maxNodes"}]);
            });
        })
        .await;
        let wrong = kind.object("new", &json!({"spec": {"minNodes": 5, "maxNodes": 3}}));
        let call = Call::create(&kind.resource(), &wrong).dry_run();
        let ruled = async || (kind.send(&call, &gitops()).await.code == 422).then_some(());
        eventually("the rule to be in force", PATIENCE, ruled).await.unwrap();
        kind
    });
    Pond::absent(kind.await, name).await
}

#[tokio::test]
async fn case_c30_a_finalizer_is_removed_from_an_object_that_is_invalid_today() {
    let pool = aged("c30").await;
    pool.send(&Call::delete(&pool.at("")), &dana()).await.allowed();
    let remove = json!([{"op": "remove", "path": "/metadata/finalizers/0"}]);
    let finalizer = r#".metadata.finalizers[="fleet.example.io/drain"]"#;
    pool.json_patch(&dana(), &remove).await.refused(&[finalizer]);
    pool.json_patch(&nodepool_controller(), &remove).await.allowed();
    assert_eq!(pool.send(&Call::get(&pool.at("")), &root()).await.code, 404);
}

/// What is invalid is the API server's to say; what did not change is nobody's fault there and here.
#[tokio::test]
async fn case_c31_what_did_not_change_is_not_judged() {
    let pool = aged("c31").await;
    pool.patch(&gitops(), &json!({"metadata": {"labels": {"cost": "x"}}})).await.allowed();
    let reply = pool.patch(&gitops(), &json!({"spec": {"minNodes": 6}})).await;
    assert!(reply.code == 422 && reply.message().contains("minNodes is above"), "{}", reply.message());
    pool.patch(&autoscaler(), &json!({"spec": {"targetNodes": 4}, "metadata": {"labels": {"cost": "y"}}}))
        .await
        .allowed();
    pool.patch(&gitops(), &json!({"spec": {"minNodes": 2, "maxNodes": 9}})).await.allowed();
    pool.patch(&alice(), &json!({"spec": {"minNodes": 3}})).await.refused(&[".spec.minNodes"]);
}

#[tokio::test]
async fn case_c35_names_are_matched_whole() {
    let pool = pool("c35").await;
    for who in [
        Identity::service_account("np-system", "autoscaler2"),
        Identity::service_account("np-system", "autoscale"),
        Identity::service_account("np-system2", "autoscaler"),
        Identity::person("xsystem:serviceaccount:np-system:autoscaler", &[]),
        Identity::person("autoscaler", &["system:serviceaccounts:np-system"]),
    ] {
        pool.patch(&who, &target(5)).await.refused(&[".spec.targetNodes"]);
    }
    pool.patch(&autoscaler(), &target(5)).await.allowed();
}
