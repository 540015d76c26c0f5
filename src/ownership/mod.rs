//! Who owns which field: the pure core.
//!
//! Values in, values out: nothing here does IO, reads a clock, draws a random
//! number or logs.

pub mod element;
pub mod fieldsv1;
pub mod path;
pub mod set;
