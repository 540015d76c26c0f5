//! One step of a path: a field or map key, an item of a keyed list, an item of
//! a set, or a list index; and the scalars that the latter are made of.
//!
//! In: parts of objects, of `managedFields` and of policies. Out: elements that
//! compare, hash and print. The four forms are those of `FieldsV1` (`f:`, `k:`,
//! `v:`, `i:`), and their order is that of structured-merge-diff, so that sets of
//! paths have one order and one spelling. This module knows nothing of policies
//! or schemas and never reads the text forms of paths (`pattern` does) or of
//! `FieldsV1` (`fieldsv1` does).

use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::{Number, Value};

/// A scalar as it stands in a list key (`k:`) or in a set (`v:`).
///
/// Numbers compare by value: `1` and `1.0` are one scalar, as on the API server.
/// Integers of up to 64 bits are compared exactly; anything beyond is the
/// nearest `f64`, which is also all that the API server keeps of it.
///
/// The order is that of structured-merge-diff: numbers, strings, booleans, null.
#[derive(Clone, Debug)]
pub enum Scalar {
    /// JSON `null`.
    Null,
    /// JSON `true` or `false`.
    Bool(bool),
    /// A JSON number.
    Number(Number),
    /// A JSON string.
    String(Arc<str>),
}

/// The fields that make up the key of a list item, sorted by name.
pub type KeyFields = Arc<[(Arc<str>, Scalar)]>;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// A struct field or a map key: `f:name`.
    Field(Arc<str>),
    /// An item of a keyed list: `k:{"key":"x"}`.
    Key(KeyFields),
    /// An item of a set: `v:"x"`.
    Value(Scalar),
    /// An item of a list by position: `i:0`. Read, never written.
    Index(u32),
}

impl Element {
    /// A field or map key.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self::Field(Arc::from(name))
    }

    /// An item of a keyed list; the fields are sorted by name here.
    #[must_use]
    pub fn key(mut fields: Vec<(Arc<str>, Scalar)>) -> Self {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(Arc::from(fields))
    }

    /// An item of a set.
    #[must_use]
    pub fn value(scalar: Scalar) -> Self {
        Self::Value(scalar)
    }
}

/// Prints the element as it stands in a path: `.name`, `["a.b/c"]`,
/// `[effect="NoSchedule",key="x"]`, `[="x"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write_field(f, name),
            Self::Key(fields) => write_key(f, fields),
            Self::Value(scalar) => write!(f, "[={scalar}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Whether a name may stand in a path without quotes: a letter or `_`, then
/// letters, digits, `_` and `-`.
///
/// Reading and printing share this, so that what is printed reads back as the same.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') && bytes.all(is_plain_byte)
}

/// Whether a byte may stand in a plain name after its first one.
pub(super) fn is_plain_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Prints a field: `.name` or `["a.b/c"]`.
pub(super) fn write_field(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    if is_plain_name(name) {
        return write!(f, ".{name}");
    }
    f.write_char('[')?;
    write_quoted(f, name)?;
    f.write_char(']')
}

/// Prints a list key: `[effect="NoSchedule",key="x"]`.
pub(super) fn write_key(f: &mut fmt::Formatter<'_>, fields: &[(Arc<str>, Scalar)]) -> fmt::Result {
    f.write_char('[')?;
    for (position, (name, scalar)) in fields.iter().enumerate() {
        if position > 0 {
            f.write_char(',')?;
        }
        if is_plain_name(name) {
            f.write_str(name)?;
        } else {
            write_quoted(f, name)?;
        }
        write!(f, "={scalar}")?;
    }
    f.write_char(']')
}

impl Scalar {
    /// A string.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self::String(Arc::from(text))
    }

    /// The scalar that a JSON value is; `None` for lists and maps.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::Null),
            Value::Bool(flag) => Some(Self::Bool(*flag)),
            Value::Number(number) => Some(Self::Number(number.clone())),
            Value::String(text) => Some(Self::string(text)),
            Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Reads the JSON text of one scalar; `None` for lists, maps and anything
    /// that is no JSON. White space around it is allowed.
    #[must_use]
    pub fn parse(raw: &str) -> Option<Self> {
        let text = raw.trim_matches([' ', '\t', '\n', '\r']);
        match text.as_bytes().first()? {
            b'"' => Self::parse_string(text),
            b'n' => (text == "null").then_some(Self::Null),
            b't' => (text == "true").then_some(Self::Bool(true)),
            b'f' => (text == "false").then_some(Self::Bool(false)),
            b'-' | b'0'..=b'9' => Self::parse_number(text),
            _ => None,
        }
    }

    /// Nearly all strings have no escapes: those are copied once, not twice.
    fn parse_string(text: &str) -> Option<Self> {
        let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        match inner {
            Some(inner) if inner.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\') => {
                Some(Self::string(inner))
            }
            _ => serde_json::from_str::<String>(text).ok().map(|text| Self::string(&text)),
        }
    }

    /// `serde_json` judges the syntax. Its fractions may be off in the last bit,
    /// those of the standard library (and of the API server) are not.
    fn parse_number(text: &str) -> Option<Self> {
        let number = serde_json::from_str::<Number>(text).ok()?;
        if number.is_i64() || number.is_u64() {
            return Some(Self::Number(number));
        }
        text.parse::<f64>().ok().and_then(Number::from_f64).map(Self::Number)
    }

    /// Where the kinds of scalars stand in the order.
    fn rank(&self) -> u8 {
        match self {
            Self::Number(_) => 0,
            Self::String(_) => 1,
            Self::Bool(_) => 2,
            Self::Null => 3,
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::String(a), Self::String(b)) => a.cmp(b),
            (Self::Number(a), Self::Number(b)) => Numeric::of(a).cmp(Numeric::of(b)),
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Self::Null => {}
            Self::Bool(flag) => flag.hash(state),
            Self::Number(number) => match Numeric::of(number) {
                Numeric::Integer(integer) => integer.hash(state),
                Numeric::Float(float) => float.to_bits().hash(state),
            },
            Self::String(text) => text.hash(state),
        }
    }
}

/// Prints JSON. Equal scalars print alike: `1.0` is printed as `1`.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(flag) => write!(f, "{flag}"),
            Self::Number(number) => Numeric::of(number).fmt(f),
            Self::String(text) => write_quoted(f, text),
        }
    }
}

/// A number by value: whole numbers of up to 64 bits are always `Integer`,
/// however they were written, so that each value has one form.
#[derive(Clone, Copy)]
enum Numeric {
    Integer(i128),
    Float(f64),
}

impl Numeric {
    /// The whole numbers that fit an `i64` or a `u64` lie in `-2^63 .. 2^64`;
    /// both borders are exact as `f64`.
    const LOWEST: f64 = -9_223_372_036_854_775_808.0;
    const ABOVE: f64 = 18_446_744_073_709_551_616.0;

    fn of(number: &Number) -> Self {
        if let Some(integer) = number.as_i64() {
            return Self::Integer(i128::from(integer));
        }
        if let Some(integer) = number.as_u64() {
            return Self::Integer(i128::from(integer));
        }
        // JSON has neither NaN nor infinity: the zero is never taken.
        let float = number.as_f64().unwrap_or_default();
        if (Self::LOWEST..Self::ABOVE).contains(&float) && float.trunc().total_cmp(&float).is_eq() {
            return Self::Integer(truncated(float));
        }
        Self::Float(float)
    }

    fn cmp(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(&b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(&b),
            (Self::Integer(a), Self::Float(b)) => Self::cmp_mixed(a, b),
            (Self::Float(a), Self::Integer(b)) => Self::cmp_mixed(b, a).reverse(),
        }
    }

    /// Exact: the whole number is never turned into an `f64`. The float here is
    /// no whole number of up to 64 bits, so the two are never equal.
    fn cmp_mixed(integer: i128, float: f64) -> Ordering {
        if float >= Self::ABOVE {
            return Ordering::Less;
        }
        if float < Self::LOWEST {
            return Ordering::Greater;
        }
        let below_or_above = if float.is_sign_negative() { Ordering::Greater } else { Ordering::Less };
        integer.cmp(&truncated(float)).then(below_or_above)
    }
}

/// Prints as Go's JSON does (structured-merge-diff writes `FieldsV1` with it):
/// plain decimals from 1e-6 up to 1e21, an exponent of two digits outside.
impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let float = match *self {
            Self::Integer(integer) => return write!(f, "{integer}"),
            Self::Float(float) => float,
        };
        if (1e-6..1e21).contains(&float.abs()) {
            return write!(f, "{float}");
        }
        let text = format!("{float:e}");
        match text.split_once('e') {
            Some((digits, exponent)) => match exponent.strip_prefix('-') {
                Some(exponent) => write!(f, "{digits}e-{exponent:0>2}"),
                None => write!(f, "{digits}e+{exponent:0>2}"),
            },
            None => f.write_str(&text),
        }
    }
}

/// The whole part of a float.
#[expect(
    clippy::cast_possible_truncation,
    reason = "dropping the fraction is the purpose; callers check the range"
)]
fn truncated(float: f64) -> i128 {
    float as i128
}

/// Prints a JSON string that is safe to show: besides what JSON demands, it
/// escapes control characters and those that reorder or hide text, because names
/// chosen by an attacker end up in terminals and logs.
pub(super) fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    let mut written = 0;
    for (position, c) in text.char_indices() {
        if c != '"' && c != '\\' && !hides_text(c) {
            continue;
        }
        f.write_str(text.get(written..position).unwrap_or_default())?;
        written = position + c.len_utf8();
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            _ => write!(f, "\\u{:04x}", u32::from(c))?,
        }
    }
    f.write_str(text.get(written..).unwrap_or_default())?;
    f.write_char('"')
}

/// Control characters, line separators, bidirectional controls and invisible
/// characters. All lie below U+10000, so that one `\u` escape is enough.
fn hides_text(c: char) -> bool {
    let hidden =
        matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    hidden || c.is_control() || matches!(c, '\u{2028}'..='\u{202e}')
}

#[cfg(test)]
mod tests;
