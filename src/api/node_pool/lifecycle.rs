//! How nodes of a pool come and go.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MAX_SECONDS;

/// Machines that start or drain at the same time; more is a burst that no quota and no budget is made for.
const MAX_PARALLEL: i32 = 100;

/// How nodes of a pool come and go.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// A machine that is no ready node by then is replaced.
    #[serde(default = "fifteen_minutes")]
    #[schemars(range(min = 1, max = MAX_SECONDS))]
    pub provision_timeout_seconds: i32,
    /// After this long a drain deletes what it could not evict. Absent: it waits for disruption budgets for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_SECONDS))]
    pub drain_timeout_seconds: Option<i32>,
    /// What a drain does with pods that no controller would create again.
    #[serde(default)]
    pub bare_pods: BarePods,
    /// Which node goes first.
    #[serde(default)]
    pub deletion_order: DeletionOrder,
    /// Machines that may start at the same time.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = MAX_PARALLEL))]
    pub max_parallel_launches: i32,
    /// Nodes that may drain at the same time.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = MAX_PARALLEL))]
    pub max_parallel_drains: i32,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            provision_timeout_seconds: fifteen_minutes(),
            drain_timeout_seconds: None,
            bare_pods: BarePods::default(),
            deletion_order: DeletionOrder::default(),
            max_parallel_launches: ten(),
            max_parallel_drains: one(),
        }
    }
}

/// What a drain does with pods that no controller would create again.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BarePods {
    /// They stop it.
    #[default]
    Block,
    /// It evicts them.
    Evict,
}

/// Which node goes first when a pool shrinks.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DeletionOrder {
    /// The one with the fewest pods to move.
    #[default]
    EmptyFirst,
    /// The youngest.
    Newest,
    /// The oldest.
    Oldest,
}

fn fifteen_minutes() -> i32 {
    900
}

fn ten() -> i32 {
    10
}

fn one() -> i32 {
    1
}
