//! Paths against the schema, and names against the names that there are.

use serde_json::Value;

use super::{Findings, Severity, Subject};
use crate::ownership::element::Element;
use crate::ownership::pattern::{Pattern, Step};
use crate::ownership::schema::{ListKey, Lookup, Problem, Schema, SchemaNode, Step as SchemaStep};

/// What is the matter with a path in the schema of its kind, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// No object can have such a field.
    LeadsNowhere(String),
    /// It names some keys of an item, and so covers each item that matches.
    PartialKey(String),
}

impl Misfit {
    /// The sentence.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::LeadsNowhere(message) | Self::PartialKey(message) => message,
        }
    }
}

pub(super) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    let Some(schema) = subject.facts.schema else { return };
    for field in &subject.fields {
        let at = format!("{}.path", field.at);
        report(misfit(&field.claim.pattern, schema), &at, findings);
        if let Some(message) = atomic_above(&field.claim.pattern, schema) {
            findings.add(Severity::Warning, "atomic-node", at, message);
        }
        for read in field.when().map(|when| when.reads()).unwrap_or_default() {
            let steps = read.iter().map(|name| Step::Field((&**name).into())).collect();
            let Some(path) = Pattern::from_steps(steps) else { continue };
            report(misfit(&path, schema), &format!("{}.when", field.at), findings);
        }
    }
}

fn report(misfit: Option<Misfit>, at: &str, findings: &mut Findings) {
    match misfit {
        None => {}
        Some(Misfit::LeadsNowhere(message)) => findings.add(Severity::Error, "unknown-path", at, message),
        Some(Misfit::PartialKey(message)) => findings.add(Severity::Warning, "partial-key", at, message),
    }
}

/// Looks a path up. Without a schema a path is as good as any other.
#[must_use]
pub fn misfit(path: &Pattern, schema: &Schema) -> Option<Misfit> {
    if schema.root().is_untyped() {
        return None;
    }
    let elements = elements(path);
    let found = look_up(&elements, schema);
    let keys = |keys: &[ListKey]| keys.iter().map(|key| key.name.to_string()).collect::<Vec<_>>().join(", ");
    if let Some(problem) = &found.problem {
        let reached = upto(path, found.reached);
        return Some(Misfit::LeadsNowhere(match problem {
            Problem::UnknownField => {
                format!("the schema has no {path}{}", suggestion(&found, &elements, path))
            }
            Problem::NotAMap => format!("{path} leads nowhere: {reached} has no fields"),
            Problem::NotAList => format!("{path} leads nowhere: {reached} is no list"),
            Problem::WrongKeys(wanted) => {
                format!("{path} leads nowhere: items of {reached} are told apart by {}", keys(wanted))
            }
            Problem::IsASet => format!("{path} leads nowhere: items of {reached} are told apart by value"),
        }));
    }
    let (step, missing) = found.partial.first()?;
    let missing = missing.iter().map(|key| &**key).collect::<Vec<_>>().join(", ");
    Some(Misfit::PartialKey(format!(
        "{} covers every item that matches: the list's keys also have {missing}",
        upto(path, step.saturating_add(1))
    )))
}

/// The list or map above a path that the API server takes for one value.
fn atomic_above(path: &Pattern, schema: &Schema) -> Option<String> {
    let found = look_up(&elements(path), schema);
    // Where the path leads nowhere that is said.
    let node = found.atomic_at.filter(|_| found.problem.is_none())?;
    Some(format!(
        "{} is one value to the API server: whoever applies a part of it takes the rest away",
        upto(path, node)
    ))
}

fn elements(path: &Pattern) -> Vec<Option<Element>> {
    path.steps().iter().map(element).collect()
}

fn look_up<'s>(elements: &[Option<Element>], schema: &'s Schema) -> Lookup<'s> {
    schema.lookup(elements.iter().map(|step| match step {
        Some(element) => SchemaStep::Element(element),
        None => SchemaStep::Any,
    }))
}

/// The path up to where the schema ends, and there the name that comes nearest.
fn suggestion(found: &Lookup<'_>, elements: &[Option<Element>], path: &Pattern) -> String {
    let Some(Some(Element::Field(name))) = elements.get(found.reached) else { return String::new() };
    let Some(map) = found.node.map() else { return String::new() };
    let near = nearest(name, map.fields().map(|(name, _)| &**name));
    let steps = path.steps().iter().take(found.reached).cloned();
    near.and_then(|near| Pattern::from_steps(steps.chain([Step::Field(near.into())]).collect()))
        .map(|near| format!("; did you mean {near}?"))
        .unwrap_or_default()
}

/// The first steps of a path; the object itself where there are none.
fn upto(path: &Pattern, steps: usize) -> String {
    let steps = path.steps().iter().take(steps).cloned().collect();
    Pattern::from_steps(steps).map_or_else(|| "the object".to_owned(), |path| path.to_string())
}

/// `None` stands for any.
fn element(step: &Step) -> Option<Element> {
    match step {
        Step::Field(name) => Some(Element::Field(name.clone())),
        Step::Key(fields) => Some(Element::Key(fields.clone())),
        Step::Value(scalar) => Some(Element::Value(scalar.clone())),
        Step::Any => None,
    }
}

/// Keys of `object` that its schema does not have: where, and the name that comes nearest. What is read
/// from a file has not been checked by an API server, and a misspelt key would silently not count.
#[must_use]
pub fn unknown_keys(object: &Value, schema: &Schema) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    compare(object, schema.root(), "", &mut found);
    found
}

fn compare(value: &Value, node: &SchemaNode, at: &str, found: &mut Vec<(String, Option<String>)>) {
    match value {
        Value::Object(members) => {
            let Some(map) = node.map() else { return };
            for (name, member) in members {
                let dot = if at.is_empty() { "" } else { "." };
                let here = format!("{at}{dot}{name}");
                if let Some(child) = map.field(name) {
                    compare(member, child, &here, found);
                } else {
                    let near = nearest(name, map.fields().map(|(name, _)| &**name));
                    found.push((here, near.map(str::to_owned)));
                }
            }
        }
        Value::Array(items) => {
            let Some(list) = node.list() else { return };
            for (index, item) in items.iter().enumerate() {
                // As everywhere: an owner by its name.
                let name = item.get("name").and_then(Value::as_str).filter(|_| at == "spec.owners");
                let index = name.map_or_else(|| index.to_string(), str::to_owned);
                compare(item, list.item(), &format!("{at}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// The name that `name` is most likely a slip of.
#[must_use]
pub fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let far = (name.chars().count() / 3).max(1);
    names
        .map(|known| (distance(name, known), known))
        .filter(|(distance, _)| *distance <= far)
        .min()
        .map(|(_, known)| known)
}

/// How many characters have to be inserted, removed, replaced or swapped with their neighbour; letters that
/// differ in case only are equal.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) =
        (left.to_lowercase().chars().collect(), right.to_lowercase().chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let cell = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX - 1);
            let replaced = cell(&last, j) + usize::from(a != b);
            let mut best = replaced.min(cell(&last, j + 1) + 1).min(cell(&row, j) + 1);
            let swapped = i > 0 && j > 0 && left.get(i - 1) == Some(b) && right.get(j - 1) == Some(a);
            if swapped && a != b {
                best = best.min(cell(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_near_and_other_words_are_not() {
        let names = ["targetNodes", "minNodes", "maxNodes", "handOff"];
        let near = |name: &str| nearest(name, names.into_iter());
        assert_eq!(near("targetNode"), Some("targetNodes"));
        assert_eq!(near("tragetNodes"), Some("targetNodes"));
        assert_eq!(near("targetnodes"), Some("targetNodes"));
        assert_eq!(near("handoff"), Some("handOff"));
        assert_eq!(near("replicas"), None);
        assert_eq!(near(""), None);
        assert_eq!((distance("ab", "ba"), distance("", "abc"), distance("abc", "abc")), (1, 3, 0));
    }
}
