//! One policy in one request: which of its changes the requester may not make.
//!
//! Input: the typed difference, the requester, one policy. Output: findings, and
//! notes on what is tolerated. Each changed leaf is judged once.

use super::defaults;
use super::diff::{Change, ChangeKind, NodeKind};
use super::element::Element;
use super::facts::{Facts, Operation};
use super::finding::{Draft, finding};
use super::judge::{Activities, Judge, Judgement};
use super::mutation::{self, Origin};
use super::path::Path;
use super::raw::{Kind, Node, Raw};
use super::rule::{Creation, Mode, Policy, Target, Unlisted};
use super::system;
use super::tracking::Tracking;
use super::verdict::{Finding, Reason};

/// One policy in one request.
pub(super) struct Scope<'p, 'f> {
    pub(super) facts: &'f Facts<'f>,
    pub(super) target: &'p Target,
    pub(super) policy: &'p Policy,
    pub(super) judge: Judge<'p, 'f>,
    pub(super) tracking: &'f Tracking<'f>,
    pub(super) changes: &'f [Change<'f>],
    /// The stored object.
    pub(super) old: Option<Node<'f, 'f>>,
    /// What it becomes.
    pub(super) new: Option<Node<'f, 'f>>,
}

impl<'p, 'f> Scope<'p, 'f> {
    /// Findings about the changes that the requester may not make, and notes on those that a
    /// mutating webhook made.
    pub(super) fn judge_changes(&self, findings: &mut Vec<Finding>, notes: &mut Vec<String>) {
        if self.may_create_anything() {
            return;
        }
        // On CREATE there is no stored object: conditions read the new one.
        let before = Activities::new(self.policy, self.old.or(self.new));
        let mut refused = self.refused(&before, notes);
        if !self.creating() && !refused.is_empty() && self.may_rely_on_new_state(&refused) {
            // The write legally changes what a condition reads, so it may also rely on ownership
            // under the new state: one commit can switch the mode and set the field.
            let after = Activities::new(self.policy, self.new);
            let still = self.refused(&after, &mut Vec::new());
            refused.retain(|draft| {
                self.reads(&draft.path) || still.iter().any(|other| other.path == draft.path)
            });
        }
        findings.extend(refused.into_iter().map(|draft| finding(self, draft)));
    }

    pub(super) fn creating(&self) -> bool {
        self.facts.operation == Operation::Create
    }

    /// Whether the stored object is being deleted already.
    pub(super) fn is_deleting(&self) -> bool {
        let metadata = self.old.and_then(|old| old.get("metadata").ok().flatten());
        metadata.is_some_and(|metadata| matches!(metadata.get("deletionTimestamp"), Ok(Some(_))))
    }

    /// Whether this is a creation in which the requester may set every claimed field.
    pub(super) fn may_create_anything(&self) -> bool {
        self.creating()
            && match &self.policy.creation {
                Creation::Anyone => true,
                Creation::Owners { except } => self.judge.is(except),
            }
    }

    /// The changes that the requester may not make, given which claims are active.
    fn refused(&self, active: &Activities<'p, '_>, notes: &mut Vec<String>) -> Vec<Draft<'f>> {
        let mut refused: Vec<Draft<'f>> = Vec::new();
        let mut owned_item: Option<&[Element]> = None;
        for change in self.changes {
            let path = change.path.elements();
            if owned_item.is_some_and(|item| path.starts_with(item)) {
                continue;
            }
            if change.node == NodeKind::Item && self.judge.owns_item(path, active) {
                owned_item = Some(path);
                continue;
            }
            // Its parts follow, each with a judgement of its own.
            if change.split || (!change.leaf && change.node != NodeKind::Item) {
                continue;
            }
            if (self.creating() && self.set_by_nobody(change)) || system::may_change(self.facts, change) {
                continue;
            }
            if let Some(draft) = self.draft(change, active, notes)
                && refused.last().is_none_or(|last| last.path != draft.path || last.reason != draft.reason)
            {
                refused.push(draft);
            }
        }
        refused
    }

    fn draft(
        &self,
        change: &'f Change<'f>,
        active: &Activities<'p, '_>,
        notes: &mut Vec<String>,
    ) -> Option<Draft<'f>> {
        let path = change.path.elements();
        // What changed inside these is not known, so claims on any part of them are touched.
        let opaque = matches!(change.node, NodeKind::Duplicates | NodeKind::Atomic);
        // The members of a map that became a list, or was one, are changes of their own.
        let mut sides = [change.old, change.new].into_iter().flatten();
        let is_list = change.node == NodeKind::Atomic && sides.any(|side| side.kind() == Kind::Array);
        let judgement = match self.judge.path(path, active) {
            allowed @ (Judgement::Owned { .. } | Judgement::Uncovered) if opaque => {
                self.judge.below(path, active, is_list).unwrap_or(allowed)
            }
            judgement => judgement,
        };
        let depth = match &judgement {
            Judgement::Refused { depth, .. }
            | Judgement::Undecided { depth, .. }
            | Judgement::Owned { depth } => *depth,
            Judgement::Uncovered => 0,
        };
        // A change inside an atomic node is judged at the node unless a claim lies below it.
        let at = match change.atomic_at {
            Some(node) if depth <= node => path.get(..node).unwrap_or(path),
            _ => path,
        };
        let whole_node = at.len() < path.len();
        let draft = |mode, reason, owners, instead, sensitive| Draft {
            path: at.iter().cloned().collect::<Path>(),
            mode,
            reason,
            owners,
            instead,
            sensitive,
            old: if whole_node { None } else { change.old },
            new: if whole_node { None } else { change.new },
            untracked: false,
        };
        if self.policy.deletion.is_some() && self.leads_to_deletion(change) && !self.may_delete() {
            return Some(draft(self.policy.mode, Reason::Deletion, Vec::new(), None, false));
        }
        match judgement {
            Judgement::Owned { .. } => None,
            Judgement::Refused { mode, why, claims, .. } => {
                // A parent's change is judged part by part, so only leaves are compared.
                if claims.iter().all(|claim| claim.compare.same(change.old, change.new)) {
                    notes.push(format!("{}: the same value, written differently", change.path));
                    return None;
                }
                let origin = mutation::origin(self, change, &claims, active);
                if origin == Origin::Mutator {
                    notes.push(format!("{}: changed by a mutating webhook or policy", change.path));
                    return None;
                }
                let sensitive = claims.iter().any(|claim| claim.sensitive);
                let instead = claims.iter().find_map(|claim| claim.instead.clone());
                let owners = claims.iter().map(|claim| claim.owner).collect();
                let draft = draft(mode, why.into(), owners, instead, sensitive);
                Some(Draft { untracked: origin == Origin::Untracked, ..draft })
            }
            Judgement::Undecided { mode, text, .. } => {
                Some(draft(mode, Reason::Undecided(text), Vec::new(), None, false))
            }
            Judgement::Uncovered => {
                let metadata = matches!(path.first(), Some(Element::Field(name)) if **name == *"metadata");
                if self.creating() || metadata {
                    return None;
                }
                let mode = self.unlisted_mode()?;
                let origin = mutation::origin(self, change, &[], active);
                if origin == Origin::Mutator {
                    notes.push(format!("{}: changed by a mutating webhook or policy", change.path));
                    return None;
                }
                let draft = draft(mode, Reason::Unlisted, Vec::new(), None, false);
                Some(Draft { untracked: origin == Origin::Untracked, ..draft })
            }
        }
    }

    /// In which mode a change outside every claim is judged, if at all.
    pub(super) fn unlisted_mode(&self) -> Option<Mode> {
        match self.policy.unlisted {
            Unlisted::Allow => None,
            Unlisted::Warn => Some(self.policy.mode.min(Mode::Warn)),
            Unlisted::Deny => Some(self.policy.mode),
        }
    }

    /// Whether the change makes a controller delete the object, now or sooner than it would.
    fn leads_to_deletion(&self, change: &Change<'_>) -> bool {
        // What is created with it is not lost by it.
        !self.creating()
            && (is_added_owner_reference(change)
                || (self.facts.group == "batch" && self.facts.resource == "jobs" && is_shorter_life(change)))
    }

    fn may_delete(&self) -> bool {
        self.policy.deletion.as_ref().is_none_or(|deleters| self.judge.is(deleters))
    }

    /// A value that a default of the schema, or one in the API server's code, put there was set by nobody.
    fn set_by_nobody(&self, change: &Change<'_>) -> bool {
        let (ChangeKind::Added, Some(value)) = (change.kind, change.new) else { return false };
        let path = change.path.elements();
        // A default that cannot be read is no excuse: the value counts as set.
        self.target.schema.is_default(path, value).unwrap_or(false)
            || self.new.is_some_and(|object| defaults::is_default(self.target, object, path, value))
    }

    /// Whether a condition reads a leaf that this write changes, and each such leaf is changed legally.
    fn may_rely_on_new_state(&self, refused: &[Draft<'_>]) -> bool {
        self.changes.iter().any(|change| self.reads(&change.path))
            && !refused.iter().any(|draft| self.reads(&draft.path))
    }

    /// Whether a condition of this policy reads the path, something above it or something below it.
    fn reads(&self, path: &Path) -> bool {
        let conditions = self.policy.claims.iter().filter_map(|claim| claim.when.as_ref());
        conditions.flat_map(|condition| condition.reads()).any(|read| {
            read.iter()
                .zip(path.elements())
                .all(|(name, element)| matches!(element, Element::Field(field) if **field == **name))
        })
    }
}

/// A reference to an owner that is gone makes the garbage collector delete the object.
fn is_added_owner_reference(change: &Change<'_>) -> bool {
    change.kind == ChangeKind::Added
        && matches!(change.path.elements(), [Element::Field(metadata), Element::Field(references), ..]
            if **metadata == *"metadata" && **references == *"ownerReferences")
}

/// A finished job is deleted after `ttlSecondsAfterFinished`, and never without it.
fn is_shorter_life(change: &Change<'_>) -> bool {
    let [Element::Field(spec), Element::Field(seconds)] = change.path.elements() else { return false };
    if **spec != *"spec" || **seconds != *"ttlSecondsAfterFinished" {
        return false;
    }
    let number = |raw: Option<Raw<'_>>| raw.and_then(|raw| raw.text().parse::<u64>().ok());
    match (number(change.old), number(change.new)) {
        (_, None) => change.new.is_some(),
        (None, Some(_)) => true,
        (Some(old), Some(new)) => new < old,
    }
}
