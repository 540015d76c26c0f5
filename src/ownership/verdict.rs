//! What a decision says: findings, each with its mode, in a stable order.
//!
//! A verdict is data. The text for people is made by `explain`, the answer for
//! the API server by the admission edge.

use std::sync::Arc;

use super::path::Path;
use super::rule::Mode;

/// Why a finding was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The field belongs to another owner.
    OwnedByAnother,
    /// Nobody may write the field.
    Closed,
    /// No claim covers the field and the policy denies what it does not list.
    Unlisted,
    /// The object may not be deleted by this requester.
    Deletion,
    /// An entry of `managedFields` that guards the field was tampered with.
    Integrity(Tampering),
    /// The field would be held beside its owner.
    CoOwnership,
    /// This field manager name is reserved for another owner.
    ReservedManager(Arc<str>),
    /// The owner has to write under one of its declared manager names.
    RequiredManager,
    /// It could not be decided; the text says why.
    Undecided(String),
}

/// What was done to `managedFields`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tampering {
    /// A holder lost the field without a change of its value.
    Stripped,
    /// Somebody else's entry gained the field.
    Forged,
    /// An entry names a version that the kind does not have.
    Poisoned,
    /// The list is gone.
    Wiped,
    /// The time of somebody else's entry moved.
    Retimed,
}

/// Who owns a field, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerName {
    /// The owner's name inside its policy.
    pub name: Arc<str>,
    /// Its identities as people write them, for example `ServiceAccount fieldkeeper-system/autoscaler`.
    pub identities: Vec<String>,
}

/// What the entry of a field in the stored object says, for explanation only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Field manager.
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
}

/// One thing that a policy has to say of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the policy.
    pub policy: Arc<str>,
    /// What becomes of it.
    pub mode: Mode,
    /// Why.
    pub reason: Reason,
    /// The field; `None` where the finding is about the whole object.
    pub path: Option<Path>,
    /// Value before, shortened; `None` when absent, or never shown.
    pub old: Shown,
    /// Value after.
    pub new: Shown,
    /// Owners of the field by this policy.
    pub owners: Vec<OwnerName>,
    /// What to do instead, in the policy author's words.
    pub instead: Option<Arc<str>>,
    /// Who holds the field by `managedFields` before the request.
    pub holders: Vec<Holder>,
    /// The value changed and no entry of `managedFields` records it: the change may be that of a
    /// mutating webhook, or the entries are frozen.
    pub untracked: bool,
}

/// A value as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Shown {
    /// There is no value, or none to speak of.
    #[default]
    Absent,
    /// Never printed.
    Hidden,
    /// JSON text, shortened to at most [`Shown::LIMIT`] characters.
    Text(String),
}

/// A request that was judged.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Findings of every policy, refusals first, then in order of path and policy.
    pub findings: Vec<Finding>,
    /// Policies whose `breakGlass` turned refusals into warnings.
    pub break_glass: Vec<Arc<str>>,
    /// Tolerated oddities, for the audit annotation.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Whether the request is to be refused.
    #[must_use]
    pub fn denies(&self) -> bool {
        self.findings.iter().any(|finding| finding.mode == Mode::Enforce)
    }

    /// The strictest mode of any finding.
    #[must_use]
    pub fn strictest(&self) -> Option<Mode> {
        self.findings.iter().map(|finding| finding.mode).max()
    }
}
