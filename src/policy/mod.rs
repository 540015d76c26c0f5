//! From what people write to what `decide` works with.
//!
//! Pure: text and API types in, compiled rules or located errors out.

pub mod compile;
pub mod error;
pub mod export_vap;
pub mod lint;
mod select;
pub mod when;
