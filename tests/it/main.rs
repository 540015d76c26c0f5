//! The one integration test binary: every further file in `tests/` would cost a link of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may stop at the first thing that is not as they say, like the tests themselves"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod compile;
mod control_plane;
mod decisions;
mod differential;
mod layers;
mod left_behind;
mod webhook_endpoint;
