//! The decision: facts and a target's policies in, a verdict out.
//!
//! Authority is the requester's identity against the policies; the evidence is
//! the typed difference between the stored and the new object. `managedFields`
//! serve integrity and explanation, never authority. What cannot be decided is
//! never allowed where a policy enforces.
//!
//! Every policy is judged by itself and the strictest finding wins, so that
//! adding a policy can never widen access.

use std::sync::Arc;

use super::claimed::ClaimedShapes;
use super::diff::{Change, ChangeKind, NodeKind, diff};
use super::element::Element;
use super::facts::{Facts, Operation};
use super::finding::{Draft, finding, whole};
use super::integrity;
use super::judge::{Activities, Judge, Judgement};
use super::path::Path;
use super::raw::Raw;
use super::reserved;
use super::rule::{Creation, Mode, Policy, Target, Unlisted};
use super::scale;
use super::system;
use super::tracking::Tracking;
use super::verdict::{Finding, Reason, Verdict};

/// Seconds that a pause may lie ahead: a day. A forgotten pause must not stay for good.
pub const MAX_PAUSE: i64 = 24 * 60 * 60;

/// What came of judging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Judged.
    Decided(Verdict),
    /// A `/scale` request that can only be judged with the object itself: read it at the
    /// reviewed uid and resource version, put it into [`Facts::parent`] and ask again.
    NeedsParent,
}

/// Judges one request.
#[must_use]
pub fn decide(facts: &Facts<'_>, target: &Target) -> Decision {
    let findings = match facts.operation {
        Operation::Connect => Vec::new(),
        Operation::Delete => judge_deletion(facts, target),
        Operation::Create | Operation::Update if facts.subresource == "scale" => {
            match scale::judge(facts, target) {
                Some(findings) => findings,
                None => return Decision::NeedsParent,
            }
        }
        Operation::Create | Operation::Update => return Decision::Decided(judge_write(facts, target)),
    };
    Decision::Decided(conclude(facts, target, findings, Vec::new()))
}

/// A request that cannot be judged: a finding in each policy's strictest mode.
///
/// For callers who learn of the trouble outside `decide`, such as a parent that could not be read.
#[must_use]
pub fn undecided(facts: &Facts<'_>, target: &Target, why: &str) -> Verdict {
    conclude(facts, target, undecided_findings(target, why), Vec::new())
}

pub(super) fn undecided_findings(target: &Target, why: &str) -> Vec<Finding> {
    target
        .policies
        .iter()
        .map(|policy| whole(policy, policy.strictest(), Reason::Undecided(why.to_owned())))
        .collect()
}

/// Applies what holds for a policy as a whole (pause, break-glass) and puts the findings in order.
fn conclude(facts: &Facts<'_>, target: &Target, mut findings: Vec<Finding>, notes: Vec<String>) -> Verdict {
    let mut break_glass: Vec<Arc<str>> = Vec::new();
    for policy in &target.policies {
        let mut own = findings.iter_mut().filter(|finding| finding.policy == policy.name).peekable();
        if own.peek().is_none() {
            continue;
        }
        let paused =
            policy.paused_until.is_some_and(|until| facts.now < until && until - facts.now <= MAX_PAUSE);
        let glass = Judge::new(policy, facts).is(&policy.break_glass);
        for finding in own {
            if paused {
                finding.mode = Mode::Audit;
            } else if glass && finding.mode == Mode::Enforce {
                finding.mode = Mode::Warn;
                if !break_glass.contains(&policy.name) {
                    break_glass.push(policy.name.clone());
                }
            }
        }
    }
    findings.sort_by(|a, b| {
        (b.mode.cmp(&a.mode)).then_with(|| a.path.cmp(&b.path)).then_with(|| a.policy.cmp(&b.policy))
    });
    findings.dedup();
    Verdict { findings, break_glass, notes }
}

fn judge_deletion(facts: &Facts<'_>, target: &Target) -> Vec<Finding> {
    let mut findings = Vec::new();
    for policy in &target.policies {
        let Some(deleters) = &policy.deletion else { continue };
        if Judge::new(policy, facts).is(deleters) || system::may_delete(facts) {
            continue;
        }
        if facts.old_object.is_none() {
            let why = "the review of a deletion does not carry the object".to_owned();
            findings.push(whole(policy, policy.mode, Reason::Undecided(why)));
            continue;
        }
        findings.push(whole(policy, policy.mode, Reason::Deletion));
    }
    findings
}

fn judge_write(facts: &Facts<'_>, target: &Target) -> Verdict {
    let undecided = |why: &str| conclude(facts, target, undecided_findings(target, why), Vec::new());
    let Some(new) = facts.object.map(Raw::from) else {
        return undecided("the review does not carry the object");
    };
    let old = facts.old_object.map(Raw::from);
    match (facts.operation, old) {
        (Operation::Update, None) => {
            return undecided("the review of an update does not carry the old object");
        }
        (Operation::Create, Some(_)) => return undecided("the review of a creation carries an old object"),
        _ => {}
    }
    if facts.version != &*target.version {
        return undecided(&format!(
            "the object is of version {} and the policies' paths are written for {}",
            facts.version, target.version
        ));
    }
    // Both sides come from one encoder with sorted keys: equal bytes are equal objects.
    if old.is_some_and(|old| old.text() == new.text()) {
        return Verdict::default();
    }
    let changes = match diff(old, Some(new), &target.schema, Some(&ClaimedShapes(target))) {
        Ok(changes) => changes,
        Err(error) => return undecided(&error.to_string()),
    };
    let tracking = match Tracking::read(old, Some(new)) {
        Ok(tracking) => tracking,
        Err(error) => return undecided(&error.to_string()),
    };
    let moved = integrity::changed_paths(&changes);
    let mut notes = Vec::new();
    let mut findings = Vec::new();
    for policy in &target.policies {
        let scope = Scope { facts, target, policy, judge: Judge::new(policy, facts), tracking: &tracking };
        scope.judge_changes(&changes, &mut findings);
        reserved::judge(&scope.judge, facts, &tracking, &mut findings);
        integrity::judge(&scope, &moved, new, &mut findings, &mut notes);
    }
    conclude(facts, target, findings, notes)
}

/// One policy in one request.
pub(super) struct Scope<'p, 'f> {
    pub(super) facts: &'f Facts<'f>,
    pub(super) target: &'p Target,
    pub(super) policy: &'p Policy,
    pub(super) judge: Judge<'p, 'f>,
    pub(super) tracking: &'f Tracking<'f>,
}

impl<'p> Scope<'p, '_> {
    fn judge_changes(&self, changes: &[Change<'_>], findings: &mut Vec<Finding>) {
        if self.may_create_anything() {
            return;
        }
        // On CREATE there is no stored object: conditions read the new one.
        let before = Activities::new(self.policy, self.facts.old_object.or(self.facts.object));
        let mut refused = self.refused(changes, &before);
        if !self.creating() && !refused.is_empty() && self.may_rely_on_new_state(changes, &refused) {
            // The write legally changes what a condition reads, so it may also rely on ownership
            // under the new state: one commit can switch the mode and set the field.
            let after = Activities::new(self.policy, self.facts.object);
            let still = self.refused(changes, &after);
            refused.retain(|draft| {
                self.reads(&draft.path) || still.iter().any(|other| other.path == draft.path)
            });
        }
        findings.extend(refused.into_iter().map(|draft| finding(self, draft)));
    }

    pub(super) fn creating(&self) -> bool {
        self.facts.operation == Operation::Create
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
    fn refused<'c>(&self, changes: &'c [Change<'_>], active: &Activities<'p, '_>) -> Vec<Draft<'c>> {
        let mut refused: Vec<Draft<'c>> = Vec::new();
        let mut owned_item: Option<&[Element]> = None;
        for change in changes {
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
            if let Some(draft) = self.draft(change, active)
                && refused.last().is_none_or(|last| last.path != draft.path || last.reason != draft.reason)
            {
                refused.push(draft);
            }
        }
        refused
    }

    fn draft<'c>(&self, change: &'c Change<'_>, active: &Activities<'p, '_>) -> Option<Draft<'c>> {
        let path = change.path.elements();
        // What changed inside these is not known, so claims on any part of them are touched.
        let opaque = matches!(change.node, NodeKind::Duplicates | NodeKind::Atomic);
        let judgement = match self.judge.path(path, active) {
            allowed @ (Judgement::Owned { .. } | Judgement::Uncovered) if opaque => {
                self.judge.below(path, active).unwrap_or(allowed)
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
        };
        if self.policy.deletion.is_some() && is_added_owner_reference(change) && !self.may_delete() {
            // A reference to an owner that is gone makes the garbage collector delete the object.
            return Some(draft(self.policy.mode, Reason::Deletion, Vec::new(), None, false));
        }
        match judgement {
            Judgement::Owned { .. } => None,
            Judgement::Refused { mode, why, claims, .. } => {
                let sensitive = claims.iter().any(|claim| claim.sensitive);
                let instead = claims.iter().find_map(|claim| claim.instead.clone());
                let owners = claims.iter().map(|claim| claim.owner).collect();
                Some(draft(mode, why.into(), owners, instead, sensitive))
            }
            Judgement::Undecided { mode, text, .. } => {
                Some(draft(mode, Reason::Undecided(text), Vec::new(), None, false))
            }
            Judgement::Uncovered => {
                let metadata = matches!(path.first(), Some(Element::Field(name)) if **name == *"metadata");
                if self.creating() || metadata {
                    return None;
                }
                Some(draft(self.unlisted_mode()?, Reason::Unlisted, Vec::new(), None, false))
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

    fn may_delete(&self) -> bool {
        self.policy.deletion.as_ref().is_none_or(|deleters| self.judge.is(deleters))
    }

    /// A value that the schema's default put there was set by nobody.
    fn set_by_nobody(&self, change: &Change<'_>) -> bool {
        change.kind == ChangeKind::Added
            && change.new.is_some_and(|value| {
                // A default that cannot be read is no excuse: the value counts as set.
                self.target.schema.is_default(change.path.elements(), value).unwrap_or(false)
            })
    }

    /// Whether a condition reads a leaf that this write changes, and each such leaf is changed legally.
    fn may_rely_on_new_state(&self, changes: &[Change<'_>], refused: &[Draft<'_>]) -> bool {
        changes.iter().any(|change| self.reads(&change.path))
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

fn is_added_owner_reference(change: &Change<'_>) -> bool {
    change.kind == ChangeKind::Added
        && matches!(change.path.elements(), [Element::Field(metadata), Element::Field(references), ..]
            if **metadata == *"metadata" && **references == *"ownerReferences")
}
