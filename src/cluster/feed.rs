//! Policies and the kinds that they govern, as one feed.
//!
//! Input: a client. Output: whenever something changes, all policies judged
//! and the kinds of their targets. The webhook's snapshot and the policy
//! controller both live on it, so that both see the same.
//!
//! Must not lag without need: a burst of events is waited out, but not long.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use tokio::sync::watch;

use super::in_force::{self, Compile, Judged};
use super::policies::{self, Policies, PoliciesReceiver};
use super::schemas::{self, Kinds, Targets, Unresolved};

/// After a first event, time for its companions: an apply of a folder of policies comes as a burst, and so do
/// the controller's own status writes. A person does not notice it.
const SETTLE: Duration = Duration::from_millis(30);

/// Everything at one moment.
#[derive(Clone, Debug)]
pub struct Scene {
    /// All policies, in the order of their names.
    pub policies: Vec<Judged>,
    /// The kinds of their targets.
    pub kinds: Arc<Kinds>,
    /// Why the policies are the last good ones and not the present ones.
    pub held: Option<&'static str>,
}

impl Scene {
    /// Whether everything that can be known of the targets' kinds is known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let in_force = self.policies.iter().filter_map(|judged| judged.in_force.as_ref());
        let mut kinds = in_force.map(|compiled| self.kinds.get(&compiled.resource()));
        kinds.all(|kind| kind.unresolved != Some(Unresolved::NotLoaded))
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Feed {
    policies: PoliciesReceiver,
    kinds: watch::Receiver<Arc<Kinds>>,
    targets: watch::Sender<Targets>,
}

/// A feed, and the watches behind it: the future never ends by itself, and the feed is dead when it is dropped.
#[must_use]
pub fn feed(client: Client) -> (Feed, BoxFuture<'static, ()>) {
    let (policies_in, policies) = policies::channel();
    let (kinds_in, kinds) = watch::channel(Arc::new(Kinds::default()));
    let (targets, targets_out) = watch::channel(Targets::new());
    let watches = async move {
        // Either one ends only when nobody listens any more.
        tokio::select! {
            () = policies::run(client.clone(), policies_in) => {}
            () = schemas::run(client.clone(), targets_out, kinds_in) => {}
        }
    };
    (Feed { policies, kinds, targets }, watches.boxed())
}

impl Feed {
    /// Waits for news. `None` when the watches have ended.
    pub async fn next(&mut self, compile: impl Compile) -> Option<Scene> {
        loop {
            tokio::select! {
                changed = self.policies.changed() => changed.ok()?,
                changed = self.kinds.changed() => changed.ok()?,
            }
            tokio::time::sleep(SETTLE).await;
            if let Some(scene) = self.scene(&compile) {
                return Some(scene);
            }
        }
    }

    /// The present state; `None` while policies have not been listed. What it shows is no news any more.
    pub fn scene(&mut self, compile: &impl Compile) -> Option<Scene> {
        let kinds = self.kinds.borrow_and_update().clone();
        let policies = self.policies.borrow_and_update().clone()?;
        let Policies { items, held } = &*policies;
        let held = *held;
        let policies = in_force::judge(items.values().cloned(), compile);
        let targets = in_force::targets(&policies);
        self.targets.send_if_modified(|current| {
            let differs = *current != targets;
            if differs {
                *current = targets;
            }
            differs
        });
        Some(Scene { policies, kinds, held })
    }
}
