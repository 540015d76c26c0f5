//! What a request does to `managedFields`: which entries gain, lose or keep which paths.
//!
//! Input: the stored and the new object. Output: the entries of both, and for each
//! manager whose entry changed a [`Movement`]. Entries whose bytes are equal on both
//! sides are never parsed. Nothing here decides: an entry is evidence, not authority.

use serde_json::value::RawValue;

use super::element::Element;
use super::entry::{EntryError, ManagedFieldsEntry, Operation, parse_entries};
use super::path::Path;
use super::raw;
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
    pub(super) before: Vec<ManagedFieldsEntry<'f>>,
    pub(super) after: Vec<ManagedFieldsEntry<'f>>,
    pub(super) movements: Vec<Movement<'f>>,
}

/// How the holdings of one manager (name, operation, subresource) changed.
#[derive(Debug)]
pub(super) struct Movement<'f> {
    pub(super) manager: &'f str,
    pub(super) operation: Operation,
    pub(super) subresource: &'f str,
    pub(super) before: PathSet,
    pub(super) after: PathSet,
    pub(super) lost: PathSet,
    pub(super) gained: PathSet,
    /// An entry kept its paths while its time changed.
    pub(super) retimed: bool,
}

impl<'f> Tracking<'f> {
    /// Reads the entries of both objects; those of an object that is not there are none.
    pub(super) fn read(old: Option<&'f RawValue>, new: Option<&'f RawValue>) -> Result<Self, EntryError> {
        let (before, after) = (managed_fields(old)?, managed_fields(new)?);
        if before.map(RawValue::get) == after.map(RawValue::get) {
            // Nothing moved, so nothing is parsed unless a message asks for the holders.
            let entries = before.map_or(Ok(Vec::new()), parse_entries)?;
            return Ok(Self { after: entries.clone(), before: entries, movements: Vec::new() });
        }
        let before = before.map_or(Ok(Vec::new()), parse_entries)?;
        let after = after.map_or(Ok(Vec::new()), parse_entries)?;
        let movements = movements(&before, &after)?;
        Ok(Self { before, after, movements })
    }

    /// The managers that hold a path in the stored object, for messages.
    pub(super) fn holders_before(&self, path: &Path) -> Vec<Holder> {
        let path = path.elements();
        let holds = |entry: &&ManagedFieldsEntry<'f>| {
            entry.set().is_ok_and(|set| {
                set.contains(path) || set.covers_ancestor(path) && set.leaf_above(path) || set.has_below(path)
            })
        };
        self.before
            .iter()
            .filter(holds)
            .take(SHOWN_HOLDERS)
            .map(|entry| Holder {
                manager: entry.manager.clone().into_owned(),
                operation: entry.operation.as_str().to_owned(),
            })
            .collect()
    }
}

fn managed_fields(object: Option<&RawValue>) -> Result<Option<&RawValue>, EntryError> {
    let Some(object) = object else { return Ok(None) };
    let Some(metadata) = raw::get(object, "metadata")? else { return Ok(None) };
    Ok(raw::get(metadata, "managedFields")?)
}

fn movements<'f>(
    before: &[ManagedFieldsEntry<'f>],
    after: &[ManagedFieldsEntry<'f>],
) -> Result<Vec<Movement<'f>>, EntryError> {
    todo_impl(before, after)
}
