//! The answer to a review.
//!
//! Input: what was decided. Output: the bytes of an `AdmissionReview` with a response. It never
//! repeats the request, never carries a patch (the API server takes a patch from a validating
//! webhook for a failed call), and bounds everything whose size a client could drive.

use std::borrow::Cow;

use serde::Serialize;

use super::envelope::ReviewVersion;
use crate::ownership::explain::Cause;

/// A message is for a terminal; longer ones are cut.
const MAX_MESSAGE: usize = 16 * 1024;

/// `details.causes` beyond these say nothing new.
const MAX_CAUSES: usize = 64;

/// Longer warnings are cut by the API server, in the middle of a word and without a sign.
const MAX_WARNING: usize = 256;

/// All warnings together; beyond it the API server cuts or drops them.
const MAX_WARNINGS_TOTAL: usize = 4096 - MAX_WARNING;

/// Audit annotations are copied into every audit event of the request.
const MAX_ANNOTATION: usize = 4 * 1024;

/// Why a request is refused, as a `metav1.Status` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A policy refuses it, or it could not be decided.
    Forbidden,
    /// The object has changed meanwhile: try again.
    Conflict,
    /// The review itself is wrong.
    BadRequest,
    /// The object is not valid; kubectl prints the causes as a list.
    Invalid,
    /// A fault of ours.
    Internal,
}

impl Refusal {
    fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Forbidden => 403,
            Self::Conflict => 409,
            Self::Invalid => 422,
            Self::Internal => 500,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::Forbidden => "Forbidden",
            Self::Conflict => "Conflict",
            Self::Invalid => "Invalid",
            Self::Internal => "InternalError",
        }
    }
}

/// What a review is answered with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// `None` when the request is allowed.
    pub denial: Option<Denial>,
    /// Shown to the client in any case.
    pub warnings: Vec<String>,
    /// Into the audit log: key without prefix, value.
    pub annotations: Vec<(String, String)>,
}

/// A refusal with its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// What kind.
    pub refusal: Refusal,
    /// Text for people.
    pub message: String,
    /// Name of the object, where known.
    pub name: String,
    /// API group of the object.
    pub group: String,
    /// Kind of the object.
    pub kind: String,
    /// One for each refused field.
    pub causes: Vec<Cause>,
}

impl Denial {
    /// A refusal that names no object and no field.
    #[must_use]
    pub fn new(refusal: Refusal, message: impl Into<String>) -> Self {
        Self {
            refusal,
            message: message.into(),
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            causes: Vec::new(),
        }
    }
}

impl Reply {
    /// Allowed, with nothing to say.
    #[must_use]
    pub fn allow() -> Self {
        Self::default()
    }

    /// The body of the answer.
    pub fn encode(&self, uid: &str, version: ReviewVersion) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Review {
            api_version: version.as_str(),
            kind: "AdmissionReview",
            response: Response {
                uid,
                allowed: self.denial.is_none(),
                status: self.denial.as_ref().map(Status::from),
                warnings: bounded_warnings(&self.warnings),
                audit_annotations: Annotations(&self.annotations),
            },
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    audit_annotations: Annotations<'a>,
}

#[derive(Serialize)]
struct Status<'a> {
    #[serde(rename = "status")]
    success: &'static str,
    code: u16,
    reason: &'static str,
    message: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details<'a>>,
}

#[derive(Serialize)]
struct Details<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<StatusCause<'a>>,
}

#[derive(Serialize)]
struct StatusCause<'a> {
    reason: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    field: &'a str,
    message: &'a str,
}

impl<'a> From<&'a Denial> for Status<'a> {
    fn from(denial: &'a Denial) -> Self {
        let causes = denial
            .causes
            .iter()
            .take(MAX_CAUSES)
            .map(|cause| StatusCause { reason: cause.reason, field: &cause.field, message: &cause.message })
            .collect::<Vec<_>>();
        let details = Details { name: &denial.name, group: &denial.group, kind: &denial.kind, causes };
        Self {
            success: "Failure",
            code: denial.refusal.code(),
            reason: denial.refusal.reason(),
            message: cut(&denial.message, MAX_MESSAGE),
            details: (!denial.kind.is_empty() || !denial.causes.is_empty()).then_some(details),
        }
    }
}

/// Serialised as a map; a key that stands twice keeps its first value.
struct Annotations<'a>(&'a [(String, String)]);

impl Annotations<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Annotations<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let distinct = self
            .0
            .iter()
            .enumerate()
            .filter(|(index, (key, _))| !self.0.iter().take(*index).any(|(earlier, _)| earlier == key));
        serializer.collect_map(distinct.map(|(_, (key, value))| (key, cut(value, MAX_ANNOTATION))))
    }
}

/// Cuts at a character boundary, with a sign that it was cut.
fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    const SIGN: &str = " ...";
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(limit.saturating_sub(SIGN.len()));
    Cow::Owned(text.get(..end).unwrap_or_default().to_owned() + SIGN)
}

/// Warnings become HTTP headers: one line each, and not too many.
fn bounded_warnings(warnings: &[String]) -> Vec<String> {
    let mut total = 0;
    let mut bounded = Vec::new();
    for warning in warnings {
        let line: String = warning.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let line = cut(&line, MAX_WARNING).into_owned();
        total += line.len();
        if total > MAX_WARNINGS_TOTAL {
            bounded
                .push(format!("fieldkeeper: {} more warnings are not shown", warnings.len() - bounded.len()));
            break;
        }
        bounded.push(line);
    }
    bounded
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn encoded(reply: &Reply) -> Value {
        serde_json::from_slice(&reply.encode("u-1", ReviewVersion::V1).unwrap()).unwrap()
    }

    #[test]
    fn an_allowed_review_is_answered_in_a_line() {
        assert_eq!(
            encoded(&Reply::allow()),
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                   "response": {"uid": "u-1", "allowed": true}})
        );
    }

    #[test]
    fn a_denial_is_a_status_with_causes() {
        let mut denial = Denial::new(Refusal::Forbidden, "no");
        denial.name = "general".into();
        denial.group = "compute.fieldkeeper.dev".into();
        denial.kind = "NodePool".into();
        denial.causes = vec![Cause {
            reason: "FieldOwnedByAnother",
            field: ".spec.targetNodes".into(),
            message: "owned by autoscaler".into(),
        }];
        let reply = Reply { denial: Some(denial), ..Reply::default() };
        assert_eq!(
            encoded(&reply)["response"],
            json!({"uid": "u-1", "allowed": false, "status": {
            "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no",
            "details": {"name": "general", "group": "compute.fieldkeeper.dev", "kind": "NodePool", "causes": [
                {"reason": "FieldOwnedByAnother", "field": ".spec.targetNodes", "message": "owned by autoscaler"}
            ]}}})
        );
    }

    #[test]
    fn warnings_fit_into_headers_and_are_bounded() {
        let reply = Reply { warnings: vec!["ä\n".repeat(500); 100], ..Reply::default() };
        let answer = encoded(&reply);
        let warnings = answer["response"]["warnings"].as_array().unwrap();
        let total: usize = warnings.iter().map(|w| w.as_str().unwrap().len()).sum();
        assert!(total <= 4096, "{total}");
        assert!(warnings.iter().all(|w| w.as_str().unwrap().len() <= MAX_WARNING));
        assert!(warnings.iter().all(|w| !w.as_str().unwrap().contains('\n')));
        assert!(warnings.last().unwrap().as_str().unwrap().ends_with("more warnings are not shown"));
    }

    #[test]
    fn an_annotation_key_is_written_once() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let reply =
            Reply { annotations: vec![pair("a", "1"), pair("a", "2"), pair("b", "3")], ..Reply::default() };
        let bytes = reply.encode("u", ReviewVersion::V1).unwrap();
        assert!(String::from_utf8(bytes).unwrap().ends_with(r#""auditAnnotations":{"a":"1","b":"3"}}}"#));
    }
}
