//! Field manager names that a policy reserves for one of its owners.
//!
//! A manager name proves nothing, but a false one misleads everybody who reads
//! `managedFields` later: so a reserved name is refused to anyone but its owner,
//! whether it comes with the request's options, from its User-Agent or in an
//! entry of the object that is sent.

use super::finding::{owner_names, whole};
use super::rule::{Creation, ManagerUse};
use super::scope::Scope;
use super::verdict::{Finding, Reason};

/// Findings for names that the request writes under, or writes into entries, and that are reserved
/// for others.
pub(super) fn judge(scope: &Scope<'_, '_>, findings: &mut Vec<Finding>) {
    let (judge, policy) = (&scope.judge, scope.policy);
    // Who may edit entries or bring them along from a backup may name anybody in them.
    let restores =
        matches!(&policy.creation, Creation::Owners { except } if scope.creating() && judge.is(except));
    let edits = restores || judge.is(&policy.integrity.editors);
    for (index, owner) in policy.owners.iter().enumerate() {
        let reserved = owner.managers.iter().filter(|manager| manager.usage != ManagerUse::Expect);
        for manager in reserved {
            let named = scope.facts.field_manager.is_some_and(|name| *name == *manager.name);
            let written = named || (!edits && scope.tracking.gains(&manager.name));
            // One name may be declared by several owners: each of them may use it.
            let mine = || {
                let sharing = |owner: &&super::rule::Owner| {
                    owner.managers.iter().any(|other| other.name == manager.name)
                };
                policy.owners.iter().filter(sharing).any(|owner| judge.is(&owner.subjects))
            };
            if written && !mine() {
                let mut finding = whole(policy, owner.mode, Reason::ReservedManager(manager.name.clone()));
                finding.owners = owner_names(policy, &[index]);
                findings.push(finding);
            }
        }
    }
}
