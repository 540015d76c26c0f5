//! Random schemas that the API server accepts.
//!
//! Input: chance. Output: a tree of nodes, and the `openAPIV3Schema` that says the same.

use serde_json::{Map, Value, json};

use super::json::Json;
use super::random::Random;
use super::scalars::{NAMES, Scalar};

#[derive(Clone, Debug)]
pub struct Node {
    pub shape: Shape,
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    pub preserve: bool,
    pub default: Option<Json>,
}

#[derive(Clone, Debug)]
pub enum Shape {
    Scalar(Scalar),
    /// Without a type. It needs `preserve`.
    Untyped {
        fields: Vec<Field>,
        item: Option<Box<Node>>,
    },
    Struct {
        fields: Vec<Field>,
        topology: Option<&'static str>,
        embedded: bool,
    },
    /// Without a node of its members they are anything.
    Map {
        member: Option<Box<Node>>,
        topology: Option<&'static str>,
    },
    List {
        item: Box<Node>,
        topology: Option<&'static str>,
        keys: Vec<String>,
    },
}

#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    pub node: Node,
    /// Not in the schema: the API server puts it there.
    pub implied: bool,
}

impl Field {
    fn new(name: &str, node: Node) -> Self {
        Self { name: name.to_owned(), node, implied: false }
    }
}

impl Node {
    pub fn of(shape: Shape) -> Self {
        Self { shape, nullable: false, preserve: false, default: None }
    }

    pub fn scalar(scalar: Scalar) -> Self {
        Self::of(Shape::Scalar(scalar))
    }

    fn list(item: Node, topology: Option<&'static str>, keys: &[&str]) -> Self {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Self::of(Shape::List { item: Box::new(item), topology, keys })
    }

    /// The root of a kind.
    pub fn kind(random: &mut Random) -> Self {
        let mut maker = Maker { random, budget: 30 };
        let mut fields = vec![Field::new("spec", maker.structure(1))];
        if maker.random.chance(30) {
            fields.push(Field::new("status", maker.structure(3)));
        }
        if maker.random.chance(20) {
            fields.push(Field::new("data", maker.any(2)));
        }
        // What a CRD says of these three does not count.
        if maker.random.chance(15) {
            fields.push(Field::new("metadata", Self::structure_of(Vec::new())));
        }
        if maker.random.chance(15) {
            fields.push(Field::new("kind", Self::scalar(Scalar::String)));
        }
        let mut root = Self::structure_of(fields);
        root.preserve = maker.random.chance(6);
        root.add_implied();
        root
    }

    /// The root of a kind whose schema is not known. Its objects have metadata all the same.
    pub fn unknown_kind() -> Self {
        let mut root = Self::structure_of(Vec::new());
        root.preserve = true;
        root.add_implied();
        root
    }

    fn structure_of(fields: Vec<Field>) -> Self {
        Self::of(Shape::Struct { fields, topology: None, embedded: false })
    }

    fn add_implied(&mut self) {
        if let Shape::Struct { fields, .. } = &mut self.shape {
            for (name, node) in [
                ("apiVersion", Self::scalar(Scalar::String)),
                ("kind", Self::scalar(Scalar::String)),
                ("metadata", object_meta()),
            ] {
                fields.push(Field { name: name.to_owned(), node, implied: true });
            }
        }
    }

    /// The schema in the form of a CRD.
    pub fn openapi(&self) -> Value {
        let mut schema = Map::new();
        match &self.shape {
            Shape::Scalar(scalar) => scalar.describe(&mut schema),
            Shape::Untyped { fields, item } => {
                describe_fields(fields, &mut schema);
                if let Some(item) = item {
                    schema.insert("items".into(), item.openapi());
                }
            }
            Shape::Struct { fields, topology, embedded } => {
                schema.insert("type".into(), json!("object"));
                describe_fields(fields, &mut schema);
                insert(&mut schema, "x-kubernetes-map-type", *topology);
                if *embedded {
                    schema.insert("x-kubernetes-embedded-resource".into(), json!(true));
                }
            }
            Shape::Map { member, topology } => {
                schema.insert("type".into(), json!("object"));
                let member = member.as_ref().map_or(json!(true), |member| member.openapi());
                schema.insert("additionalProperties".into(), member);
                insert(&mut schema, "x-kubernetes-map-type", *topology);
            }
            Shape::List { item, topology, keys } => {
                schema.insert("type".into(), json!("array"));
                schema.insert("items".into(), item.openapi());
                insert(&mut schema, "x-kubernetes-list-type", *topology);
                if !keys.is_empty() {
                    schema.insert("x-kubernetes-list-map-keys".into(), json!(keys));
                    let required: Vec<_> = keys.iter().filter(|key| item.lacks_default(key)).collect();
                    if !required.is_empty() {
                        schema["items"]["required"] = json!(required);
                    }
                }
            }
        }
        if self.nullable {
            schema.insert("nullable".into(), json!(true));
        }
        if self.preserve {
            schema.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
        }
        if let Some(default) = &self.default {
            schema.insert("default".into(), serde_json::from_str(&default.plain()).unwrap());
        }
        Value::Object(schema)
    }

    /// Whether members are declared one by one.
    pub fn has_fields(&self) -> bool {
        matches!(&self.shape, Shape::Struct { fields, .. } if !fields.is_empty())
    }

    fn lacks_default(&self, name: &str) -> bool {
        match &self.shape {
            Shape::Struct { fields, .. } => {
                fields.iter().any(|field| field.name == name && field.node.default.is_none())
            }
            _ => false,
        }
    }
}

fn describe_fields(fields: &[Field], schema: &mut Map<String, Value>) {
    let described: Map<String, Value> = fields
        .iter()
        .filter(|field| !field.implied)
        .map(|field| (field.name.clone(), field.node.openapi()))
        .collect();
    if !described.is_empty() {
        schema.insert("properties".into(), Value::Object(described));
    }
}

fn insert(schema: &mut Map<String, Value>, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        schema.insert(name.to_owned(), json!(value));
    }
}

/// What the API server knows of `metadata`.
fn object_meta() -> Node {
    let string = || Node::scalar(Scalar::String);
    let strings = || Node::of(Shape::Map { member: Some(Box::new(string())), topology: None });
    let structure = |fields: &[(&str, Scalar)], topology| {
        let fields = fields.iter().map(|(name, scalar)| Field::new(name, Node::scalar(*scalar))).collect();
        Node::of(Shape::Struct { fields, topology, embedded: false })
    };
    let owner = structure(
        &[
            ("apiVersion", Scalar::String),
            ("blockOwnerDeletion", Scalar::Boolean),
            ("controller", Scalar::Boolean),
            ("kind", Scalar::String),
            ("name", Scalar::String),
            ("uid", Scalar::String),
        ],
        Some("atomic"),
    );
    let entry = structure(&[("manager", Scalar::String), ("time", Scalar::DateTime)], None);
    let mut fields: Vec<Field> = ["name", "namespace", "generateName", "resourceVersion", "selfLink", "uid"]
        .iter()
        .map(|name| Field::new(name, string()))
        .collect();
    fields.extend([
        Field::new("annotations", strings()),
        Field::new("labels", strings()),
        Field::new("finalizers", Node::list(string(), Some("set"), &[])),
        Field::new("ownerReferences", Node::list(owner, Some("map"), &["uid"])),
        Field::new("managedFields", Node::list(entry, None, &[])),
        Field::new("generation", Node::scalar(Scalar::Integer)),
        Field::new("creationTimestamp", Node::scalar(Scalar::DateTime)),
        Field::new("deletionTimestamp", Node::scalar(Scalar::DateTime)),
        Field::new("deletionGracePeriodSeconds", Node::scalar(Scalar::Integer)),
    ]);
    Node::structure_of(fields)
}

struct Maker<'r> {
    random: &'r mut Random,
    /// How many nodes may still be made.
    budget: usize,
}

impl Maker<'_> {
    fn any(&mut self, depth: usize) -> Node {
        self.budget = self.budget.saturating_sub(1);
        let shallow = depth >= 6 || self.budget == 0;
        let mut node = match self.random.below(if shallow { 30 } else { 100 }) {
            0..30 => self.scalar(),
            30..35 => self.untyped(depth),
            35..62 => self.structure(depth),
            62..72 => self.map(depth),
            72..90 => self.keyed(depth),
            _ => self.plain_list(depth),
        };
        node.nullable = self.random.chance(15);
        node
    }

    fn scalar(&mut self) -> Node {
        let scalar = self.random.pick(Scalar::ALL);
        let mut node = Node::scalar(scalar);
        if self.random.chance(20) {
            node.default = Some(scalar.value(self.random));
        }
        node
    }

    fn untyped(&mut self, depth: usize) -> Node {
        let fields = if self.random.chance(30) { self.fields(depth + 1) } else { Vec::new() };
        let item = self.random.chance(20).then(|| Box::new(self.any(depth + 1)));
        Node { preserve: true, ..Node::of(Shape::Untyped { fields, item }) }
    }

    fn structure(&mut self, depth: usize) -> Node {
        let fields = if self.random.chance(8) { Vec::new() } else { self.fields(depth + 1) };
        let embedded = self.random.chance(6);
        let topology = self.map_type();
        let mut node = Node::of(Shape::Struct { fields, topology, embedded });
        node.preserve = self.random.chance(12);
        if let Shape::Struct { fields, embedded: true, .. } = &node.shape {
            node.preserve |= fields.is_empty();
            node.add_implied();
        } else if self.random.chance(10) {
            node.default = Some(Json::Map(Vec::new()));
        }
        node
    }

    fn fields(&mut self, depth: usize) -> Vec<Field> {
        let mut names = NAMES.to_vec();
        self.random.shuffle(&mut names);
        let count = 1 + self.random.below(4);
        names.iter().take(count).map(|name| Field::new(name, self.any(depth))).collect()
    }

    fn map(&mut self, depth: usize) -> Node {
        let member = (!self.random.chance(15)).then(|| Box::new(self.any(depth + 1)));
        Node::of(Shape::Map { member, topology: self.map_type() })
    }

    fn map_type(&mut self) -> Option<&'static str> {
        self.random.pick(&[None, None, None, None, Some("granular"), Some("atomic")])
    }

    fn plain_list(&mut self, depth: usize) -> Node {
        if self.random.chance(50) {
            return self.set();
        }
        let item = self.any(depth + 1);
        let topology = self.random.pick(&[None, Some("atomic")]);
        Node::list(item, topology, &[])
    }

    fn set(&mut self) -> Node {
        let item = match self.random.below(30) {
            // The API server accepts sets of atomic values, but structured-merge-diff takes only empty ones.
            0 => Node::list(Node::scalar(Scalar::String), Some("atomic"), &[]),
            1 => {
                Node::of(Shape::Struct { fields: self.fields(6), topology: Some("atomic"), embedded: false })
            }
            _ => Node::scalar(self.random.pick(Scalar::ALL)),
        };
        Node::list(item, Some("set"), &[])
    }

    fn keyed(&mut self, depth: usize) -> Node {
        let mut item = self.structure(depth + 1);
        item.nullable = false;
        item.default = None;
        let mut keys: Vec<&str> = ["key", "name", "port", "protocol"].to_vec();
        self.random.shuffle(&mut keys);
        keys.truncate(1 + self.random.below(3));
        let Shape::Struct { fields, .. } = &mut item.shape else { return item };
        for key in &keys {
            let mut field = self.scalar();
            if let (Shape::Scalar(scalar), true) = (&field.shape, self.random.chance(30)) {
                field.default = Some(scalar.value(self.random));
            }
            fields.retain(|field| field.name != **key);
            fields.push(Field::new(key, field));
        }
        Node::list(item, Some("map"), &keys)
    }
}
