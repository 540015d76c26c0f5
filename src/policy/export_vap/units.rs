//! What of a policy's claims can be compared in CEL, one unit at a time.
//!
//! In: the claims and the schema. Out: units, each a field or a collection whose change CEL sees exactly as
//! `ownership::diff` does, and what is left out, each with the reason. Must not look at who may write: that is
//! `claims`.

use std::sync::Arc;

use super::cel::is_plain;
use super::variables::is_plain_scalar;
use crate::ownership::diff::is_unowned;
use crate::ownership::element::{Element, Scalar};
use crate::ownership::path::Path;
use crate::ownership::pattern::Step;
use crate::ownership::rule::{Claim, Policy};
use crate::ownership::schema::{ListKey, ListNode, ListShape, MapNode, Schema, SchemaNode};

/// Rules of one generated policy. The API server has ten million units of cost for all of them together, and a rule
/// takes a few thousand where `managedFields` are long.
pub const MAX_RULES: usize = 200;

/// Stands for any member that no claim names: no field, label or item has this name.
pub(super) const OTHER: &str = "\u{0}";

/// What CEL cannot say, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// Which field, as in a FieldPolicy; `None` for the policy as a whole.
    pub path: Option<String>,
    /// Why.
    pub why: String,
}

/// Something whose change can be told.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// Where it is.
    pub(super) path: Vec<Element>,
    pub(super) shape: Shape,
    /// Whether CEL has a typed spelling for the path.
    pub(super) typed: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// One value. `free`: of any type, so that a map is compared only with what is none.
    Value { free: bool },
    /// The members of a map, except those of these names.
    Members { except: Vec<Arc<str>> },
    /// The items of a set, except these.
    Items { except: Vec<Scalar> },
    /// One item of a set, which is the last element of the path.
    Member(Scalar),
    /// One item of a keyed list, which is the last element of the path, and the plain fields in it.
    Item { keys: Vec<(ListKey, Scalar)>, leaves: Vec<Vec<Element>> },
}

pub(super) struct Units<'p> {
    policy: &'p Policy,
    pub(super) found: Vec<Unit>,
    pub(super) left_out: Vec<LeftOut>,
    too_many: bool,
}

impl<'p> Units<'p> {
    pub(super) fn of(policy: &'p Policy, schema: &Schema) -> Self {
        let mut units = Self { policy, found: Vec::new(), left_out: Vec::new(), too_many: false };
        units.node(&mut Vec::new(), schema.root(), true);
        if units.too_many {
            let why = format!("there is room for {MAX_RULES} rules; all further fields are left out");
            units.left_out.push(LeftOut { path: None, why });
        }
        units
    }

    fn below(&self, path: &[Element]) -> Vec<&'p Claim> {
        self.policy.claims.iter().filter(|claim| claim.pattern.reaches_below(path)).collect()
    }

    fn is_covered(&self, path: &[Element]) -> bool {
        self.policy.claims.iter().any(|claim| claim.pattern.covers(path))
    }

    fn leave_out(&mut self, path: &[Element], why: &str) {
        let path: Path = path.iter().cloned().collect();
        self.left_out.push(LeftOut { path: Some(path.to_string()), why: why.to_owned() });
    }

    fn leave_out_claims(&mut self, claims: &[&Claim], why: &str) {
        for claim in claims {
            let left_out = LeftOut { path: Some(claim.pattern.to_string()), why: why.to_owned() };
            if !self.left_out.contains(&left_out) {
                self.left_out.push(left_out);
            }
        }
    }

    fn put(&mut self, path: &[Element], typed: bool, shape: Shape) {
        let rules = |shape: &Shape| match shape {
            Shape::Item { leaves, .. } => 1 + leaves.len(),
            _ => 1,
        };
        let taken: usize = self.found.iter().map(|unit| rules(&unit.shape)).sum();
        if taken + rules(&shape) > MAX_RULES {
            self.too_many = true;
        } else {
            self.found.push(Unit { path: path.to_vec(), shape, typed });
        }
    }

    fn node(&mut self, path: &mut Vec<Element>, node: &SchemaNode, typed: bool) {
        let below = self.below(path);
        let covered = self.is_covered(path);
        let is_root = path.len() < 2 && path.first().is_none_or(|top| *top == Element::field("metadata"));
        if self.too_many || (below.is_empty() && !covered) || (!is_root && is_unowned(path)) {
            return;
        }
        let forms = (node.is_scalar(), node.list(), node.map());
        match forms {
            (true, None, None) => {
                self.leave_out_claims(&below, "the schema has no such field");
                self.put(path, typed, Shape::Value { free: false });
            }
            (true, Some(_), Some(_)) => self.free(path, typed, covered, &below),
            _ if node.is_nullable() => {
                let why = "the list or object here may be null, which CEL reads differently";
                self.leave_out_claims(&below, why);
                self.leave_out(path, why);
            }
            (false, Some(list), None) => self.list(path, list, typed, covered, &below),
            (false, None, Some(map)) => self.map(path, map, typed, covered, &below),
            _ => {
                self.leave_out_claims(&below, "the schema lets several types stand here");
                self.leave_out(path, "the schema lets several types stand here");
            }
        }
    }

    /// A node without a type. Of a map in it the parts are judged one by one, which CEL cannot for names it does not know.
    fn free(&mut self, path: &[Element], typed: bool, covered: bool, below: &[&'p Claim]) {
        if !below.is_empty() {
            self.leave_out_claims(below, "the schema does not say what is there");
            if covered {
                self.leave_out(path, "claims lie below it, and the schema does not say what is there");
            }
            return;
        }
        self.leave_out(
            path,
            "without a type in the schema: changes inside of it while it is and stays an object",
        );
        self.put(path, typed, Shape::Value { free: true });
    }

    fn map(
        &mut self,
        path: &mut Vec<Element>,
        map: &MapNode,
        typed: bool,
        covered: bool,
        below: &[&'p Claim],
    ) {
        if map.is_atomic() {
            return self.atomic(path, typed, covered, below);
        }
        for (name, field) in map.fields() {
            path.push(Element::Field(name.clone()));
            self.node(path, field, typed && is_plain(name));
            path.pop();
        }
        let unknown = |claim: &&&'p Claim| match claim.pattern.steps().get(path.len()) {
            Some(Step::Field(name)) => map.fields().all(|(known, _)| known != name),
            // Asked for each field by itself.
            Some(Step::Any) => false,
            _ => true,
        };
        let below: Vec<&Claim> = below.iter().filter(unknown).copied().collect();
        match map.element() {
            None => self.leave_out_claims(&below, "the schema has no such field"),
            Some(element) => self.members(path, map, element, typed, &below),
        }
    }

    fn members(
        &mut self,
        path: &mut Vec<Element>,
        map: &MapNode,
        element: &SchemaNode,
        typed: bool,
        below: &[&'p Claim],
    ) {
        let mut except: Vec<Arc<str>> = Vec::new();
        for claim in below {
            if let Some(Step::Field(name)) = claim.pattern.steps().get(path.len())
                && !except.contains(name)
            {
                except.push(name.clone());
            }
        }
        for name in &except {
            path.push(Element::Field(name.clone()));
            self.node(path, element, typed);
            path.pop();
        }
        path.push(Element::field(OTHER));
        let others = self.is_covered(path);
        path.pop();
        if !others {
            return;
        }
        if is_plain_scalar(element) && map.fields().next().is_none() {
            self.put(path, typed, Shape::Members { except });
        } else {
            self.leave_out(path, "members of a map of other than plain values that no claim names");
        }
    }

    fn atomic(&mut self, path: &[Element], typed: bool, covered: bool, below: &[&'p Claim]) {
        if below.is_empty() {
            return self.put(path, typed, Shape::Value { free: false });
        }
        let why =
            "to the API server the node above it is one value, which the webhook looks into and CEL does not";
        self.leave_out_claims(below, why);
        if covered {
            self.leave_out(path, "one value to the API server, with claims on parts of it");
        }
    }

    fn list(
        &mut self,
        path: &mut Vec<Element>,
        list: &ListNode,
        typed: bool,
        covered: bool,
        below: &[&'p Claim],
    ) {
        match list.shape() {
            ListShape::Atomic => self.atomic(path, typed, covered, below),
            ListShape::Set => self.set(path, list.item(), typed, below),
            ListShape::Keyed(keys) => self.keyed(path, list.item(), keys, below),
        }
    }

    fn set(&mut self, path: &mut Vec<Element>, item: &SchemaNode, typed: bool, below: &[&'p Claim]) {
        let mut except: Vec<Scalar> = Vec::new();
        for claim in below {
            match claim.pattern.steps().get(path.len()) {
                Some(Step::Value(value)) if !except.contains(value) => except.push(value.clone()),
                Some(Step::Value(_) | Step::Any) => {}
                _ => self.leave_out_claims(&[claim], "the list is a set"),
            }
        }
        let is_plain = is_plain_scalar(item);
        for value in &except {
            path.push(Element::Value(value.clone()));
            if is_plain {
                self.put(path, typed, Shape::Member(value.clone()));
            } else {
                self.leave_out(path, "an item of a set of other than plain values");
            }
            path.pop();
        }
        path.push(Element::value(Scalar::string(OTHER)));
        let others = self.is_covered(path);
        path.pop();
        if others && is_plain {
            self.put(path, typed, Shape::Items { except });
        } else if others {
            self.leave_out(path, "items of a set of other than plain values");
        }
    }

    fn keyed(&mut self, path: &mut Vec<Element>, item: &SchemaNode, keys: &[ListKey], below: &[&'p Claim]) {
        let mut named: Vec<Vec<(ListKey, Scalar)>> = Vec::new();
        for claim in below {
            let whole = match claim.pattern.steps().get(path.len()) {
                Some(Step::Key(fields)) if fields.len() == keys.len() => keys
                    .iter()
                    .map(|key| {
                        let (_, value) = fields.iter().find(|(name, _)| *name == key.name)?;
                        Some((key.clone(), value.clone()))
                    })
                    .collect::<Option<Vec<_>>>(),
                _ => None,
            };
            match whole {
                Some(whole) if !named.contains(&whole) => named.push(whole),
                Some(_) => {}
                None => self
                    .leave_out_claims(&[claim], "it names items of a keyed list without all of their keys"),
            }
        }
        for keys in named {
            let fields = keys.iter().map(|(key, value)| (key.name.clone(), value.clone())).collect();
            path.push(Element::key(fields));
            let mut leaves = Vec::new();
            self.leaves(path, item, &keys, path.len(), &mut leaves);
            self.put(path, false, Shape::Item { keys, leaves });
            path.pop();
        }
        let mut other = path.clone();
        other.push(Element::key(keys.iter().map(|key| (key.name.clone(), Scalar::string(OTHER))).collect()));
        if self.is_covered(&other) {
            self.leave_out(path, "items of a keyed list that no claim names");
        }
    }

    /// The plain fields of an item; anything else in it is left out.
    fn leaves(
        &mut self,
        path: &[Element],
        node: &SchemaNode,
        keys: &[(ListKey, Scalar)],
        item: usize,
        leaves: &mut Vec<Vec<Element>>,
    ) {
        let struct_like = node.map().filter(|map| {
            !map.is_atomic() && map.element().is_none() && node.list().is_none() && !node.is_scalar()
        });
        let Some(map) = struct_like.filter(|_| !node.is_nullable()) else {
            return self.leave_out(path, "a part of an item that is no plain field");
        };
        for (name, field) in map.fields() {
            if path.len() == item && keys.iter().any(|(key, _)| key.name == *name) {
                continue;
            }
            let mut path = path.to_vec();
            path.push(Element::Field(name.clone()));
            if self.below(&path).is_empty() && !self.is_covered(&path) {
                continue;
            }
            let atomic = field.list().is_some_and(|list| *list.shape() == ListShape::Atomic)
                || field.map().is_some_and(MapNode::is_atomic);
            let one_form = !field.is_untyped();
            if is_plain_scalar(field)
                || (atomic && one_form && !field.is_nullable() && self.below(&path).is_empty())
            {
                leaves.push(path);
            } else {
                self.leaves(&path, field, keys, item, leaves);
            }
        }
    }
}
