//! The part of a `FieldPolicy` that concerns the whole policy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::owner::{Owner, Subject};
use super::status::FieldPolicyStatus;
use super::{MAX_LABEL, MAX_OBJECT_NAME, MAX_OWNERS, MAX_SUBJECTS, MAX_TIME};
use crate::api::schema;

/// Says which identity owns which field of one resource, and what happens to writes by anybody else.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fieldkeeper.dev",
    version = "v1alpha1",
    kind = "FieldPolicy",
    plural = "fieldpolicies",
    shortname = "fpol",
    category = "fieldkeeper",
    status = "FieldPolicyStatus",
    derive = "PartialEq",
    doc = "Declares which identity owns which field of which resource.",
    label("app.kubernetes.io/part-of", "fieldkeeper"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.target.resource"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(name = "Would-Deny", type_ = "integer", json_path = ".status.wouldDeny"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Group", type_ = "string", json_path = ".spec.target.group", priority = 1),
    printcolumn(name = "Failure-Policy", type_ = "string", json_path = ".spec.failurePolicy", priority = 1),
    printcolumn(name = "Paused-Until", type_ = "string", json_path = ".spec.pausedUntil", priority = 1),
    // The name becomes a label value and part of the name of a generated ValidatingAdmissionPolicy.
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("the name of a FieldPolicy has at most 63 characters"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "size(self.owners) > 0 || self.unlisted != 'Allow' || has(self.deletion)"
    ).message("the policy says nothing: give it owners, unlisted or deletion"),
    // The same test for "is anything enforced" as the policy controller's, which also decides about the webhook entry.
    validation = Rule::new(
        "self.allowUnsafe || self.failurePolicy != 'Fail' || \
         !(self.target.group == '' && self.target.resource in ['pods', 'nodes', 'namespaces', 'serviceaccounts', 'services', 'endpoints', 'secrets'] || \
           self.target.group == 'discovery.k8s.io' && self.target.resource == 'endpointslices' || \
           self.target.group == 'rbac.authorization.k8s.io' || \
           self.target.group == 'apiextensions.k8s.io' && self.target.resource == 'customresourcedefinitions') || \
         !(self.mode == 'Enforce' || self.integrity.coOwnership == 'Enforce' || \
           has(self.integrity.mode) && self.integrity.mode == 'Enforce' || \
           self.owners.exists(o, has(o.mode) && o.mode == 'Enforce' || \
             o.fields.exists(f, has(f.mode) && f.mode == 'Enforce')))"
    )
    .message("enforcing with failurePolicy Fail on this target can lock up the cluster while no webhook answers: use failurePolicy Ignore, or set allowUnsafe: true")
    .reason(Reason::FieldValueForbidden)
)]
pub struct FieldPolicySpec {
    /// The resource whose fields are owned.
    pub target: Target,
    /// Which objects of the target are governed; all of them if absent. Judged by fieldkeeper, never part of the
    /// webhook registration.
    #[serde(rename = "match", default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Match>,
    /// What happens to a write that the policy does not grant; owners and fields can say otherwise for themselves.
    #[serde(default)]
    pub mode: Mode,
    /// What the API server does with writes while no webhook answers, where something is enforced.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// Whether a `ValidatingAdmissionPolicy` is generated beside the webhook, for what CEL can say of this policy. It
    /// refuses nothing that the webhook would allow, and holds while no webhook answers; with failurePolicy Ignore, no
    /// pod can then stop a write, and rules about values hold all the same. What it leaves out stands in its annotation
    /// `fieldkeeper.dev/left-out`. Not possible where fields have `mutators`.
    #[serde(default)]
    pub admission_policy: AdmissionPolicy,
    /// Allows to enforce with failurePolicy Fail on resources that the cluster itself needs to heal.
    #[serde(default)]
    pub allow_unsafe: bool,
    /// Who owns what. An owner without subjects closes its fields for everybody.
    #[serde(default)]
    #[schemars(length(max = MAX_OWNERS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub owners: Vec<Owner>,
    /// Changes that no active claim covers. Metadata is governed only where it is listed.
    #[serde(default)]
    pub unlisted: Unlisted,
    /// Who may set a claimed field when creating an object.
    #[serde(default)]
    pub creation: Creation,
    /// Who may delete objects. Absent: whoever RBAC lets. Present and empty: nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Deletion>,
    /// Protection of the `managedFields` of claimed fields.
    #[serde(default)]
    pub integrity: Integrity,
    /// Identities that may write everything here; each use is recorded.
    #[serde(default, skip_serializing_if = "BreakGlass::is_empty")]
    pub break_glass: BreakGlass,
    /// Until this time the policy only audits. At most 24 hours ahead.
    //
    // Text and not a time: the API server's idea of `date-time` is wider than any parser's, and a value that we cannot
    // read must end in a condition, not in a FieldPolicy that no longer deserializes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_TIME), extend("format" = "date-time"))]
    pub paused_until: Option<String>,
}

impl FieldPolicySpec {
    /// Everybody whom the policy names, with the place, for example `spec.owners[autoscaler].subjects[0]`.
    pub fn subjects(&self) -> impl Iterator<Item = (String, &Subject)> {
        let owners = self
            .owners
            .iter()
            .map(|owner| (format!("spec.owners[{}].subjects", owner.name), &*owner.subjects));
        let deletion = self.deletion.as_ref().map(|deletion| &*deletion.subjects).unwrap_or_default();
        let others = [
            ("spec.creation.except", &*self.creation.except),
            ("spec.deletion.subjects", deletion),
            ("spec.integrity.editors", &*self.integrity.editors),
            ("spec.breakGlass.subjects", &*self.break_glass.subjects),
        ];
        let others = others.into_iter().map(|(at, subjects)| (at.to_owned(), subjects));
        owners.chain(others).flat_map(|(at, subjects)| {
            subjects.iter().enumerate().map(move |(index, subject)| (format!("{at}[{index}]"), subject))
        })
    }
}

/// The resource whose fields are owned.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.group == oldSelf.group && self.resource == oldSelf.resource")
        .message("group and resource of the target are immutable: create another FieldPolicy"),
    // Reviews and flow control are needed to reach any webhook at all; leases and events would fill it; webhook
    // configurations and admission policies are never sent to a webhook; policies about policies could lock themselves.
    validation = Rule::new(
        "!(self.group in ['authentication.k8s.io', 'authorization.k8s.io', 'flowcontrol.apiserver.k8s.io', \
           'admissionregistration.k8s.io', 'fieldkeeper.dev'] || \
         self.group == 'apiregistration.k8s.io' && self.resource == 'apiservices' || \
         self.group == 'coordination.k8s.io' && self.resource == 'leases' || \
         self.group in ['', 'events.k8s.io'] && self.resource == 'events')"
    )
    .message("this resource is never governed: leases, events, reviews, flow control, API services, admission configuration and FieldPolicies stay out")
    .reason(Reason::FieldValueForbidden)
)]
pub struct Target {
    /// API group; empty for the core group.
    #[serde(default)]
    #[schemars(length(max = MAX_OBJECT_NAME))]
    #[x_kube(validation = Rule::new("self == '' || self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')")
        .message("group is an API group such as apps, or empty for the core group"))]
    pub group: String,
    /// The version that the paths are written for. All policies on one resource name the same.
    #[schemars(length(max = MAX_LABEL))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message("version is one API version such as v1 or v1alpha1"))]
    pub version: String,
    /// Plural name, lower case, without subresource: status and scale belong to their resource.
    #[schemars(length(max = MAX_LABEL))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message("resource is the plural name in lower case, such as deployments, without subresource"))]
    pub resource: String,
}

/// Which objects of the target are governed: those for which the stored *or* the new object matches.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// Labels of the object's namespace; does not apply to cluster-scoped resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: Option<LabelSelector>,
    /// Labels of the object itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub object_selector: Option<LabelSelector>,
}

/// What happens to a write that the policy does not grant. Ordered by strictness.
#[derive(
    JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Mode {
    /// Allowed, and recorded.
    #[default]
    Audit,
    /// Allowed, recorded, and the client is told.
    Warn,
    /// Refused.
    Enforce,
}

/// What the API server does with writes while no webhook answers.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// It refuses them.
    #[default]
    Fail,
    /// It lets them pass, unjudged.
    Ignore,
}

/// Whether a `ValidatingAdmissionPolicy` is generated beside the webhook.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AdmissionPolicy {
    /// None is.
    #[default]
    None,
    /// One that records broken rules in the API server's audit log.
    Audit,
    /// One that refuses; it holds when no webhook answers, and only records while the policy is paused.
    Deny,
}

/// Changes that no active claim covers. Ordered by strictness.
#[derive(
    JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Unlisted {
    /// Nobody's business.
    #[default]
    Allow,
    /// Allowed, recorded, and the client is told.
    Warn,
    /// Judged like a field that somebody else owns, in the policy's mode.
    Deny,
}

/// Who may set a claimed field when creating an object.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Creation {
    /// The rule.
    #[serde(default)]
    pub policy: CreationPolicy,
    /// Identities that may set any field when creating: restore and migration tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_SUBJECTS))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub except: Vec<Subject>,
}

/// Who may set a claimed field when creating an object.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CreationPolicy {
    /// Whoever may create the object.
    Anyone,
    /// Only the owners of the field.
    #[default]
    Owners,
}

/// Who may delete objects of the target.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deletion {
    /// They may; an empty list means nobody.
    #[serde(default)]
    #[schemars(length(max = MAX_SUBJECTS))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub subjects: Vec<Subject>,
}

/// Protection of the `managedFields` of claimed fields.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Integrity {
    /// What happens when ownership of a claimed field changes hands without a value change that explains it. Absent:
    /// the policy's mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Mode")]
    pub mode: Option<Mode>,
    /// What happens when somebody who is no owner becomes co-owner of a claimed field by applying an equal value.
    #[serde(default)]
    pub co_ownership: Mode,
    /// Identities that may rewrite `managedFields`: migration tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_SUBJECTS))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub editors: Vec<Subject>,
}

/// Identities that may write everything here.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BreakGlass {
    /// Allowed, with a warning, an event, a metric and an audit annotation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_SUBJECTS))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub subjects: Vec<Subject>,
}

impl BreakGlass {
    /// Whether there is nobody who may.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.subjects.is_empty()
    }
}
