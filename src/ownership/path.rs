//! A path: the sequence of elements from the root of an object to a node.
//!
//! In: elements. Out: paths that compare, hash and print, as in apply conflicts:
//! `.spec.taints[effect="NoSchedule",key="x"].value`. Paths are always typed
//! elements, never flattened text, so that a key with dots cannot pass for two
//! fields. Reading the text form is the work of `pattern`.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use super::element::Element;

/// A path from the root of an object. The empty path is the object itself.
///
/// Paths are ordered element by element, a node before what lies below it. A
/// path derefs to a slice of its elements, which is what most functions take.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<Element>);

impl Path {
    /// The object itself.
    #[must_use]
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// The elements from the root on.
    #[must_use]
    pub fn elements(&self) -> &[Element] {
        &self.0
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether this is the object itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Goes one step down.
    pub fn push(&mut self, element: Element) {
        self.0.push(element);
    }

    /// Goes one step up and returns the element that was left.
    pub fn pop(&mut self) -> Option<Element> {
        self.0.pop()
    }

    /// The path one step below this one.
    #[must_use]
    pub fn join(&self, element: &Element) -> Self {
        let mut elements = Vec::with_capacity(self.0.len() + 1);
        elements.extend_from_slice(&self.0);
        elements.push(element.clone());
        Self(elements)
    }

    /// The path one step above; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0.split_last().map(|(_, above)| Self(above.to_vec()))
    }

    /// Whether this path is `prefix` or lies below it.
    #[must_use]
    pub fn starts_with(&self, prefix: &Self) -> bool {
        self.0.starts_with(&prefix.0)
    }
}

/// Prints the path; the root is `.`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DisplayPath(&self.0).fmt(f)
    }
}

/// Prints a slice of elements as a path, without making a [`Path`] of it.
#[derive(Clone, Copy, Debug)]
pub struct DisplayPath<'a>(pub &'a [Element]);

impl fmt::Display for DisplayPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(".");
        }
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

impl Deref for Path {
    type Target = [Element];

    fn deref(&self) -> &[Element] {
        &self.0
    }
}

impl AsRef<[Element]> for Path {
    fn as_ref(&self) -> &[Element] {
        &self.0
    }
}

/// Lets maps and sets of paths be asked with a slice of elements.
impl Borrow<[Element]> for Path {
    fn borrow(&self) -> &[Element] {
        &self.0
    }
}

impl From<Vec<Element>> for Path {
    fn from(elements: Vec<Element>) -> Self {
        Self(elements)
    }
}

impl From<&[Element]> for Path {
    fn from(elements: &[Element]) -> Self {
        Self(elements.to_vec())
    }
}

impl From<Path> for Vec<Element> {
    fn from(path: Path) -> Self {
        path.0
    }
}

impl FromIterator<Element> for Path {
    fn from_iter<I: IntoIterator<Item = Element>>(elements: I) -> Self {
        Self(elements.into_iter().collect())
    }
}

impl Extend<Element> for Path {
    fn extend<I: IntoIterator<Item = Element>>(&mut self, elements: I) {
        self.0.extend(elements);
    }
}

#[cfg(test)]
mod tests;
