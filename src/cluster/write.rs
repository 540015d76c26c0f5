//! The one door for writes.
//!
//! Input: a [`Manager`], the object it means, and the fields that this manager
//! owns. Output: the object as stored, or a [`WriteError`] that says what to do
//! next: re-read, report an owner, wait, or give up.
//!
//! Must not write without a manager, create what it was told to change (each
//! apply to an existing object carries its uid), retry by itself, or force
//! except where `managers` gives the reason.

use std::fmt::{self, Debug, Display};
use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, NamespaceResourceScope, Status};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::client::CALL_TIMEOUT;
use crate::managers::{Force, Manager};

/// An object that exists, as a write addresses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// Its kind.
    pub resource: ApiResource,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The uid that was read: another object of the same name is another object.
    pub uid: String,
}

impl Display for Existing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, namespace, name, uid: _ } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {namespace}{slash}{name}", resource.kind)
    }
}

/// One field that another manager holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The field, as the API server writes it (`.spec.replicas`).
    pub field: String,
    /// The server's text, which names the manager.
    pub message: String,
}

impl Cause {
    /// The manager that holds the field, taken from the server's text (`conflict with "NAME" …`).
    #[must_use]
    pub fn manager(&self) -> Option<&str> {
        self.message.split('"').nth(1).filter(|name| !name.is_empty())
    }
}

/// Why a write did not happen, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object moved on: read again, recompute, try again.
    #[error("{object} changed meanwhile: {message}")]
    VersionConflict {
        /// What was written.
        object: String,
        /// The server's text.
        message: String,
    },
    /// Somebody else holds these fields: report it, do not repeat.
    #[error("{object}: {}", list_causes(causes))]
    OwnershipConflict {
        /// What was written.
        object: String,
        /// The fields and who holds them.
        causes: Vec<Cause>,
    },
    /// The object is gone, or another one has its name.
    #[error("{object} is gone: {message}")]
    Gone {
        /// What was written.
        object: String,
        /// The server's text.
        message: String,
    },
    /// May work later: time-outs, overload, a server that is starting.
    #[error("{object}: {message}")]
    Transient {
        /// What was written.
        object: String,
        /// The server's or the connection's text.
        message: String,
        /// How long the server asked to wait.
        retry_after: Option<Duration>,
    },
    /// Will not work until somebody changes something: refused, invalid, not permitted.
    #[error("{object}: {message}")]
    Permanent {
        /// What was written.
        object: String,
        /// The HTTP status; 0 when the request was not sent.
        code: u16,
        /// The server's text.
        message: String,
    },
}

impl WriteError {
    /// Short, for metrics and logs.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::VersionConflict { .. } => "version_conflict",
            Self::OwnershipConflict { .. } => "ownership_conflict",
            Self::Gone { .. } => "gone",
            Self::Transient { .. } => "transient",
            Self::Permanent { .. } => "permanent",
        }
    }

    /// Whether trying again, after reading again, can help without anybody's doing.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::VersionConflict { .. } | Self::Transient { .. })
    }
}

fn list_causes(causes: &[Cause]) -> String {
    let texts: Vec<String> =
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    texts.join("; ")
}

/// Writes to the cluster.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    timeout: Duration,
}

impl Writer {
    /// A writer over `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, timeout: CALL_TIMEOUT }
    }

    /// Makes `fields` the complete set that `manager` owns in `object`.
    ///
    /// `fields` is the object without apiVersion, kind and identity: those are added here.
    pub async fn apply(
        &self,
        manager: Manager,
        object: &Existing,
        fields: Map<String, Value>,
    ) -> Result<DynamicObject, WriteError> {
        let patch = Patch::Apply(body(object, fields));
        let api = self.api(object);
        self.call(object, api.patch(&object.name, &params(manager), &patch)).await
    }

    /// As [`Self::apply`], for an object that is the manager's alone and is made where it is not there.
    pub async fn apply_own(
        &self,
        manager: Manager,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
        fields: Map<String, Value>,
    ) -> Result<DynamicObject, WriteError> {
        let (namespace, name, uid) = (namespace.to_owned(), name.to_owned(), String::new());
        let object = Existing { resource: resource.clone(), namespace, name, uid };
        let mut body = body(&object, fields);
        if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
            metadata.remove("uid");
        }
        self.call(&object, self.api(&object).patch(&object.name, &params(manager), &Patch::Apply(body))).await
    }

    /// Deletes exactly this object. One that is gone already is no error.
    pub async fn delete(&self, object: &Existing) -> Result<(), WriteError> {
        let params = DeleteParams::default()
            .preconditions(Preconditions { uid: Some(object.uid.clone()), resource_version: None });
        match self.call(object, self.api(object).delete(&object.name, &params)).await {
            Ok(_) | Err(WriteError::Gone { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// As [`Self::apply`], for `.status` through the subresource.
    pub async fn apply_status(
        &self,
        manager: Manager,
        object: &Existing,
        status: Value,
    ) -> Result<DynamicObject, WriteError> {
        let mut fields = Map::new();
        fields.insert("status".to_owned(), status);
        let patch = Patch::Apply(body(object, fields));
        let api = self.api(object);
        self.call(object, api.patch_status(&object.name, &params(manager), &patch)).await
    }

    /// Creates an object that nobody will apply later, such as an event.
    pub async fn create<K>(&self, manager: Manager, namespace: &str, object: &K) -> Result<(), WriteError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + Serialize + DeserializeOwned,
    {
        let params = PostParams { field_manager: Some(manager.name().to_owned()), ..PostParams::default() };
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let name =
            format!("{} {namespace}/{}", K::kind(&()), object.meta().name.as_deref().unwrap_or_default());
        self.call(&name, api.create(&params, object)).await.map(drop)
    }

    fn api(&self, object: &Existing) -> Api<DynamicObject> {
        if object.namespace.is_empty() {
            Api::all_with(self.client.clone(), &object.resource)
        } else {
            Api::namespaced_with(self.client.clone(), &object.namespace, &object.resource)
        }
    }

    async fn call<T>(
        &self,
        object: &impl Display,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, WriteError> {
        match tokio::time::timeout(self.timeout, request).await {
            Ok(Ok(written)) => Ok(written),
            Ok(Err(error)) => Err(classify(object.to_string(), error)),
            Err(_) => Err(WriteError::Transient {
                object: object.to_string(),
                message: format!("no answer within {} s", self.timeout.as_secs_f32()),
                retry_after: None,
            }),
        }
    }
}

/// Strict validation: a misspelt field of ours must fail in a test, not vanish in a cluster.
fn params(manager: Manager) -> PatchParams {
    let params = PatchParams::apply(manager.name()).validation_strict();
    match manager.forces() {
        Force::Never => params,
        Force::Always(_reason) => params.force(),
    }
}

fn body(object: &Existing, mut fields: Map<String, Value>) -> Value {
    let mut metadata = json!({"name": object.name, "uid": object.uid});
    // Fields below metadata (finalizers, labels) stay; identity is ours to set.
    if let (Some(Value::Object(given)), Value::Object(metadata)) = (fields.remove("metadata"), &mut metadata)
    {
        for (key, value) in given {
            metadata.entry(key).or_insert(value);
        }
    }
    if let (false, Value::Object(metadata)) = (object.namespace.is_empty(), &mut metadata) {
        metadata.insert("namespace".to_owned(), object.namespace.clone().into());
    }
    fields.insert("apiVersion".to_owned(), object.resource.api_version.clone().into());
    fields.insert("kind".to_owned(), object.resource.kind.clone().into());
    fields.insert("metadata".to_owned(), metadata);
    Value::Object(fields)
}

fn classify(object: String, error: kube::Error) -> WriteError {
    match error {
        kube::Error::Api(status) => classify_status(object, *status),
        // The connection, before or after the server saw the request: applying again is harmless.
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => {
            WriteError::Transient { object, message: error.to_string(), retry_after: None }
        }
        other => WriteError::Permanent { object, code: 0, message: other.to_string() },
    }
}

/// Text of the 500 that answers an apply with a field outside of the schema.
const NO_SUCH_FIELD: &str = "failed to create typed patch object";
/// Cause reason of a server-side apply conflict.
const MANAGER_CONFLICT: &str = "FieldManagerConflict";

fn classify_status(object: String, status: Status) -> WriteError {
    let Status { message, code, details, .. } = status;
    let retry_after = details
        .as_ref()
        .map(|details| details.retry_after_seconds)
        .filter(|seconds| *seconds > 0)
        .map(|seconds| Duration::from_secs(seconds.into()));
    let all = details.map(|details| details.causes).unwrap_or_default();
    let another_object = all.iter().any(|cause| cause.field == "metadata.uid");
    let causes: Vec<Cause> = all
        .into_iter()
        .filter(|cause| cause.reason == MANAGER_CONFLICT)
        .map(|cause| Cause { field: cause.field, message: cause.message })
        .collect();
    match code {
        404 | 410 => WriteError::Gone { object, message },
        409 if !causes.is_empty() => WriteError::OwnershipConflict { object, causes },
        // An apply that carries a uid and finds no object.
        409 if message.contains("uid mismatch") => WriteError::Gone { object, message },
        // Or finds another one: to the server this is an attempt to change its uid.
        422 if another_object => WriteError::Gone { object, message },
        409 => WriteError::VersionConflict { object, message },
        // The server has no better code for an apply that its schema does not know.
        500 if message.contains(NO_SUCH_FIELD) => WriteError::Permanent { object, code, message },
        // Any other 500 may pass: the server reports failing webhooks and storage hiccups with it.
        408 | 429 | 500..=599 => WriteError::Transient { object, message, retry_after },
        _ => WriteError::Permanent { object, code, message },
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
