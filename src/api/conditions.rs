//! Setting `metav1.Condition`s the way the API conventions ask for.
//!
//! - **Input**: the conditions as they are, what was observed, and the time.
//! - **Output**: the conditions as they should be, and whether anything but a time differs.
//! - **Must not**: read a clock. The transition time moves only when `status` flips, else every pass would be a write.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// Longest message that the API server accepts in a condition.
pub const MAX_MESSAGE: usize = 32_768;

/// The three values of a condition's `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The condition holds.
    True,
    /// It does not.
    False,
    /// Nobody can say yet.
    Unknown,
}

impl Status {
    /// As it is written in the object.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// What a controller saw, before it is known whether that is news.
#[derive(Clone, Debug)]
pub struct Observation<'a> {
    /// `CamelCase` name of the condition.
    pub type_: &'a str,
    /// Whether it holds.
    pub status: Status,
    /// `CamelCase` reason, from a fixed set: it may become a metric label.
    pub reason: &'a str,
    /// A sentence for people. Without times, counters or random names, or every pass changes it.
    pub message: &'a str,
    /// `metadata.generation` of the object that was looked at.
    pub generation: i64,
}

/// Puts `seen` into `conditions` and tells whether a write is due.
///
/// New conditions go to the end, known ones stay where they are, so that the order never changes by itself.
pub fn set_condition(conditions: &mut Vec<Condition>, seen: &Observation<'_>, now: Timestamp) -> bool {
    let message = cut(seen.message, MAX_MESSAGE);
    let Some(known) = conditions.iter_mut().find(|c| c.type_ == seen.type_) else {
        conditions.push(Condition {
            type_: seen.type_.to_owned(),
            status: seen.status.as_str().to_owned(),
            reason: seen.reason.to_owned(),
            message: message.to_owned(),
            observed_generation: Some(seen.generation),
            last_transition_time: Time(now),
        });
        return true;
    };
    let flips = known.status != seen.status.as_str();
    let differs = flips
        || known.reason != seen.reason
        || known.message != message
        || known.observed_generation != Some(seen.generation);
    if flips {
        seen.status.as_str().clone_into(&mut known.status);
        known.last_transition_time = Time(now);
    }
    if differs {
        seen.reason.clone_into(&mut known.reason);
        message.clone_into(&mut known.message);
        known.observed_generation = Some(seen.generation);
    }
    differs
}

/// Removes the condition `type_`; true if it was there.
pub fn remove_condition(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|c| c.type_ != type_);
    conditions.len() != before
}

/// The condition `type_`, if it was ever set.
#[must_use]
pub fn find_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Whether the condition `type_` is known to hold.
#[must_use]
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find_condition(conditions, type_).is_some_and(|c| c.status == Status::True.as_str())
}

/// At most `limit` bytes of `text`, never half a character.
fn cut(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready(status: Status, message: &str, generation: i64) -> Observation<'_> {
        Observation { type_: "Ready", status, reason: "AsExpected", message, generation }
    }

    #[test]
    fn the_transition_time_moves_only_when_the_status_flips() {
        let mut conditions = Vec::new();
        assert!(set_condition(&mut conditions, &ready(Status::False, "waiting", 1), at(10)));
        assert!(set_condition(&mut conditions, &ready(Status::False, "still waiting", 2), at(20)));
        assert_eq!(conditions[0].last_transition_time, Time(at(10)));
        assert_eq!(conditions[0].observed_generation, Some(2));
        assert!(set_condition(&mut conditions, &ready(Status::True, "done", 2), at(30)));
        assert_eq!(conditions[0].last_transition_time, Time(at(30)));
        assert!(is_true(&conditions, "Ready"));
    }

    #[test]
    fn the_same_observation_again_is_no_change() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, &ready(Status::True, "done", 3), at(10));
        let before = conditions.clone();
        assert!(!set_condition(&mut conditions, &ready(Status::True, "done", 3), at(99)));
        assert_eq!(conditions, before);
    }

    #[test]
    fn a_message_over_the_limit_is_cut_and_then_stable() {
        let mut conditions = Vec::new();
        let long = "é".repeat(MAX_MESSAGE);
        assert!(set_condition(&mut conditions, &ready(Status::True, &long, 1), at(1)));
        assert_eq!(conditions[0].message.len(), MAX_MESSAGE);
        assert!(!set_condition(&mut conditions, &ready(Status::True, &long, 1), at(2)));
    }

    #[test]
    fn other_conditions_keep_their_place() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, &ready(Status::True, "", 1), at(1));
        let stalled = Observation { type_: "Stalled", ..ready(Status::False, "", 1) };
        set_condition(&mut conditions, &stalled, at(1));
        set_condition(&mut conditions, &ready(Status::False, "", 1), at(2));
        let order: Vec<_> = conditions.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(order, ["Ready", "Stalled"]);
        assert!(remove_condition(&mut conditions, "Ready"));
        assert!(!remove_condition(&mut conditions, "Ready"));
        assert!(find_condition(&conditions, "Ready").is_none());
    }
}
