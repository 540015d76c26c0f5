//! Whether fieldkeeper says what structured-merge-diff says.
//!
//! Input: a question and the oracle's answer. Output: nothing, or where the two differ.
//!
//! The mapping: a change of [`ChangeKind::Added`], [`ChangeKind::Removed`] or [`ChangeKind::Modified`] is a path in the
//! set of that name, whatever its `node` and `leaf` are; parts of atomic nodes (`atomic_at`) are in none, as they are
//! in no `managedFields`. Paths that nobody can own are taken out of the oracle's sets. Where structured-merge-diff
//! cannot read a schema, an object or a `FieldsV1`, the API server tracks nothing, and we may say what we like.

use std::collections::HashSet;

use fieldkeeper::ownership::diff::{Change, ChangeKind, Refine, Split, diff, is_unowned};
use fieldkeeper::ownership::element::Element;
use fieldkeeper::ownership::fieldsv1;
use fieldkeeper::ownership::raw::{Raw, RawError};
use fieldkeeper::ownership::schema::{ListKey, ListShape, Schema, Step};
use fieldkeeper::ownership::set::PathSet;
use fieldkeeper::ownership::value;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The oracle's answer to one question; see `tests/control-plane/oracle`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Answer {
    pub schema_error: Option<String>,
    /// The OpenAPI document of a built-in kind.
    pub document: Option<Value>,
    pub pairs: Vec<Comparison>,
    pub texts: Vec<Canonical>,
    pub algebra: Vec<Combination>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Comparison {
    #[serde(flatten)]
    pub sets: Sets,
    pub old_set: Option<String>,
    pub new_set: Option<String>,
    pub error: Option<String>,
}

/// A difference, as three `FieldsV1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Sets {
    pub added: String,
    pub removed: String,
    pub modified: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Canonical {
    #[serde(rename = "fieldsV1")]
    pub fields: String,
    pub leaves: String,
    pub error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Combination {
    pub union: String,
    pub intersection: String,
    pub difference: String,
    pub recursive_difference: String,
    pub error: Option<String>,
}

/// The texts of two objects.
pub type Pair = (Option<String>, Option<String>);

/// Compares one pair of objects. `chance` decides how atomic nodes are split.
pub fn pair(schema: &Schema, (old, new): &Pair, said: &Comparison, chance: u64) -> Result<(), String> {
    let ours = read(old.as_deref()).and_then(|old| Ok((old, read(new.as_deref())?)));
    if said.error.is_some() {
        // Must not panic; that is all.
        if let Ok((old, new)) = ours {
            let _ = diff(old, new, schema, None);
        }
        return Ok(());
    }
    let (old, new) = ours.map_err(|error| format!("not read: {error}"))?;
    let changes = diff(old, new, schema, None).map_err(|error| format!("no difference: {error}"))?;
    let theirs = owned(&said.sets)?;
    once(&changes)?;
    differ("difference", &sets(&changes), &theirs)?;
    let split = diff(old, new, schema, Some(&AtRandom(chance)));
    let split = split.map_err(|error| format!("no split difference: {error}"))?;
    once(&split)?;
    differ("difference beside split nodes", &sets(&split), &theirs)?;
    held(schema, old, said.old_set.as_ref()).map_err(|error| format!("old object: {error}"))?;
    held(schema, new, said.new_set.as_ref()).map_err(|error| format!("new object: {error}"))
}

/// An object, if there is one.
pub fn read(object: Option<&str>) -> Result<Option<Raw<'_>>, RawError> {
    object.map(Raw::parse).transpose()
}

/// The difference as we see it.
pub fn sets(changes: &[Change<'_>]) -> Sets {
    let of = |kind: ChangeKind| {
        let changes = changes.iter().filter(|change| change.kind == kind && change.atomic_at.is_none());
        fieldsv1::write(&changes.map(|change| &change.path).collect())
    };
    Sets {
        added: of(ChangeKind::Added),
        removed: of(ChangeKind::Removed),
        modified: of(ChangeKind::Modified),
    }
}

/// No path may be named twice in the same way.
fn once(changes: &[Change<'_>]) -> Result<(), String> {
    let mut seen = HashSet::new();
    match changes.iter().find(|change| {
        !seen.insert((change.path.to_string(), change.kind, change.atomic_at.map(|at| (at, change.node))))
    }) {
        Some(twice) => Err(format!("{} is {:?} twice", twice.path, twice.kind)),
        None => Ok(()),
    }
}

/// The oracle's sets without what nobody can own.
pub fn owned(sets: &Sets) -> Result<Sets, String> {
    let of = |text: &str| {
        let set = again(text)?;
        Ok::<_, String>(fieldsv1::write(&set.iter().filter(|path| !is_unowned(path)).collect()))
    };
    Ok(Sets { added: of(&sets.added)?, removed: of(&sets.removed)?, modified: of(&sets.modified)? })
}

/// Reads what structured-merge-diff wrote; writing it must give the same bytes.
fn again(text: &str) -> Result<PathSet, String> {
    let set = fieldsv1::parse(text).map_err(|error| format!("{text}: {error}"))?;
    differ("text of the set", fieldsv1::write(&set).as_str(), text)?;
    Ok(set)
}

/// Whatever the API server would track of an object we must find in it, and in the schema.
fn held(schema: &Schema, object: Option<Raw<'_>>, tracked: Option<&String>) -> Result<(), String> {
    let (Some(object), Some(tracked)) = (object, tracked) else { return Ok(()) };
    for path in again(tracked)?.iter().filter(|path| !is_unowned(path)) {
        let found = value::find(object, &path, schema.root()).map_err(|error| format!("{path}: {error}"))?;
        if found.is_none() {
            return Err(format!("there is a value at {path}, and we do not find it"));
        }
        let known = schema.lookup(path.iter().map(Step::Element));
        if let Some(problem) = known.problem {
            return Err(format!("the schema knows {path}, and we say {problem:?}"));
        }
    }
    Ok(())
}

/// Compares what is read of a text by structured-merge-diff of a version.
pub fn text(text: &str, said: &Canonical, version: &str) -> Result<(), String> {
    let ours = fieldsv1::parse(text);
    // A FieldsV1 comes to us inside of an AdmissionReview: what is no JSON never does.
    if said.error.is_some() || Raw::parse(text).is_err() {
        return Ok(());
    }
    // Before 6.4 it did not see what follows the value in an element.
    if ours.is_err() && version.starts_with("v6.3.") {
        return Ok(());
    }
    let set = ours.map_err(|error| format!("not read: {error}"))?;
    differ("set", fieldsv1::write(&set).as_str(), &said.fields)?;
    differ("leaves", fieldsv1::write(&set.leaves()).as_str(), &said.leaves)
}

/// Compares what two sets make together.
pub fn algebra((left, right): &(String, String), said: &Combination) -> Result<(), String> {
    if let Some(error) = &said.error {
        return Err(format!("the oracle cannot read it: {error}"));
    }
    let read = |text: &str| fieldsv1::parse(text).map_err(|error| format!("not read: {error}"));
    let (left, right) = (read(left)?, read(right)?);
    let shared = left.intersection(&right);
    for (name, ours, theirs) in [
        ("union", left.union(&right), &said.union),
        ("difference", left.difference(&right), &said.difference),
        ("recursive difference", left.recursive_difference(&right), &said.recursive_difference),
        ("intersection", shared.clone(), &said.intersection),
    ] {
        differ(name, fieldsv1::write(&ours).as_str(), theirs.as_str())?;
    }
    differ("whether they intersect", &left.intersects(&right), &!shared.is_empty())
}

pub fn differ<T: PartialEq + std::fmt::Debug + ?Sized>(
    what: &str,
    ours: &T,
    theirs: &T,
) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what}:\n  ours   {ours:?}\n  theirs {theirs:?}"))
}

/// Splits atomic nodes in ways that no policy need have: the API server's view must not depend on it.
struct AtRandom(u64);

impl Refine for AtRandom {
    fn split(&self, path: &[Element]) -> Option<Split> {
        // The same for the same path, as it is asked more than once.
        let mut random = super::random::Random::new(self.0 ^ path.len() as u64);
        let keys = |names: &[&str]| {
            let keys = names.iter().map(|name| ListKey { name: (*name).into(), default: None });
            ListShape::Keyed(keys.collect())
        };
        match random.below(6) {
            0 => None,
            1 | 2 => Some(Split::Members),
            3 => Some(Split::Items(ListShape::Set)),
            4 => Some(Split::Items(keys(&["name"]))),
            _ => Some(Split::Items(keys(&["a", "key"]))),
        }
    }
}
