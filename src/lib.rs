//! Declared, enforced and audited field ownership for Kubernetes objects.

pub mod api;
pub mod ownership;
pub mod policy;
