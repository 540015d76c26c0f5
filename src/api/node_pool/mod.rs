//! `NodePool`: a group of equal machines and how many of them there should be.
//!
//! - **Input**: what people write (`spec`), what requesters ask for, what the nodepool controller reports (`status`).
//! - **Output**: types with the schema, bounds and rules that the API server checks.
//! - **Must not**: plan anything; that is the fleet's.
//!
//! `spec.targetNodes` has no schema default, and no rule asks for it, not even in mode `Manual`. When an owner stops
//! applying the field, the API server would fill in the default and the pool would jump; a rule would refuse exactly
//! the writes that hand the field over: GitOps drops it before the mode is switched back, or drops it so that
//! `kubectl scale` may own it. Absent has a safe meaning instead: the size stays what `status.targetNodes` says, and is
//! `minNodes` for a new pool.

pub mod lifecycle;
pub mod status;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::api::schema;

pub use lifecycle::{BarePods, DeletionOrder, Lifecycle};
pub use status::{Backoff, Direction, NodePoolStatus, Operation, RequestRef, Reserved, ScaleOperation};

/// Most nodes in one pool; above, one object per machine and one status for all is the wrong shape.
pub const MAX_NODES: i32 = 1000;
/// Names of pools: with a dash and a number they become names of machines and label values (63).
pub const MAX_NAME: usize = 40;
/// Requesters of one pool.
pub const MAX_REQUESTERS: usize = 32;
/// Labels and annotations that a pool gives its nodes.
pub const MAX_ENTRIES: usize = 64;
/// One annotation's value: enough for a small JSON document, and 64 of them fit an object.
pub const MAX_ANNOTATION: usize = 4096;
/// Taints that a pool gives its nodes.
pub const MAX_TAINTS: usize = 32;
/// Resources of a simulated machine.
pub const MAX_RESOURCES: usize = 32;
/// A day: longer is a mistake in the unit.
pub const MAX_SECONDS: i32 = 86_400;

/// A group of equal machines.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "compute.fieldkeeper.dev",
    version = "v1alpha1",
    kind = "NodePool",
    plural = "nodepools",
    category = "fieldkeeper",
    status = "NodePoolStatus",
    derive = "PartialEq",
    doc = "A group of equal machines and how many of them there should be.",
    label("app.kubernetes.io/part-of", "fieldkeeper"),
    // Without a label selector path: `kubectl scale` works, and no HPA can become one more writer.
    scale(spec_replicas_path = ".spec.targetNodes", status_replicas_path = ".status.nodes"),
    printcolumn(name = "Target", type_ = "integer", json_path = ".status.targetNodes"),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.nodes"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyNodes"),
    printcolumn(name = "Scaling", type_ = "string", json_path = ".status.scaleOperation"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Min", type_ = "integer", json_path = ".spec.minNodes", priority = 1),
    printcolumn(name = "Max", type_ = "integer", json_path = ".spec.maxNodes", priority = 1),
    printcolumn(name = "Hand-Off", type_ = "string", json_path = ".spec.handOff", priority = 1),
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.provider.type", priority = 1),
    printcolumn(
        name = "Stalled",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Stalled\")].reason",
        priority = 1
    ),
    validation = Rule::new("size(self.metadata.name) <= 40").message("the name of a NodePool has at most 40 characters"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.minNodes <= self.maxNodes").message("minNodes is above maxNodes"),
    // Only where people write the field: in the other modes lowering maxNodes must not need the automation's consent,
    // the controller converges and says so (ScalingLimited).
    validation = Rule::new(
        "self.handOff != 'Manual' || !has(self.targetNodes) || \
         self.targetNodes >= self.minNodes && self.targetNodes <= self.maxNodes"
    ).message("targetNodes is outside minNodes and maxNodes"),
)]
pub struct NodePoolSpec {
    /// Who decides the size, and how it is told.
    #[serde(default)]
    pub hand_off: HandOff,
    /// The wanted size in the modes Manual and Direct. Absent: the size stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub target_nodes: Option<i32>,
    /// Wanted sizes in the mode Requested, one per requester; the largest valid one counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_REQUESTERS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["requester".into()]))]
    pub requested: Vec<RequestedNodes>,
    /// Never fewer.
    #[serde(default)]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub min_nodes: i32,
    /// Never more.
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub max_nodes: i32,
    /// While true nothing is created, drained or removed.
    #[serde(default)]
    pub paused: bool,
    /// Where the machines come from.
    pub provider: Provider,
    /// What each node gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<NodeTemplate>,
    /// How nodes come and go.
    #[serde(default)]
    pub lifecycle: Lifecycle,
}

/// Who decides the size of a pool.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HandOff {
    /// People or GitOps write `.spec.targetNodes`.
    #[default]
    Manual,
    /// The autoscaler writes `.spec.targetNodes`.
    Direct,
    /// `.spec.targetNodes` is closed; whoever is entitled creates a ScaleRequest.
    ScaleRequest,
    /// `.spec.targetNodes` is closed; each requester applies its own item of `.spec.requested`.
    Requested,
}

/// A size that one requester asks for.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestedNodes {
    /// Who asks.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("a requester is lower case letters, digits and dashes"))]
    pub requester: String,
    /// For how many nodes.
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub nodes: i32,
    /// Until when; for ever if absent, and not at all if it cannot be read.
    //
    // Text for the same reason as `pausedUntil` of a FieldPolicy: a strange time must not make the pool unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub valid_until: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub reason: Option<String>,
}

/// Where the machines come from: exactly the member that `type` names.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.simulated) == (self.type == 'Simulated')")
        .message("the member simulated goes with type Simulated"),
    validation = Rule::new("has(self.externalGRPC) == (self.type == 'ExternalGRPC')")
        .message("the member externalGRPC goes with type ExternalGRPC"),
)]
pub struct Provider {
    /// Which one.
    #[serde(rename = "type")]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("the provider's type is immutable: the machines would be orphaned"))]
    pub type_: ProviderType,
    /// Machines that are only Node objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<SimulatedProvider>,
    /// A Cluster Autoscaler cloud provider.
    #[serde(rename = "externalGRPC", default, skip_serializing_if = "Option::is_none")]
    pub external_grpc: Option<ExternalGrpcProvider>,
}

/// Kinds of provider.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ProviderType {
    /// Machines that are only Node objects.
    Simulated,
    /// A server of Cluster Autoscaler's `externalgrpc` protocol.
    #[serde(rename = "ExternalGRPC")]
    ExternalGrpc,
}

/// Machines that are only Node objects.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedProvider {
    /// What one machine has, such as cpu, memory and pods.
    #[schemars(schema_with = "capacity")]
    pub capacity: BTreeMap<String, Quantity>,
    /// How long a machine takes to come up.
    #[serde(default)]
    #[schemars(range(min = 0, max = MAX_SECONDS))]
    pub startup_delay_seconds: i32,
}

/// A node group behind Cluster Autoscaler's `externalgrpc` protocol.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalGrpcProvider {
    /// Name of a connection in the operator's own configuration; never an address, which would let whoever writes a
    /// pool choose where the operator connects to.
    #[schemars(length(min = 1, max = 63))]
    pub connection: String,
    /// The node group.
    #[serde(rename = "nodeGroupID")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("nodeGroupID is immutable: the machines would be orphaned"))]
    pub node_group_id: String,
}

/// What each node of a pool gets.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTemplate {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations")]
    pub annotations: BTreeMap<String, String>,
    /// Taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_TAINTS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["key".into(), "effect".into()]))]
    pub taints: Vec<Taint>,
}

/// A taint.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Its key.
    #[schemars(length(min = 1, max = schema::MAX_LABEL_KEY))]
    pub key: String,
    /// What it does to pods that do not tolerate it.
    pub effect: TaintEffect,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL_VALUE))]
    pub value: Option<String>,
}

/// What a taint does.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TaintEffect {
    /// No new pods.
    NoSchedule,
    /// No new pods if there is another place.
    PreferNoSchedule,
    /// No pods.
    NoExecute,
}

fn capacity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": MAX_RESOURCES,
        // Text only: Kubernetes itself turns `cpu: 4` into "4", a custom resource would keep the number.
        "additionalProperties": {
            "type": "string",
            "maxLength": 32,
            "pattern": "^[0-9]+(\\.[0-9]+)?(([KMGTPE]i)|[numkMGTPE]|[eE][-+]?[0-9]+)?$",
        },
    })
}

fn labels(_: &mut SchemaGenerator) -> Schema {
    schema::label_map(MAX_ENTRIES)
}

fn annotations(_: &mut SchemaGenerator) -> Schema {
    schema::string_map(MAX_ENTRIES, MAX_ANNOTATION)
}
