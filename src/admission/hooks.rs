//! What the HTTP edge asks the cluster and the compiler for.
//!
//! Input: a client, the compiler. Output: [`Parents`] for `/scale`, and
//! [`connect`], which puts the cluster side together.
//!
//! Must not decide anything: what is read here is judged elsewhere.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};

use super::notices::{self, PolicyIds};
use super::policy_review::policy_review;
use super::state::{Hooks, ParentError, ParentReader, ParentRef, Readiness, Snapshots};
use super::{Connected, snapshot};
use crate::cluster::events::Events;
use crate::cluster::in_force::with_compiler;
use crate::cluster::namespaces::Namespaces;
use crate::cluster::read::{ObjectRef, ReadError, get_raw};
use crate::cluster::replicas::{self, Loaded};
use crate::cluster::rights::Rights;
use crate::cluster::write::Writer;
use crate::telemetry::policies::PolicyMetrics;

/// Who reports events.
const CONTROLLER: &str = "fieldkeeper.dev/webhook";

/// Characters of a host's name that identify a replica: names of pods fit, and a label has 63.
const MAX_HOST: usize = 63;

/// A review has 3 seconds altogether, and the API server's clients wait for it.
pub const PARENT_TIMEOUT: Duration = Duration::from_millis(500);

/// The cluster side of the webhook: snapshots from `client`'s watches, and live answers.
#[must_use]
pub fn connect(
    client: Client,
    snapshots: Snapshots,
    readiness: &Readiness,
    metrics: PolicyMetrics,
) -> Connected {
    let gate = readiness.gate(snapshot::GATE, snapshot::GATE_REASON);
    let (notices, arriving) = mpsc::channel(notices::WAITING);
    let ids = PolicyIds::default();
    let instance = instance();
    let writer = Writer::new(client.clone());
    let events = Events::new(writer.clone(), CONTROLLER, &instance);
    let (loaded, loading) = watch::channel(Loaded::default());
    let namespaces = Namespaces::default();
    let hooks = Hooks {
        parents: Arc::new(Parents::new(client.clone())),
        policy_review: policy_review(with_compiler, snapshots.clone(), Some(client.clone())),
        namespaces: namespaces.clone(),
        notices: Some(notices),
    };
    let told = snapshot::Told { metrics, ids: ids.clone(), loaded };
    let rights = Rights::new(client.clone());
    let reporting = replicas::report(writer.clone(), instance.clone(), rights, loading);
    let follow = snapshot::run(client, with_compiler, snapshots, namespaces, gate, told);
    // The watches alone keep this going: without them there is nothing to be ready with.
    let background = async move {
        let tell = async {
            tokio::join!(notices::run(arriving, ids, events), reporting);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = follow => {}
            () = tell => {}
        }
    };
    let farewell = async move { replicas::retire(&writer, &instance).await };
    Connected { hooks, background: background.boxed(), farewell: farewell.boxed() }
}

/// Tells this process from other replicas: pods by their name, processes on one machine by their number.
fn instance() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_default().to_ascii_lowercase();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let host: String = host.bytes().filter(is_name).map(char::from).take(MAX_HOST).collect();
    format!("{}-{}", host.trim_matches('-'), std::process::id()).trim_start_matches('-').to_owned()
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
