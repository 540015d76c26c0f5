//! Which objects a policy governs: selectors over labels.
//!
//! In: a policy's compiled selectors, and the facts. Out: the target with those
//! policies that govern the object, or the wish to see the parent of a `/scale`
//! request, which shows no labels.
//!
//! An object is governed if its stored *or* its new state matches: leaving and
//! entering are writes to a governed object. What cannot be told is governed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::facts::{Facts, Operation};
use super::raw::{Raw, RawError};
use super::rule::{Policy, Target};

/// Labels of an object or of a namespace.
pub type Labels = BTreeMap<String, String>;

/// Subresources whose reviews carry the object itself.
const WITH_OBJECT: [&str; 6] = ["", "status", "resize", "ephemeralcontainers", "finalize", "approval"];

/// What is asked of one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// It has one of these values.
    In(Vec<Arc<str>>),
    /// It has none of these values; an absent label has none.
    NotIn(Vec<Arc<str>>),
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

/// One condition of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Key of the label.
    pub key: Arc<str>,
    /// What is asked of it.
    pub test: Test,
}

/// A label selector: all requirements hold. Without any, everything matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(pub Vec<Requirement>);

/// The objects that a policy governs; all of them by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Over the labels of the object's namespace; says nothing of cluster-scoped objects.
    pub namespaces: Option<Selector>,
    /// Over the labels of the object.
    pub objects: Option<Selector>,
}

impl Selector {
    /// Whether the labels meet every requirement.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|Requirement { key, test }| {
            let value = labels.get(&**key);
            let among =
                |values: &[Arc<str>]| value.is_some_and(|value| values.iter().any(|one| **one == **value));
            match test {
                Test::In(values) => among(values),
                Test::NotIn(values) => !among(values),
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
            }
        })
    }
}

/// The target with the policies that govern the object; `None` if only the parent of `/scale` tells.
pub(super) fn narrow<'t>(facts: &Facts<'_>, target: &'t Target) -> Option<Cow<'t, Target>> {
    let mut governing = Vec::new();
    let mut states = None;
    for policy in &target.policies {
        if !by_namespace(facts, policy) {
            continue;
        }
        if let Some(selector) = &policy.selection.objects {
            if facts.subresource == "scale" && facts.parent.is_none() && facts.operation != Operation::Delete
            {
                return None;
            }
            if !by_object(selector, states.get_or_insert_with(|| labels_of_states(facts))) {
                continue;
            }
        }
        governing.push(policy.clone());
    }
    Some(narrowed(target, governing))
}

/// As [`narrow`] for requests that cannot be judged: only those policies are left out that surely do not govern.
pub(super) fn narrow_unjudged<'t>(facts: &Facts<'_>, target: &'t Target) -> Cow<'t, Target> {
    narrow(facts, target).unwrap_or_else(|| {
        let governing = target.policies.iter().filter(|policy| by_namespace(facts, policy));
        narrowed(target, governing.cloned().collect())
    })
}

fn narrowed(target: &Target, policies: Vec<Arc<Policy>>) -> Cow<'_, Target> {
    if policies.len() == target.policies.len() {
        Cow::Borrowed(target)
    } else {
        Cow::Owned(Target { policies, ..target.clone() })
    }
}

fn by_namespace(facts: &Facts<'_>, policy: &Policy) -> bool {
    // The review of a Namespace names it as its namespace, but it is in none.
    let is_namespace = facts.group.is_empty() && facts.resource == "namespaces";
    let namespaced = !facts.namespace.is_empty() && !is_namespace;
    let Some(selector) = policy.selection.namespaces.as_ref().filter(|_| namespaced) else { return true };
    // A namespace of which nothing is known may be a governed one.
    facts.namespace_labels.is_none_or(|labels| selector.matches(labels))
}

/// Labels of the stored and the new state; none at all where they cannot be told.
fn labels_of_states(facts: &Facts<'_>) -> Vec<Labels> {
    let states = match facts.subresource {
        "scale" => [facts.parent, None],
        subresource if WITH_OBJECT.contains(&subresource) => [facts.old_object, facts.object],
        _ => [None, None],
    };
    // One state that cannot be read is as good as none: the object may be governed by it.
    let labels: Result<Vec<Labels>, RawError> = states.into_iter().flatten().map(labels_of).collect();
    labels.unwrap_or_default()
}

fn by_object(selector: &Selector, states: &[Labels]) -> bool {
    states.is_empty() || states.iter().any(|labels| selector.matches(labels))
}

fn labels_of(object: Raw<'_>) -> Result<Labels, RawError> {
    let Some(metadata) = object.get("metadata")? else { return Ok(Labels::new()) };
    let Some(labels) = metadata.get("labels")? else { return Ok(Labels::new()) };
    let mut found = Labels::new();
    for (name, value) in labels.members()? {
        found.insert(name.into_owned(), value.string()?.into_owned());
    }
    Ok(found)
}
