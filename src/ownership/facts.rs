//! Everything that a decision may look at, and nothing else.
//!
//! The admission edge fills [`Facts`] from an `AdmissionReview`, offline replay
//! fills it from a recorded one. The time and the parent of a `/scale` request
//! are facts too, so that `decide` needs no clock and no client.

use std::collections::BTreeMap;

use super::raw::Raw;
use super::selection::Labels;

/// Who asks: the effective user of the request, as the API server authenticated it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// User name, for example `system:serviceaccount:fieldkeeper-system:autoscaler`.
    pub username: String,
    /// Unique id; empty when the authenticator gave none.
    pub uid: String,
    /// Groups, in the order given.
    pub groups: Vec<String>,
    /// Further attributes, such as `authentication.kubernetes.io/pod-name`.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What the request does to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object; a server-side apply that creates counts too.
    Create,
    /// Any change of a stored object: put, every patch, apply, `/status`, `/scale`.
    Update,
    /// Removal of an object.
    Delete,
    /// A connection such as `exec`; never governed.
    Connect,
}

/// The facts of one request.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The effective user.
    pub requester: &'a Requester,
    /// What is done.
    pub operation: Operation,
    /// API group of the reviewed resource (not that of the `Scale` kind).
    pub group: &'a str,
    /// API version in which `object` and `old_object` are written.
    pub version: &'a str,
    /// Plural resource name.
    pub resource: &'a str,
    /// Subresource, empty for the main resource.
    pub subresource: &'a str,
    /// Kind of the object, for messages.
    pub kind: &'a str,
    /// Namespace, empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// Labels of that namespace; `None` if they are not known. Unused for cluster-scoped objects.
    pub namespace_labels: Option<&'a Labels>,
    /// Object name; empty for `DELETECOLLECTION`, where `old_object` names it.
    pub name: &'a str,
    /// `fieldManager` as the client sent it; `None` when it sent none. Never authority.
    pub field_manager: Option<&'a str>,
    /// The object as it would be stored; `None` on DELETE.
    pub object: Option<Raw<'a>>,
    /// The object as it is stored; `None` on CREATE.
    pub old_object: Option<Raw<'a>>,
    /// For `/scale`: the object whose count is written, read at exactly the
    /// resource version that is reviewed. `None` until [`super::decide::Decision::NeedsParent`] asks for it.
    pub parent: Option<Raw<'a>>,
    /// Seconds since the Unix epoch, for `pausedUntil`.
    pub now: i64,
}
