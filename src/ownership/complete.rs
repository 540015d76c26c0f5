//! Keys that a path leaves out, filled in from the schema.
//!
//! Input: a compiled policy, which knows no schema, and the schema of its target. Output: the same policy with the
//! defaults of list keys in the paths of its claims, so that `[port=80]` is the item that the API server stores for
//! it and not that of every protocol.
//!
//! Must not touch a path otherwise: a key without a default stays left out, and covers every item that matches.

use std::sync::Arc;

use super::pattern::{Pattern, Step};
use super::rule::Policy;
use super::schema::{ListNode, ListShape, Schema, SchemaNode};

/// The policy with complete keys; itself where nothing is left out.
#[must_use]
pub fn complete(policy: &Arc<Policy>, schema: &Schema) -> Arc<Policy> {
    let completed: Vec<Option<Pattern>> =
        policy.claims.iter().map(|claim| complete_pattern(&claim.pattern, schema)).collect();
    if completed.iter().all(Option::is_none) {
        return policy.clone();
    }
    let mut policy = Policy::clone(policy);
    for (claim, pattern) in policy.claims.iter_mut().zip(completed) {
        if let Some(pattern) = pattern {
            claim.pattern = pattern;
        }
    }
    // A longer key is more specific.
    policy.claims.sort_by(|a, b| a.pattern.cmp_specificity(&b.pattern));
    Arc::new(policy)
}

/// `None` where nothing is to be filled in.
fn complete_pattern(pattern: &Pattern, schema: &Schema) -> Option<Pattern> {
    let mut node = Some(schema.root());
    let mut changed = false;
    let mut steps = Vec::with_capacity(pattern.steps().len());
    for step in pattern.steps() {
        let filled = node.and_then(|node| complete_step(step, node));
        changed |= filled.is_some();
        steps.push(filled.unwrap_or_else(|| step.clone()));
        node = node.and_then(|node| below(step, node));
    }
    if changed { Pattern::from_steps(steps) } else { None }
}

fn complete_step(step: &Step, node: &SchemaNode) -> Option<Step> {
    let (Step::Key(fields), ListShape::Keyed(keys)) = (step, node.list()?.shape()) else { return None };
    let left_out = keys.iter().filter(|key| !fields.iter().any(|(name, _)| *name == key.name));
    let defaults: Vec<_> = left_out
        .filter_map(|key| key.default.as_ref().map(|default| (key.name.clone(), default.clone())))
        .collect();
    if defaults.is_empty() {
        return None;
    }
    Some(Step::Key(fields.iter().cloned().chain(defaults).collect()))
}

/// The node that a step leads to, as far as the schema knows.
fn below<'s>(step: &Step, node: &'s SchemaNode) -> Option<&'s SchemaNode> {
    match step {
        Step::Field(name) => node.map()?.field(name),
        Step::Key(_) | Step::Value(_) => Some(node.list()?.item()),
        Step::Any => node.list().map(ListNode::item).or_else(|| node.map()?.element()),
    }
}
