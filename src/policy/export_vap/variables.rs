//! The variables that expressions share, each computed at most once for a request.
//!
//! In: owners, conditions and fields as they are asked for. Out: references, and the list of variables in an order in
//! which each refers only to earlier ones.

use k8s_openapi::api::admissionregistration::v1::Variable;

use super::cel::{Bool, optional, scalar};
use super::claims::Writers;
use super::condition::holds;
use super::excuse;
use crate::ownership::condition::Expr;
use crate::ownership::diff::is_unowned;
use crate::ownership::element::{Element, Scalar};
use crate::ownership::rule::Policy;
use crate::ownership::schema::{ListKey, Schema, SchemaNode};

/// What the stored object is called, where it may be absent.
pub(super) const OLD: &str = "variables.old";
/// The new object without a type, for paths that CEL has no typed spelling for.
pub(super) const NEW: &str = "dyn(object)";

/// Variables in the making.
pub(super) struct Variables<'p> {
    policy: &'p Policy,
    schema: &'p Schema,
    list: Vec<Variable>,
    conditions: Vec<(&'p Expr, bool, String)>,
    /// The paths that conditions read and that a write can change.
    reads: Vec<Vec<Element>>,
    switched: Option<Result<Bool, String>>,
    items: usize,
}

impl<'p> Variables<'p> {
    /// Those that every rule may use. `creation` holds for creations that are not judged.
    pub(super) fn new(policy: &'p Policy, schema: &'p Schema, api_version: &str, creation: &Bool) -> Self {
        let mut variables = Self {
            policy,
            schema,
            list: Vec::new(),
            conditions: Vec::new(),
            reads: reads(policy),
            switched: None,
            items: 0,
        };
        variables.add("old", "oldObject == null ? dyn({}) : dyn(oldObject)");
        variables.add("creating", "request.operation == 'CREATE'");
        let unjudged = Bool::any([
            Bool::Text("request.operation == 'DELETE'".to_owned()),
            Bool::Text("request.?subResource.orValue('') == 'scale'".to_owned()),
            Bool::all([Bool::Text("variables.creating".to_owned()), creation.clone()]),
        ]);
        variables.add("unjudged", &unjudged.to_string());
        for (name, expression) in excuse::variables(policy, api_version) {
            variables.add(name, &expression);
        }
        variables
    }

    pub(super) fn into_list(self) -> Vec<Variable> {
        self.list
    }

    fn add(&mut self, name: &str, expression: &str) {
        self.list.push(Variable { name: name.to_owned(), expression: expression.to_owned() });
    }

    fn has(&self, name: &str) -> bool {
        self.list.iter().any(|variable| variable.name == name)
    }

    /// Whether the requester is the owner of this index; `holds` says when.
    pub(super) fn owner(&mut self, index: usize, holds: impl FnOnce() -> Bool) -> Bool {
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String =
            self.policy.owners.get(index).map_or("", |owner| &owner.name).chars().map(word).collect();
        // The index keeps `a-b` and `a.b` apart.
        let name = format!("owner{index}_{name}");
        if !self.has(&name) {
            self.add(&name, &holds().to_string());
        }
        Bool::Text(format!("variables.{name}"))
    }

    /// Whether a condition holds of the stored object (on CREATE, of the new one), or of the new one.
    pub(super) fn condition(&mut self, condition: &'p Expr, after: bool) -> Bool {
        let known = self.conditions.iter().find(|(known, state, _)| *known == condition && *state == after);
        let name = if let Some((_, _, name)) = known {
            name.clone()
        } else {
            let name = format!("{}{}", if after { "whenNew" } else { "when" }, self.conditions.len() + 1);
            let state = if after {
                NEW
            } else {
                if !self.has("stored") {
                    self.add("stored", "oldObject == null ? dyn(object) : dyn(oldObject)");
                }
                "variables.stored"
            };
            self.add(&name, &holds(condition, state).to_string());
            self.conditions.push((condition, after, name.clone()));
            name
        };
        Bool::Text(format!("variables.{name}"))
    }

    /// Whether a condition reads the path, something above it or something below it.
    pub(super) fn is_read(&self, path: &[Element]) -> bool {
        self.reads.iter().any(|read| read.iter().zip(path).all(|(a, b)| a == b))
    }

    /// Whether the write changes a field that conditions read, and each such field legally.
    pub(super) fn switched(&mut self) -> Result<Bool, String> {
        if let Some(known) = &self.switched {
            return known.clone();
        }
        let found = self.switch();
        self.switched = Some(found.clone());
        found
    }

    fn switch(&mut self) -> Result<Bool, String> {
        let (mut changed, mut legal) = (Vec::new(), Vec::new());
        for read in self.reads.clone() {
            let unsayable = |why: &str| {
                let path: crate::ownership::path::Path = read.iter().cloned().collect();
                format!("a condition reads {path}, {why}")
            };
            if !is_simple_field(self.schema, &read) {
                return Err(unsayable("which is not known to be a plain field"));
            }
            let writers = Writers::of(self.policy, &read, self)
                .map_err(|why| unsayable(&format!("and {why}")))?
                .ok_or_else(|| unsayable("which nobody claims"))?;
            let (old, new) = (optional(OLD, names(&read)), optional(NEW, names(&read)));
            let same = Bool::Text(format!("{new} == {old}"));
            changed.push(same.clone().not());
            let excused = excuse::field(&read, &format!("{new}.hasValue()"));
            legal.push(Bool::any([same, writers.by_the_stored_state(), excused]));
        }
        let switched = Bool::all([Bool::any(changed), Bool::all(legal)]);
        // On CREATE conditions see the new object anyway.
        let switched = Bool::all([Bool::Text("!variables.creating".to_owned()), switched]);
        self.add("switched", &switched.to_string());
        Ok(Bool::Text("variables.switched".to_owned()))
    }

    /// Names of variables for the items of a list that have these keys: the new items, the old ones, and the item
    /// itself in both, empty unless there is exactly one.
    pub(super) fn item(&mut self, list: &[Element], key: &[(&ListKey, &Scalar)]) -> Result<Item, String> {
        let mut tests = Vec::new();
        for (ListKey { name, default }, wanted) in key {
            let literal = |value: &Scalar| scalar(value).ok_or("its key has a number that CEL cannot hold");
            let absent = default.as_ref().map_or_else(|| Ok("null".to_owned()), literal)?;
            tests.push(format!("{}.orValue({absent}) == {}", optional("i", [&**name]), literal(wanted)?));
        }
        self.items += 1;
        let number = self.items;
        let mut side = |side: &str, base: &str| {
            let (items, item) = (format!("items{number}{side}"), format!("item{number}{side}"));
            let list = optional(base, names(list));
            self.add(&items, &format!("{list}.orValue([]).filter(i, {})", tests.join(" && ")));
            self.add(&item, &format!("size(variables.{items}) == 1 ? variables.{items}[0] : dyn({{}})"));
            (format!("variables.{items}"), format!("variables.{item}"))
        };
        let (old_items, old) = side("old", OLD);
        let (new_items, new) = side("new", NEW);
        Ok(Item { new_items, old_items, new, old })
    }
}

/// References to the variables of an item.
pub(super) struct Item {
    pub(super) new_items: String,
    pub(super) old_items: String,
    pub(super) new: String,
    pub(super) old: String,
}

/// The names of a path of fields and map keys.
pub(super) fn names(path: &[Element]) -> impl Iterator<Item = &str> {
    path.iter().filter_map(|element| match element {
        Element::Field(name) => Some(&**name),
        _ => None,
    })
}

/// Whether a path has only fields and map keys.
pub(super) fn is_field_path(path: &[Element]) -> bool {
    path.iter().all(|element| matches!(element, Element::Field(_)))
}

fn reads(policy: &Policy) -> Vec<Vec<Element>> {
    let conditions = policy.claims.iter().filter_map(|claim| claim.when.as_ref());
    let mut found: Vec<Vec<Element>> = conditions
        .flat_map(Expr::reads)
        .map(|read| read.iter().map(|name| Element::field(name)).collect())
        // What only the server sets is never changed by a write.
        .filter(|path: &Vec<Element>| !(path.len() > 1 && is_unowned(path.get(..2).unwrap_or(path))))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Whether the schema has a scalar there, on a way through granular, never null objects.
fn is_simple_field(schema: &Schema, path: &[Element]) -> bool {
    let mut node = schema.root();
    for element in path {
        let above = node.map().filter(|map| !map.is_atomic() && !node.is_scalar() && node.list().is_none());
        match above.filter(|_| !node.is_nullable()).and_then(|map| match element {
            Element::Field(name) => map.field(name),
            _ => None,
        }) {
            Some(child) => node = child,
            None => return false,
        }
    }
    is_plain_scalar(node)
}

/// Whether only a scalar can stand there.
pub(super) fn is_plain_scalar(node: &SchemaNode) -> bool {
    node.is_scalar() && node.list().is_none() && node.map().is_none()
}
