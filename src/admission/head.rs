//! What names an object: type, name, namespace, uid, resource version.
//!
//! Read from the raw text; everything else is stepped over, however large or deep.

use std::borrow::Cow;

use crate::ownership::raw::{Raw, RawError};

/// The few things that name an object. What is not there is empty.
#[derive(Debug)]
pub(super) struct Head<'a> {
    /// Group and version.
    pub(super) api_version: Cow<'a, str>,
    /// Kind.
    pub(super) kind: Cow<'a, str>,
    metadata: HeadMetadata<'a>,
}

impl<'a> Head<'a> {
    /// The metadata.
    pub(super) fn metadata(&self) -> &HeadMetadata<'a> {
        &self.metadata
    }
}

/// See [`Head`].
#[derive(Debug, Default)]
pub(super) struct HeadMetadata<'a> {
    /// Name.
    pub(super) name: Cow<'a, str>,
    /// Namespace.
    pub(super) namespace: Cow<'a, str>,
    /// Uid.
    pub(super) uid: Cow<'a, str>,
    /// Resource version.
    pub(super) resource_version: Cow<'a, str>,
}

/// Reads what names an object; `None` when it is no object or says something twice.
#[must_use]
pub(super) fn head(object: Raw<'_>) -> Option<Head<'_>> {
    read(object).ok()
}

fn read(object: Raw<'_>) -> Result<Head<'_>, RawError> {
    let [api_version, kind, metadata] = object.named(["apiVersion", "kind", "metadata"])?;
    let metadata = match metadata {
        None => HeadMetadata::default(),
        Some(metadata) => {
            let [name, namespace, uid, resource_version] =
                metadata.named(["name", "namespace", "uid", "resourceVersion"])?;
            HeadMetadata {
                name: text(name)?,
                namespace: text(namespace)?,
                uid: text(uid)?,
                resource_version: text(resource_version)?,
            }
        }
    };
    Ok(Head { api_version: text(api_version)?, kind: text(kind)?, metadata })
}

fn text(value: Option<Raw<'_>>) -> Result<Cow<'_, str>, RawError> {
    value.map_or(Ok(Cow::Borrowed("")), Raw::string)
}
