//! Was a leaf changed by a mutating webhook or policy, and not by the request?
//!
//! The server attributes what a request sets before mutation runs, and never
//! again. So a value that changed while no entry the request may have been
//! written under holds it, and while tracking was seen to work, was set by a
//! mutator. Where tracking stood still nothing is proven.

use super::condition::Objects;
use super::diff::{Change, ChangeKind, NodeKind};
use super::element::Element;
use super::entry::{ManagedFieldsEntry, Operation};
use super::judge::Activities;
use super::raw::Kind;
use super::rule::{Claim, Target};
use super::scope::Scope;
use super::tracking::{ANCIENT_CHANGES, BEFORE_FIRST_APPLY, Tracking};

/// What is known of the origin of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The request, or it cannot be told.
    Request,
    /// Perhaps a mutator: no entry moved although a value changed, or it is none that the field names.
    Untracked,
    /// A mutating webhook or policy, which the policy lets pass.
    Mutator,
}

/// Judges the origin of a change that the deciding `claims` refuse.
pub(super) fn origin(
    scope: &Scope<'_, '_>,
    change: &Change<'_>,
    claims: &[&Claim],
    active: &Activities<'_, '_>,
) -> Origin {
    // Nothing can be proven of a value that is gone: a removal leaves no trace in any entry.
    if change.new.is_none() {
        return Origin::Request;
    }
    let releases = releases_own_finalizer(scope, active);
    let mut named = claims.iter().flat_map(|claim| &claim.mutators).peekable();
    if named.peek().is_some() {
        let objects = Objects { old_object: scope.facts.old_object, object: scope.facts.object };
        let fits = |condition: &super::condition::Expr| condition.eval_on(&objects).unwrap_or(false);
        if named.any(|mutator| mutator.when.as_ref().is_none_or(fits)) {
            return Origin::Mutator;
        }
        // A denial would leave the object stuck: its own finalizer's owner cannot help what a mutator does.
        return match prove(scope, change, releases) {
            Origin::Mutator if releases => Origin::Mutator,
            Origin::Mutator => Origin::Untracked,
            origin => origin,
        };
    }
    prove(scope, change, releases)
}

/// `releases`: the request takes away a finalizer of the requester's, which leaves no gain.
fn prove(scope: &Scope<'_, '_>, change: &Change<'_>, releases: bool) -> Origin {
    let tracking = scope.tracking;
    let facts = scope.facts;
    if tracking.movements.is_empty() {
        // An entry that holds the field already need not move: times have a resolution of a second.
        let held = |name: &str| {
            Tracking::holders_before(scope.old, &change.path).iter().any(|holder| holder.manager == name)
        };
        return if facts.field_manager.is_some_and(held) { Origin::Request } else { Origin::Untracked };
    }
    let written_under = |manager: &str, operation: Operation, subresource: &str| match facts.field_manager {
        _ if manager == ANCIENT_CHANGES || manager == BEFORE_FIRST_APPLY => true,
        Some(name) => manager == name,
        None => operation == Operation::Update && subresource == facts.subresource,
    };
    let finalizers = [Element::field("metadata"), Element::field("finalizers")];
    let path = change.path.elements();
    // A list of items that is applied empty is in no entry.
    let leaves_no_trace =
        change.node == NodeKind::Leaf && change.new.is_some_and(|value| value.kind() == Kind::Array);
    // A list that is gone as a whole tells of no tracking.
    let dropped = releases && !tracking.is_empty();
    let live = tracking.movements.iter().any(|moved| {
        (dropped && moved.lost.has_below(&finalizers))
            || (written_under(&moved.manager, moved.operation, &moved.subresource)
                // What was there before the first apply is filed by an apply.
                && !(leaves_no_trace && moved.manager == BEFORE_FIRST_APPLY)
                && (moved.retimed || !moved.gained.is_empty()))
    });
    let mut candidates =
        tracking.after().filter(|entry| written_under(&entry.manager, entry.operation, &entry.subresource));
    let innocent = |entry: &ManagedFieldsEntry<'_>| {
        !(leaves_no_trace && entry.operation == Operation::Apply)
            && is_reviewed_version(scope.target, &entry.api_version)
            && entry.set().is_ok_and(|set| !holds(set, path))
    };
    // What the request let go of and is still there took its default: that is the request's doing.
    let let_go = tracking.movements.iter().any(|moved| {
        written_under(&moved.manager, moved.operation, &moved.subresource)
            && (moved.lost.contains(path) || moved.lost.has_below(path))
    });
    if live && !let_go && candidates.all(innocent) { Origin::Mutator } else { Origin::Request }
}

/// Whether a set holds the path, or anything that it could be part of or contain.
fn holds(set: &super::set::PathSet, path: &[Element]) -> bool {
    // An ancestor that has no members below it may be an atomic node that contains the path.
    let swallowed = (1..path.len())
        .filter_map(|length| path.get(..length))
        .any(|above| set.contains(above) && !set.has_below(above));
    swallowed || set.contains(path) || set.has_below(path)
}

/// Whether an entry is written in the version that is reviewed.
pub(super) fn is_reviewed_version(target: &Target, api_version: &str) -> bool {
    match api_version.rsplit_once('/') {
        Some((group, version)) => *group == *target.group && *version == *target.version,
        None => target.group.is_empty() && *api_version == *target.version,
    }
}

/// Whether the object is being deleted and the request takes away a finalizer that is the requester's.
fn releases_own_finalizer(scope: &Scope<'_, '_>, active: &Activities<'_, '_>) -> bool {
    let finalizers = [Element::field("metadata"), Element::field("finalizers")];
    scope.is_deleting()
        && scope.changes.iter().any(|change| {
            let path = change.path.elements();
            change.kind == ChangeKind::Removed
                && path.starts_with(&finalizers)
                && path.len() > finalizers.len()
                && matches!(scope.judge.path(path, active), super::judge::Judgement::Owned { .. })
        })
}
