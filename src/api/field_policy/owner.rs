//! One owner of a `FieldPolicy`: who it is, under which names it writes, and what it claims.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::{
    MAX_EXTRA, MAX_FIELD_MANAGERS, MAX_FIELDS, MAX_IDENTITY, MAX_INSTEAD, MAX_LABEL, MAX_MANAGER_NAME,
    MAX_MUTATORS, MAX_OBJECT_NAME, MAX_PATH, MAX_SUBJECTS, MAX_WHEN, Mode,
};
use crate::api::schema;

/// One party and what it owns.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("size(self.fields) > 0 || has(self.fieldManagers) && size(self.fieldManagers) > 0")
        .message("an owner needs at least one field or one field manager")
)]
pub struct Owner {
    /// Name of the owner, as it appears in denials, reports and metrics.
    #[schemars(length(min = 1, max = MAX_LABEL))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("the name of an owner is lower case letters, digits and dashes"))]
    pub name: String,
    /// Identities that are this owner. Empty: nobody is, the claims close their fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_SUBJECTS))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub subjects: Vec<Subject>,
    /// Mode of this owner's claims. Absent: the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Mode")]
    pub mode: Option<Mode>,
    /// Names under which this owner writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_FIELD_MANAGERS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub field_managers: Vec<FieldManagerClaim>,
    /// Names under which this owner once wrote. It may move such entries to one of its `fieldManagers`; reports
    /// file what is left of them under this owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_FIELD_MANAGERS), inner(length(min = 1, max = MAX_MANAGER_NAME)))]
    #[x_kube(
        merge_strategy = ListMerge::Set,
        validation = Rule::new("self.all(m, !m.matches('[\\\\x00-\\\\x1f\\\\x7f]'))")
            .message("a former field manager's name has no control characters")
    )]
    pub former_field_managers: Vec<String>,
    /// What this owner claims. The same path may stand here several times with different conditions.
    #[serde(default)]
    #[schemars(length(max = MAX_FIELDS))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub fields: Vec<FieldClaim>,
}

/// An identity, as in RBAC: exact names.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "self.kind != 'ServiceAccount' || has(self.namespace) != has(self.namespaceFrom)"
    ).message("a ServiceAccount needs exactly one of namespace and namespaceFrom"),
    validation = Rule::new(
        "self.kind == 'ServiceAccount' || !has(self.namespace) && !has(self.namespaceFrom)"
    ).message("only a ServiceAccount has a namespace"),
)]
pub struct Subject {
    /// What kind of identity.
    pub kind: SubjectKind,
    /// Its exact name.
    #[schemars(length(min = 1, max = MAX_IDENTITY))]
    pub name: String,
    /// Namespace of a ServiceAccount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_LABEL))]
    pub namespace: Option<String>,
    /// Where the namespace of a ServiceAccount comes from, instead of `namespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NamespaceFrom")]
    pub namespace_from: Option<NamespaceFrom>,
    /// The identity must also have this uid: a ServiceAccount that was deleted and created again has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_OBJECT_NAME))]
    pub uid: Option<String>,
    /// The identity must also have these values among the `extra` that its authenticator gave it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "extra")]
    pub extra: BTreeMap<String, String>,
}

/// Kinds of identity.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SubjectKind {
    /// A user by name.
    User,
    /// Every member of a group.
    Group,
    /// A service account.
    ServiceAccount,
}

/// Where the namespace of a service account comes from.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NamespaceFrom {
    /// From the object that is written: "the one of this name in the object's own namespace".
    Object,
}

/// A name under which an owner writes.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldManagerClaim {
    /// The field manager's exact name.
    #[schemars(length(min = 1, max = MAX_MANAGER_NAME))]
    #[x_kube(validation = Rule::new("!self.matches('[\\\\x00-\\\\x1f\\\\x7f]')")
        .message("a field manager's name has no control characters"))]
    pub name: String,
    /// What the claim means for writes.
    #[serde(rename = "use", default)]
    pub usage: ManagerUse,
}

/// What a claimed field manager means for writes. Each includes the ones before it.
#[derive(
    JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum ManagerUse {
    /// Nothing; the audit files entries of this name under this owner.
    #[default]
    Expect,
    /// Nobody else may write under this name.
    Reserve,
    /// The owner itself must write under one of its required names.
    Require,
}

/// A claim: a path, under a condition.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldClaim {
    /// Path as in apply conflicts, such as `.spec.replicas` or `.spec.taints[key="a",effect="NoSchedule"]`. It covers
    /// everything below it.
    #[schemars(length(min = 2, max = MAX_PATH))]
    #[x_kube(validation = Rule::new("self.startsWith('.')").message("a path begins with a dot, such as .spec.replicas"))]
    pub path: String,
    /// The claim holds only while this is true of the stored object: CEL with `oldObject`, field selection, `has`,
    /// comparisons, `in`, `!`, `&&`, `||` and literals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_WHEN))]
    pub when: Option<String>,
    /// What to do instead, told to whoever is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_INSTEAD))]
    #[x_kube(validation = Rule::new("!self.matches('[\\\\x00-\\\\x1f\\\\x7f]')")
        .message("the advice in instead is one line without control characters"))]
    pub instead: Option<String>,
    /// Mode of this claim. Absent: the owner's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Mode")]
    pub mode: Option<Mode>,
    /// When two values are the same.
    #[serde(default)]
    pub compare: Compare,
    /// Values are never printed. Data of Secrets never are anyway.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sensitive: bool,
    /// The only mutating webhooks and policies that may change the field on its way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_MUTATORS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub mutators: Vec<Mutator>,
}

/// When two values are the same.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Compare {
    /// When the server thinks so: `1` and `1000m` differ.
    #[default]
    Exact,
    /// As resource quantities.
    Quantity,
    /// As durations.
    Duration,
    /// An empty value is the same as none.
    EmptyIsAbsent,
}

/// A mutating webhook or policy that may change a claimed field.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mutator {
    /// Name for reports.
    #[schemars(length(min = 1, max = MAX_OBJECT_NAME))]
    pub name: String,
    /// Only while this is true; here `object` is the object after all mutation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_WHEN))]
    pub when: Option<String>,
}

fn extra(_: &mut SchemaGenerator) -> Schema {
    schema::string_map(MAX_EXTRA, MAX_IDENTITY)
}

// serde asks for a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !*value
}
