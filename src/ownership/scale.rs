//! `/scale`: a write of one count of the parent object.
//!
//! The review carries two `Scale` objects, rebuilt from the parent: no managed
//! fields, no labels, and an absent count looks like nothing at all. So the
//! count is mapped to the parent's path, and where a condition reads the parent
//! or an absent count is ambiguous, the parent itself is asked for.

use super::element::Element;
use super::facts::Facts;
use super::finding::{Draft, finding, undecided_findings};
use super::judge::{Activities, Judge, Judgement};
use super::path::Path;
use super::pattern::Pattern;
use super::raw::{Raw, RawError, Tree};
use super::reserved;
use super::rule::{Claim, Mode, Policy, Target, Unlisted};
use super::scope::Scope;
use super::tracking::Tracking;
use super::value;
use super::verdict::{Finding, Reason};

/// Whether some write of this target's `/scale` can only be judged with the object itself.
#[must_use]
pub fn may_need_parent(target: &Target) -> bool {
    let path = target.scale.as_ref().and_then(|scale| scale.replicas.literal_path());
    path.is_some_and(|path| {
        let concerned =
            |policy: &Policy| policy.selection.objects.is_some() || has_a_say(policy, path.elements());
        target.policies.iter().any(|policy| concerned(policy))
    })
}

/// Whether a policy may have something against a new count.
fn has_a_say(policy: &Policy, count: &[Element]) -> bool {
    policy.unlisted != Unlisted::Allow || claims_on(policy, count).next().is_some()
}

fn claims_on<'p>(policy: &'p Policy, count: &'p [Element]) -> impl Iterator<Item = &'p Claim> {
    policy.claims.iter().filter(move |claim| claim.pattern.covers(count))
}

/// Judges a `/scale` request; `None` when the parent is needed and not among the facts.
pub(super) fn judge(facts: &Facts<'_>, target: &Target) -> Option<Vec<Finding>> {
    let (Some(scale), Some(new), Some(old)) = (&target.scale, facts.object, facts.old_object) else {
        return Some(undecided_findings(target, "the review does not show what /scale writes"));
    };
    match (count_of(old), count_of(new)) {
        (Ok(before), Ok(after)) => judge_count(facts, target, &scale.replicas, before, after),
        (Err(error), _) | (_, Err(error)) => Some(undecided_findings(target, &error.to_string())),
    }
}

fn count_of(scale: Raw<'_>) -> Result<Option<Raw<'_>>, RawError> {
    match scale.get("spec")? {
        Some(spec) => spec.get("replicas"),
        None => Ok(None),
    }
}

fn judge_count(
    facts: &Facts<'_>,
    target: &Target,
    replicas: &Pattern,
    before: Option<Raw<'_>>,
    after: Option<Raw<'_>>,
) -> Option<Vec<Finding>> {
    let path = replicas.literal_path()?;
    // `{}` stands for "no count" and for zero alike: only the parent tells whether zero is new.
    let zero = |count: Option<Raw<'_>>| count.is_none_or(|count| count.text() == "0");
    let ambiguous = zero(before) && zero(after);
    let needed = |policy: &Policy| {
        let mut claims = claims_on(policy, path.elements());
        if ambiguous { has_a_say(policy, path.elements()) } else { claims.any(|claim| claim.when.is_some()) }
    };
    if facts.parent.is_none() && target.policies.iter().any(|policy| needed(policy)) {
        return None;
    }
    let undecided = |error: &RawError| undecided_findings(target, &error.to_string());
    let parent = match facts.parent.map(Tree::new).transpose() {
        Ok(parent) => parent,
        Err(error) => return Some(undecided(&error)),
    };
    let parent = parent.as_ref().map(Tree::root);
    let stored = match parent.map(|parent| value::at(parent, path.elements(), target.schema.root())) {
        None => before,
        Some(Ok(stored)) => stored,
        Some(Err(error)) => return Some(undecided(&error)),
    };
    // The server stores an absent count as zero.
    let after = after.unwrap_or(Raw::ZERO);
    let changed = stored.map(Raw::text) != Some(after.text());
    let tracking = Tracking::default();
    let mut findings = Vec::new();
    for policy in &target.policies {
        let judge = Judge::new(policy, facts);
        let (tracking, none) = (&tracking, &[]);
        let scope = Scope { facts, target, policy, judge, tracking, changes: none, old: parent, new: None };
        reserved::judge(&scope, &mut findings);
        if let Some(draft) = refused(&scope, &path, changed, stored, Some(after)) {
            findings.push(finding(&scope, draft));
        }
    }
    Some(findings)
}

fn refused<'c>(
    scope: &Scope<'_, '_>,
    path: &Path,
    changed: bool,
    stored: Option<Raw<'c>>,
    after: Option<Raw<'c>>,
) -> Option<Draft<'c>> {
    // An equal count sent under a field manager holds the field beside its owner. Who may edit entries may hold
    // any field.
    let holds = scope.facts.field_manager.is_some() && !scope.judge.is(&scope.policy.integrity.editors);
    if !changed && !holds {
        return None;
    }
    let active = Activities::new(scope.policy, scope.old);
    let co_owned = |mode: Mode| mode.min(scope.policy.integrity.co_ownership);
    let (mode, reason, claims) = match scope.judge.path(path.elements(), &active) {
        Judgement::Owned { .. } => return None,
        Judgement::Uncovered => match scope.unlisted_mode() {
            Some(mode) if changed => (mode, Reason::Unlisted, Vec::new()),
            _ => return None,
        },
        Judgement::Undecided { mode, text, .. } => (mode, Reason::Undecided(text), Vec::new()),
        Judgement::Refused { mode, why, claims, .. } if changed => (mode, why.into(), claims),
        Judgement::Refused { mode, claims, .. } => (co_owned(mode), Reason::CoOwnership, claims),
    };
    Some(Draft {
        path: path.clone(),
        mode,
        reason,
        owners: claims.iter().map(|claim| claim.owner).collect(),
        instead: claims.iter().find_map(|claim| claim.instead.clone()),
        sensitive: claims.iter().any(|claim| claim.sensitive),
        old: stored,
        new: after,
        untracked: false,
    })
}
