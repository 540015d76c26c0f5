//! Generated admission policies as they are in the cluster.
//!
//! Input: a client. Output: a channel with those that carry our label, and why they cannot be read. Must not hold up
//! anything else: without rights to read them, policies are registered and reported as ever.

use std::collections::BTreeMap;
use std::fmt::Debug;

use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::policy::export_vap::POLICY_LABEL;

/// Objects of one kind by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen<K> {
    /// `None` until they have been listed.
    pub objects: Option<BTreeMap<String, K>>,
    /// Why they have not.
    pub error: Option<String>,
}

impl<K> Default for Seen<K> {
    fn default() -> Self {
        Self { objects: None, error: None }
    }
}

impl<K> Seen<K> {
    /// Whether there is an answer, be it that there is none.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.objects.is_some() || self.error.is_some()
    }
}

/// Both kinds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generated {
    /// The policies.
    pub policies: Seen<ValidatingAdmissionPolicy>,
    /// Their bindings.
    pub bindings: Seen<ValidatingAdmissionPolicyBinding>,
}

impl Generated {
    /// Whether both have an answer.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.policies.is_settled() && self.bindings.is_settled()
    }

    /// Why they cannot be read.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        let policies = self.policies.error.as_deref().filter(|_| self.policies.objects.is_none());
        policies.or_else(|| self.bindings.error.as_deref().filter(|_| self.bindings.objects.is_none()))
    }
}

/// Follows both kinds; never ends by itself.
pub async fn follow(client: Client, sender: watch::Sender<Generated>) {
    tokio::join!(
        follow_one(client.clone(), &sender, |all| &mut all.policies),
        follow_one(client, &sender, |all| &mut all.bindings),
    );
}

async fn follow_one<K>(
    client: Client,
    sender: &watch::Sender<Generated>,
    of: impl Fn(&mut Generated) -> &mut Seen<K>,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + PartialEq + DeserializeOwned + Send + 'static,
{
    let api: Api<K> = Api::all(client);
    let config = watcher::Config::default().labels(POLICY_LABEL);
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    let mut known = BTreeMap::new();
    let mut arriving = BTreeMap::new();
    loop {
        let event = tokio::select! {
            () = sender.closed() => return,
            event = events.next() => event,
        };
        match event {
            None => return,
            Some(Err(error)) => {
                tracing::warn!(kind = %K::kind(&()), %error, "watching generated admission policies");
                sender.send_if_modified(|all| change(&mut of(all).error, Some(error.to_string())));
                continue;
            }
            Some(Ok(watcher::Event::Init)) => {
                arriving = BTreeMap::new();
                continue;
            }
            Some(Ok(watcher::Event::InitApply(object))) => {
                arriving.insert(object.name_any(), object);
                continue;
            }
            Some(Ok(watcher::Event::InitDone)) => known = std::mem::take(&mut arriving),
            Some(Ok(watcher::Event::Apply(object))) => {
                known.insert(object.name_any(), object);
            }
            Some(Ok(watcher::Event::Delete(object))) => {
                known.remove(&object.name_any());
            }
        }
        sender.send_if_modified(|all| {
            let seen = of(all);
            let cleared = change(&mut seen.error, None);
            change(&mut seen.objects, Some(known.clone())) || cleared
        });
    }
}

fn change<T: PartialEq>(current: &mut T, now: T) -> bool {
    let differs = *current != now;
    *current = now;
    differs
}
