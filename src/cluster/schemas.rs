//! The kinds behind the targets: from their CRDs, else from the API server's `OpenAPI`.
//!
//! Input: a client and a channel of the targets that policies name. Output: a
//! channel of [`Kinds`].
//!
//! A cluster may hold hundreds of CRDs of a megabyte each, so all of them are
//! watched as metadata only and the few targeted ones are fetched, again when
//! their resourceVersion moves. What has no CRD changes with the API server
//! alone and cannot be watched; it is looked at again now and then. Must not
//! hold up policies: a kind that is not here yet counts as [`Unresolved::NotLoaded`].

mod kind;
mod openapi;

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
use tokio::time::{Instant, sleep_until};

pub use kind::{Kind, Unresolved};

use self::openapi::Index;
use super::client::CALL_TIMEOUT;
use super::in_force::GroupResource;

/// What could not be fetched is tried again after this time, also when nothing else happens.
const RETRY: Duration = Duration::from_secs(5);
/// Kinds without a CRD are looked at again after this time: an upgrade of the API server, or one of an aggregated
/// API, brings no event. The index takes a few kilobytes.
const REFRESH: Duration = Duration::from_mins(1);

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
    let mut events = std::pin::pin!(watcher(metadata, watcher::Config::default()).default_backoff());
    let mut listing = Listing::default();
    let mut cache = Cache::new(client);
    let mut due = Instant::now() + REFRESH;
    loop {
        let mut refresh = false;
        tokio::select! {
            () = sender.closed() => return,
            changed = targets.changed() => if changed.is_err() { return },
            () = sleep_until(due) => refresh = true,
            event = events.next() => match event {
                Some(Ok(event)) => listing.take(event),
                Some(Err(error)) => tracing::warn!(%error, "watching CRDs; the last schemas stay in use"),
                None => return,
            },
        }
        let Some(known) = &listing.complete else {
            due = Instant::now() + REFRESH;
            continue;
        };
        let targets = targets.borrow_and_update().clone();
        let Updated { changed, retry } = cache.update(&targets, known, refresh).await;
        if retry {
            due = Instant::now() + RETRY;
        } else if refresh {
            due = Instant::now() + REFRESH;
        }
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
enum Source {
    /// A CRD of this resourceVersion.
    Crd(String),
    /// A document at this address, which holds its hash; `None` where there is none.
    Document(Option<String>),
    /// Fetching failed.
    Failed,
}

/// What an update did.
#[derive(Clone, Copy, Debug, Default)]
struct Updated {
    /// Some kind is another one now.
    changed: bool,
    /// Something has to be tried again.
    retry: bool,
}

/// A kind with what it was made from and the version that it was made for.
struct Cached {
    source: Source,
    version: String,
    kind: Arc<Kind>,
}

struct Cache {
    client: Client,
    kinds: BTreeMap<GroupResource, Cached>,
}

impl Cache {
    fn new(client: Client) -> Self {
        Self { client, kinds: BTreeMap::new() }
    }

    /// Fetches what is new; what has no CRD is looked at again where `refresh` says so.
    async fn update(&mut self, targets: &Targets, known: &HashMap<String, String>, refresh: bool) -> Updated {
        let before = self.kinds.len();
        self.kinds.retain(|resource, _| targets.contains_key(resource));
        let mut done = Updated { changed: self.kinds.len() != before, retry: false };
        let mut without_crd = Targets::new();
        for (resource, version) in targets {
            match known.get(&resource.to_string()) {
                Some(crd) => self.update_crd(resource, version, crd, &mut done).await,
                None => {
                    without_crd.insert(resource.clone(), version.clone());
                }
            }
        }
        let is_new = |(resource, version): (&GroupResource, &String)| {
            !self.kinds.get(resource).is_some_and(|cached| {
                cached.version == *version && matches!(cached.source, Source::Document(_))
            })
        };
        if (refresh && !without_crd.is_empty()) || without_crd.iter().any(is_new) {
            self.update_without_crd(without_crd, &mut done).await;
        }
        done
    }

    async fn update_crd(&mut self, resource: &GroupResource, version: &str, crd: &str, done: &mut Updated) {
        let source = Source::Crd(crd.to_owned());
        if self.has(resource, version, &source) {
            return;
        }
        let name = resource.to_string();
        match fetch(&self.client, &name).await {
            Ok(crd) => self.put(resource, version, source, Kind::from_crd(&crd, version), done),
            Err(message) => {
                tracing::warn!(crd = name, error = message, "reading a CRD");
                let kind = Kind::unknown(Unresolved::Unreadable(message.clone()));
                self.put_failed(resource, version, kind, done);
            }
        }
    }

    async fn update_without_crd(&mut self, targets: Targets, done: &mut Updated) {
        let index = match Index::read(&self.client).await {
            Ok(index) => index,
            Err(message) => {
                self.failed(&targets, &message, done);
                return;
            }
        };
        // The same document serves all targets in it.
        let mut documents: BTreeMap<(String, String), Targets> = BTreeMap::new();
        for (resource, version) in targets {
            let url = index.document(&resource.group, &version);
            let source = Source::Document(url.map(str::to_owned));
            if self.has(&resource, &version, &source) {
                continue;
            }
            if let Some(url) = url {
                let document = documents.entry((url.to_owned(), version.clone())).or_default();
                document.insert(resource, version);
                continue;
            }
            let served = index.served(&resource.group);
            let why = if served.is_empty() {
                Unresolved::NoSuchKind(resource.clone())
            } else {
                Unresolved::VersionNotServed { version: version.clone(), served: served.clone() }
            };
            self.put(&resource, &version, source, Kind::from_openapi(&resource, served, Err(why)), done);
        }
        for ((url, version), targets) in documents {
            let resources = targets.keys().cloned().collect();
            match openapi::schemas(&self.client, &url, &version, resources).await {
                Ok(found) => {
                    for (resource, schema) in found {
                        let source = Source::Document(Some(url.clone()));
                        let kind = Kind::from_openapi(&resource, index.served(&resource.group), schema);
                        self.put(&resource, &version, source, kind, done);
                    }
                }
                Err(message) => self.failed(&targets, &message, done),
            }
        }
    }

    fn failed(&mut self, targets: &Targets, message: &str, done: &mut Updated) {
        tracing::warn!(error = message, "reading the API server's OpenAPI");
        for (resource, version) in targets {
            let kind = Kind::without_crd(resource, Unresolved::Unreadable(message.to_owned()));
            self.put_failed(resource, version, kind, done);
        }
    }

    fn has(&self, resource: &GroupResource, version: &str, source: &Source) -> bool {
        self.kinds.get(resource).is_some_and(|cached| cached.version == version && cached.source == *source)
    }

    fn put(
        &mut self,
        resource: &GroupResource,
        version: &str,
        source: Source,
        kind: Kind,
        done: &mut Updated,
    ) {
        let cached = Cached { source, version: version.to_owned(), kind: Arc::new(kind) };
        self.kinds.insert(resource.clone(), cached);
        done.changed = true;
    }

    /// Where there is an older schema, it is better than none.
    fn put_failed(&mut self, resource: &GroupResource, version: &str, kind: Kind, done: &mut Updated) {
        done.retry = true;
        if !self.kinds.contains_key(resource) {
            self.put(resource, version, Source::Failed, kind, done);
        }
    }

    fn kinds(&self) -> Kinds {
        self.kinds.iter().map(|(resource, cached)| (resource.clone(), cached.kind.clone())).collect()
    }
}

/// One kind, read now: for who cannot wait until the watch has it, and keeps nothing.
pub async fn look_up(client: &Client, resource: &GroupResource, version: &str) -> Kind {
    let crds: Api<DynamicObject> =
        Api::all_with(client.clone(), &ApiResource::erase::<CustomResourceDefinition>(&()));
    match crds.get_opt(&resource.to_string()).await {
        Ok(Some(crd)) => return Kind::from_crd(&crd.data, version),
        Ok(None) => {}
        Err(error) => return Kind::unknown(Unresolved::Unreadable(error.to_string())),
    }
    let mut cache = Cache::new(client.clone());
    cache
        .update_without_crd(Targets::from([(resource.clone(), version.to_owned())]), &mut Updated::default())
        .await;
    let found = cache.kinds.remove(resource).map(|cached| Arc::unwrap_or_clone(cached.kind));
    found.unwrap_or_else(|| Kind::unknown(Unresolved::NotLoaded))
}

async fn fetch(client: &Client, name: &str) -> Result<Value, String> {
    let crds: Api<DynamicObject> =
        Api::all_with(client.clone(), &ApiResource::erase::<CustomResourceDefinition>(&()));
    match tokio::time::timeout(CALL_TIMEOUT, crds.get(name)).await {
        Ok(Ok(crd)) => Ok(crd.data),
        Ok(Err(kube::Error::Api(status))) => Err(status.message),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", CALL_TIMEOUT.as_secs())),
    }
}
