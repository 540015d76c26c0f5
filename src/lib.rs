//! Declared, enforced and audited field ownership for Kubernetes objects.

pub mod admission;
pub mod api;
pub mod cluster;
pub mod managers;
pub mod ownership;
pub mod policy;
