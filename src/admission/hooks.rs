//! What the HTTP edge asks the cluster and the compiler for.
//!
//! Input: a client, the compiler. Output: [`Parents`] for `/scale`,
//! [`policy_review`] for FieldPolicies that are being written, and [`connect`],
//! which puts the cluster side together.
//!
//! Must not refuse a policy that the webhook would honour, nor pass one that
//! it would not: both go through the compiler that makes the snapshot.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::state::{Hooks, ParentError, ParentReader, ParentRef, PolicyReview, Readiness, Snapshots};
use super::{Connected, snapshot};
use crate::api::FieldPolicySpec;
use crate::cluster::in_force::{Compile, with_compiler};
use crate::cluster::read::{ObjectRef, ReadError, get_raw};

/// A review has 3 seconds altogether, and the API server's clients wait for it.
pub const PARENT_TIMEOUT: Duration = Duration::from_millis(500);

/// The cluster side of the webhook: snapshots from `client`'s watches, and live answers.
#[must_use]
pub fn connect(client: Client, snapshots: Snapshots, readiness: &Readiness) -> Connected {
    let gate = readiness.gate(snapshot::GATE, snapshot::GATE_REASON);
    let hooks = Hooks {
        parents: Arc::new(Parents::new(client.clone())),
        policy_review: policy_review(with_compiler),
        notices: None,
    };
    Connected { hooks, background: snapshot::run(client, with_compiler, snapshots, gate).boxed() }
}

/// Reads parents live.
#[derive(Clone)]
pub struct Parents {
    client: Client,
}

impl Parents {
    /// Reads with `client`, whose identity needs `get` on the governed kinds with `/scale`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

impl ParentReader for Parents {
    fn read(&self, parent: ParentRef) -> BoxFuture<'static, Result<Box<RawValue>, ParentError>> {
        let client = self.client.clone();
        let ParentRef { group, version, resource, namespace, name } = parent;
        let object = ObjectRef { group, version, resource, namespace, name };
        async move {
            get_raw(&client, &object, PARENT_TIMEOUT).await.map_err(|error| match error {
                ReadError::NotFound(_) => ParentError::NotFound,
                ReadError::Forbidden(_) if object.group.is_empty() => ParentError::Forbidden(object.resource),
                ReadError::Forbidden(_) => {
                    ParentError::Forbidden(format!("{}.{}", object.resource, object.group))
                }
                ReadError::TimedOut(_) => ParentError::TimedOut,
                ReadError::Failed(message) => ParentError::Failed(message),
            })
        }
        .boxed()
    }
}

/// The part of a FieldPolicy that its review needs.
#[derive(Deserialize)]
struct Reviewed {
    #[serde(default)]
    metadata: ReviewedMetadata,
    spec: FieldPolicySpec,
}

#[derive(Default, Deserialize)]
struct ReviewedMetadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    generation: i64,
}

/// Judges FieldPolicies with `compile`.
pub fn policy_review(compile: impl Compile + Send + Sync + 'static) -> PolicyReview {
    Arc::new(move |object| {
        let Reviewed { metadata, spec } = serde_json::from_str(object.get())
            .map_err(|error| format!("this FieldPolicy cannot be read: {error}"))?;
        compile(&metadata.name, metadata.generation, &spec)?;
        Ok(Vec::new())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(object: &str) -> Result<Vec<String>, String> {
        let compile = |name: &str, generation: i64, _: &FieldPolicySpec| {
            Err(format!("{name} {generation} spec.owners[0].fields[1].path: a key is missing"))
        };
        policy_review(compile)(&RawValue::from_string(object.to_owned()).unwrap())
    }

    #[test]
    fn what_does_not_compile_is_refused_with_the_compilers_words() {
        let object = r#"{"metadata": {"name": "a", "generation": 2},
            "spec": {"target": {"version": "v1", "resource": "pods"}}}"#;
        assert_eq!(review(object).unwrap_err(), "a 2 spec.owners[0].fields[1].path: a key is missing");
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_position() {
        let message = review(r#"{"metadata": {}, "spec": {"target": 7}}"#).unwrap_err();
        assert!(message.contains("line 1 column"), "{message}");
    }
}
