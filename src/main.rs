//! The `fieldkeeper` program.

fn main() {}
