//! `FieldsV1`, the form of a set of paths in `managedFields`: text to set and back.
//!
//! In: the JSON of `fieldsV1`. Out: a [`PathSet`], or an error that says what is
//! wrong. Reading follows structured-merge-diff: strict about JSON, tolerant about
//! what later versions may add. Writing gives byte for byte what it writes. This
//! module never judges what a set means, and never splits or unescapes names: the
//! text after `f:` is the key itself, whatever is in it.

mod changed;

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::element::{Element, KeyFields, Scalar};
use super::set::{MAX_DEPTH, PathSet};

pub use changed::parse_changed;
pub(super) use changed::parse_changed_nodes;

/// The most path elements that one `FieldsV1` may have.
///
/// Each takes some hundred bytes once it is read, many times its text. A stored
/// object stays far below: with etcd's limit of 1.5 MiB, and some 24 bytes for the
/// field and its element, it has at most 65,000.
pub const MAX_ELEMENTS: usize = 100_000;

/// How much of a bad element an error shows.
const SHOWN: usize = 80;

/// Why a `FieldsV1` could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldsV1Error {
    /// The entry has no `fieldsV1`, or another `fieldsType`.
    Missing,
    /// Not JSON, or not objects in objects; the text says where.
    Syntax(String),
    /// A key that is not a path element.
    Element {
        /// The key, shortened.
        key: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// More than [`MAX_ELEMENTS`] path elements.
    TooManyElements,
}

impl fmt::Display for FieldsV1Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the entry has no fieldsV1"),
            Self::Syntax(text) => write!(f, "fieldsV1 is not valid: {text}"),
            Self::Element { key, reason } => write!(f, "fieldsV1 has the key {key:?}: {reason}"),
            Self::TooManyElements => write!(f, "fieldsV1 has more than {MAX_ELEMENTS} path elements"),
        }
    }
}

impl Error for FieldsV1Error {}

/// Reads a `FieldsV1`.
///
/// As in structured-merge-diff, a node without children is a member, `null` is the
/// same as `{}`, and elements of unknown types are left out. So are keys and values
/// that are JSON but no scalars: no list of any schema has such items. Nodes deeper
/// than [`MAX_DEPTH`] are merged into their ancestor at that depth.
pub fn parse(raw: &str) -> Result<PathSet, FieldsV1Error> {
    Reading::default().node(raw, 0)
}

/// What is kept while one text is read.
#[derive(Default)]
struct Reading {
    elements: usize,
    /// The cause, where it is not the JSON: `serde` passes on only text.
    error: Option<FieldsV1Error>,
}

impl Reading {
    /// Reads a node that is so many steps below the root.
    fn node(&mut self, raw: &str, depth: usize) -> Result<PathSet, FieldsV1Error> {
        let mut deserializer = serde_json::Deserializer::from_str(raw);
        let read = Node { reading: self, depth }.deserialize(&mut deserializer);
        match (read.and_then(|set| deserializer.end().map(|()| set)), self.error.take()) {
            (Ok(set), _) => Ok(set),
            (Err(_), Some(error)) => Err(error),
            (Err(error), None) => Err(FieldsV1Error::Syntax(error.to_string())),
        }
    }

    fn count(&mut self) -> Result<(), FieldsV1Error> {
        self.elements += 1;
        if self.elements > MAX_ELEMENTS { Err(FieldsV1Error::TooManyElements) } else { Ok(()) }
    }

    fn fail<E: de::Error>(&mut self, error: FieldsV1Error) -> E {
        let text = E::custom(&error);
        self.error = Some(error);
        text
    }

    /// Reads a key; `None` if the element is to be left out.
    fn element<E: de::Error>(&mut self, key: &str) -> Result<Option<Element>, E> {
        self.count().map_err(|error| self.fail(error))?;
        parse_element(key).map_err(|reason| {
            let key = key.chars().take(SHOWN).collect();
            self.fail(FieldsV1Error::Element { key, reason })
        })
    }
}

/// A node that is about to be read. Its recursion ends at [`MAX_DEPTH`].
struct Node<'r> {
    reading: &'r mut Reading,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = PathSet;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<PathSet, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = PathSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of path elements")
    }

    fn visit_unit<E: de::Error>(self) -> Result<PathSet, E> {
        Ok(PathSet::from_children(self.depth > 0, []))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PathSet, A::Error> {
        let mut member = false;
        let mut children: Vec<(Element, PathSet)> = Vec::new();
        let mut ascending = true;
        while let Some(Text(key)) = map.next_key()? {
            if key == "." {
                member = true;
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let Some(element) = self.reading.element(&key)? else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let below = if self.depth + 1 < MAX_DEPTH {
                map.next_value_seed(Node { reading: &mut *self.reading, depth: self.depth + 1 })?
            } else {
                map.next_value::<IgnoredAny>()?;
                PathSet::from_children(true, [])
            };
            ascending = ascending && children.last().is_none_or(|(last, _)| *last < element);
            children.push((element, below));
        }
        if !ascending {
            merge_repeated(&mut children);
        }
        // The root is no path that could be owned.
        let member = self.depth > 0 && (member || children.is_empty());
        Ok(PathSet::from_children(member, children))
    }
}

/// Sorts the children of a node. Of an element that stands there twice the last
/// children count, as in structured-merge-diff.
fn merge_repeated(children: &mut Vec<(Element, PathSet)>) {
    children.sort_by(|(a, _), (b, _)| a.cmp(b));
    children.dedup_by(|(element, later), (kept, earlier)| {
        if element != kept {
            return false;
        }
        earlier.replace_below(later);
        true
    });
}

/// A string of the JSON, borrowed where it has no escapes. The `Cow` of `serde`
/// would be a copy always.
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

/// Reads one element: a type letter, a colon, and then text that may itself have
/// colons. `None` for what is to be left out.
fn parse_element(key: &str) -> Result<Option<Element>, &'static str> {
    let [letter, b':', ..] = key.as_bytes() else {
        return Err("a path element is one letter, a colon and its content");
    };
    let content = key.get(2..).unwrap_or_default();
    match letter {
        b'f' => Ok(Some(Element::field(content))),
        b'k' => parse_key(json(content, "a list key is a JSON object")?),
        b'v' => Ok(parse_scalar(json(content, "an item of a set is a JSON value")?)?.map(Element::Value)),
        b'i' => match content.parse::<i64>() {
            Ok(index) => Ok(u32::try_from(index).ok().map(Element::Index)),
            Err(_) => Err("a list index is a whole number"),
        },
        _ => Ok(None),
    }
}

/// The content of an element, which must be JSON.
fn json<'a>(content: &'a str, reason: &'static str) -> Result<&'a RawValue, &'static str> {
    serde_json::from_str(content).map_err(|_| reason)
}

/// Reads a scalar; `None` if it is a list or a map. What is left is no value at all, for instance
/// half of a surrogate pair: to leave that out would be to lose an item without a word.
fn parse_scalar(raw: &RawValue) -> Result<Option<Scalar>, &'static str> {
    match Scalar::parse(raw.get()) {
        None if !raw.get().starts_with(['[', '{']) => Err("a scalar has no valid value"),
        scalar => Ok(scalar),
    }
}

/// Reads the object of a list key; `None` if it is something else.
fn parse_key(raw: &RawValue) -> Result<Option<Element>, &'static str> {
    if !raw.get().starts_with('{') {
        return Ok(None);
    }
    let key = serde_json::Deserializer::from_str(raw.get()).deserialize_map(Key);
    key.map_err(|_| "a list key has no valid value")
}

/// The object of a list key. A name that stands there twice is kept twice, as in
/// structured-merge-diff.
struct Key;

impl<'de> Visitor<'de> for Key {
    type Value = Option<Element>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of scalars")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Element>, A::Error> {
        let mut fields = Vec::new();
        while let Some(Text(name)) = map.next_key()? {
            let scalar = parse_scalar(map.next_value::<&RawValue>()?).map_err(de::Error::custom)?;
            fields.push(scalar.map(|scalar| (Arc::from(name), scalar)));
        }
        Ok(fields.into_iter().collect::<Option<_>>().map(Element::key))
    }
}

/// Writes a set as structured-merge-diff does: elements in order, `.` first in a
/// member that has children, nothing for the root.
#[must_use]
pub fn write(set: &PathSet) -> String {
    let mut writer = Writer::default();
    writer.object(set, false);
    writer.out
}

/// An element as the key that it is in FieldsV1, for example `f:spec` or `v:"x"`.
#[must_use]
pub fn element_key(element: &Element) -> String {
    let mut key = String::new();
    write_element(&mut key, element);
    key
}

#[derive(Default)]
struct Writer {
    out: String,
    /// The element at hand before it is quoted, reused from one to the next.
    element: String,
}

impl Writer {
    /// Calls itself once per level of the set, which has at most [`MAX_DEPTH`].
    fn object(&mut self, set: &PathSet, shows_itself: bool) {
        self.out.push('{');
        let mut separator = "";
        if shows_itself && set.is_member() && set.has_below(&[]) {
            self.out.push_str("\".\":{}");
            separator = ",";
        }
        for (element, below) in set.children() {
            self.out.push_str(separator);
            separator = ",";
            self.element.clear();
            write_element(&mut self.element, element);
            write_string(&mut self.out, &self.element, false);
            self.out.push(':');
            self.object(below, true);
        }
        self.out.push('}');
    }
}

fn write_element(out: &mut String, element: &Element) {
    match element {
        Element::Field(name) => {
            out.push_str("f:");
            out.push_str(name);
        }
        Element::Key(fields) => write_key(out, fields),
        Element::Value(scalar) => {
            out.push_str("v:");
            write_scalar(out, scalar);
        }
        Element::Index(index) => append(out, format_args!("i:{index}")),
    }
}

fn write_key(out: &mut String, fields: &KeyFields) {
    out.push_str("k:{");
    for (position, (name, scalar)) in fields.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        write_string(out, name, false);
        out.push(':');
        write_scalar(out, scalar);
    }
    out.push('}');
}

fn write_scalar(out: &mut String, scalar: &Scalar) {
    match scalar {
        Scalar::String(text) => write_string(out, text, true),
        other => append(out, format_args!("{other}")),
    }
}

/// Writes a JSON string with the escapes of Go's encoder. Inside elements it
/// escapes what could matter in a web page too; around them it does not.
fn write_string(out: &mut String, text: &str, for_html: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if for_html => {
                append(out, format_args!("\\u{:04x}", u32::from(c)));
            }
            '\0'..'\u{20}' => append(out, format_args!("\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// Formats into a string, which cannot fail.
fn append(out: &mut String, text: fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests;
