//! Step 1: read.
//!
//! Input: a client. Output: an [`Observation`] whenever something changed.
//! Holds a client; must not write or decide.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::entry::{CONFIGURATION, Registration};
use super::generated::{self, Generated};
use crate::cluster::feed::{self, Feed, Scene};
use crate::cluster::in_force::with_compiler;
use crate::cluster::replicas::{self, Replicas};

/// How long a plan waits for CRDs that are being read. Without them a rule would be written twice, first with every
/// subresource that the kind might have. Reading one takes milliseconds; at a start all of them are listed first.
const KINDS: Duration = Duration::from_secs(3);

/// The registration, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Live {
    /// Not read yet.
    #[default]
    Unknown,
    /// There is none.
    Missing,
    /// It is there.
    Present(Registration),
}

impl Live {
    /// The registration, if it is there.
    #[must_use]
    pub fn registration(&self) -> Option<&Registration> {
        match self {
            Self::Present(registration) => Some(registration),
            Self::Missing | Self::Unknown => None,
        }
    }
}

/// Everything that a plan is made from.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Policies and their kinds.
    pub scene: Scene,
    /// The registration.
    pub live: Live,
    /// Generated admission policies.
    pub generated: Generated,
    /// What webhook replicas report.
    pub replicas: Replicas,
}

/// Waits for news.
pub struct Observer {
    feed: Feed,
    live: watch::Receiver<Live>,
    generated: watch::Receiver<Generated>,
    replicas: watch::Receiver<Replicas>,
}

/// An observer, and the watches behind it.
#[must_use]
pub fn observer(client: Client) -> (Observer, BoxFuture<'static, ()>) {
    let (feed, feeding) = feed::feed(client.clone());
    let (sender, live) = watch::channel(Live::default());
    let (generated_in, generated) = watch::channel(Generated::default());
    let (reported, replicas) = watch::channel(Replicas::default());
    let watches = async move {
        tokio::select! {
            () = feeding => {}
            () = follow(client.clone(), sender) => {}
            () = replicas::follow(client.clone(), reported) => {}
            () = generated::follow(client, generated_in) => {}
        }
    };
    (Observer { feed, live, generated, replicas }, watches.boxed())
}

impl Observer {
    /// The next observation: at news, or when `again` has passed. `None` when the watches have ended.
    pub async fn next(&mut self, again: Duration) -> Option<Observation> {
        let mut due = Instant::now() + again;
        let mut impatient = None;
        loop {
            let scene = tokio::select! {
                scene = self.feed.next(with_compiler) => Some(scene?),
                changed = self.live.changed() => {
                    changed.ok()?;
                    self.feed.scene(&with_compiler)
                }
                changed = self.generated.changed() => {
                    changed.ok()?;
                    self.feed.scene(&with_compiler)
                }
                changed = self.replicas.changed() => {
                    changed.ok()?;
                    self.feed.scene(&with_compiler)
                }
                () = sleep_until(impatient.unwrap_or(due)) => {
                    due = Instant::now() + again;
                    self.feed.scene(&with_compiler)
                }
            };
            let live = self.live.borrow_and_update().clone();
            let generated = self.generated.borrow_and_update().clone();
            let Some(scene) = scene.filter(|_| live != Live::Unknown) else { continue };
            let patience = *impatient.get_or_insert_with(|| Instant::now() + KINDS);
            if (scene.is_complete() && generated.is_settled()) || patience <= Instant::now() {
                let replicas = self.replicas.borrow_and_update().clone();
                return Some(Observation { scene, live, generated, replicas });
            }
        }
    }
}

/// Follows the one configuration.
async fn follow(client: Client, sender: watch::Sender<Live>) {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let config = watcher::Config::default().fields(&format!("metadata.name={CONFIGURATION}"));
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    let mut arriving = None;
    loop {
        let event = tokio::select! {
            () = sender.closed() => return,
            event = events.next() => event,
        };
        let live = match event {
            None => return,
            Some(Err(error)) => {
                tracing::warn!(%error, "watching the webhook configuration");
                continue;
            }
            Some(Ok(watcher::Event::Init)) => {
                arriving = None;
                continue;
            }
            Some(Ok(watcher::Event::InitApply(configuration))) => {
                arriving = Some(configuration);
                continue;
            }
            Some(Ok(watcher::Event::InitDone)) => arriving.take(),
            Some(Ok(watcher::Event::Apply(configuration))) => Some(configuration),
            Some(Ok(watcher::Event::Delete(_))) => None,
        };
        let live = live.map_or(Live::Missing, |live| Live::Present(Registration::from(&live)));
        sender.send_if_modified(|current| {
            let differs = *current != live;
            *current = live;
            differs
        });
    }
}
