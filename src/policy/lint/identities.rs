//! Owners: who they are, and under which names they write.

use std::collections::BTreeSet;

use super::{Findings, Severity, Subject};
use crate::api::field_policy as api;
use crate::ownership::rule::{ManagerUse, Owner};

/// Names that many programs share, because they are a library's or a tool's default. To reserve one is to
/// refuse everybody else who uses the tool.
const SHARED: [&str; 6] =
    ["helm", "manager", "kube-controller-manager", "unknown", "before-first-apply", "ancient-changes"];

pub(super) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    managers(subject, findings);
    subjects(subject, findings);
}

fn managers(subject: &Subject<'_>, findings: &mut Findings) {
    for owner in &subject.policy.owners {
        former(subject, owner, findings);
        for manager in &owner.managers {
            let at = format!("spec.owners[{}].fieldManagers[{}]", owner.name, manager.name);
            if manager.usage != ManagerUse::Expect && is_shared(&manager.name) {
                let message = format!(
                    "{} is a name that many programs write under; reserved, it is refused to all of them",
                    manager.name
                );
                findings.add(Severity::Warning, "shared-manager", at.as_str(), message);
            }
            if manager.usage == ManagerUse::Require && owner.subjects.is_empty() {
                let message = format!("nobody has to write under it: owner {} has no subjects", owner.name);
                findings.add(Severity::Warning, "required-of-nobody", at, message);
            }
        }
    }
}

/// A former name lets its owner move what it once wrote under it: of no use without a present name, and
/// misleading where somebody writes under it still.
fn former(subject: &Subject<'_>, owner: &Owner, findings: &mut Findings) {
    for name in &owner.former_managers {
        let at = format!("spec.owners[{}].formerFieldManagers[{name}]", owner.name);
        let users = subject.policy.owners.iter().filter(|other| {
            let present = other.managers.iter().any(|manager| manager.name == *name);
            present || (other.name != owner.name && other.declares(name))
        });
        for user in users {
            let message = if user.name == owner.name {
                format!("{name} is listed as a present name, too: what is written under it is not left over")
            } else {
                format!(
                    "owner {} declares {name}, too: whose entries of this name are, nobody can tell",
                    user.name
                )
            };
            findings.add(Severity::Warning, "former-manager-in-use", at.as_str(), message);
        }
        if owner.managers.is_empty() {
            let message = format!(
                "owner {} declares no present fieldManagers that entries of {name} could move to",
                owner.name
            );
            findings.add(Severity::Warning, "former-manager-without-successor", at.as_str(), message);
        }
        if is_shared(name) {
            let message = format!(
                "{name} is a name that many programs write under: its entries need not be this owner's"
            );
            findings.add(Severity::Warning, "shared-manager", at, message);
        }
    }
}

fn is_shared(name: &str) -> bool {
    name.starts_with("kubectl") || SHARED.iter().any(|shared| name.eq_ignore_ascii_case(shared))
}

fn subjects(subject: &Subject<'_>, findings: &mut Findings) {
    for (at, account) in subject.spec.subjects() {
        if account.kind == api::SubjectKind::ServiceAccount {
            service_account(subject, account, &at, findings);
        }
    }
}

fn service_account(subject: &Subject<'_>, account: &api::Subject, at: &str, findings: &mut Findings) {
    let name = &account.name;
    if account.namespace_from.is_some() && subject.facts.namespaced == Some(false) {
        let message = format!(
            "matches nobody: {} have no namespace that {name} could be in",
            subject.spec.target.resource
        );
        findings.add(Severity::Error, "no-namespace", at, message);
    }
    let Some(namespace) = &account.namespace else { return };
    // A namespace that the caller did not look into says nothing.
    let known = subject.facts.accounts.and_then(|accounts| accounts.get(namespace));
    if let Some((known, message)) = known.and_then(|known| Some((known, missing_account(account, known)?))) {
        let hint = super::nearest(name, known.iter().map(String::as_str));
        let hint = hint.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        findings.add(Severity::Warning, "unknown-subject", at, format!("{message}{hint}"));
    }
}

/// What is to be said of a service account that is none of those in its namespace, in a sentence.
#[must_use]
pub fn missing_account(account: &api::Subject, known: &BTreeSet<String>) -> Option<String> {
    let (namespace, name) = (account.namespace.as_ref()?, &account.name);
    (!known.contains(name)).then(|| format!("there is no ServiceAccount {namespace}/{name}"))
}
