//! Field manager names that a policy reserves for one of its owners.
//!
//! A manager name proves nothing, but a false one misleads everybody who reads
//! `managedFields` later: so a reserved name is refused to anyone but its owner,
//! whether it comes with the request's options or from its User-Agent.

use super::facts::Facts;
use super::finding::{owner_names, whole};
use super::judge::Judge;
use super::rule::ManagerUse;
use super::tracking::Tracking;
use super::verdict::{Finding, Reason};

/// Findings for names that the request writes under and that are reserved for others.
pub(super) fn judge(
    judge: &Judge<'_, '_>,
    facts: &Facts<'_>,
    tracking: &Tracking<'_>,
    findings: &mut Vec<Finding>,
) {
    let policy = judge.policy;
    for (index, owner) in policy.owners.iter().enumerate() {
        let reserved = owner.managers.iter().filter(|manager| manager.usage != ManagerUse::Expect);
        for manager in reserved {
            let written = match facts.field_manager {
                Some(name) => name == &*manager.name,
                None => tracking.gains(&manager.name, facts.subresource),
            };
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
