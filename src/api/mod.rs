//! The kinds that fieldkeeper adds to the API server, and the CRDs made from them.
//!
//! - **Input**: the Rust types of this folder. Bounds, defaults and CEL rules stand beside the field that they are about.
//! - **Output**: the types themselves, [`crds`] for whoever installs them, and [`crd_files`] for `crds/`.
//! - **Must not**: talk to anything. No client, no files, no clock; what needs the time is given it.
//!
//! The API server rejects what it can judge without us: shapes, bounds, immutable fields, targets that must never be
//! governed. What needs a parser (paths, `when`) is the policy compiler's and ends in the condition `Accepted`.

// The schema derive repeats each type inside a function, with its `pub`.
#![allow(unreachable_pub)]
// Doc comments become the CRD's descriptions, which people read as plain text in `kubectl explain`.
#![allow(clippy::doc_markdown)]

pub mod conditions;
pub mod field_policy;
pub mod node_pool;
mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use field_policy::{FieldPolicy, FieldPolicySpec, FieldPolicyStatus};
pub use node_pool::{NodePool, NodePoolSpec, NodePoolStatus};

/// API group of [`FieldPolicy`].
pub const GROUP: &str = "fieldkeeper.dev";
/// Where fieldkeeper is installed.
pub const NAMESPACE: &str = "fieldkeeper-system";
/// Members of this group are never sent to `/validate`; what they do is recorded by `/observe`. No generated
/// admission policy asks about them.
pub const BYPASS_GROUP: &str = "fieldkeeper.dev:bypass";
/// Label that the API server keeps on every namespace, so no owner of a namespace can exempt it.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// What a ClusterRole with this label allows, the webhook may do: to `get` objects whose `/scale` is written.
pub const AGGREGATE_LABEL: &str = "fieldkeeper.dev/aggregate-to-webhook";
/// API group of the bundled operator's kinds.
pub const COMPUTE_GROUP: &str = "compute.fieldkeeper.dev";
/// The one version that all our kinds have.
pub const VERSION: &str = "v1alpha1";
/// How the files in `crds/` are made again.
pub const REFRESH_COMMAND: &str = "cargo run -- crd --write crds";

/// Every CRD of the product, as it is installed.
///
/// Use this and not `FieldPolicy::crd()`: the derive marks each optional field `nullable`, and then a stored `null`
/// makes `has(self.x)` true in CEL while the API server prunes a `null` from fields that are not nullable.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    [FieldPolicy::crd(), NodePool::crd()].into_iter().map(schema::finish).collect()
}

/// File name and content of everything in `crds/`, the kustomization included.
///
/// # Errors
/// A CRD that cannot be written as YAML; a test makes sure that there is none.
pub fn crd_files() -> Result<Vec<(String, String)>, serde_saphyr::ser::Error> {
    let header = format!("# Generated from src/api. Do not edit; refresh with: {REFRESH_COMMAND}\n");
    let mut files = Vec::new();
    let mut resources = Vec::new();
    for crd in crds() {
        let name = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        resources.push(format!("- {name}\n"));
        files.push((name, format!("{header}{}", serde_saphyr::to_string(&crd)?)));
    }
    let kustomization = format!(
        "{header}apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{}",
        resources.concat()
    );
    files.push(("kustomization.yaml".to_owned(), kustomization));
    Ok(files)
}

#[cfg(test)]
mod tests;
