//! Declared, enforced and audited field ownership for Kubernetes objects.

pub mod ownership;
