//! Where claims lie below atomic nodes, and which list keys they name there.
//!
//! The API server takes an atomic list or map as one value and knows no keys for
//! it; the policies do. So a changed atomic node is split along the claims below
//! it, and a claim is judged by the value at its own path.

use std::sync::Arc;

use super::diff::{Refine, Split};
use super::element::Element;
use super::pattern::Step;
use super::rule::Policy;
use super::schema::{ListKey, ListShape};

/// The claims of some policies as a way to look into atomic nodes.
pub(super) struct ClaimedShapes<'t> {
    pub(super) policies: &'t [Arc<Policy>],
    /// Whether the object is being created.
    pub(super) creating: bool,
}

impl Refine for ClaimedShapes<'_> {
    fn split(&self, path: &[Element]) -> Option<Split> {
        let claims = self.policies.iter().flat_map(|policy| &policy.claims);
        let below = claims.filter(|claim| claim.pattern.reaches_below(path));
        let mut keys: Vec<Arc<str>> = Vec::new();
        let (mut members, mut set) = (false, false);
        for step in below.filter_map(|claim| claim.pattern.steps().get(path.len())) {
            match step {
                Step::Value(_) => set = true,
                // Claims that name different keys are all met by items told apart by all of them.
                Step::Key(fields) => {
                    for (name, _) in fields.iter() {
                        if !keys.contains(name) {
                            keys.push(name.clone());
                        }
                    }
                }
                // `[*]` says nothing of how to tell items apart; a map is split by member all the same.
                Step::Field(_) | Step::Any => members = true,
            }
        }
        if !keys.is_empty() {
            keys.sort();
            let keys = keys.into_iter().map(|name| ListKey { name, default: None });
            return Some(Split::Items(ListShape::Keyed(keys.collect())));
        }
        if set {
            return Some(Split::Items(ListShape::Set));
        }
        members.then_some(Split::Members)
    }

    /// What is created outside every claim concerns nobody, so it is not even listed.
    fn descends(&self, path: &[Element]) -> bool {
        let metadata = matches!(path, [Element::Field(name)] if **name == *"metadata");
        let mut claims = self.policies.iter().flat_map(|policy| &policy.claims);
        !self.creating
            || metadata
            || claims.any(|claim| claim.pattern.covers(path) || claim.pattern.reaches_below(path))
    }
}
