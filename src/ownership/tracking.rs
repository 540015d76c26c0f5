//! What a request does to `managedFields`: which entries gain, lose or keep which paths.
//!
//! Input: the stored and the new object. Output: the entries of both, and for each
//! manager whose entry changed a [`Movement`]. Entries whose bytes are equal on both
//! sides are never read into sets. Nothing here decides: an entry is evidence, not authority.

use std::collections::BTreeSet;

use super::entry::{EntryError, ManagedFieldsEntry, Operation, parse_entries};
use super::fieldsv1::FieldsV1Error;
use super::path::Path;
use super::raw::{Raw, RawError};
use super::set::PathSet;
use super::verdict::Holder;

/// Manager under which the server files what was there before the first apply.
pub(super) const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Manager into which the server merges its oldest Update entries.
pub(super) const ANCIENT_CHANGES: &str = "ancient-changes";

/// Holders that a message names: more would not be read.
const SHOWN_HOLDERS: usize = 3;

/// The entries before and after a request.
#[derive(Debug, Default)]
pub(super) struct Tracking<'f> {
    /// The list of the stored object, whole.
    stored: Option<Raw<'f>>,
    /// Entries of both sides; not read when nothing moved.
    pub(super) before: Vec<ManagedFieldsEntry<'f>>,
    pub(super) after: Vec<ManagedFieldsEntry<'f>>,
    pub(super) movements: Vec<Movement>,
}

/// How the holdings of one manager (name, operation, subresource) changed.
#[derive(Debug)]
pub(super) struct Movement {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) subresource: String,
    pub(super) before: PathSet,
    pub(super) after: PathSet,
    pub(super) lost: PathSet,
    pub(super) gained: PathSet,
    /// An entry that is on both sides has another time.
    pub(super) retimed: bool,
}

impl<'f> Tracking<'f> {
    /// Reads the entries of both objects; those of an object that is not there are none.
    pub(super) fn read(old: Option<Raw<'f>>, new: Option<Raw<'f>>) -> Result<Self, TrackingError> {
        let (before, after) = (managed_fields(old)?, managed_fields(new)?);
        if before.map(Raw::text) == after.map(Raw::text) {
            // Nothing moved, so nothing is parsed unless a message asks for the holders.
            return Ok(Self { stored: before, ..Self::default() });
        }
        let stored = before;
        let before = before.map_or(Ok(Vec::new()), |list| parse_entries(list.text()))?;
        let after = after.map_or(Ok(Vec::new()), |list| parse_entries(list.text()))?;
        let movements = movements(&before, &after)?;
        Ok(Self { stored, before, after, movements })
    }

    /// The managers that hold a path in the stored object, for messages.
    pub(super) fn holders_before(&self, path: &Path) -> Vec<Holder> {
        let path = path.elements();
        let holds = |entry: &ManagedFieldsEntry<'f>| {
            entry.set().is_ok_and(|set| set.contains(path) || set.has_below(path))
        };
        // What cannot be read names nobody; the decision itself does not rest on it.
        let entries = self.stored.and_then(|list| parse_entries(list.text()).ok()).unwrap_or_default();
        entries
            .iter()
            .filter(|entry| holds(entry))
            .take(SHOWN_HOLDERS)
            .map(|entry| Holder {
                manager: entry.manager.clone().into_owned(),
                operation: entry.operation.to_string(),
            })
            .collect()
    }

    /// Whether an entry of this manager gained a path or a new time. What a schema that became
    /// atomic does to entries is no gain.
    pub(super) fn gains(&self, manager: &str) -> bool {
        self.movements.iter().any(|movement| {
            let new = |path: Path| !movement.before.has_below(path.elements());
            movement.manager == manager && (movement.retimed || movement.gained.iter().any(new))
        })
    }
}

/// Why the entries of an object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TrackingError {
    /// The object around the list.
    #[error("metadata cannot be read: {0}")]
    Metadata(#[from] RawError),
    /// The list or one of its entries.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The paths of one entry.
    #[error("the managedFields entry of {manager:?} cannot be read: {source}")]
    Fields { manager: String, source: FieldsV1Error },
}

fn managed_fields(object: Option<Raw<'_>>) -> Result<Option<Raw<'_>>, RawError> {
    let Some(object) = object else { return Ok(None) };
    let Some(metadata) = object.get("metadata")? else { return Ok(None) };
    metadata.get("managedFields")
}

type Identity<'e> = (&'e str, Operation, &'e str);

/// The managers of which an entry differs between the two sides.
fn movements<'f>(
    before: &[ManagedFieldsEntry<'f>],
    after: &[ManagedFieldsEntry<'f>],
) -> Result<Vec<Movement>, TrackingError> {
    let differs = |entry: &ManagedFieldsEntry<'f>, others: &[ManagedFieldsEntry<'f>]| {
        !others.iter().any(|other| other.raw == entry.raw)
    };
    let moved: BTreeSet<Identity<'_>> = before
        .iter()
        .filter(|entry| differs(entry, after))
        .chain(after.iter().filter(|entry| differs(entry, before)))
        .map(ManagedFieldsEntry::identity)
        .collect();
    moved.into_iter().map(|identity| movement(identity, before, after)).collect()
}

fn movement(
    identity: Identity<'_>,
    before: &[ManagedFieldsEntry<'_>],
    after: &[ManagedFieldsEntry<'_>],
) -> Result<Movement, TrackingError> {
    // An updater may hold an entry for each version that it has written: together they are its hold.
    let held = |entries: &[ManagedFieldsEntry<'_>]| {
        let mut held = PathSet::new();
        for entry in entries.iter().filter(|entry| entry.identity() == identity && entry.is_readable()) {
            let set = entry.set().map_err(|source| TrackingError::Fields {
                manager: entry.manager.clone().into_owned(),
                source,
            })?;
            held = if held.is_empty() { set } else { held.union(&set) };
        }
        Ok::<_, TrackingError>(held)
    };
    let (before_set, after_set) = (held(before)?, held(after)?);
    let times = |entries: &[ManagedFieldsEntry<'_>]| {
        let own = entries.iter().filter(|entry| entry.identity() == identity);
        own.map(|entry| entry.time.as_deref().unwrap_or_default().to_owned()).collect::<BTreeSet<_>>()
    };
    let own = |entry: &&ManagedFieldsEntry<'_>| entry.identity() == identity;
    let another_time = before.iter().filter(own).any(|old| {
        after.iter().filter(own).any(|new| new.api_version == old.api_version && new.time != old.time)
    });
    let (manager, operation, subresource) = identity;
    Ok(Movement {
        manager: manager.to_owned(),
        operation,
        subresource: subresource.to_owned(),
        lost: before_set.difference(&after_set),
        gained: after_set.difference(&before_set),
        // The same paths under another version are the same entry, too.
        retimed: another_time || (before_set == after_set && times(before) != times(after)),
        before: before_set,
        after: after_set,
    })
}
