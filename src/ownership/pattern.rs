//! The paths that policies name: their text form, and which nodes they cover.
//!
//! In: text such as `.spec.taints[effect="NoSchedule",key="x"].value`. Out: a
//! [`Pattern`] that is matched against paths, compared by specificity and printed
//! as the same text. A pattern covers the node it names and all below. This module
//! knows no schema: it never completes a list key and never says that a field does
//! not exist.
//!
//! | text | covers |
//! | --- | --- |
//! | `.name` | a field or map key with a plain name |
//! | `["a.b/c"]` | a field or map key with any name |
//! | `[name="x",port=80]` | items of a keyed list whose keys have these fields |
//! | `[="x"]` | an item of a set |
//! | `[*]` | any item, any field or map key |
//!
//! The text form of every path without list indexes is a pattern, so that what is
//! printed in a message can be written in a policy.

mod parse;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::element::{Element, KeyFields, Scalar, write_field, write_key};
use super::path::Path;
use super::set::MAX_DEPTH;

pub use parse::PatternError;

/// The longest text of a pattern, in bytes. Longer than any field of a real kind.
pub const MAX_LENGTH: usize = 1024;

/// The most steps of a pattern. The deepest fields of the built-in kinds have
/// less than twenty.
pub const MAX_STEPS: usize = 64;

// Sets merge paths below MAX_DEPTH; a pattern must not reach there.
const _: () = assert!(MAX_STEPS < MAX_DEPTH);

/// One step of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The field or map key of this name.
    Field(Arc<str>),
    /// The items of a keyed list whose key has these fields, sorted by name. Without
    /// a schema nobody can say whether they are the whole key.
    Key(KeyFields),
    /// The item of a set.
    Value(Scalar),
    /// Any item, field or map key.
    Any,
}

impl Step {
    /// Whether the step leads to an element.
    #[must_use]
    pub fn matches(&self, element: &Element) -> bool {
        match (self, element) {
            (Self::Any, _) => true,
            (Self::Field(name), Element::Field(other)) => name == other,
            (Self::Value(scalar), Element::Value(other)) => scalar == other,
            (Self::Key(fields), Element::Key(item)) => fields.iter().all(|field| item.contains(field)),
            _ => false,
        }
    }

    /// How much a step pins down: nothing, some fields of a key, one element.
    fn precision(&self) -> usize {
        match self {
            Self::Any => 0,
            Self::Key(fields) => fields.len(),
            Self::Field(_) | Self::Value(_) => usize::MAX,
        }
    }

    /// The element of the same form; `None` for `[*]`.
    fn element(&self) -> Option<Element> {
        match self {
            Self::Field(name) => Some(Element::Field(Arc::clone(name))),
            Self::Key(fields) => Some(Element::Key(Arc::clone(fields))),
            Self::Value(scalar) => Some(Element::Value(scalar.clone())),
            Self::Any => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write_field(f, name),
            Self::Key(fields) => write_key(f, fields),
            Self::Value(scalar) => write!(f, "[={scalar}]"),
            Self::Any => f.write_str("[*]"),
        }
    }
}

/// A path as policies write it. Has at least one step.
///
/// Equal patterns are the same path of a policy, however they were written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    steps: Vec<Step>,
}

impl Pattern {
    /// Reads the text form.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        parse::pattern(text)
    }

    /// A pattern of given steps, for who completes or rewrites one. `None` if there
    /// are no steps, more than [`MAX_STEPS`], a key without fields or with one twice.
    #[must_use]
    pub fn from_steps(mut steps: Vec<Step>) -> Option<Self> {
        for step in &mut steps {
            if let Step::Key(fields) = step {
                let mut sorted = fields.to_vec();
                sorted.sort_by(|a, b| a.0.cmp(&b.0));
                if sorted.is_empty() || !sorted.is_sorted_by(|a, b| a.0 < b.0) {
                    return None;
                }
                *fields = Arc::from(sorted);
            }
        }
        (1..=MAX_STEPS).contains(&steps.len()).then_some(Self { steps })
    }

    /// The steps from the root on.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether the pattern names the node at a path or one above it.
    #[must_use]
    pub fn covers(&self, path: &[Element]) -> bool {
        self.steps.len() <= path.len() && self.agrees(path)
    }

    /// Whether the pattern names exactly the node at a path.
    #[must_use]
    pub fn ends_at(&self, path: &[Element]) -> bool {
        self.steps.len() == path.len() && self.agrees(path)
    }

    /// Whether the pattern names, or may name, a node properly below a path.
    #[must_use]
    pub fn reaches_below(&self, path: &[Element]) -> bool {
        self.steps.len() > path.len() && self.agrees(path)
    }

    /// Whether pattern and path agree as far as both go.
    fn agrees(&self, path: &[Element]) -> bool {
        self.steps.iter().zip(path).all(|(step, element)| step.matches(element))
    }

    /// Orders patterns so that the most specific comes first: the longer before the
    /// shorter; of equal length, at the first step where they differ in this, one
    /// element before part of a list key before `[*]`.
    ///
    /// Different patterns may be equally specific; two that are and cover the same
    /// path are the same, except for keys that name different fields of one item.
    #[must_use]
    pub fn cmp_specificity(&self, other: &Self) -> Ordering {
        other.steps.len().cmp(&self.steps.len()).then_with(|| other.precisions().cmp(self.precisions()))
    }

    fn precisions(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().map(Step::precision)
    }

    /// The path that the pattern names, if it has no `[*]`. An item then has the
    /// key fields that the pattern names, and perhaps more in an object.
    #[must_use]
    pub fn literal_path(&self) -> Option<Path> {
        self.steps.iter().map(Step::element).collect()
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

/// Prints the canonical text. It reads back as an equal pattern, unless escapes make
/// it longer than [`MAX_LENGTH`].
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| step.fmt(f))
    }
}

#[cfg(test)]
mod tests;
