//! Who may write a path under a policy, as far as its text says.
//!
//! Input: a policy, a path, the condition that is taken to hold. Output: the subjects that may, or that
//! anybody may. Follows the decision's rule (the most specific active claims decide; a milder claim does
//! not take a stricter broader one away) and errs towards more writers.

use crate::ownership::condition::Expr;
use crate::ownership::pattern::{Pattern, Step};
use crate::ownership::rule::{Claim, Identity, Mode, NamespaceSource, Policy, Subject};

use super::truth;

/// Who may write.
pub(super) struct Writers<'p> {
    /// They may, unless [`Writers::anybody`].
    pub subjects: Vec<&'p Subject>,
    /// The claims that decide, the most specific first.
    pub claims: Vec<&'p Claim>,
    /// No claim is certain to decide, so perhaps everybody may.
    pub anybody: bool,
    /// The mode in which anybody else is judged.
    pub mode: Mode,
}

/// Who may write what `path` names while `when` holds.
pub(super) fn writers<'p>(policy: &'p Policy, path: &Pattern, when: Option<&Expr>) -> Writers<'p> {
    let mut found = Writers { subjects: Vec::new(), claims: Vec::new(), anybody: true, mode: Mode::Enforce };
    // Claims on one path stand together, the most specific path first.
    for group in policy.claims.chunk_by(|a, b| a.pattern == b.pattern) {
        if !group.first().is_some_and(|claim| covers(&claim.pattern, path)) {
            continue;
        }
        let active: Vec<&Claim> =
            group.iter().filter(|claim| !truth::exclusive(claim.when.as_ref(), when)).collect();
        let certain = |claim: &&&Claim| {
            truth::always(claim.when.as_ref()) || (when.is_some() && claim.when.as_ref() == when)
        };
        let strictest = active.iter().filter(certain).map(|claim| claim.mode).max();
        if !found.anybody && strictest.is_none_or(|mode| mode <= found.mode) {
            continue;
        }
        let grants = |claim: &&Claim| subjects(policy, claim);
        let closed = active.iter().filter(certain).any(|claim| grants(claim).is_empty());
        if !closed {
            found.subjects.extend(active.iter().flat_map(grants));
        }
        found.claims.extend(&active);
        if let Some(mode) = strictest {
            found.anybody = false;
            found.mode = mode;
        }
    }
    found
}

fn subjects<'p>(policy: &'p Policy, claim: &Claim) -> &'p [Subject] {
    policy.owners.get(claim.owner).map(|owner| &*owner.subjects).unwrap_or_default()
}

/// Whether every path that `below` names lies at or below one that `above` names.
pub(super) fn covers(above: &Pattern, below: &Pattern) -> bool {
    let (above, below) = (above.steps(), below.steps());
    above.len() <= below.len()
        && above.iter().zip(below).all(|(above, below)| match (above, below) {
            (Step::Any, _) => true,
            (Step::Key(some), Step::Key(all)) => some.iter().all(|field| all.contains(field)),
            (above, below) => above == below,
        })
}

/// Whether two subjects can be one and the same requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Same {
    /// Never.
    No,
    /// If somebody is in both groups, or a user in a group.
    Perhaps,
    /// They are the same.
    Yes,
}

/// Whether some requester can be in both lists.
pub(super) fn share(left: &[&Subject], right: &[&Subject]) -> Same {
    let pairs = left.iter().flat_map(|left| right.iter().map(move |right| same(left, right)));
    pairs.max().unwrap_or(Same::No)
}

fn same(left: &Subject, right: &Subject) -> Same {
    match (&left.identity, &right.identity) {
        (Identity::Group(a), Identity::Group(b)) if a == b => Same::Yes,
        (Identity::Group(_), _) | (_, Identity::Group(_)) => Same::Perhaps,
        (Identity::User(a), Identity::User(b)) => yes_if(a == b),
        (Identity::User(user), Identity::ServiceAccount { namespace, name })
        | (Identity::ServiceAccount { namespace, name }, Identity::User(user)) => match namespace {
            NamespaceSource::Named(namespace) => {
                yes_if(**user == *format!("system:serviceaccount:{namespace}:{name}"))
            }
            NamespaceSource::Object if user.ends_with(&format!(":{name}")) => Same::Perhaps,
            NamespaceSource::Object => Same::No,
        },
        (
            Identity::ServiceAccount { namespace: a, name: left },
            Identity::ServiceAccount { namespace: b, name: right },
        ) => {
            let from_object = [a, b].into_iter().any(|source| matches!(source, NamespaceSource::Object));
            match (left == right, a == b) {
                (true, true) => Same::Yes,
                (true, false) if from_object => Same::Perhaps,
                _ => Same::No,
            }
        }
    }
}

fn yes_if(same: bool) -> Same {
    if same { Same::Yes } else { Same::No }
}
