//! Declared, enforced and audited field ownership for Kubernetes objects.

pub mod admission;
pub mod api;
pub mod cli;
pub mod cluster;
pub mod commands;
pub mod controllers;
pub mod managers;
pub mod ownership;
pub mod policy;
pub mod telemetry;
