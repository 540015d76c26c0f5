//! Layer 4: the loops. Each is a folder of five steps: observe reads, plan is
//! pure, apply writes, report writes status, and `mod` says in which order.

pub mod policy;
