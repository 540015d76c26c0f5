//! Step 3: write the rules, and the generated admission policies.
//!
//! Input: the plan's steps. Output: whether all is as planned, or why not. Holds
//! a writer; must not touch anything of the registration but `rules`, nor create
//! it: an installer who took it away wants it gone.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use serde_json::{Map, Value, json};

use super::admission::Step;
use super::entry::{CONFIGURATION, Entry, Registration, Rules};
use super::observe::Live;
use super::plan::Plan;
use crate::cluster::write::{Existing, WriteError, Writer};
use crate::managers::Manager;

/// Why the registration is not as planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason in the condition `Registered`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// Whether trying again can help by itself, and when the server said so, how long to wait.
    pub retry: Option<Option<Duration>>,
}

/// Applies one step after the other.
pub async fn apply(writer: &Writer, live: &Live, plan: &Plan) -> Result<(), Failure> {
    let Live::Present(registration) = live else {
        return Err(Failure {
            reason: "NotInstalled",
            message: format!(
                "there is no ValidatingWebhookConfiguration {CONFIGURATION}: nothing is intercepted"
            ),
            retry: None,
        });
    };
    let object = existing(registration);
    for step in &plan.steps {
        writer
            .apply(Manager::PolicyControllerRules, &object, fields(step))
            .await
            .map_err(|error| failure(&error))?;
        tracing::info!(rules = %summary(step), "registration written");
    }
    Ok(())
}

/// What came of the steps for generated admission policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// Why, by FieldPolicy, where something did not work.
    pub failed: BTreeMap<String, String>,
    /// Whether trying again can help by itself.
    pub retry: bool,
}

/// Applies the steps for generated admission policies, each for itself.
pub async fn admission(writer: &Writer, steps: Vec<Step>) -> Attempt {
    let mut attempt = Attempt::default();
    for step in steps {
        let (policy, what) = (step.policy().to_owned(), step.name());
        if let Err(error) = take(writer, step).await {
            tracing::warn!(policy, category = error.category(), %error, "writing a generated admission policy");
            attempt.retry |= error.is_transient();
            attempt.failed.entry(policy).or_insert_with(|| error.to_string());
        } else {
            tracing::info!(policy, what, "generated admission policy");
        }
    }
    attempt
}

async fn take(writer: &Writer, step: Step) -> Result<(), WriteError> {
    let (policies, bindings) = (
        ApiResource::erase::<ValidatingAdmissionPolicy>(&()),
        ApiResource::erase::<ValidatingAdmissionPolicyBinding>(&()),
    );
    let existing = |resource, ObjectMeta { name, uid, .. }| Existing {
        resource,
        namespace: String::new(),
        name: name.unwrap_or_default(),
        uid: uid.unwrap_or_default(),
    };
    let (resource, object) = match step {
        Step::WritePolicy(policy) => (policies, json!(policy)),
        Step::WriteBinding(binding) => (bindings, json!(binding)),
        Step::DeletePolicy(metadata) => return writer.delete(&existing(policies, metadata)).await,
        Step::DeleteBinding(metadata) => return writer.delete(&existing(bindings, metadata)).await,
    };
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let fields = object.as_object().cloned().unwrap_or_default();
    writer.apply_own(Manager::PolicyControllerAdmission, &resource, "", &name, fields).await.map(drop)
}

fn existing(registration: &Registration) -> Existing {
    Existing {
        resource: ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        namespace: String::new(),
        name: CONFIGURATION.to_owned(),
        uid: registration.uid.clone(),
    }
}

/// Only entries with rules: naming one for its own sake would make us co-owner of the entry as such, and would
/// create it, incomplete, where an installer leaves it out.
fn fields(rules: &Rules) -> Map<String, Value> {
    let mut fields = Map::new();
    if !rules.is_empty() {
        let webhooks = Entry::ALL
            .into_iter()
            .filter_map(|entry| Some(json!({"name": entry.name(), "rules": rules.get(&entry)?})))
            .collect();
        fields.insert("webhooks".to_owned(), Value::Array(webhooks));
    }
    fields
}

fn failure(error: &WriteError) -> Failure {
    tracing::warn!(category = error.category(), %error, "writing the registration");
    let (reason, retry) = match error {
        WriteError::OwnershipConflict { .. } => ("OwnershipConflict", None),
        WriteError::VersionConflict { .. } => ("Unavailable", Some(None)),
        WriteError::Transient { retry_after, .. } => ("Unavailable", Some(*retry_after)),
        // The watch tells when there is another one.
        WriteError::Gone { .. } => ("NotInstalled", None),
        WriteError::Permanent { .. } => ("Refused", None),
    };
    Failure { reason, message: error.to_string(), retry }
}

fn summary(rules: &Rules) -> String {
    let counts: Vec<String> =
        rules.iter().map(|(entry, rules)| format!("{}: {}", entry.name(), rules.len())).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;

    use super::*;

    #[test]
    fn an_apply_names_rules_and_nothing_else() {
        let rule = RuleWithOperations { resources: Some(vec!["pods".to_owned()]), ..Default::default() };
        let fields = fields(&Rules::from([(Entry::Enforce, vec![rule])]));
        assert_eq!(
            Value::Object(fields),
            json!({"webhooks": [{"name": "enforce.fieldkeeper.dev", "rules": [{"resources": ["pods"]}]}]})
        );
    }

    #[test]
    fn without_rules_nothing_is_named() {
        assert!(fields(&Rules::new()).is_empty());
    }

    #[test]
    fn only_what_time_can_mend_is_tried_again() {
        let object = String::new;
        let message = String::new;
        let transient = WriteError::Transient {
            object: object(),
            message: message(),
            retry_after: Some(Duration::from_secs(3)),
        };
        assert_eq!(failure(&transient).retry, Some(Some(Duration::from_secs(3))));
        for error in [
            WriteError::OwnershipConflict { object: object(), causes: Vec::new() },
            WriteError::Permanent { object: object(), code: 422, message: message() },
            WriteError::Gone { object: object(), message: message() },
        ] {
            assert_eq!(failure(&error).retry, None, "{error:?}");
        }
    }
}
