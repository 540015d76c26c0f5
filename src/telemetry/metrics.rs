//! Metrics of the webhook.
//!
//! Labels come from fixed lists or from names of policies. Names of objects and people never become
//! labels: their number has no bound.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;

/// Prefix of every metric.
pub const PREFIX: &str = "fieldkeeper";

/// The shortest review that the histogram tells from others, in seconds. The API server's own
/// histogram begins at 5 ms, where all of ours would fall into the first bucket.
const SHORTEST_REVIEW: f64 = 50e-6;

/// From 50 us to 1.6 s by factors of two: longer than the API server waits.
const REVIEW_BUCKETS: u16 = 16;

/// Labels of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReviewLabels {
    /// `validate` or `observe`.
    pub endpoint: &'static str,
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT`, or `unknown` when it could not be read.
    pub operation: &'static str,
    /// `allowed`, `denied`, `warned`, `undecided` or `error`.
    pub outcome: &'static str,
}

/// The endpoint of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EndpointLabels {
    /// `validate` or `observe`.
    pub endpoint: &'static str,
}

/// A policy that found something.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PolicyLabels {
    /// Name of the policy.
    pub policy: Arc<str>,
    /// `Enforce`, `Warn` or `Audit`.
    pub mode: &'static str,
}

/// How something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResultLabels {
    /// From a fixed list for each metric.
    pub result: &'static str,
}

/// Everything that the webhook counts. Clones share the numbers.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    /// Reviews answered, or refused by an HTTP error (`error`).
    pub reviews: Family<ReviewLabels, Counter>,
    /// Time from the last byte of the head to the first of the answer.
    pub review_seconds: Family<EndpointLabels, Histogram, fn() -> Histogram>,
    /// Reviews in which a policy found something, by the mode of what it found.
    pub findings: Family<PolicyLabels, Counter>,
    /// Bytes of request bodies in memory.
    pub body_bytes: Gauge,
    /// Open connections to the admission port.
    pub connections: Gauge,
    /// TLS handshakes that failed: `timeout`, `client_certificate`, `other`.
    pub handshake_failures: Family<ResultLabels, Counter>,
    /// When the serving certificate expires, in seconds since the epoch.
    pub certificate_expiry: Gauge,
    /// Certificate pairs found changed: `ok` or `error`.
    pub certificate_reloads: Family<ResultLabels, Counter>,
    /// Reviews of members of the bypass group: `allowed`, or `would_deny`.
    pub bypass: Family<ResultLabels, Counter>,
    /// Reads of parents for `/scale`: `ok`, `changed`, `not_found`, `forbidden`, `timeout`, `error`.
    pub parent_reads: Family<ResultLabels, Counter>,
    /// Notices lost because nobody took them fast enough.
    pub notices_lost: Counter,
}

impl WebhookMetrics {
    /// Creates them and adds them to the registry.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            reviews: Family::default(),
            review_seconds: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(SHORTEST_REVIEW, 2.0, REVIEW_BUCKETS))
            }),
            findings: Family::default(),
            body_bytes: Gauge::default(),
            connections: Gauge::default(),
            handshake_failures: Family::default(),
            certificate_expiry: Gauge::default(),
            certificate_reloads: Family::default(),
            bypass: Family::default(),
            parent_reads: Family::default(),
            notices_lost: Counter::default(),
        };
        registry.register("webhook_reviews", "Reviews by outcome", metrics.reviews.clone());
        registry.register_with_unit(
            "webhook_review_duration",
            "Time to answer a review",
            Unit::Seconds,
            metrics.review_seconds.clone(),
        );
        registry.register(
            "webhook_policy_findings",
            "Reviews in which a policy found something, by mode",
            metrics.findings.clone(),
        );
        registry.register_with_unit(
            "webhook_body",
            "Request bodies held in memory",
            Unit::Bytes,
            metrics.body_bytes.clone(),
        );
        registry.register("webhook_connections", "Open admission connections", metrics.connections.clone());
        registry.register(
            "webhook_handshake_failures",
            "TLS handshakes that failed",
            metrics.handshake_failures.clone(),
        );
        registry.register_with_unit(
            "webhook_certificate_expiry_timestamp",
            "When the serving certificate expires",
            Unit::Seconds,
            metrics.certificate_expiry.clone(),
        );
        registry.register(
            "webhook_certificate_reloads",
            "Changed certificate pairs",
            metrics.certificate_reloads.clone(),
        );
        registry.register(
            "webhook_bypass",
            "Reviews of members of the bypass group, by what would have become of them",
            metrics.bypass.clone(),
        );
        registry.register("webhook_parent_reads", "Reads of parents for scale", metrics.parent_reads.clone());
        registry.register(
            "webhook_notices_lost",
            "Notices for events and counts that were dropped",
            metrics.notices_lost.clone(),
        );
        metrics
    }
}

/// An empty registry with our prefix.
#[must_use]
pub fn registry() -> Registry {
    Registry::with_prefix(PREFIX)
}
