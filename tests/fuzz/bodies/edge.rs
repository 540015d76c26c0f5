//! One review through the webhook's reader, judge and writer, without a server around them.
//!
//! In: the bytes of a review and the policies. Out: the answer of both endpoints, after a panic where an
//! answer is not what an API server and its client can rely on: the uid of the request, a refusal only
//! where refusing is possible, words for every refusal, and bounded text.

use std::sync::Arc;

use fieldkeeper::admission::envelope::{Opened, Request};
use fieldkeeper::admission::judge::{Endpoint, Inputs, Judged, Outcome, Parent, Step, judge, malformed};
use fieldkeeper::admission::state::{ParentError, PolicyOpinion, Snapshot};
use fieldkeeper::api::FieldPolicySpec;
use fieldkeeper::cluster::namespaces::Namespaces;
use fieldkeeper::ownership::rule::{PolicySet, Target};
use fieldkeeper::policy::compile::compile;
use fieldkeeper::policy::lint::{Facts, lint};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// What the webhook says where its own code failed; the judge turns panics into these words.
const FAULT: &str = "an internal error";

/// Bytes of one warning that an API server passes on whole.
const WARNING: usize = 256;

/// Bytes that no message is longer than.
const MESSAGE: usize = 16 * 1024;

/// Policies as the webhook holds them.
pub fn snapshot(targets: impl IntoIterator<Item = Arc<Target>>) -> Snapshot {
    Snapshot { policies: PolicySet::new(targets) }
}

/// Answers a review whose uid is known, at both endpoints; the request where it can be read.
pub fn answer<'a>(
    opened: &Opened<'a>,
    snapshot: &Snapshot,
    parent: Option<&RawValue>,
    now: i64,
) -> Option<(Request<'a>, [Judged; 2])> {
    let read = opened.read();
    let judged = [Endpoint::Validate, Endpoint::Observe].map(|endpoint| {
        let judged = match &read {
            Ok(request) => judged(endpoint, request, snapshot, parent, now),
            Err(problem) => malformed(endpoint, true, problem),
        };
        is_sound(endpoint, opened, &judged);
        judged
    });
    Some((read.ok()?, judged))
}

fn judged(
    endpoint: Endpoint,
    request: &Request<'_>,
    snapshot: &Snapshot,
    parent: Option<&RawValue>,
    now: i64,
) -> Judged {
    let namespaces = Namespaces::default();
    let inputs =
        Inputs { snapshot: Some(snapshot), opinion: None, namespaces: &namespaces, parent: None, now };
    let read: Parent = parent.map(RawValue::to_owned).ok_or(ParentError::NotFound);
    let asked = match judge(inputs, endpoint, request) {
        Step::Judged(judged) => return *judged,
        Step::NeedsParent(_) => judge(Inputs { parent: Some(&read), ..inputs }, endpoint, request),
        Step::NeedsOpinion(policy) => {
            judge(Inputs { opinion: Some(&Some(opinion(&policy))), ..inputs }, endpoint, request)
        }
    };
    match asked {
        Step::Judged(judged) => *judged,
        Step::NeedsParent(_) | Step::NeedsOpinion(_) => panic!("the answer is there and asked for again"),
    }
}

/// What the compiler and lint say of a FieldPolicy.
fn opinion(policy: &RawValue) -> PolicyOpinion {
    #[derive(Deserialize)]
    struct Written {
        spec: FieldPolicySpec,
    }
    let Written { spec } = serde_json::from_str(policy.get()).map_err(|error| error.to_string())?;
    let compiled = compile("written", 1, &spec).map_err(|errors| errors.to_string())?;
    let findings = lint(&compiled, &spec, &[], &Facts::default());
    Ok(findings.iter().map(ToString::to_string).collect())
}

fn is_sound(endpoint: Endpoint, opened: &Opened<'_>, judged: &Judged) {
    assert!(!judged.message.contains(FAULT), "{}", judged.message);
    let bytes = judged.reply.encode(&opened.uid, opened.version).expect("an answer can be written");
    let answer: Value = serde_json::from_slice(&bytes).expect("an answer is JSON");
    assert_eq!(answer["apiVersion"], opened.version.as_str());
    let response = &answer["response"];
    assert_eq!(response["uid"], *opened.uid);
    assert_eq!(response["allowed"], judged.reply.denial.is_none());
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    if let Some(denial) = &judged.reply.denial {
        assert_eq!(endpoint, Endpoint::Validate, "/observe never refuses");
        assert!(matches!(judged.outcome, Outcome::Denied | Outcome::Undecided));
        assert!(!denial.message.is_empty());
        assert!(text(&response["status"]["message"]).len() <= MESSAGE);
    } else {
        assert_ne!(judged.outcome, Outcome::Denied);
    }
    for warning in response["warnings"].as_array().into_iter().flatten().map(text) {
        assert!(warning.len() <= WARNING && !warning.chars().any(char::is_control), "{warning:?}");
    }
}
