//! A steady, bounded stream of reviews: owners who write their field and strangers who try.
//!
//! Input: a control plane with the ponds' policy in force. Output: [`Tally`]: what was answered, and above all
//! what should not have been.
//! Must not: try again. A write that fails once has failed.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::ground::Ground;
use crate::arena::{Call, Reply, alice, controller, pond, try_send};

/// Clients at the same time, each with one request under way at most.
const CLIENTS: usize = 4;

/// Between two requests of one client: 80 writes a second in all, if the machine can.
const PACE: Duration = Duration::from_millis(50);

/// Every so many requests a stranger tries.
const STRANGER: u64 = 4;

/// What came of the requests.
#[derive(Debug, Default)]
pub struct Tally {
    pub allowed: usize,
    pub refused: usize,
    /// Neither allowed nor refused by fieldkeeper: the API server could not ask, or was away itself.
    pub failed: Vec<String>,
    /// An owner refused, or a stranger's write done.
    pub wrong: Vec<String>,
    pub slowest: Duration,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.allowed += other.allowed;
        self.refused += other.refused;
        self.failed.extend(other.failed);
        self.wrong.extend(other.wrong);
        self.slowest = self.slowest.max(other.slowest);
    }

    fn count(&mut self, is_owner: bool, reply: kube::Result<Reply>) {
        match reply {
            Ok(reply) if reply.is_refused() && !is_owner => self.refused += 1,
            Ok(reply) if reply.code == 200 && is_owner => self.allowed += 1,
            Ok(reply) if reply.is_refused() || reply.code < 300 => {
                self.wrong.push(format!("owner: {is_owner}: {} {}", reply.code, reply.message()));
            }
            Ok(reply) => self.failed.push(format!("{} {}", reply.code, reply.message())),
            Err(error) => self.failed.push(error.to_string()),
        }
    }

    /// Stops the test unless every single request was answered as the policy says.
    #[track_caller]
    pub fn is_flawless(&self, what: &str) {
        let Self { allowed, refused, failed, wrong, slowest } = self;
        println!(
            "{what}: {allowed} allowed, {refused} refused, {} failed, slowest {slowest:?}",
            failed.len()
        );
        assert!(failed.is_empty() && wrong.is_empty(), "{what}: {wrong:#?} {failed:#?}");
        assert!(*allowed > 20 && *refused > 5, "{what}: there was no load: {self:?}");
    }
}

/// Running clients.
pub struct Load {
    stop: watch::Sender<bool>,
    clients: JoinSet<Tally>,
}

impl Load {
    /// Makes one pond for each client and starts.
    pub async fn start(ground: &Ground, name: &str) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let owner = ground.plane.client(&controller("ctrl-a"), "load").await.unwrap();
            let stranger = ground.plane.client(&alice(), "load").await.unwrap();
            let object = format!("{name}-{number}");
            let body = pond(&object, &json!({"size": "S0"}));
            crate::arena::send(&owner, &Call::create("ponds", &body)).await.allowed();
            let mut stopped = stopped.clone();
            clients.spawn(async move {
                let mut tally = Tally::default();
                let mut pace = interval(PACE);
                pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
                for step in 0_u64.. {
                    tokio::select! {
                        _ = pace.tick() => {}
                        _ = stopped.wait_for(|stop| *stop) => break,
                    }
                    let is_owner = step % STRANGER != 0;
                    let (client, size) = if is_owner { (&owner, "S") } else { (&stranger, "X") };
                    let body = json!({"spec": {"size": format!("{size}{step}")}});
                    let start = Instant::now();
                    let reply = try_send(client, &Call::merge_patch(&format!("ponds/{object}"), &body)).await;
                    tally.slowest = tally.slowest.max(start.elapsed());
                    tally.count(is_owner, reply);
                }
                tally
            });
        }
        Self { stop, clients }
    }

    /// Lets every request that is under way end, and counts.
    pub async fn stop(mut self) -> Tally {
        self.stop.send_replace(true);
        let mut tally = Tally::default();
        while let Some(client) = self.clients.join_next().await {
            tally.add(client.unwrap());
        }
        tally
    }
}
