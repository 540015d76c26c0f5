//! One harness under the integration tests and the playground: a real Kubernetes control plane on loopback.
//!
//! Purpose: start etcd, kube-apiserver and, where wanted, kube-controller-manager and kube-scheduler in seconds,
//! hand out clients, kubeconfig files and `kubectl` for any identity, run our own program beside them.
//! Input: the Go module in `tests/control-plane`, or the programs in `KUBEBUILDER_ASSETS`.
//! Output: [`ControlPlane`] and what hangs on it; a [`Tour`] for the playground.
//! Must not: fake any part of Kubernetes, use fixed ports, touch the caller's kubeconfig, or leave anything behind.
//!
//! Environment: `FIELDKEEPER_KUBERNETES=1.34` chooses another release, `KUBEBUILDER_ASSETS` other programs,
//! `FIELDKEEPER_KEEP=1` keeps the folder with logs and data of every control plane.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the module is included by two crates, and neither uses all of it"
)]

mod audit;
mod binaries;
mod components;
mod control_plane;
mod go_build;
mod identity;
mod installation;
mod kubectl;
mod lifeline;
mod oracle;
mod pki;
mod process;
mod program;
mod tour;
mod wait;
mod webhook;

pub use audit::{AuditEvent, AuditObject, AuditUser};
pub use binaries::Binaries;
pub use control_plane::{ControlPlane, Options};
pub use identity::Identity;
pub use installation::{Installation, repository};
pub use kubectl::Output;
pub use oracle::Oracle;
pub use pki::{Authority, KeyPairFiles};
pub use process::{Process, Signal};
pub use program::fieldkeeper;
pub use tour::{Expect, Tour, print};
pub use wait::{eventually, free_ports, get};
pub use webhook::{NAMESPACE, WebhookEndpoint, serve, serve_router};
