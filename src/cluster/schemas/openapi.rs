//! The kinds without a CRD: built in, or of an aggregated API server.
//!
//! Input: the API server's `/openapi/v3` and its discovery. Output: the schemas
//! of the few kinds that are asked for.
//!
//! The document of a group and version is up to two megabytes, so it is read
//! only when the index shows another hash for it, once for all targets in it,
//! and dropped as soon as they are built.

use std::collections::BTreeMap;

use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use super::kind::Unresolved;
use crate::cluster::client::CALL_TIMEOUT;
use crate::cluster::in_force::GroupResource;
use crate::ownership::schema::Schema;

/// Where the documents are.
const INDEX: &str = "/openapi/v3";

/// Which documents there are, and under which address: the address holds the document's hash.
#[derive(Clone, Debug, Default)]
pub(super) struct Index(BTreeMap<String, String>);

#[derive(Deserialize)]
struct IndexDocument {
    paths: BTreeMap<String, IndexEntry>,
}

#[derive(Deserialize)]
struct IndexEntry {
    #[serde(rename = "serverRelativeURL")]
    url: String,
}

/// The part of an `APIResourceList` that tells a kind's name.
#[derive(Deserialize)]
struct Discovery {
    resources: Vec<Discovered>,
}

#[derive(Deserialize)]
struct Discovered {
    name: String,
    kind: String,
}

impl Index {
    /// Reads it.
    pub(super) async fn read(client: &Client) -> Result<Self, String> {
        let text = get(client, INDEX).await?;
        let document: IndexDocument = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let entries = document.paths.into_iter().map(|(path, entry)| (path, entry.url));
        // What we are told is read with our credentials: nothing but a document may stand there.
        Ok(Self(entries.filter(|(_, url)| url.starts_with(&format!("{INDEX}/"))).collect()))
    }

    /// The address of the document for a group and version.
    pub(super) fn document(&self, group: &str, version: &str) -> Option<&str> {
        self.0.get(root(group, version).as_str()).map(String::as_str)
    }

    /// The versions of a group.
    pub(super) fn served(&self, group: &str) -> Vec<String> {
        let prefix = root(group, "");
        let versions = self.0.keys().filter_map(|path| path.strip_prefix(&prefix));
        versions.filter(|version| !version.contains('/')).map(str::to_owned).collect()
    }
}

/// The path of a group and version below the API server's root, as the index spells it.
fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The schemas of some resources of one group and version; the whole fails only where it may work later.
pub(super) async fn schemas(
    client: &Client,
    url: &str,
    version: &str,
    resources: Vec<GroupResource>,
) -> Result<Vec<(GroupResource, Result<Schema, Unresolved>)>, String> {
    let Some(group) = resources.first().map(|resource| resource.group.clone()) else {
        return Ok(Vec::new());
    };
    let discovery = get(client, &format!("/{}", root(&group, version))).await?;
    let Discovery { resources: discovered } =
        serde_json::from_str(&discovery).map_err(|error| error.to_string())?;
    let document = get(client, url).await?;
    let version = version.to_owned();
    // A tree of megabytes: not on a thread that serves reviews.
    tokio::task::spawn_blocking(move || {
        let document: Value = serde_json::from_str(&document).map_err(|error| error.to_string())?;
        let schema = |resource: &GroupResource| {
            let kind = discovered.iter().find(|entry| entry.name == resource.resource);
            let kind = kind.ok_or_else(|| Unresolved::NoSuchKind(resource.clone()))?;
            Schema::from_openapi(&document, &group, &version, &kind.kind)
                .map_err(|error| Unresolved::Unusable(error.to_string()))
        };
        Ok(resources.into_iter().map(|resource| (resource.clone(), schema(&resource))).collect())
    })
    .await
    .map_err(|error| error.to_string())?
}

async fn get(client: &Client, path: &str) -> Result<String, String> {
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    match tokio::time::timeout(CALL_TIMEOUT, client.request_text(request)).await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(kube::Error::Api(status))) => Err(format!("{path}: {}", status.message)),
        Ok(Err(error)) => Err(format!("{path}: {error}")),
        Err(_) => Err(format!("{path}: no answer within {} s", CALL_TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tower::service_fn;

    use super::*;

    /// An API server with one group.
    fn client() -> Client {
        let service = service_fn(|request: Request<Body>| async move {
            let uri = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
            let body = match uri.as_str() {
                "/openapi/v3" => json!({"paths": {
                    "api": {"serverRelativeURL": "/openapi/v3/api?hash=0"},
                    "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=1"},
                    "apis/apps": {"serverRelativeURL": "/openapi/v3/apis/apps?hash=2"},
                    "apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=3"},
                    "apis/odd/v1": {"serverRelativeURL": "/api/v1/secrets"},
                }}),
                "/apis/apps/v1" => json!({"resources": [
                    {"name": "deployments/scale", "kind": "Scale"}, {"name": "deployments", "kind": "Deployment"}]}),
                "/openapi/v3/apis/apps/v1?hash=3" => json!({"components": {"schemas": {"d": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}},
                    "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Deployment"}]}}}}),
                _ => Value::Null,
            };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(Response::new(body))
        });
        Client::new(service, "default")
    }

    fn apps(resource: &str) -> GroupResource {
        GroupResource { group: "apps".to_owned(), resource: resource.to_owned() }
    }

    #[tokio::test]
    async fn the_index_tells_versions_and_addresses_and_leads_nowhere_else() {
        let index = Index::read(&client()).await.unwrap();
        assert_eq!(index.document("", "v1"), Some("/openapi/v3/api/v1?hash=1"));
        assert_eq!(index.document("apps", "v1"), Some("/openapi/v3/apis/apps/v1?hash=3"));
        assert_eq!(index.document("apps", "v2"), None);
        assert_eq!(index.document("odd", "v1"), None);
        assert_eq!((index.served("apps"), index.served("")), (vec!["v1".to_owned()], vec!["v1".to_owned()]));
    }

    #[tokio::test]
    async fn one_reading_serves_all_kinds_of_a_version() {
        let resources = vec![apps("deployments"), apps("nothings")];
        let found = schemas(&client(), "/openapi/v3/apis/apps/v1?hash=3", "v1", resources).await.unwrap();
        let [(_, Ok(schema)), (_, Err(missing))] = found.as_slice() else { panic!("{found:?}") };
        let spec = schema.root().map().unwrap().field("spec").unwrap();
        assert!(spec.map().unwrap().field("replicas").is_some());
        assert_eq!(missing.reason(), "NoSuchKind");
    }
}
