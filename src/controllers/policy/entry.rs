//! The entries of the webhook registration, and what the live one says.
//!
//! Input: a ValidatingWebhookConfiguration. Output: its rules and settings, by
//! entry. Must not know which target belongs where: that is `plan`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::admissionregistration::v1::{
    RuleWithOperations, ValidatingWebhook, ValidatingWebhookConfiguration,
};

use crate::api::NAMESPACE_NAME_LABEL;

/// Name of the one configuration.
pub const CONFIGURATION: &str = "fieldkeeper";

/// An entry whose rules we write. Ordered by strictness, the first three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// Never denies.
    Observe,
    /// Denies; lets pass while no webhook answers.
    EnforceOpen,
    /// Denies, also while no webhook answers.
    Enforce,
    /// Sees the writes of those who bypass the two above.
    Bypass,
}

impl Entry {
    /// All of them, in the order of the manifest: an apply moves the entries that it names into its own order, and
    /// installers should find theirs.
    pub const ALL: [Self; 4] = [Self::Enforce, Self::EnforceOpen, Self::Observe, Self::Bypass];

    /// Its name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe.fieldkeeper.dev",
            Self::EnforceOpen => "enforce-open.fieldkeeper.dev",
            Self::Enforce => "enforce.fieldkeeper.dev",
            Self::Bypass => "bypass.fieldkeeper.dev",
        }
    }

    /// Whether its answers can be refusals.
    #[must_use]
    pub fn denies(self) -> bool {
        matches!(self, Self::Enforce | Self::EnforceOpen)
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|entry| entry.name() == name)
    }
}

/// Rules by entry; an entry without rules is not in it.
pub type Rules = BTreeMap<Entry, Vec<RuleWithOperations>>;

/// The configuration as it is in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registration {
    /// Its uid.
    pub uid: String,
    /// The rules that are live.
    pub rules: Rules,
    /// Entries that have a `caBundle`.
    pub with_ca: BTreeSet<Entry>,
    /// Namespaces whose objects the denying entries never see.
    pub excluded_namespaces: BTreeSet<String>,
}

impl From<&ValidatingWebhookConfiguration> for Registration {
    fn from(configuration: &ValidatingWebhookConfiguration) -> Self {
        let mut registration =
            Self { uid: configuration.metadata.uid.clone().unwrap_or_default(), ..Self::default() };
        for webhook in configuration.webhooks.iter().flatten() {
            let Some(entry) = Entry::named(&webhook.name) else { continue };
            if let Some(rules) = webhook.rules.as_ref().filter(|rules| !rules.is_empty()) {
                registration.rules.insert(entry, rules.clone());
            }
            if webhook.client_config.ca_bundle.as_ref().is_some_and(|bundle| !bundle.0.is_empty()) {
                registration.with_ca.insert(entry);
            }
            if entry.denies() {
                registration.excluded_namespaces.extend(excluded_namespaces(webhook));
            }
        }
        registration
    }
}

fn excluded_namespaces(webhook: &ValidatingWebhook) -> impl Iterator<Item = String> + '_ {
    webhook
        .namespace_selector
        .iter()
        .flat_map(|selector| selector.match_expressions.iter().flatten())
        .filter(|requirement| requirement.key == NAMESPACE_NAME_LABEL && requirement.operator == "NotIn")
        .flat_map(|requirement| requirement.values.iter().flatten().cloned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_shipped_configuration_has_our_entries_and_no_rules_of_ours() {
        let yaml = include_str!("../../../webhooks/validating-webhook-configuration.yaml");
        let shipped: ValidatingWebhookConfiguration = serde_saphyr::from_str(yaml).unwrap();
        assert_eq!(shipped.metadata.name.as_deref(), Some(CONFIGURATION));
        let webhooks = shipped.webhooks.as_deref().unwrap();
        let order: Vec<_> = webhooks.iter().filter_map(|webhook| Entry::named(&webhook.name)).collect();
        assert_eq!(order, Entry::ALL);
        for entry in Entry::ALL {
            let webhook = webhooks.iter().find(|webhook| webhook.name == entry.name()).unwrap();
            assert_eq!(webhook.rules, None, "{}: rules are ours, also when empty", entry.name());
            let path = webhook.client_config.service.as_ref().unwrap().path.as_deref();
            assert_eq!(path, Some(if entry.denies() { "/validate" } else { "/observe" }));
            let fails = webhook.failure_policy.as_deref() == Some("Fail");
            assert_eq!(fails, entry == Entry::Enforce);
            // Conditions that fail open or closed by mistake are worse than none: the two must be opposites.
            let condition =
                webhook.match_conditions.as_ref().map(|conditions| conditions[0].expression.clone());
            match entry {
                Entry::Observe => assert_eq!(condition, None),
                Entry::Bypass => assert!(condition.unwrap().starts_with("has(")),
                _ => assert!(condition.unwrap().starts_with("!has(")),
            }
        }
        for webhook in webhooks {
            assert_eq!(webhook.client_config.ca_bundle, None, "{}: caBundle is cert-manager's", webhook.name);
            assert!(webhook.timeout_seconds.unwrap() <= 4, "leases are renewed within 5 s");
            assert_eq!(webhook.side_effects, "None");
        }
        let registration = Registration::from(&shipped);
        assert!(registration.rules.is_empty() && registration.with_ca.is_empty());
        let excluded: Vec<_> = registration.excluded_namespaces.iter().map(String::as_str).collect();
        assert_eq!(excluded, ["fieldkeeper-system", "kube-system"]);
    }

    #[test]
    fn what_the_live_configuration_says_is_read_by_entry() {
        let live: ValidatingWebhookConfiguration = serde_json::from_value(json!({
            "metadata": {"name": "fieldkeeper", "uid": "u-1"},
            "webhooks": [
                {"name": "enforce.fieldkeeper.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                 "clientConfig": {"caBundle": "YWJj"},
                 "rules": [{"apiGroups": ["apps"], "resources": ["deployments"]}]},
                {"name": "observe.fieldkeeper.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                 "clientConfig": {"caBundle": ""}, "rules": []},
                {"name": "somebody.elses", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                 "clientConfig": {}, "rules": [{"resources": ["pods"]}]},
            ],
        }))
        .unwrap();
        let registration = Registration::from(&live);
        assert_eq!(registration.uid, "u-1");
        assert_eq!(registration.rules.keys().copied().collect::<Vec<_>>(), [Entry::Enforce]);
        assert_eq!(registration.with_ca, BTreeSet::from([Entry::Enforce]));
    }
}
