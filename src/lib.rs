//! Declared, enforced and audited field ownership for Kubernetes objects.

pub mod cluster;
pub mod managers;
pub mod ownership;
