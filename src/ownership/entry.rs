//! One entry of `metadata.managedFields`: who wrote, how, and which fields.
//!
//! In: the raw list as it stands in an object. Out: entries that borrow from it;
//! their `fieldsV1` stays raw until somebody asks for the set. This module never
//! judges an entry, and what it cannot read it keeps: an object may hold entries
//! from servers and clients of any age.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::fieldsv1::{self, FieldsV1Error, Text};
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
    pub fields: Option<&'a RawValue>,
    /// The whole entry as it stands in the object.
    pub raw: &'a str,
}

impl ManagedFieldsEntry<'_> {
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

    /// Reads the set of paths. Each call reads it anew.
    pub fn set(&self) -> Result<PathSet, FieldsV1Error> {
        self.fields.map_or(Err(FieldsV1Error::Missing), |fields| fieldsv1::parse(fields.get()))
    }
}

/// Why a `managedFields` could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// Not a list; the text says what was found.
    List(String),
    /// A member of the list is no entry.
    Entry {
        /// Its place in the list, from 0.
        index: usize,
        /// What was found.
        text: String,
    },
    /// More than [`MAX_ENTRIES`] entries.
    TooMany,
}

impl EntryError {
    fn at(index: usize, error: &serde_json::Error) -> Self {
        Self::Entry { index, text: error.to_string() }
    }
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(text) => write!(f, "managedFields is not valid: {text}"),
            Self::Entry { index, text } => write!(f, "managedFields[{index}] is not valid: {text}"),
            Self::TooMany => write!(f, "managedFields has more than {MAX_ENTRIES} entries"),
        }
    }
}

impl Error for EntryError {}

/// Reads a `managedFields` list without reading the sets in it. `null` is the
/// empty list, as on the API server.
pub fn parse_entries(managed_fields_raw: &RawValue) -> Result<Vec<ManagedFieldsEntry<'_>>, EntryError> {
    let mut deserializer = serde_json::Deserializer::from_str(managed_fields_raw.get());
    let entries = deserializer.deserialize_any(List).map_err(|error| EntryError::List(error.to_string()))?;
    if entries.len() > MAX_ENTRIES {
        return Err(EntryError::TooMany);
    }
    let entries = entries.into_iter().enumerate();
    entries.map(|(index, raw)| parse_entry(raw).map_err(|error| EntryError::at(index, &error))).collect()
}

fn parse_entry(raw: &RawValue) -> serde_json::Result<ManagedFieldsEntry<'_>> {
    serde_json::Deserializer::from_str(raw.get()).deserialize_map(Entry { raw: raw.get() })
}

/// The list. Stops after one entry too many.
struct List;

impl<'de> Visitor<'de> for List {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element()? {
            if entries.len() <= MAX_ENTRIES {
                entries.push(entry);
            }
        }
        Ok(entries)
    }
}

/// One entry that is about to be read.
struct Entry<'a> {
    raw: &'a str,
}

impl<'de> Visitor<'de> for Entry<'de> {
    type Value = ManagedFieldsEntry<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry of managedFields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entry = ManagedFieldsEntry {
            manager: Cow::Borrowed(""),
            operation: Operation::Other,
            api_version: Cow::Borrowed(""),
            subresource: Cow::Borrowed(""),
            time: None,
            fields: None,
            raw: self.raw,
        };
        let mut known = false;
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "manager" => entry.manager = text(&mut map)?.unwrap_or_default(),
                "operation" => {
                    entry.operation = match text(&mut map)?.as_deref() {
                        Some("Apply") => Operation::Apply,
                        Some("Update") => Operation::Update,
                        _ => Operation::Other,
                    }
                }
                "apiVersion" => entry.api_version = text(&mut map)?.unwrap_or_default(),
                "subresource" => entry.subresource = text(&mut map)?.unwrap_or_default(),
                "time" => entry.time = text(&mut map)?,
                "fieldsType" => known = text(&mut map)?.as_deref() == Some(FIELDS_TYPE),
                "fieldsV1" => entry.fields = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if !known {
            entry.fields = None;
        }
        Ok(entry)
    }
}

/// A string that may be `null`.
fn text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<Cow<'de, str>>, A::Error> {
    Ok(map.next_value::<Option<Text<'de>>>()?.map(|Text(text)| text))
}

#[cfg(test)]
mod tests;
