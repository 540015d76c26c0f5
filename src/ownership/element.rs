//! One step of a path: a field or map key, an item of a keyed list, an item of
//! a set, or a list index.
//!
//! The four forms are those of `FieldsV1` (`f:`, `k:`, `v:`, `i:`). Elements are
//! totally ordered, so that sets of paths have one order and one spelling. This
//! module knows nothing of policies or schemas.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A scalar as it stands in a list key (`k:`) or in a set (`v:`).
///
/// Numbers compare by value: `1` and `1.0` are one scalar, as on the API server.
#[derive(Clone, Debug)]
pub enum Scalar {
    /// JSON `null`.
    Null,
    /// JSON `true` or `false`.
    Bool(bool),
    /// A JSON number, kept as its text is so that no digit is lost.
    Number(serde_json::Number),
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
