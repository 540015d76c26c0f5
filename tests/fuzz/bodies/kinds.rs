//! The kinds that random reviews are about, with the paths and conditions that policies on them use.
//!
//! Tables only; the schemas are in `ground`.

use super::objects::Shape;
use Shape::{List, Map, Scalar};

/// One kind.
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub resource: &'static str,
    pub name: &'static str,
    pub namespace: &'static str,
    pub shape: Shape,
    pub paths: &'static [&'static str],
    pub conditions: &'static [&'static str],
    /// What the conditions read: claimed by a base owner, as the compiler demands.
    pub read: &'static [&'static str],
    pub subresources: &'static [&'static str],
}

const WORDS: Shape = Scalar(&["\"a\"", "\"b\"", "\"\"", "\"A\""]);
const COUNTS: Shape = Scalar(&["0", "1", "2", "3", "-1", "1.0", "1e1"]);
const QUANTITIES: Shape = Scalar(&["\"1\"", "\"1000m\"", "1", "\"1Gi\"", "\"60s\"", "\"1m\"", "\"1m0s\""]);
const REFERENCE: Shape = Map(&[
    ("apiVersion", Scalar(&["\"v1\""])),
    ("blockOwnerDeletion", Scalar(&["true", "false"])),
    ("kind", Scalar(&["\"ConfigMap\""])),
    ("name", WORDS),
    ("uid", Scalar(&["\"u-1\"", "\"u-2\"", "\"u-3\""])),
]);

/// Metadata besides the names and `managedFields`.
pub const METADATA: Shape = Map(&[
    ("annotations", Map(&[("note", WORDS), ("kubectl.kubernetes.io/last-applied-configuration", WORDS)])),
    ("deletionTimestamp", Scalar(&["null", "\"2026-01-01T00:00:00Z\""])),
    (
        "finalizers",
        List(&Scalar(&["\"arena.example.com/fin\"", "\"orphan\"", "\"foregroundDeletion\"", "\"x\""])),
    ),
    ("generation", COUNTS),
    ("labels", Map(&[("team", WORDS), ("x", WORDS), ("a.b/c", WORDS)])),
    ("ownerReferences", List(&REFERENCE)),
]);

const TAINT: Shape = Map(&[
    ("effect", Scalar(&["\"NoSchedule\"", "\"NoSchedule\"", "\"NoExecute\""])),
    ("key", Scalar(&["\"a\"", "\"b\"", "\"a.b/c\""])),
    ("value", WORDS),
]);

const FREE: Shape =
    Map(&[("deep", Map(&[("a", WORDS), ("list", List(&COUNTS)), ("items", List(&TAINT))])), ("x", COUNTS)]);

pub const KINDS: &[Kind] = &[
    Kind {
        group: "arena.example.com",
        version: "v1",
        resource: "ponds",
        name: "Pond",
        namespace: "",
        shape: Map(&[
            ("data", Map(&[("k", WORDS), ("a.b", WORDS)])),
            (
                "spec",
                Map(&[
                    ("args", List(&WORDS)),
                    ("free", FREE),
                    ("labels", Map(&[("a.b/c", WORDS), ("x", WORDS)])),
                    ("limits", Map(&[("cpu", QUANTITIES), ("memory", QUANTITIES)])),
                    ("mode", Scalar(&["\"calm\"", "\"storm\"", "null", "1"])),
                    ("note", Scalar(&["\"n\"", "null", "\"\""])),
                    ("replicas", COUNTS),
                    ("rules", List(&Map(&[("name", Scalar(&["\"web\"", "\"db\""])), ("port", COUNTS)]))),
                    ("shape", Scalar(&["\"round\"", "\"flat\""])),
                    ("size", QUANTITIES),
                    ("taints", List(&TAINT)),
                    ("window", Map(&[("from", WORDS), ("to", WORDS)])),
                    ("zones", List(&WORDS)),
                ]),
            ),
            ("status", Map(&[("other", WORDS), ("phase", WORDS), ("replicas", COUNTS)])),
        ]),
        paths: &[
            ".spec",
            ".spec.size",
            ".spec.shape",
            ".spec.note",
            ".spec.replicas",
            ".spec.limits",
            ".spec.limits.cpu",
            ".spec.limits[*]",
            ".spec.labels",
            ".spec.labels[\"a.b/c\"]",
            ".spec.labels[*]",
            ".spec.taints",
            ".spec.taints[*]",
            ".spec.taints[key=\"a\",effect=\"NoSchedule\"]",
            ".spec.taints[key=\"a\"]",
            ".spec.taints[*].value",
            ".spec.zones",
            ".spec.zones[*]",
            ".spec.zones[=\"a\"]",
            ".spec.args",
            ".spec.args[*]",
            ".spec.rules",
            ".spec.rules[name=\"web\"]",
            ".spec.rules[*].port",
            ".spec.window",
            ".spec.window.from",
            ".spec.free",
            ".spec.free.deep",
            ".spec.free.deep.a",
            ".spec.free.deep.items[key=\"a\"]",
            ".data",
            ".data[*]",
            ".data[\"a.b\"]",
            ".status",
            ".status.phase",
            ".metadata.labels",
            ".metadata.labels.x",
            ".metadata.annotations",
            ".metadata.finalizers",
            ".metadata.finalizers[=\"arena.example.com/fin\"]",
            ".metadata.ownerReferences",
            ".metadata.ownerReferences[*]",
            "[*]",
            ".spec[*]",
            ".spec.mode.deeper",
        ],
        conditions: &[
            "oldObject.spec.mode == 'calm'",
            "oldObject.spec.mode != 'calm' && oldObject.spec.replicas > 1",
            "oldObject.spec.mode in ['storm', 'calm']",
            "has(oldObject.spec.mode)",
            "oldObject.spec.mode",
            "oldObject.metadata.name == 'general' || oldObject.spec.mode < 'b'",
            "!(oldObject.spec.replicas >= 1.0)",
        ],
        read: &[".spec.mode", ".spec.replicas"],
        subresources: &["", "", "", "status", "scale"],
    },
    Kind {
        group: "compute.fieldkeeper.dev",
        version: "v1alpha1",
        resource: "nodepools",
        name: "NodePool",
        namespace: "",
        shape: Map(&[
            (
                "spec",
                Map(&[
                    ("handOff", Scalar(&["\"Direct\"", "\"Manual\"", "\"ScaleRequest\"", "\"Requested\""])),
                    ("maxNodes", COUNTS),
                    ("minNodes", COUNTS),
                    (
                        "requested",
                        List(&Map(&[("nodes", COUNTS), ("requester", Scalar(&["\"autoscaler\"", "\"x\""]))])),
                    ),
                    ("targetNodes", COUNTS),
                    ("template", Map(&[("labels", Map(&[("x", WORDS)])), ("taints", List(&TAINT))])),
                ]),
            ),
            ("status", Map(&[("nodes", COUNTS), ("targetNodes", COUNTS)])),
        ]),
        paths: &[
            ".spec",
            ".spec.minNodes",
            ".spec.targetNodes",
            ".spec.requested",
            ".spec.requested[*].nodes",
            ".spec.requested[requester=\"autoscaler\"]",
            ".spec.template",
            ".spec.template.taints[*]",
            ".status",
            ".metadata.labels",
        ],
        conditions: &[
            "oldObject.spec.handOff == 'Direct'",
            "oldObject.spec.handOff in ['ScaleRequest', 'Requested']",
        ],
        read: &[".spec.handOff"],
        subresources: &["", "", "status", "scale"],
    },
    Kind {
        group: "apps",
        version: "v1",
        resource: "deployments",
        name: "Deployment",
        namespace: "ponds",
        shape: Map(&[
            (
                "spec",
                Map(&[
                    ("paused", Scalar(&["true", "false"])),
                    ("replicas", COUNTS),
                    ("strategy", Map(&[("type", Scalar(&["\"RollingUpdate\"", "\"Recreate\""]))])),
                    (
                        "template",
                        Map(&[(
                            "spec",
                            Map(&[(
                                "containers",
                                List(&Map(&[
                                    ("image", Scalar(&["\"a:latest\"", "\"a\"", "\"a:1\""])),
                                    ("imagePullPolicy", Scalar(&["\"Always\"", "\"IfNotPresent\""])),
                                    ("name", Scalar(&["\"a\"", "\"b\""])),
                                ])),
                            )]),
                        )]),
                    ),
                ]),
            ),
            ("status", Map(&[("replicas", COUNTS)])),
        ]),
        paths: &[
            ".spec",
            ".spec.replicas",
            ".spec.template",
            ".spec.template.spec.containers[name=\"a\"].image",
            ".spec.template.spec.containers[*]",
            ".spec.strategy",
            ".status",
            ".metadata.annotations",
        ],
        conditions: &["oldObject.spec.paused", "!has(oldObject.spec.paused)"],
        read: &[".spec.paused"],
        subresources: &["", "", "status", "scale"],
    },
    Kind {
        group: "batch",
        version: "v1",
        resource: "jobs",
        name: "Job",
        namespace: "ponds",
        shape: Map(&[("spec", Map(&[("suspend", Scalar(&["true"])), ("ttlSecondsAfterFinished", COUNTS)]))]),
        paths: &[".spec", ".spec.ttlSecondsAfterFinished", ".metadata.ownerReferences"],
        conditions: &["oldObject.spec.suspend"],
        read: &[".spec.suspend"],
        subresources: &["", "status"],
    },
    Kind {
        group: "",
        version: "v1",
        resource: "secrets",
        name: "Secret",
        namespace: "ponds",
        shape: Map(&[("data", Map(&[("k", WORDS), ("password", WORDS)])), ("type", WORDS)]),
        paths: &[".data", ".data.password", ".type", ".metadata.labels.x"],
        conditions: &["oldObject.type == 'a'"],
        read: &[".type"],
        subresources: &[""],
    },
    Kind {
        group: "",
        version: "v1",
        resource: "pods",
        name: "Pod",
        namespace: "ponds",
        shape: Map(&[(
            "spec",
            Map(&[("nodeName", WORDS), ("enableServiceLinks", Scalar(&["true", "false"]))]),
        )]),
        paths: &[".spec", ".spec.nodeName", ".status"],
        conditions: &["oldObject.spec.nodeName in ['a']"],
        read: &[".spec.nodeName"],
        subresources: &["", "status", "eviction", "resize", "ephemeralcontainers"],
    },
];
