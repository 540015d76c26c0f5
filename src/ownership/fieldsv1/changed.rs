//! Reading two `FieldsV1` only where they differ.
//!
//! In: the JSON of two sets. Out: the parts of both that a difference of the two can come from. A set
//! of hundreds of paths mostly gains or loses a few, and what is the same text on both sides is not
//! read. This module must give exactly the differences that reading both sets gives.

use std::borrow::Cow;

use super::super::element::Element;
use super::super::raw::{Kind, Node, Raw, Tree, zip};
use super::super::set::{MAX_DEPTH, PathSet};
use super::{FieldsV1Error, Reading};

/// Reads the parts of two `FieldsV1` in which they can differ.
///
/// What the one result has and the other has not is what the one set has and the other has not.
/// The results are not the sets: what both have is mostly left out.
pub fn parse_changed(old: Raw<'_>, new: Raw<'_>) -> Result<(PathSet, PathSet), FieldsV1Error> {
    if old.text() == new.text() {
        return Ok((PathSet::new(), PathSet::new()));
    }
    let tree = |raw| Tree::new(raw).map_err(|error| FieldsV1Error::Syntax(error.to_string()));
    let (old, new) = (tree(old)?, tree(new)?);
    parse_changed_nodes(old.root(), new.root())
}

/// The same for two that stand in objects whose trees are there already.
pub(in crate::ownership) fn parse_changed_nodes(
    old: Node<'_, '_>,
    new: Node<'_, '_>,
) -> Result<(PathSet, PathSet), FieldsV1Error> {
    if old.raw.text() == new.raw.text() {
        return Ok((PathSet::new(), PathSet::new()));
    }
    Reading::default().changed(old, new, 0)
}

/// A key of a node with what it has below it on both sides.
type Child<'a, 't> = (Cow<'a, str>, Option<Node<'a, 't>>, Option<Node<'a, 't>>);

impl Reading {
    /// Reads a node of each side that is so many steps below the root. Recursion ends at [`MAX_DEPTH`].
    fn changed(
        &mut self,
        old: Node<'_, '_>,
        new: Node<'_, '_>,
        depth: usize,
    ) -> Result<(PathSet, PathSet), FieldsV1Error> {
        let Some(fields) = changed_fields(old, new, depth) else {
            return Ok((self.node(old.raw.text(), depth)?, self.node(new.raw.text(), depth)?));
        };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (name, old, new) in fields {
            let (left, right) = match (old, new) {
                (Some(old), Some(new)) => self.changed(old, new, depth + 1)?,
                (old, new) => (self.side(old, depth + 1)?, self.side(new, depth + 1)?),
            };
            let element = Element::field(name.get(2..).unwrap_or_default());
            before.push((element.clone(), left));
            after.push((element, right));
        }
        Ok((PathSet::from_children(false, before), PathSet::from_children(false, after)))
    }

    fn side(&mut self, node: Option<Node<'_, '_>>, depth: usize) -> Result<PathSet, FieldsV1Error> {
        node.map_or(Ok(PathSet::new()), |node| self.node(node.raw.text(), depth))
    }
}

/// The children that differ, if only fields do: a list key can be written in several ways, and
/// whether a node is a member depends on what else is in it.
fn changed_fields<'a, 't>(old: Node<'a, 't>, new: Node<'a, 't>, depth: usize) -> Option<Vec<Child<'a, 't>>> {
    if (old.raw.kind(), new.raw.kind()) != (Kind::Object, Kind::Object) || depth + 1 >= MAX_DEPTH {
        return None;
    }
    // Who writes a name twice gets the meaning that the whole node has.
    let (old, new) = (old.members().ok()?, new.members().ok()?);
    let is_field = |name: &str| name.starts_with("f:");
    let mut both_have_fields = depth == 0;
    let mut changed = Vec::new();
    for (name, old, new) in zip(old, new) {
        if let (Some(old), Some(new)) = (old, new) {
            both_have_fields |= is_field(&name);
            if old.raw.text() == new.raw.text() {
                continue;
            }
        }
        if !is_field(&name) {
            return None;
        }
        changed.push((name, old, new));
    }
    both_have_fields.then_some(changed)
}
