//! The kinds behind the targets, from their CRDs.
//!
//! Input: a client and a channel of the targets that policies name. Output: a
//! channel of [`Kinds`].
//!
//! A cluster may hold hundreds of CRDs of a megabyte each, so all of them are
//! watched as metadata only and the few targeted ones are fetched, again when
//! their resourceVersion moves. Must not hold up policies: a kind that is not
//! here yet counts as [`Unresolved::NotLoaded`].

mod kind;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::watch;

pub use kind::{Kind, Unresolved};

use super::client::CALL_TIMEOUT;
use super::in_force::GroupResource;

/// A CRD that could not be fetched is tried again after this time, also when nothing else happens.
const RETRY: Duration = Duration::from_secs(5);

/// The version that the policies on each resource are written for.
pub type Targets = BTreeMap<GroupResource, String>;

/// What is known of the kinds behind targets.
#[derive(Clone, Debug, Default)]
pub struct Kinds(BTreeMap<GroupResource, Arc<Kind>>);

impl Kinds {
    /// The kind of a target; one of which nothing is known if it has not been looked up.
    #[must_use]
    pub fn get(&self, resource: &GroupResource) -> Arc<Kind> {
        self.0.get(resource).cloned().unwrap_or_else(|| Arc::new(Kind::unknown(Unresolved::NotLoaded)))
    }
}

impl FromIterator<(GroupResource, Arc<Kind>)> for Kinds {
    fn from_iter<T: IntoIterator<Item = (GroupResource, Arc<Kind>)>>(kinds: T) -> Self {
        Self(kinds.into_iter().collect())
    }
}

/// Watches until nobody listens any more. Errors are logged and retried.
pub async fn run(client: Client, mut targets: watch::Receiver<Targets>, sender: watch::Sender<Arc<Kinds>>) {
    let metadata: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client.clone());
    let crds: Api<DynamicObject> =
        Api::all_with(client, &ApiResource::erase::<CustomResourceDefinition>(&()));
    let mut events = std::pin::pin!(watcher(metadata, watcher::Config::default()).default_backoff());
    let mut listing = Listing::default();
    let mut cache = Cache::default();
    let mut retry = false;
    loop {
        tokio::select! {
            () = sender.closed() => return,
            changed = targets.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RETRY), if retry => {}
            event = events.next() => match event {
                Some(Ok(event)) => listing.take(event),
                Some(Err(error)) => tracing::warn!(%error, "watching CRDs; the last schemas stay in use"),
                None => return,
            },
        }
        let Some(known) = &listing.complete else { continue };
        let targets = targets.borrow_and_update().clone();
        let changed;
        (changed, retry) = cache.update(&crds, &targets, known).await;
        if changed {
            sender.send_replace(Arc::new(cache.kinds()));
        }
    }
}

/// Names of CRDs and the resourceVersion of each.
#[derive(Default)]
struct Listing {
    /// `None` before the first list.
    complete: Option<HashMap<String, String>>,
    arriving: HashMap<String, String>,
}

impl Listing {
    fn take(&mut self, event: watcher::Event<PartialObjectMeta<CustomResourceDefinition>>) {
        match event {
            watcher::Event::Init => self.arriving.clear(),
            watcher::Event::InitApply(crd) => {
                let (name, version) = name_and_version(crd);
                self.arriving.insert(name, version);
            }
            watcher::Event::InitDone => self.complete = Some(std::mem::take(&mut self.arriving)),
            watcher::Event::Apply(crd) => {
                let (name, version) = name_and_version(crd);
                self.complete.get_or_insert_default().insert(name, version);
            }
            watcher::Event::Delete(crd) => {
                let (name, _) = name_and_version(crd);
                self.complete.get_or_insert_default().remove(&name);
            }
        }
    }
}

fn name_and_version(crd: PartialObjectMeta<CustomResourceDefinition>) -> (String, String) {
    (crd.metadata.name.unwrap_or_default(), crd.metadata.resource_version.unwrap_or_default())
}

/// What a cached kind was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    /// resourceVersion of the CRD; `None` where there is none, or where fetching it failed.
    crd: Option<String>,
    version: String,
}

#[derive(Default)]
struct Cache(BTreeMap<GroupResource, (Source, Arc<Kind>)>);

impl Cache {
    /// Fetches what is new. Returns whether anything changed, and whether anything must be tried again.
    async fn update(
        &mut self,
        crds: &Api<DynamicObject>,
        targets: &Targets,
        known: &HashMap<String, String>,
    ) -> (bool, bool) {
        let before = self.0.len();
        self.0.retain(|resource, _| targets.contains_key(resource));
        let (mut changed, mut retry) = (self.0.len() != before, false);
        for (resource, version) in targets {
            let name = resource.to_string();
            let source = Source { crd: known.get(&name).cloned(), version: version.clone() };
            if self.0.get(resource).is_some_and(|(cached, _)| *cached == source) {
                continue;
            }
            let (source, kind) = if source.crd.is_none() {
                (source, Kind::without_crd(resource))
            } else {
                match fetch(crds, &name).await {
                    Ok(crd) => (source, Kind::from_crd(&crd, version)),
                    Err(message) => {
                        tracing::warn!(crd = name, error = message, "reading a CRD");
                        retry = true;
                        if self.0.contains_key(resource) {
                            // An older schema is better than none.
                            continue;
                        }
                        let source = Source { crd: None, ..source };
                        (source, Kind::unknown(Unresolved::Unreadable(message)))
                    }
                }
            };
            self.0.insert(resource.clone(), (source, Arc::new(kind)));
            changed = true;
        }
        (changed, retry)
    }

    fn kinds(&self) -> Kinds {
        self.0.iter().map(|(resource, (_, kind))| (resource.clone(), kind.clone())).collect()
    }
}

async fn fetch(crds: &Api<DynamicObject>, name: &str) -> Result<Value, String> {
    match tokio::time::timeout(CALL_TIMEOUT, crds.get(name)).await {
        Ok(Ok(crd)) => Ok(crd.data),
        Ok(Err(kube::Error::Api(status))) => Err(status.message),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", CALL_TIMEOUT.as_secs())),
    }
}
