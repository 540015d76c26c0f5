//! Layer 3: the only door to Kubernetes.
//!
//! Input: a kubeconfig or the pod's service account. Output: a [`client`] that
//! names itself, writes that carry a manager ([`write`]), single live reads
//! ([`read`]), a [`feed`] of the policies ([`policies`], [`in_force`]) and the
//! kinds they govern ([`schemas`], [`target`]), the labels of [`namespaces`], who is in them
//! ([`accounts`]), the [`rights`] of the process itself, and what webhook [`replicas`] say of themselves.
//!
//! Must not decide anything about ownership: that is `ownership` and `policy`.

pub mod accounts;
pub mod client;
pub mod events;
pub mod feed;
pub mod in_force;
pub mod namespaces;
pub mod policies;
pub mod read;
pub mod replicas;
pub mod rights;
pub mod schemas;
pub mod target;
pub mod write;
