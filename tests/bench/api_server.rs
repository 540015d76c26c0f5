//! What fieldkeeper adds to a write through a real API server, against a webhook that always says yes.
//!
//! Input: four kinds with one schema in one control plane (etcd without fsync): one without a webhook, one with a
//! constant webhook (axum, as ours), one with that webhook registered as fieldkeeper is, one under a policy of fieldkeeper; all
//! webhooks in service mode, failurePolicy Fail. Output: the median latency of an owner's merge patch for objects of
//! three sizes, taken in turns in one run, and a failure where what ours adds is above its multiple of what the constant
//! one adds. Registered alike, the constant one shows which part of that the API server spends before it asks.

#![allow(
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark stops at the first surprise"
)]

#[path = "../harness/mod.rs"]
mod harness;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use harness::{ControlPlane, Identity, Options, Process, eventually, free_ports, serve_router};
use http::header::CONTENT_TYPE;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const CRD: &str = include_str!("../data/arena-crd.yaml");
const POLICY: &str = include_str!("../data/arena-policy.yaml");
const REGISTRATION: &str = include_str!("../../webhooks/validating-webhook-configuration.yaml");
const KINDS: [&str; 4] = ["plains", "constants", "alikes", "ponds"];
/// Bytes of an object, and how many rounds: the larger it is, the more the API server's own time varies.
const SIZES: [(usize, usize); 3] = [(2_000, 2_000), (15_000, 1_200), (50_000, 1_200)];
/// In which order the kinds are written: each comes once after each other one.
const ORDERS: [[usize; 4]; 4] = [[0, 1, 3, 2], [1, 2, 0, 3], [2, 3, 1, 0], [3, 0, 2, 1]];
const BOUND: f64 = 1.25;
/// Makes this program the constant webhook; port, certificate and key follow.
const CONSTANT: &str = "--constant";
const RBAC: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bench}
rules:
- {apiGroups: [arena.example.com], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: bench}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: bench}
subjects: [{kind: Group, name: "system:authenticated", apiGroup: rbac.authorization.k8s.io}]
"#;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [what, port, certificate, key] = &*args
        && what == CONSTANT
    {
        serve_constant(port, certificate, key).await;
        return ExitCode::SUCCESS;
    }
    let plane = ControlPlane::start(Options::api_only()).await.unwrap();
    let fieldkeeper = plane.install_fieldkeeper().await.unwrap();
    for plural in KINDS {
        let kind = kind_of(plural);
        let names = format!("{{kind: {kind}, plural: {plural}, singular: {}}}", kind.to_lowercase());
        let crd = CRD.replace("{kind: Pond, plural: ponds, singular: pond}", &names);
        plane.apply(&crd.replace("name: ponds.", &format!("name: {plural}."))).await.unwrap();
    }
    plane.apply(RBAC).await.unwrap();
    plane.apply(POLICY).await.unwrap();
    fieldkeeper.registered(&plane, "ponds").await.unwrap();
    let _constant = constant_webhooks(&plane).await;

    let creator = plane.client(&Identity::person("creator", &[]), "bench").await.unwrap();
    let owner = plane.client(&Identity::service_account("ponds", "ctrl-a"), "bench").await.unwrap();
    let stranger = plane.client(&Identity::person("alice", &[]), "bench").await.unwrap();
    let mut missed = false;
    println!(
        "median of patches taken in turns\n\n{:>7} {:>7} {:>10} {:>10} {:>10} {:>10} {:>7} {:>7} {:>6}",
        "object", "patches", "no webhook", "constant", "alike", "ours", "alike", "ours", "bound"
    );
    for (size, rounds) in SIZES {
        let name = format!("of-{size}");
        for plural in KINDS {
            create(&creator, plural, &name, size).await;
        }
        // Until ours is asked: a stranger's write of the size is refused.
        let refused = async || patch(&stranger, "ponds", &name, "XL").await.is_err().then_some(());
        eventually("a refusal", Duration::from_secs(30), refused).await.unwrap();
        let mut taken: [Vec<Duration>; 4] = Default::default();
        for round in 0..rounds {
            // Nobody always comes after the same one: what that leaves behind is part of the next one's time.
            let order = ORDERS[round % ORDERS.len()];
            for index in order {
                let start = Instant::now();
                patch(&owner, KINDS[index], &name, &format!("S{round}")).await.unwrap();
                taken[index].push(start.elapsed());
            }
        }
        let [none, constant, alike, ours] = taken.map(median);
        let [alike_ratio, ratio] = [alike, ours].map(|with| (with - none) / (constant - none));
        missed |= ratio > BOUND;
        let flag = if ratio > BOUND { "  MISSED" } else { "" };
        println!(
            "{:>5} kB {rounds:>7} {none:>7.2} ms {constant:>7.2} ms {alike:>7.2} ms {ours:>7.2} ms {alike_ratio:>7.2} \
             {ratio:>7.2} {BOUND:>6}{flag}",
            size / 1000
        );
    }
    if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// In milliseconds.
fn median(mut taken: Vec<Duration>) -> f64 {
    taken.sort_unstable();
    taken[taken.len() / 2].as_secs_f64() * 1000.0
}

fn kind_of(plural: &str) -> String {
    let (first, rest) = plural.trim_end_matches('s').split_at(1);
    first.to_uppercase() + rest
}

fn api(client: &Client, plural: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("arena.example.com", "v1", &kind_of(plural));
    Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, plural))
}

async fn create(client: &Client, plural: &str, name: &str, size: usize) {
    let labels: serde_json::Map<String, Value> =
        (0..size / 50).map(|n| (format!("label-{n:05}"), json!(format!("value-{n:05}")))).collect();
    let object = json!({"apiVersion": "arena.example.com/v1", "kind": kind_of(plural),
        "metadata": {"name": name}, "spec": {"mode": "calm", "labels": labels}});
    let object = serde_json::from_value(object).unwrap();
    let made = async || api(client, plural).create(&PostParams::default(), &object).await.ok();
    eventually("a new kind to take objects", Duration::from_secs(30), made).await.unwrap();
}

async fn patch(client: &Client, plural: &str, name: &str, size: &str) -> kube::Result<DynamicObject> {
    let patch = json!({"spec": {"size": size}});
    let params = PatchParams { field_manager: Some("ctrl-a".to_owned()), ..PatchParams::default() };
    api(client, plural).patch(name, &params, &Patch::Merge(&patch)).await
}

/// Registers and starts a webhook that allows everything, the least that any webhook costs: by itself for one kind, and
/// for another with the selectors and conditions of the two entries that see a write under a policy. Each is a process
/// of its own, as ours is and any other: in this one it would share warm threads with the client that waits for it,
/// and one for both would be warm at every second call. Nor is its program this file: the code of one file is in the
/// processor's caches for every process that runs it, and the client has just run the same TLS and the same runtime.
async fn constant_webhooks(plane: &ControlPlane) -> [Process; 2] {
    let constant =
        json!({"name": "constant.bench.test", "sideEffects": "None", "admissionReviewVersions": ["v1"]});
    [
        constant_webhook(plane, "constant", "constants", vec![constant]).await,
        constant_webhook(plane, "alike", "alikes", fieldkeepers_entries()).await,
    ]
}

async fn constant_webhook(
    plane: &ControlPlane,
    name: &str,
    plural: &str,
    mut entries: Vec<Value>,
) -> Process {
    let [port] = free_ports().unwrap();
    let endpoint = plane.webhook_service(name, port).await.unwrap();
    let program = endpoint.certificate.with_file_name(format!("{name}-webhook"));
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let (certificate, key) = (endpoint.certificate.to_str().unwrap(), endpoint.key.to_str().unwrap());
    let args = [CONSTANT, &port.to_string(), certificate, key];
    let process = plane.run_beside(name, &program, &plane.admin_kubeconfig(), &args, &[]).unwrap();
    for entry in &mut entries {
        entry["clientConfig"] = json!(endpoint.client_config("/"));
        entry["rules"] = json!([{"operations": ["CREATE", "UPDATE"], "apiGroups": ["arena.example.com"],
            "apiVersions": ["v1"], "resources": [plural]}]);
    }
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name}, "webhooks": entries,
    });
    plane.apply(&configuration.to_string()).await.unwrap();
    process
}

/// As they are shipped.
fn fieldkeepers_entries() -> Vec<Value> {
    let shipped: Value = serde_saphyr::from_str(REGISTRATION).unwrap();
    let entries = shipped["webhooks"].as_array().unwrap().iter();
    let named = |entry: &&Value| {
        ["enforce.fieldkeeper.dev", "bypass.fieldkeeper.dev"].iter().any(|name| entry["name"] == **name)
    };
    let entries: Vec<Value> = entries.filter(named).cloned().collect();
    assert_eq!(entries.len(), 2);
    entries
}

/// The constant webhook's process: serves until it is ended.
async fn serve_constant(port: &str, certificate: &str, key: &str) {
    let listener = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).await.unwrap();
    let answer = async |body: Bytes| ([(CONTENT_TYPE, "application/json")], yes(&body).to_string());
    let router = Router::new().route("/", post(answer));
    serve_router(listener, Path::new(certificate), Path::new(key), router).unwrap().await.unwrap();
}

fn yes(body: &[u8]) -> Value {
    #[derive(serde::Deserialize)]
    struct Review {
        request: Head,
    }
    #[derive(serde::Deserialize)]
    struct Head {
        uid: String,
    }
    let review: Review = serde_json::from_slice(body).unwrap();
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review.request.uid, "allowed": true}})
}
