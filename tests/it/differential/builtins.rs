//! Kinds of Kubernetes itself, whose schemas come from OpenAPI documents and have what no CRD has: references,
//! patch strategies, types that are known by name.
//!
//! Input: the document of a kind, as the API server publishes it. Output: objects to compare.

use fieldkeeper::ownership::schema::Schema;
use serde_json::{Map, Value, json};

use super::agreement::{self, Answer};
use super::batch::{PAIRS, pair, with_pairs};
use super::json::Json;
use super::random::Random;
use super::scalars::Scalar;
use super::schemas::{Field, Node, Shape};
use super::{SEED, number};
use crate::harness::Oracle;

const KINDS: &[(&str, &str, &str)] = &[
    ("", "v1", "ConfigMap"),
    ("", "v1", "Node"),
    ("", "v1", "Pod"),
    ("", "v1", "Secret"),
    ("", "v1", "Service"),
    ("", "v1", "ServiceAccount"),
    ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"),
    ("apps", "v1", "DaemonSet"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("batch", "v1", "CronJob"),
    ("networking.k8s.io", "v1", "Ingress"),
    ("networking.k8s.io", "v1", "NetworkPolicy"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
];

/// How deep objects go; the pods of a CronJob begin at the sixth level.
const DEPTH: usize = 12;

/// Batches of each kind.
const BATCHES: usize = 6;

#[test]
fn built_in_kinds_agree() {
    let mut oracle = Oracle::start().unwrap();
    let mut seeds = Random::new(2);
    for (group, version, kind) in KINDS {
        let subject = json!({"group": group, "version": version, "kind": kind});
        let answer: Answer = oracle.ask(&json!({"kind": subject}).to_string()).unwrap();
        let document = answer.document.unwrap_or_else(|| panic!("{kind}: {:?}", answer.schema_error));
        let schema = Schema::from_openapi(&document, group, version, kind).unwrap();
        let node = node_of(&document, kind);
        for _ in 0..BATCHES {
            let seed = number(SEED).unwrap_or_else(|| seeds.next());
            if let Err(error) = batch(seed, &subject, &schema, &node, &mut oracle) {
                panic!("{error}\n{kind} again: {SEED}={seed} cargo test --test it built_in_kinds_agree");
            }
        }
    }
}

fn batch(seed: u64, kind: &Value, schema: &Schema, node: &Node, oracle: &mut Oracle) -> Result<(), String> {
    let mut random = Random::new(seed);
    let pairs: Vec<_> = (0..PAIRS).map(|_| pair(node, &mut random)).collect();
    let question = with_pairs(&json!({"kind": kind}), &pairs);
    let answer: Answer = oracle.ask(&question).map_err(|error| format!("{error:#}"))?;
    let refused: Vec<_> = answer.pairs.iter().filter_map(|said| said.error.as_ref()).collect();
    if answer.pairs.len() != PAIRS || refused.len() * 2 > PAIRS {
        return Err(format!("too many objects are not valid: {:?} {refused:?}", answer.schema_error));
    }
    for (pair, said) in pairs.iter().zip(&answer.pairs) {
        agreement::pair(schema, pair, said, seed).map_err(|error| format!("{error}\n{pair:?}"))?;
    }
    Ok(())
}

/// The root of the kind in its document.
fn node_of(document: &Value, kind: &str) -> Node {
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object).unwrap();
    let is_it =
        |schema: &&Value| schema.pointer("/x-kubernetes-group-version-kind/0/kind") == Some(&json!(kind));
    read(schemas.values().find(is_it).unwrap(), schemas, 0).unwrap()
}

/// `None` where the depth is reached.
fn read(schema: &Value, schemas: &Map<String, Value>, depth: usize) -> Option<Node> {
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Value::as_str);
    let mut node = match reference.and_then(|target| target.rsplit('/').next()) {
        Some("io.k8s.apimachinery.pkg.api.resource.Quantity") => Node::scalar(Scalar::IntOrString),
        Some("io.k8s.apimachinery.pkg.runtime.RawExtension") => unknown(),
        Some(name) => read(&schemas[name], schemas, depth)?,
        None => in_place(schema, schemas, depth)?,
    };
    // Only whether there is one matters here.
    node.default = schema.get("default").map(|_| Json::Null);
    Some(node)
}

fn in_place(schema: &Value, schemas: &Map<String, Value>, depth: usize) -> Option<Node> {
    if depth > DEPTH {
        return None;
    }
    let text = |name: &str| schema.get(name).and_then(Value::as_str);
    let below = |name: &str| schema.get(name).map(|below| read(below, schemas, depth + 1));
    Some(match (text("type"), text("format")) {
        (None, Some("int-or-string")) => Node::scalar(Scalar::IntOrString),
        (None, _) => unknown(),
        (Some("array"), _) => list(schema, below("items")??),
        (Some("object"), _) => match below("additionalProperties") {
            Some(member) => Node::of(Shape::Map { member: Some(Box::new(member?)), topology: None }),
            None => Node::structure_of(fields(schema, schemas, depth)),
        },
        (Some("boolean"), _) => Node::scalar(Scalar::Boolean),
        (Some("integer"), _) => Node::scalar(Scalar::Integer),
        (Some("number"), _) => Node::scalar(Scalar::Number),
        (Some(_), _) => Node::scalar(Scalar::String),
    })
}

fn fields(schema: &Value, schemas: &Map<String, Value>, depth: usize) -> Vec<Field> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    properties.filter_map(|(name, field)| Some(Field::new(name, read(field, schemas, depth + 1)?))).collect()
}

fn list(schema: &Value, item: Node) -> Node {
    let text = |name: &str| schema.get(name).and_then(Value::as_str);
    let keys: Vec<&str> = match schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array) {
        Some(keys) => keys.iter().filter_map(Value::as_str).collect(),
        None => text("x-kubernetes-patch-merge-key").into_iter().collect(),
    };
    let merged = text("x-kubernetes-patch-strategy").is_some_and(|strategy| strategy.starts_with("merge"));
    let topology = match text("x-kubernetes-list-type") {
        Some("map") => Some("map"),
        Some("set") => Some("set"),
        None if merged && keys.is_empty() => Some("set"),
        None if merged => Some("map"),
        _ => None,
    };
    Node::list(item, topology, if topology == Some("map") { &keys } else { &[] })
}

fn unknown() -> Node {
    Node { preserve: true, ..Node::of(Shape::Untyped { fields: Vec::new(), item: None }) }
}
