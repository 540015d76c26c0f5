//! Labels of namespaces, for policies that select by them.
//!
//! Input: a client, and whether any policy asks. Output: [`Namespaces`].
//!
//! Watched as metadata, and only while some policy needs it. Must not invent: of
//! a namespace that the watch has not shown nothing is known, which the decision
//! takes for governed.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::ownership::selection::Labels;

type ByName = HashMap<String, Arc<Labels>>;

/// The labels of all namespaces, as far as they are known. Clones share them.
#[derive(Clone, Debug)]
pub struct Namespaces {
    /// `None` before the first list.
    labels: Arc<RwLock<Option<ByName>>>,
    listed: watch::Sender<bool>,
}

impl Default for Namespaces {
    fn default() -> Self {
        Self { labels: Arc::default(), listed: watch::Sender::new(false) }
    }
}

impl Namespaces {
    /// The labels of one namespace.
    #[must_use]
    pub fn labels(&self, name: &str) -> Option<Arc<Labels>> {
        let labels = self.labels.read().unwrap_or_else(PoisonError::into_inner);
        labels.as_ref()?.get(name).cloned()
    }

    /// Waits until they are listed, but no longer than this. Says whether they are.
    pub async fn listed(&self, patience: Duration) -> bool {
        let mut listed = self.listed.subscribe();
        matches!(timeout(patience, listed.wait_for(|listed| *listed)).await, Ok(Ok(_)))
    }

    /// Replaces everything.
    fn replace(&self, all: Option<ByName>) {
        self.listed.send_replace(all.is_some());
        *self.labels.write().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// Changes one namespace of those that are listed.
    fn update(&self, change: impl FnOnce(&mut ByName)) {
        let mut labels = self.labels.write().unwrap_or_else(PoisonError::into_inner);
        change(labels.get_or_insert_default());
    }
}

/// Watches while `needed` says so, until nobody can say so any more. Errors are logged and retried.
pub async fn run(client: Client, mut needed: watch::Receiver<bool>, namespaces: Namespaces) {
    while needed.wait_for(|needed| *needed).await.is_ok() {
        let unneeded = async { needed.wait_for(|needed| !*needed).await.is_err() };
        let ended = tokio::select! {
            ended = unneeded => ended,
            () = follow(client.clone(), &namespaces) => false,
        };
        if ended {
            return;
        }
        // Nobody keeps them up to date from here on.
        namespaces.replace(None);
    }
}

async fn follow(client: Client, namespaces: &Namespaces) {
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(client);
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut arriving = ByName::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => arriving.clear(),
            Ok(watcher::Event::InitApply(namespace)) => {
                let (name, labels) = name_and_labels(namespace);
                arriving.insert(name, labels);
            }
            Ok(watcher::Event::InitDone) => namespaces.replace(Some(std::mem::take(&mut arriving))),
            Ok(watcher::Event::Apply(namespace)) => {
                let (name, labels) = name_and_labels(namespace);
                namespaces.update(|all| {
                    all.insert(name, labels);
                });
            }
            Ok(watcher::Event::Delete(namespace)) => {
                let (name, _) = name_and_labels(namespace);
                namespaces.update(|all| {
                    all.remove(&name);
                });
            }
            Err(error) => tracing::warn!(%error, "watching namespaces; their last labels stay in use"),
        }
    }
}

fn name_and_labels(namespace: PartialObjectMeta<Namespace>) -> (String, Arc<Labels>) {
    let metadata = namespace.metadata;
    (metadata.name.unwrap_or_default(), Arc::new(metadata.labels.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_known_before_the_first_list() {
        let namespaces = Namespaces::default();
        assert!(namespaces.labels("a").is_none());
        assert!(!namespaces.listed(Duration::from_millis(1)).await);
        namespaces.replace(Some(ByName::from([("a".to_owned(), Arc::default())])));
        assert!(namespaces.listed(Duration::from_millis(1)).await);
        assert!(namespaces.labels("a").is_some() && namespaces.labels("b").is_none());
        namespaces.replace(None);
        assert!(namespaces.labels("a").is_none());
    }
}
