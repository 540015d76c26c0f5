//! What each webhook replica says of itself: that it is there, by which generation of each policy it judges, and
//! which objects it would need and may not read.
//!
//! Input on one side: a [`Report`], written into a Lease of the replica's own. Output on the other: the
//! [`Replicas`] that are there, from a watch.
//!
//! Must not be taken for proof of more than it is: a replica that cannot reach the API server judges on by
//! what it has and does not report; its Lease runs out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::core::ApiResource;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::in_force::GroupResource;
use super::rights::Rights;
use super::write::{Existing, WriteError, Writer};
use crate::api::NAMESPACE;
use crate::managers::Manager;

/// Leases of replicas have it, whatever else is in the namespace.
const LABEL: &str = "fieldkeeper.dev/webhook-replica";
/// Names of policies and the generation of each, as JSON.
const GENERATIONS: &str = "fieldkeeper.dev/policies";
/// Resources whose objects the replica would need for a write of `/scale` and may not read, as JSON.
const UNREADABLE: &str = "fieldkeeper.dev/unreadable";

/// How long a report counts. Three are missed before a replica counts as gone.
const LASTS: Duration = Duration::from_secs(30);
/// How often a replica reports if nothing changes.
const RENEW: Duration = Duration::from_secs(10);
/// How often while the replica may not read what it needs: somebody is about to mend that and looks at the condition.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// When a report that failed is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// The annotations of an object may take 256 KiB; so many bytes are some 4,000 policies.
const MAX_GENERATIONS: usize = 200 * 1024;
/// Names of resources have up to 320 bytes; nobody mends more of them at once.
const MAX_UNREADABLE: usize = 100;
/// How far the clock of a replica's machine may be off from ours, in seconds. A renewal counts from when it is seen;
/// only what is older than this by its own time is not taken for one.
const SKEW: i64 = 5 * 60;
/// A Lease that ran out so long ago, in seconds, is of a replica that will not come back.
const FORGOTTEN: i64 = 60 * 60;

/// The generation of each policy in force.
pub type Generations = BTreeMap<String, i64>;

/// What a replica has loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// What it judges by.
    pub generations: Generations,
    /// The kinds of which a write of `/scale` may need the object.
    pub parents: BTreeSet<GroupResource>,
}

/// What a replica says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What it judges by.
    pub generations: Generations,
    /// Resources whose objects it would need and may not read, as `deployments.apps`.
    pub unreadable: BTreeSet<String>,
}

/// One replica, as it reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    /// Name of its Lease.
    pub name: String,
    /// Uid of its Lease.
    pub uid: String,
    /// When it was renewed by the replica's clock, in microseconds since the Unix epoch.
    pub renewed: i64,
    /// When the report stops counting by ours, in seconds since the Unix epoch.
    pub expires: i64,
    /// What it says.
    pub report: Report,
}

/// All replicas that have reported, also those whose report has run out.
pub type Replicas = BTreeMap<String, Replica>;

fn resource() -> ApiResource {
    ApiResource::erase::<Lease>(&())
}

/// The Lease of a replica as it applies it.
fn fields(instance: &str, lasts: Duration, report: &Report, now: Timestamp) -> Map<String, Value> {
    let mut generations = json!(report.generations).to_string();
    if generations.len() > MAX_GENERATIONS {
        tracing::error!(policies = report.generations.len(), "too many policies to report their generations");
        generations = json!({}).to_string();
    }
    let some: Vec<&String> = report.unreadable.iter().take(MAX_UNREADABLE).collect();
    let fields = json!({
        "metadata": {
            "labels": {LABEL: "true", "app.kubernetes.io/component": "webhook"},
            "annotations": {GENERATIONS: generations, UNREADABLE: json!(some).to_string()},
        },
        "spec": {
            "holderIdentity": instance,
            "leaseDurationSeconds": lasts.as_secs(),
            "renewTime": MicroTime(now),
        },
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Reads a Lease that is seen now; `known` is what was known of its replica.
fn read(lease: &Lease, known: &Replicas, now: Timestamp) -> Option<(String, Replica)> {
    let name = lease.metadata.name.clone()?;
    let said = |annotation: &str| lease.metadata.annotations.as_ref()?.get(annotation).map(String::as_str);
    let spec = lease.spec.as_ref()?;
    let time = spec.renew_time.as_ref()?.0;
    let renewed = time.as_microsecond();
    let lasts: i64 = spec.lease_duration_seconds.unwrap_or_default().into();
    let seen_before = known.get(&name).filter(|known| known.renewed == renewed);
    let expires = match seen_before {
        Some(known) => known.expires,
        None if time.as_second().saturating_add(lasts + SKEW) < now.as_second() => {
            time.as_second().saturating_add(lasts)
        }
        None => now.as_second().saturating_add(lasts),
    };
    let replica = Replica {
        name: name.clone(),
        uid: lease.metadata.uid.clone().unwrap_or_default(),
        renewed,
        expires,
        // What cannot be read names no policy, so that no policy counts as reported.
        report: Report { generations: parse(said(GENERATIONS)), unreadable: parse(said(UNREADABLE)) },
    };
    Some((name, replica))
}

fn parse<T: DeserializeOwned + Default>(text: Option<&str>) -> T {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Reports for one replica until nobody loads anything any more.
pub async fn report(
    writer: Writer,
    instance: String,
    mut rights: Rights,
    mut loaded: watch::Receiver<Loaded>,
) {
    // What is there at first is no report yet: nothing is loaded.
    if loaded.changed().await.is_err() {
        return;
    }
    loop {
        let Loaded { generations, parents } = loaded.borrow_and_update().clone();
        let missing = rights.missing(&parents).await;
        let unreadable = missing.iter().map(GroupResource::to_string).collect();
        let wait = match write(&writer, &instance, LASTS, &Report { generations, unreadable }).await {
            Ok(()) if missing.is_empty() => RENEW,
            Ok(()) => ASK_AGAIN,
            Err(error) => {
                tracing::warn!(category = error.category(), %error, "reporting what this replica judges by");
                RETRY
            }
        };
        tokio::select! {
            changed = loaded.changed() => if changed.is_err() { return },
            () = sleep(wait) => {}
        }
    }
}

/// Takes the report back: the replica is about to end.
pub async fn retire(writer: &Writer, instance: &str) {
    if let Err(error) = write(writer, instance, Duration::from_secs(1), &Report::default()).await {
        tracing::debug!(%error, "taking back what this replica judges by");
    }
}

async fn write(writer: &Writer, instance: &str, lasts: Duration, report: &Report) -> Result<(), WriteError> {
    let fields = fields(instance, lasts, report, Timestamp::now());
    let name = format!("webhook-{instance}");
    writer.apply_own(Manager::WebhookReplica, &resource(), NAMESPACE, &name, fields).await.map(drop)
}

/// Removes Leases of replicas that are long gone.
pub async fn sweep(writer: &Writer, replicas: &Replicas, now: i64) {
    for replica in replicas.values().filter(|replica| now.saturating_sub(replica.expires) > FORGOTTEN) {
        let lease = Existing {
            resource: resource(),
            namespace: NAMESPACE.to_owned(),
            name: replica.name.clone(),
            uid: replica.uid.clone(),
        };
        if let Err(error) = writer.delete(&lease).await {
            tracing::debug!(%error, "removing the Lease of a replica that is gone");
        }
    }
}

/// Follows the reports. A renewal alone is no news; that one has run out is.
pub async fn follow(client: Client, sender: watch::Sender<Replicas>) {
    let api: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let config = watcher::Config::default().labels(LABEL);
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    let mut arriving: Vec<Lease> = Vec::new();
    loop {
        let left = until_one_runs_out(&sender.borrow(), Timestamp::now());
        let event = tokio::select! {
            () = sender.closed() => return,
            event = events.next() => event,
            () = sleep(left.unwrap_or(Duration::MAX)) => {
                sender.send_modify(|_| {});
                continue;
            }
        };
        match event {
            None => return,
            Some(Err(error)) => tracing::warn!(%error, "watching what webhook replicas report"),
            Some(Ok(watcher::Event::Init)) => arriving.clear(),
            Some(Ok(watcher::Event::InitApply(lease))) => arriving.push(lease),
            Some(Ok(watcher::Event::InitDone)) => {
                let listed = std::mem::take(&mut arriving);
                let now = Timestamp::now();
                update(&sender, |replicas| {
                    *replicas = listed.iter().filter_map(|lease| read(lease, replicas, now)).collect();
                });
            }
            Some(Ok(watcher::Event::Apply(lease))) => {
                let now = Timestamp::now();
                update(&sender, |replicas| {
                    let read = read(&lease, replicas, now);
                    replicas.extend(read);
                });
            }
            Some(Ok(watcher::Event::Delete(lease))) => update(&sender, |replicas| {
                replicas.remove(&lease.metadata.name.unwrap_or_default());
            }),
        }
    }
}

/// Time until the first report runs out, unless it is renewed.
fn until_one_runs_out(replicas: &Replicas, now: Timestamp) -> Option<Duration> {
    let left = replicas.values().map(|replica| replica.expires.saturating_sub(now.as_second()));
    let first = left.filter(|left| *left > 0).min()?;
    // Seconds are cut off on both sides.
    Some(Duration::from_secs(u64::try_from(first).ok()?.saturating_add(1)))
}

/// Changes what is known, and tells of it only if something else than the time is new or a report was shortened.
fn update(sender: &watch::Sender<Replicas>, change: impl FnOnce(&mut Replicas)) {
    sender.send_if_modified(|replicas| {
        let before = replicas.clone();
        change(replicas);
        let is_renewal = |name: &String, replica: &Replica| {
            before
                .get(name)
                .is_some_and(|known| known.report == replica.report && known.expires <= replica.expires)
        };
        before.len() != replicas.len() || !replicas.iter().all(|(name, replica)| is_renewal(name, replica))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn lease(instance: &str, lasts: u64, generations: &[(&str, i64)], now: i64) -> Lease {
        let generations = generations.iter().map(|(name, generation)| ((*name).to_owned(), *generation));
        let unreadable = ["deployments.apps".to_owned()].into();
        let report = Report { generations: generations.collect(), unreadable };
        let mut fields = fields(instance, Duration::from_secs(lasts), &report, at(now));
        fields["metadata"]["name"] = format!("webhook-{instance}").into();
        fields["metadata"]["uid"] = "u".into();
        serde_json::from_value(Value::Object(fields)).unwrap()
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let seen = |lease: &Lease| read(lease, &Replicas::new(), at(1_000)).unwrap();
        let (name, replica) = seen(&lease("a", 30, &[("pools", 3), ("deployments", 1)], 1_000));
        assert_eq!((name.as_str(), replica.uid.as_str(), replica.expires), ("webhook-a", "u", 1_030));
        let generations = [("deployments".to_owned(), 1), ("pools".to_owned(), 3)].into();
        let unreadable = ["deployments.apps".to_owned()].into();
        assert_eq!(replica.report, Report { generations, unreadable });
        let mut junk = lease("a", 30, &[("pools", 3)], 1_000);
        junk.metadata.annotations.as_mut().unwrap().insert(GENERATIONS.to_owned(), "[".to_owned());
        assert!(seen(&junk).1.report.generations.is_empty());
    }

    #[test]
    fn a_report_counts_from_when_its_renewal_is_seen() {
        let mut known = Replicas::new();
        let mut seen = |renewed: i64, now: i64| {
            let (name, replica) = read(&lease("a", 30, &[], renewed), &known, at(now)).unwrap();
            known.insert(name, replica.clone());
            replica.expires
        };
        assert_eq!(seen(1_000, 1_200), 1_230, "its clock is behind");
        assert_eq!(seen(1_000, 1_220), 1_230, "seen again, not renewed");
        assert_eq!(seen(1_010, 1_221), 1_251);
        assert_eq!(seen(9_000, 1_222), 1_252, "its clock is ahead");
        assert_eq!(seen(1_020, 2_000), 1_050, "left over");
    }

    #[test]
    fn a_report_that_would_not_fit_names_no_policy() {
        let names: Vec<String> = (0..5_000).map(|n| format!("{n:050}")).collect();
        let many: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let (_, replica) = read(&lease("a", 30, &many, 1_000), &Replicas::new(), at(1_000)).unwrap();
        assert!(replica.report.generations.is_empty());
    }

    #[test]
    fn the_next_end_is_that_of_a_report_that_counts() {
        let mut replicas = Replicas::new();
        assert_eq!(until_one_runs_out(&replicas, at(1_000)), None);
        for (name, expires) in [("gone", 900), ("first", 1_010), ("second", 1_020)] {
            replicas.insert(name.to_owned(), Replica { expires, ..Replica::default() });
        }
        let left = |now: i64| until_one_runs_out(&replicas, at(now)).map(|left| left.as_secs());
        assert_eq!([left(1_000), left(1_010), left(1_020)], [Some(11), Some(11), None]);
    }

    #[test]
    fn a_renewal_is_no_news_and_all_else_is() {
        let (sender, mut receiver) = watch::channel(Replicas::new());
        let mut told = |leases: &[Lease]| {
            let read =
                |lease: &Lease| read(lease, &Replicas::new(), lease.spec.as_ref()?.renew_time.as_ref()?.0);
            update(&sender, |replicas| *replicas = leases.iter().filter_map(read).collect());
            let told = receiver.has_changed().unwrap();
            receiver.mark_unchanged();
            told
        };
        assert!(told(&[lease("a", 30, &[("p", 1)], 1_000)]));
        assert!(!told(&[lease("a", 30, &[("p", 1)], 1_010)]));
        assert!(told(&[lease("a", 30, &[("p", 2)], 1_011)]));
        assert!(told(&[lease("a", 30, &[("p", 2)], 1_012), lease("b", 30, &[], 1_012)]));
        assert!(told(&[lease("a", 1, &[("p", 2)], 1_013), lease("b", 30, &[], 1_013)]), "it is about to end");
        assert!(told(&[lease("b", 30, &[], 1_013)]));
    }
}
