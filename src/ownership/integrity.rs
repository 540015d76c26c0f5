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

use super::diff::Change;
use super::element::Element;
use super::entry::Operation;
use super::facts::Facts;
use super::finding::{Draft, finding, whole};
use super::judge::{Activities, Judgement};
use super::path::Path;
use super::raw::{Kind, Raw};
use super::rule::Mode;
use super::schema::{ListShape, MapNode, Step};
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
    new: Raw<'f>,
}

/// The paths whose value a request changes, for [`judge`].
pub(super) fn changed_paths(changes: &[Change<'_>]) -> PathSet {
    let mut paths = PathSet::default();
    for change in changes {
        let path = change.path.elements();
        paths.insert(change.atomic_at.and_then(|node| path.get(..node)).unwrap_or(path));
    }
    paths
}

/// Findings about `managedFields`, and notes on what is tolerated.
pub(super) fn judge<'f>(
    scope: &Scope<'_, 'f>,
    changed: &PathSet,
    new: Raw<'f>,
    findings: &mut Vec<Finding>,
    notes: &mut Vec<String>,
) {
    if scope.judge.is(&scope.policy.integrity.editors) || scope.may_create_anything() {
        return;
    }
    let active = Activities::new(scope.policy, scope.facts.old_object.or(scope.facts.object));
    let check = Check { scope, active, changed, new };
    check.unreadable(findings);
    if check.wiped(findings, notes) {
        return;
    }
    if check.is_client_side_apply_upgrade() {
        notes.push("managedFields: client-side apply was upgraded to server-side apply".to_owned());
        return;
    }
    for movement in &scope.tracking.movements {
        if is_mine(scope.facts, movement, &scope.tracking.movements, changed) {
            check.co_ownership(movement, findings);
        } else {
            check.stripped(movement, findings, notes);
            check.forged(movement, findings);
            check.retimed(movement, findings);
        }
    }
}

/// Whether a movement is that of the manager which the request writes under.
///
/// Without the option the name came from the User-Agent, which a review does not show: then it
/// is the one Update entry of this subresource that moved, or the one that gained what changed.
fn is_mine(facts: &Facts<'_>, movement: &Movement, all: &[Movement], changed: &PathSet) -> bool {
    if movement.subresource != facts.subresource {
        return false;
    }
    if let Some(name) = facts.field_manager {
        return movement.manager == name;
    }
    let candidate = |other: &Movement| {
        other.operation == Operation::Update
            && other.subresource == facts.subresource
            && (other.retimed || !other.gained.is_empty())
    };
    let gained_change = |other: &Movement| other.gained.iter().any(|path| explains(changed, path.elements()));
    if !candidate(movement) {
        return false;
    }
    match all.iter().filter(|other| candidate(other)).count() {
        1 => true,
        _ => gained_change(movement) && all.iter().filter(|o| candidate(o) && gained_change(o)).count() == 1,
    }
}

/// Whether the value at a path, above it in an atomic node, or below it changed.
fn explains(changed: &PathSet, path: &[Element]) -> bool {
    changed.contains(path) || changed.covers_ancestor(path) || changed.has_below(path)
}

impl Check<'_, '_, '_> {
    /// An entry that came with the request and names a version that the kind does not have.
    fn unreadable(&self, findings: &mut Vec<Finding>) {
        let tracking = self.scope.tracking;
        let known = |entry: &&super::entry::ManagedFieldsEntry<'_>| {
            tracking.before.iter().any(|old| old.raw == entry.raw) || self.readable(&entry.api_version)
        };
        if tracking.after.iter().any(|entry| !known(&entry)) {
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
        if !tracking.after.is_empty() {
            return false;
        }
        if self.scope.creating() {
            // A plain creation is always tracked; untracked, every later plain write is untracked too.
            let claimed =
                self.changed.iter().any(|path| !matches!(self.judge(path.elements()), Judgement::Uncovered));
            if claimed {
                self.report(findings, None, Tampering::Wiped);
            }
            return true;
        }
        if tracking.before.is_empty() {
            return true;
        }
        if tracking.before.iter().any(|entry| !self.readable(&entry.api_version)) {
            notes.push(
                "managedFields: wiped by the API server, since an entry names a removed version".to_owned(),
            );
            return true;
        }
        let guarded =
            |movement: &Movement| movement.lost.iter().any(|path| self.of_others(path.elements()).is_some());
        if tracking.movements.iter().any(guarded) {
            self.report(findings, None, Tampering::Wiped);
        }
        true
    }

    fn stripped(&self, movement: &Movement, findings: &mut Vec<Finding>, notes: &mut Vec<String>) {
        for path in &movement.lost.leaves() {
            let elements = path.elements();
            if explains(self.changed, elements)
                || self.held_from_above(&movement.after, elements)
                || self.is_granular_container(elements)
            {
                continue;
            }
            let Some(owners) = self.of_others(elements) else { continue };
            if let Some(why) = self.server_dropped(movement, elements) {
                notes.push(format!("managedFields: {} lost {path}: {why}", movement.manager));
                continue;
            }
            self.report(findings, Some((path, owners)), Tampering::Stripped);
        }
    }

    /// What the API server itself takes from other entries without a change of value.
    fn server_dropped(&self, movement: &Movement, path: &[Element]) -> Option<&'static str> {
        let ancient = self.scope.tracking.movements.iter().any(|other| {
            other.manager == ANCIENT_CHANGES
                && other.operation == Operation::Update
                && other.gained.contains(path)
        });
        if ancient && movement.operation == Operation::Update {
            return Some("merged into ancient-changes");
        }
        let Some(Element::Field(top)) = path.first() else { return None };
        match (self.scope.facts.subresource, &**top) {
            ("", "status") => Some("a stale status in a write of the main resource"),
            ("status", "metadata" | "spec") => Some("a stale object in a write of /status"),
            ("resize" | "ephemeralcontainers", "metadata" | "status") => {
                Some("a stale object in a write of a pod's subresource")
            }
            _ => None,
        }
    }

    fn forged(&self, movement: &Movement, findings: &mut Vec<Finding>) {
        let by_server = (movement.manager == BEFORE_FIRST_APPLY
            && self.scope.tracking.before.is_empty()
            && !self.scope.creating())
            || movement.manager == ANCIENT_CHANGES;
        if by_server && movement.operation == Operation::Update {
            return;
        }
        for path in &movement.gained.leaves() {
            let elements = path.elements();
            // A schema that became atomic moves the holders of children to the node itself.
            if movement.before.has_below(elements) || self.is_granular_container(elements) {
                continue;
            }
            if let Some(owners) = self.of_others(elements) {
                self.report(findings, Some((path, owners)), Tampering::Forged);
            }
        }
    }

    fn retimed(&self, movement: &Movement, findings: &mut Vec<Finding>) {
        if !movement.retimed {
            return;
        }
        for path in &movement.after.leaves() {
            if let Some(owners) = self.of_others(path.elements()) {
                self.report(findings, Some((path, owners)), Tampering::Retimed);
                return;
            }
        }
    }

    /// Fields that the request's own manager would hold beside their owner.
    fn co_ownership(&self, movement: &Movement, findings: &mut Vec<Finding>) {
        let mode = self.scope.policy.integrity.co_ownership;
        for path in &movement.gained {
            let elements = path.elements();
            if explains(self.changed, elements) || self.held_from_above(&movement.before, elements) {
                continue;
            }
            let Some(owners) = self.of_others(elements) else { continue };
            if self.is_structure(movement, elements) {
                continue;
            }
            self.push(findings, mode, Some((path.clone(), owners)), Reason::CoOwnership);
        }
    }

    /// Containers, list keys and item membership are held by everybody who holds something inside.
    fn is_structure(&self, movement: &Movement, path: &[Element]) -> bool {
        match path {
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
            _ => movement.after.has_below(path) || self.is_granular_container(path),
        }
    }

    /// A map or list of which everybody holds a part: held by itself it means nothing.
    fn is_granular_container(&self, path: &[Element]) -> bool {
        let schema = &self.scope.target.schema;
        let value = value::at(self.new, path, schema.root()).ok().flatten();
        value.is_some_and(|value| {
            let kind = value.kind();
            matches!(kind, Kind::Object | Kind::Array)
                && !value.is_empty_container()
                && !self.is_atomic(path, kind)
        })
    }

    /// Whether the server takes a list or a map at this path as one value.
    fn is_atomic(&self, path: &[Element], kind: Kind) -> bool {
        let found = self.scope.target.schema.lookup(path.iter().map(Step::Element));
        let atomic = match kind {
            Kind::Array => found.node.list().is_none_or(|list| *list.shape() == ListShape::Atomic),
            _ => found.node.map().is_none_or(MapNode::is_atomic),
        };
        found.problem.is_none() && (found.atomic_at.is_some() || atomic)
    }

    /// Whether a set holds the path through an atomic node above it. A container above it that is
    /// merely granular gives no hold on what is inside.
    fn held_from_above(&self, set: &PathSet, path: &[Element]) -> bool {
        let held = |(length, next): (usize, &Element)| {
            let kind = if matches!(next, Element::Field(_)) { Kind::Object } else { Kind::Array };
            let above = path.get(..length).unwrap_or_default();
            set.contains(above) && self.is_atomic(above, kind)
        };
        set.covers_ancestor(path) && path.iter().enumerate().skip(1).any(held)
    }

    /// The migration of kubectl, Helm, Flux and Argo CD from client-side to server-side apply:
    /// old entries vanish into one Apply entry, no value changes.
    fn is_client_side_apply_upgrade(&self) -> bool {
        let movements = &self.scope.tracking.movements;
        let mut gaining = movements.iter().filter(|movement| !movement.gained.is_empty());
        let (Some(into), None) = (gaining.next(), gaining.next()) else { return false };
        let losing = || movements.iter().filter(|movement| !movement.lost.is_empty());
        into.operation == Operation::Apply
            && self.changed.is_empty()
            && losing().next().is_some()
            && losing().all(|movement| {
                movement.operation == Operation::Update
                    && movement.after.is_empty()
                    && (movement.manager.starts_with("kubectl")
                        || movement.manager == BEFORE_FIRST_APPLY
                        || movement.manager == into.manager
                        || movement.before.contains(&last_applied()))
            })
            && !self.scope.policy.owners.iter().any(|owner| {
                owner.managers.iter().any(|manager| *manager.name == *into.manager)
                    && !self.scope.judge.is(&owner.subjects)
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

fn is_key_field(item: &[Element], name: &str) -> bool {
    matches!(item.last(), Some(Element::Key(fields)) if fields.iter().any(|(key, _)| **key == *name))
}

fn last_applied() -> [Element; 3] {
    ["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"].map(Element::field)
}
