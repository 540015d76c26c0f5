//! Part B: keyed lists.

use serde_json::{Value, json};

use super::pools::{
    apply_status, autoscaler, dana, gitops, manifest, node_pools, nodepool_controller, pool, sizeless, taint,
    with_properties,
};
use crate::arena::{Kind, alice, arena};
use crate::decisions::{self, NODEPOOLS, Request, refused, with};
use crate::harness::Identity;

#[tokio::test]
async fn case_b18_another_key_is_another_item_beside_the_one_that_somebody_still_holds() {
    let pool = pool("b18").await;
    let taints = |effect: &str| with(manifest(), "/spec/taints", json!([taint(effect, "red")]));
    pool.apply(&dana(), "dana", &json!({"spec": {"taints": [taint("NoSchedule", "red")]}})).await.allowed();
    pool.apply(&gitops(), "gitops-applier", &taints("NoExecute")).await.allowed();
    let stored = pool.read().await["spec"]["taints"].clone();
    assert_eq!(stored, json!([taint("NoSchedule", "red"), taint("NoExecute", "red")]));
    // A refusal says which of the two.
    let blue = json!({"spec": {"taints": [taint("NoSchedule", "red"), taint("NoExecute", "blue")]}});
    let field = r#".spec.taints[effect="NoExecute",key="team"].value"#;
    let reply = pool.patch(&alice(), &blue).await;
    assert!(reply.message().contains(&format!(r#"{field}: "red" -> "blue""#)), "{}", reply.message());
    reply.refused(&[field]);
    assert_eq!(
        pool.holders(r#"f:spec/f:taints/k:{"effect":"NoSchedule","key":"team"}"#).await,
        ["dana"],
        "who keeps the old one"
    );
}

#[test]
fn case_b19_items_with_one_key_are_compared_as_a_group() {
    let target = decisions::target(&[NODEPOOLS]);
    let twice = with(
        decisions::pool(),
        "/spec/template/taints",
        json!([taint("NoSchedule", "red"), taint("NoSchedule", "red")]),
    );
    let once = decisions::pool();
    let judge = |who: &str| refused(&Request::update(&twice, &once).by(who).judge(&target));
    assert_eq!(judge("@platform-admins"), [""; 0]);
    // To a stranger it is the item and all that is in it: which of the two stayed nobody can say.
    let item = r#".spec.template.taints[effect="NoSchedule",key="team"]"#;
    let refused = judge("mallory");
    assert!(!refused.is_empty() && refused.iter().all(|path| path.starts_with(item)), "{refused:?}");
}

#[tokio::test]
async fn case_b20_a_key_that_is_left_out_is_its_default_in_path_and_manifest() {
    let ports = |ports: Value| json!({"spec": {"ports": ports}});
    // One rule names both keys, the other leaves the protocol out; so does the manifest.
    for (port, field) in
        [(80, r#".spec.ports[port=80,protocol="TCP"]"#), (443, r#".spec.ports[port=443,protocol="TCP"]"#)]
    {
        let pool = pool(&format!("b20-{port}")).await;
        let item = ports(json!([{"port": port}]));
        let (key, default) = (format!("{field}.port"), format!("{field}.protocol"));
        // An apply is recorded before defaults are filled in: of this one the server knows no writer.
        pool.apply(&dana(), "dana", &item).await.refused(&[field, &key]);
        pool.patch(&dana(), &item).await.refused(&[field, &key, &default]);
        let stored = pool.apply(&Identity::person("nora", &[]), "nora", &item).await.allowed();
        assert_eq!(stored["spec"]["ports"], json!([{"port": port, "protocol": "TCP"}]));
    }
    let udp = ports(json!([{"port": 443, "protocol": "UDP"}, {"port": 22}]));
    pool("b20").await.apply(&dana(), "dana", &udp).await.allowed();
}

/// Conditions without list markers are one value: whoever applies its own takes all others away.
#[tokio::test]
async fn case_b21_a_claim_into_a_list_without_keys_is_linted_and_its_loss_refused() {
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    let owner = |name: &str, kind: &str| {
        json!({"name": name, "fields": [{"path": format!(".status.conditions[type=\"{kind}\"]")}],
            "subjects": [{"kind": "ServiceAccount", "namespace": "np-system", "name": name}]})
    };
    let owners = [owner("nodepool-controller", "Ready"), owner("autoscaler", "ScalingLimited")];
    let spec = json!({"mode": "Enforce", "owners": owners});
    let kind = Kind::with_crd("atomicpools", spec.clone(), |crd| {
        node_pools(crd);
        with_properties(crd, "status", |status| {
            let conditions = status["properties"]["conditions"].as_object_mut().unwrap();
            conditions.retain(|name, _| !name.starts_with("x-kubernetes"));
        });
    })
    .await;
    let lint = async |plural: &str| {
        let mut spec = spec.clone();
        spec["target"] = json!({"group": "arena.example.com", "version": "v1", "resource": plural});
        let policy = json!({"apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy",
            "metadata": {"name": format!("lint-{plural}")}, "spec": spec});
        let args = ["apply", "--server-side", "--dry-run=server", "-f", "-"];
        let output = arena().await.kubectl(&Identity::admin(), &args, &policy.to_string()).await;
        assert!(output.success, "{}", output.text());
        output.stderr
    };
    let said = "owners[autoscaler].fields[0].path: .status.conditions is one value to the API server";
    let warnings = lint(&kind.plural).await;
    assert!(warnings.contains(said), "{warnings}");
    let warnings = lint(&super::pools::pools().await.plural).await;
    assert!(!warnings.contains("one value"), "{warnings}");

    let pool = sizeless(&kind, "b21").await;
    let apply = async |who: &Identity, manager: &str, kind: &str| {
        apply_status(&pool, who, manager, &json!({"conditions": [condition(kind)]})).await
    };
    apply(&nodepool_controller(), "nodepool-controller", "Ready").await.allowed();
    let reply = apply(&autoscaler(), "autoscaler", "ScalingLimited").await;
    assert!(reply.is_refused(), "{}", reply.body);
    assert_eq!(pool.read().await["status"]["conditions"], json!([condition("Ready")]));
}
