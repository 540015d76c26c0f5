//! Asking a schema about a path.
//!
//! In: the steps of a path or of a pattern. Out: how far the schema knows it, what
//! is there, and what it passes on the way. Used by lint, by conditions and for
//! defaults on CREATE. It must not decide anything.

use std::sync::Arc;

use super::{ListKey, ListShape, Schema, SchemaNode};
use crate::ownership::element::Element;
use crate::ownership::raw::{Raw, RawError};
use crate::ownership::value;

/// One step of a pattern.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// Exactly this element. A key element may name only some of the keys.
    Element(&'a Element),
    /// Any item or member: `[*]`.
    Any,
}

/// What a schema knows of a path.
#[derive(Debug, Clone)]
pub struct Lookup<'s> {
    /// The node where the path ends, or the last one that exists.
    pub node: &'s SchemaNode,
    /// How many steps exist.
    pub reached: usize,
    /// Why the next step does not; `None` if the whole path exists.
    pub problem: Option<Problem>,
    /// The number of steps to the first atomic node that the path goes *below*.
    pub atomic_at: Option<usize>,
    /// The number of steps to the first untyped node that the path goes *below*: from
    /// there on the object alone shows what exists.
    pub untyped_at: Option<usize>,
    /// Steps whose list keys are only a part of the schema's, with the keys that lack.
    pub partial: Vec<(usize, Vec<Arc<str>>)>,
}

/// Why a step does not exist in a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The map has no such field and prunes unknown ones.
    UnknownField,
    /// A field of what is no map.
    NotAMap,
    /// An item of what is no list.
    NotAList,
    /// The items are told apart by other keys than the step names; these.
    WrongKeys(Arc<[ListKey]>),
    /// The items are told apart by value, and the step names keys.
    IsASet,
}

impl Schema {
    /// How far the schema knows a path.
    pub fn lookup<'a>(&self, steps: impl IntoIterator<Item = Step<'a>>) -> Lookup<'_> {
        let mut found = Lookup {
            node: self.root(),
            reached: 0,
            problem: None,
            atomic_at: None,
            untyped_at: None,
            partial: Vec::new(),
        };
        for step in steps {
            match found.go(step) {
                Ok(node) => found.node = node,
                Err(problem) => {
                    found.problem = Some(problem);
                    break;
                }
            }
            found.reached += 1;
        }
        found
    }

    /// Whether a value is what the schema puts at a path when nobody sets it.
    pub fn is_default(&self, path: &[Element], given: Raw<'_>) -> Result<bool, RawError> {
        for default in self.defaults_at(path)? {
            if value::equal(default, given)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the schema puts at a path when nobody sets it: the default of the field, and its part of the default of
    /// each field above that has one.
    pub fn defaults_at(&self, path: &[Element]) -> Result<Vec<Raw<'_>>, RawError> {
        let mut found = Vec::new();
        let mut node = self.root();
        for depth in 0..=path.len() {
            if let (Some(default), Some(rest)) = (node.default_value(), path.get(depth..)) {
                found.extend(value::find(default, rest, node)?);
            }
            let Some(child) = path.get(depth).and_then(|element| node.child(element)) else { break };
            node = child;
        }
        Ok(found)
    }
}

impl<'s> Lookup<'s> {
    fn go(&mut self, step: Step<'_>) -> Result<&'s SchemaNode, Problem> {
        if self.node.is_untyped() && self.untyped_at.is_none() {
            self.untyped_at = Some(self.reached);
        }
        let (map, list) = (self.node.map(), self.node.list());
        let by_name = matches!(step, Step::Element(Element::Field(_)));
        let by_item = matches!(step, Step::Element(_)) && !by_name;
        if let Some(map) = map.filter(|_| !by_item) {
            let child = match step {
                Step::Element(Element::Field(name)) => map.field(name),
                // `[*]` of a struct is any of its fields: what they have in common is not known.
                _ => Some(map.element().unwrap_or_else(|| SchemaNode::deduced())),
            };
            if map.is_atomic() {
                self.atomic_at.get_or_insert(self.reached);
            }
            return child.ok_or(Problem::UnknownField);
        }
        let Some(list) = list.filter(|_| !by_name) else {
            return Err(if by_item { Problem::NotAList } else { Problem::NotAMap });
        };
        match list.shape() {
            // Items of an atomic list exist for policies that name keys of their own.
            ListShape::Atomic => {
                self.atomic_at.get_or_insert(self.reached);
            }
            ListShape::Set if matches!(step, Step::Element(Element::Key(_))) => return Err(Problem::IsASet),
            ListShape::Set => {}
            ListShape::Keyed(keys) => self.check_keys(step, keys)?,
        }
        Ok(list.item())
    }

    fn check_keys(&mut self, step: Step<'_>, keys: &Arc<[ListKey]>) -> Result<(), Problem> {
        let Step::Element(element) = step else { return Ok(()) };
        let Element::Key(named) = element else { return Err(Problem::WrongKeys(keys.clone())) };
        let known = |name: &Arc<str>| keys.iter().any(|key| key.name == *name);
        if !named.iter().all(|(name, _)| known(name)) {
            return Err(Problem::WrongKeys(keys.clone()));
        }
        let lacking =
            |key: &&ListKey| key.default.is_none() && !named.iter().any(|(name, _)| *name == key.name);
        let lacking: Vec<_> = keys.iter().filter(lacking).map(|key| key.name.clone()).collect();
        if !lacking.is_empty() {
            self.partial.push((self.reached, lacking));
        }
        Ok(())
    }
}
