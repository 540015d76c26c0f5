//! From a refusal to a finding: names, shortened values, recorded holders.
//!
//! Only what is refused pays for this work.

use std::sync::Arc;

use super::element::Element;
use super::judge::Refusal;
use super::path::Path;
use super::raw::Raw;
use super::rule::{Identity, Mode, NamespaceSource, Owner, Policy, Subject, Target};
use super::scope::Scope;
use super::tracking::Tracking;
use super::verdict::{Finding, OwnerName, Reason, Shown};

/// A refusal that is not yet put into names.
#[derive(Clone, Debug)]
pub(super) struct Draft<'c> {
    pub(super) path: Path,
    pub(super) mode: Mode,
    pub(super) reason: Reason,
    /// Indexes into the policy's owners.
    pub(super) owners: Vec<usize>,
    pub(super) instead: Option<Arc<str>>,
    pub(super) sensitive: bool,
    pub(super) old: Option<Raw<'c>>,
    pub(super) new: Option<Raw<'c>>,
    /// No entry of `managedFields` moved although the value changed.
    pub(super) untracked: bool,
}

impl From<Refusal> for Reason {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Owned => Self::OwnedByAnother,
            Refusal::Closed => Self::Closed,
            Refusal::Manager => Self::RequiredManager,
        }
    }
}

/// A finding about the whole object.
pub(super) fn whole(policy: &Policy, mode: Mode, reason: Reason) -> Finding {
    Finding {
        policy: policy.name.clone(),
        mode,
        reason,
        path: None,
        old: Shown::Absent,
        new: Shown::Absent,
        owners: Vec::new(),
        instead: None,
        holders: Vec::new(),
        untracked: false,
    }
}

/// One in each policy's strictest mode: the request as a whole cannot be judged.
pub(super) fn undecided_findings(target: &Target, why: &str) -> Vec<Finding> {
    target
        .policies
        .iter()
        .map(|policy| whole(policy, policy.strictest(), Reason::Undecided(why.to_owned())))
        .collect()
}

/// A finding about one path.
pub(super) fn finding(scope: &Scope<'_, '_>, draft: Draft<'_>) -> Finding {
    let hidden = draft.sensitive || scope.target.sensitive || touches_sensitive(scope, &draft.path);
    let holders = Tracking::holders_before(scope.old, &draft.path);
    Finding {
        policy: scope.policy.name.clone(),
        mode: draft.mode,
        reason: draft.reason,
        old: Shown::of(draft.old, hidden),
        new: Shown::of(draft.new, hidden),
        owners: owner_names(scope.policy, &draft.owners),
        instead: draft.instead,
        holders,
        untracked: draft.untracked,
        path: Some(draft.path),
    }
}

/// Whether the value at a path contains one that a claim calls sensitive, or is part of one that another policy does. (In
/// its own policy the claim that decides has spoken for the path itself.)
fn touches_sensitive(scope: &Scope<'_, '_>, path: &[Element]) -> bool {
    scope.target.policies.iter().any(|policy| {
        let others = policy.name != scope.policy.name;
        let mut sensitive = policy.claims.iter().filter(|claim| claim.sensitive).map(|claim| &claim.pattern);
        sensitive.any(|pattern| pattern.reaches_below(path) || (others && pattern.covers(path)))
    })
}

/// The names of owners, each once, in the order given.
pub(super) fn owner_names(policy: &Policy, indexes: &[usize]) -> Vec<OwnerName> {
    let mut names: Vec<OwnerName> = Vec::new();
    for owner in indexes.iter().filter_map(|index| policy.owners.get(*index)) {
        if !names.iter().any(|known| known.name == owner.name) {
            names.push(OwnerName::of(owner));
        }
    }
    names
}

impl OwnerName {
    /// The names of an owner and of its identities.
    #[must_use]
    pub fn of(owner: &Owner) -> Self {
        Self { name: owner.name.clone(), identities: owner.subjects.iter().map(describe).collect() }
    }
}

/// A subject as people write it.
fn describe(subject: &Subject) -> String {
    match &subject.identity {
        Identity::User(name) => format!("User {name}"),
        Identity::Group(name) => format!("Group {name}"),
        Identity::ServiceAccount { namespace: NamespaceSource::Named(namespace), name } => {
            format!("ServiceAccount {namespace}/{name}")
        }
        Identity::ServiceAccount { namespace: NamespaceSource::Object, name } => {
            format!("ServiceAccount {name} of the object's namespace")
        }
    }
}

/// Cuts text to a number of characters and says so.
pub(super) fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => text.chars().take(limit.saturating_sub(1)).chain(['…']).collect(),
    }
}

impl Shown {
    /// Characters of a value that a message shows: enough for a name or a number, little enough
    /// for a line in a terminal.
    pub const LIMIT: usize = 60;

    /// A value as it may be shown.
    #[must_use]
    pub fn of(value: Option<Raw<'_>>, hidden: bool) -> Self {
        match value {
            None => Self::Absent,
            Some(_) if hidden => Self::Hidden,
            Some(value) => Self::Text(shorten(value.text(), Self::LIMIT)),
        }
    }
}
