//! A policy as a ValidatingAdmissionPolicy: what of it CEL can say. Pure.
//!
//! Input: a compiled policy, complete as the target has it, and what is known of that target. Output: the admission
//! policy with its binding, what its rules cover, and what they leave out, each with the reason.
//!
//! Must not refuse a write that [`decide`](crate::ownership::decide::decide) would allow; and what a rule covers it
//! refuses wherever `decide` refuses for the value. Whatever cannot be said that exactly is left out and named.

mod cel;
mod claims;
mod condition;
mod excuse;
mod identity;
mod rules;
mod units;
mod variables;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec,
    Validation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};

use self::cel::{Bool, strings};
use self::identity::is_one_of;
use self::rules::Rules;
use self::units::Units;
use self::variables::Variables;
use crate::api::{BYPASS_GROUP, NAMESPACE, NAMESPACE_NAME_LABEL};
use crate::ownership::element::Element;
use crate::ownership::rule::{Creation, Mode, Policy, Target, Unlisted};
use crate::ownership::selection::{Requirement, Selector, Test};
use crate::ownership::system;

pub use rules::{Covered, MAX_EXPRESSION};
pub use units::{LeftOut, MAX_RULES};

/// The label that names the FieldPolicy from which an admission policy was generated.
pub const POLICY_LABEL: &str = "fieldkeeper.dev/generated-from";
/// The annotation that lists what is left out, one a line.
pub const LEFT_OUT_ANNOTATION: &str = "fieldkeeper.dev/left-out";
/// Bytes of that annotation: all annotations of an object together have 256 KiB.
const ANNOTATION_LENGTH: usize = 64 * 1024;
/// Namespaces that the shipped registration never sends to the webhook.
pub const EXCLUDED_NAMESPACES: [&str; 2] = [NAMESPACE, "kube-system"];

/// What a broken rule leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An annotation in the API server's audit log.
    Audit,
    /// A refusal.
    Deny,
}

/// What is known beside the policy.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The resource.
    pub target: &'a Target,
    /// Whether the target's schema is the kind's own, and not deduced.
    pub schema_known: bool,
    /// Its subresources through which fields are written.
    pub subresources: &'a [&'a str],
    /// Whether it has a CRD: then `/status` writes the status and nothing else.
    pub custom: bool,
    /// Namespaces whose objects are not judged.
    pub excluded_namespaces: &'a BTreeSet<String>,
    /// What follows.
    pub action: Action,
}

/// What was generated.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The admission policy and its binding; `None` if CEL can say nothing of the policy.
    pub objects: Option<Box<(ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding)>>,
    /// What the rules are about.
    pub covered: Vec<Covered>,
    /// What they are not about, and why.
    pub left_out: Vec<LeftOut>,
}

impl Generated {
    /// How many rules there are.
    #[must_use]
    pub fn rules(&self) -> usize {
        let validations =
            self.objects.as_deref().and_then(|(policy, _)| policy.spec.as_ref()?.validations.as_ref());
        validations.map_or(0, Vec::len)
    }
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{path}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

/// The name of the admission policy and of the binding that belong to a FieldPolicy.
#[must_use]
pub fn name(policy: &str) -> String {
    format!("{policy}.fieldpolicies.fieldkeeper.dev")
}

/// Says a policy in CEL.
#[must_use]
pub fn generate(policy: &Policy, facts: &Facts<'_>) -> Generated {
    let mut left_out = in_general(policy);
    let target = facts.target;
    let creation = match &policy.creation {
        Creation::Anyone => Bool::Always,
        Creation::Owners { except } => is_one_of(except),
    };
    let api_version = if target.group.is_empty() {
        target.version.to_string()
    } else {
        format!("{}/{}", target.group, target.version)
    };
    let mut rules = Rules {
        policy,
        target,
        creations: creation != Bool::Always,
        variables: Variables::new(policy, &target.schema, &api_version, &creation),
        validations: Vec::new(),
        covered: Vec::new(),
        left_out: Vec::new(),
    };
    let mut resources = vec![target.resource.to_string()];
    if target.any_version {
        left_out.push(whole("the version of the paths is not served any more"));
    } else if facts.schema_known {
        let units = Units::of(policy, &target.schema);
        left_out.extend(units.left_out);
        for unit in &units.found {
            rules.unit(unit);
        }
        let values = !rules.validations.is_empty();
        let reaches = |subresource: &str| {
            values && (!facts.custom || subresource != "status" || about_status(&rules.covered))
        };
        let carrying = facts.subresources.iter().filter(|name| **name != "scale" && reaches(name));
        resources.extend(carrying.map(|name| format!("{}/{name}", target.resource)));
        if facts.subresources.contains(&"scale") && scale(&mut rules) {
            resources.push(format!("{}/scale", target.resource));
        }
    } else {
        left_out.push(whole("the schema of the kind is not known: lists and their keys cannot be told"));
    }
    let mut operations: Vec<&str> = Vec::new();
    if !rules.validations.is_empty() {
        operations.extend(rules.creations.then_some("CREATE").into_iter().chain(["UPDATE"]));
    }
    if deletion(&mut rules) {
        operations.push("DELETE");
    }
    left_out.extend(std::mem::take(&mut rules.left_out));
    left_out.sort();
    left_out.dedup();
    let covered = rules.covered;
    if rules.validations.is_empty() {
        return Generated { objects: None, covered: Vec::new(), left_out };
    }
    let variables = rules.variables.into_list();
    let rule = NamedRuleWithOperations {
        api_groups: Some(vec![target.group.to_string()]),
        api_versions: Some(vec![target.version.to_string()]),
        operations: Some(operations.into_iter().map(str::to_owned).collect()),
        resources: Some(resources),
        scope: Some("*".to_owned()),
        resource_names: None,
    };
    let spec = ValidatingAdmissionPolicySpec {
        // A rule that cannot be evaluated (a condition of unlike types, too much to compare) must not stop a write
        // that the policy allows. The webhook judges it, where one runs.
        failure_policy: Some("Ignore".to_owned()),
        match_constraints: Some(matched(policy, facts, rule)),
        match_conditions: Some(conditions(policy)),
        variables: Some(variables),
        validations: Some(rules.validations),
        ..ValidatingAdmissionPolicySpec::default()
    };
    let objects = Some(Box::new((admission_policy(policy, spec, &left_out), binding(policy, facts.action))));
    Generated { objects, covered, left_out }
}

fn whole(why: &str) -> LeftOut {
    LeftOut { path: None, why: why.to_owned() }
}

/// What is left out whatever the fields are.
fn in_general(policy: &Policy) -> Vec<LeftOut> {
    let mut left_out = Vec::new();
    if policy.integrity.mode == Mode::Enforce || policy.integrity.co_ownership == Mode::Enforce {
        left_out.push(whole("integrity of managedFields, co-ownership and reserved field manager names"));
    }
    if policy.unlisted == Unlisted::Deny && policy.mode == Mode::Enforce {
        left_out.push(whole("unlisted: changes that no claim covers"));
    }
    if policy.claims.iter().any(|claim| claim.when.is_some()) {
        left_out.push(whole("conditions that cannot be evaluated, where the webhook refuses as undecided"));
    }
    left_out
}

fn about_status(covered: &[Covered]) -> bool {
    covered.iter().any(|covered| match covered {
        Covered::Path(path) | Covered::Parts(path, _) => {
            path.elements().first() == Some(&Element::field("status"))
        }
        Covered::Deletion | Covered::Scale => false,
    })
}

/// Adds the rule about `/scale`, if there can be one.
fn scale(rules: &mut Rules<'_>) -> bool {
    let Some(count) = rules.target.scale.as_ref().and_then(|scale| scale.replicas.literal_path()) else {
        return false;
    };
    if !rules.policy.claims.iter().any(|claim| claim.pattern.covers(count.elements())) {
        return false;
    }
    let mut leave_out = |why: String| {
        rules.left_out.push(LeftOut { path: Some(count.to_string()), why: format!("through /scale: {why}") });
    };
    if rules.policy.selection.objects.is_some() {
        leave_out("match reads labels, which a Scale does not show".to_owned());
        return false;
    }
    leave_out("a change between no count and zero".to_owned());
    match rules.scale(count.elements()) {
        Ok(()) => true,
        Err(why) => {
            rules.left_out.pop();
            rules
                .left_out
                .push(LeftOut { path: Some(count.to_string()), why: format!("through /scale: {why}") });
            false
        }
    }
}

/// Adds the rule about deletion, if there is one.
fn deletion(rules: &mut Rules<'_>) -> bool {
    let Some(deleters) = &rules.policy.deletion else { return false };
    rules.left_out.push(whole(
        "deletion by other means: an added ownerReference, a shorter ttlSecondsAfterFinished, pods/eviction",
    ));
    if rules.policy.mode != Mode::Enforce {
        rules.left_out.push(whole("deletion, which is judged in the policy's mode and not enforced"));
        return false;
    }
    let allowed = Bool::any([Bool::Text("request.operation != 'DELETE'".to_owned()), is_one_of(deleters)]);
    rules.validations.push(Validation {
        expression: allowed.to_string(),
        message: Some(format!(
            "FieldPolicy {}: not everybody may delete this object. Instead: ask one of those whom the policy's \
             deletion names",
            rules.policy.name
        )),
        message_expression: None,
        reason: Some("Forbidden".to_owned()),
    });
    rules.covered.push(Covered::Deletion);
    true
}

/// Who is never asked. Each holds for everybody, so none can fail.
fn conditions(policy: &Policy) -> Vec<MatchCondition> {
    let mut conditions = vec![
        ("not-bypassed", format!("!('{BYPASS_GROUP}' in request.userInfo.?groups.orValue([]))")),
        ("not-a-system-writer", format!("!(request.userInfo.username in {})", strings(system::IDENTITIES))),
    ];
    let glass = is_one_of(&policy.break_glass);
    if glass != Bool::Never {
        conditions.push(("not-break-glass", glass.not().to_string()));
    }
    let condition = |(name, expression): (&str, String)| MatchCondition { name: name.to_owned(), expression };
    conditions.into_iter().map(condition).collect()
}

/// Both selectors mean the same to the API server as to `decide`: an object matches by its stored or its new labels.
fn matched(policy: &Policy, facts: &Facts<'_>, rule: NamedRuleWithOperations) -> MatchResources {
    let excluded = LabelSelectorRequirement {
        key: NAMESPACE_NAME_LABEL.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(facts.excluded_namespaces.iter().cloned().collect()),
    };
    let namespaces = policy.selection.namespaces.as_ref().map_or_else(Vec::new, requirements);
    let excluded = (!facts.excluded_namespaces.is_empty()).then_some(excluded);
    let namespaces: Vec<_> = excluded.into_iter().chain(namespaces).collect();
    let objects = policy.selection.objects.as_ref().map_or_else(Vec::new, requirements);
    let selector = |all: Vec<LabelSelectorRequirement>| LabelSelector {
        match_expressions: (!all.is_empty()).then_some(all),
        match_labels: None,
    };
    MatchResources {
        exclude_resource_rules: None,
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(selector(namespaces)),
        object_selector: Some(selector(objects)),
        resource_rules: Some(vec![rule]),
    }
}

fn requirements(selector: &Selector) -> Vec<LabelSelectorRequirement> {
    let requirement = |Requirement { key, test }: &Requirement| {
        let texts = |values: &[std::sync::Arc<str>]| Some(values.iter().map(ToString::to_string).collect());
        let (operator, values) = match test {
            Test::In(values) => ("In", texts(values)),
            Test::NotIn(values) => ("NotIn", texts(values)),
            Test::Exists => ("Exists", None),
            Test::DoesNotExist => ("DoesNotExist", None),
        };
        LabelSelectorRequirement { key: key.to_string(), operator: operator.to_owned(), values }
    };
    selector.0.iter().map(requirement).collect()
}

fn admission_policy(
    policy: &Policy,
    spec: ValidatingAdmissionPolicySpec,
    left_out: &[LeftOut],
) -> ValidatingAdmissionPolicy {
    let mut text = String::new();
    for line in left_out.iter().map(ToString::to_string) {
        if text.len() + line.len() > ANNOTATION_LENGTH {
            text.push_str("…\n");
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    let mut metadata = metadata(policy);
    if !text.is_empty() {
        metadata.annotations = Some(BTreeMap::from([(LEFT_OUT_ANNOTATION.to_owned(), text)]));
    }
    ValidatingAdmissionPolicy { metadata, spec: Some(spec), status: None }
}

fn binding(policy: &Policy, action: Action) -> ValidatingAdmissionPolicyBinding {
    let action = match action {
        Action::Audit => "Audit",
        Action::Deny => "Deny",
    };
    let spec = ValidatingAdmissionPolicyBindingSpec {
        policy_name: Some(name(&policy.name)),
        validation_actions: Some(vec![action.to_owned()]),
        ..ValidatingAdmissionPolicyBindingSpec::default()
    };
    ValidatingAdmissionPolicyBinding { metadata: metadata(policy), spec: Some(spec) }
}

fn metadata(policy: &Policy) -> ObjectMeta {
    let labels = [
        ("app.kubernetes.io/name", "fieldkeeper"),
        ("app.kubernetes.io/part-of", "fieldkeeper"),
        ("app.kubernetes.io/component", "generated-policy"),
        (POLICY_LABEL, &policy.name),
    ];
    ObjectMeta {
        name: Some(name(&policy.name)),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect()),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
#[path = "export_vap/tests.rs"]
mod tests;
