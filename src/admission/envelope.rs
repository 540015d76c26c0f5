//! The body of a review, taken apart.
//!
//! Input: the bytes of an `AdmissionReview`. Output: the uid first ([`open`]), then, on demand, the
//! request ([`Opened::read`]) with `object` and `oldObject` as slices of the body.
//!
//! Two kinds of failure are kept apart, because they are answered differently. Without a uid no
//! answer would be accepted, so the caller gets an HTTP error and the API server goes by its failure
//! policy. With a uid the caller gets a refusal. Objects are never parsed into trees here, and no
//! error text repeats what the body says, except for names that the reader of the text needs.

mod apart;

use std::borrow::Cow;
use std::collections::BTreeMap;

use self::apart::Members;
use super::head::head;

use crate::ownership::facts::{Operation, Requester};
use crate::ownership::raw::{Kind, Raw, RawError};

/// The API server sends UUIDs of 36 characters; a longer uid would only blow up logs and answers.
const MAX_UID: usize = 128;

/// How much of a wrong name is repeated in an error.
const MAX_QUOTED: usize = 64;

/// Version of the review format. An answer must name the one of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `admission.k8s.io/v1`, the only one that is judged.
    V1,
    /// `admission.k8s.io/v1beta1`, gone since Kubernetes 1.22: refused, in its own version.
    V1Beta1,
}

impl ReviewVersion {
    /// The `apiVersion` of the answer.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// The body holds no review that could be answered: an HTTP error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not text.
    #[error("the body is not UTF-8")]
    NotUtf8,
    /// Not JSON, cut short, followed by something else, or a member stands there twice.
    #[error("the body is not an AdmissionReview: line {line}, column {column}")]
    NotJson {
        /// Line, from 1.
        line: usize,
        /// Column, in characters from 1.
        column: usize,
    },
    /// Some other object.
    #[error("kind is {0:?}, expected \"AdmissionReview\"")]
    Kind(String),
    /// A version that nobody here knows how to answer.
    #[error("apiVersion is {0:?}, expected \"admission.k8s.io/v1\"")]
    Version(String),
    /// An answer instead of a question, or nothing.
    #[error("the review has no request")]
    NoRequest,
    /// Nothing to answer to.
    #[error("the request has no usable uid")]
    NoUid,
}

/// The uid is known but the request makes no sense: a refusal with that uid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The old format.
    #[error("admission.k8s.io/v1beta1 is not supported: register with admissionReviewVersions [\"v1\"]")]
    OldVersion,
    /// A member that has to be there is not, or is not what it should be.
    #[error("request.{0} is missing or malformed")]
    Member(&'static str),
    /// The operation is none of the four.
    #[error("unknown operation {0:?}")]
    Operation(String),
    /// Objects and operation do not go together.
    #[error("{operation} {problem}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The object is not the one that the request names.
    #[error("request.object does not agree with request.{0}")]
    Mismatch(&'static str),
}

/// A review whose uid has been read.
#[derive(Debug)]
pub struct Opened<'a> {
    /// The uid to answer with.
    pub uid: Cow<'a, str>,
    /// The format to answer in.
    pub version: ReviewVersion,
    members: Members<'a>,
}

/// One request, ready to become facts.
#[derive(Debug)]
pub struct Request<'a> {
    /// Group, version and kind of `object`.
    pub kind: GroupVersionKind<'a>,
    /// The resource as the webhook is registered for it.
    pub resource: GroupVersionResource<'a>,
    /// Subresource, empty for the main resource.
    pub subresource: Cow<'a, str>,
    /// Object name; empty for a collection, or where the server has yet to generate it.
    pub name: Cow<'a, str>,
    /// Namespace, empty for a cluster-scoped object.
    pub namespace: Cow<'a, str>,
    /// What is done.
    pub operation: Operation,
    /// Who asks.
    pub requester: Requester,
    /// The object as it would be stored.
    pub object: Option<Raw<'a>>,
    /// The object as it is stored.
    pub old_object: Option<Raw<'a>>,
    /// `options.fieldManager`, where the client sent one.
    pub field_manager: Option<String>,
    /// Nothing will be stored.
    pub dry_run: bool,
}

/// Type of an object.
#[derive(Debug)]
pub struct GroupVersionKind<'a> {
    /// API group, empty for the core group.
    pub group: Cow<'a, str>,
    /// Version.
    pub version: Cow<'a, str>,
    /// Kind.
    pub kind: Cow<'a, str>,
}

/// Type of a resource.
#[derive(Debug)]
pub struct GroupVersionResource<'a> {
    /// API group, empty for the core group.
    pub group: Cow<'a, str>,
    /// Version.
    pub version: Cow<'a, str>,
    /// Plural name.
    pub resource: Cow<'a, str>,
}

/// Reads the uid and the version; the rest of the body has to be JSON, but may hold anything.
pub fn open(body: &[u8]) -> Result<Opened<'_>, Unreadable> {
    let text = std::str::from_utf8(body).map_err(|_| Unreadable::NotUtf8)?;
    let ([api_version, kind], request) = apart::outermost(text)?;
    if kind != "AdmissionReview" {
        return Err(Unreadable::Kind(quoted(&kind)));
    }
    let version = [ReviewVersion::V1, ReviewVersion::V1Beta1]
        .into_iter()
        .find(|version| version.as_str() == api_version)
        .ok_or_else(|| Unreadable::Version(quoted(&api_version)))?;
    let members = request.ok_or(Unreadable::NoRequest)?;
    let uid = members.uid.and_then(|uid| uid.string().ok()).ok_or(Unreadable::NoUid)?;
    if uid.is_empty() || uid.len() > MAX_UID {
        return Err(Unreadable::NoUid);
    }
    Ok(Opened { uid, version, members })
}

impl<'a> Opened<'a> {
    /// Reads the request, and refuses one whose parts contradict each other.
    pub fn read(&self) -> Result<Request<'a>, Malformed> {
        if self.version == ReviewVersion::V1Beta1 {
            return Err(Malformed::OldVersion);
        }
        let members = &self.members;
        let [group, version, kind] =
            required(members.kind, "kind", |raw| texts(raw, ["group", "version", "kind"]))?;
        let kind = GroupVersionKind { group, version, kind };
        let [group, version, resource] =
            required(members.resource, "resource", |raw| texts(raw, ["group", "version", "resource"]))?;
        let request = Request {
            kind,
            resource: GroupVersionResource { group, version, resource },
            subresource: text(members.sub_resource, "subResource")?,
            name: text(members.name, "name")?,
            namespace: text(members.namespace, "namespace")?,
            operation: operation(members.operation)?,
            requester: required(members.user_info, "userInfo", requester)?,
            object: members.object,
            old_object: members.old_object,
            field_manager: optional(members.options, "options", field_manager)?,
            dry_run: optional(members.dry_run, "dryRun", boolean)?,
        };
        if request.resource.resource.is_empty() {
            return Err(Malformed::Member("resource"));
        }
        request.check_shape()?;
        Ok(request)
    }
}

impl Request<'_> {
    /// The object that the request is about: the new one, or on DELETE the stored one.
    #[must_use]
    pub fn subject(&self) -> Option<Raw<'_>> {
        self.object.or(self.old_object)
    }

    /// The name of that object; a collection is deleted object by object, and only the object has it.
    #[must_use]
    pub fn object_name(&self) -> Cow<'_, str> {
        if !self.name.is_empty() {
            return Cow::Borrowed(&self.name);
        }
        self.subject().and_then(head).map(|head| head.metadata().name.clone()).unwrap_or_default()
    }

    /// The stored object and the new one are the same bytes. Both come from one encoder, so equal
    /// bytes mean equal values; different bytes mean nothing.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        match (self.object, self.old_object) {
            (Some(new), Some(old)) => new.text() == old.text(),
            _ => false,
        }
    }

    /// Refuses an object that is not the one that the request names.
    pub fn check_names(&self) -> Result<(), Malformed> {
        let Some(object) = self.subject() else { return Ok(()) };
        let head = head(object).ok_or(Malformed::Member("object"))?;
        let group = head.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let kind_agrees = head.kind.is_empty() || (head.kind == self.kind.kind && group == self.kind.group);
        // What is empty is filled in later, by the server: a generated name, for example.
        let agrees = |own: &str, named: &str| own.is_empty() || named.is_empty() || own == named;
        if !kind_agrees {
            Err(Malformed::Mismatch("kind"))
        } else if !agrees(&head.metadata().name, &self.name) {
            Err(Malformed::Mismatch("name"))
        } else if !agrees(&head.metadata().namespace, &self.namespace) {
            Err(Malformed::Mismatch("namespace"))
        } else {
            Ok(())
        }
    }

    fn check_shape(&self) -> Result<(), Malformed> {
        let problem = match (self.operation, self.object.is_some(), self.old_object.is_some()) {
            (Operation::Create, true, false)
            | (Operation::Update, true, true)
            | (Operation::Delete, false, true)
            | (Operation::Connect, _, _) => return Ok(()),
            (Operation::Create | Operation::Update, false, _) => "without object",
            (Operation::Update | Operation::Delete, _, false) => "without oldObject",
            (Operation::Create, true, true) => "with oldObject",
            (Operation::Delete, true, true) => "with object",
        };
        Err(Malformed::Shape { operation: operation_name(self.operation), problem })
    }
}

/// The spelling of an operation in reviews and metrics.
#[must_use]
pub fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

fn operation(raw: Option<Raw<'_>>) -> Result<Operation, Malformed> {
    let name = text(raw, "operation")?;
    [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect]
        .into_iter()
        .find(|operation| operation_name(*operation) == name)
        .ok_or_else(|| Malformed::Operation(quoted(&name)))
}

/// Reads a member with the code that reads objects, which the rest of a review needs anyway.
fn required<'a, T>(
    raw: Option<Raw<'a>>,
    name: &'static str,
    read: impl FnOnce(Raw<'a>) -> Result<T, RawError>,
) -> Result<T, Malformed> {
    raw.and_then(|raw| read(raw).ok()).ok_or(Malformed::Member(name))
}

fn optional<'a, T: Default>(
    raw: Option<Raw<'a>>,
    name: &'static str,
    read: impl FnOnce(Raw<'a>) -> Result<T, RawError>,
) -> Result<T, Malformed> {
    if raw.is_some() { required(raw, name, read) } else { Ok(T::default()) }
}

fn text<'a>(raw: Option<Raw<'a>>, name: &'static str) -> Result<Cow<'a, str>, Malformed> {
    optional(raw, name, Raw::string)
}

/// Some members that are strings; what is not there is empty.
fn texts<'a, const N: usize>(object: Raw<'a>, names: [&str; N]) -> Result<[Cow<'a, str>; N], RawError> {
    let mut texts = [const { Cow::Borrowed("") }; N];
    for (text, raw) in texts.iter_mut().zip(object.named(names)?) {
        if let Some(raw) = raw {
            *text = raw.string()?;
        }
    }
    Ok(texts)
}

fn requester(user: Raw<'_>) -> Result<Requester, RawError> {
    let [username, uid, groups, extra] = user.named(["username", "uid", "groups", "extra"])?;
    let text = |raw: Option<Raw<'_>>| raw.map_or(Ok(String::new()), |raw| raw.string().map(Cow::into_owned));
    let extra = match some(extra) {
        None => BTreeMap::new(),
        Some(extra) => {
            let members = extra.members()?.into_iter();
            members.map(|(key, values)| Ok((key.into_owned(), strings(values)?))).collect::<Result<_, _>>()?
        }
    };
    let groups = some(groups).map_or(Ok(Vec::new()), strings)?;
    Ok(Requester { username: text(username)?, uid: text(uid)?, groups, extra })
}

fn field_manager(options: Raw<'_>) -> Result<Option<String>, RawError> {
    let Some(name) = some(options.get("fieldManager")?) else { return Ok(None) };
    Ok(Some(name.string()?.into_owned()).filter(|name| !name.is_empty()))
}

fn strings(list: Raw<'_>) -> Result<Vec<String>, RawError> {
    list.items()?.into_iter().map(|item| item.string().map(Cow::into_owned)).collect()
}

fn boolean(raw: Raw<'_>) -> Result<bool, RawError> {
    match raw.text() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(RawError::Kind { expected: Kind::Bool, found: raw.kind() }),
    }
}

/// `null` is as good as nothing.
fn some(raw: Option<Raw<'_>>) -> Option<Raw<'_>> {
    raw.filter(|raw| raw.kind() != Kind::Null)
}

fn quoted(name: &str) -> String {
    name.chars().take(MAX_QUOTED).collect()
}

#[cfg(test)]
mod tests;
