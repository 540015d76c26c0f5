//! What fieldkeeper reports about a `FieldPolicy`.
//!
//! Two writers share it, each by apply under its own field manager: the policy controller writes everything but the
//! counts, the audit writes the counts.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{FieldPolicySpec, MAX_IDENTITY, MAX_LABEL, MAX_OWNERS};
use crate::api::schema;

/// The spec compiles.
pub const ACCEPTED: &str = "Accepted";
/// Every path exists in the target's schema.
pub const SCHEMA_RESOLVED: &str = "SchemaResolved";
/// Every service account that the policy names exists. A policy is in force with or without them.
pub const SUBJECTS_RESOLVED: &str = "SubjectsResolved";
/// The API server sends the target's writes to us.
pub const REGISTERED: &str = "Registered";
/// The webhook may read the objects that it needs to judge writes of `/scale`.
pub const PARENTS_READABLE: &str = "ParentsReadable";
/// Rules are live and every webhook replica has this generation.
pub const ENFORCING: &str = "Enforcing";
/// Everything above but `SubjectsResolved`, in one word.
pub const READY: &str = "Ready";

/// The report about one policy.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldPolicyStatus {
    /// `metadata.generation` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The last spec that compiled, exactly as it was accepted. Used while `spec` does not compile.
    //
    // Without a schema on purpose: a second copy of the spec's would double the CRD and its rules' cost, and would prune
    // or default the copy when a later version of the CRD differs. Read it with `accepted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub accepted_spec: Option<serde_json::Value>,
    /// `Accepted`, `SchemaResolved`, `SubjectsResolved`, `Registered`, `ParentsReadable`, `Enforcing`, `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Writes that were not granted, over all owners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub would_deny: Option<i64>,
    /// The same for each owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_OWNERS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub owners: Vec<OwnerStatus>,
}

impl FieldPolicyStatus {
    /// The last spec that compiled; an error if an older or newer version wrote something that this one cannot read.
    #[must_use]
    pub fn accepted(&self) -> Option<Result<FieldPolicySpec, serde_json::Error>> {
        self.accepted_spec.as_ref().map(FieldPolicySpec::deserialize)
    }
}

/// Writes to one owner's fields that were not granted, whether refused or, in a milder mode, only recorded.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerStatus {
    /// Name of the owner.
    #[schemars(length(min = 1, max = MAX_LABEL))]
    pub name: String,
    /// How many.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub would_deny: i64,
    /// When the last one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_denied: Option<Time>,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_IDENTITY))]
    pub last_requester: Option<String>,
}
