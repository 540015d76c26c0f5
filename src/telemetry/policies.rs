//! Numbers about the policies that a process works with.
//!
//! Input: what was loaded. Output: gauges. Must not carry names of policies:
//! which one is at fault stands in its conditions and in the log.

use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Gauges about policies. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct PolicyMetrics {
    /// Policies of which some spec is in force.
    pub in_force: Gauge,
    /// Policies whose present spec is not in force.
    pub not_accepted: Gauge,
    /// 1 while the last good policies stand in for present ones that seem to be lost. Worth an alarm.
    pub held: Gauge,
    /// When policies were loaded last.
    pub loaded: Gauge<f64, AtomicU64>,
}

impl PolicyMetrics {
    /// Creates them and adds them to the registry.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("policies_in_force", "Policies in force", metrics.in_force.clone());
        registry.register(
            "policies_not_accepted",
            "Policies whose present spec is not in force",
            metrics.not_accepted.clone(),
        );
        registry.register(
            "policies_held",
            "1 while the last good policies stand in for lost ones",
            metrics.held.clone(),
        );
        registry.register_with_unit(
            "policies_loaded_timestamp",
            "When policies were loaded last",
            Unit::Seconds,
            metrics.loaded.clone(),
        );
        metrics
    }

    /// Policies were loaded just now.
    pub fn loaded(&self, in_force: usize, not_accepted: usize, held: bool) {
        self.in_force.set(i64::try_from(in_force).unwrap_or(i64::MAX));
        self.not_accepted.set(i64::try_from(not_accepted).unwrap_or(i64::MAX));
        self.held.set(held.into());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.loaded.set(now.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics;

    #[test]
    fn what_was_loaded_is_exported() {
        let mut registry = metrics::registry();
        PolicyMetrics::register(&mut registry).loaded(3, 1, true);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "fieldkeeper_policies_in_force 3",
            "fieldkeeper_policies_not_accepted 1",
            "fieldkeeper_policies_held 1",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.contains("fieldkeeper_policies_loaded_timestamp_seconds"), "{text}");
    }
}
