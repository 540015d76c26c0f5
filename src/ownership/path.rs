//! A path: the sequence of elements from the root of an object to a node.
//!
//! Printed as in apply conflicts: `.spec.taints[effect="NoSchedule",key="x"].value`.
//! Paths are always typed elements, never flattened text, so that a key with dots
//! cannot pass for two fields. Reading the text form is the work of `pattern`.

use super::element::Element;

/// A path from the root of an object. The empty path is the object itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<Element>);
