//! Reading two `FieldsV1` only where they differ.
//!
//! In: the JSON of two sets. Out: the parts of both that a difference of the two can come from. A set
//! of hundreds of paths mostly gains or loses a few, and what is the same text on both sides is not
//! read. This module must give exactly the differences that reading both sets gives.

use super::super::element::Element;
use super::super::raw::{Compared, Kind, Raw, compare};
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
    Reading::default().changed(old, new, 0)
}

impl Reading {
    /// Reads a node of each side that is so many steps below the root. Recursion ends at [`MAX_DEPTH`].
    fn changed(
        &mut self,
        old: Raw<'_>,
        new: Raw<'_>,
        depth: usize,
    ) -> Result<(PathSet, PathSet), FieldsV1Error> {
        let Some(parts) = parts(old, new, depth) else {
            return Ok((self.node(old.text(), depth)?, self.node(new.text(), depth)?));
        };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (name, old, new) in parts.changed {
            self.count()?;
            let (left, right) = match (old, new) {
                (Some(old), Some(new)) => self.changed(old, new, depth + 1)?,
                (Some(old), None) => (self.node(old.text(), depth + 1)?, PathSet::new()),
                (None, new) => (PathSet::new(), self.node(new.map_or("", Raw::text), depth + 1)?),
            };
            let element = Element::field(name.get(2..).unwrap_or_default());
            before.push((element.clone(), left));
            after.push((element, right));
        }
        Ok((PathSet::from_children(false, before), PathSet::from_children(false, after)))
    }
}

/// The children of two nodes, if only fields differ: a list key can be written in several ways, and
/// whether a node is a member depends on what else is in it.
fn parts<'a>(old: Raw<'a>, new: Raw<'a>, depth: usize) -> Option<Compared<'a>> {
    if (old.kind(), new.kind()) != (Kind::Object, Kind::Object) || depth + 1 >= MAX_DEPTH {
        return None;
    }
    // Who writes a name twice gets the meaning that the whole node has.
    let parts = compare(Some(old), Some(new)).ok()?;
    let is_field = |name: &str| name.starts_with("f:");
    let both_have_fields = depth == 0
        || parts.same.iter().any(|name| is_field(name))
        || parts.changed.iter().any(|(_, old, new)| old.is_some() && new.is_some());
    (both_have_fields && parts.changed.iter().all(|(name, ..)| is_field(name))).then_some(parts)
}
