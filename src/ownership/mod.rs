//! Who owns which field: the pure core.
//!
//! Values in, values out: nothing here does IO, reads a clock, draws a random
//! number or logs.

mod claimed;
pub mod compare;
pub mod complete;
pub mod condition;
pub mod decide;
pub mod defaults;
pub mod diff;
pub mod element;
pub mod entry;
pub mod explain;
pub mod facts;
pub mod fieldsv1;
mod finding;
mod integrity;
mod judge;
mod mutation;
pub mod path;
pub mod pattern;
pub mod raw;
mod reserved;
pub mod rule;
pub mod scale;
pub mod schema;
mod scope;
pub mod selection;
pub mod set;
pub mod system;
mod tracking;
pub mod value;
pub mod verdict;
