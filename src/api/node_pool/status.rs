//! What the nodepool controller reports about a pool.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::schema;

/// The pool has its target size and every node is ready.
pub const READY: &str = "Ready";
/// Work is going on (kstatus).
pub const RECONCILING: &str = "Reconciling";
/// Nothing will happen until somebody changes something (kstatus).
pub const STALLED: &str = "Stalled";
/// The provider answers and knows the pool.
pub const PROVIDER_AVAILABLE: &str = "ProviderAvailable";
/// The wanted size is beyond a bound or a quota.
pub const SCALING_LIMITED: &str = "ScalingLimited";
/// Another declared owner holds a field that is ours to write.
pub const OWNERSHIP_CONFLICT: &str = "OwnershipConflict";

/// The report about one pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// `metadata.generation` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether the size is being changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ScaleOperation")]
    pub scale_operation: Option<ScaleOperation>,
    /// The change in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// The number that the next machine gets. Numbers are never used twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub next_sequence: Option<i64>,
    /// The effective size, in every mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub target_nodes: Option<i32>,
    /// Machines that are not being removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub nodes: Option<i32>,
    /// Those that are ready nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ready_nodes: Option<i32>,
    /// Those that are being drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub draining_nodes: Option<i32>,
    /// Those that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub failed_nodes: Option<i32>,
    /// Why nothing is tried just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// `Ready`, `Reconciling`, `Stalled`, `ProviderAvailable`, `ScalingLimited`, `OwnershipConflict`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Whether the size of a pool is being changed.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScaleOperation {
    /// It is not.
    Inactive,
    /// It is.
    Active,
}

/// A change of size in progress.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// Up or down.
    pub direction: Direction,
    /// The size when it began.
    #[schemars(range(min = 0))]
    pub from: i32,
    /// The size when it ends.
    #[schemars(range(min = 0))]
    pub to: i32,
    /// When it began.
    pub started_at: Time,
    /// `metadata.generation` that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The ScaleRequest that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestRef>,
    /// Numbers handed out before the machines exist, so that a crash in between creates none twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Reserved>,
}

/// Up or down.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// More machines.
    Up,
    /// Fewer machines.
    Down,
}

/// A ScaleRequest.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRef {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its uid: a namesake created later is another request.
    #[schemars(length(max = 64))]
    pub uid: String,
}

/// A range of numbers, both ends included.
#[derive(KubeSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reserved {
    /// The first.
    #[schemars(range(min = 0))]
    pub first: i64,
    /// The last.
    #[schemars(range(min = 0))]
    pub last: i64,
}

/// Why nothing is tried just now.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backoff {
    /// Until when.
    pub until: Time,
    /// How long it was when it began; the next one is longer.
    #[schemars(range(min = 0))]
    pub seconds: i32,
    /// Why, in one CamelCase word.
    #[schemars(length(max = 64))]
    pub reason: String,
}
