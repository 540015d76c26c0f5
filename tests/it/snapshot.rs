//! What the webhook knows of the cluster: its snapshot, its readiness, and its live reads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fieldkeeper::admission::hooks;
use fieldkeeper::admission::state::{Notice, ParentError, ParentRef, Readiness, Snapshots};
use fieldkeeper::ownership::rule::{Mode, Target};
use fieldkeeper::ownership::verdict::{Finding, Reason, Shown, Verdict};
use fieldkeeper::telemetry::policies::PolicyMetrics;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::harness::{Identity, NAMESPACE, eventually};
use crate::policy_controller::ground::{Ground, POOLS, policy};

const PATIENCE: Duration = Duration::from_secs(10);
/// A watch that fails waits longer each time.
const AFTER_FAILURES: Duration = Duration::from_mins(1);

/// The cluster side of a webhook, without the webhook.
struct Follower {
    snapshots: Snapshots,
    readiness: Readiness,
    notices: mpsc::Sender<Notice>,
    task: tokio::task::JoinHandle<()>,
}

impl Follower {
    fn start(client: Client) -> Self {
        let (snapshots, readiness) = (Snapshots::default(), Readiness::default());
        let connected = hooks::connect(client, snapshots.clone(), &readiness, PolicyMetrics::default());
        let notices = connected.hooks.notices.unwrap();
        Self { snapshots, readiness, notices, task: tokio::spawn(connected.background) }
    }

    /// With the identity and the rights that the webhook is shipped with.
    async fn as_webhook(ground: &Ground) -> Self {
        let account = Identity::service_account(NAMESPACE, "webhook");
        Self::start(ground.plane().client(&account, "fieldkeeper-test").await.unwrap())
    }

    fn pools(&self) -> Option<Arc<Target>> {
        self.snapshots.load()?.policies.target("compute.fieldkeeper.dev", "nodepools").cloned()
    }

    /// Waits until the target of NodePools is as asked.
    async fn pools_are(&self, what: &str, limit: Duration, ask: impl Fn(Option<&Target>) -> bool) {
        eventually(what, limit, async || ask(self.pools().as_deref()).then_some(())).await.unwrap();
    }

    async fn ready(&self, limit: Duration) {
        eventually("readiness", limit, async || self.readiness.is_ready().then_some(())).await.unwrap();
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn mode(target: Option<&Target>) -> Option<Mode> {
    target.and_then(|target| target.policies.first()).map(|policy| policy.mode)
}

#[tokio::test]
async fn a_policy_reaches_the_webhook_within_a_second_and_its_schema_follows() {
    let ground = Ground::new().await;
    let follower = Follower::as_webhook(&ground).await;
    follower.ready(PATIENCE).await;
    assert!(follower.pools().is_none(), "no policies is a state, too");
    let start = Instant::now();
    ground.write(&policy("pools", POOLS, &json!({"mode": "Warn"}))).await;
    follower.pools_are("the policy", PATIENCE, |target| mode(target) == Some(Mode::Warn)).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    follower
        .pools_are("the schema", PATIENCE, |target| {
            target.is_some_and(|target| {
                target.versions.iter().any(|version| &**version == "compute.fieldkeeper.dev/v1alpha1")
                    && target.schema.root().map().is_some_and(|root| root.field("spec").is_some())
                    && target
                        .scale
                        .as_ref()
                        .is_some_and(|scale| scale.replicas.to_string() == ".spec.targetNodes")
            })
        })
        .await;
    ground.delete("pools").await;
    follower.pools_are("no policy", PATIENCE, |target| target.is_none()).await;
    assert!(follower.readiness.is_ready());
}

#[tokio::test]
async fn what_does_not_compile_leaves_the_accepted_spec_in_force_also_for_a_new_replica() {
    let mut ground = Ground::new().await;
    // The controller records what it accepts.
    ground.start().await;
    ground.write(&policy("pools", POOLS, &json!({"mode": "Enforce"}))).await;
    assert_eq!(ground.condition("pools", "Accepted", "Accepted").await, "True");
    ground.stop().await;
    let old = Follower::as_webhook(&ground).await;
    old.pools_are("the policy", PATIENCE, |target| mode(target) == Some(Mode::Enforce)).await;
    let bad = json!({"mode": "Audit", "owners": [{"name": "o", "fields": [{"path": ".spec[unclosed"}]}]});
    ground.write(&policy("pools", POOLS, &bad)).await;
    // A second policy tells when the first edit has arrived.
    let marker = json!({"group": "example.com", "version": "v1", "resource": "unheards"}).to_string();
    ground.write(&policy("marker", &marker, &json!({}))).await;
    let arrived = async |follower: &Follower| {
        eventually("the marker", PATIENCE, async || {
            follower.snapshots.load()?.policies.target("example.com", "unheards").cloned()
        })
        .await
        .unwrap();
    };
    arrived(&old).await;
    assert_eq!(mode(old.pools().as_deref()), Some(Mode::Enforce));
    let new = Follower::as_webhook(&ground).await;
    arrived(&new).await;
    assert_eq!(mode(new.pools().as_deref()), Some(Mode::Enforce));
}

#[tokio::test]
async fn a_policy_that_nobody_can_read_does_not_hide_the_others() {
    let ground = Ground::new().await;
    // As after a downgrade: the stored object has a shape that this version does not know.
    ground.loosen_policy_crd().await;
    let mut alien = policy("alien", POOLS, &json!({}));
    alien["spec"] = json!({"target": 7, "novelty": [true]});
    ground.write_when_possible(&alien).await;
    ground.install_crds().await;
    ground.write(&policy("pools", POOLS, &json!({"mode": "Enforce"}))).await;
    let follower = Follower::as_webhook(&ground).await;
    follower.ready(PATIENCE).await;
    follower.pools_are("the other policy", PATIENCE, |target| mode(target) == Some(Mode::Enforce)).await;
}

#[tokio::test]
async fn without_the_crd_a_new_replica_is_not_ready_and_an_old_one_keeps_its_rules() {
    let ground = Ground::new().await;
    ground.write(&policy("pools", POOLS, &json!({"mode": "Enforce"}))).await;
    let old = Follower::as_webhook(&ground).await;
    old.pools_are("the policy", PATIENCE, |target| mode(target) == Some(Mode::Enforce)).await;
    ground.lose_policy_crd().await;
    let new = Follower::as_webhook(&ground).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!new.readiness.is_ready());
    assert!(new.snapshots.load().is_none(), "not loaded is not empty");
    assert_eq!(mode(old.pools().as_deref()), Some(Mode::Enforce));
    assert!(old.readiness.is_ready(), "it still serves what it knows");
    ground.install_crds().await;
    ground.write(&policy("pools", POOLS, &json!({"mode": "Warn"}))).await;
    for follower in [&old, &new] {
        follower.pools_are("the new policy", AFTER_FAILURES, |target| mode(target) == Some(Mode::Warn)).await;
    }
}

#[tokio::test]
async fn parents_are_read_live_and_only_with_the_right_to() {
    let ground = Ground::new().await;
    let pool = |name: &str| ParentRef {
        group: "compute.fieldkeeper.dev".to_owned(),
        version: "v1alpha1".to_owned(),
        resource: "nodepools".to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    };
    let read = async |client: Client, name: &str| {
        let connected =
            hooks::connect(client, Snapshots::default(), &Readiness::default(), PolicyMetrics::default());
        connected.hooks.parents.read(pool(name)).await
    };
    let admin = ground.plane().admin().await.unwrap();
    assert_eq!(read(admin.clone(), "absent").await.err(), Some(ParentError::NotFound));
    let account = Identity::service_account(NAMESPACE, "stranger");
    let stranger = ground.plane().client(&account, "fieldkeeper-test").await.unwrap();
    assert_eq!(
        read(stranger, "absent").await.err(),
        Some(ParentError::Forbidden("nodepools.compute.fieldkeeper.dev".to_owned()))
    );
    let namespace = ParentRef {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "namespaces".to_owned(),
        namespace: String::new(),
        name: NAMESPACE.to_owned(),
    };
    let connected =
        hooks::connect(admin, Snapshots::default(), &Readiness::default(), PolicyMetrics::default());
    let json = connected.hooks.parents.read(namespace).await.unwrap();
    let object: Value = serde_json::from_str(json.get()).unwrap();
    assert_eq!(object["metadata"]["name"], NAMESPACE);
    assert!(object["metadata"]["resourceVersion"].is_string());
}

#[tokio::test]
async fn a_denial_becomes_an_event_on_the_policy_and_on_the_object_however_often_it_is_repeated() {
    let ground = Ground::new().await;
    ground.write(&policy("pools", POOLS, &json!({"mode": "Enforce"}))).await;
    let follower = Follower::as_webhook(&ground).await;
    follower.pools_are("the policy", PATIENCE, |target| mode(target) == Some(Mode::Enforce)).await;
    let finding = Finding {
        policy: "pools".into(),
        mode: Mode::Enforce,
        reason: Reason::OwnedByAnother,
        path: None,
        old: Shown::Absent,
        new: Shown::Absent,
        owners: Vec::new(),
        instead: None,
        holders: Vec::new(),
        untracked: false,
    };
    let notice = Notice {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "configmaps".to_owned(),
        subresource: String::new(),
        kind: "ConfigMap".to_owned(),
        namespace: "default".to_owned(),
        name: "shop".to_owned(),
        object_uid: "11111111-2222-3333-4444-555555555555".to_owned(),
        username: "mallory".to_owned(),
        denied: true,
        verdict: Verdict { findings: vec![finding], ..Verdict::default() },
        message: "you may not change .data".to_owned(),
    };
    for _ in 0..5 {
        follower.notices.send(notice.clone()).await.unwrap();
    }
    let events: Api<Event> = Api::namespaced(ground.plane().admin().await.unwrap(), "default");
    let ours = async || {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let ours = all.into_iter().filter(|event| event.reason.as_deref() == Some("WriteDenied"));
        ours.collect::<Vec<_>>()
    };
    let both = || async { Some(ours().await).filter(|events| events.len() >= 2) };
    eventually("two events", PATIENCE, both).await.unwrap();
    // The channel is in order: what comes after the five has waited for them.
    follower.notices.send(Notice { username: "eve".to_owned(), ..notice }).await.unwrap();
    let four = || async { Some(ours().await).filter(|events| events.len() >= 4) };
    let told = eventually("two more", PATIENCE, four).await.unwrap();
    assert_eq!(told.len(), 4, "one of each, not of each attempt");
    let uid = ground.policy("pools").await["metadata"]["uid"].as_str().unwrap().to_owned();
    let on_policy = told.iter().find(|event| event.regarding.as_ref().unwrap().uid.as_deref() == Some(&uid));
    let on_policy = on_policy.unwrap();
    assert_eq!(on_policy.regarding.as_ref().unwrap().kind.as_deref(), Some("FieldPolicy"));
    assert_eq!(on_policy.type_.as_deref(), Some("Warning"));
    assert!(on_policy.note.as_ref().unwrap().ends_with("you may not change .data"));
    let managers = on_policy.metadata.managed_fields.as_ref().unwrap();
    assert_eq!(managers[0].manager.as_deref(), Some("webhook-events"));
}
