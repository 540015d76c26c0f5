//! What a rollout, a new certificate and a crash do to writes: nothing, nothing, and "no" without a hole.
//!
//! Each test keeps up a load of real writes through a real API server with failurePolicy Fail, so that every
//! review that fails is a write that fails.

mod balancer;
mod ground;
mod load;
mod mounted;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use self::ground::ground;
use self::load::Load;
use self::mounted::{Mounted, pairs};
use crate::arena::{Call, PATIENCE, alice, controller, pond, send, try_send};
use crate::harness::{Signal, eventually, get};

/// How often the webhook reads its certificate.
const POLL: Duration = Duration::from_secs(5);

/// What a crowded machine may add to any time that is promised.
const SLACK: Duration = Duration::from_secs(3);

#[tokio::test]
async fn five_restarts_under_load_fail_no_write() {
    let mut ground = ground().await;
    let mut replicas = VecDeque::from([ground.serving().await, ground.serving().await]);
    let before = ground.balancer.connections();
    let load = Load::start(&ground, "restarts").await;
    for _ in 0..5 {
        let mut old = replicas.pop_front().unwrap();
        old.process.signal(Signal::TERM).unwrap();
        // The replacement comes up while the old one drains, as when a pod is deleted.
        let new = ground.replica().await;
        ground.balancer.sees(old.port, false).await.unwrap();
        old.ended().await;
        ground.is_serving(&new).await;
        replicas.push_back(new);
    }
    load.stop().await.is_flawless("five restarts");
    // The API server did have to go elsewhere each time.
    assert!(ground.balancer.connections() >= before + 5);
}

#[tokio::test]
async fn ten_new_certificates_under_load_fail_no_write_and_no_handshake() {
    let mut ground = ground().await;
    let pairs = pairs(ground.plane.authority(), 11).unwrap();
    let mut mounted = Mounted::new(ground.plane.dir(), "mounted").unwrap();
    mounted.swap(&pairs[0].0).unwrap();
    let replica = ground.replica_of(&mounted.directory).await;
    ground.is_serving(&replica).await;
    let load = Load::start(&ground, "certificates").await;

    let rotate = async {
        let mut rotated = Vec::new();
        for (number, (pair, _)) in pairs.iter().enumerate().skip(1) {
            if number % 5 == 0 {
                mounted.write_key(pair).unwrap();
                // Long enough for the two that do not belong together to be read.
                sleep(POLL + Duration::from_millis(500)).await;
                mounted.write_certificate(pair).unwrap();
                // Nor could the pair before be read any more, if it had not been yet.
                rotated.pop();
                rotated.push(Instant::now());
            } else {
                mounted.swap(pair).unwrap();
            }
            rotated.push(Instant::now());
            sleep(Duration::from_secs(1)).await;
        }
        rotated
    };
    // Each handshake proves that key and certificate belong together: it is signed with the one and checked with
    // the other.
    let watch = async {
        let mut seen = vec![None; pairs.len()];
        let mut last = 0;
        while last + 1 < pairs.len() {
            let shown = ground.served(replica.port).await.unwrap();
            let number = pairs.iter().position(|(_, bytes)| *bytes == shown).unwrap();
            assert!(number >= last, "certificate {number} came back after {last}");
            last = number;
            seen[number].get_or_insert_with(Instant::now);
            sleep(Duration::from_millis(50)).await;
        }
        seen
    };
    let both = async { tokio::join!(rotate, watch) };
    let (rotated, seen) = tokio::time::timeout(Duration::from_mins(1), both).await.unwrap();

    let mut slowest = Duration::ZERO;
    for (number, rotated) in (1..).zip(rotated) {
        // A later one will do: this one may have been replaced before it was read.
        let first = seen[number..].iter().flatten().min().unwrap();
        slowest = slowest.max(first.saturating_duration_since(rotated));
    }
    println!("a new certificate was served after {slowest:?} at most");
    assert!(slowest <= POLL + SLACK, "{slowest:?}");
    load.stop().await.is_flawless("ten certificates");
    let (_, metrics) = get(replica.metrics, "/metrics").await.unwrap();
    let failed = "fieldkeeper_webhook_certificate_reloads_total{result=\"error\"} ";
    let failed = metrics.lines().find_map(|line| line.strip_prefix(failed)).unwrap();
    assert!(failed.parse::<u32>().unwrap() >= 2, "{failed}");
    replica.stop().await;
}

#[tokio::test]
async fn a_restart_of_the_api_server_leaves_the_webhook_running_and_right() {
    let mut ground = ground().await;
    let mut replica = ground.serving().await;
    let load = Load::start(&ground, "api-server").await;
    sleep(Duration::from_millis(500)).await;
    ground.plane.stop_api_server().await.unwrap();
    assert!(replica.process.status().unwrap().is_none(), "{}", replica.process.log_tail());
    ground.plane.start_api_server().await.unwrap();
    ground.until_refused().await;
    sleep(Duration::from_millis(500)).await;
    let tally = load.stop().await;
    println!("a restart of the API server: {} failed while it was away", tally.failed.len());
    assert!(tally.wrong.is_empty(), "{:#?}", tally.wrong);
    assert!(tally.allowed > 0 && tally.refused > 0, "{tally:?}");
    assert!(replica.process.status().unwrap().is_none(), "{}", replica.process.log_tail());

    // It has not only stayed, it also learns again.
    let policy = include_str!("../data/arena-policy.yaml");
    let changed = policy.replace("- path: .spec.size\n", "- path: .spec.size\n    - path: .spec.shape\n");
    assert_ne!(policy, changed);
    ground.plane.apply(&changed).await.unwrap();
    let stranger = ground.plane.client(&alice(), "test").await.unwrap();
    let call = Call::create("ponds", &pond("learns", &json!({"shape": "flat"}))).dry_run();
    let start = Instant::now();
    eventually("a policy that is written afterwards", PATIENCE, async || {
        send(&stranger, &call).await.is_refused().then_some(())
    })
    .await
    .unwrap();
    println!("a policy written afterwards was in force after {:?}", start.elapsed());
    ground.plane.apply(policy).await.unwrap();
    replica.stop().await;
}

#[tokio::test]
async fn a_killed_webhook_closes_what_is_enforced_and_nothing_else() {
    let mut ground = ground().await;
    let (mut first, mut second) = (ground.serving().await, ground.serving().await);
    let load = Load::start(&ground, "killed").await;
    sleep(Duration::from_secs(1)).await;
    first.process.kill().unwrap();
    ground.balancer.sees(first.port, false).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let tally = load.stop().await;
    println!("one of two replicas killed: {} of {} failed", tally.failed.len(), tally.allowed);
    assert!(tally.wrong.is_empty(), "{:#?}", tally.wrong);
    // What was under way or was led there before the balancer knew; never for long.
    assert!(tally.failed.len() <= 30, "{:#?}", tally.failed);

    let owner = ground.plane.client(&controller("ctrl-a"), "test").await.unwrap();
    let stranger = ground.plane.client(&alice(), "test").await.unwrap();
    send(&owner, &Call::create("ponds", &pond("closed", &json!({"size": "S"})))).await.allowed();
    let before = send(&owner, &Call::get("ponds/closed")).await.allowed();

    second.process.kill().unwrap();
    ground.balancer.sees(second.port, false).await.unwrap();
    let size = json!({"spec": {"size": "L"}});
    for client in [&owner, &stranger] {
        let calls = [
            Call::merge_patch("ponds/closed", &size),
            Call::merge_patch("ponds/closed/status", &json!({"status": {"phase": "Dry"}})),
            Call::create("ponds", &pond("opened", &json!({}))),
            Call::delete("ponds/closed"),
        ];
        for call in calls {
            let start = Instant::now();
            let reply = try_send(client, &call).await.unwrap();
            assert_eq!(reply.code, 500, "{call:?}: {}", reply.body);
            assert!(reply.message().contains("enforce.fieldkeeper.dev"), "{}", reply.message());
            assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        }
    }
    assert_eq!(send(&owner, &Call::get("ponds/closed")).await.allowed(), before);
    assert_eq!(send(&owner, &Call::get("ponds/opened")).await.code, 404);
    // A target whose policy only audits, one without any, and reading.
    let note =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "open"}, "data": {"a": "b"}});
    let call = Call::create("", &note).at("/api/v1/namespaces/default/configmaps");
    send(&stranger, &call).await.allowed();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "open"}});
    let call = Call::create("", &secret).at("/api/v1/namespaces/default/secrets");
    send(&stranger, &call).await.allowed();

    let third = ground.serving().await;
    send(&owner, &Call::merge_patch("ponds/closed", &size)).await.allowed();
    let body = json!({"spec": {"size": "X"}});
    send(&stranger, &Call::merge_patch("ponds/closed", &body)).await.refused(&[".spec.size"]);
    third.stop().await;
}

#[tokio::test]
async fn a_webhook_that_has_not_seen_the_policies_is_not_ready_and_allows_nothing() {
    let mut ground = ground().await;
    ground.plane.stop_api_server().await.unwrap();
    let mut replica = ground.replica().await;
    let port = replica.health;
    let listens = async || get(port, "/livez").await.is_ok_and(|(code, _)| code == 200);
    replica.process.ready(PATIENCE, listens).await.unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        let (code, body) = get(port, "/readyz").await.unwrap();
        assert_eq!(code, 503, "{body}");
        if let Ok(answer) = ground.review(replica.port, REVIEW).await {
            assert!(!answer.contains("\"allowed\":true"), "{answer}");
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert!(replica.process.status().unwrap().is_none(), "{}", replica.process.log_tail());
    assert!(!ground.balancer.is_ready(replica.port));

    ground.plane.start_api_server().await.unwrap();
    ground.is_serving(&replica).await;
    let answer = ground.review(replica.port, REVIEW).await.unwrap();
    assert!(answer.contains("\"allowed\":false") && answer.contains(".spec.size"), "{answer}");
    replica.stop().await;
}

/// A stranger who sets the size of a pond.
const REVIEW: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"a",
"kind":{"group":"arena.example.com","version":"v1","kind":"Pond"},
"resource":{"group":"arena.example.com","version":"v1","resource":"ponds"},
"requestKind":{"group":"arena.example.com","version":"v1","kind":"Pond"},
"requestResource":{"group":"arena.example.com","version":"v1","resource":"ponds"},
"name":"a","operation":"UPDATE","userInfo":{"username":"alice","groups":["system:authenticated"]},
"object":{"apiVersion":"arena.example.com/v1","kind":"Pond","metadata":{"name":"a","uid":"1"},"spec":{"size":"L"}},
"oldObject":{"apiVersion":"arena.example.com/v1","kind":"Pond","metadata":{"name":"a","uid":"1"},"spec":{"size":"S"}},
"dryRun":false,"options":{"apiVersion":"meta.k8s.io/v1","kind":"PatchOptions"}}}"#;
