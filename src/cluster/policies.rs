//! FieldPolicies as stored, kept up to date by a watch.
//!
//! Input: a client. Output: a channel with the current list, `None` until the
//! first list is complete.
//!
//! Objects are read as loose JSON: one that this version cannot read still has
//! a name, an accepted spec and a place in the list. Must not mistake the loss
//! of the FieldPolicy CRD for the wish to have no policies: a removal counts
//! only while the CRD is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, CustomResourceExt as _};
use serde_json::Value;
use tokio::sync::watch;

use super::client::CALL_TIMEOUT;
use crate::api::FieldPolicy;

/// Why a list is held back, shortly.
const CRD_GONE: &str = "the FieldPolicy CRD is gone or going";
const CRD_UNKNOWN: &str = "cannot tell whether the FieldPolicy CRD is still there";

/// One FieldPolicy, as far as it can be told without understanding its spec.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPolicy {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Generation of the spec.
    pub generation: i64,
    /// When it was created; the older one wins where two disagree.
    pub created: Option<Timestamp>,
    /// `spec`, null if absent.
    pub spec: Value,
    /// `status`, null if absent.
    pub status: Value,
}

impl From<DynamicObject> for StoredPolicy {
    fn from(object: DynamicObject) -> Self {
        let DynamicObject { types: _, metadata, mut data } = object;
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            spec: data.get_mut("spec").map(Value::take).unwrap_or_default(),
            status: data.get_mut("status").map(Value::take).unwrap_or_default(),
        }
    }
}

/// All FieldPolicies at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    /// By name.
    pub items: BTreeMap<String, Arc<StoredPolicy>>,
    /// Why this is the last good list and not the present one.
    pub held: Option<&'static str>,
}

/// The list as it arrives; `None` until it is complete for the first time.
pub type PoliciesReceiver = watch::Receiver<Option<Arc<Policies>>>;

/// The kind as the API server knows it.
#[must_use]
pub fn resource() -> ApiResource {
    FieldPolicy::api_resource()
}

/// A channel for [`run`].
#[must_use]
pub fn channel() -> (watch::Sender<Option<Arc<Policies>>>, PoliciesReceiver) {
    watch::channel(None)
}

/// Watches until nobody listens any more. Errors are logged and retried with growing delays.
pub async fn run(client: Client, sender: watch::Sender<Option<Arc<Policies>>>) {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource());
    let crds: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client);
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut store = Store::default();
    let mut recheck = tokio::time::interval(CALL_TIMEOUT);
    loop {
        tokio::select! {
            () = sender.closed() => return,
            _ = recheck.tick(), if store.held.is_some() => {}
            event = events.next() => match event {
                Some(Ok(event)) => store.take(event),
                Some(Err(error)) => tracing::warn!(%error, "watching FieldPolicies; the last list stays in force"),
                None => return,
            },
        }
        if store.removes() {
            store.settle(is_alive(&crds).await);
        } else {
            store.accept();
        }
        if let Some(policies) = store.published() {
            sender.send_if_modified(|current| {
                let differs = current.as_deref() != Some(&policies);
                if differs {
                    *current = Some(Arc::new(policies));
                }
                differs
            });
        }
    }
}

/// Whether the CRD is there to stay: its finalizer makes the API server delete all policies before it goes.
async fn is_alive(crds: &Api<PartialObjectMeta<CustomResourceDefinition>>) -> Result<bool, &'static str> {
    let name = FieldPolicy::crd_name();
    match tokio::time::timeout(CALL_TIMEOUT, crds.get_opt(name)).await {
        Ok(Ok(crd)) => Ok(crd.is_some_and(|crd| crd.metadata.deletion_timestamp.is_none())),
        Ok(Err(error)) => {
            tracing::warn!(%error, crd = name, "reading the FieldPolicy CRD");
            Err(CRD_UNKNOWN)
        }
        Err(_) => Err(CRD_UNKNOWN),
    }
}

/// What the watch says, beside what is in force.
#[derive(Default)]
struct Store {
    /// As the API server has it, once listed.
    seen: BTreeMap<String, Arc<StoredPolicy>>,
    /// A list that is still arriving.
    arriving: Option<BTreeMap<String, Arc<StoredPolicy>>>,
    /// What is in force; `None` before the first list.
    good: Option<BTreeMap<String, Arc<StoredPolicy>>>,
    held: Option<&'static str>,
}

impl Store {
    fn take(&mut self, event: watcher::Event<DynamicObject>) {
        match event {
            watcher::Event::Init => self.arriving = Some(BTreeMap::new()),
            watcher::Event::InitApply(object) => insert(self.arriving.get_or_insert_default(), object),
            watcher::Event::InitDone => {
                self.seen = self.arriving.take().unwrap_or_default();
                self.good.get_or_insert_with(|| self.seen.clone());
            }
            watcher::Event::Apply(object) => insert(&mut self.seen, object),
            watcher::Event::Delete(object) => {
                self.seen.remove(&object.metadata.name.unwrap_or_default());
            }
        }
    }

    /// Whether something in force is no longer there.
    fn removes(&self) -> bool {
        self.arriving.is_none()
            && self.good.as_ref().is_some_and(|good| good.keys().any(|name| !self.seen.contains_key(name)))
    }

    /// Takes over what was seen, unless a list is still arriving.
    fn accept(&mut self) {
        if self.arriving.is_none() && self.good.is_some() {
            self.good = Some(self.seen.clone());
            self.held = None;
        }
    }

    /// Decides about a removal. After a loss of the CRD an empty list stays suspicious: a new CRD is empty, too.
    fn settle(&mut self, crd_is_alive: Result<bool, &'static str>) {
        match crd_is_alive {
            Ok(true) if self.held != Some(CRD_GONE) || !self.seen.is_empty() => self.accept(),
            Ok(_) => self.hold(CRD_GONE),
            Err(reason) => self.hold(self.held.unwrap_or(reason)),
        }
    }

    fn hold(&mut self, reason: &'static str) {
        if self.held != Some(reason) {
            tracing::error!(reason, "policies would be lost: the last good ones stay in force");
        }
        self.held = Some(reason);
    }

    fn published(&self) -> Option<Policies> {
        let items = self.good.clone()?;
        Some(Policies { items, held: self.held })
    }
}

fn insert(policies: &mut BTreeMap<String, Arc<StoredPolicy>>, object: DynamicObject) {
    let policy = StoredPolicy::from(object);
    policies.insert(policy.name.clone(), Arc::new(policy));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy",
            "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 3,
                         "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"unheard": "of"},
        }))
        .unwrap()
    }

    fn listed(names: &[&str]) -> Store {
        let mut store = Store::default();
        store.take(watcher::Event::Init);
        for name in names {
            store.take(watcher::Event::InitApply(object(name)));
        }
        assert!(store.published().is_none(), "half a list is no list");
        store.take(watcher::Event::InitDone);
        store.accept();
        store
    }

    fn names(store: &Store) -> Vec<String> {
        store.published().unwrap().items.into_keys().collect()
    }

    #[test]
    fn an_object_that_nobody_understands_has_its_place() {
        let store = listed(&["a"]);
        let policies = store.published().unwrap();
        assert_eq!(policies.items["a"].generation, 3);
        assert_eq!(policies.items["a"].spec, json!({"unheard": "of"}));
        assert!(policies.items["a"].created.is_some());
        assert_eq!(policies.held, None);
    }

    #[test]
    fn a_removed_policy_goes_while_the_crd_is_there() {
        let mut store = listed(&["a", "b"]);
        store.take(watcher::Event::Delete(object("a")));
        assert!(store.removes());
        store.settle(Ok(true));
        assert_eq!(names(&store), ["b"]);
    }

    #[test]
    fn policies_that_go_with_their_crd_stay_in_force() {
        let mut store = listed(&["a", "b"]);
        store.take(watcher::Event::Delete(object("a")));
        store.settle(Ok(false));
        assert_eq!(names(&store), ["a", "b"]);
        assert_eq!(store.published().unwrap().held, Some(CRD_GONE));
    }

    #[test]
    fn a_new_and_empty_crd_does_not_mean_that_nothing_is_owned() {
        let mut store = listed(&["a"]);
        store.take(watcher::Event::Delete(object("a")));
        store.settle(Ok(false));
        store.take(watcher::Event::Init);
        store.take(watcher::Event::InitDone);
        store.settle(Ok(true));
        assert_eq!(names(&store), ["a"]);
        store.take(watcher::Event::Apply(object("c")));
        store.settle(Ok(true));
        assert_eq!(names(&store), ["c"]);
        assert_eq!(store.published().unwrap().held, None);
    }

    #[test]
    fn a_server_that_cannot_be_asked_removes_nothing() {
        let mut store = listed(&["a", "b"]);
        store.take(watcher::Event::Delete(object("a")));
        store.settle(Err(CRD_UNKNOWN));
        assert_eq!(names(&store), ["a", "b"]);
        store.settle(Ok(true));
        assert_eq!(names(&store), ["b"], "asked again, it answers");
    }

    #[test]
    fn a_new_list_replaces_the_old_one_only_when_it_is_complete() {
        let mut store = listed(&["a"]);
        store.take(watcher::Event::Init);
        store.take(watcher::Event::InitApply(object("b")));
        assert!(!store.removes());
        store.accept();
        assert_eq!(names(&store), ["a"]);
        store.take(watcher::Event::InitDone);
        assert!(store.removes());
    }
}
