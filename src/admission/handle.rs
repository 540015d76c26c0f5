//! One review from its body to its answer, and what is told about it.
//!
//! Input: the body. Output: the body of the answer, or an error for an HTTP status. The only thing
//! ever waited for is the parent of a `/scale` request or an opinion of a FieldPolicy, and that for a
//! bounded time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::envelope::{self, Malformed, Opened, Request, Unreadable, operation_name};
use super::head::head;
use super::judge::{self, Endpoint, Inputs, Judged, Opinion, Outcome, Parent, Step, is_bypass, judge};
use super::state::{Hooks, Notice, ParentError, ParentRef, Snapshots};
use crate::ownership::verdict::Verdict;
use crate::telemetry::metrics::{PolicyLabels, ResultLabels, ReviewLabels, WebhookMetrics};

/// A parent that takes longer is not waited for: the API server gives a webhook a few seconds for
/// everything, and the requester is waiting as well.
const PARENT_READ: Duration = Duration::from_millis(500);

/// Nor is an opinion of a FieldPolicy; forming one takes a second where the cluster does not answer.
const OPINION: Duration = Duration::from_millis(1500);

/// From this size on a review is judged off the threads that serve connections: a megabyte takes
/// tens of milliseconds, and there are only two such threads.
const LARGE_BODY: usize = 256 * 1024;

/// Large reviews judged at once. Trees take about fifteen times the room of their JSON.
pub(super) const LARGE_AT_ONCE: usize = 2;

/// Paths that one log line names.
const LOGGED_FIELDS: usize = 20;

/// What every review is handled with.
#[derive(Debug)]
pub struct Edge {
    snapshots: Snapshots,
    hooks: Hooks,
    metrics: WebhookMetrics,
    large: Semaphore,
    /// Where the cluster is talked to: a connection to it must not end with the thread of a review.
    home: Handle,
}

/// The review cannot be answered with a response: an HTTP status, so that the failure policy decides.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Nothing to answer to.
    #[error("{0}")]
    Unreadable(#[from] Unreadable),
    /// A fault of ours.
    #[error("the answer could not be made")]
    Internal,
}

/// What one look at the body led to.
enum Looked {
    Answer(Vec<u8>),
    NeedsParent(ParentRef),
    NeedsOpinion(Box<RawValue>),
}

/// What the first look asked for.
#[derive(Clone, Debug, Default)]
struct Asked {
    parent: Option<Parent>,
    opinion: Option<Opinion>,
}

impl Edge {
    /// The edge over these policies. What it asks the cluster runs in the runtime `home`.
    #[must_use]
    pub fn new(snapshots: Snapshots, hooks: Hooks, metrics: WebhookMetrics, home: Handle) -> Self {
        Self { snapshots, hooks, metrics, large: Semaphore::new(LARGE_AT_ONCE), home }
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &WebhookMetrics {
        &self.metrics
    }

    /// Answers one review.
    pub async fn review(self: &Arc<Self>, endpoint: Endpoint, body: Bytes) -> Result<Vec<u8>, ReviewError> {
        let asked = match self.look(endpoint, body.clone(), Asked::default()).await? {
            Looked::Answer(answer) => return Ok(answer),
            Looked::NeedsParent(parent) => {
                Asked { parent: Some(self.read_parent(parent).await), opinion: None }
            }
            Looked::NeedsOpinion(policy) => {
                Asked { parent: None, opinion: Some(self.form_opinion(policy).await) }
            }
        };
        match self.look(endpoint, body, asked).await? {
            Looked::Answer(answer) => Ok(answer),
            Looked::NeedsParent(_) | Looked::NeedsOpinion(_) => Err(ReviewError::Internal),
        }
    }

    async fn look(
        self: &Arc<Self>,
        endpoint: Endpoint,
        body: Bytes,
        asked: Asked,
    ) -> Result<Looked, ReviewError> {
        if body.len() < LARGE_BODY {
            return self.look_now(endpoint, &body, &asked);
        }
        let _turn = self.large.acquire().await.map_err(|_| ReviewError::Internal)?;
        let edge = Arc::clone(self);
        tokio::task::spawn_blocking(move || edge.look_now(endpoint, &body, &asked))
            .await
            .map_err(|_| ReviewError::Internal)?
    }

    fn look_now(&self, endpoint: Endpoint, body: &[u8], asked: &Asked) -> Result<Looked, ReviewError> {
        let opened = envelope::open(body).inspect_err(|error| {
            self.count(endpoint, "unknown", Outcome::Error);
            tracing::warn!(endpoint = endpoint.as_str(), %error, "not a review");
        })?;
        let snapshot = self.snapshots.load();
        let judged = match opened.read() {
            // Here even a refusal would be an allowed answer, so the API server is left to its failure policy.
            Err(Malformed::OldVersion) if endpoint == Endpoint::Observe => {
                self.count(endpoint, "unknown", Outcome::Error);
                return Err(Unreadable::Version(opened.version.as_str().to_owned()).into());
            }
            Err(problem) => {
                let judged = judge::malformed(endpoint, true, &problem);
                self.count(endpoint, "unknown", judged.outcome);
                tracing::warn!(endpoint = endpoint.as_str(), uid = &*opened.uid, %problem, "malformed review");
                judged
            }
            Ok(request) => {
                let inputs = Inputs {
                    snapshot: snapshot.as_deref(),
                    namespaces: &self.hooks.namespaces,
                    parent: asked.parent.as_ref(),
                    opinion: asked.opinion.as_ref(),
                    now: Timestamp::now().as_second(),
                };
                match judge(inputs, endpoint, &request) {
                    Step::NeedsParent(parent) => return Ok(Looked::NeedsParent(parent)),
                    Step::NeedsOpinion(policy) => return Ok(Looked::NeedsOpinion(policy)),
                    Step::Judged(judged) => {
                        self.record(endpoint, &opened, &request, &judged);
                        *judged
                    }
                }
            }
        };
        let answer = judged.reply.encode(&opened.uid, opened.version).map_err(|_| ReviewError::Internal)?;
        Ok(Looked::Answer(answer))
    }

    async fn read_parent(&self, parent: ParentRef) -> Parent {
        let read = timeout(PARENT_READ, self.hooks.parents.read(parent));
        let parent = match self.home.spawn(read).await {
            Ok(Ok(parent)) => parent,
            Ok(Err(_)) => Err(ParentError::TimedOut),
            Err(error) => Err(ParentError::Failed(error.to_string())),
        };
        let result = match &parent {
            Ok(_) => "ok",
            Err(ParentError::NotFound) => "not_found",
            Err(ParentError::Forbidden(_)) => "forbidden",
            Err(ParentError::TimedOut) => "timeout",
            Err(ParentError::Failed(_)) => "error",
        };
        self.metrics.parent_reads.get_or_create(&ResultLabels { result }).inc();
        parent
    }

    async fn form_opinion(&self, policy: Box<RawValue>) -> Opinion {
        let review = Arc::clone(&self.hooks.policy_review);
        // A panic ends the task and nothing else.
        self.home.spawn(timeout(OPINION, async move { review(policy).await })).await.ok()?.ok()
    }

    fn count(&self, endpoint: Endpoint, operation: &'static str, outcome: Outcome) {
        let labels = ReviewLabels { endpoint: endpoint.as_str(), operation, outcome: outcome.as_str() };
        self.metrics.reviews.get_or_create(&labels).inc();
    }

    fn record(&self, endpoint: Endpoint, opened: &Opened<'_>, request: &Request<'_>, judged: &Judged) {
        self.count(endpoint, operation_name(request.operation), judged.outcome);
        if let Some(verdict) = &judged.verdict {
            let mut counted: Vec<PolicyLabels> = Vec::new();
            for finding in &verdict.findings {
                let labels = PolicyLabels { policy: finding.policy.clone(), mode: finding.mode.as_str() };
                if !counted.contains(&labels) {
                    self.metrics.findings.get_or_create(&labels).inc();
                    counted.push(labels);
                }
            }
        }
        let would_deny = judged.verdict.as_ref().is_some_and(Verdict::denies);
        let bypass = endpoint == Endpoint::Observe && judged.verdict.is_some() && is_bypass(request);
        if bypass {
            let result = if would_deny { "would_deny" } else { "allowed" };
            self.metrics.bypass.get_or_create(&ResultLabels { result }).inc();
        }
        if judged.reply.denial.is_some() || bypass || judged.outcome == Outcome::Undecided {
            log(endpoint, opened, request, judged, bypass);
        }
        self.notify(request, judged);
    }

    /// Tells whoever listens; never waits, and never about a dry run.
    fn notify(&self, request: &Request<'_>, judged: &Judged) {
        let Some((notices, verdict)) = self.hooks.notices.as_ref().zip(judged.verdict.as_ref()) else {
            return;
        };
        if verdict.findings.is_empty() || request.dry_run {
            return;
        }
        let stored = request.old_object.and_then(head);
        let notice = Notice {
            group: request.resource.group.to_string(),
            version: request.resource.version.to_string(),
            resource: request.resource.resource.to_string(),
            subresource: request.subresource.to_string(),
            kind: request.kind.kind.to_string(),
            namespace: request.namespace.to_string(),
            name: request.object_name().into_owned(),
            object_uid: stored.map(|head| head.metadata().uid.to_string()).unwrap_or_default(),
            username: request.requester.username.clone(),
            denied: judged.reply.denial.is_some(),
            verdict: verdict.clone(),
            message: judged.message.clone(),
        };
        if notices.try_send(notice).is_err() {
            self.metrics.notices_lost.inc();
        }
    }
}

/// One line that says who wanted what, and what became of it: names and paths, never values.
fn log(endpoint: Endpoint, opened: &Opened<'_>, request: &Request<'_>, judged: &Judged, bypass: bool) {
    let policies: Vec<&str> = judged.verdict.iter().flat_map(|verdict| &verdict.findings).fold(
        Vec::new(),
        |mut policies, finding| {
            if !policies.contains(&&*finding.policy) {
                policies.push(&finding.policy);
            }
            policies
        },
    );
    let shown = judged.fields.get(..LOGGED_FIELDS.min(judged.fields.len())).unwrap_or_default();
    let outcome = match judged.outcome {
        Outcome::Undecided if judged.reply.denial.is_some() => "undecided, denied",
        Outcome::Undecided => "undecided, allowed",
        outcome => outcome.as_str(),
    };
    tracing::warn!(
        endpoint = endpoint.as_str(),
        uid = &*opened.uid,
        username = request.requester.username,
        operation = operation_name(request.operation),
        group = &*request.resource.group,
        resource = &*request.resource.resource,
        subresource = &*request.subresource,
        namespace = &*request.namespace,
        name = &*request.object_name(),
        field_manager = request.field_manager,
        fields = shown.join(" "),
        fields_total = judged.fields.len(),
        policies = policies.join(" "),
        outcome,
        dry_run = request.dry_run,
        bypass,
        reason = if judged.verdict.is_none() { judged.message.as_str() } else { "" },
        "{}",
        if bypass { "bypass used" } else { "review" }
    );
}
