//! What the API server itself, and the clients' move to server-side apply, do to entries.
//!
//! Each is told by its exact shape. What does not have the shape is somebody's doing.

use super::Check;
use crate::ownership::element::Element;
use crate::ownership::entry::Operation;
use crate::ownership::fieldsv1::FieldsV1Error;
use crate::ownership::mutation;
use crate::ownership::scope::Scope;
use crate::ownership::set::PathSet;
use crate::ownership::tracking::{ANCIENT_CHANGES, BEFORE_FIRST_APPLY, Movement};

/// The Update entries that the API server keeps; it merges what is older into `ancient-changes`.
const KEPT_UPDATERS: usize = 10;

impl Check<'_, '_, '_> {
    /// What the API server itself takes from other entries without a change of value.
    pub(super) fn server_dropped(&self, movement: &Movement<'_>, path: &[Element]) -> Option<&'static str> {
        let ancient = |other: &Movement<'_>| {
            other.manager == ANCIENT_CHANGES
                && other.operation == Operation::Update
                && other.gained.contains(path)
        };
        if movement.operation == Operation::Update
            && self.scope.tracking.movements.iter().any(ancient)
            && self.has_too_many_updaters()
        {
            return Some("merged into ancient-changes");
        }
        // A write of /scale that changes nothing splits the entry that holds the count, and the next write of the
        // object keeps one half. No request can bring two such entries along: the server reads them as one.
        let is_count = self.scope.target.scale.as_ref().is_some_and(|scale| scale.replicas.ends_at(path));
        if movement.doubled && is_count {
            return Some("the server had split the entry in a write of /scale");
        }
        if self.held_in_unknown_versions(movement, path) {
            return Some("the entry was of a version that the kind does not have");
        }
        if self.became_atomic(movement, path) {
            return Some("a node above it has become atomic");
        }
        let Some(Element::Field(top)) = path.first() else { return None };
        match (self.scope.facts.subresource, &**top) {
            ("", "status") => Some("a stale status in a write of the main resource"),
            ("status", "metadata" | "spec") => Some("a stale object in a write of /status"),
            ("resize" | "ephemeralcontainers", "metadata" | "status") => {
                Some("a stale object in a write of a pod's subresource")
            }
            _ => None,
        }
    }

    /// Whether every entry in which the manager held the path names a version that is not among the
    /// kind's own, and is gone. The server drops such an entry of a built-in kind in anybody's write.
    pub(super) fn held_in_unknown_versions(&self, movement: &Movement<'_>, path: &[Element]) -> bool {
        let Scope { tracking, target, .. } = self.scope;
        let identity = (&*movement.manager, movement.operation, &*movement.subresource);
        // Of a built-in kind the versions are not known: then an entry of another than the reviewed
        // one is no evidence.
        let known = |api_version: &str| {
            if target.versions.is_empty() {
                mutation::is_reviewed_version(target, api_version)
            } else {
                self.readable(api_version)
            }
        };
        let mut holding = tracking
            .gone
            .iter()
            .filter(|entry| entry.identity() == identity && entry.set().is_ok_and(|set| set.contains(path)));
        holding.all(|entry| {
            !known(&entry.api_version) && !self.scope.tracking.after().any(|left| left.identity() == identity)
        })
    }

    /// Whether a node above the path took in what the manager held below it, and in every other entry
    /// too. The server does so when a schema has made the node atomic, which it may know earlier than
    /// we do; a top-level field is more than a shape alone may excuse.
    fn became_atomic(&self, movement: &Movement<'_>, path: &[Element]) -> bool {
        let rolled_up = |movement: &Movement<'_>, node: &[Element]| {
            let before = movement.before.set().is_ok_and(|set| !set.has_below(node));
            before || movement.after.set().is_ok_and(|set| set.contains(node) && !set.has_below(node))
        };
        let held_below = |node: &[Element]| {
            let mut entries = self.scope.tracking.after();
            entries.any(|entry| entry.set().is_ok_and(|set| set.has_below(node)))
        };
        (2..path.len()).filter_map(|length| path.get(..length)).any(|node| {
            movement.after.set().is_ok_and(|set| set.contains(node))
                && self.scope.tracking.movements.iter().all(|other| rolled_up(other, node))
                && !held_below(node)
        })
    }

    /// Whether there are as many Update entries as the server leaves when it merges the oldest.
    pub(super) fn has_too_many_updaters(&self) -> bool {
        let entries = self.scope.tracking.after();
        entries.filter(|entry| entry.operation == Operation::Update).count() >= KEPT_UPDATERS
    }

    /// Whether an Update entry is gone, as those that the server merges are.
    pub(super) fn merges_oldest(&self) -> Result<bool, FieldsV1Error> {
        for movement in self.scope.tracking.movements.iter().filter(|m| m.operation == Operation::Update) {
            if movement.after.set()?.is_empty() && !movement.before.set()?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The migration of kubectl, Helm, Flux and Argo CD from client-side to server-side apply, and that
    /// of an owner to a new name: old entries vanish into one Apply entry, which gains nothing but what
    /// they held, and no value changes.
    pub(super) fn is_client_side_apply_upgrade(&self) -> Result<bool, FieldsV1Error> {
        let movements = &self.scope.tracking.movements;
        let mut gaining = movements.iter().filter(|movement| !movement.gained.is_empty());
        let (Some(into), None) = (gaining.next(), gaining.next()) else { return Ok(false) };
        if into.operation != Operation::Apply || !self.changed.is_empty() {
            return Ok(false);
        }
        let mut lost = PathSet::new();
        for movement in movements.iter().filter(|movement| !movement.lost.is_empty()) {
            let client_side = movement.operation == Operation::Update
                && (movement.manager.starts_with("kubectl")
                    || movement.manager == BEFORE_FIRST_APPLY
                    || movement.manager == into.manager
                    || movement.before.set()?.contains(&last_applied()));
            let migrates = client_side || self.is_renamed(&movement.manager, &into.manager);
            if !migrates || !movement.after.set()?.is_empty() {
                return Ok(false);
            }
            lost = lost.union(&movement.lost);
        }
        let owned_by_others = self
            .scope
            .policy
            .owners
            .iter()
            .any(|owner| owner.declares(&into.manager) && !self.scope.judge.is(&owner.subjects));
        Ok(!lost.is_empty() && into.gained.difference(&lost).is_empty() && !owned_by_others)
    }

    /// Whether the requester is an owner that once wrote under the one name and now writes under the other.
    fn is_renamed(&self, from: &str, to: &str) -> bool {
        self.scope.policy.owners.iter().any(|owner| {
            owner.former_managers.iter().any(|former| **former == *from)
                && owner.managers.iter().any(|manager| *manager.name == *to)
                && self.scope.judge.is(&owner.subjects)
        })
    }
}

fn last_applied() -> [Element; 3] {
    ["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"].map(Element::field)
}
