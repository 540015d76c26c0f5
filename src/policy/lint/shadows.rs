//! Claims of one policy against each other: which never count, and which leave a gap.

use super::truth::{always, constant, exclusive, exhaustive};
use super::writers::covers;
use super::{Field, Findings, Severity, Subject};
use crate::ownership::condition::Expr;
use crate::ownership::pattern::{Pattern, Step};
use crate::ownership::rule::{Mode, Unlisted};

pub(super) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    for (index, field) in subject.fields.iter().enumerate() {
        condition(field, findings);
        same_path(subject, index, field, findings);
        below(subject, field, findings);
    }
    gaps(subject, findings);
}

fn condition(field: &Field, findings: &mut Findings) {
    match field.when().and_then(constant) {
        Some(false) => {
            let message = format!("never true, so {} is never claimed here", field.claim.pattern);
            findings.add(Severity::Error, "never-holds", format!("{}.when", field.at), message);
        }
        Some(true) => {
            let message = "true for every object; remove it";
            findings.add(Severity::Note, "always-holds", format!("{}.when", field.at), message);
        }
        None => {}
    }
}

/// A claim and the ones on the same path.
fn same_path(subject: &Subject<'_>, index: usize, field: &Field, findings: &mut Findings) {
    let path = &field.claim.pattern;
    let at = || format!("{}.path", field.at);
    let same = subject.fields.iter().enumerate().filter(|(_, other)| other.claim.pattern == *path);
    let mut closed = false;
    for (position, other) in same.filter(|(position, _)| *position != index) {
        let (own, name) = (other.claim.owner == field.claim.owner, owner_name(subject, other));
        let equal = other.when() == field.when() || (always(other.when()) && always(field.when()));
        if own {
            if equal && position < index {
                let message = format!("{path} is claimed twice under the same condition: {}", other.at);
                findings.add(Severity::Warning, "duplicate-claim", at(), message);
            }
            continue;
        }
        if subject.closes(other) && !subject.closes(field) && (equal || always(other.when())) {
            closed = true;
            let message = format!("never grants {path}: {name} has no subjects and closes the same path");
            findings.add(Severity::Error, "closed-claim", at(), message);
        }
    }
    // Said once for each pair, at the later claim.
    let earlier = subject.fields.iter().take(index).filter(|other| other.claim.pattern == *path);
    for other in earlier.filter(|other| other.claim.owner != field.claim.owner) {
        let grants = !closed && !subject.closes(other) && !subject.closes(field);
        if grants && !exclusive(other.when(), field.when()) {
            let message =
                format!("{} and {} both own {path}", owner_name(subject, other), owner_name(subject, field));
            let together = if other.when() == field.when() {
                "can undo each other's writes"
            } else {
                "can undo each other's writes where both conditions hold"
            };
            findings.add(Severity::Note, "shared-path", at(), format!("{message} and {together}"));
        }
    }
}

/// A claim and the broader ones above it.
fn below(subject: &Subject<'_>, field: &Field, findings: &mut Findings) {
    let path = &field.claim.pattern;
    let above = subject.fields.iter().filter(|other| {
        let shorter = other.claim.pattern.steps().len() < path.steps().len();
        shorter && covers(&other.claim.pattern, path) && always(other.when())
    });
    let mut stricter: Option<&Field> = None;
    for other in above {
        if other.claim.mode > stricter.map_or(field.claim.mode, |found| found.claim.mode) {
            stricter = Some(other);
        }
        let is_item = matches!(other.claim.pattern.steps().last(), Some(Step::Key(_) | Step::Value(_)));
        if is_item && subject.closes(other) && !subject.closes(field) {
            let message = format!(
                "nobody may add or remove {}, so {path} can be written only where the item exists already",
                other.claim.pattern
            );
            findings.add(Severity::Warning, "closed-item", format!("{}.path", field.at), message);
        }
    }
    if let Some(stricter) = stricter {
        let (mode, own) = (stricter.claim.mode.as_str(), field.claim.mode.as_str());
        let message = format!(
            "mode {own} softens nothing: {} is claimed in mode {mode}, so anybody but the owners of either is judged \
             in mode {mode}",
            stricter.claim.pattern
        );
        findings.add(Severity::Warning, "milder-claim", format!("{}.mode", field.at), message);
    }
}

/// Paths that are claimed only under conditions, and belong to nobody while none of these holds.
fn gaps(subject: &Subject<'_>, findings: &mut Findings) {
    let mut said: Vec<&Pattern> = Vec::new();
    for field in &subject.fields {
        let path = &field.claim.pattern;
        // One that never holds is reported as such; a path is reported once.
        if field.when().is_none_or(|when| constant(when).is_some()) || said.contains(&path) {
            continue;
        }
        let covering: Vec<&Field> =
            subject.fields.iter().filter(|other| covers(&other.claim.pattern, path)).collect();
        let whens: Vec<&Expr> = covering.iter().filter_map(|other| other.when()).collect();
        if covering.iter().any(|other| always(other.when())) || exhaustive(&whens) {
            continue;
        }
        // What no claim covers falls to `unlisted`, which does not reach into metadata.
        let in_metadata = matches!(path.steps().first(), Some(Step::Field(top)) if **top == *"metadata");
        let severity = match subject.policy.unlisted {
            Unlisted::Deny if !in_metadata => continue,
            Unlisted::Warn if !in_metadata => Severity::Note,
            _ if field.claim.mode == Mode::Audit => Severity::Note,
            _ => Severity::Warning,
        };
        said.push(path);
        let message = format!(
            "while no condition of the claims on {path} holds, anybody may write it: claim it, or a path above it, \
             without a condition"
        );
        findings.add(severity, "when-gap", format!("{}.when", field.at), message);
    }
}

fn owner_name<'s>(subject: &'s Subject<'_>, field: &Field) -> &'s str {
    subject.owner(field).map(|owner| &*owner.name).unwrap_or_default()
}
