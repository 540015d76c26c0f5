//! What fieldkeeper adds to a write through a real API server, against a webhook that always says yes.
//!
//! Input: three kinds with one schema in one control plane (etcd without fsync): one without a webhook, one with a
//! constant webhook, one under a policy of fieldkeeper; both webhooks in service mode, failurePolicy Fail. Output: the
//! median latency of an owner's merge patch for objects of three sizes, taken in turns in one run, and a failure where
//! what ours adds is above its multiple of what the constant one adds.

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

use bytes::Bytes;
use harness::{ControlPlane, Identity, Options, Process, eventually, free_ports, serve};
use http::Request;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const CRD: &str = include_str!("../data/arena-crd.yaml");
const POLICY: &str = include_str!("../data/arena-policy.yaml");
const KINDS: [&str; 3] = ["plains", "constants", "ponds"];
const SIZES: [usize; 3] = [2_000, 15_000, 50_000];
const ROUNDS: usize = 400;
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
    let _constant = constant_webhook(&plane).await;

    let creator = plane.client(&Identity::person("creator", &[]), "bench").await.unwrap();
    let owner = plane.client(&Identity::service_account("ponds", "ctrl-a"), "bench").await.unwrap();
    let stranger = plane.client(&Identity::person("alice", &[]), "bench").await.unwrap();
    let mut missed = false;
    println!(
        "median of {ROUNDS} patches, taken in turns\n\n{:>7} {:>10} {:>10} {:>10} {:>7} {:>6}",
        "object", "no webhook", "constant", "ours", "ratio", "bound"
    );
    for size in SIZES {
        let name = format!("of-{size}");
        for plural in KINDS {
            create(&creator, plural, &name, size).await;
        }
        // Until ours is asked: a stranger's write of the size is refused.
        let refused = async || patch(&stranger, "ponds", &name, "XL").await.is_err().then_some(());
        eventually("a refusal", Duration::from_secs(30), refused).await.unwrap();
        let mut taken: [Vec<Duration>; 3] = Default::default();
        for round in 0..ROUNDS {
            for (kind, taken) in KINDS.iter().zip(&mut taken) {
                let start = Instant::now();
                patch(&owner, kind, &name, &format!("S{round}")).await.unwrap();
                taken.push(start.elapsed());
            }
        }
        let [none, constant, ours] = taken.map(median);
        let ratio = (ours - none) / (constant - none);
        missed |= ratio > BOUND;
        let flag = if ratio > BOUND { "  MISSED" } else { "" };
        println!(
            "{:>5} kB {none:>7.2} ms {constant:>7.2} ms {ours:>7.2} ms {ratio:>7.2} {BOUND:>6}{flag}",
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

/// Registers and starts a webhook that allows everything: the least that any webhook costs. It is a process of its
/// own, as ours is and any other: in this one it would share warm threads with the client that waits for it.
async fn constant_webhook(plane: &ControlPlane) -> Process {
    let [port] = free_ports().unwrap();
    let endpoint = plane.webhook_service("constant", port).await.unwrap();
    let program = std::env::current_exe().unwrap();
    let (certificate, key) = (endpoint.certificate.to_str().unwrap(), endpoint.key.to_str().unwrap());
    let args = [CONSTANT, &port.to_string(), certificate, key];
    let process = plane.run_beside("constant", &program, &plane.admin_kubeconfig(), &args, &[]).unwrap();
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "constant"},
        "webhooks": [{
            "name": "constant.bench.test", "clientConfig": endpoint.client_config("/"),
            "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": ["arena.example.com"], "apiVersions": ["v1"], "resources": ["constants"]}],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }],
    });
    plane.apply(&configuration.to_string()).await.unwrap();
    process
}

/// The constant webhook's process: serves until it is ended.
async fn serve_constant(port: &str, certificate: &str, key: &str) {
    let listener = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).await.unwrap();
    let answer = |request: Request<Bytes>| std::future::ready(yes(request.body()));
    serve(listener, Path::new(certificate), Path::new(key), answer).unwrap().await.unwrap();
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
