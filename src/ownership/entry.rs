//! One entry of `metadata.managedFields`: who wrote, how, and which fields.
//!
//! In: the raw list as it stands in an object. Out: entries that borrow from it;
//! their `fieldsV1` stays raw until somebody asks for the set. This module never
//! judges an entry, and what it cannot read it keeps: an object may hold entries
//! from servers and clients of any age.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::error::Error;
use std::fmt;

use super::fieldsv1::{self, FieldsV1Error};
use super::raw::{Kind, Node, Raw, RawError, Tree};
use super::set::PathSet;

/// The most entries that one list may have.
///
/// The API server keeps 10 entries for updates; only those for applies have no
/// bound, and some hundreds are already absurd. An entry takes many times its
/// shortest text, `{}`.
pub const MAX_ENTRIES: usize = 10_000;

/// The only `fieldsType` there is.
const FIELDS_TYPE: &str = "FieldsV1";

/// How an entry came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
    /// Something that no API server writes.
    Other,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
            Self::Other => "other",
        })
    }
}

/// One entry of `managedFields`, borrowed from the object. What an entry lacks is
/// empty.
#[derive(Clone, Debug)]
pub struct ManagedFieldsEntry<'a> {
    /// The name that the client has chosen for itself, or was given.
    pub manager: Cow<'a, str>,
    /// How the entry came about.
    pub operation: Operation,
    /// The version that the paths are written for.
    pub api_version: Cow<'a, str>,
    /// The subresource that was written; empty for the object itself.
    pub subresource: Cow<'a, str>,
    /// When the entry last changed, as text.
    pub time: Option<Cow<'a, str>>,
    /// The set of paths, not yet read; `None` if there is none of a known type.
    pub fields: Option<Raw<'a>>,
    /// The whole entry as it stands in the object.
    pub raw: &'a str,
    set: OnceCell<PathSet>,
}

impl<'a> ManagedFieldsEntry<'a> {
    /// Reads what stands around the set, and finds the set.
    fn read<'t>(entry: Node<'a, 't>) -> Result<(Self, Option<Node<'a, 't>>), RawError> {
        // In the order in which the API server writes them.
        let names = ["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time"];
        let found = entry.named(names)?;
        let [_, _, fields, ..] = found;
        let [api_version, fields_type, _, manager, operation, subresource, time] =
            found.map(|value| value.map(|value| value.raw));
        let known = text(fields_type)?.is_some_and(|fields_type| fields_type == FIELDS_TYPE);
        let fields = fields.filter(|fields| known && fields.raw.kind() != Kind::Null);
        let read = Self {
            manager: text(manager)?.unwrap_or_default(),
            operation: match text(operation)?.as_deref() {
                Some("Apply") => Operation::Apply,
                Some("Update") => Operation::Update,
                _ => Operation::Other,
            },
            api_version: text(api_version)?.unwrap_or_default(),
            subresource: text(subresource)?.unwrap_or_default(),
            time: text(time)?,
            fields: fields.map(|fields| fields.raw),
            raw: entry.raw.text(),
            set: OnceCell::new(),
        };
        Ok((read, fields))
    }

    /// What tells entries apart across versions: manager, operation, subresource.
    ///
    /// On the API server the version belongs to the identity of an update too:
    /// one updater may hold an entry for each version it has written.
    #[must_use]
    pub fn identity(&self) -> (&str, Operation, &str) {
        (&self.manager, self.operation, &self.subresource)
    }

    /// Whether the entry says which fields it holds, in a form known here.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.fields.is_some()
    }

    /// The set of paths, read when first asked for.
    pub fn set(&self) -> Result<&PathSet, FieldsV1Error> {
        if let Some(set) = self.set.get() {
            return Ok(set);
        }
        let set = fieldsv1::parse(self.fields.ok_or(FieldsV1Error::Missing)?.text())?;
        Ok(self.set.get_or_init(|| set))
    }
}

/// Why a `managedFields` could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// Not a list.
    List(RawError),
    /// A member of the list is no entry.
    Entry {
        /// Its place in the list, from 0.
        index: usize,
        /// What is wrong with it.
        source: RawError,
    },
    /// More than [`MAX_ENTRIES`] entries.
    TooMany,
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(source) => write!(f, "managedFields is not valid: {source}"),
            Self::Entry { index, source } => write!(f, "managedFields[{index}] is not valid: {source}"),
            Self::TooMany => write!(f, "managedFields has more than {MAX_ENTRIES} entries"),
        }
    }
}

impl Error for EntryError {}

/// Reads a `managedFields` list without reading the sets in it. `null` is the
/// empty list, as on the API server.
pub fn parse_entries(managed_fields: Raw<'_>) -> Result<Vec<ManagedFieldsEntry<'_>>, EntryError> {
    let tree = Tree::new(managed_fields).map_err(EntryError::List)?;
    let entries = nodes(tree.root())?.into_iter().enumerate();
    entries.map(|(index, entry)| parse_entry(index, entry).map(|(entry, _)| entry)).collect()
}

/// The entries of a list, not read.
pub(super) fn nodes<'a, 't>(managed_fields: Node<'a, 't>) -> Result<Vec<Node<'a, 't>>, EntryError> {
    if managed_fields.raw.kind() == Kind::Null {
        return Ok(Vec::new());
    }
    let entries = managed_fields.items().map_err(EntryError::List)?;
    if entries.len() > MAX_ENTRIES { Err(EntryError::TooMany) } else { Ok(entries) }
}

/// Reads the entry that stands at `index`; its paths are found and not read.
pub(super) fn parse_entry<'a, 't>(
    index: usize,
    entry: Node<'a, 't>,
) -> Result<(ManagedFieldsEntry<'a>, Option<Node<'a, 't>>), EntryError> {
    ManagedFieldsEntry::read(entry).map_err(|source| EntryError::Entry { index, source })
}

/// A string that may be `null`.
fn text(value: Option<Raw<'_>>) -> Result<Option<Cow<'_, str>>, RawError> {
    value.filter(|value| value.kind() != Kind::Null).map(Raw::string).transpose()
}

#[cfg(test)]
mod tests;
