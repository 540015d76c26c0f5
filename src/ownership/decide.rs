//! The decision: facts and a target's policies in, a verdict out.

use super::facts::Facts;
use super::rule::Target;
use super::verdict::Verdict;

/// What came of judging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Judged.
    Decided(Verdict),
    /// A `/scale` request that can only be judged with the object itself: read it at the
    /// reviewed uid and resource version, put it into [`Facts::parent`] and ask again.
    NeedsParent,
}

/// Judges one request.
#[must_use]
pub fn decide(_facts: &Facts<'_>, _target: &Target) -> Decision {
    Decision::Decided(Verdict::default())
}
