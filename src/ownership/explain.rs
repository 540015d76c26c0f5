//! Verdict to text for people.

use super::facts::Facts;
use super::verdict::Verdict;

/// One cause for `status.details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// CamelCase reason, for example `FieldOwnedByAnother`.
    pub reason: &'static str,
    /// Path in path style; empty for the whole object.
    pub field: String,
    /// One sentence.
    pub message: String,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Answer {
    /// The denial, several lines; empty when nothing is denied.
    pub message: String,
    /// One entry for each refused field, bounded.
    pub causes: Vec<Cause>,
    /// Warnings for findings in mode Warn, each bounded as the API server wants.
    pub warnings: Vec<String>,
    /// Audit annotations: key without prefix, value.
    pub annotations: Vec<(String, String)>,
}

/// Puts a verdict into words.
#[must_use]
pub fn explain(_facts: &Facts<'_>, _verdict: &Verdict) -> Answer {
    Answer::default()
}
