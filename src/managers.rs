//! Every field manager that fieldkeeper writes under.
//!
//! Input: nothing. Output: for each manager its name, the objects and paths it
//! writes, and whether it may force and why; [`table`] renders the same for
//! the docs. A write needs a [`Manager`] by type, so this list is complete.
//!
//! Must not hold a manager that nobody writes under, nor let two independently
//! applied sets of fields share a name: an apply withdraws whatever its name
//! owned before and does not mention again.

use std::fmt::Write as _;

/// A field manager of ours. No name holds a `/`, which the API server would
/// cut when it derives a manager from a User-Agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Manager {
    /// The policy controller's rules in the webhook registration.
    PolicyControllerRules,
    /// The policy controller's report on each FieldPolicy.
    PolicyControllerStatus,
    /// The admission policies that are generated from FieldPolicies.
    PolicyControllerAdmission,
    /// Events about refused writes.
    WebhookEvents,
    /// What a webhook replica says of itself.
    WebhookReplica,
}

/// Whether an apply may take fields that somebody else holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// A field of another manager is a conflict, and is reported.
    Never,
    /// It is taken, for this reason.
    Always(&'static str),
}

impl Manager {
    /// All managers, in the order of the table.
    pub const ALL: [Self; 5] = [
        Self::PolicyControllerRules,
        Self::PolicyControllerStatus,
        Self::PolicyControllerAdmission,
        Self::WebhookEvents,
        Self::WebhookReplica,
    ];

    /// The name sent as `fieldManager`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PolicyControllerRules => "policy-controller-rules",
            Self::PolicyControllerStatus => "policy-controller-status",
            Self::PolicyControllerAdmission => "policy-controller-admission",
            Self::WebhookEvents => "webhook-events",
            Self::WebhookReplica => "webhook-replica",
        }
    }

    /// The objects it writes.
    #[must_use]
    pub fn objects(self) -> &'static str {
        match self {
            Self::PolicyControllerRules => "the ValidatingWebhookConfiguration of fieldkeeper",
            Self::PolicyControllerStatus => "FieldPolicies, through /status",
            Self::PolicyControllerAdmission => {
                "ValidatingAdmissionPolicies and bindings generated from FieldPolicies"
            }
            Self::WebhookEvents => "Events, created and never changed",
            Self::WebhookReplica => "a Lease of its own beside the webhook, for each replica",
        }
    }

    /// The paths it writes.
    #[must_use]
    pub fn paths(self) -> &'static [&'static str] {
        match self {
            Self::PolicyControllerRules => &[".webhooks[name=*].rules"],
            Self::PolicyControllerStatus => {
                &[".status.observedGeneration", ".status.acceptedSpec", ".status.conditions"]
            }
            Self::PolicyControllerAdmission | Self::WebhookEvents => &["the whole object"],
            Self::WebhookReplica => &[".metadata.labels", ".metadata.annotations", ".spec"],
        }
    }

    /// Whether it may force.
    #[must_use]
    pub fn forces(self) -> Force {
        match self {
            // Whoever lists rules beside us would fight with us over what is intercepted: that
            // belongs into a condition, not under a forced write. Events are only created, and a replica's
            // Lease is nobody else's.
            Self::PolicyControllerRules | Self::WebhookEvents | Self::WebhookReplica => Force::Never,
            Self::PolicyControllerAdmission => Force::Always(
                "the objects are generated as a whole; an edit by hand would leave a rule in force, or out of force, \
                 that no FieldPolicy says",
            ),
            Self::PolicyControllerStatus => Force::Always(
                "nobody else can report what this controller did; a leftover of another writer (a restored \
                 backup, an edit by hand) would keep an old acceptedSpec in force",
            ),
        }
    }
}

/// The managers as a Markdown table, for the docs.
#[must_use]
pub fn table() -> String {
    let mut text = String::from("| manager | objects | paths | force |\n| --- | --- | --- | --- |\n");
    for manager in Manager::ALL {
        let quoted =
            |path: &&str| if path.starts_with('.') { format!("`{path}`") } else { (*path).to_owned() };
        let paths: Vec<String> = manager.paths().iter().map(quoted).collect();
        let force = match manager.forces() {
            Force::Never => "never".to_owned(),
            Force::Always(reason) => format!("yes: {reason}"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {force} |",
            manager.name(),
            manager.objects(),
            paths.join(", "),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_fit_the_api_server() {
        let names: BTreeSet<_> = Manager::ALL.iter().map(|manager| manager.name()).collect();
        assert_eq!(names.len(), Manager::ALL.len());
        for name in names {
            assert!(name.len() <= 128, "{name}: the API server takes 128 bytes");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
        }
    }

    #[test]
    fn the_table_names_every_manager_and_every_reason_to_force() {
        let table = table();
        assert_eq!(table.lines().count(), Manager::ALL.len() + 2);
        for manager in Manager::ALL {
            assert!(table.contains(manager.name()));
            if let Force::Always(reason) = manager.forces() {
                assert!(table.contains(reason));
            }
        }
    }
}
