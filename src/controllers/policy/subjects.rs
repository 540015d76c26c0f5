//! Do the service accounts that a policy names exist?
//!
//! Input: the policies in force, and a client that lists the accounts of the namespaces they name. Output:
//! the accounts, and what of a policy's subjects is missing. Users and groups are known to the
//! authenticators alone.
//!
//! Must not hold up the registration, nor ask at every change: accounts come and go, and a policy is in
//! force with or without them.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;
use tokio::time::{Instant, timeout};

use crate::api::FieldPolicySpec;
use crate::cluster::accounts::{self, Accounts};
use crate::cluster::in_force::Judged;
use crate::policy::lint::missing_account;

/// What was read is believed for so long, and while an account is missing it is looked for as often.
pub const BELIEVED: Duration = Duration::from_mins(1);
/// For reading all of it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The accounts of the namespaces that policies name.
pub struct Directory {
    client: Client,
    namespaces: BTreeSet<String>,
    accounts: Accounts,
    read: Option<Instant>,
}

impl Directory {
    /// Nothing is read yet. The client's identity needs `list` on service accounts.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, namespaces: BTreeSet::new(), accounts: Accounts::new(), read: None }
    }

    /// The accounts behind these policies, read anew where that was long ago or about others.
    pub async fn look(&mut self, policies: &[Judged]) -> &Accounts {
        let specs = policies.iter().filter_map(|judged| Some(&judged.in_force.as_ref()?.spec));
        let namespaces: BTreeSet<String> = specs.flat_map(accounts::namespaces).collect();
        let fresh = self.read.is_some_and(|read| read.elapsed() < BELIEVED);
        if !fresh || namespaces != self.namespaces {
            // None of them is known where they are not read in time.
            let read = timeout(PATIENCE, accounts::read(&self.client, &namespaces)).await;
            self.accounts = read.unwrap_or_default();
            self.namespaces = namespaces;
            self.read = Some(Instant::now());
        }
        &self.accounts
    }
}

/// What is to be said of the subjects of one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subjects {
    /// Each account that it names is there.
    Found,
    /// These are not, each with its place in the policy.
    Missing(Vec<String>),
    /// The accounts of these namespaces could not be read, and of the others none is missing.
    Unread(BTreeSet<String>),
}

/// Looks up the subjects of a policy.
#[must_use]
pub fn check(spec: &FieldPolicySpec, accounts: &Accounts) -> Subjects {
    let (mut missing, mut unread) = (Vec::new(), BTreeSet::new());
    for (at, subject) in accounts::named(spec) {
        // `namespaceFrom: Object` names an account in each namespace that has such an object.
        let Some(namespace) = &subject.namespace else { continue };
        match accounts.get(namespace).map(|known| missing_account(subject, known)) {
            None => {
                unread.insert(namespace.clone());
            }
            Some(Some(message)) => missing.push(format!("{at}: {message}")),
            Some(None) => {}
        }
    }
    match (missing.is_empty(), unread.is_empty()) {
        (false, _) => Subjects::Missing(missing),
        (true, false) => Subjects::Unread(unread),
        (true, true) => Subjects::Found,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn accounts_are_looked_up_wherever_a_policy_names_them() {
        let account = |namespace: &str, name: &str| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name});
        let spec: FieldPolicySpec = serde_json::from_value(json!({
            "target": {"version": "v1", "resource": "pods"},
            "owners": [{"name": "o", "fields": [{"path": ".spec"}], "subjects": [
                account("flux", "here"), {"kind": "User", "name": "ann"},
                {"kind": "ServiceAccount", "namespaceFrom": "Object", "name": "any"},
            ]}],
            "breakGlass": {"subjects": [account("ops", "oncall")]},
        }))
        .unwrap();
        let known = |text: &[(&str, &[&str])]| -> Accounts {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            text.iter().map(|(namespace, list)| ((*namespace).to_owned(), names(list))).collect()
        };
        assert_eq!(accounts::namespaces(&spec), ["flux".to_owned(), "ops".to_owned()].into());
        assert_eq!(check(&spec, &known(&[("flux", &["here"]), ("ops", &["oncall"])])), Subjects::Found);
        assert_eq!(
            check(&spec, &known(&[("flux", &["here"]), ("ops", &["on-call"])])),
            Subjects::Missing(vec![
                "spec.breakGlass.subjects[0]: there is no ServiceAccount ops/oncall".to_owned()
            ])
        );
        assert_eq!(check(&spec, &known(&[("flux", &["here"])])), Subjects::Unread(["ops".to_owned()].into()));
        assert!(matches!(check(&spec, &known(&[("flux", &[])])), Subjects::Missing(_)));
    }
}
