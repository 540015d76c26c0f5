//! A kind and its policies as what `decide` works with.
//!
//! Input: a resource, what is known of its kind, the policies on it. Output: a
//! [`Target`]. Webhook and policy controller call the same function, so that
//! both mean the same.

use std::sync::Arc;

use super::in_force::GroupResource;
use super::schemas::{Kind, Unresolved};
use crate::ownership::complete::complete;
use crate::ownership::pattern::Pattern;
use crate::ownership::rule::{Policy, ScalePath, Target};

/// The target of these policies, which are all written for `version`.
#[must_use]
pub fn target(resource: &GroupResource, version: &str, policies: Vec<Arc<Policy>>, kind: &Kind) -> Target {
    Target {
        group: resource.group.as_str().into(),
        resource: resource.resource.as_str().into(),
        version: version.into(),
        any_version: !kind.converts && matches!(kind.unresolved, Some(Unresolved::VersionNotServed { .. })),
        schema: kind.schema.clone(),
        versions: kind.versions.clone(),
        scale: scale(resource, kind),
        sensitive: resource.group.is_empty() && resource.resource == "secrets",
        policies: policies.into_iter().map(|policy| complete(&policy, &kind.schema)).collect(),
    }
}

/// From the CRD, or from the table of the built-in kinds with `/scale`.
fn scale(resource: &GroupResource, kind: &Kind) -> Option<ScalePath> {
    let built_in = match (resource.group.as_str(), resource.resource.as_str()) {
        ("apps", "deployments" | "replicasets" | "statefulsets") | ("", "replicationcontrollers") => {
            Some(".spec.replicas")
        }
        _ => None,
    };
    let path = kind.replicas.as_deref().or(built_in)?;
    match Pattern::parse(path) {
        Ok(replicas) => Some(ScalePath { replicas }),
        Err(error) => {
            // The API server accepts only plain paths, so this is a bug of ours.
            tracing::error!(%resource, path, %error, "the path behind /scale cannot be read");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_behind_scale_comes_from_the_crd_or_from_the_table() {
        let replicas = |group: &str, resource: &str, path: Option<&str>| {
            let resource = GroupResource { group: group.to_owned(), resource: resource.to_owned() };
            let mut kind = Kind::without_crd(&resource, Unresolved::NotLoaded);
            kind.replicas = path.map(str::to_owned);
            scale(&resource, &kind).map(|scale| scale.replicas.to_string())
        };
        assert_eq!(replicas("apps", "statefulsets", None).as_deref(), Some(".spec.replicas"));
        assert_eq!(replicas("", "replicationcontrollers", None).as_deref(), Some(".spec.replicas"));
        assert_eq!(replicas("apps", "daemonsets", None), None);
        assert_eq!(replicas("example.com", "things", Some(".spec.n")).as_deref(), Some(".spec.n"));
    }
}
