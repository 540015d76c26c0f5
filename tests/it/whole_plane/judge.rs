//! The independent judge: which fields did this write change that the requester may not write?
//!
//! Input: a random policy, who wrote, the object before and after. Output: the fields, as text; none for a legal
//! write. It knows the shape of the one kind of these tests by heart.
//! Must not: use anything of the product. What the two have in common is the design alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::policy::{Claim, Policy, Who};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Elem {
    Field(String),
    /// An item of a keyed list; values as JSON text.
    Item(BTreeMap<String, String>),
    /// A member of a set, as JSON text.
    Member(String),
}

/// One step of a claim's path; `None` is `[*]`.
pub type Step = Option<Elem>;

pub fn render<'a>(steps: impl IntoIterator<Item = Option<&'a Elem>>) -> String {
    let mut text = String::new();
    for step in steps {
        let _ = match step {
            None => write!(text, "[*]"),
            Some(Elem::Member(value)) => write!(text, "[={value}]"),
            Some(Elem::Item(keys)) => {
                let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(text, "[{}]", keys.join(","))
            }
            Some(Elem::Field(name)) if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                write!(text, ".{name}")
            }
            Some(Elem::Field(name)) => write!(text, "[{}]", json!(name)),
        };
    }
    text
}

/// The leaves of an object by their paths.
type Leaves = BTreeMap<Vec<Elem>, Value>;

/// What was changed that may not be, or nothing.
pub fn violations(policy: &Policy, who: &Who, old: Option<&Value>, new: &Value) -> Vec<String> {
    if old.is_none() && !policy.creation_owners {
        return Vec::new();
    }
    let write = Write {
        policy,
        who,
        creating: old.is_none(),
        before: leaves(policy, old.unwrap_or(&Value::Null)),
        after: leaves(policy, new),
    };
    let changed = write.changed();
    let mode = mode_path();
    let state = old.unwrap_or(new);
    let switches = changed.contains(&mode) && write.may(state, &mode);
    let refused = changed.iter().filter(|leaf| {
        // A default on creation was set by nobody.
        let by_nobody = write.creating && render_path(leaf) == ".spec.shape" && write.after[*leaf] == "round";
        let may = write.may(state, leaf)
            // One commit may switch the mode, if it may, and use what comes with it.
            || (switches && **leaf != mode && write.may(new, leaf));
        !by_nobody && !may
    });
    refused.map(|leaf| render_path(leaf)).collect()
}

/// What managers have lost though its value stays, or gained though nothing is there: a reason to refuse of its own,
/// and the one that values do not show.
pub fn disowned(policy: &Policy, old: &Value, new: &Value) -> Vec<String> {
    let (before, after) = (leaves(policy, old), leaves(policy, new));
    let (held, kept) = (holdings(old), holdings(new));
    let lost = held.difference(&kept).map(|(_, path)| path);
    let stays = |path: &&Vec<Elem>| before.get(*path).is_some_and(|value| after.get(*path) == Some(value));
    let gained = kept.difference(&held).map(|(_, path)| path);
    let nothing = |path: &&Vec<Elem>| !after.keys().any(|leaf| leaf.starts_with(path));
    lost.filter(stays).chain(gained.filter(nothing)).map(|path| render_path(path)).collect()
}

/// Every path of every entry, beside the name of its manager.
fn holdings(object: &Value) -> BTreeSet<(String, Vec<Elem>)> {
    let mut found = BTreeSet::new();
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let name = format!("{} {} {}", entry["manager"], entry["operation"], entry["subresource"]);
        hold(&entry["fieldsV1"], &name, &mut Vec::new(), &mut found);
    }
    found
}

fn hold(node: &Value, name: &str, path: &mut Vec<Elem>, found: &mut BTreeSet<(String, Vec<Elem>)>) {
    for (key, below) in node.as_object().into_iter().flatten() {
        let elem = match key.split_once(':') {
            Some(("f", field)) => Elem::Field(field.to_owned()),
            Some(("v", value)) => Elem::Member(value.to_owned()),
            Some(("k", keys)) => item_of(&serde_json::from_str(keys).unwrap_or_default(), &["effect", "key"]),
            _ => continue,
        };
        path.push(elem);
        if *below == json!({}) || below.get(".").is_some() {
            found.insert((name.to_owned(), path.clone()));
        }
        hold(below, name, path, found);
        path.pop();
    }
}

struct Write<'a> {
    policy: &'a Policy,
    who: &'a Who,
    creating: bool,
    before: Leaves,
    after: Leaves,
}

impl Write<'_> {
    fn changed(&self) -> BTreeSet<Vec<Elem>> {
        let paths = self.before.keys().chain(self.after.keys());
        let differs = |path: &&Vec<Elem>| self.before.get(*path) != self.after.get(*path);
        // An empty container that has content on the other side, and no items beside the claimed one, says nothing of
        // its own.
        let is_empty = |value: Option<&Value>| value.is_some_and(|v| *v == json!({}) || *v == json!([]));
        let says_nothing = |one: &Leaves, other: &Leaves, path: &[Elem]| {
            let has_content = other.keys().any(|leaf| leaf.len() > path.len() && leaf.starts_with(path));
            is_empty(one.get(path)) && has_content && other.get(path).is_none_or(|own| is_empty(Some(own)))
        };
        let counts = |path: &&Vec<Elem>| {
            !says_nothing(&self.before, &self.after, path) && !says_nothing(&self.after, &self.before, path)
        };
        paths.filter(differs).filter(counts).cloned().collect()
    }

    /// Whether the requester may write this leaf, while the conditions see `state`.
    fn may(&self, state: &Value, leaf: &[Elem]) -> bool {
        let item = leaf.iter().position(|elem| matches!(elem, Elem::Item(_) | Elem::Member(_)));
        if let Some(item) = item.map(|index| &leaf[..=index]) {
            let is_in = |leaves: &Leaves| leaves.keys().any(|leaf| leaf.starts_with(item));
            let whole = is_in(&self.before) != is_in(&self.after);
            let ending = self.decisive(state, item, |claim| claim.steps.len() == item.len());
            if whole && !ending.is_empty() && self.is_owner(&ending) {
                return true;
            }
        }
        let covering = self.decisive(state, leaf, |_| true);
        if covering.is_empty() {
            let is_metadata = leaf.first() == Some(&Elem::Field("metadata".to_owned()));
            return self.creating || !self.policy.unlisted_deny || is_metadata;
        }
        self.is_owner(&covering)
    }

    /// The active claims on the most specific path that has any.
    fn decisive(&self, state: &Value, path: &[Elem], wanted: impl Fn(&Claim) -> bool) -> Vec<&Claim> {
        let covers = |claim: &&Claim| {
            claim.steps.len() <= path.len()
                && claim.steps.iter().zip(path).all(|(step, elem)| step.as_ref().is_none_or(|s| s == elem))
        };
        let active = |claim: &&Claim| claim.when.as_ref().is_none_or(|when| when.holds(state));
        let rank =
            |claim: &Claim| (claim.steps.len(), claim.steps.iter().map(Option::is_some).collect::<Vec<_>>());
        let claims: Vec<&Claim> =
            self.policy.claims.iter().filter(covers).filter(active).filter(|claim| wanted(claim)).collect();
        let best = claims.iter().map(|claim| rank(claim)).max();
        claims.into_iter().filter(|claim| Some(rank(claim)) == best).collect()
    }

    /// An owner without subjects closes the path for all.
    fn is_owner(&self, claims: &[&Claim]) -> bool {
        let owners: Vec<_> = claims.iter().map(|claim| &self.policy.owners[claim.owner]).collect();
        owners.iter().all(|owner| !owner.subjects.is_empty())
            && owners.iter().any(|owner| self.who.is_one_of(&owner.subjects))
    }
}

fn mode_path() -> Vec<Elem> {
    ["spec", "mode"].map(|name| Elem::Field(name.to_owned())).to_vec()
}

fn render_path(path: &[Elem]) -> String {
    render(path.iter().map(Some))
}

fn leaves(policy: &Policy, object: &Value) -> Leaves {
    let mut found = Leaves::new();
    for part in ["spec", "data", "status"] {
        if let Some(value) = object.get(part) {
            flatten(policy, value, &mut vec![Elem::Field(part.to_owned())], &mut found);
        }
    }
    for part in ["labels", "annotations", "finalizers"] {
        if let Some(value) = object["metadata"].get(part) {
            let mut path = ["metadata", part].map(|name| Elem::Field(name.to_owned())).to_vec();
            flatten(policy, value, &mut path, &mut found);
        }
    }
    found
}

fn flatten(policy: &Policy, value: &Value, path: &mut Vec<Elem>, found: &mut Leaves) {
    let text = render_path(path);
    match value {
        // An atomic map too is judged by its parts: a claim may end below it, and what no such claim covers is
        // covered by the same claims as the map.
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                path.push(Elem::Field(name.clone()));
                flatten(policy, value, path, found);
                path.pop();
            }
        }
        Value::Array(items) if !items.is_empty() && text == ".spec.taints" => {
            for item in items {
                path.push(item_of(item, &["effect", "key"]));
                flatten(policy, item, path, found);
                path.pop();
            }
        }
        Value::Array(items)
            if !items.is_empty() && [".spec.zones", ".metadata.finalizers"].contains(&&*text) =>
        {
            for item in items {
                path.push(Elem::Member(item.to_string()));
                found.insert(path.clone(), item.clone());
                path.pop();
            }
        }
        Value::Array(items) if text == ".spec.rules" && policy.claims_rules() => {
            let web = item_of(&json!({"name": "web"}), &["name"]);
            let (claimed, rest): (Vec<_>, Vec<_>) =
                items.iter().cloned().partition(|item| item["name"] == "web");
            if !rest.is_empty() || claimed.is_empty() {
                found.insert(path.clone(), Value::Array(rest));
            }
            if !claimed.is_empty() {
                path.push(web);
                found.insert(path.clone(), Value::Array(claimed));
                path.pop();
            }
        }
        leaf => {
            found.insert(path.clone(), leaf.clone());
        }
    }
}

fn item_of(item: &Value, keys: &[&str]) -> Elem {
    Elem::Item(keys.iter().map(|key| ((*key).to_owned(), item[*key].to_string())).collect())
}
