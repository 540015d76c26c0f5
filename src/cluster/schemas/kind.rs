//! What is known of one version of a kind. Pure.
//!
//! Input: a CustomResourceDefinition as JSON, or a schema from `OpenAPI`, and
//! the version that policies are written for. Output: a [`Kind`].
//!
//! Must not fail: a part that cannot be used is named in [`Kind::unresolved`],
//! and the rest is still of use.

use std::sync::Arc;

use serde_json::Value;

use crate::cluster::in_force::GroupResource;
use crate::ownership::pattern::Pattern;
use crate::ownership::schema::Schema;
use crate::policy::lint::{Facts, required};

/// Why the schema of a kind is deduced from its objects instead of known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// CRDs are not listed yet.
    #[error("schemas are not loaded yet")]
    NotLoaded,
    /// Neither built in nor defined.
    #[error("the API server has no resource {0}, and there is no CustomResourceDefinition of that name")]
    NoSuchKind(GroupResource),
    /// The kind lacks the version, or does not serve it.
    #[error("version {version} is not served; served: {}", served.join(", "))]
    VersionNotServed {
        /// The version that the policies name.
        version: String,
        /// Those that are.
        served: Vec<String>,
    },
    /// The CRD or the `OpenAPI` document could not be read.
    #[error("the schema cannot be read: {0}")]
    Unreadable(String),
    /// Its schema is of no use.
    #[error("the schema cannot be used: {0}")]
    Unusable(String),
}

impl Unresolved {
    /// The reason in the condition `SchemaResolved`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotLoaded => "NotLoaded",
            Self::NoSuchKind(_) => "NoSuchKind",
            Self::VersionNotServed { .. } => "VersionNotServed",
            Self::Unreadable(_) => "Unreadable",
            Self::Unusable(_) => "SchemaUnusable",
        }
    }
}

/// What is known of the kind behind a target.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Whether it belongs to the API server itself, as far as its group tells.
    pub built_in: bool,
    /// Topology of the version that policies are written for; deduced where it is not known.
    pub schema: Arc<Schema>,
    /// Every version, served or not, as `group/version`; empty when not known.
    pub versions: Vec<Arc<str>>,
    /// The served ones, without the group; empty when not known.
    pub served: Vec<String>,
    /// Whether versions are converted by code, so that paths of one need not hold in another.
    pub converts: bool,
    /// Its subresources, where known: `status`, `scale`.
    pub subresources: Option<Vec<&'static str>>,
    /// The path of the count behind `/scale`.
    pub replicas: Option<String>,
    /// Paths that every object must have and that no default fills; empty where not known.
    pub required: Vec<Pattern>,
    /// Whether objects have a namespace, where known.
    pub namespaced: Option<bool>,
    /// Why the schema is deduced; `None` if it is known.
    pub unresolved: Option<Unresolved>,
}

impl Kind {
    /// A kind of which nothing is known, and why.
    #[must_use]
    pub fn unknown(why: Unresolved) -> Self {
        Self {
            built_in: false,
            schema: Arc::new(Schema::deduced()),
            versions: Vec::new(),
            served: Vec::new(),
            converts: false,
            subresources: None,
            replicas: None,
            required: Vec::new(),
            namespaced: None,
            unresolved: Some(why),
        }
    }

    /// A kind for which there is no CRD, and of which nothing else is known.
    #[must_use]
    pub fn without_crd(resource: &GroupResource, why: Unresolved) -> Self {
        // Groups with other names belong to CRDs and to aggregated servers.
        let built_in = !resource.group.contains('.') || resource.group.ends_with(".k8s.io");
        Self { built_in, ..Self::unknown(why) }
    }

    /// A kind without a CRD, of a group that the API server serves in these versions.
    ///
    /// `schema` is that of the version that policies are written for.
    #[must_use]
    pub fn from_openapi(
        resource: &GroupResource,
        served: Vec<String>,
        schema: Result<Schema, Unresolved>,
    ) -> Self {
        let (schema, unresolved) = match schema {
            Ok(schema) => (schema, None),
            Err(why) => (Schema::deduced(), Some(why)),
        };
        let GroupResource { group, .. } = resource;
        let slash = if group.is_empty() { "" } else { "/" };
        Self {
            schema: Arc::new(schema),
            // Entries of versions that are not served any more are dropped by whoever writes next.
            versions: served.iter().map(|version| format!("{group}{slash}{version}").into()).collect(),
            served,
            // By the server's own code, and names do change: autoscaling/v1 and v2.
            converts: true,
            unresolved,
            ..Self::without_crd(resource, Unresolved::NotLoaded)
        }
    }

    /// A kind with a CRD, for policies that are written for `version`.
    #[must_use]
    pub fn from_crd(crd: &Value, version: &str) -> Self {
        let spec = &crd["spec"];
        let group = text(&spec["group"]);
        let all: &[Value] = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_served = |entry: &&Value| entry["served"].as_bool() == Some(true);
        let served: Vec<String> =
            all.iter().filter(is_served).map(|entry| text(&entry["name"]).to_owned()).collect();
        let named = all.iter().filter(is_served).find(|entry| entry["name"] == version);
        let converts = spec.pointer("/conversion/strategy").is_some_and(|strategy| strategy == "Webhook");
        // With conversion None all versions hold the same fields; the stored one stands in.
        let stored = all.iter().find(|entry| entry["storage"].as_bool() == Some(true));
        let stand_in = if converts { None } else { stored };
        let mut kind = Self {
            versions: all.iter().map(|entry| format!("{group}/{}", text(&entry["name"])).into()).collect(),
            converts,
            served: served.clone(),
            namespaced: spec["scope"].as_str().map(|scope| scope == "Namespaced"),
            ..Self::unknown(Unresolved::NotLoaded)
        };
        kind.unresolved = match named.or(stand_in) {
            Some(entry) => kind.read(spec, entry),
            None => None,
        };
        if named.is_none() {
            kind.unresolved = Some(Unresolved::VersionNotServed { version: version.to_owned(), served });
        }
        kind
    }

    /// What lint may know of it.
    #[must_use]
    pub fn lint_facts(&self) -> Facts<'_> {
        let served = match &self.unresolved {
            None | Some(Unresolved::VersionNotServed { .. } | Unresolved::Unusable(_)) => Some(&*self.served),
            Some(Unresolved::NoSuchKind(_)) => Some([].as_slice()),
            Some(Unresolved::NotLoaded | Unresolved::Unreadable(_)) => None,
        };
        Facts {
            schema: Some(&self.schema),
            required: &self.required,
            served,
            namespaced: self.namespaced,
            ..Facts::default()
        }
    }

    fn read(&mut self, spec: &Value, version: &Value) -> Option<Unresolved> {
        let subresources = &version["subresources"];
        self.subresources =
            Some(["status", "scale"].into_iter().filter(|name| !subresources[*name].is_null()).collect());
        self.replicas =
            subresources.pointer("/scale/specReplicasPath").and_then(Value::as_str).map(str::to_owned);
        let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
        self.required = required(schema);
        let preserving = spec["preserveUnknownFields"].as_bool() == Some(true);
        let build = if preserving { Schema::from_crd_preserving } else { Schema::from_crd };
        match build(schema) {
            Ok(schema) => {
                self.schema = Arc::new(schema);
                None
            }
            Err(error) => Some(Unresolved::Unusable(error.to_string())),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd(conversion: &str) -> Value {
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}});
        let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
        json!({"spec": {
            "group": "example.com", "names": {"plural": "things"},
            "conversion": {"strategy": conversion},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema,
                 "subresources": {"status": {}, "scale": scale}},
                {"name": "v1beta1", "served": true, "storage": false, "schema": schema},
                {"name": "v1alpha1", "served": false, "storage": false, "schema": schema},
            ],
        }})
    }

    #[test]
    fn a_served_version_gives_schema_and_subresources() {
        let kind = Kind::from_crd(&crd("None"), "v1");
        assert_eq!(kind.unresolved, None);
        assert_eq!(kind.served, ["v1", "v1beta1"]);
        assert_eq!(kind.versions.len(), 3, "entries of a version that is not served can be read");
        assert_eq!(&*kind.versions[0], "example.com/v1");
        assert_eq!(kind.subresources.as_deref(), Some(["status", "scale"].as_slice()));
        assert_eq!(kind.replicas.as_deref(), Some(".spec.replicas"));
        let kind = Kind::from_crd(&crd("None"), "v1beta1");
        assert_eq!(kind.subresources.as_deref(), Some([].as_slice()));
    }

    #[test]
    fn a_version_that_is_not_served_is_said_and_the_stored_one_stands_in() {
        let kind = Kind::from_crd(&crd("None"), "v1alpha1");
        let Some(Unresolved::VersionNotServed { version, served }) = &kind.unresolved else { panic!() };
        assert_eq!((version.as_str(), served.len()), ("v1alpha1", 2));
        assert_eq!(kind.replicas.as_deref(), Some(".spec.replicas"));
        assert!(kind.schema.root().map().is_some_and(|root| root.field("spec").is_some()));
    }

    #[test]
    fn with_a_conversion_webhook_no_version_stands_in_for_another() {
        let kind = Kind::from_crd(&crd("Webhook"), "v2");
        assert!(kind.converts);
        assert_eq!(kind.replicas, None);
        assert_eq!(kind.unresolved.unwrap().reason(), "VersionNotServed");
    }

    #[test]
    fn junk_is_survived() {
        for junk in [json!(null), json!({"spec": {"versions": 7}}), json!([])] {
            assert!(Kind::from_crd(&junk, "v1").unresolved.is_some());
        }
    }

    #[test]
    fn without_a_crd_the_group_tells_what_is_built_in() {
        for (group, built_in) in
            [("", true), ("apps", true), ("batch", true), ("node.k8s.io", true), ("example.com", false)]
        {
            let resource = GroupResource { group: group.to_owned(), resource: "things".to_owned() };
            let kind = Kind::without_crd(&resource, Unresolved::NoSuchKind(resource.clone()));
            assert_eq!(
                (kind.built_in, kind.unresolved.unwrap().reason()),
                (built_in, "NoSuchKind"),
                "{group}"
            );
        }
    }

    #[test]
    fn a_built_in_kind_has_the_versions_of_its_group() {
        let of = |group: &str| {
            let resource = GroupResource { group: group.to_owned(), resource: "things".to_owned() };
            Kind::from_openapi(&resource, vec!["v1".to_owned()], Ok(Schema::deduced()))
        };
        assert_eq!((&*of("").versions[0], &*of("apps").versions[0]), ("v1", "apps/v1"));
        assert!(of("apps").built_in && of("apps").unresolved.is_none());
    }
}
