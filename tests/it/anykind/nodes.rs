//! Nodes: labels by key, and one taint in a list that the API server takes as one value.

use serde_json::{Value, json};

use super::{object, owner, person, policy};
use crate::arena::{Call, Reply, alice, arena};
use crate::harness::Identity;

/// Only nodes with this label are governed, and only its owner gives it.
const LABEL: &str = "anykind/node";

fn node(name: &str, taints: &Value) -> Value {
    object(
        "v1",
        "Node",
        name,
        &json!({"metadata": {"labels": {LABEL: "yes", "team": "red"}}, "spec": {"taints": taints}}),
    )
}

fn taint(key: &str, value: &str) -> Value {
    json!({"key": key, "effect": "NoSchedule", "value": value})
}

/// Writes the list again with these items changed, whatever the node lifecycle controller has put there meanwhile.
async fn change(name: &str, who: &Identity, edit: impl Fn(&mut Vec<Value>)) -> Reply {
    let arena = arena().await;
    let path = format!("/api/v1/nodes/{name}");
    loop {
        let mut node = arena.send(&Call::get("").at(&path), &alice()).await.allowed();
        let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        edit(&mut taints);
        node["spec"]["taints"] = json!(taints);
        let reply = arena.send(&Call::put("", &node).at(&path), who).await;
        if reply.code != 409 {
            return reply;
        }
    }
}

#[tokio::test]
async fn one_taint_of_a_node_has_an_owner_although_the_list_is_one_value() {
    let arena = arena().await;
    let operator = person("node-operator");
    let selection =
        format!("  match: {{objectSelector: {{matchLabels: {{{LABEL}: 'yes'}}}}}}\n  allowUnsafe: true\n");
    let label = format!(".metadata.labels[\"{LABEL}\"]");
    let owners = owner(
        "node-operator",
        &[&label, ".metadata.labels[\"team\"]", ".spec.taints[key=\"x\",effect=\"NoSchedule\"]"],
    );
    let policy = policy("anykind-nodes", "v1", "nodes", &format!("{selection}  owners:\n{owners}"));
    arena.enforce(&policy, "anykind-nodes").await;
    let create = |node: &Value| Call::create("", node).at("/api/v1/nodes");
    arena.until_refused(&create(&node("anykind-probe", &json!([]))).dry_run(), &alice()).await;
    arena.send(&create(&node("anykind-1", &json!([taint("x", "1")]))), &operator).await.allowed();

    // Labels.
    let labels = |labels: &Value| {
        Call::merge_patch("", &json!({"metadata": {"labels": labels}})).at("/api/v1/nodes/anykind-1")
    };
    arena.send(&labels(&json!({"zone": "a"})), &alice()).await.allowed();
    arena.send(&labels(&json!({"team": "blue"})), &alice()).await.refused(&[".metadata.labels.team"]);
    arena.send(&labels(&json!({LABEL: null})), &alice()).await.refused(&[&label]);

    // Taints.
    let is_x = |taint: &Value| taint["key"] == "x";
    let path = ".spec.taints[effect=\"NoSchedule\",key=\"x\"]";
    change("anykind-1", &alice(), |taints| taints.push(taint("y", "1"))).await.allowed();
    let reply = change("anykind-1", &alice(), |taints| taints.retain(|taint| !is_x(taint))).await;
    assert!(reply.is_refused() && reply.fields().iter().all(|at| at.starts_with(path)), "{reply:?}");
    let raise = |taints: &mut Vec<Value>| {
        for taint in taints.iter_mut().filter(|taint| is_x(taint)) {
            taint["value"] = json!("2");
        }
    };
    change("anykind-1", &alice(), raise).await.refused(&[&format!("{path}.value")]);
    change("anykind-1", &operator, |taints| taints.retain(|taint| !is_x(taint))).await.allowed();

    // A node that is not selected is nobody's business.
    let mut free = node("anykind-2", &json!([taint("x", "1")]));
    free["metadata"]["labels"] = json!({"team": "red"});
    arena.send(&create(&free), &alice()).await.allowed();
    change("anykind-2", &alice(), |taints| taints.retain(|taint| !is_x(taint))).await.allowed();
    // Left in place, it would be asked about by every other test with a node.
    arena.plane.kubectl(&["delete", "fieldpolicy", "anykind-nodes"]).await.unwrap().ok().unwrap();
    arena.plane.kubectl(&["delete", "node", "anykind-1", "anykind-2"]).await.unwrap().ok().unwrap();
}
