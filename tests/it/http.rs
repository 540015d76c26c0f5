//! The admission port without sockets: requests in, answers out.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use fieldkeeper::admission::handle::Edge;
use fieldkeeper::admission::port::AdmissionPort;
use fieldkeeper::admission::state::{
    Hooks, Notice, ParentError, ParentReader, ParentRef, Snapshot, Snapshots,
};
use fieldkeeper::api::BYPASS_GROUP;
use fieldkeeper::cluster::namespaces::Namespaces;
use fieldkeeper::ownership::rule::PolicySet;
use fieldkeeper::telemetry::metrics::{WebhookMetrics, registry};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use prometheus_client::registry::Registry;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::runtime::{self, Handle};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

use crate::decisions::{NODEPOOLS, pool, target, with};

/// Answers every read with the same thing.
#[derive(Clone)]
struct OneParent(Result<Value, ParentError>, Duration);

impl ParentReader for OneParent {
    fn read(&self, parent: ParentRef) -> BoxFuture<'static, Result<Box<RawValue>, ParentError>> {
        assert_eq!((parent.resource.as_str(), parent.name.as_str()), ("nodepools", "general"));
        let Self(answer, delay) = self.clone();
        Box::pin(async move {
            sleep(delay).await;
            answer.map(|parent| to_raw_value(&parent).unwrap())
        })
    }
}

/// Leaves a task behind where it runs, as a client does that keeps its connection.
struct Keeping(Arc<Notify>);

impl ParentReader for Keeping {
    fn read(&self, _: ParentRef) -> BoxFuture<'static, Result<Box<RawValue>, ParentError>> {
        let connection = Arc::clone(&self.0);
        Box::pin(async move {
            tokio::spawn(async move {
                sleep(Duration::from_millis(100)).await;
                connection.notify_one();
            });
            Err(ParentError::NotFound)
        })
    }
}

struct Port {
    admission: AdmissionPort,
    registry: Registry,
    notices: mpsc::Receiver<Notice>,
}

fn port_with(policies: Option<&[&str]>, parents: impl ParentReader + 'static) -> Port {
    let mut registry = registry();
    let metrics = WebhookMetrics::register(&mut registry);
    let snapshots = Snapshots::default();
    if let Some(policies) = policies {
        snapshots.store(Snapshot { policies: PolicySet::new([Arc::new(target(policies))]) });
    }
    let (sender, notices) = mpsc::channel(8);
    let hooks = Hooks {
        parents: Arc::new(parents),
        policy_review: Arc::new(|object: Box<RawValue>| {
            let opinion = match object.get() {
                text if text.contains("panic") => panic!("as asked"),
                text if text.contains("wrong") => {
                    Err("spec.owners[0]: wrong\nspec.mode: wrong too".to_owned())
                }
                _ => Ok(vec!["lint: broad claim".to_owned()]),
            };
            std::future::ready(opinion).boxed()
        }),
        namespaces: Namespaces::default(),
        notices: Some(sender),
    };
    let edge = Arc::new(Edge::new(snapshots, hooks, metrics, Handle::current()));
    Port { admission: AdmissionPort::new(edge), registry, notices }
}

fn port() -> Port {
    port_with(Some(&[NODEPOOLS]), OneParent(Err(ParentError::NotFound), Duration::ZERO))
}

impl Port {
    async fn send(&self, request: Request<Body>) -> (StatusCode, String) {
        let response = self.admission.respond(request).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> (StatusCode, String) {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request.body(body.into()).unwrap()).await
    }

    /// The `response` of an answered review.
    async fn review(&self, path: &str, review: &Value) -> Value {
        let (status, text) = self.post(path, review.to_string()).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
        assert_eq!(answer["apiVersion"], review["apiVersion"]);
        answer["response"].take()
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    fn counts(&self, line: &str) {
        let metrics = self.metrics();
        assert!(metrics.lines().any(|held| held == line), "{line} is not in\n{metrics}");
    }
}

fn review(user: &str, old: &Value, new: &Value) -> Value {
    let kind = json!({"group": "compute.fieldkeeper.dev", "version": "v1alpha1", "kind": "NodePool"});
    let resource =
        json!({"group": "compute.fieldkeeper.dev", "version": "v1alpha1", "resource": "nodepools"});
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "0a1b", "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "name": "general", "operation": "UPDATE", "userInfo": {"username": user, "groups": ["system:authenticated"]},
            "object": new, "oldObject": old, "dryRun": false,
            "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl-edit"},
        }
    })
}

/// A stranger changes the size of a pool.
fn trespass() -> Value {
    review("mallory", &pool(), &with(pool(), "/spec/targetNodes", json!(7)))
}

fn scale(user: &str, old: u32, new: u32) -> Value {
    let scale = |count: u32| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
               "metadata": {"name": "general", "uid": "u-1", "resourceVersion": "10"}, "spec": {"replicas": count}})
    };
    let mut review = review(user, &scale(old), &scale(new));
    review["request"]["kind"] = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    review["request"]["subResource"] = json!("scale");
    review
}

#[tokio::test]
async fn a_trespass_is_refused_with_causes_and_told_to_listeners() {
    let mut port = port();
    let answer = port.review("/validate", &trespass()).await;
    assert_eq!(answer["allowed"], false);
    assert_eq!(answer["status"]["code"], 403);
    assert_eq!(answer["status"]["reason"], "Forbidden");
    assert_eq!(answer["status"]["details"]["kind"], "NodePool");
    assert_eq!(answer["status"]["details"]["causes"][0]["field"], ".spec.targetNodes");
    port.counts(
        r#"fieldkeeper_webhook_reviews_total{endpoint="validate",operation="UPDATE",outcome="denied"} 1"#,
    );
    port.counts(r#"fieldkeeper_webhook_policy_findings_total{policy="nodepools",mode="Enforce"} 1"#);
    port.counts("fieldkeeper_webhook_body_bytes 0");
    let notice = port.notices.recv().await.unwrap();
    assert!(notice.denied);
    assert_eq!((notice.object_uid.as_str(), notice.username.as_str()), ("u-1", "mallory"));
}

#[tokio::test]
async fn a_dry_run_gets_the_same_answer_and_is_told_to_nobody() {
    let mut port = port();
    let mut dry = trespass();
    dry["request"]["dryRun"] = json!(true);
    let answer = port.review("/validate", &dry).await;
    assert_eq!(answer, port.review("/validate", &trespass()).await);
    assert!(port.notices.try_recv().is_ok());
    assert!(port.notices.try_recv().is_err());
}

#[tokio::test]
async fn observe_never_denies_and_says_what_would_have_been() {
    let answer = port().review("/observe", &trespass()).await;
    assert_eq!(answer["allowed"], true);
    assert!(answer["status"].is_null());
    assert!(answer["warnings"][0].as_str().unwrap().contains(".spec.targetNodes"), "{answer}");
    assert!(answer["auditAnnotations"]["denied"].as_str().unwrap().contains(".spec.targetNodes"), "{answer}");
}

#[tokio::test]
async fn the_use_of_the_bypass_group_is_recorded() {
    let port = port();
    let mut bypass = trespass();
    bypass["request"]["userInfo"]["groups"] = json!([BYPASS_GROUP]);
    let answer = port.review("/observe", &bypass).await;
    assert_eq!(answer["allowed"], true);
    assert_eq!(answer["auditAnnotations"]["bypass"], "would-deny");
    port.counts(r#"fieldkeeper_webhook_bypass_total{result="would_deny"} 1"#);
}

#[tokio::test]
async fn an_owner_and_a_write_without_change_pass() {
    let port = port();
    let owner = "system:serviceaccount:fieldkeeper-system:autoscaler";
    let answer =
        port.review("/validate", &review(owner, &pool(), &with(pool(), "/spec/targetNodes", json!(7)))).await;
    assert_eq!(answer["allowed"], true, "{answer}");
    assert_eq!(port.review("/validate", &review("mallory", &pool(), &pool())).await["allowed"], true);
    let mut other = trespass();
    other["request"]["resource"]["resource"] = json!("others");
    assert_eq!(port.review("/validate", &other).await["allowed"], true);
}

#[tokio::test]
async fn without_policies_nothing_is_allowed() {
    let port = port_with(None, OneParent(Err(ParentError::NotFound), Duration::ZERO));
    let answer = port.review("/validate", &review("mallory", &pool(), &pool())).await;
    assert_eq!(answer["allowed"], false);
    assert!(answer["status"]["message"].as_str().unwrap().contains("not loaded"));
    assert_eq!(port.review("/observe", &trespass()).await["allowed"], true);
}

#[tokio::test]
async fn a_scale_is_judged_by_its_object_at_the_reviewed_version() {
    let judged = async |parent: Result<Value, ParentError>| {
        let port = port_with(Some(&[NODEPOOLS]), OneParent(parent, Duration::ZERO));
        port.review("/validate", &scale("mallory", 5, 7)).await
    };
    let answer = judged(Ok(pool())).await;
    assert_eq!(answer["status"]["code"], 403, "{answer}");
    for changed in [
        Ok(with(pool(), "/metadata/resourceVersion", json!("11"))),
        Ok(with(pool(), "/metadata/uid", json!("u-2"))),
        Ok(with(pool(), "/metadata/uid", Value::Null)),
        Err(ParentError::NotFound),
    ] {
        let answer = judged(changed).await;
        assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(409)), "{answer}");
        assert_eq!(answer["status"]["reason"], "Conflict");
    }
    let answer = judged(Err(ParentError::Forbidden("nodepools.compute.fieldkeeper.dev".into()))).await;
    assert_eq!(answer["status"]["code"], 403);
    assert!(answer["status"]["message"].as_str().unwrap().contains("may not read"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_parent_is_not_waited_for() {
    let port = port_with(Some(&[NODEPOOLS]), OneParent(Ok(pool()), Duration::from_mins(1)));
    let start = tokio::time::Instant::now();
    let answer = port.review("/validate", &scale("mallory", 5, 7)).await;
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(answer["allowed"], false);
    assert!(answer["status"]["message"].as_str().unwrap().contains("took too long"), "{answer}");
    port.counts(r#"fieldkeeper_webhook_parent_reads_total{result="timeout"} 1"#);
    assert_eq!(port.review("/observe", &scale("mallory", 5, 7)).await["allowed"], true);
}

#[tokio::test]
async fn a_connection_to_the_cluster_outlives_the_thread_of_the_review_that_made_it() {
    let connection = Arc::new(Notify::new());
    let port = port_with(Some(&[NODEPOOLS]), Keeping(Arc::clone(&connection)));
    let thread = tokio::task::spawn_blocking(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(port.review("/validate", &scale("mallory", 5, 7)))
    });
    assert_eq!(thread.await.unwrap()["status"]["code"], 409);
    timeout(Duration::from_secs(10), connection.notified()).await.expect("the connection is gone");
}

#[tokio::test]
async fn policies_are_judged_by_the_hook() {
    let port = port();
    let policy = |operation: &str, note: &str| {
        let object = json!({"apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy",
                            "metadata": {"name": "p", "annotations": {"note": note}}});
        let mut review = review("alice", &Value::Null, &object);
        review["request"]["kind"] =
            json!({"group": "fieldkeeper.dev", "version": "v1alpha1", "kind": "FieldPolicy"});
        review["request"]["resource"] =
            json!({"group": "fieldkeeper.dev", "version": "v1alpha1", "resource": "fieldpolicies"});
        review["request"]["operation"] = json!(operation);
        review
    };
    let answer = port.review("/validate", &policy("CREATE", "fine")).await;
    assert_eq!((&answer["allowed"], &answer["warnings"][0]), (&json!(true), &json!("lint: broad claim")));
    let answer = port.review("/validate", &policy("CREATE", "wrong")).await;
    assert_eq!((&answer["status"]["code"], &answer["status"]["reason"]), (&json!(422), &json!("Invalid")));
    let causes = answer["status"]["details"]["causes"].as_array().unwrap();
    let shown: Vec<_> =
        causes.iter().map(|cause| (cause["field"].as_str(), cause["message"].as_str())).collect();
    assert_eq!(shown, [(Some("spec.owners[0]"), Some("wrong")), (Some("spec.mode"), Some("wrong too"))]);
    assert_eq!(port.review("/observe", &policy("CREATE", "wrong")).await["allowed"], true);
    let answer = port.review("/validate", &policy("CREATE", "panic")).await;
    assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(500)));
}

#[tokio::test]
async fn what_contradicts_itself_is_refused_with_its_uid() {
    let port = port();
    let changes: [(&str, Value); 9] = [
        ("/request/operation", json!("CREATE")),
        ("/request/operation", json!("DELETE")),
        ("/request/operation", json!("PATCH")),
        ("/request/oldObject", Value::Null),
        ("/request/object", Value::Null),
        ("/request/object", json!("text")),
        ("/request/object/kind", json!("Pod")),
        ("/request/userInfo", json!([])),
        ("/apiVersion", json!("admission.k8s.io/v1beta1")),
    ];
    for (pointer, value) in changes {
        let mut review = trespass();
        *review.pointer_mut(pointer).unwrap() = value;
        let answer = port.review("/validate", &review).await;
        assert_eq!(
            (&answer["allowed"], &answer["status"]["code"]),
            (&json!(false), &json!(400)),
            "{pointer}"
        );
        let (status, text) = port.post("/observe", review.to_string()).await;
        let allowed = status == StatusCode::OK && text.contains(r#""allowed":true"#);
        assert_eq!(allowed, pointer != "/apiVersion", "{pointer}: {text}");
    }
}

#[tokio::test]
async fn deep_objects_are_refused_not_crashed_on() {
    let port = port();
    for depth in [127, 129, 100_000, 1_000_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let body = trespass().to_string().replace(r#""object":{"#, &format!(r#""object":{{"deep":{deep},"#));
        let (status, text) = port.post("/validate", body).await;
        assert_eq!(status, StatusCode::OK);
        assert!(text.contains(r#""uid":"0a1b","allowed":false"#), "{depth}: {text}");
    }
}

#[tokio::test]
async fn what_is_no_review_is_an_error_and_never_allowed() {
    let port = port();
    let whole = trespass().to_string();
    for end in 0..whole.len() {
        let (status, _) = port.post("/validate", whole.as_bytes()[..end].to_vec()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{end}");
    }
    let bodies: [&[u8]; 6] = [b"", b"null", b"\xff\xfe", b"{}{}", br#"{"kind":"AdmissionReview"}"#, b"[[[["];
    for body in bodies {
        assert_eq!(port.post("/validate", body.to_vec()).await.0, StatusCode::BAD_REQUEST);
        assert_eq!(port.post("/observe", body.to_vec()).await.0, StatusCode::BAD_REQUEST);
    }
    let twice = whole.replacen(r#""request":{"#, r#""request":{"object":null,"#, 1);
    assert_eq!(port.post("/validate", twice).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn only_posted_json_on_two_paths_is_read() {
    let port = port();
    let send = async |method: Method, path: &str, headers: &[(&str, &str)]| {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        port.send(request.body(Body::from(trespass().to_string())).unwrap()).await.0.as_u16()
    };
    let json = ("content-type", "application/json");
    assert_eq!(send(Method::GET, "/validate", &[json]).await, 405);
    assert_eq!(send(Method::PUT, "/observe", &[json]).await, 405);
    for path in ["/", "/validate/", "/validate/../validate", "/metrics", "/VALIDATE"] {
        assert_eq!(send(Method::POST, path, &[json]).await, 404, "{path}");
    }
    assert_eq!(send(Method::POST, "/validate?timeout=5s", &[json]).await, 200);
    for kind in ["application/json; charset=utf-8", "Application/JSON;charset=\"UTF-8\""] {
        assert_eq!(send(Method::POST, "/validate", &[("content-type", kind)]).await, 200, "{kind}");
    }
    for kind in
        ["application/yaml", "text/plain", "application/json; charset=utf-16", "application/jsonp", ""]
    {
        assert_eq!(send(Method::POST, "/validate", &[("content-type", kind)]).await, 415, "{kind}");
    }
    assert_eq!(send(Method::POST, "/validate", &[]).await, 415);
    assert_eq!(send(Method::POST, "/validate", &[json, json]).await, 415);
    assert_eq!(send(Method::POST, "/validate", &[json, ("content-encoding", "gzip")]).await, 415);
}

#[tokio::test]
async fn large_reviews_are_judged_and_larger_ones_are_not_read() {
    let port = port();
    let padded = |size: usize| {
        let mut review = trespass();
        review["request"]["object"]["metadata"]["annotations"] = json!({"pad": "x".repeat(size)});
        review["request"]["oldObject"]["metadata"]["annotations"] = json!({"pad": "x".repeat(size)});
        review
    };
    assert_eq!(port.review("/validate", &padded(3_400_000)).await["status"]["code"], 403);
    let (status, text) = port.post("/validate", padded(5_300_000).to_string()).await;
    assert_eq!((status, text.contains("10485760")), (StatusCode::PAYLOAD_TOO_LARGE, true));
    let endless = Body::from_stream(futures::stream::repeat_with(|| {
        Ok::<_, std::io::Error>(Bytes::from(vec![b'['; 65536]))
    }));
    assert_eq!(port.post("/validate", endless).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    port.counts("fieldkeeper_webhook_body_bytes 0");
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_is_given_up() {
    let port = port();
    let dripping = futures::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(b"[")), ()))
    });
    let start = tokio::time::Instant::now();
    assert_eq!(port.post("/validate", Body::from_stream(dripping)).await.0, StatusCode::REQUEST_TIMEOUT);
    assert!(start.elapsed() < Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn many_large_bodies_at_once_stay_within_the_budget() {
    let port = port();
    let stuck = || {
        let data =
            futures::stream::iter((0..9).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1 << 20]))));
        Body::from_stream(futures::StreamExt::chain(data, futures::stream::pending()))
    };
    let all = futures::future::join_all((0..16).map(|_| port.post("/validate", stuck()))).await;
    let busy = all.iter().filter(|(status, _)| *status == StatusCode::SERVICE_UNAVAILABLE).count();
    assert!(busy >= 8, "{busy}");
    assert!(all.iter().all(|(status, _)| !status.is_success()));
    port.counts("fieldkeeper_webhook_body_bytes 0");
}
