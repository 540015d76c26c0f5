//! A policy against the others on its target.
//!
//! Policies are judged one by one and the strictest verdict wins, so a second policy only ever takes away.
//! Where two of them name different owners for one path, whoever satisfies the one is refused by the other.

use super::truth::exclusive;
use super::writers::{Same, Writers, covers, share, writers};
use super::{Findings, Severity, Subject};
use crate::ownership::condition::Expr;
use crate::ownership::pattern::Pattern;
use crate::ownership::rule::{Identity, Mode, Policy};

pub(super) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    for other in subject.others {
        let mut said: Vec<Pattern> = Vec::new();
        for field in &subject.fields {
            let path = &field.claim.pattern;
            let at = format!("{}.path", field.at);
            compare(subject, other, path, field.when(), &at, &mut said, findings);
            // A more specific claim of the other's is about a part of this path.
            let deeper = other.claims.iter().filter(|claim| {
                let below = claim.pattern.steps().len() > path.steps().len();
                below && covers(path, &claim.pattern) && !exclusive(claim.when.as_ref(), field.when())
            });
            for claim in deeper {
                // Only where this very claim decides: a more specific one of our own speaks for itself.
                let ours = writers(subject.policy, &claim.pattern, claim.when.as_ref());
                if ours.claims.first().is_some_and(|first| first.pattern == *path) {
                    compare(subject, other, &claim.pattern, claim.when.as_ref(), &at, &mut said, findings);
                }
            }
        }
    }
}

/// Says whether anybody is left who may write `path` under both policies.
fn compare(
    subject: &Subject<'_>,
    other: &Policy,
    path: &Pattern,
    when: Option<&Expr>,
    at: &str,
    said: &mut Vec<Pattern>,
    findings: &mut Findings,
) {
    let (ours, theirs) = (writers(subject.policy, path, when), writers(other, path, when));
    // A path that a policy closes stays closed, whatever the other says.
    if ours.anybody || theirs.anybody || ours.subjects.is_empty() || said.contains(path) {
        return;
    }
    let shared = share(&ours.subjects, &theirs.subjects);
    if shared == Same::Yes {
        return;
    }
    said.push(path.clone());
    let enforced = ours.mode == Mode::Enforce && theirs.mode == Mode::Enforce;
    let only_groups = |writers: &Writers<'_>| {
        writers.subjects.iter().all(|subject| matches!(subject.identity, Identity::Group(_)))
    };
    let (severity, message) = if theirs.subjects.is_empty() {
        let message = format!("policy {} closes {path} for everybody, its owners here included", other.name);
        (Severity::Warning, message)
    } else if shared == Same::No {
        let message = format!(
            "policy {} names other owners for {path}: each policy refuses the owners of the other, so nobody may \
             write it",
            other.name
        );
        (if enforced { Severity::Error } else { Severity::Warning }, message)
    } else {
        let message = format!(
            "policy {} names other owners for {path}: only who is an owner in both may write it",
            other.name
        );
        // Two groups may well be meant to be narrowed to their common members.
        (if only_groups(&ours) && only_groups(&theirs) { Severity::Note } else { Severity::Warning }, message)
    };
    findings.add(severity, "contradicting-policies", at, message);
}
