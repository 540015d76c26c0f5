//! Random writes under random policies, judged by the generated admission policy and by `decide`.
//!
//! No webhook runs. Before each write the API server is asked, past the admission policy and as a dry run, what it
//! would store: that is what `decide` gets. On half of the kinds a mutating policy has its say first. Then the write is sent. A refusal by the admission policy must be one by
//! `decide` too; and where `decide` refuses a value that the admission policy says it covers, so must that.
//!
//! `FIELDKEEPER_RANDOM_SEED=n` replays one round, `FIELDKEEPER_RANDOM_STEPS=n` runs other rounds for so many steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fieldkeeper::api::FieldPolicy;
use fieldkeeper::cluster::in_force::GroupResource;
use fieldkeeper::cluster::schemas::Kind as KnownKind;
use fieldkeeper::cluster::target::target;
use fieldkeeper::ownership::decide::{Decision, decide};
use fieldkeeper::ownership::facts::{Facts, Operation, Requester};
use fieldkeeper::ownership::raw::Raw;
use fieldkeeper::ownership::rule::{Mode, Target};
use fieldkeeper::ownership::verdict::{Finding, Reason, Verdict};
use fieldkeeper::policy::compile::compile;
use fieldkeeper::policy::export_vap::{self, Action, Covered, Generated, generate};
use kube::Client;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::by_admission_policy;
use super::ground::mutates;
use crate::arena::{Call, OPEN_RBAC, PATIENCE, Reply, send};
use crate::harness::{ControlPlane, Identity, Options, eventually};
use crate::whole_plane::generator::{Attempt, Kind, Random, attempt, twin};
use crate::whole_plane::policy::{PEOPLE, Policy};

/// Of one policy.
const STEPS: usize = 60;

/// What every run goes through.
const SEEDS: [u64; 8] = [100, 101, 102, 103, 104, 105, 106, 107];

/// Rounds at the same time: the API server looks for changed admission policies once a second.
const LANES: usize = 4;

#[derive(Debug, Default)]
struct Tally {
    steps: AtomicUsize,
    allowed: AtomicUsize,
    /// By both.
    refused: AtomicUsize,
    /// Allowed by both although somebody else's field changed on the way.
    mutated: AtomicUsize,
    /// By `decide` alone, for what the admission policy leaves out.
    left_out: AtomicUsize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generated_admission_policy_refuses_only_what_decide_refuses_and_all_that_it_covers() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number("FIELDKEEPER_RANDOM_SEED");
    let seeds: Vec<u64> = match (seed, number("FIELDKEEPER_RANDOM_STEPS")) {
        (Some(seed), _) => vec![seed],
        (None, Some(steps)) => (1000..1000 + steps.div_ceil(STEPS as u64)).collect(),
        (None, None) => SEEDS.into(),
    };
    let plane = ControlPlane::start(Options::api_only()).await.unwrap();
    plane.apply(OPEN_RBAC).await.unwrap();
    let seeds = Mutex::new(seeds.into_iter());
    let done = Tally::default();
    let lane = async |lane: usize| {
        let lane = Lane::new(&plane, lane).await;
        let mut found = Vec::new();
        loop {
            let Some(seed) = seeds.lock().await.next() else { return found };
            if let Err(text) = lane.round(seed, &done).await {
                found.push(format!("{text}\nreplay: FIELDKEEPER_RANDOM_SEED={seed}"));
            }
        }
    };
    let (a, b, c, d) = tokio::join!(lane(0), lane(1), lane(2), lane(3));
    let found = [a, b, c, d].concat();
    println!("generated admission policies: {done:?}, disagreements {}", found.len());
    let shown: Vec<&str> = found.iter().take(3).map(String::as_str).collect();
    assert!(found.is_empty(), "{} disagreements\n{}", found.len(), shown.join("\n\n"));
    if seed.is_none() {
        let [allowed, refused] = [&done.allowed, &done.refused].map(|count| count.load(Ordering::Relaxed));
        assert!(allowed > 50 && refused > 50, "hardly anything was put to the test: {done:?}");
        let mutated = done.mutated.load(Ordering::Relaxed);
        assert!(
            mutated > 0 || !mutates(&plane.admin().await.unwrap()).await,
            "nothing was mutated: {done:?}"
        );
    }
}

/// One kind with one object, and everybody's clients.
struct Lane<'a> {
    plane: &'a ControlPlane,
    resource: String,
    kind: String,
    known: KnownKind,
    mutated: bool,
    admin: Client,
    people: Vec<Client>,
    twins: Vec<Client>,
}

impl<'a> Lane<'a> {
    async fn new(plane: &'a ControlPlane, number: usize) -> Self {
        assert!(number < LANES);
        let (resource, kind) = (format!("chances{number}"), format!("Chance{number}"));
        let mut crd: Value = serde_saphyr::from_str(include_str!("../../data/arena-crd.yaml")).unwrap();
        crd["metadata"]["name"] = json!(format!("{resource}.arena.example.com"));
        crd["spec"]["names"] = json!({"kind": kind, "plural": resource, "singular": kind.to_lowercase()});
        plane.apply(&crd.to_string()).await.unwrap();
        let (mut people, mut twins) = (Vec::new(), Vec::new());
        for who in &PEOPLE {
            let groups: Vec<&str> = who.group.into_iter().collect();
            people.push(plane.client(&Identity::person(who.name, &groups), "random").await.unwrap());
            twins.push(plane.client(&Identity::person(who.name, &twin(who)), "random").await.unwrap());
        }
        let admin = Identity::person("ground", &["fieldkeeper.dev:bypass"]);
        let admin = plane.client(&admin, "random").await.unwrap();
        let served = async || (send(&admin, &Call::get(&resource)).await.code == 200).then_some(());
        eventually("the kind to be served", PATIENCE, served).await.unwrap();
        // On every other kind somebody changes what is written.
        let mutated = number % 2 == 1 && mutates(&admin).await;
        if mutated {
            let mutating = include_str!("../../data/mutating-policies.yaml").replace("RESOURCE", &resource);
            plane.apply(&mutating).await.unwrap();
        }
        Self { plane, known: KnownKind::from_crd(&crd, "v1"), mutated, resource, kind, admin, people, twins }
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.resource)
    }

    async fn read(&self) -> Option<Value> {
        let reply = send(&self.admin, &Call::get(&self.at("object"))).await;
        (reply.code != 404).then(|| reply.allowed())
    }

    /// One policy and its steps; an error is a disagreement.
    async fn round(&self, seed: u64, done: &Tally) -> Result<(), String> {
        let mut random = Random(seed);
        let policy = Policy::random(&mut random);
        let (target, generated) = self.put_in_force(&policy, seed).await;
        self.clear().await;
        let mut stored = None;
        for step in 0..STEPS {
            let attempt = attempt(&mut random, &self.resource, &self.kind, stored.as_ref());
            let (reply, would, verdict) = self.step(&attempt, stored.as_ref(), &target).await;
            if let Some(verdict) = verdict {
                done.steps.fetch_add(1, Ordering::Relaxed);
                let by_rule = by_admission_policy(&reply);
                let by_decide: Vec<&Finding> =
                    verdict.findings.iter().filter(|finding| finding.mode == Mode::Enforce).collect();
                // CEL cannot tell an entry that only lost fields from one that gained some. Where somebody else may
                // have made the change, `decide` wants a gain for a proof.
                let proven = !self.mutated || stored.as_ref().is_none_or(|stored| gained(stored, &would));
                let covered =
                    proven && by_decide.iter().any(|finding| covers(&generated.covered, finding, &attempt));
                let wrong = match (by_rule, by_decide.is_empty(), covered) {
                    (true, true, _) => Some("refused what decide allows"),
                    (false, false, true) => Some("let through what it says it covers"),
                    _ => None,
                };
                if let Some(wrong) = wrong {
                    return Err(format!(
                        "step {step} of seed {seed}: the admission policy {wrong}\n{:?} {attempt:?}\npolicy {}\n\
                         before {}\nanswer {} {}\nfindings {by_decide:?}\nrules {}",
                        PEOPLE[attempt.who],
                        policy.object(&self.resource, ""),
                        stored.unwrap_or_default(),
                        reply.code,
                        reply.body,
                        serde_json::to_string(&generated.objects.as_deref().unwrap().0.spec).unwrap(),
                    ));
                }
                let count = match (by_rule, by_decide.is_empty()) {
                    (true, _) => &done.refused,
                    (false, true) if !verdict.notes.is_empty() => &done.mutated,
                    (false, true) => &done.allowed,
                    (false, false) => &done.left_out,
                };
                count.fetch_add(1, Ordering::Relaxed);
            }
            stored = self.read().await;
        }
        Ok(())
    }

    /// Sends the write; `None` where the API server by itself has something against it.
    async fn step(
        &self,
        attempt: &Attempt,
        stored: Option<&Value>,
        target: &Target,
    ) -> (Reply, Value, Option<Verdict>) {
        let who = &PEOPLE[attempt.who];
        let would = send(&self.twins[attempt.who], &attempt.call.clone().dry_run()).await;
        let reply = send(&self.people[attempt.who], &attempt.call).await;
        if would.code >= 300 {
            return (reply, would.body, None);
        }
        let raw = |value: &Value| -> Box<RawValue> { to_raw_value(value).unwrap() };
        let count = |count: &Value| {
            raw(&if count.is_null() { json!({"spec": {}}) } else { json!({"spec": {"replicas": count}}) })
        };
        let parent = stored.map(raw);
        let (old, new) = match attempt.kind {
            Kind::Scale(replicas) => {
                (stored.map(|stored| count(&stored["spec"]["replicas"])), Some(count(&json!(replicas))))
            }
            Kind::Delete => (stored.map(raw), None),
            Kind::Write => (stored.map(raw), Some(raw(&would.body))),
        };
        let requester = Requester {
            username: who.name.to_owned(),
            groups: who.group.into_iter().chain(["system:authenticated"]).map(str::to_owned).collect(),
            ..Requester::default()
        };
        let facts = Facts {
            requester: &requester,
            operation: match (attempt.kind, stored) {
                (Kind::Delete, _) => Operation::Delete,
                (_, None) => Operation::Create,
                _ => Operation::Update,
            },
            group: "arena.example.com",
            version: "v1",
            resource: &self.resource,
            subresource: attempt.call.subresource(),
            kind: &self.kind,
            namespace: "",
            namespace_labels: None,
            name: "object",
            field_manager: attempt.call.field_manager(),
            object: new.as_deref().map(Raw::from),
            old_object: old.as_deref().map(Raw::from),
            parent: parent.as_deref().filter(|_| attempt.call.subresource() == "scale").map(Raw::from),
            now: 0,
        };
        let Decision::Decided(verdict) = decide(&facts, target) else { panic!("the parent is there") };
        (reply, would.body, Some(verdict))
    }

    /// Replaces the admission policy, and asks until a rule of its own is in force.
    async fn put_in_force(&self, policy: &Policy, seed: u64) -> (Target, Generated) {
        let marker = format!("arena.example.com/round-{seed}");
        let object: FieldPolicy = serde_json::from_value(policy.object(&self.resource, &marker)).unwrap();
        let compiled = Arc::new(compile(&self.resource, 1, &object.spec).unwrap());
        let resource =
            GroupResource { group: "arena.example.com".to_owned(), resource: self.resource.clone() };
        let target = target(&resource, "v1", vec![compiled], &self.known);
        let facts = export_vap::Facts {
            target: &target,
            schema_known: true,
            subresources: &["status", "scale"],
            custom: true,
            excluded_namespaces: &export_vap::EXCLUDED_NAMESPACES.map(str::to_owned).into(),
            action: Action::Deny,
        };
        let generated = generate(&target.policies[0], &facts);
        let (rules, binding) = generated.objects.as_deref().unwrap();
        for object in [json!(rules), json!(binding)] {
            let args = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
            let kubeconfig = self.plane.admin_kubeconfig();
            self.plane.run_kubectl(&kubeconfig, &args, &object.to_string()).await.unwrap().ok().unwrap();
        }
        let body = json!({
            "apiVersion": "arena.example.com/v1", "kind": self.kind, "metadata": {"name": "probe"}, "spec": {},
        });
        // There already, from the second round on.
        send(&self.admin, &Call::create(&self.resource, &body)).await;
        let mark = json!({"metadata": {"annotations": BTreeMap::from([(marker.clone(), "x")])}});
        let call = Call::merge_patch(&self.at("probe"), &mark).dry_run();
        let in_force = async || {
            let reply = send(&self.people[0], &call).await;
            (by_admission_policy(&reply) && reply.message().contains(&marker)).then_some(())
        };
        eventually("the admission policy to be in force", PATIENCE, in_force).await.unwrap();
        (target, generated)
    }

    /// Takes the object of the round before away.
    async fn clear(&self) {
        if self.read().await.is_some() {
            let free = json!({"metadata": {"finalizers": null}});
            send(&self.admin, &Call::merge_patch(&self.at("object"), &free)).await.allowed();
            send(&self.admin, &Call::delete(&self.at("object"))).await;
        }
    }
}

/// Whether the generated rules say that they cover what was found.
fn covers(covered: &[Covered], finding: &Finding, attempt: &Attempt) -> bool {
    match (&finding.reason, &finding.path, attempt.kind) {
        (Reason::Deletion, None, _) => covered.contains(&Covered::Deletion),
        (Reason::OwnedByAnother | Reason::Closed | Reason::RequiredManager, Some(_), Kind::Scale(count)) => {
            covered.contains(&Covered::Scale) && count != 0
        }
        (Reason::OwnedByAnother | Reason::Closed | Reason::RequiredManager, Some(path), _) => {
            covered.iter().any(|covered| covered.is(path.elements()))
        }
        _ => false,
    }
}

/// Whether an entry is new, has another time or more fields than before.
fn gained(stored: &Value, would: &Value) -> bool {
    let entries =
        |object: &Value| object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let same = |a: &Value, b: &Value| {
        ["manager", "operation", "subresource", "time"].iter().all(|key| a.get(key) == b.get(key))
            && has_all(&a["fieldsV1"], &b["fieldsV1"])
    };
    let before = entries(stored);
    entries(would).iter().any(|entry| !before.iter().any(|other| same(other, entry)))
}

fn has_all(fields: &Value, others: &Value) -> bool {
    let mut others = others.as_object().into_iter().flatten();
    others.all(|(name, below)| fields.get(name).is_some_and(|fields| has_all(fields, below)))
}
