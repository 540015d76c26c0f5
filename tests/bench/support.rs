//! What the benchmarks share: objects and reviews of a wanted size, the shipped target, a CPU clock.
//!
//! Input: a size. Output: a NodePool that the shipped CRD accepts, with the `managedFields` that its
//! four writers leave behind, and the review that an API server makes of a change to it. This module
//! measures nothing by itself and must not know what is compared.

use fieldkeeper::api::{FieldPolicy, crds};
use fieldkeeper::ownership::pattern::Pattern;
use fieldkeeper::ownership::rule::{ScalePath, Target};
use fieldkeeper::ownership::schema::Schema;
use fieldkeeper::policy::compile::compile;
use serde_json::{Map, Value, json};

/// The policy that is shipped for node pools.
pub const POLICY: &str = include_str!("../../deploy/samples/nodepools-policy.yaml");

/// Version of every entry and of the object.
pub const API_VERSION: &str = "compute.fieldkeeper.dev/v1alpha1";

/// Bounds of the CRD; what a pool cannot hold beyond them becomes annotations of the object.
const TAINTS: usize = 32;
const REQUESTERS: usize = 32;
const TEMPLATE_ENTRIES: usize = 64;

/// CPU time of this thread in nanoseconds.
///
/// Not wall time: the machine may be busy. Not `/proc`: its numbers move once a scheduler tick.
pub fn cpu_nanos() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The target of node pools under the shipped policy and CRD.
pub fn target() -> Target {
    let policy: FieldPolicy = serde_saphyr::from_str(POLICY).unwrap();
    let aim = &policy.spec.target;
    let crd = crds().into_iter().find(|crd| crd.spec.names.plural == aim.resource).unwrap();
    let version = crd.spec.versions.iter().find(|version| version.name == aim.version).unwrap();
    let schema = version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
    let scale = version.subresources.as_ref().unwrap().scale.as_ref().unwrap();
    Target {
        group: aim.group.as_str().into(),
        resource: aim.resource.as_str().into(),
        version: aim.version.as_str().into(),
        any_version: false,
        schema: Schema::from_crd(&serde_json::to_value(schema).unwrap()).unwrap().into(),
        versions: vec![API_VERSION.into()],
        scale: Some(ScalePath { replicas: Pattern::parse(&scale.spec_replicas_path).unwrap() }),
        sensitive: false,
        policies: vec![compile("nodepools", 1, &policy.spec).unwrap().into()],
    }
}

/// A stored pool with `filling` further entries of maps and keyed lists.
///
/// The writers: GitOps applies most of it, the autoscaler its request, the controller the status,
/// and the other requesters share an Update entry.
pub fn pool(filling: usize) -> Value {
    let mut pool = json!({
        "apiVersion": API_VERSION,
        "kind": "NodePool",
        "metadata": {
            "name": "general", "uid": "5c1d0a0e-9f5e-4a5e-8f2a-0d8f3f6f7d11", "resourceVersion": "48213",
            "generation": 7, "creationTimestamp": "2026-03-01T08:00:00Z",
            "labels": {"team": "platform"}, "annotations": {"example.com/contact": "platform@example.com"},
            "finalizers": ["compute.fieldkeeper.dev/nodepool"],
        },
        "spec": {
            "handOff": "Direct", "minNodes": 1, "maxNodes": 40, "targetNodes": 12,
            "provider": {"type": "Simulated", "simulated": {"capacity": {"cpu": "16", "memory": "64Gi"}}},
            "requested": [{"requester": "batch", "nodes": 12}],
            "template": {"labels": {}, "annotations": {}, "taints": [
                {"key": "example.com/dedicated", "effect": "NoSchedule", "value": "batch"}]},
        },
        "status": {
            "observedGeneration": 7, "targetNodes": 12, "nodes": 12, "readyNodes": 12,
            "conditions": [{"type": "Ready", "status": "True", "reason": "AsWanted", "message": "12 of 12 nodes",
                "observedGeneration": 7, "lastTransitionTime": "2026-03-01T08:10:00Z"}],
        },
    });
    for number in 0..filling {
        fill(&mut pool, number);
    }
    let managed = managed_fields(&pool);
    pool["metadata"]["managedFields"] = managed;
    pool
}

/// Adds one label, annotation, taint or request, in turn.
fn fill(pool: &mut Value, number: usize) {
    let index = number / 5;
    let template = &mut pool["spec"]["template"];
    match number % 5 {
        0 if index < TEMPLATE_ENTRIES - 1 => {
            template["labels"][format!("node.example.com/feature-{index}")] = json!(format!("enabled-{index}"));
        }
        1 if index < TEMPLATE_ENTRIES - 1 => {
            template["annotations"][format!("node.example.com/setting-{index}")] =
                json!(format!("{{\"mode\":\"automatic\",\"weight\":{index}}}"));
        }
        2 if index < TAINTS - 1 => template["taints"].as_array_mut().unwrap().push(json!({
            "key": format!("node.example.com/reserved-{index}"), "effect": "NoSchedule", "value": format!("team-{index}"),
        })),
        3 if index < REQUESTERS - 1 => pool["spec"]["requested"].as_array_mut().unwrap().push(json!({
            "requester": format!("team-{index}"), "nodes": index, "reason": "reserved for the nightly batch",
            "validUntil": "2026-12-31T00:00:00Z",
        })),
        _ => {
            pool["metadata"]["annotations"][format!("example.com/note-{number}")] =
                json!(format!("see the runbook, page {number}"));
        }
    }
}

fn managed_fields(pool: &Value) -> Value {
    let spec = &pool["spec"];
    let gitops = json!({
        "f:metadata": {"f:annotations": fields("annotations", &pool["metadata"]["annotations"], false),
            "f:labels": fields("labels", &pool["metadata"]["labels"], false)},
        "f:spec": {"f:handOff": {}, "f:maxNodes": {}, "f:minNodes": {},
            "f:provider": fields("provider", &spec["provider"], false),
            "f:template": fields("template", &spec["template"], false)},
    });
    let autoscaler = json!({"f:spec": {"f:targetNodes": {}}});
    let teams = json!({"f:spec": {"f:requested": fields("requested", &spec["requested"], true)}});
    let status = json!({"f:status": fields("status", &pool["status"], false)});
    let entry = |manager: &str, operation: &str, fields: Value| {
        json!({"apiVersion": API_VERSION, "fieldsType": "FieldsV1", "fieldsV1": fields,
            "manager": manager, "operation": operation, "time": "2026-03-01T08:05:00Z"})
    };
    let mut controller = entry("nodepool-controller-status", "Apply", status);
    controller["subresource"] = json!("status");
    json!([
        entry("autoscaler", "Apply", autoscaler),
        entry("gitops", "Apply", gitops),
        controller,
        entry("requests", "Update", teams),
    ])
}

/// The paths of a value as FieldsV1. Entries of updates hold maps and lists beside what is in them.
fn fields(name: &str, value: &Value, update: bool) -> Value {
    let keys: &[&str] = match name {
        "taints" => &["effect", "key"],
        "requested" => &["requester"],
        "conditions" => &["type"],
        _ => &[],
    };
    let mut set = Map::new();
    if update && !matches!(value, Value::Null) {
        set.insert(".".to_owned(), json!({}));
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                set.insert(format!("f:{name}"), fields(name, value, false));
            }
        }
        Value::Array(items) => {
            for item in items {
                let key: Map<String, Value> =
                    keys.iter().map(|key| ((*key).to_owned(), item[key].clone())).collect();
                let mut item = fields("", item, false);
                item["."] = json!({});
                set.insert(format!("k:{}", Value::Object(key)), item);
            }
        }
        _ => set.clear(),
    }
    Value::Object(set)
}

/// What is done to the stored pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing: an update that changes no byte.
    None,
    /// The autoscaler changes the size, which is its own only while a condition holds.
    Conditional,
    /// The owner of the spec changes one field of its own; its entry, the largest, gets a new time.
    Own,
    /// The owner changes that field under another manager: the largest entry loses the path, and
    /// an Update entry comes.
    Moved,
    /// Somebody else does the same and is refused.
    Foreign,
}

/// The pool after the change, as the API server hands it to webhooks.
pub fn changed(pool: &Value, change: Change) -> Value {
    let mut new = pool.clone();
    if change == Change::None {
        return new;
    }
    let field = if change == Change::Conditional { "targetNodes" } else { "maxNodes" };
    new["spec"][field] = json!(41);
    new["metadata"]["generation"] = json!(8);
    let entries = new["metadata"]["managedFields"].as_array_mut().unwrap();
    let holder = if change == Change::Conditional { "autoscaler" } else { "gitops" };
    let holder = entries.iter_mut().find(|entry| entry["manager"] == holder).unwrap();
    if matches!(change, Change::Own | Change::Conditional) {
        holder["time"] = json!("2026-03-02T09:00:00Z");
    } else {
        holder["fieldsV1"]["f:spec"].as_object_mut().unwrap().remove("f:maxNodes").unwrap();
        entries.push(json!({"apiVersion": API_VERSION, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:maxNodes": {}}}, "manager": "kubectl-edit", "operation": "Update",
            "time": "2026-03-02T09:00:00Z"}));
    }
    new
}

/// The body of the review of a change, member by member in the order of the API server's encoder.
pub fn review(pool: &Value, change: Change) -> Vec<u8> {
    let kind = json!({"group": "compute.fieldkeeper.dev", "version": "v1alpha1", "kind": "NodePool"});
    let resource =
        json!({"group": "compute.fieldkeeper.dev", "version": "v1alpha1", "resource": "nodepools"});
    let (name, group, manager) = match change {
        Change::None | Change::Own => ("alice@example.com", "platform-admins", "gitops"),
        Change::Moved => ("alice@example.com", "platform-admins", "kubectl-edit"),
        Change::Foreign => ("bob@example.com", "developers", "kubectl-edit"),
        Change::Conditional => {
            let account = "system:serviceaccount:fieldkeeper-system:autoscaler";
            (account, "system:serviceaccounts", "autoscaler")
        }
    };
    let user = json!({"username": name, "groups": [group, "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["X509SHA256=0d8f3f6f7d115c1d0a0e9f5e4a5e8f2a"]}});
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": manager});
    let object = changed(pool, change);
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"0f2b7a4e-6d0c-4a0e-b7f9-3a3c1f0e5d21","kind":{kind},"resource":{resource},"requestKind":{kind},"requestResource":{resource},"name":"general","operation":"UPDATE","userInfo":{user},"object":{object},"oldObject":{pool},"dryRun":false,"options":{options}}}}}"#
    )
    .into_bytes()
}

/// The pool whose review comes closest to a number of bytes from below.
pub fn pool_for_body(bytes: usize) -> Value {
    fitting(bytes, |pool| review(pool, Change::Own).len())
}

/// The largest pool that `size` puts at no more than `bytes`.
pub fn fitting(bytes: usize, size: impl Fn(&Value) -> usize) -> Value {
    let (mut fits, mut exceeds) = (0, 2000);
    while exceeds - fits > 1 {
        let filling = usize::midpoint(fits, exceeds);
        if size(&pool(filling)) <= bytes { fits = filling } else { exceeds = filling }
    }
    pool(fits)
}
