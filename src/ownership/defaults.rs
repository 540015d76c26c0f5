//! Defaults that the API server gives built-in kinds in code.
//!
//! `OpenAPI` does not tell them: a Deployment without a count is stored with one
//! replica, and the object under review does not show who wrote the 1. On CREATE
//! such a value was set by nobody.
//!
//! In: a target, a path, the value there, and the object for defaults that follow
//! another field. Out: yes or no. A default that is missing here makes an owner
//! be asked for where nobody was; one too many lets a creator set that one value.
//! So only those that the API server gives to every version are listed.

use super::element::Element;
use super::raw::{Node, Raw};
use super::rule::Target;
use super::value;

/// What the API server puts at a path.
#[derive(Clone, Copy)]
enum Put {
    /// This JSON.
    Json(&'static str),
    /// What a field beside it has.
    Same(&'static str),
    /// `Always` for images of the tag `latest` and of no tag, else `IfNotPresent`.
    PullPolicy,
}

use Put::{Json, PullPolicy, Same};

/// Paths in a kind, `[*]` for an item of a list.
type Fields = &'static [(&'static str, Put)];

/// Group, resource, where its pod spec is, and its own defaults.
type Kind = (&'static str, &'static str, Option<&'static str>, Fields);

const IN_TEMPLATE: Option<&str> = Some(".spec.template.spec");

const KINDS: &[Kind] = &[
    (
        "apps",
        "deployments",
        IN_TEMPLATE,
        &[
            (".spec.replicas", Json("1")),
            (".spec.revisionHistoryLimit", Json("10")),
            (".spec.progressDeadlineSeconds", Json("600")),
            (".spec.strategy.type", Json("\"RollingUpdate\"")),
            (".spec.strategy.rollingUpdate.maxSurge", Json("\"25%\"")),
            (".spec.strategy.rollingUpdate.maxUnavailable", Json("\"25%\"")),
        ],
    ),
    ("apps", "replicasets", IN_TEMPLATE, &[(".spec.replicas", Json("1"))]),
    (
        "apps",
        "statefulsets",
        IN_TEMPLATE,
        &[
            (".spec.replicas", Json("1")),
            (".spec.revisionHistoryLimit", Json("10")),
            (".spec.podManagementPolicy", Json("\"OrderedReady\"")),
            (".spec.updateStrategy.type", Json("\"RollingUpdate\"")),
            (".spec.updateStrategy.rollingUpdate.partition", Json("0")),
            (".spec.persistentVolumeClaimRetentionPolicy.whenDeleted", Json("\"Retain\"")),
            (".spec.persistentVolumeClaimRetentionPolicy.whenScaled", Json("\"Retain\"")),
        ],
    ),
    (
        "apps",
        "daemonsets",
        IN_TEMPLATE,
        &[
            (".spec.revisionHistoryLimit", Json("10")),
            (".spec.updateStrategy.type", Json("\"RollingUpdate\"")),
            (".spec.updateStrategy.rollingUpdate.maxSurge", Json("0")),
            (".spec.updateStrategy.rollingUpdate.maxUnavailable", Json("1")),
        ],
    ),
    ("", "replicationcontrollers", IN_TEMPLATE, &[(".spec.replicas", Json("1"))]),
    ("", "podtemplates", Some(".template.spec"), &[]),
    ("", "pods", Some(".spec"), &[(".spec.enableServiceLinks", Json("true"))]),
    (
        "batch",
        "jobs",
        IN_TEMPLATE,
        &[
            (".spec.parallelism", Json("1")),
            (".spec.completions", Json("1")),
            (".spec.backoffLimit", Json("6")),
            (".spec.completionMode", Json("\"NonIndexed\"")),
            (".spec.suspend", Json("false")),
            (".spec.podReplacementPolicy", Json("\"TerminatingOrFailed\"")),
        ],
    ),
    (
        "batch",
        "cronjobs",
        Some(".spec.jobTemplate.spec.template.spec"),
        &[
            (".spec.concurrencyPolicy", Json("\"Allow\"")),
            (".spec.suspend", Json("false")),
            (".spec.successfulJobsHistoryLimit", Json("3")),
            (".spec.failedJobsHistoryLimit", Json("1")),
        ],
    ),
    (
        "",
        "services",
        None,
        &[
            (".spec.type", Json("\"ClusterIP\"")),
            (".spec.sessionAffinity", Json("\"None\"")),
            (".spec.sessionAffinityConfig.clientIP.timeoutSeconds", Json("10800")),
            (".spec.internalTrafficPolicy", Json("\"Cluster\"")),
            (".spec.externalTrafficPolicy", Json("\"Cluster\"")),
            (".spec.ipFamilyPolicy", Json("\"SingleStack\"")),
            (".spec.allocateLoadBalancerNodePorts", Json("true")),
            (".spec.ports[*].protocol", Json("\"TCP\"")),
            (".spec.ports[*].targetPort", Same("port")),
        ],
    ),
    ("", "secrets", None, &[(".type", Json("\"Opaque\""))]),
    ("", "namespaces", None, &[(".spec.finalizers", Json("[\"kubernetes\"]"))]),
    ("", "persistentvolumeclaims", None, &[(".spec.volumeMode", Json("\"Filesystem\""))]),
    (
        "",
        "persistentvolumes",
        None,
        &[
            (".spec.volumeMode", Json("\"Filesystem\"")),
            (".spec.persistentVolumeReclaimPolicy", Json("\"Retain\"")),
        ],
    ),
    ("autoscaling", "horizontalpodautoscalers", None, &[(".spec.minReplicas", Json("1"))]),
    ("networking.k8s.io", "networkpolicies", None, &[(".spec.policyTypes", Json("[\"Ingress\"]"))]),
    ("rbac.authorization.k8s.io", "rolebindings", None, BINDING),
    ("rbac.authorization.k8s.io", "clusterrolebindings", None, BINDING),
    (
        "storage.k8s.io",
        "storageclasses",
        None,
        &[(".reclaimPolicy", Json("\"Delete\"")), (".volumeBindingMode", Json("\"Immediate\""))],
    ),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        None,
        &[(".spec.conversion.strategy", Json("\"None\""))],
    ),
];

const BINDING: Fields = &[(".roleRef.apiGroup", Json("\"rbac.authorization.k8s.io\""))];

/// Below a pod spec.
const POD: Fields = &[
    (".restartPolicy", Json("\"Always\"")),
    (".dnsPolicy", Json("\"ClusterFirst\"")),
    (".schedulerName", Json("\"default-scheduler\"")),
    (".terminationGracePeriodSeconds", Json("30")),
    (".securityContext", Json("{}")),
    (".serviceAccount", Same("serviceAccountName")),
    (".volumes[*].emptyDir", Json("{}")),
    (".volumes[*].hostPath.type", Json("\"\"")),
    (".volumes[*].configMap.defaultMode", Json("420")),
    (".volumes[*].secret.defaultMode", Json("420")),
    (".volumes[*].downwardAPI.defaultMode", Json("420")),
    (".volumes[*].projected.defaultMode", Json("420")),
];

const CONTAINERS: [&str; 3] = [".containers[*]", ".initContainers[*]", ".ephemeralContainers[*]"];

/// Below a container.
const CONTAINER: Fields = &[
    (".imagePullPolicy", PullPolicy),
    (".resources", Json("{}")),
    (".terminationMessagePath", Json("\"/dev/termination-log\"")),
    (".terminationMessagePolicy", Json("\"File\"")),
    (".ports[*].protocol", Json("\"TCP\"")),
    (".env[*].valueFrom.fieldRef.apiVersion", Json("\"v1\"")),
    (".lifecycle.postStart.httpGet.path", Json("\"/\"")),
    (".lifecycle.postStart.httpGet.scheme", Json("\"HTTP\"")),
    (".lifecycle.preStop.httpGet.path", Json("\"/\"")),
    (".lifecycle.preStop.httpGet.scheme", Json("\"HTTP\"")),
];

const PROBES: [&str; 3] = [".livenessProbe", ".readinessProbe", ".startupProbe"];

/// Below a probe.
const PROBE: Fields = &[
    (".timeoutSeconds", Json("1")),
    (".periodSeconds", Json("10")),
    (".successThreshold", Json("1")),
    (".failureThreshold", Json("3")),
    (".httpGet.path", Json("\"/\"")),
    (".httpGet.scheme", Json("\"HTTP\"")),
    (".grpc.service", Json("\"\"")),
];

/// What the API server puts at a path by itself, for who has no object to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coded {
    /// This JSON.
    Json(&'static str),
    /// Something that depends on the rest of the object.
    ByObject,
}

/// The default that the API server's code has for a path of a kind.
#[must_use]
pub fn coded(group: &str, resource: &str, path: &[Element]) -> Option<Coded> {
    put(group, resource, path).map(|put| match put {
        Json(json) => Coded::Json(json),
        Same(_) | PullPolicy => Coded::ByObject,
    })
}

/// Whether the API server would have put `given` at `path` of the new `object` by itself.
#[must_use]
pub(super) fn is_default(target: &Target, object: Node<'_, '_>, path: &[Element], given: Raw<'_>) -> bool {
    let put = put(&target.group, &target.resource, path);
    // A value that cannot be read is no default: it counts as set.
    match put {
        None => false,
        Some(Json(json)) => {
            Raw::parse(json).is_ok_and(|default| value::equal(default, given).unwrap_or(false))
        }
        Some(Same(name)) => beside(target, object, path, name)
            .is_some_and(|default| value::equal(default, given).unwrap_or(false)),
        Some(PullPolicy) => {
            let image = beside(target, object, path, "image").and_then(|image| image.string().ok());
            let latest = image.is_none_or(|image| has_latest_tag(&image));
            given.text() == if latest { "\"Always\"" } else { "\"IfNotPresent\"" }
        }
    }
}

fn put(group: &str, resource: &str, path: &[Element]) -> Option<Put> {
    let of_target = |kind: &&Kind| kind.0 == group && kind.1 == resource;
    let (_, _, pod, fields) = KINDS.iter().find(of_target)?;
    find(fields, path).or_else(|| in_pod(below(pod.as_ref()?, path)?))
}

fn in_pod(path: &[Element]) -> Option<Put> {
    find(POD, path).or_else(|| {
        let inside = CONTAINERS.iter().find_map(|container| below(container, path))?;
        find(CONTAINER, inside).or_else(|| {
            let inside = PROBES.iter().find_map(|probe| below(probe, inside))?;
            find(PROBE, inside)
        })
    })
}

fn find(fields: Fields, path: &[Element]) -> Option<Put> {
    fields.iter().find(|(at, _)| below(at, path).is_some_and(<[_]>::is_empty)).map(|(_, put)| *put)
}

/// What is left of a path after the part that is spelled `prefix`.
fn below<'e>(prefix: &str, mut path: &'e [Element]) -> Option<&'e [Element]> {
    let mut rest = prefix;
    while !rest.is_empty() {
        let (element, remaining) = path.split_first()?;
        rest = match element {
            Element::Field(name) => {
                let rest = rest.strip_prefix('.')?.strip_prefix(&**name)?;
                (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)?
            }
            _ => rest.strip_prefix("[*]")?,
        };
        path = remaining;
    }
    Some(path)
}

/// The value of the field `name` in the struct that holds the field at `path`.
fn beside<'a>(target: &Target, object: Node<'a, '_>, path: &[Element], name: &str) -> Option<Raw<'a>> {
    let (_, parent) = path.split_last()?;
    let path: Vec<Element> = parent.iter().cloned().chain([Element::field(name)]).collect();
    value::at(object, &path, target.schema.root()).ok().flatten()
}

/// The tag stands behind the last colon, unless that belongs to the port of the registry.
fn has_latest_tag(image: &str) -> bool {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    match name.rsplit('/').next().and_then(|last| last.split_once(':')) {
        Some((_, tag)) => tag == "latest",
        None => digest.is_none(),
    }
}

#[cfg(test)]
#[path = "defaults/tests.rs"]
mod tests;
