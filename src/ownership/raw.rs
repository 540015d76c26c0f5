//! Borrowed reading of JSON, one level at a time.
//!
//! In: a text that was checked once, by `serde_json` or as [`Unchecked`]. Out: the kind of a value, the
//! members of an object, the items of an array, as slices of that same text.
//! Nothing below the asked level is looked at, so reading along one changed path
//! costs little more than skipping over the rest. Whoever descends many levels takes
//! a `Tree`, which skips in constant time, so that depth costs nothing extra.
//!
//! A name that occurs twice in an object is an error: readers disagree about which
//! of the two counts, and an enforcement point must not pick one. This module must
//! not build trees or compare values (`value` does).

mod checked;
mod scan;
mod tree;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde_json::value::RawValue;
use thiserror::Error;

pub use checked::{Misplaced, Unchecked};
pub(super) use tree::{Node, Tree};

/// Why a text cannot be read as the JSON that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RawError {
    /// The text is not JSON.
    #[error("not valid JSON")]
    Syntax,
    /// An object has a name twice.
    #[error("the name {0:?} occurs twice in one object")]
    DuplicateName(String),
    /// A string has no valid Unicode value, for instance half of a surrogate pair.
    #[error("a string is not valid Unicode")]
    Unicode,
    /// The value is of another kind than the caller can use.
    #[error("expected {expected}, found {found}")]
    Kind {
        /// What was asked for.
        expected: Kind,
        /// What stands there.
        found: Kind,
    },
    /// The value is nested deeper than this program goes.
    #[error("nested deeper than {0} levels")]
    Depth(usize),
}

/// The kinds of JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// An object.
    Object,
    /// An array.
    Array,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Object => "an object",
            Self::Array => "an array",
        })
    }
}

/// A JSON value as it stands in its document.
///
/// Two of them are not `==`: whether `1` and `1.0` are the same is the business of
/// [`equal`](super::value::equal).
#[derive(Clone, Copy)]
pub struct Raw<'a>(&'a str);

/// A member of an object: its decoded name and its value.
pub type Member<'a> = (Cow<'a, str>, Raw<'a>);

impl<'a> From<&'a RawValue> for Raw<'a> {
    fn from(value: &'a RawValue) -> Self {
        Self(value.get().trim_matches(JSON_SPACE))
    }
}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Raw<'static> {
    /// The number zero.
    pub const ZERO: Self = Self("0");
}

/// Members or items that most containers have at most: room for them is made at once.
const USUAL_MEMBERS: usize = 8;

const JSON_SPACE: [char; 4] = [' ', '\n', '\r', '\t'];

impl<'a> Raw<'a> {
    /// Checks a text and takes it as one value.
    pub fn parse(text: &'a str) -> Result<Self, RawError> {
        let unchecked = Unchecked(text);
        let read =
            unchecked.value(unchecked.start()).and_then(|(raw, end)| unchecked.finish(end).map(|()| raw));
        read.map_err(|_| RawError::Syntax)
    }

    /// The text of the value, without surrounding white space.
    #[must_use]
    pub fn text(self) -> &'a str {
        self.0
    }

    /// The kind of the value, from its first byte.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self.0.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// Whether this is an object without members or an array without items.
    #[must_use]
    pub fn is_empty_container(self) -> bool {
        let bytes = self.0.as_bytes();
        match (bytes.first(), bytes.last()) {
            (Some(b'{' | b'['), Some(_)) => scan::space_end(bytes, 1) + 1 == bytes.len(),
            _ => false,
        }
    }

    /// The members of an object, sorted by name.
    pub fn members(self) -> Result<Vec<Member<'a>>, RawError> {
        sorted_members(self, |at| self.value_at(at))
    }

    /// The value of one member of an object; `None` if it has no such member.
    pub fn get(self, name: &str) -> Result<Option<Raw<'a>>, RawError> {
        let [found] = self.named([name])?;
        Ok(found)
    }

    /// The values of some members of an object, in the order of `names`.
    pub fn named<const N: usize>(self, names: [&str; N]) -> Result<[Option<Self>; N], RawError> {
        let mut found = [None; N];
        named_members(self, |at| self.value_at(at), &names, &mut found)?;
        Ok(found)
    }

    /// The items of an array, in order.
    pub fn items(self) -> Result<Vec<Raw<'a>>, RawError> {
        list_items(self, |at| self.value_at(at))
    }

    /// The decoded value of a string.
    pub fn string(self) -> Result<Cow<'a, str>, RawError> {
        self.expect(Kind::String)?;
        decode(self.0)
    }

    /// The value that begins at byte `at`, and where it ends.
    fn value_at(self, at: usize) -> Result<(Raw<'a>, usize), RawError> {
        let end = scan::value_end(self.0.as_bytes(), at).ok_or(RawError::Syntax)?;
        Ok((self.slice(at, end)?, end))
    }

    /// The name of the member that begins at byte `at`, and where its value begins.
    fn name_at(self, at: usize) -> Result<(Cow<'a, str>, usize), RawError> {
        let bytes = self.0.as_bytes();
        if bytes.get(at) != Some(&b'"') {
            self.value_at(at)?.0.expect(Kind::String)?;
        }
        let (end, escapes) = scan::string_end(bytes, at + 1).ok_or(RawError::Syntax)?;
        let quoted = self.slice(at, end)?.0;
        let name = if escapes { decode(quoted)? } else { Cow::Borrowed(inside(quoted)?) };
        let colon = scan::space_end(bytes, end);
        if bytes.get(colon) == Some(&b':') {
            Ok((name, scan::space_end(bytes, colon + 1)))
        } else {
            Err(RawError::Syntax)
        }
    }

    fn slice(self, from: usize, to: usize) -> Result<Raw<'a>, RawError> {
        self.0.get(from..to).filter(|text| !text.is_empty()).map(Raw).ok_or(RawError::Syntax)
    }

    fn expect(self, expected: Kind) -> Result<(), RawError> {
        let found = self.kind();
        if found == expected { Ok(()) } else { Err(RawError::Kind { expected, found }) }
    }
}

/// The members of an object, sorted by name. `value_at` reads the value at a position.
fn sorted_members<'a, V>(
    object: Raw<'a>,
    value_at: impl FnMut(usize) -> Result<(V, usize), RawError>,
) -> Result<Vec<(Cow<'a, str>, V)>, RawError> {
    let mut members = Vec::new();
    let mut sorted = true;
    each_member(object, value_at, |name, value| {
        sorted = sorted && members.last().is_none_or(|(last, _): &(Cow<'a, str>, V)| *last < name);
        if members.is_empty() {
            members.reserve(USUAL_MEMBERS);
        }
        members.push((name, value));
        Ok(())
    })?;
    // The API server writes custom resources sorted; only struct-typed kinds come otherwise.
    if !sorted {
        members.sort_by(|a, b| a.0.cmp(&b.0));
        let twice = members.iter().zip(members.iter().skip(1)).find(|(a, b)| a.0 == b.0);
        if let Some(((name, _), _)) = twice {
            return Err(RawError::DuplicateName(name.clone().into_owned()));
        }
    }
    Ok(members)
}

/// The values of some members of an object, into the places of `names`. `value_at` reads the value at a position.
///
/// Slices, not arrays: one piece of code serves every number of names.
fn named_members<V>(
    object: Raw<'_>,
    value_at: impl FnMut(usize) -> Result<(V, usize), RawError>,
    names: &[&str],
    found: &mut [Option<V>],
) -> Result<(), RawError> {
    // Mostly both are sorted: the next one wanted is the next one found.
    let mut next = 0;
    each_member(object, value_at, |name, value| {
        let places = (next..names.len()).chain(0..next);
        let Some(place) =
            places.into_iter().find(|place| names.get(*place).is_some_and(|wanted| **wanted == name))
        else {
            return Ok(());
        };
        next = place + 1;
        match found.get_mut(place) {
            Some(empty @ None) => *empty = Some(value),
            _ => return Err(RawError::DuplicateName(name.into_owned())),
        }
        Ok(())
    })
}

/// The members of two objects by name, both sorted.
pub(super) fn zip<'a, V>(
    old: Vec<(Cow<'a, str>, V)>,
    new: Vec<(Cow<'a, str>, V)>,
) -> impl Iterator<Item = (Cow<'a, str>, Option<V>, Option<V>)> {
    let mut old = old.into_iter().peekable();
    let mut new = new.into_iter().peekable();
    std::iter::from_fn(move || {
        // The smaller name is on one side only.
        let order = match (old.peek(), new.peek()) {
            (Some((a, _)), Some((b, _))) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let before = if order.is_le() { old.next() } else { None };
        let after = if order.is_ge() { new.next() } else { None };
        match (before, after) {
            (Some((name, old)), new) => Some((name, Some(old), new.map(|(_, new)| new))),
            (None, Some((name, new))) => Some((name, None, Some(new))),
            (None, None) => None,
        }
    })
}

/// Calls `visit` with the name and the value of each member, in order.
fn each_member<'a, V>(
    object: Raw<'a>,
    mut value_at: impl FnMut(usize) -> Result<(V, usize), RawError>,
    mut visit: impl FnMut(Cow<'a, str>, V) -> Result<(), RawError>,
) -> Result<(), RawError> {
    object.expect(Kind::Object)?;
    let bytes = object.0.as_bytes();
    let mut at = scan::space_end(bytes, 1);
    if bytes.get(at) == Some(&b'}') {
        return Ok(());
    }
    loop {
        let (name, start) = object.name_at(at)?;
        let (value, end) = value_at(start)?;
        visit(name, value)?;
        let Some(next) = next_entry(bytes, end, b'}')? else { return Ok(()) };
        at = next;
    }
}

/// The items of an array, in order. `value_at` reads the value at a position.
fn list_items<V>(
    array: Raw<'_>,
    mut value_at: impl FnMut(usize) -> Result<(V, usize), RawError>,
) -> Result<Vec<V>, RawError> {
    array.expect(Kind::Array)?;
    let bytes = array.0.as_bytes();
    let mut items = Vec::new();
    let mut at = scan::space_end(bytes, 1);
    if bytes.get(at) == Some(&b']') {
        return Ok(items);
    }
    loop {
        let (item, end) = value_at(at)?;
        if items.is_empty() {
            items.reserve(USUAL_MEMBERS);
        }
        items.push(item);
        let Some(next) = next_entry(bytes, end, b']')? else { return Ok(items) };
        at = next;
    }
}

/// Where the next entry of a container begins, or `None` if `close` follows.
fn next_entry(bytes: &[u8], end: usize, close: u8) -> Result<Option<usize>, RawError> {
    let at = scan::space_end(bytes, end);
    match bytes.get(at) {
        Some(b',') => Ok(Some(scan::space_end(bytes, at + 1))),
        Some(byte) if *byte == close => Ok(None),
        _ => Err(RawError::Syntax),
    }
}

/// The value of a quoted string; borrowed unless it has escapes.
fn decode(quoted: &str) -> Result<Cow<'_, str>, RawError> {
    let inner = inside(quoted)?;
    if inner.as_bytes().contains(&b'\\') {
        return serde_json::from_str(quoted).map(Cow::Owned).map_err(|_| RawError::Unicode);
    }
    Ok(Cow::Borrowed(inner))
}

/// What is between the quotes.
fn inside(quoted: &str) -> Result<&str, RawError> {
    quoted.get(1..quoted.len().saturating_sub(1)).ok_or(RawError::Syntax)
}

#[cfg(test)]
pub(in crate::ownership) mod tests;
