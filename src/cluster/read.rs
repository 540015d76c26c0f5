//! Single live reads of any kind.
//!
//! Input: which object. Output: its JSON, untouched, or why there is none.
//! Must not use a cache, and must not take longer than the caller can wait.

use std::time::Duration;

use kube::Client;
use serde_json::value::RawValue;

/// An object of whatever kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// API group, empty for the core group.
    pub group: String,
    /// API version, without the group.
    pub version: String,
    /// Plural resource name.
    pub resource: String,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Why an object could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It does not exist.
    #[error("{0} does not exist")]
    NotFound(String),
    /// RBAC does not let us.
    #[error("{0}")]
    Forbidden(String),
    /// No answer in time.
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// Reads one object from the API server.
pub async fn get_raw(
    client: &Client,
    object: &ObjectRef,
    within: Duration,
) -> Result<Box<RawValue>, ReadError> {
    let path = path(object)?;
    let request =
        http::Request::get(&path).body(Vec::new()).map_err(|error| ReadError::Failed(error.to_string()))?;
    match tokio::time::timeout(within, client.request::<Box<RawValue>>(request)).await {
        Ok(Ok(json)) => Ok(json),
        Ok(Err(kube::Error::Api(status))) => Err(match status.code {
            404 => ReadError::NotFound(path),
            403 => ReadError::Forbidden(status.message),
            _ => ReadError::Failed(status.message),
        }),
        Ok(Err(error)) => Err(ReadError::Failed(error.to_string())),
        Err(_) => Err(ReadError::TimedOut(within)),
    }
}

/// The parts come from requests of strangers: one that could lead to another path is refused, not escaped.
fn path(object: &ObjectRef) -> Result<String, ReadError> {
    let ObjectRef { group, version, resource, namespace, name } = object;
    let is_segment = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            // RBAC names hold colons; nothing else beyond DNS names is a name of a governed object.
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte))
    };
    for part in [version, resource, name] {
        if !is_segment(part) {
            return Err(ReadError::Failed(format!("{part:?} cannot be part of a request path")));
        }
    }
    for part in [group, namespace] {
        if !part.is_empty() && !is_segment(part) {
            return Err(ReadError::Failed(format!("{part:?} cannot be part of a request path")));
        }
    }
    let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
    let namespace = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    Ok(format!("{root}/{version}{namespace}/{resource}/{name}"))
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    fn pool(name: &str) -> ObjectRef {
        ObjectRef {
            group: "compute.fieldkeeper.dev".to_owned(),
            version: "v1alpha1".to_owned(),
            resource: "nodepools".to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
        }
    }

    /// A server that answers with the path it was asked for.
    fn echo(code: u16) -> Client {
        let service = service_fn(move |request: Request<Body>| async move {
            let path = request.uri().path();
            let body = if code == 200 {
                format!("{{\"path\": \"{path}\",  \"n\": 1.50}}")
            } else {
                format!(
                    "{{\"kind\":\"Status\",\"status\":\"Failure\",\"code\":{code},\"message\":\"no {path}\"}}"
                )
            };
            let response = Response::builder().status(code).body(Body::from(body.into_bytes()));
            Ok::<_, std::convert::Infallible>(response.unwrap())
        });
        Client::new(service, "default")
    }

    const SOON: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn the_bytes_arrive_as_they_are() {
        let json = get_raw(&echo(200), &pool("general"), SOON).await.unwrap();
        assert_eq!(
            json.get(),
            "{\"path\": \"/apis/compute.fieldkeeper.dev/v1alpha1/nodepools/general\",  \"n\": 1.50}"
        );
    }

    #[tokio::test]
    async fn core_and_namespaced_kinds_have_their_own_paths() {
        let object = ObjectRef {
            group: String::new(),
            version: "v1".to_owned(),
            resource: "replicationcontrollers".to_owned(),
            namespace: "web".to_owned(),
            name: "a".to_owned(),
        };
        let json = get_raw(&echo(200), &object, SOON).await.unwrap();
        assert!(json.get().contains("/api/v1/namespaces/web/replicationcontrollers/a"), "{json}");
    }

    #[tokio::test]
    async fn a_name_cannot_lead_elsewhere() {
        for name in ["..", "a/../../secrets/b", "a?x=y", "a#", "", "a%2fb", "ä"] {
            assert!(
                matches!(get_raw(&echo(200), &pool(name), SOON).await, Err(ReadError::Failed(_))),
                "{name}"
            );
        }
    }

    #[tokio::test]
    async fn absence_and_lack_of_rights_are_told_apart() {
        assert!(matches!(get_raw(&echo(404), &pool("a"), SOON).await, Err(ReadError::NotFound(_))));
        assert!(matches!(get_raw(&echo(403), &pool("a"), SOON).await, Err(ReadError::Forbidden(_))));
        assert!(matches!(get_raw(&echo(500), &pool("a"), SOON).await, Err(ReadError::Failed(_))));
    }

    #[tokio::test]
    async fn the_caller_is_not_held_up() {
        let service = service_fn(|_: Request<Body>| async {
            std::future::pending::<()>().await;
            Ok::<_, std::convert::Infallible>(Response::new(Body::empty()))
        });
        let client = Client::new(service, "default");
        let result = get_raw(&client, &pool("a"), Duration::from_millis(20)).await;
        assert!(matches!(result, Err(ReadError::TimedOut(_))));
    }
}
