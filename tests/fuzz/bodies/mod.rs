//! What the fuzz targets check, one file each, without the fuzzer.
//!
//! `tests/it/fuzz.rs` runs the same checks on the inputs that are kept, with the stable compiler.

pub mod decide;
mod dice;
mod edge;
pub mod envelope;
pub mod fieldsv1;
mod grammar;
mod ground;
mod json;
mod kinds;
mod objects;
pub mod path;
mod promises;
pub mod when;
