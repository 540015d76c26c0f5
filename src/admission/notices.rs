//! Denials as Events.
//!
//! Input: notices of judged requests, and the uids of policies. Output: an
//! Event on each policy that refused, and on the object if it exists.
//!
//! Must not run on the request path (a channel is between), and never tells of
//! dry runs: the edge sends none.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;

use super::state::Notice;
use crate::api::{GROUP, VERSION};
use crate::cluster::events::{Events, Happening};
use crate::ownership::rule::Mode;

/// Notices that wait. A burst of denials longer than that has said what it has to say.
pub const WAITING: usize = 256;
/// Reason of the events.
const REASON: &str = "WriteDenied";
/// What was attempted.
const ACTION: &str = "Write";

/// Uids of policies by name: readers find events by uid.
#[derive(Clone, Debug, Default)]
pub struct PolicyIds(Arc<ArcSwap<HashMap<String, String>>>);

impl PolicyIds {
    /// Replaces them.
    pub fn store(&self, ids: HashMap<String, String>) {
        self.0.store(Arc::new(ids));
    }
}

/// Tells until nobody sends any more.
pub async fn run(mut notices: mpsc::Receiver<Notice>, ids: PolicyIds, mut events: Events) {
    while let Some(notice) = notices.recv().await {
        for happening in happenings(&notice, &ids.0.load()) {
            events.tell(happening).await;
        }
    }
}

/// What is told of one notice.
fn happenings(notice: &Notice, ids: &HashMap<String, String>) -> Vec<Happening> {
    if !notice.denied {
        return Vec::new();
    }
    let refusing: BTreeSet<&str> = notice
        .verdict
        .findings
        .iter()
        .filter(|finding| finding.mode == Mode::Enforce)
        .map(|finding| &*finding.policy)
        .collect();
    let object = object(notice);
    let policies: Vec<ObjectReference> = refusing.into_iter().filter_map(|name| policy(name, ids)).collect();
    let about = |regarding, related| Happening {
        regarding,
        related,
        reason: REASON,
        action: ACTION,
        note: format!("{} by {}: {}", place(notice), notice.username, notice.message),
        by: format!("{} {}", notice.username, place(notice)),
    };
    let on_object = object.clone().map(|object| about(object, policies.first().cloned()));
    policies.iter().map(|policy| about(policy.clone(), object.clone())).chain(on_object).collect()
}

fn place(notice: &Notice) -> String {
    let Notice { resource, namespace, name, subresource, .. } = notice;
    let slash = if namespace.is_empty() { "" } else { "/" };
    let below = if subresource.is_empty() { String::new() } else { format!(" ({subresource})") };
    format!("{resource} {namespace}{slash}{name}{below}")
}

/// Only an object that exists; of `/scale` the review does not tell the object's kind.
fn object(notice: &Notice) -> Option<ObjectReference> {
    if notice.object_uid.is_empty() || notice.subresource == "scale" {
        return None;
    }
    let Notice { group, version, .. } = notice;
    Some(ObjectReference {
        api_version: Some(if group.is_empty() { version.clone() } else { format!("{group}/{version}") }),
        kind: Some(notice.kind.clone()),
        name: Some(notice.name.clone()),
        namespace: Some(notice.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        uid: Some(notice.object_uid.clone()),
        ..ObjectReference::default()
    })
}

fn policy(name: &str, ids: &HashMap<String, String>) -> Option<ObjectReference> {
    Some(ObjectReference {
        api_version: Some(format!("{GROUP}/{VERSION}")),
        kind: Some("FieldPolicy".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(ids.get(name)?.clone()),
        ..ObjectReference::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::verdict::{Finding, Reason, Shown, Verdict};

    fn finding(policy: &str, mode: Mode) -> Finding {
        Finding {
            policy: policy.into(),
            mode,
            reason: Reason::OwnedByAnother,
            path: None,
            old: Shown::Absent,
            new: Shown::Absent,
            owners: Vec::new(),
            instead: None,
            holders: Vec::new(),
            untracked: false,
        }
    }

    fn notice() -> Notice {
        let findings =
            vec![finding("a", Mode::Enforce), finding("a", Mode::Enforce), finding("b", Mode::Warn)];
        Notice {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            resource: "deployments".to_owned(),
            subresource: String::new(),
            kind: "Deployment".to_owned(),
            namespace: "web".to_owned(),
            name: "shop".to_owned(),
            object_uid: "u-shop".to_owned(),
            username: "alice".to_owned(),
            denied: true,
            verdict: Verdict { findings, ..Verdict::default() },
            message: "you may not".to_owned(),
        }
    }

    fn told(notice: &Notice) -> Vec<(String, String)> {
        let ids = HashMap::from([("a".to_owned(), "u-a".to_owned()), ("b".to_owned(), "u-b".to_owned())]);
        happenings(notice, &ids)
            .into_iter()
            .map(|happening| {
                let regarding = happening.regarding;
                (regarding.kind.unwrap(), regarding.uid.unwrap())
            })
            .collect()
    }

    fn is(kind: &str, uid: &str) -> (String, String) {
        (kind.to_owned(), uid.to_owned())
    }

    #[test]
    fn a_denial_is_told_on_the_policy_that_refused_and_on_the_object() {
        assert_eq!(told(&notice()), [is("FieldPolicy", "u-a"), is("Deployment", "u-shop")]);
        let note = happenings(&notice(), &HashMap::new()).remove(0).note;
        assert_eq!(note, "deployments web/shop by alice: you may not");
    }

    #[test]
    fn an_object_that_is_not_there_yet_has_no_events() {
        let notice = Notice { object_uid: String::new(), ..notice() };
        assert_eq!(told(&notice), [is("FieldPolicy", "u-a")]);
    }

    #[test]
    fn a_refused_scale_is_told_on_the_policy() {
        let notice = Notice { subresource: "scale".to_owned(), kind: "Scale".to_owned(), ..notice() };
        assert_eq!(told(&notice), [is("FieldPolicy", "u-a")]);
    }

    #[test]
    fn what_was_let_through_is_not_told() {
        assert!(told(&Notice { denied: false, ..notice() }).is_empty());
    }
}
