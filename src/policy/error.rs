//! Why a policy does not compile: each error with its place.

use std::fmt;

/// Errors that a message lists: the first ones are what a person mends first.
const SHOWN_ERRORS: usize = 10;

/// One thing that is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// Where in the FieldPolicy, for example `spec.owners[autoscaler].fields[0].path`.
    pub at: String,
    /// What is wrong, in a sentence.
    pub message: String,
}

impl CompileError {
    /// An error about a field as a whole.
    pub fn new(at: impl Into<String>, message: impl Into<String>) -> Self {
        Self { at: at.into(), message: message.into() }
    }

    /// An error at a byte of a text, which is shown with a mark at that place.
    pub fn located(at: String, position: usize, text: &str, message: impl fmt::Display) -> Self {
        let before = text.get(..position).unwrap_or(text);
        let column = before.chars().count() + 1;
        let after = text.get(position..).unwrap_or_default();
        Self { at, message: format!("{message}, at character {column}: {before}⟨here⟩{after}") }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

/// Everything that is wrong with a policy; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct CompileErrors(pub Vec<CompileError>);

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().take(SHOWN_ERRORS).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        match self.0.len().saturating_sub(SHOWN_ERRORS) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}
