//! Ways around field ownership, each sent to a real API server by a real identity.
//!
//! The number is that of the list in `docs/correctness.md`.

mod ground;
mod identity;
mod lifecycle;
mod limits;
mod structure;
mod subresources;
