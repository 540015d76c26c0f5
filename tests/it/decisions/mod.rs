//! Decisions on values alone: policies as people write them, requests as the API server sends them,
//! no control plane. What is true of the API server itself is tested beside the control plane.

mod claims;
mod creation_and_deletion;
mod explanation;
mod holds;
mod integrity;
mod mutators;
mod properties;
mod scale;
mod selection;

use fieldkeeper::api::{FieldPolicy, crds};
use fieldkeeper::ownership::decide::{Decision, decide};
use fieldkeeper::ownership::explain::{Answer, explain};
use fieldkeeper::ownership::facts::{Facts, Operation, Requester};
use fieldkeeper::ownership::pattern::Pattern;
use fieldkeeper::ownership::raw::Raw;
use fieldkeeper::ownership::rule::{Mode, ScalePath, Target};
use fieldkeeper::ownership::schema::Schema;
use fieldkeeper::ownership::selection::Labels;
use fieldkeeper::ownership::verdict::Verdict;
use fieldkeeper::policy::compile::compile;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

/// The policy of the design, as it is shipped.
pub const NODEPOOLS: &str = include_str!("../../../deploy/samples/nodepools-policy.yaml");

/// A stored pool, with the entries that its writers left.
pub fn pool() -> Value {
    json!({
        "apiVersion": "compute.fieldkeeper.dev/v1alpha1",
        "kind": "NodePool",
        "metadata": {
            "name": "general", "uid": "u-1", "resourceVersion": "10", "generation": 3,
            "labels": {"team": "red"},
            "finalizers": ["compute.fieldkeeper.dev/nodepool"],
            "managedFields": [
                entry("gitops", "Apply", "", json!({"f:spec": {"f:handOff": {}, "f:minNodes": {}, "f:maxNodes": {},
                    "f:template": {"f:taints": {"k:{\"effect\":\"NoSchedule\",\"key\":\"team\"}":
                        {".": {}, "f:effect": {}, "f:key": {}, "f:value": {}}}}}})),
                entry("autoscaler", "Apply", "", json!({"f:spec": {"f:targetNodes": {}}})),
                entry("nodepool-controller-status", "Apply", "status", json!({"f:status": {"f:nodes": {}}})),
            ],
        },
        "spec": {
            "handOff": "Direct", "minNodes": 1, "maxNodes": 10, "targetNodes": 5,
            "template": {"taints": [{"effect": "NoSchedule", "key": "team", "value": "red"}]},
        },
        "status": {"nodes": 5},
    })
}

/// A `managedFields` entry of the version under test.
pub fn entry(manager: &str, operation: &str, subresource: &str, fields: Value) -> Value {
    let mut entry = json!({
        "apiVersion": "compute.fieldkeeper.dev/v1alpha1", "fieldsType": "FieldsV1", "fieldsV1": fields,
        "manager": manager, "operation": operation, "time": "2026-01-01T00:00:00Z",
    });
    if !subresource.is_empty() {
        entry["subresource"] = json!(subresource);
    }
    entry
}

/// Sets the value at a JSON pointer; `null` removes it.
pub fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {pointer}"));
    match (parent, value) {
        (Value::Object(members), Value::Null) => {
            members.remove(name).unwrap_or_else(|| panic!("nothing to remove at {pointer}"));
        }
        (Value::Object(members), value) => {
            members.insert(name.to_owned(), value);
        }
        (Value::Array(items), Value::Null) => {
            items.remove(name.parse().unwrap());
        }
        (Value::Array(items), value) if name == "-" => items.push(value),
        (Value::Array(items), value) => items[name.parse::<usize>().unwrap()] = value,
        _ => panic!("no container at {pointer}"),
    }
    object
}

/// The target of a kind that we ship, under these policies.
pub fn target(policies: &[&str]) -> Target {
    let policies: Vec<FieldPolicy> =
        policies.iter().map(|yaml| serde_saphyr::from_str(yaml).unwrap()).collect();
    let first = &policies.first().unwrap().spec.target;
    let crd = crds().into_iter().find(|crd| crd.spec.names.plural == first.resource).unwrap();
    let version = crd.spec.versions.iter().find(|version| version.name == first.version).unwrap();
    let schema = version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
    let scale = version.subresources.as_ref().and_then(|subresources| subresources.scale.as_ref());
    Target {
        group: first.group.as_str().into(),
        resource: first.resource.as_str().into(),
        version: first.version.as_str().into(),
        any_version: false,
        schema: Schema::from_crd(&serde_json::to_value(schema).unwrap()).unwrap().into(),
        versions: vec![format!("{}/{}", first.group, first.version).into()],
        scale: scale.map(|scale| ScalePath { replicas: Pattern::parse(&scale.spec_replicas_path).unwrap() }),
        sensitive: false,
        policies: policies
            .iter()
            .map(|policy| {
                let name = policy.metadata.name.as_deref().unwrap();
                compile(name, 1, &policy.spec).unwrap_or_else(|errors| panic!("{errors}")).into()
            })
            .collect(),
    }
}

/// One request, built up like a sentence.
pub struct Request {
    operation: Operation,
    old: Option<Box<RawValue>>,
    new: Option<Box<RawValue>>,
    parent: Option<Box<RawValue>>,
    subresource: String,
    /// Group, version, resource and kind.
    of: [String; 4],
    requester: Requester,
    manager: Option<String>,
    namespace: &'static str,
    namespace_labels: Option<Labels>,
    now: i64,
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

impl Request {
    fn new(operation: Operation, old: Option<&Value>, new: Option<&Value>) -> Self {
        Self {
            operation,
            old: old.map(raw),
            new: new.map(raw),
            parent: None,
            subresource: String::new(),
            of: ["compute.fieldkeeper.dev", "v1alpha1", "nodepools", "NodePool"].map(str::to_owned),
            requester: Requester::default(),
            manager: None,
            namespace: "",
            namespace_labels: None,
            now: 1_000_000,
        }
    }

    pub fn update(old: &Value, new: &Value) -> Self {
        Self::new(Operation::Update, Some(old), Some(new))
    }

    pub fn create(new: &Value) -> Self {
        Self::new(Operation::Create, None, Some(new))
    }

    pub fn delete(old: &Value) -> Self {
        Self::new(Operation::Delete, Some(old), None)
    }

    /// The two `Scale` objects of a `/scale` write.
    pub fn scale(old: Option<i64>, new: Option<i64>) -> Self {
        let scale = |count: Option<i64>| {
            let spec = count.map_or(json!({}), |count| json!({"replicas": count}));
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
                "metadata": {"name": "general", "uid": "u-1", "resourceVersion": "10"}, "spec": spec})
        };
        Self::new(Operation::Update, Some(&scale(old)), Some(&scale(new))).on("scale")
    }

    pub fn on(mut self, subresource: &str) -> Self {
        subresource.clone_into(&mut self.subresource);
        self
    }

    /// About another kind, or another version of it.
    pub fn of(mut self, group: &str, version: &str, resource: &str, kind: &str) -> Self {
        self.of = [group, version, resource, kind].map(str::to_owned);
        self
    }

    /// By a user, or by a service account written `namespace/name`; a group is written `@group`.
    pub fn by(mut self, who: &str) -> Self {
        self.requester = match (who.strip_prefix('@'), who.split_once('/')) {
            (Some(group), _) => Requester {
                username: "alice".to_owned(),
                groups: vec![group.to_owned()],
                ..Default::default()
            },
            (None, Some((namespace, name))) => Requester {
                username: format!("system:serviceaccount:{namespace}:{name}"),
                ..Default::default()
            },
            (None, None) => Requester { username: who.to_owned(), ..Default::default() },
        };
        self
    }

    pub fn under(mut self, manager: &str) -> Self {
        self.manager = Some(manager.to_owned());
        self
    }

    pub fn at(mut self, now: i64) -> Self {
        self.now = now;
        self
    }

    /// As if the kind were namespaced; labels are `None` where they are not known.
    pub fn in_namespace(mut self, name: &'static str, labels: Option<&[(&str, &str)]>) -> Self {
        let label = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.namespace = name;
        self.namespace_labels = labels.map(|labels| labels.iter().map(label).collect());
        self
    }

    pub fn with_parent(mut self, parent: &Value) -> Self {
        self.parent = Some(raw(parent));
        self
    }

    fn facts(&self) -> Facts<'_> {
        let [group, version, resource, kind] = &self.of;
        Facts {
            requester: &self.requester,
            operation: self.operation,
            group,
            version,
            resource,
            subresource: &self.subresource,
            kind,
            namespace: self.namespace,
            namespace_labels: self.namespace_labels.as_ref(),
            name: "general",
            field_manager: self.manager.as_deref(),
            object: self.new.as_deref().map(Raw::from),
            old_object: self.old.as_deref().map(Raw::from),
            parent: self.parent.as_deref().map(Raw::from),
            now: self.now,
        }
    }

    pub fn decide(&self, target: &Target) -> Decision {
        decide(&self.facts(), target)
    }

    pub fn judge(&self, target: &Target) -> Verdict {
        match self.decide(target) {
            Decision::Decided(verdict) => verdict,
            Decision::NeedsParent => panic!("the parent is needed"),
        }
    }

    pub fn answer(&self, target: &Target) -> Answer {
        explain(&self.facts(), &self.judge(target))
    }
}

/// The paths that a verdict refuses, in its order; `*` stands for the whole object.
pub fn refused(verdict: &Verdict) -> Vec<String> {
    paths(verdict, Mode::Enforce)
}

/// The paths of the findings in one mode.
pub fn paths(verdict: &Verdict, mode: Mode) -> Vec<String> {
    let of = verdict.findings.iter().filter(|finding| finding.mode == mode);
    of.map(|finding| finding.path.as_ref().map_or("*".to_owned(), ToString::to_string)).collect()
}
