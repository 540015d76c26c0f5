//! Objects that nobody can create.
//!
//! Whoever creates an object sets every field that the schema requires. Where the owners of these fields
//! have no requester in common, each of them is refused for the fields of the others.

use super::writers::{Same, Writers, share, writers};
use super::{Findings, Severity, Subject};
use crate::ownership::pattern::Pattern;
use crate::ownership::rule::{Creation, Mode, Subject as Identity};

const RULE: &str = "no-creator";
const AT: &str = "spec.creation";

pub(super) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    let Creation::Owners { except } = &subject.policy.creation else { return };
    let required: Vec<(&Pattern, Writers<'_>)> = subject
        .facts
        .required
        .iter()
        .map(|path| (path, writers(subject.policy, path, None)))
        // Changes that no claim covers are free on CREATE.
        .filter(|(_, writers)| !writers.anybody && writers.mode == Mode::Enforce)
        .collect();
    let (severity, others) = if except.is_empty() {
        (Severity::Error, "")
    } else {
        (Severity::Warning, ", those in creation.except aside")
    };
    let closed: Vec<String> =
        required.iter().filter(|(_, writers)| writers.subjects.is_empty()).map(text).collect();
    if !closed.is_empty() {
        let message = format!(
            "nobody may create objects{others}: the schema requires {}, which is closed for everybody",
            closed.join(", ")
        );
        findings.add(severity, RULE, AT, message);
        return;
    }
    if let Some(pair) = strangers(&required) {
        let message = format!(
            "nobody may create objects{others}: the schema requires {} and {}, which have no owner in common",
            pair.0, pair.1
        );
        findings.add(severity, RULE, AT, message);
    }
}

/// Two required fields whose owners can never be one and the same.
fn strangers<'a>(required: &'a [(&Pattern, Writers<'_>)]) -> Option<(&'a Pattern, &'a Pattern)> {
    let owners = |writers: &'a Writers<'_>| -> &'a [&'a Identity] { &writers.subjects };
    required.iter().enumerate().find_map(|(index, (path, writers))| {
        let other = required
            .iter()
            .skip(index + 1)
            .find(|(_, other)| share(owners(writers), owners(other)) == Same::No)?;
        Some((*path, other.0))
    })
}

fn text(required: &(&Pattern, Writers<'_>)) -> String {
    required.0.to_string()
}
