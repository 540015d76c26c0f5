//! From a request to what it is answered with.
//!
//! Input: a request, the snapshot, the time and, where `/scale` needs it, the parent. Output: a
//! [`Judged`]. No IO, no clock, no logging; the decision itself is `ownership::decide`. This module
//! adds what only the edge knows: which endpoint was asked, and what to do when the decision cannot
//! be made. Two rules hold throughout: `/observe` never denies, and where something is enforced
//! nothing is allowed that was not judged.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::envelope::{Malformed, Request};
use super::head::head;
use super::reply::{Denial, Refusal, Reply};
use super::state::{ParentError, ParentRef, PolicyOpinion, Snapshot};
use crate::api;
use crate::cluster::namespaces::Namespaces;
use crate::ownership::decide::{Decision, decide, undecided};
use crate::ownership::explain::{Cause, explain};
use crate::ownership::facts::{Facts, Operation};
use crate::ownership::raw::Raw;
use crate::ownership::rule::{Mode, Target};
use crate::ownership::verdict::{Reason, Verdict};

/// Where FieldPolicy objects live.
const POLICY_RESOURCE: &str = "fieldpolicies";

/// Which path the API server called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Refusals are refusals.
    Validate,
    /// Refusals become warnings.
    Observe,
}

impl Endpoint {
    /// The name in paths, logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Validate => "validate",
            Self::Observe => "observe",
        }
    }
}

/// How a review ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to say.
    Allowed,
    /// Refused.
    Denied,
    /// Allowed with a warning.
    Warned,
    /// It could not be decided; refused where something is enforced.
    Undecided,
    /// Answered with an HTTP error.
    Error,
}

impl Outcome {
    /// The name in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Warned => "warned",
            Self::Undecided => "undecided",
            Self::Error => "error",
        }
    }
}

/// What came of asking for a parent.
pub type Parent = Result<Box<RawValue>, ParentError>;

/// What came of asking for an opinion of a FieldPolicy; `None` where nobody could form one.
pub type Opinion = Option<PolicyOpinion>;

/// What a judgement may look at besides the request.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The policies, once there are any.
    pub snapshot: Option<&'a Snapshot>,
    /// The opinion of a FieldPolicy, once it was asked for.
    pub opinion: Option<&'a Opinion>,
    /// Labels of namespaces.
    pub namespaces: &'a Namespaces,
    /// The parent of a `/scale` request, once it was asked for.
    pub parent: Option<&'a Parent>,
    /// Seconds since the Unix epoch.
    pub now: i64,
}

/// A judged request.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The answer.
    pub reply: Reply,
    /// How it ended.
    pub outcome: Outcome,
    /// What the policies found, as they found it; `None` where they were not asked.
    pub verdict: Option<Verdict>,
    /// The text of the finding, also where it did not become a denial.
    pub message: String,
    /// Paths of the fields that were refused, or would have been.
    pub fields: Vec<String>,
}

/// What to do next.
#[derive(Clone, Debug)]
pub enum Step {
    /// Answer.
    Judged(Box<Judged>),
    /// Read this object and judge again.
    NeedsParent(ParentRef),
    /// Form an opinion of this FieldPolicy and judge again.
    NeedsOpinion(Box<RawValue>),
}

/// Judges one request.
#[must_use]
pub fn judge(inputs: Inputs<'_>, endpoint: Endpoint, request: &Request<'_>) -> Step {
    let judged = |judged: Judged| Step::Judged(Box::new(judged));
    if request.resource.group == api::GROUP && request.resource.resource == POLICY_RESOURCE {
        return review_policy(inputs.opinion, endpoint, request);
    }
    let Some(snapshot) = inputs.snapshot else {
        return judged(unable(endpoint, true, "policies are not loaded yet"));
    };
    let Some(target) = snapshot.policies.target(&request.resource.group, &request.resource.resource) else {
        // No policy names it: the registration is a little behind the policies, nothing more.
        return judged(Judged::allowed());
    };
    let unchanged = request.is_unchanged() && request.subresource != "scale";
    if unchanged || request.operation == Operation::Connect {
        return judged(Judged::allowed());
    }
    if let Err(problem) = request.check_names() {
        return judged(malformed(endpoint, enforces(target), &problem));
    }
    // The core is not meant to panic; if it does, a request must not get through for it.
    catch_unwind(AssertUnwindSafe(|| ask(inputs, endpoint, request, target)))
        .unwrap_or_else(|_| judged(unable(endpoint, enforces(target), "an internal error, see the log")))
}

/// The answer to a request that contradicts itself.
#[must_use]
pub fn malformed(endpoint: Endpoint, enforced: bool, problem: &Malformed) -> Judged {
    let message = format!("unable to decide: {problem}");
    Judged::softened(endpoint, enforced, Denial::new(Refusal::BadRequest, message), Outcome::Undecided)
}

/// The answer where nothing can be said of the request.
fn unable(endpoint: Endpoint, enforced: bool, why: &str) -> Judged {
    let denial = Denial::new(Refusal::Internal, format!("unable to decide: {why}"));
    Judged::softened(endpoint, enforced, denial, Outcome::Undecided)
}

fn ask(inputs: Inputs<'_>, endpoint: Endpoint, request: &Request<'_>, target: &Arc<Target>) -> Step {
    let name = request.object_name();
    let labels = inputs.namespaces.labels(&request.namespace);
    let mut facts = facts(request, &name, inputs.now);
    facts.namespace_labels = labels.as_deref();
    let verdict = match inputs.parent {
        None => match decide(&facts, target) {
            Decision::Decided(verdict) => verdict,
            Decision::NeedsParent => match parent_of(request, target) {
                Some(parent) => return Step::NeedsParent(parent),
                None => undecided(&facts, target, "the request does not say whose scale it is"),
            },
        },
        Some(Ok(parent)) if is_reviewed(parent, request) => {
            facts.parent = Some(Raw::from(&**parent));
            match decide(&facts, target) {
                Decision::Decided(verdict) => verdict,
                Decision::NeedsParent => undecided(&facts, target, "its object did not settle it"),
            }
        }
        Some(Ok(_) | Err(ParentError::NotFound)) => {
            return Step::Judged(Box::new(conflict(endpoint, enforces(target))));
        }
        Some(Err(error)) => undecided(&facts, target, &error.to_string()),
    };
    Step::Judged(Box::new(answer(endpoint, request, &facts, verdict)))
}

fn answer(endpoint: Endpoint, request: &Request<'_>, facts: &Facts<'_>, verdict: Verdict) -> Judged {
    let refused = verdict.denies();
    let words = explain(facts, &verdict);
    let fields =
        words.causes.iter().map(|cause| cause.field.clone()).filter(|field| !field.is_empty()).collect();
    let undecided = verdict.findings.iter().any(|finding| matches!(finding.reason, Reason::Undecided(_)));
    let mut reply = Reply { denial: None, warnings: words.warnings, annotations: words.annotations };
    if refused && endpoint == Endpoint::Observe {
        reply.warnings = explain(facts, &as_warnings(&verdict, is_bypass(request))).warnings;
    } else if refused {
        reply.denial = Some(Denial {
            refusal: Refusal::Forbidden,
            message: words.message.clone(),
            name: facts.name.to_owned(),
            group: request.resource.group.to_string(),
            kind: request.kind.kind.to_string(),
            causes: words.causes,
        });
    }
    if endpoint == Endpoint::Observe && is_bypass(request) {
        let what = if refused { "would-deny" } else { "nothing-refused" };
        reply.annotations.push(("bypass".to_owned(), what.to_owned()));
    }
    let outcome = match () {
        () if undecided => Outcome::Undecided,
        () if reply.denial.is_some() => Outcome::Denied,
        () if !reply.warnings.is_empty() => Outcome::Warned,
        () => Outcome::Allowed,
    };
    Judged { reply, outcome, verdict: Some(verdict), message: words.message, fields }
}

/// The same findings where none may refuse. The bypass group is break-glass for every policy.
fn as_warnings(verdict: &Verdict, bypassed: bool) -> Verdict {
    let mut softened = verdict.clone();
    for finding in &mut softened.findings {
        finding.mode = finding.mode.min(Mode::Warn);
        if bypassed && !softened.break_glass.contains(&finding.policy) {
            softened.break_glass.push(finding.policy.clone());
        }
    }
    softened
}

/// The object has moved on since the review was made, so the review will be made again.
fn conflict(endpoint: Endpoint, enforced: bool) -> Judged {
    let message = "the object has changed since it was read for this request; read it again and retry";
    Judged::softened(endpoint, enforced, Denial::new(Refusal::Conflict, message), Outcome::Undecided)
}

fn review_policy(opinion: Option<&Opinion>, endpoint: Endpoint, request: &Request<'_>) -> Step {
    let written = matches!(request.operation, Operation::Create | Operation::Update);
    let object = request.object.filter(|_| written && request.subresource.is_empty());
    let judged = match (object, opinion) {
        (None, _) => Judged::allowed(),
        (Some(object), None) => match RawValue::from_string(object.text().to_owned()) {
            Ok(object) => return Step::NeedsOpinion(object),
            Err(_) => malformed(endpoint, true, &Malformed::Member("object")),
        },
        (Some(_), Some(opinion)) => of_opinion(opinion.clone(), endpoint, request),
    };
    Step::Judged(Box::new(judged))
}

fn of_opinion(opinion: Opinion, endpoint: Endpoint, request: &Request<'_>) -> Judged {
    match opinion {
        Some(Ok(warnings)) => {
            let outcome = if warnings.is_empty() { Outcome::Allowed } else { Outcome::Warned };
            Judged { reply: Reply { warnings, ..Reply::allow() }, outcome, ..Judged::allowed() }
        }
        Some(Err(refusal)) => {
            // With reason Invalid kubectl prints kind and name itself, and the causes as a list.
            let cause = |line: &str| {
                let (field, message) =
                    line.split_once(": ").filter(|(at, _)| at.starts_with("spec")).unwrap_or(("", line));
                Cause { reason: "FieldValueInvalid", field: field.to_owned(), message: message.into() }
            };
            let denial = Denial {
                refusal: Refusal::Invalid,
                causes: refusal.lines().map(cause).collect(),
                message: refusal,
                name: request.name.to_string(),
                group: request.resource.group.to_string(),
                kind: request.kind.kind.to_string(),
            };
            Judged::softened(endpoint, true, denial, Outcome::Denied)
        }
        None => unable(endpoint, true, "an internal error, see the log"),
    }
}

/// What `decide` works with, of a request to the object `name`; labels of its namespace and the parent are for the
/// caller to add.
#[must_use]
pub fn facts<'a>(request: &'a Request<'_>, name: &'a str, now: i64) -> Facts<'a> {
    Facts {
        requester: &request.requester,
        operation: request.operation,
        group: &request.resource.group,
        version: &request.resource.version,
        resource: &request.resource.resource,
        subresource: &request.subresource,
        kind: &request.kind.kind,
        namespace: &request.namespace,
        namespace_labels: None,
        name,
        field_manager: request.field_manager.as_deref(),
        object: request.object,
        old_object: request.old_object,
        parent: None,
        now,
    }
}

fn parent_of(request: &Request<'_>, target: &Target) -> Option<ParentRef> {
    (!request.name.is_empty()).then(|| ParentRef {
        group: target.group.to_string(),
        // The reviewed one: the target's may not be served any more.
        version: request.resource.version.to_string(),
        resource: target.resource.to_string(),
        namespace: request.namespace.to_string(),
        name: request.name.to_string(),
    })
}

/// A `Scale` carries uid and resource version of its object: only that state of it is evidence.
fn is_reviewed(parent: &RawValue, request: &Request<'_>) -> bool {
    let Some((parent, scale)) = head(Raw::from(parent)).zip(request.old_object.and_then(head)) else {
        return false;
    };
    let (parent, scale) = (parent.metadata(), scale.metadata());
    !scale.uid.is_empty()
        && !scale.resource_version.is_empty()
        && parent.uid == scale.uid
        && parent.resource_version == scale.resource_version
}

/// Whether anything on the target is ever refused.
fn enforces(target: &Target) -> bool {
    target.policies.iter().any(|policy| policy.strictest() == Mode::Enforce)
}

/// Whether the requester is a member of the bypass group.
#[must_use]
pub fn is_bypass(request: &Request<'_>) -> bool {
    request.requester.groups.iter().any(|group| group == api::BYPASS_GROUP)
}

impl Judged {
    fn allowed() -> Self {
        Self {
            reply: Reply::allow(),
            outcome: Outcome::Allowed,
            verdict: None,
            message: String::new(),
            fields: Vec::new(),
        }
    }

    /// A denial where denials are possible, else a warning with the same words.
    fn softened(endpoint: Endpoint, enforced: bool, denial: Denial, outcome: Outcome) -> Self {
        let message = denial.message.clone();
        let key = if outcome == Outcome::Undecided { "undecided" } else { "would-deny" };
        let mut reply = Reply { annotations: vec![(key.to_owned(), message.clone())], ..Reply::allow() };
        let mut outcome = outcome;
        if endpoint == Endpoint::Validate && enforced {
            reply.denial = Some(denial);
        } else {
            reply.warnings = message.lines().map(|line| format!("fieldkeeper: {line}")).collect();
            if outcome == Outcome::Denied {
                outcome = Outcome::Warned;
            }
        }
        Self { reply, outcome, message, ..Self::allowed() }
    }
}
