//! Is `managedFields` still the truth about claimed fields after this request?
//!
//! Looks for entries of somebody else that lost, gained or were given another
//! time for a claimed path without a change of value that explains it, for
//! entries that no server could read, for a list that is gone, and for fields
//! that would be held beside their owner. What the API server itself does to
//! entries is told apart by its exact shape and at most noted.
//!
//! Values are not judged here: a changed value is the business of `decide`,
//! whatever the entries say.

mod hold;
mod server;

use super::diff::{Change, NodeKind};
use super::element::Element;
use super::entry::Operation;
use super::facts::Facts;
use super::fieldsv1::FieldsV1Error;
use super::finding::{Draft, finding, whole};
use super::judge::{Activities, Judgement};
use super::path::Path;
use super::raw::Node;
use super::rule::Mode;
use super::scope::Scope;
use super::set::PathSet;
use super::tracking::{ANCIENT_CHANGES, BEFORE_FIRST_APPLY, Movement};
use super::value;
use super::verdict::{Finding, Reason, Tampering};

/// What the check of one policy works with.
struct Check<'s, 'p, 'f> {
    scope: &'s Scope<'p, 'f>,
    active: Activities<'p, 'f>,
    changed: &'s PathSet,
    new: Node<'f, 'f>,
}

/// The paths whose value a request changes, for [`judge`].
pub(super) fn changed_paths(changes: &[Change<'_>]) -> PathSet {
    // That a container came or went says nothing of what else is claimed to be in it.
    let counts = |change: &&Change<'_>| change.leaf || change.node != NodeKind::Container;
    let paths = changes.iter().filter(counts).map(|change| {
        let path = change.path.elements();
        change.atomic_at.and_then(|node| path.get(..node)).unwrap_or(path)
    });
    paths.collect()
}

/// Findings about `managedFields`, and notes on what is tolerated.
pub(super) fn judge<'f>(
    scope: &Scope<'_, 'f>,
    changed: &PathSet,
    new: Node<'f, 'f>,
    findings: &mut Vec<Finding>,
    notes: &mut Vec<String>,
) {
    if scope.judge.is(&scope.policy.integrity.editors) || scope.may_create_anything() {
        return;
    }
    let active = Activities::new(scope.policy, scope.old.or(scope.new));
    let check = Check { scope, active, changed, new };
    check.unreadable(findings);
    if check.wiped(findings, notes) {
        return;
    }
    if let Err(error) = check.movements(findings, notes) {
        let why = format!("an entry of managedFields cannot be read: {error}");
        findings.push(whole(scope.policy, scope.policy.strictest(), Reason::Undecided(why)));
    }
}

/// Whether a movement is that of the manager which the request writes under.
///
/// Without the option the name came from the User-Agent, which a review does not show: then it
/// is the one Update entry of this subresource that moved and holds what changed. An entry that
/// moved without holding any of it was not moved by the server on behalf of this request.
fn is_mine(
    facts: &Facts<'_>,
    movement: &Movement<'_>,
    all: &[Movement<'_>],
    changed: &PathSet,
) -> Result<bool, FieldsV1Error> {
    if movement.subresource != facts.subresource {
        return Ok(false);
    }
    if let Some(name) = facts.field_manager {
        return Ok(movement.manager == name);
    }
    let candidate = |other: &Movement<'_>| {
        let moved = other.operation == Operation::Update
            && other.subresource == facts.subresource
            && (other.retimed || !other.gained.is_empty());
        Ok::<_, FieldsV1Error>(moved && holds_change(other, changed)?)
    };
    let gained_change =
        |other: &Movement<'_>| other.gained.iter().any(|path| explains(changed, path.elements()));
    if !candidate(movement)? {
        return Ok(false);
    }
    let (mut candidates, mut gaining) = (0, 0);
    for other in all {
        if candidate(other)? {
            candidates += 1;
            gaining += usize::from(gained_change(other));
        }
    }
    Ok(candidates == 1 || (gained_change(movement) && gaining == 1))
}

/// Whether an entry holds, after the write, a value that the write changed.
fn holds_change(movement: &Movement<'_>, changed: &PathSet) -> Result<bool, FieldsV1Error> {
    // What it gained is read already, and mostly settles it.
    if movement.gained.intersects(changed) {
        return Ok(true);
    }
    let after = movement.after.set()?;
    Ok(after.intersects(changed) || after.iter().any(|path| changed.covers_ancestor(path.elements())))
}

/// Whether the value at a path, above it in an atomic node, or below it changed.
fn explains(changed: &PathSet, path: &[Element]) -> bool {
    changed.contains(path) || changed.covers_ancestor(path) || changed.has_below(path)
}

impl Check<'_, '_, '_> {
    /// An entry that came with the request and names a version that the kind does not have.
    fn unreadable(&self, findings: &mut Vec<Finding>) {
        if self.scope.tracking.come.iter().any(|entry| !self.readable(&entry.api_version)) {
            self.report(findings, None, Tampering::Poisoned);
        }
    }

    fn readable(&self, api_version: &str) -> bool {
        let well_formed = api_version.matches('/').count() <= 1 && !api_version.is_empty();
        let versions = &self.scope.target.versions;
        well_formed && (versions.is_empty() || versions.iter().any(|version| **version == *api_version))
    }

    /// The list is gone. Tells whether there is anything left to compare.
    fn wiped(&self, findings: &mut Vec<Finding>, notes: &mut Vec<String>) -> bool {
        let tracking = self.scope.tracking;
        if !tracking.is_empty() {
            return false;
        }
        if self.scope.creating() {
            // A creation with anything to track is tracked; untracked, every later plain write is too.
            if has_anything_to_track(self.new) && !self.sets_nothing() {
                self.report(findings, None, Tampering::Wiped);
            }
            return true;
        }
        // Where the last tracked field is gone, so is the list: the changes say all there is to say.
        if tracking.was_empty() || !has_anything_to_track(self.new) {
            return true;
        }
        if tracking.gone.iter().any(|entry| !self.readable(&entry.api_version)) {
            notes.push(
                "managedFields: wiped by the API server, since an entry names a removed version".to_owned(),
            );
            return true;
        }
        let guarded = |movement: &Movement<'_>| {
            movement.lost.iter().any(|path| self.of_others(path.elements()).is_some())
        };
        if tracking.movements.iter().any(guarded) {
            self.report(findings, None, Tampering::Wiped);
        }
        true
    }

    /// Judges each movement. An error is an entry whose paths cannot be read.
    fn movements(&self, findings: &mut Vec<Finding>, notes: &mut Vec<String>) -> Result<(), FieldsV1Error> {
        if self.is_client_side_apply_upgrade()? {
            notes.push("managedFields: client-side apply was upgraded to server-side apply".to_owned());
            return Ok(());
        }
        let movements = &self.scope.tracking.movements;
        for movement in movements {
            let mine = is_mine(self.scope.facts, movement, movements, self.changed)?;
            if mine {
                self.co_ownership(movement, findings)?;
            } else {
                self.forged(movement, findings)?;
            }
            self.stripped(movement, mine, findings, notes)?;
            self.retimed(movement, mine, findings)?;
        }
        Ok(())
    }

    fn stripped(
        &self,
        movement: &Movement<'_>,
        mine: bool,
        findings: &mut Vec<Finding>,
        notes: &mut Vec<String>,
    ) -> Result<(), FieldsV1Error> {
        for path in &movement.lost.leaves() {
            let elements = path.elements();
            if explains(self.changed, elements)
                || self.held_from_above(movement.after.set()?, elements)
                || self.is_granular_container(elements)
                || self.is_absent(elements)
            {
                continue;
            }
            let Some(owners) = self.of_others(elements) else { continue };
            if mine && self.let_go(movement, elements) {
                continue;
            }
            if let Some(why) = self.server_dropped(movement, elements) {
                notes.push(format!("managedFields: {} lost {path}: {why}", movement.manager));
                continue;
            }
            self.report(findings, Some((path, owners)), Tampering::Stripped);
        }
        Ok(())
    }

    fn forged(&self, movement: &Movement<'_>, findings: &mut Vec<Finding>) -> Result<(), FieldsV1Error> {
        let by_server = (movement.manager == BEFORE_FIRST_APPLY
            && self.scope.tracking.was_empty()
            && !self.scope.creating())
            || (movement.manager == ANCIENT_CHANGES && self.has_too_many_updaters());
        if by_server && movement.operation == Operation::Update {
            return Ok(());
        }
        for path in &movement.gained.leaves() {
            let elements = path.elements();
            // A schema that became atomic moves the holders of children to the node itself.
            if movement.before.set()?.has_below(elements) || self.is_granular_container(elements) {
                continue;
            }
            if let Some(owners) = self.of_others(elements) {
                self.report(findings, Some((path, owners)), Tampering::Forged);
            }
        }
        Ok(())
    }

    /// The server moves the time of the entry that it writes, and of no other but that into which it
    /// merges the oldest ones.
    fn retimed(
        &self,
        movement: &Movement<'_>,
        mine: bool,
        findings: &mut Vec<Finding>,
    ) -> Result<(), FieldsV1Error> {
        let by_server = match movement.operation {
            _ if !movement.retimed => true,
            Operation::Apply => mine,
            // In a write of `/status` the server takes no entries from the request: it alone moves times there.
            _ if mine => self.scope.facts.subresource == "status" || holds_change(movement, self.changed)?,
            _ => movement.manager == ANCIENT_CHANGES && self.merges_oldest()?,
        };
        if by_server {
            return Ok(());
        }
        for path in &movement.after.set()?.leaves() {
            // A write of `/status` is recorded for what it sends elsewhere, each time anew, though none of it is stored.
            if self.is_absent(path.elements()) {
                continue;
            }
            if let Some(owners) = self.of_others(path.elements()) {
                self.report(findings, Some((path, owners)), Tampering::Retimed);
                break;
            }
        }
        Ok(())
    }

    /// Fields that the request's own manager would hold beside their owner.
    fn co_ownership(
        &self,
        movement: &Movement<'_>,
        findings: &mut Vec<Finding>,
    ) -> Result<(), FieldsV1Error> {
        let mode = self.scope.policy.integrity.co_ownership;
        for path in &movement.gained {
            let elements = path.elements();
            if explains(self.changed, elements) || self.held_from_above(movement.before.set()?, elements) {
                continue;
            }
            let Some(owners) = self.of_others(elements) else { continue };
            // What was held below a node that has become atomic is now held as the node.
            let rolled_up =
                movement.before.set()?.has_below(elements) && !movement.after.set()?.has_below(elements);
            if rolled_up || self.is_structure(movement, elements)? {
                continue;
            }
            // What is not there cannot be applied: such a hold was written into the entry.
            if matches!(value::at(self.new, elements, self.scope.target.schema.root()), Ok(None)) {
                self.report(findings, Some((path.clone(), owners)), Tampering::Forged);
                continue;
            }
            self.push(findings, mode, Some((path.clone(), owners)), Reason::CoOwnership);
        }
        Ok(())
    }

    /// Containers, list keys and item membership are held by everybody who holds something inside.
    fn is_structure(&self, movement: &Movement<'_>, path: &[Element]) -> Result<bool, FieldsV1Error> {
        Ok(match path {
            [item @ .., Element::Field(name)] if is_key_field(item, name) => true,
            // An item counts unless the manager gains something inside it that it may write:
            // alone, the membership would pin the item.
            [.., Element::Key(_)] => movement.gained.iter().any(|inside| {
                let inside = inside.elements();
                inside.len() > path.len()
                    && inside.starts_with(path)
                    && !matches!(inside, [item @ .., Element::Field(name)] if is_key_field(item, name))
                    && self.of_others(inside).is_none()
            }),
            _ => movement.after.set()?.has_below(path) || self.is_granular_container(path),
        })
    }

    fn judge(&self, path: &[Element]) -> Judgement<'_> {
        self.scope.judge.path(path, &self.active)
    }

    /// The owners of a path that the requester may not write; `None` when it may.
    fn of_others(&self, path: &[Element]) -> Option<Vec<usize>> {
        match self.judge(path) {
            Judgement::Owned { .. } | Judgement::Uncovered => None,
            Judgement::Undecided { .. } => Some(Vec::new()),
            Judgement::Refused { claims, .. } => Some(claims.iter().map(|claim| claim.owner).collect()),
        }
    }

    fn report(&self, findings: &mut Vec<Finding>, at: Option<(Path, Vec<usize>)>, tampering: Tampering) {
        self.push(findings, self.scope.policy.integrity.mode, at, Reason::Integrity(tampering));
    }

    fn push(&self, findings: &mut Vec<Finding>, mode: Mode, at: Option<(Path, Vec<usize>)>, reason: Reason) {
        findings.push(match at {
            None => whole(self.scope.policy, mode, reason),
            Some((path, owners)) => finding(
                self.scope,
                Draft {
                    path,
                    mode,
                    reason,
                    owners,
                    instead: None,
                    sensitive: false,
                    old: None,
                    new: None,
                    untracked: false,
                },
            ),
        });
    }
}

/// Whether an object has a field that the server tracks.
fn has_anything_to_track(object: Node<'_, '_>) -> bool {
    let members = object.members().unwrap_or_default();
    has_tracked_metadata(object)
        || members.iter().any(|(name, _)| !matches!(&**name, "apiVersion" | "kind" | "metadata"))
}

/// The same for its metadata alone.
fn has_tracked_metadata(object: Node<'_, '_>) -> bool {
    let tracked = ["labels", "annotations", "finalizers", "ownerReferences", "generateName"];
    let metadata = object.get("metadata").ok().flatten();
    metadata.is_some_and(|metadata| tracked.iter().any(|name| matches!(metadata.get(name), Ok(Some(_)))))
}

fn is_key_field(item: &[Element], name: &str) -> bool {
    matches!(item.last(), Some(Element::Key(fields)) if fields.iter().any(|(key, _)| **key == *name))
}
