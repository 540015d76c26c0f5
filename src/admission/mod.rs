//! The HTTP edge: admission reviews in, verdicts out.
//!
//! `state` is what other parts plug into.

pub mod state;
