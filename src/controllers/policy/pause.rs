//! The pause of a policy, and when that changes by itself. Pure.
//!
//! Input: a compiled policy and the time. Output: a [`Pause`]. Must count as `decide` counts: one that
//! lies further ahead than a pause may has not begun.

use k8s_openapi::jiff::Timestamp;

use crate::ownership::decide::MAX_PAUSE;
use crate::ownership::rule::Policy;

/// A pause that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Whether it has begun: one that lies too far ahead does not count yet.
    pub began: bool,
    /// Seconds until that changes.
    pub changes_in: i64,
}

impl Pause {
    /// The pause of a policy, if it has one that is not over, by the same rule as the decision's.
    #[must_use]
    pub fn of(policy: &Policy, now: Timestamp) -> Option<Self> {
        let left = policy.paused_until?.saturating_sub(now.as_second());
        let began = left <= MAX_PAUSE;
        let changes_in = if began { left } else { left.saturating_sub(MAX_PAUSE) };
        (left > 0).then_some(Self { began, changes_in })
    }
}
