//! Writes that look like an intrusion and are none: each by a real identity or a real controller against a real API
//! server, and each beside a write that is wrong by a hair and must be refused.
//!
//! The number is that of the list in `docs/correctness.md`.

mod controllers;
mod endpoint;
mod mutators;
mod server;
mod tools;
mod tracking;
mod values;
mod versions;
