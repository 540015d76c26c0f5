//! Which subresources of a kind are governed with it.
//!
//! Input: a resource, and what its CRD says. Output: names of subresources
//! through which its fields are written. Must not hold one that writes no field
//! of the object (log, exec, token …): it would be intercepted for nothing.

use crate::cluster::in_force::GroupResource;

/// Subresources of built-in kinds, by group; a kind that is not listed has `status`.
const BUILT_IN: [(&str, &[&str], &[&str]); 10] = [
    ("", &["pods"], &["status", "resize", "ephemeralcontainers"]),
    ("", &["namespaces"], &["status", "finalize"]),
    ("", &["replicationcontrollers"], &["status", "scale"]),
    ("", &["configmaps", "secrets", "serviceaccounts", "endpoints", "limitranges", "podtemplates"], &[]),
    ("apps", &["deployments", "replicasets", "statefulsets"], &["status", "scale"]),
    ("apps", &["controllerrevisions"], &[]),
    ("certificates.k8s.io", &["certificatesigningrequests"], &["status", "approval"]),
    ("discovery.k8s.io", &["endpointslices"], &[]),
    ("rbac.authorization.k8s.io", &["roles", "rolebindings", "clusterroles", "clusterrolebindings"], &[]),
    ("storage.k8s.io", &["storageclasses", "csidrivers", "csistoragecapacities"], &[]),
];

/// Of a kind of which nothing is known: a rule for a subresource that does not exist matches nothing.
const UNKNOWN: &[&str] = &["status", "scale"];

/// The subresources of `resource`. `known` is what its CRD says, `is_built_in` what its group says.
#[must_use]
pub fn of<'a>(
    resource: &GroupResource,
    known: Option<&'a [&'static str]>,
    is_built_in: bool,
) -> &'a [&'static str] {
    if let Some(known) = known {
        return known;
    }
    if !is_built_in {
        return UNKNOWN;
    }
    BUILT_IN
        .iter()
        .find(|(group, kinds, _)| *group == resource.group && kinds.contains(&resource.resource.as_str()))
        .map_or(&["status"], |(_, _, subresources)| subresources)
}

/// The subresource through which a pod is deleted: governed where deletion is.
#[must_use]
pub fn that_deletes(resource: &GroupResource) -> Option<&'static str> {
    (resource.group.is_empty() && resource.resource == "pods").then_some("eviction")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subresources(
        group: &str,
        resource: &str,
        known: Option<&'static [&'static str]>,
    ) -> Vec<&'static str> {
        let is_built_in = !group.contains('.') || group.ends_with(".k8s.io");
        let resource = GroupResource { group: group.to_owned(), resource: resource.to_owned() };
        of(&resource, known, is_built_in).to_vec()
    }

    #[test]
    fn built_in_kinds_have_what_the_table_says() {
        assert_eq!(subresources("apps", "deployments", None), ["status", "scale"]);
        assert_eq!(subresources("apps", "daemonsets", None), ["status"]);
        assert_eq!(subresources("", "pods", None), ["status", "resize", "ephemeralcontainers"]);
        assert_eq!(subresources("", "nodes", None), ["status"]);
        assert_eq!(subresources("", "namespaces", None), ["status", "finalize"]);
        assert_eq!(
            subresources("certificates.k8s.io", "certificatesigningrequests", None),
            ["status", "approval"]
        );
        assert!(subresources("", "secrets", None).is_empty());
    }

    #[test]
    fn a_crd_knows_better_and_the_unknown_gets_all() {
        assert_eq!(subresources("example.com", "things", Some(&["scale"])), ["scale"]);
        assert!(subresources("example.com", "things", Some(&[])).is_empty());
        assert_eq!(subresources("example.com", "things", None), ["status", "scale"]);
    }
}
