//! One object of the arena, as its owners have written it, and what anybody may try with it.

use serde_json::{Value, json};

use super::{Arena, Call, Kind, Reply, admin, arena, controller, hpa};
use crate::harness::Identity;

/// A pond of this name with this `spec`.
pub fn pond(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "arena.example.com/v1", "kind": "Pond", "metadata": {"name": name}, "spec": spec})
}

/// An object of its own for one test.
pub struct Pond {
    pub arena: &'static Arena,
    pub kind: Kind,
    pub name: String,
}

impl Pond {
    /// Created with `mode`; then size, taint `a` and the finalizer's place by ctrl-a, limits, data and taint `b` by
    /// ctrl-b, 3 replicas by the autoscaler, and a status: each by its owner, by apply, as controllers do.
    pub async fn new(name: &str) -> Self {
        Self::of(&Kind::ponds(), name).await
    }

    /// The same of another kind.
    pub async fn of(kind: &Kind, name: &str) -> Self {
        Self::bare_of(kind, name).await.written().await
    }

    /// The writes of all owners, see [`Self::new`].
    pub async fn written(self) -> Self {
        let this = self;
        let taint = |key: &str| json!([{"key": key, "effect": "NoSchedule", "value": "x"}]);
        this.apply(
            &controller("ctrl-a"),
            "ctrl-a",
            &json!({"spec": {"size": "L", "zones": ["a"], "taints": taint("a")}}),
        )
        .await
        .allowed();
        this.apply(
            &controller("ctrl-b"),
            "ctrl-b",
            &json!({"spec": {"limits": {"cpu": 4, "memory": "1Gi"}, "taints": taint("b")}, "data": {"k": "v"}}),
        )
        .await
        .allowed();
        this.scale(&hpa(), 3).await.allowed();
        let status = this.body(&json!({"status": {"phase": "Wet", "other": "x"}}));
        let call = Call::apply(&this.at("/status"), "ctrl-status", &status);
        this.send(&call, &controller("ctrl-status")).await.allowed();
        this
    }

    /// Created by somebody who owns nothing, with nothing that is owned.
    pub async fn bare(name: &str) -> Self {
        arena().await;
        Self::bare_of(&Kind::ponds(), name).await
    }

    /// The same of another kind.
    pub async fn bare_of(kind: &Kind, name: &str) -> Self {
        let this = Self::absent(kind, name).await;
        let creator = Identity::person("creator", &[]);
        let call =
            Call::create(&kind.resource(), &this.body(&json!({"spec": {"mode": "calm"}}))).manager("creator");
        this.send(&call, &creator).await.allowed();
        this
    }

    /// Not created yet.
    pub async fn absent(kind: &Kind, name: &str) -> Self {
        Self { arena: arena().await, kind: kind.clone(), name: name.to_owned() }
    }

    /// `ponds/name`, with what follows.
    pub fn at(&self, rest: &str) -> String {
        format!("{}/{}{rest}", self.kind.resource(), self.name)
    }

    /// A body for this object: type and name are added.
    pub fn body(&self, fields: &Value) -> Value {
        self.kind.object(&self.name, fields)
    }

    pub async fn send(&self, call: &Call, who: &Identity) -> Reply {
        self.arena.send(call, who).await
    }

    /// The object as it is stored.
    pub async fn read(&self) -> Value {
        self.send(&Call::get(&self.at("")), &admin()).await.allowed()
    }

    /// Reads, changes at a JSON pointer (`null` removes), and puts the whole object back.
    pub async fn edited(&self, pointer: &str, value: Value) -> Value {
        crate::decisions::with(self.read().await, pointer, value)
    }

    /// The entries of `managedFields` as they are stored.
    pub async fn entries(&self) -> Vec<Value> {
        self.read().await["metadata"]["managedFields"].as_array().cloned().unwrap_or_default()
    }

    /// The whole object, to be put back, with other entries.
    pub async fn with_entries(&self, entries: &[Value]) -> Value {
        self.edited("/metadata/managedFields", json!(entries)).await
    }

    pub async fn put(&self, who: &Identity, body: &Value) -> Reply {
        self.send(&Call::put(&self.at(""), body), who).await
    }

    pub async fn patch(&self, who: &Identity, body: &Value) -> Reply {
        self.send(&Call::merge_patch(&self.at(""), body), who).await
    }

    pub async fn json_patch(&self, who: &Identity, body: &Value) -> Reply {
        self.send(&Call::json_patch(&self.at(""), body), who).await
    }

    pub async fn apply(&self, who: &Identity, manager: &str, fields: &Value) -> Reply {
        self.send(&Call::apply(&self.at(""), manager, &self.body(fields)), who).await
    }

    pub async fn force(&self, who: &Identity, manager: &str, fields: &Value) -> Reply {
        self.send(&Call::apply(&self.at(""), manager, &self.body(fields)).force(), who).await
    }

    /// A merge patch of `/scale`.
    pub async fn scale(&self, who: &Identity, replicas: i64) -> Reply {
        let call = Call::merge_patch(&self.at("/scale"), &json!({"spec": {"replicas": replicas}}));
        self.send(&call, who).await
    }

    /// The managers that hold a path, given as `f:spec/f:size`, by their entries.
    pub async fn holders(&self, path: &str) -> Vec<String> {
        let entries = self.entries().await;
        let holds = |entry: &Value| {
            path.split('/').try_fold(&entry["fieldsV1"], |node, step| node.get(step)).is_some()
        };
        let of = entries.iter().filter(|entry| holds(entry));
        of.map(|entry| entry["manager"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

pub(super) fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
