//! The one integration test binary: every further file in `tests/` would cost a link of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    unreachable_pub,
    reason = "helpers of tests may stop at the first thing that is not as they say, like the tests themselves"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod admission_policy;
mod anykind;
mod arena;
mod bypasses;
mod cases;
mod compile;
mod control_plane;
mod correctness;
mod crd_rules;
mod crds;
mod decisions;
mod differential;
mod docs;
mod fuzz;
mod govern;
mod http;
mod innocent;
mod layers;
mod left_behind;
mod lint;
mod policy_controller;
mod refusals;
mod rollout;
mod snapshot;
mod tls;
mod webhook_endpoint;
mod whole_plane;
mod write_door;
