//! Random sequences of writes under random policies on a whole control plane, judged twice.
//!
//! Before each write the API server is asked, past the webhook and as a dry run, what it would store. A judge that
//! shares no code with the product says which fields of that the requester may not write. Then the write is sent:
//! it must be refused exactly if there are such fields, and what is stored must be what was judged.
//!
//! `FIELDKEEPER_RANDOM_SEED=n` replays one round, `FIELDKEEPER_RANDOM_STEPS=n` runs fresh rounds for so many steps.

pub mod generator;
mod judge;
pub mod policy;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use kube::Client;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use self::generator::{Attempt, Kind, Random, attempt, twin};
use self::policy::{PEOPLE, Policy};
use crate::arena::{Call, OPEN_RBAC, PATIENCE, Reply, send};
use crate::harness::{ControlPlane, Identity, Installation, Options, eventually};

/// Of one policy.
const STEPS: usize = 60;

/// What every run goes through; a fresh seed comes on top. In the last one a stranger empties a list of which one item
/// is its own.
const SEEDS: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 295_474_127];

/// Times that a write is sent again which could not be decided in time.
const BUSY: usize = 10;

/// Rounds at the same time, each with a kind and a policy of its own.
const LANES: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_writes_are_refused_exactly_if_they_change_a_field_of_somebody_else() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let fresh = u64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() & 0xFFFF_FFFF).unwrap();
    let steps = number("FIELDKEEPER_RANDOM_STEPS");
    let seeds: Vec<u64> = match (number("FIELDKEEPER_RANDOM_SEED"), steps) {
        (Some(seed), _) => vec![seed],
        (None, Some(steps)) => (0..steps.div_ceil(STEPS as u64)).map(|round| fresh + round).collect(),
        (None, None) => SEEDS.into_iter().chain([fresh]).collect(),
    };
    let ground = Ground::new().await;
    let seeds = Mutex::new(seeds.into_iter());
    let done = Tally::default();
    let lane = async |lane: usize| {
        let lane = Lane::new(&ground, lane).await;
        let mut found = Vec::new();
        loop {
            let Some(seed) = seeds.lock().await.next() else { return found };
            if let Err(text) = lane.round(seed, &done).await {
                let command = "cargo test --test it whole_plane -- --nocapture";
                found.push(format!("{text}\nreplay: FIELDKEEPER_RANDOM_SEED={seed} {command}"));
            }
        }
    };
    let (one, two, three) = tokio::join!(lane(0), lane(1), lane(2));
    let found = [one, two, three].concat();
    println!("whole plane: {done:?}, disagreements {}", found.len());
    let shown: Vec<&str> = found.iter().take(5).map(String::as_str).collect();
    assert!(found.is_empty(), "{} disagreements\n{}", found.len(), shown.join("\n\n"));
    let [allowed, refused] = [&done.allowed, &done.refused].map(|count| count.load(Ordering::Relaxed));
    assert!(allowed > 0 && refused > 0, "nothing was put to the test: {done:?}");
}

#[derive(Debug, Default)]
struct Tally {
    steps: AtomicUsize,
    allowed: AtomicUsize,
    refused: AtomicUsize,
    /// Refused because managedFields of a claimed field would have changed hands without its value.
    disowned: AtomicUsize,
    /// By the API server itself: conflicts, things that are not there, schema.
    invalid: AtomicUsize,
}

struct Ground {
    plane: ControlPlane,
    fieldkeeper: Installation,
}

impl Ground {
    async fn new() -> Self {
        let plane = ControlPlane::start(Options::api_only()).await.unwrap();
        let fieldkeeper = plane.install_fieldkeeper().await.unwrap();
        plane.apply(OPEN_RBAC).await.unwrap();
        let crd = include_str!("../../data/arena-crd.yaml");
        for lane in 0..LANES {
            let (plural, kind) = (resource(lane), kind(lane));
            // Words, so that what is not the kind's name stays as it is.
            let crd = crd.replace("ponds.arena", &format!("{plural}.arena")).replace(
                "names: {kind: Pond, plural: ponds, singular: pond}",
                &format!("names: {{kind: {kind}, plural: {plural}, singular: {}}}", kind.to_lowercase()),
            );
            assert!(crd.contains(&kind), "{crd}");
            plane.apply(&crd).await.unwrap();
        }
        Self { plane, fieldkeeper }
    }
}

fn resource(lane: usize) -> String {
    format!("randoms{lane}")
}

fn kind(lane: usize) -> String {
    format!("Random{lane}")
}

/// One kind with one object, and everybody's clients.
struct Lane<'a> {
    ground: &'a Ground,
    resource: String,
    kind: String,
    admin: Client,
    people: Vec<Client>,
    twins: Vec<Client>,
}

impl<'a> Lane<'a> {
    async fn new(ground: &'a Ground, number: usize) -> Self {
        let (mut people, mut twins) = (Vec::new(), Vec::new());
        for who in &PEOPLE {
            let groups: Vec<&str> = who.group.into_iter().collect();
            let person = Identity::person(who.name, &groups);
            people.push(ground.plane.client(&person, "random").await.unwrap());
            let person = Identity::person(who.name, &twin(who));
            twins.push(ground.plane.client(&person, "random").await.unwrap());
        }
        let admin = Identity::person("ground", &["fieldkeeper.dev:bypass"]);
        let admin = ground.plane.client(&admin, "random").await.unwrap();
        Self { ground, resource: resource(number), kind: kind(number), admin, people, twins }
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
        self.put_in_force(&policy, seed).await;
        self.clear().await;
        let mut stored = None;
        for step in 0..STEPS {
            let attempt = attempt(&mut random, &self.resource, &self.kind, stored.as_ref());
            let context = |what: &str, reply: &Reply, more: &Value| {
                let policy = policy.object(&self.resource, "");
                let who = PEOPLE[attempt.who];
                format!(
                    "step {step} of seed {seed}: {what}\n{who:?} {attempt:?}\npolicy {policy}\nbefore {}\n{more}\n\
                     answer {} {}",
                    bare(stored.as_ref()),
                    reply.code,
                    reply.body
                )
            };
            let reply = self.step(&policy, &attempt, stored.as_ref(), done, &context).await?;
            let next = self.read().await;
            // What is stored, not what was answered, and not only when something was to be stored.
            let unchanged = bare(next.as_ref()) == bare(stored.as_ref());
            if reply.code >= 300 && !unchanged {
                return Err(context("something is stored that was refused", &reply, &bare(next.as_ref())));
            }
            if let (Some(after), true) = (&next, reply.code < 300 && attempt.kind != Kind::Delete) {
                let bad = judge::violations(&policy, &PEOPLE[attempt.who], stored.as_ref(), after);
                if !bad.is_empty() {
                    return Err(context(
                        "a field of somebody else is changed",
                        &reply,
                        &json!({"fields": bad}),
                    ));
                }
            }
            stored = next;
        }
        Ok(())
    }

    async fn step(
        &self,
        policy: &Policy,
        attempt: &Attempt,
        stored: Option<&Value>,
        done: &Tally,
        context: &impl Fn(&str, &Reply, &Value) -> String,
    ) -> Result<Reply, String> {
        let who = &PEOPLE[attempt.who];
        let would = if attempt.kind == Kind::Delete {
            None
        } else {
            Some(send(&self.twins[attempt.who], &attempt.call.clone().dry_run()).await)
        };
        let reply = self.decided(attempt).await;
        done.steps.fetch_add(1, Ordering::Relaxed);
        if let Some(would) = would.as_ref().filter(|would| would.code >= 300) {
            done.invalid.fetch_add(1, Ordering::Relaxed);
            if reply.code == would.code {
                return Ok(reply);
            }
            return Err(context("not the answer of the dry run", &reply, &would.body));
        }
        let after = match (attempt.kind, would, stored) {
            (Kind::Scale(replicas), _, Some(stored)) => {
                let mut after = stored.clone();
                after["spec"]["replicas"] = json!(replicas);
                Some(after)
            }
            (_, would, _) => would.map(|would| would.body),
        };
        let bad = match &after {
            Some(after) => judge::violations(policy, who, stored, after),
            None if policy.may_delete(who) => Vec::new(),
            None => vec!["deletion".to_owned()],
        };
        let disowned = match (stored, &after) {
            (Some(stored), Some(after)) => judge::disowned(policy, stored, after),
            _ => Vec::new(),
        };
        let only_disowned = !disowned.is_empty() && reply.reasons() == ["ManagedFieldsTampered"];
        let entries =
            |object: Option<&Value>| object.map(|object| object["metadata"]["managedFields"].clone());
        let more = json!({
            "after": bare(after.as_ref()), "judge": bad, "disowned": disowned,
            "entries": {"before": entries(stored), "after": entries(after.as_ref())},
        });
        match (reply.is_refused(), bad.is_empty()) {
            (true, true) if only_disowned => done.disowned.fetch_add(1, Ordering::Relaxed),
            (true, true) => return Err(context("refused without a violation", &reply, &more)),
            (false, false) => return Err(context("a violation was not refused", &reply, &more)),
            (false, true) if reply.code >= 300 => return Err(context("failed", &reply, &more)),
            (true, false) => done.refused.fetch_add(1, Ordering::Relaxed),
            (false, true) => done.allowed.fetch_add(1, Ordering::Relaxed),
        };
        // Nobody is accused of what is not among the violations.
        let accused: Vec<&String> = bad.iter().chain(&disowned).collect();
        let related =
            |field: &String| accused.iter().any(|one| one.starts_with(&**field) || field.starts_with(&**one));
        if attempt.kind != Kind::Delete && !reply.fields().iter().all(related) {
            return Err(context("accused of another field", &reply, &more));
        }
        Ok(reply)
    }

    /// Sends it again while the machine is too busy for the webhook to read the object behind a `/scale` in time: it
    /// then refuses, and says that it could not decide.
    async fn decided(&self, attempt: &Attempt) -> Reply {
        for _ in 0..BUSY {
            let reply = send(&self.people[attempt.who], &attempt.call).await;
            if !reply.message().contains("reading the object took too long") {
                return reply;
            }
        }
        send(&self.people[attempt.who], &attempt.call).await
    }

    /// Replaces the policy, and asks until its own marker is defended.
    async fn put_in_force(&self, policy: &Policy, seed: u64) {
        let marker = format!("arena.example.com/round-{seed}");
        let object = policy.object(&self.resource, &marker);
        self.ground.plane.apply(&object.to_string()).await.unwrap();
        self.ground.fieldkeeper.registered(&self.ground.plane, &self.resource).await.unwrap();
        let body = json!({
            "apiVersion": "arena.example.com/v1", "kind": self.kind, "metadata": {"name": "probe"}, "spec": {},
        });
        // There already, from the second round on.
        send(&self.admin, &Call::create(&self.resource, &body)).await;
        let mark = json!({"metadata": {"annotations": {marker.clone(): "x"}}});
        let call = Call::merge_patch(&self.at("probe"), &mark).dry_run();
        let recorded = async || {
            let reply = send(&self.people[0], &call).await;
            (reply.is_refused() && reply.message().contains(&marker)).then_some(())
        };
        eventually("a policy to be in force", PATIENCE, recorded).await.unwrap();
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

/// An object without what only the server writes.
fn bare(object: Option<&Value>) -> Value {
    let Some(object) = object else { return Value::Null };
    let kept = ["labels", "annotations", "finalizers", "deletionTimestamp"];
    let metadata: BTreeMap<&str, &Value> =
        kept.into_iter().filter_map(|name| Some((name, object["metadata"].get(name)?))).collect();
    json!({
        "metadata": metadata, "spec": object.get("spec"), "data": object.get("data"), "status": object.get("status"),
    })
}
