//! What names an object: type, name, namespace, uid, resource version.
//!
//! Read in one pass over the raw text; everything else is skipped, however large or deep.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::strict::Object;

/// The few things that name an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Head<'a> {
    /// Group and version.
    #[serde(borrow)]
    pub(super) api_version: Cow<'a, str>,
    /// Kind.
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    metadata: Object<HeadMetadata<'a>>,
}

impl<'a> Head<'a> {
    /// The metadata.
    pub(super) fn metadata(&self) -> &HeadMetadata<'a> {
        &self.metadata.0
    }
}

/// See [`Head`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct HeadMetadata<'a> {
    /// Name.
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    /// Namespace.
    #[serde(borrow)]
    pub(super) namespace: Cow<'a, str>,
    /// Uid.
    #[serde(borrow)]
    pub(super) uid: Cow<'a, str>,
    /// Resource version.
    #[serde(borrow)]
    pub(super) resource_version: Cow<'a, str>,
}

/// Reads what names an object; `None` when it is no object or says something twice.
#[must_use]
pub(super) fn head(object: &RawValue) -> Option<Head<'_>> {
    serde_json::from_str(object.get()).ok().map(|Object(head)| head)
}
