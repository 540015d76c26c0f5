//! Lists whose items are told apart: keyed lists and sets.
//!
//! In: two lists and the shape. Out: changes, in the walker. Order is free;
//! items that have the same key are taken as one group, as structured-merge-diff
//! does since Kubernetes 1.29.

use std::cmp::Ordering;

use super::super::element::Scalar;
use super::super::raw::{Kind, Node, RawError};
use super::super::schema::{ListKey, ListNode, SchemaNode};
use super::super::value;
use super::walk::{Treated, Walker, is_empty, of_kind, raws};
use super::{ChangeKind, DiffError, Element, ListShape, NodeKind, Pair};

/// An item with the element that names it.
type Named<'a, 't> = (Element, Node<'a, 't>);

impl<'a> Walker<'a, '_, '_> {
    /// Compares two lists at the current path.
    pub(super) fn list(&mut self, (old, new): Pair<'a, '_>, list: &ListNode) -> Result<Treated, DiffError> {
        let (old, new) = (of_kind(old, Kind::Array), of_kind(new, Kind::Array));
        let shape = self.shape_of(list);
        if shape == ListShape::Atomic {
            return Ok(Treated::Whole(NodeKind::Atomic));
        }
        if is_empty(old) && is_empty(new) {
            return Ok(Treated::Leaf);
        }
        // The list of a schema must have nameable items; in one that is only split
        // for our own claims, the others are put aside.
        let strict = *list.shape() != ListShape::Atomic;
        let (old_items, old_rest) = self.named(old, &shape, strict)?;
        let (new_items, new_rest) = self.named(new, &shape, strict)?;
        if !strict {
            self.rest((old, new), (&old_items, &new_items), (&old_rest, &new_rest))?;
        }
        self.groups(old_items, new_items, list.item())?;
        Ok(Treated::Parts)
    }

    /// The shape of a list at the current path; claims count where the schema has none.
    pub(super) fn shape_of(&self, list: &ListNode) -> ListShape {
        match list.shape() {
            ListShape::Atomic => self.claimed_shape().unwrap_or(ListShape::Atomic),
            shape => shape.clone(),
        }
    }

    /// The items with their names, and those that have none.
    fn named<'t>(
        &self,
        list: Option<Node<'a, 't>>,
        shape: &ListShape,
        strict: bool,
    ) -> Result<(Vec<Named<'a, 't>>, Vec<Node<'a, 't>>), DiffError> {
        let Some(list) = list else { return Ok((Vec::new(), Vec::new())) };
        let items = list.items().map_err(|error| self.json(error))?;
        let mut named = Vec::with_capacity(items.len());
        let mut rest = Vec::new();
        for item in items {
            match name_of(item, shape).map_err(|error| self.json(error))? {
                Ok(element) => named.push((element, item)),
                Err(what) if strict => return Err(DiffError::Item { at: self.path.to_string(), what }),
                Err(_) => rest.push(item),
            }
        }
        Ok((named, rest))
    }

    /// Compares item by item. Items of one name are neighbours after sorting.
    fn groups<'t>(
        &mut self,
        mut old: Vec<Named<'a, 't>>,
        mut new: Vec<Named<'a, 't>>,
        node: &SchemaNode,
    ) -> Result<(), DiffError> {
        // Stable: duplicates keep their order.
        old.sort_by(|a, b| a.0.cmp(&b.0));
        new.sort_by(|a, b| a.0.cmp(&b.0));
        let (mut old, mut new) = (old.as_slice(), new.as_slice());
        loop {
            let order = match (old.first(), new.first()) {
                (Some(a), Some(b)) => a.0.cmp(&b.0),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Ok(()),
            };
            let (mut before, mut after): (&[Named<'a, 't>], &[Named<'a, 't>]) = (&[], &[]);
            if order.is_le() {
                (before, old) = old.split_at(group_len(old));
            }
            if order.is_ge() {
                (after, new) = new.split_at(group_len(new));
            }
            self.group(before, after, node)?;
        }
    }

    /// Compares the items of one name.
    fn group(
        &mut self,
        old: &[Named<'a, '_>],
        new: &[Named<'a, '_>],
        node: &SchemaNode,
    ) -> Result<(), DiffError> {
        if let ([(_, a)], [(_, b)]) = (old, new)
            && a.raw.text() == b.raw.text()
        {
            return Ok(());
        }
        let Some((element, _)) = old.first().or(new.first()) else { return Ok(()) };
        let first = (old.first().map(|item| item.1), new.first().map(|item| item.1));
        self.path.push(element.clone());
        match (old.len(), new.len()) {
            (0 | 1, 0 | 1) => self.compare(first, node)?,
            (2.., 2..) => {
                if !self.same_values(old, new)? {
                    self.push(ChangeKind::Modified, NodeKind::Duplicates, true, raws(first))?;
                }
            }
            // From several to one: that one is new, the group is gone.
            (2.., _) => {
                if first.1.is_some() {
                    self.compare((None, first.1), node)?;
                }
                self.push(ChangeKind::Removed, NodeKind::Duplicates, true, raws((first.0, None)))?;
            }
            (_, _) => {
                if first.0.is_some() {
                    self.compare((first.0, None), node)?;
                }
                self.push(ChangeKind::Added, NodeKind::Duplicates, true, raws((None, first.1)))?;
            }
        }
        self.path.pop();
        Ok(())
    }

    /// Reports what differs in a split list beside its named items.
    fn rest(
        &mut self,
        lists: Pair<'a, '_>,
        (old, new): (&[Named<'a, '_>], &[Named<'a, '_>]),
        (old_rest, new_rest): (&[Node<'a, '_>], &[Node<'a, '_>]),
    ) -> Result<(), DiffError> {
        let mut same = old_rest.len() == new_rest.len();
        for (a, b) in old_rest.iter().zip(new_rest) {
            same = same && self.same_value(*a, *b)?;
        }
        if !same || !same_order(old, new) {
            self.push(ChangeKind::Modified, NodeKind::Rest, true, raws(lists))?;
        }
        Ok(())
    }

    fn same_values(&self, old: &[Named<'a, '_>], new: &[Named<'a, '_>]) -> Result<bool, DiffError> {
        if old.len() != new.len() {
            return Ok(false);
        }
        for (a, b) in old.iter().zip(new) {
            if !self.same_value(a.1, b.1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn same_value(&self, old: Node<'_, '_>, new: Node<'_, '_>) -> Result<bool, DiffError> {
        value::equal_nodes(old, new, self.path.len()).map_err(|error| self.json(error))
    }
}

fn group_len(items: &[Named<'_, '_>]) -> usize {
    let Some((element, _)) = items.first() else { return 0 };
    items.iter().take_while(|item| item.0 == *element).count()
}

/// Whether the items that both lists have stand in the same order.
fn same_order(old: &[Named<'_, '_>], new: &[Named<'_, '_>]) -> bool {
    let sorted = |items: &[Named<'_, '_>]| {
        let mut names: Vec<Element> = items.iter().map(|item| item.0.clone()).collect();
        names.sort();
        names
    };
    let (in_old, in_new) = (sorted(old), sorted(new));
    let kept = old.iter().map(|item| &item.0).filter(|name| in_new.binary_search(name).is_ok());
    let found = new.iter().map(|item| &item.0).filter(|name| in_old.binary_search(name).is_ok());
    kept.eq(found)
}

/// The element that names an item, or why it has none.
fn name_of(item: Node<'_, '_>, shape: &ListShape) -> Result<Result<Element, &'static str>, RawError> {
    let keys = match shape {
        ListShape::Keyed(keys) => keys,
        ListShape::Set | ListShape::Atomic => {
            let scalar = if item.raw.kind() == Kind::Null { None } else { Scalar::parse(item.raw.text()) };
            return Ok(scalar.map(Element::Value).ok_or("an item of the set is no scalar"));
        }
    };
    if item.raw.kind() != Kind::Object {
        return Ok(Err("an item of the keyed list is no object"));
    }
    let values = item.pick(keys.len(), |name| keys.iter().position(|key| *key.name == *name))?;
    let mut fields = Vec::with_capacity(keys.len());
    for (ListKey { name, default }, value) in keys.iter().zip(values) {
        let scalar = match value {
            Some(value) => match Scalar::parse(value.text()) {
                Some(scalar) => Some(scalar),
                None => return Ok(Err("a key of an item of the keyed list is no scalar")),
            },
            None => default.clone(),
        };
        fields.extend(scalar.map(|scalar| (name.clone(), scalar)));
    }
    if fields.is_empty() {
        return Ok(Err("an item of the keyed list has none of the keys"));
    }
    // Shapes have their keys sorted, but claims may bring their own.
    Ok(Ok(Element::key(fields)))
}
