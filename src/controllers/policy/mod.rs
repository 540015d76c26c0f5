//! The policy controller: FieldPolicies to webhook rules and statuses.
//!
//! Input: the cluster. Output: rules in the registration, admission policies
//! generated where a policy asks for it, a status on each policy. Everything is planned anew at each change, over all policies: their
//! targets share entries.
//!
//! There is no leader election: what is applied follows from what is stored, so
//! two instances write the same, under the same managers, and the API server
//! makes nothing of the second write.

pub mod admission;
pub mod apply;
pub mod conditions;
pub mod entry;
pub mod generated;
pub mod observe;
pub mod paths;
pub mod pause;
pub mod plan;
pub mod report;
pub mod subjects;
pub mod subresources;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;

use crate::cluster::replicas;
use crate::cluster::write::Writer;

/// Without news, things are looked at again after this time, in case a watch lost some.
const RESYNC: Duration = Duration::from_mins(10);
/// First wait after a write that may work later; doubled each time.
const RETRY: Duration = Duration::from_secs(1);
/// Longest wait between two attempts: an API server that comes back is found within a minute.
const MAX_RETRY: Duration = Duration::from_mins(1);

/// Runs until the watches end, which they do not by themselves.
pub async fn run(client: Client) {
    let writer = Writer::new(client.clone());
    let mut directory = subjects::Directory::new(client.clone());
    let (mut observer, watches) = observe::observer(client);
    let work = async {
        let (mut again, mut failures) = (RESYNC, 0);
        while let Some(observation) = observer.next(again).await {
            let now = Timestamp::now();
            let plan = plan::plan(&observation.scene, observation.live.registration());
            let outcome = apply::apply(&writer, &observation.live, &plan).await;
            let outcome = outcome.as_ref().copied();
            let wanted = admission::wanted(&observation.scene, observation.live.registration(), now);
            let attempt = apply::admission(&writer, admission::steps(&wanted, &observation.generated)).await;
            let accounts = directory.look(&observation.scene.policies).await;
            let done = report::Done { outcome, wanted: &wanted, attempt: &attempt };
            let reported = report::report(&writer, &observation, &plan, &done, accounts, now).await;
            let asked = outcome.err().and_then(|failure| failure.retry);
            failures = if asked.is_some() || attempt.retry || !reported.written { failures + 1 } else { 0 };
            let pause = report::until_a_pause_changes(&observation.scene.policies, now);
            again = next_look(failures, asked.flatten(), pause);
            if !reported.found {
                again = again.min(subjects::BELIEVED);
            }
            replicas::sweep(&writer, &observation.replicas, now.as_second()).await;
        }
    };
    tokio::select! {
        () = watches => {}
        () = work => {}
    }
}

/// When to look again if nothing happens.
fn next_look(failures: u32, asked: Option<Duration>, pause: Option<Duration>) -> Duration {
    let retry = match failures {
        0 => RESYNC,
        _ => asked.unwrap_or_else(|| RETRY.saturating_mul(1 << (failures - 1).min(6)).min(MAX_RETRY)),
    };
    pause.map_or(retry, |pause| pause.min(retry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_minute_and_no_further() {
        let waits: Vec<u64> = (1..9).map(|failures| next_look(failures, None, None).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(next_look(0, None, None), RESYNC);
    }

    #[test]
    fn the_server_and_the_end_of_a_pause_are_heeded() {
        let seconds = Duration::from_secs;
        assert_eq!(next_look(3, Some(seconds(7)), None), seconds(7));
        assert_eq!(next_look(0, None, Some(seconds(20))), seconds(20));
        assert_eq!(next_look(1, None, Some(seconds(20))), RETRY);
    }
}
