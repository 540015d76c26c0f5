//! Writes by the cluster's own controllers that no policy may stop.
//!
//! A table of exact identities and exact shapes: never a namespace, never a
//! prefix. What is not listed here is judged like anybody's write.

use super::diff::{Change, ChangeKind};
use super::element::{Element, Scalar};
use super::facts::{Facts, Operation};
use super::raw::Raw;

/// The garbage collector's users: with and without credentials of its own.
const GARBAGE_COLLECTOR: [&str; 2] =
    ["system:serviceaccount:kube-system:generic-garbage-collector", CONTROLLER_MANAGER];
/// Removes what is in a namespace that is being deleted.
const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";
/// Removes finished objects whose time has come.
const TTL_AFTER_FINISHED: &str = "system:serviceaccount:kube-system:ttl-after-finished-controller";
/// Removes pods whose node is gone or that ended long ago.
const POD_GARBAGE_COLLECTOR: &str = "system:serviceaccount:kube-system:pod-garbage-collector";
/// All controllers where they share one credential.
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";

/// Everybody in this table, for enforcers that see who writes but not in what shape.
pub const IDENTITIES: [&str; 5] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    NAMESPACE_CONTROLLER,
    TTL_AFTER_FINISHED,
    POD_GARBAGE_COLLECTOR,
    CONTROLLER_MANAGER,
];

/// Finalizers that the API server sets for the way of deletion; the garbage collector removes them.
const DELETION_FINALIZERS: [&str; 2] = ["foregroundDeletion", "orphan"];

/// Whether a deletion is the cluster's own.
pub(super) fn may_delete(facts: &Facts<'_>) -> bool {
    let user = facts.requester.username.as_str();
    facts.operation == Operation::Delete
        && (GARBAGE_COLLECTOR.contains(&user)
            || (user == NAMESPACE_CONTROLLER && !facts.namespace.is_empty())
            || user == TTL_AFTER_FINISHED
            || (user == POD_GARBAGE_COLLECTOR && facts.group.is_empty() && facts.resource == "pods"))
}

/// Whether a change is the cluster's own book-keeping.
pub(super) fn may_change(facts: &Facts<'_>, change: &Change<'_>) -> bool {
    GARBAGE_COLLECTOR.contains(&facts.requester.username.as_str()) && is_garbage_collection(change)
}

/// The garbage collector takes away its own finalizers, drops a reference to an owner that is
/// gone, and lifts `blockOwnerDeletion` of a reference.
fn is_garbage_collection(change: &Change<'_>) -> bool {
    let [Element::Field(metadata), Element::Field(list), rest @ ..] = change.path.elements() else {
        return false;
    };
    if **metadata != *"metadata" {
        return false;
    }
    match (&**list, rest) {
        ("finalizers", []) => change.kind == ChangeKind::Removed,
        ("finalizers", [Element::Value(Scalar::String(name))]) => {
            change.kind == ChangeKind::Removed && DELETION_FINALIZERS.contains(&&**name)
        }
        ("ownerReferences", _) if change.kind == ChangeKind::Removed => true,
        // To the server a reference is one value.
        ("ownerReferences", [Element::Key(_)]) => {
            matches!((change.old, change.new), (Some(old), Some(new)) if lifts_block(old, new))
        }
        _ => false,
    }
}

/// Whether two references differ in that the second does not block the deletion of its owner, and in nothing else.
fn lifts_block(old: Raw<'_>, new: Raw<'_>) -> bool {
    let split = |reference: Raw<'_>| {
        let (block, rest): (Vec<_>, Vec<_>) = reference
            .members()
            .ok()?
            .into_iter()
            .map(|(name, value)| (name.into_owned(), value.text().to_owned()))
            .partition(|(name, _)| name == "blockOwnerDeletion");
        Some((block, rest))
    };
    let (Some((_, before)), Some((block, after))) = (split(old), split(new)) else { return false };
    before == after && block.iter().all(|(_, value)| value == "false")
}
