//! Layer 3: the only door to Kubernetes.
//!
//! Input: a kubeconfig or the pod's service account. Output: a [`client`] that
//! names itself, writes that carry a manager ([`write`]), and what the watches
//! see.
//!
//! Must not decide anything about ownership: that is `ownership` and `policy`.

pub mod client;
pub mod write;
