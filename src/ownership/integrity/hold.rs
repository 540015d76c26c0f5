//! When a manager holds a path, and when holding it means something.

use super::{Check, has_tracked_metadata};
use crate::ownership::element::Element;
use crate::ownership::entry::Operation;
use crate::ownership::path::Path;
use crate::ownership::raw::{Kind, Node};
use crate::ownership::schema::{ListShape, MapNode, Step};
use crate::ownership::set::PathSet;
use crate::ownership::tracking::Movement;
use crate::ownership::value;

impl Check<'_, '_, '_> {
    /// A map or list of which everybody holds a part: held by itself it means nothing.
    pub(super) fn is_granular_container(&self, path: &[Element]) -> bool {
        let schema = &self.scope.target.schema;
        let value = value::at(self.new, path, schema.root()).ok().flatten();
        value.is_some_and(|value| {
            let kind = value.kind();
            matches!(kind, Kind::Object | Kind::Array)
                && !value.is_empty_container()
                && !self.is_atomic(path, kind)
        })
    }

    /// Whether nothing stands at a path. An apply of `/status` is recorded for what it sets elsewhere, though that
    /// is not stored: who loses such a hold loses nothing.
    pub(super) fn is_absent(&self, path: &[Element]) -> bool {
        matches!(value::at(self.new, path, self.scope.target.schema.root()), Ok(None))
    }

    /// Whether all that a new object shows are defaults and empty lists. An apply of nothing else is in no entry.
    pub(super) fn sets_nothing(&self) -> bool {
        let mut path = Path::root();
        self.new.members().is_ok_and(|members| {
            members.iter().all(|(name, value)| {
                let own = [Element::field("apiVersion"), Element::field("kind"), Element::field("metadata")];
                let field = Element::field(name);
                own.contains(&field) || self.is_set_by_nobody(*value, field, &mut path)
            })
        }) && !has_tracked_metadata(self.new)
    }

    fn is_set_by_nobody(&self, value: Node<'_, '_>, at: Element, path: &mut Path) -> bool {
        path.push(at);
        let schema = &self.scope.target.schema;
        let nothing = match value.raw.kind() {
            _ if schema.is_default(path.elements(), value.raw).unwrap_or(false) => true,
            Kind::Array => value.raw.is_empty_container() && !self.is_atomic(path.elements(), Kind::Array),
            Kind::Object if !value.raw.is_empty_container() => value.members().is_ok_and(|members| {
                members
                    .iter()
                    .all(|(name, member)| self.is_set_by_nobody(*member, Element::field(name), path))
            }),
            _ => false,
        };
        path.pop();
        nothing
    }

    /// Whether the server takes a list or a map at this path as one value.
    pub(super) fn is_atomic(&self, path: &[Element], kind: Kind) -> bool {
        let found = self.scope.target.schema.lookup(path.iter().map(Step::Element));
        let atomic = match kind {
            Kind::Array => found.node.list().is_none_or(|list| *list.shape() == ListShape::Atomic),
            _ => found.node.map().is_none_or(MapNode::is_atomic),
        };
        found.problem.is_none() && (found.atomic_at.is_some() || atomic)
    }

    /// Whether a set holds the path through an atomic node above it. A container above it that is
    /// merely granular gives no hold on what is inside.
    pub(super) fn held_from_above(&self, set: &PathSet, path: &[Element]) -> bool {
        let held = |(length, next): (usize, &Element)| {
            let kind = if matches!(next, Element::Field(_)) { Kind::Object } else { Kind::Array };
            let above = path.get(..length).unwrap_or_default();
            set.contains(above) && self.is_atomic(above, kind)
        };
        set.covers_ancestor(path) && path.iter().enumerate().skip(1).any(held)
    }

    /// Whether the request may have given up a path of its own entry. Only an apply does so, and the
    /// value then stays only because another entry holds it or because it is the default: a borrowed
    /// name is no leave to strip its entry.
    pub(super) fn let_go(&self, movement: &Movement<'_>, path: &[Element]) -> bool {
        let held_still = || {
            let mut sets = self.scope.tracking.after().filter_map(|entry| entry.set().ok());
            sets.any(|set| set.contains(path) || set.has_below(path) || self.held_from_above(set, path))
        };
        let is_default = || {
            let schema = &self.scope.target.schema;
            let value = value::at(self.new, path, schema.root()).ok().flatten();
            value.is_some_and(|value| schema.is_default(path, value).unwrap_or(false))
        };
        movement.operation == Operation::Apply && (held_still() || is_default())
    }
}
