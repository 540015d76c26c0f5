//! Verdict to text for people: what was refused, whose it is, what to do instead.
//!
//! Everything is bounded however many fields a request touches, and values are
//! only those that the verdict may show.

use std::fmt::Write as _;

use super::facts::{Facts, Operation};
use super::finding::shorten;
use super::path::Path;
use super::rule::Mode;
use super::verdict::{Finding, OwnerName, Reason, Shown, Tampering, Verdict};

/// Fields that a denial lists: a screenful; the rest is counted.
const SHOWN_FIELDS: usize = 10;
/// Causes in `status.details`: enough for a program, small beside the objects themselves.
const SHOWN_CAUSES: usize = 50;
/// Warnings: with [`WARNING_LENGTH`] they stay below the 4,096 characters that the API server passes on.
const SHOWN_WARNINGS: usize = 15;
/// Characters of one warning: the API server cuts at 256.
const WARNING_LENGTH: usize = 250;
/// Characters of a path in a message: keys may be as long as an object.
const PATH_LENGTH: usize = 160;
/// Identities of an owner that a message lists.
const SHOWN_IDENTITIES: usize = 3;
/// Characters of an audit annotation's value.
const ANNOTATION_LENGTH: usize = 1024;

/// One cause for `status.details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// CamelCase reason, for example `FieldOwnedByAnother`.
    pub reason: &'static str,
    /// Path in path style; empty for the whole object.
    pub field: String,
    /// One sentence.
    pub message: String,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Answer {
    /// The denial, several lines; empty when nothing is denied.
    pub message: String,
    /// One entry for each refused field, bounded.
    pub causes: Vec<Cause>,
    /// Warnings for findings in mode Warn, each bounded as the API server wants.
    pub warnings: Vec<String>,
    /// Audit annotations: key without prefix, value.
    pub annotations: Vec<(String, String)>,
}

/// Puts a verdict into words.
#[must_use]
pub fn explain(facts: &Facts<'_>, verdict: &Verdict) -> Answer {
    let of = |mode: Mode| verdict.findings.iter().filter(move |finding| finding.mode == mode);
    let refused: Vec<&Finding> = of(Mode::Enforce).collect();
    let warned: Vec<&Finding> = of(Mode::Warn).collect();
    let mut annotations = Vec::new();
    for (key, mode) in [("denied", Mode::Enforce), ("warned", Mode::Warn), ("would-deny", Mode::Audit)] {
        let findings: Vec<&Finding> = of(mode).collect();
        if !findings.is_empty() {
            annotations.push((key.to_owned(), shorten(&annotation(&findings), ANNOTATION_LENGTH)));
        }
    }
    if !verdict.break_glass.is_empty() {
        annotations.push(("break-glass".to_owned(), verdict.break_glass.join(", ")));
    }
    if !verdict.notes.is_empty() {
        annotations.push(("tolerated".to_owned(), shorten(&verdict.notes.join("; "), ANNOTATION_LENGTH)));
    }
    Answer {
        message: if refused.is_empty() { String::new() } else { denial(facts, &refused) },
        causes: refused.iter().take(SHOWN_CAUSES).map(|finding| cause(facts, finding)).collect(),
        warnings: warnings(verdict, &warned),
        annotations,
    }
}

fn denial(facts: &Facts<'_>, refused: &[&Finding]) -> String {
    let act = match facts.operation {
        Operation::Create if facts.subresource == "eviction" => "evict",
        Operation::Create => "set",
        Operation::Delete => "delete",
        Operation::Update | Operation::Connect => "change",
    };
    let fields = refused.iter().filter(|finding| finding.path.is_some()).count();
    let what = match fields {
        0 => String::new(),
        1 => "1 field of ".to_owned(),
        many => format!("{many} fields of "),
    };
    let mut text = format!("{} may not {act} {what}{}", requester(facts), object(facts));
    let shown = refused.get(..SHOWN_FIELDS).unwrap_or(refused);
    for group in grouped(shown) {
        let Some(first) = group.first() else { continue };
        for finding in group {
            if let Some(path) = &finding.path {
                let _ = write!(text, "\n  {}{}", shown_path(path), change(finding));
            }
        }
        let mut line = |label: &str, words: &str| {
            let _ = write!(text, "\n    {label:<9}{words}");
        };
        let (label, words) = why(first);
        line(label, &words);
        line("policy:", &first.policy);
        if let Some(holders) = held_by(first) {
            line("set by:", &holders);
        }
        if first.untracked {
            line("note:", UNTRACKED);
        }
        line("instead:", &instead(facts, first));
    }
    if refused.len() > shown.len() {
        let _ = write!(text, "\n  and {} more", refused.len() - shown.len());
    }
    text
}

/// Whose the field is, or else what is wrong.
fn why(finding: &Finding) -> (&'static str, String) {
    match &finding.reason {
        Reason::OwnedByAnother => ("owner:", owners(&finding.owners)),
        Reason::Closed => ("owner:", "nobody; the policy closes this field".to_owned()),
        _ => ("reason:", because(finding)),
    }
}

/// The hint for a change that no entry explains.
const UNTRACKED: &str =
    "no entry of managedFields records it: perhaps a mutating webhook changed it, not your request";

/// Neighbours that differ only in path and value share one explanation.
fn grouped<'a>(findings: &'a [&'a Finding]) -> impl Iterator<Item = &'a [&'a Finding]> {
    findings.chunk_by(|a, b| {
        a.policy == b.policy
            && a.reason == b.reason
            && a.owners == b.owners
            && a.instead == b.instead
            && a.holders == b.holders
            && a.untracked == b.untracked
            && (a.old == Shown::Absent) == (b.old == Shown::Absent)
            && (a.new == Shown::Absent) == (b.new == Shown::Absent)
    })
}

fn requester(facts: &Facts<'_>) -> String {
    let name = facts.requester.username.as_str();
    match name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':')) {
        Some((namespace, account)) => format!("ServiceAccount {namespace}/{account}"),
        None => format!("user {name:?}"),
    }
}

fn object(facts: &Facts<'_>) -> String {
    let kind = match facts.subresource {
        "scale" => "the scale of",
        "eviction" => "Pod",
        _ => facts.kind,
    };
    match (facts.namespace, facts.name) {
        (_, "") => format!("{kind} of {}", facts.resource),
        ("", name) if facts.subresource == "scale" => format!("{kind} {}/{name}", facts.resource),
        ("", name) => format!("{kind} {name:?}"),
        (namespace, name) => format!("{kind} {name:?} in namespace {namespace:?}"),
    }
}

fn change(finding: &Finding) -> String {
    let value = |shown: &Shown| match shown {
        Shown::Absent => None,
        Shown::Hidden => Some("(hidden)".to_owned()),
        Shown::Text(text) => Some(text.clone()),
    };
    match (value(&finding.old), value(&finding.new)) {
        (Some(old), Some(new)) => format!(": {old} -> {new}"),
        (Some(old), None) => format!(": {old} -> (removed)"),
        (None, Some(new)) => format!(": (unset) -> {new}"),
        (None, None) => String::new(),
    }
}

/// Why, in one clause.
fn because(finding: &Finding) -> String {
    match &finding.reason {
        Reason::OwnedByAnother => format!("owned by {}", owners(&finding.owners)),
        Reason::Closed => "closed: nobody may write it".to_owned(),
        Reason::Unlisted => {
            "no owner is declared for it, and the policy denies what it does not list".to_owned()
        }
        Reason::Deletion => "deleting it, or making it be deleted, is kept to others".to_owned(),
        Reason::Integrity(tampering) => format!("{}{}", tampered(*tampering), of_owner(&finding.owners)),
        Reason::CoOwnership => format!("would be held beside its owner, {}", owners(&finding.owners)),
        Reason::ReservedManager(name) => {
            format!("field manager {name:?} is reserved for {}", owners(&finding.owners))
        }
        Reason::RequiredManager => "its owner has to write it under a declared field manager".to_owned(),
        Reason::Undecided(why) => format!("cannot be decided: {why}"),
    }
}

fn tampered(tampering: Tampering) -> &'static str {
    match tampering {
        Tampering::Stripped => "managedFields: its holder would lose it without a change of its value",
        Tampering::Forged => "managedFields: an entry would gain it without a write of it",
        Tampering::Poisoned => "managedFields: an entry names a version that this kind does not have",
        Tampering::Wiped => "managedFields would be wiped, and later writes would go untracked",
        Tampering::Retimed => {
            "managedFields: the time of an entry that the request does not write would change"
        }
    }
}

fn of_owner(names: &[OwnerName]) -> String {
    if names.is_empty() { String::new() } else { format!("; owned by {}", owners(names)) }
}

/// Owners as a message names them.
#[must_use]
pub fn owners(names: &[OwnerName]) -> String {
    let one = |owner: &OwnerName| {
        if owner.identities.is_empty() {
            return owner.name.to_string();
        }
        let listed = owner.identities.iter().take(SHOWN_IDENTITIES).cloned().collect::<Vec<_>>().join(", ");
        match owner.identities.len().saturating_sub(SHOWN_IDENTITIES) {
            0 => format!("{} ({listed})", owner.name),
            more => format!("{} ({listed} and {more} more)", owner.name),
        }
    };
    names.iter().map(one).collect::<Vec<_>>().join(" or ")
}

fn held_by(finding: &Finding) -> Option<String> {
    if finding.holders.is_empty() {
        return None;
    }
    let holder = |holder: &super::verdict::Holder| format!("{} ({})", holder.manager, holder.operation);
    let listed = finding.holders.iter().map(holder).collect::<Vec<_>>().join(", ");
    Some(format!("field manager {listed}"))
}

/// What works. The policy author's words win.
fn instead(facts: &Facts<'_>, finding: &Finding) -> String {
    if let Some(words) = &finding.instead {
        return words.to_string();
    }
    let removed = finding.new == Shown::Absent && finding.old != Shown::Absent;
    match &finding.reason {
        Reason::OwnedByAnother | Reason::Closed if facts.operation == Operation::Create => {
            "leave the field out when creating; its owner sets it".to_owned()
        }
        Reason::OwnedByAnother if facts.subresource == "scale" => {
            "leave the count to its owner, or ask for a change of the policy".to_owned()
        }
        Reason::OwnedByAnother if removed => {
            "send the field as it is (with server-side apply: stop applying it once its owner applies it)"
                .to_owned()
        }
        Reason::OwnedByAnother => {
            "send the field unchanged, or leave it out of what you apply; its owner can change it".to_owned()
        }
        Reason::Closed => "send the field unchanged; the policy names no way to write it".to_owned(),
        Reason::Unlisted => "have the field listed in the policy, with an owner".to_owned(),
        Reason::Deletion => "ask one of those whom the policy's deletion names".to_owned(),
        Reason::Integrity(_) => {
            "leave metadata.managedFields out of the request; the API server keeps it".to_owned()
        }
        Reason::CoOwnership => "leave the field out of what you apply".to_owned(),
        Reason::ReservedManager(_) => "write under a field manager name of your own".to_owned(),
        Reason::RequiredManager => "set fieldManager to the name that the policy requires".to_owned(),
        Reason::Undecided(_) => "try again; if it stays, tell the owner of the policy".to_owned(),
    }
}

fn cause(facts: &Facts<'_>, finding: &Finding) -> Cause {
    let reason = match &finding.reason {
        Reason::OwnedByAnother => "FieldOwnedByAnother",
        Reason::Closed => "FieldClosed",
        Reason::Unlisted => "FieldNotListed",
        Reason::Deletion => "DeletionNotAllowed",
        Reason::Integrity(_) => "ManagedFieldsTampered",
        Reason::CoOwnership => "FieldCoOwned",
        Reason::ReservedManager(_) => "FieldManagerReserved",
        Reason::RequiredManager => "FieldManagerRequired",
        Reason::Undecided(_) => "Undecided",
    };
    Cause {
        reason,
        field: finding.path.as_ref().map(shown_path).unwrap_or_default(),
        message: format!(
            "{}{} (FieldPolicy {}); instead: {}",
            because(finding),
            change(finding),
            finding.policy,
            instead(facts, finding)
        ),
    }
}

fn warnings(verdict: &Verdict, warned: &[&Finding]) -> Vec<String> {
    let broken = |finding: &Finding| verdict.break_glass.contains(&finding.policy);
    let warning = |finding: &&Finding| {
        let field = finding.path.as_ref().map(|path| format!("{}{}: ", shown_path(path), change(finding)));
        let closing = if broken(finding) {
            "allowed by break-glass and recorded"
        } else {
            "will be refused once enforced"
        };
        let text = format!(
            "{}{}; {closing} (FieldPolicy {})",
            field.unwrap_or_default(),
            because(finding),
            finding.policy
        );
        shorten(&text, WARNING_LENGTH)
    };
    let mut warnings: Vec<String> = warned.iter().take(SHOWN_WARNINGS).map(warning).collect();
    if warned.len() > SHOWN_WARNINGS {
        warnings.push(format!("and {} more fields", warned.len() - SHOWN_WARNINGS));
    }
    warnings
}

fn annotation(findings: &[&Finding]) -> String {
    let one = |finding: &&Finding| match &finding.path {
        Some(path) => format!("{}: {}", finding.policy, shown_path(path)),
        None => format!("{}: {}", finding.policy, because(finding)),
    };
    findings.iter().take(SHOWN_CAUSES).map(one).collect::<Vec<_>>().join("; ")
}

fn shown_path(path: &Path) -> String {
    shorten(&path.to_string(), PATH_LENGTH)
}
