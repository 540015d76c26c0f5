//! The decision: facts and a target's policies in, a verdict out.
//!
//! Authority is the requester's identity against the policies; the evidence is
//! the typed difference between the stored and the new object. `managedFields`
//! serve integrity and explanation, never authority. What cannot be decided is
//! never allowed where a policy enforces.
//!
//! Every policy is judged by itself and the strictest finding wins, so that
//! adding a policy can never widen access.

use std::slice;
use std::sync::Arc;

use super::claimed::ClaimedShapes;
use super::diff::{Change, DiffError, Difference, difference};
use super::element::Element;
use super::facts::{Facts, Operation};
use super::finding::{undecided_findings, whole};
use super::integrity;
use super::judge::Judge;
use super::raw::{Node, Raw, Tree};
use super::reserved;
use super::rule::{Mode, Policy, Target};
use super::scale;
use super::scope::Scope;
use super::selection;
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
    let Some(target) = selection::narrow(facts, target) else { return Decision::NeedsParent };
    let target = &*target;
    let findings = match facts.operation {
        _ if target.policies.is_empty() => Vec::new(),
        Operation::Connect => Vec::new(),
        Operation::Delete => judge_deletion(facts, target),
        Operation::Create if is_eviction(facts) => judge_deletion(facts, target),
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
    let target = &*selection::narrow_unjudged(facts, target);
    conclude(facts, target, undecided_findings(target, why), Vec::new())
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
        let place = |finding: &Finding| (finding.path.is_none(), finding.path.clone());
        b.mode.cmp(&a.mode).then_with(|| place(a).cmp(&place(b))).then_with(|| a.policy.cmp(&b.policy))
    });
    findings.dedup();
    Verdict { findings, break_glass, notes }
}

/// Labels, annotations, finalizers and owner references of which there are none: the server shows them in a
/// review as they were sent, and stores nothing.
fn is_never_stored(change: &Change<'_>) -> bool {
    let nothing = |side: Option<Raw<'_>>| side.is_none_or(Raw::is_empty_container);
    let [Element::Field(top), Element::Field(name)] = change.path.elements() else { return false };
    **top == *"metadata"
        && matches!(&**name, "labels" | "annotations" | "finalizers" | "ownerReferences")
        && nothing(change.old)
        && nothing(change.new)
}

/// A pod is deleted through this subresource too, and the deletion inside is never reviewed.
fn is_eviction(facts: &Facts<'_>) -> bool {
    facts.group.is_empty() && facts.resource == "pods" && facts.subresource == "eviction"
}

fn judge_deletion(facts: &Facts<'_>, target: &Target) -> Vec<Finding> {
    let mut findings = Vec::new();
    for policy in &target.policies {
        let Some(deleters) = &policy.deletion else { continue };
        if Judge::new(policy, facts).is(deleters) || system::may_delete(facts) {
            continue;
        }
        if facts.old_object.is_none() && !is_eviction(facts) {
            let why = "the review of a deletion does not carry the object".to_owned();
            findings.push(whole(policy, policy.mode, Reason::Undecided(why)));
            continue;
        }
        findings.push(whole(policy, policy.mode, Reason::Deletion));
    }
    findings
}

fn judge_write(facts: &Facts<'_>, target: &Target) -> Verdict {
    let undecided = |why: &str| undecided(facts, target, why);
    let Some(new) = facts.object else {
        return undecided("the review does not carry the object");
    };
    let old = facts.old_object;
    match (facts.operation, old) {
        (Operation::Update, None) => {
            return undecided("the review of an update does not carry the old object");
        }
        (Operation::Create, Some(_)) => return undecided("the review of a creation carries an old object"),
        _ => {}
    }
    if facts.version != &*target.version && !target.any_version {
        return undecided(&format!(
            "the object is of version {} and the policies' paths are written for {}",
            facts.version, target.version
        ));
    }
    // Both sides come from one encoder with sorted keys: equal bytes are equal objects.
    if old.is_some_and(|old| old.text() == new.text()) {
        return Verdict::default();
    }
    let trees = (old.map(Tree::new).transpose(), Tree::new(new));
    match trees {
        (Ok(old), Ok(new)) => compare(facts, target, old.as_ref().map(Tree::root), new.root()),
        (Err(error), _) | (_, Err(error)) => undecided(&error.to_string()),
    }
}

/// Judges what becomes of a stored object.
fn compare<'f>(
    facts: &'f Facts<'f>,
    target: &Target,
    old: Option<Node<'f, 'f>>,
    new: Node<'f, 'f>,
) -> Verdict {
    let read = |policies: &[Arc<Policy>]| {
        let shapes = ClaimedShapes { policies, creating: old.is_none() };
        let mut found = difference((old, Some(new)), &target.schema, Some(&shapes))?;
        found.changes.retain(|change| !is_never_stored(change));
        Ok::<_, DiffError>(found)
    };
    let Difference { changes, managed_fields } = match read(&target.policies) {
        Ok(found) => found,
        Err(error) => return undecided(facts, target, &error.to_string()),
    };
    let tracking = match Tracking::read(managed_fields) {
        Ok(tracking) => tracking,
        Err(error) => return undecided(facts, target, &error.to_string()),
    };
    let moved = integrity::changed_paths(&changes);
    // How an atomic node is told apart is for each policy's own claims to say: what one claims of it makes no other
    // look closer. It hardly ever comes to that, so the difference is shared until it does.
    let each_its_own = target.policies.len() > 1 && changes.iter().any(|change| change.split);
    let mut notes = Vec::new();
    let mut findings = Vec::new();
    for policy in &target.policies {
        let own = if each_its_own { Some(read(slice::from_ref(policy))) } else { None };
        let own = match own.transpose() {
            Ok(own) => own.map(|own| (integrity::changed_paths(&own.changes), own.changes)),
            Err(error) => return undecided(facts, target, &error.to_string()),
        };
        let (moved, changes) = own.as_ref().map_or((&moved, &changes), |(moved, changes)| (moved, changes));
        let judge = Judge::new(policy, facts);
        let tracking = &tracking;
        let scope = Scope { facts, target, policy, judge, tracking, changes, old, new: Some(new) };
        scope.judge_changes(&mut findings, &mut notes);
        reserved::judge(&scope, &mut findings);
        integrity::judge(&scope, moved, new, &mut findings, &mut notes);
    }
    conclude(facts, target, findings, notes)
}
