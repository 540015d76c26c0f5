//! What the HTTP edge needs from the rest of the program: the compiled policies, readiness, and
//! hooks for the few things that only a cluster can answer.
//!
//! Other parts fill this (watches store snapshots and open gates, the client reads parents); the
//! edge only reads it. Nothing here talks to Kubernetes.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use futures::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::cluster::namespaces::Namespaces;
use crate::ownership::rule::PolicySet;
use crate::ownership::verdict::Verdict;
pub use crate::telemetry::health::{Gate, Readiness};

/// Everything that reviews are judged by, replaced as a whole.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Compiled policies by target.
    pub policies: PolicySet,
}

/// The current [`Snapshot`]. Clones share it.
///
/// It starts empty, and an empty store is not a store without policies: until the first snapshot
/// arrives nothing can be decided.
#[derive(Clone, Debug, Default)]
pub struct Snapshots(Arc<ArcSwapOption<Snapshot>>);

impl Snapshots {
    /// Replaces the snapshot. Reviews that have begun keep the one they began with.
    pub fn store(&self, snapshot: Snapshot) {
        self.0.store(Some(Arc::new(snapshot)));
    }

    /// The snapshot, or `None` while policies have never been loaded.
    #[must_use]
    pub fn load(&self) -> Option<Arc<Snapshot>> {
        self.0.load_full()
    }
}

/// Names the object whose count a `/scale` request writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentRef {
    /// API group.
    pub group: String,
    /// The version to read, the one that the target's paths are written for.
    pub version: String,
    /// Plural resource name.
    pub resource: String,
    /// Namespace, empty for a cluster-scoped object.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Why a parent could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParentError {
    /// The object is gone.
    #[error("the object does not exist any more")]
    NotFound,
    /// The webhook lacks the right to read it.
    #[error("the webhook may not read {0}")]
    Forbidden(String),
    /// It took longer than a review can wait.
    #[error("reading the object took too long")]
    TimedOut,
    /// Anything else.
    #[error("reading the object failed: {0}")]
    Failed(String),
}

/// Reads the parent of a `/scale` request from the API server, never from a cache.
pub trait ParentReader: Send + Sync {
    /// One live GET. The caller bounds the time it waits; the future may be dropped at any point.
    fn read(&self, parent: ParentRef) -> BoxFuture<'static, Result<Box<RawValue>, ParentError>>;
}

/// For a server without a cluster: there is nobody to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoParents;

impl ParentReader for NoParents {
    fn read(&self, _: ParentRef) -> BoxFuture<'static, Result<Box<RawValue>, ParentError>> {
        Box::pin(async { Err(ParentError::Failed("the server runs without a cluster".to_owned())) })
    }
}

/// What is said of a FieldPolicy: warnings when it is accepted, the refusal (one problem a line) when not.
pub type PolicyOpinion = Result<Vec<String>, String>;

/// Judges a FieldPolicy object. The caller bounds the time it waits.
pub type PolicyReview = Arc<dyn Fn(Box<RawValue>) -> BoxFuture<'static, PolicyOpinion> + Send + Sync>;

/// A judged request that is worth telling somebody about, for events and counts. Never sent for a dry run.
#[derive(Clone, Debug)]
pub struct Notice {
    /// API group of the object.
    pub group: String,
    /// API version that was reviewed.
    pub version: String,
    /// Plural resource name.
    pub resource: String,
    /// Subresource, empty for the main resource.
    pub subresource: String,
    /// Kind of the reviewed object (`Scale` for `/scale`).
    pub kind: String,
    /// Namespace, empty for a cluster-scoped object.
    pub namespace: String,
    /// Name; empty where the server has yet to generate it.
    pub name: String,
    /// Uid of the stored object; empty when there is none yet, so that no event can point at it.
    pub object_uid: String,
    /// User name of the requester.
    pub username: String,
    /// Whether the request was refused.
    pub denied: bool,
    /// What was found. Findings are unchanged: on `/observe` refusals still stand as such.
    pub verdict: Verdict,
    /// The text that the client got, without values of sensitive fields.
    pub message: String,
}

/// The parts that the edge calls but does not contain.
#[derive(Clone)]
pub struct Hooks {
    /// Reads parents for `/scale`.
    pub parents: Arc<dyn ParentReader>,
    /// Judges FieldPolicy objects.
    pub policy_review: PolicyReview,
    /// Labels of namespaces, where some policy asks for them.
    pub namespaces: Namespaces,
    /// Takes notices; a full channel loses them (counted), a review never waits.
    pub notices: Option<mpsc::Sender<Notice>>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("notices", &self.notices.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_loaded_at_first() {
        let snapshots = Snapshots::default();
        assert!(snapshots.load().is_none());
        snapshots.store(Snapshot::default());
        assert!(snapshots.load().is_some());
    }
}
