//! Who owns which field: the pure core.
//!
//! Values in, values out: nothing here does IO, reads a clock, draws a random
//! number or logs.

pub mod diff;
pub mod element;
pub mod entry;
pub mod fieldsv1;
pub mod path;
pub mod pattern;
pub mod raw;
pub mod schema;
pub mod set;
pub mod value;
