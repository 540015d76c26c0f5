//! Reading `OpenAPI` into topology.
//!
//! In: a CRD's schema or an `OpenAPI` v3 document, as JSON. Out: nodes, by the rules
//! of kube-openapi's schemaconv and of the CRD handler's `OpenAPI` builder. It must
//! not know objects.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Child, ListKey, ListNode, ListShape, MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODES};
use super::{MapNode, SchemaError, SchemaNode, meta};
use crate::ownership::element::Scalar;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// The root node of a custom resource.
pub(super) fn crd(schema: &Value, preserve: bool) -> Result<SchemaNode, SchemaError> {
    let mut builder = Builder::default();
    let mut root = builder.node(schema, preserve)?;
    add_object_fields(&mut root);
    Ok(root)
}

/// The root node of a kind in an `OpenAPI` document.
pub(super) fn openapi(
    document: &Value,
    group: &str,
    version: &str,
    kind: &str,
) -> Result<Arc<SchemaNode>, SchemaError> {
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
    let is_wanted = |gvk: &Value| {
        let is = |name: &str, wanted: &str| gvk.get(name).and_then(Value::as_str) == Some(wanted);
        is("group", group) && is("version", version) && is("kind", kind)
    };
    let wanted = schemas.and_then(|schemas| {
        schemas.iter().find(|(_, schema)| {
            let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
            kinds.is_some_and(|kinds| kinds.iter().any(is_wanted))
        })
    });
    let (Some(schemas), Some((name, _))) = (schemas, wanted) else {
        return Err(SchemaError::NoSuchKind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        });
    };
    let mut builder = Builder { schemas: Some(schemas), ..Builder::default() };
    match builder.named(name)? {
        Child::Node(node) => Ok(node),
        other => Ok(Arc::new(other.node().clone())),
    }
}

/// What every object has, whatever its schema declares at these names.
fn add_object_fields(node: &mut SchemaNode) {
    if let Some(map) = &mut node.map {
        map.fields.insert(Arc::from("apiVersion"), meta::scalar());
        map.fields.insert(Arc::from("kind"), meta::scalar());
        map.fields.insert(Arc::from("metadata"), meta::object_meta());
    }
}

#[derive(Default)]
struct Builder<'a> {
    /// Where `$ref`s point to.
    schemas: Option<&'a Map<String, Value>>,
    /// Types that were referred to before: they are shared, not copied.
    known: HashMap<&'a str, Arc<SchemaNode>>,
    /// Types that are being built: one that refers to itself ends as deduced.
    open: Vec<&'a str>,
    /// Names from the root, for messages and for the depth.
    place: Vec<&'a str>,
    nodes: usize,
}

impl<'a> Builder<'a> {
    fn node(&mut self, schema: &'a Value, preserve: bool) -> Result<SchemaNode, SchemaError> {
        if self.place.len() >= MAX_SCHEMA_DEPTH {
            return Err(SchemaError::Depth(self.at()));
        }
        self.nodes += 1;
        if self.nodes > MAX_SCHEMA_NODES {
            return Err(SchemaError::Size);
        }
        let Some(schema) = schema.as_object() else {
            return Err(self.malformed("a schema is an object"));
        };
        let preserve = preserve || is_true(schema, PRESERVE);
        let mut node = SchemaNode {
            scalar: false,
            list: None,
            map: None,
            default: default_of(schema),
            nullable: is_true(schema, "nullable"),
        };
        match schema.get("type").map(Value::as_str) {
            // Without a type anything goes; `x-kubernetes-int-or-string` is such a node too.
            None => {
                node.scalar = true;
                node.list = Some(self.list(schema, preserve)?);
                node.map = Some(self.map(schema, preserve)?);
            }
            Some(Some("object")) => node.map = Some(self.map(schema, preserve)?),
            Some(Some("array")) => {
                if !schema.contains_key("items") {
                    return Err(self.malformed("an array needs `items`"));
                }
                node.list = Some(self.list(schema, preserve)?);
            }
            Some(Some("integer" | "number" | "string" | "boolean")) => node.scalar = true,
            Some(other) => {
                return Err(self.malformed(&format!("unknown type {:?}", other.unwrap_or_default())));
            }
        }
        if is_true(schema, "x-kubernetes-embedded-resource") {
            add_object_fields(&mut node);
        }
        Ok(node)
    }

    /// A node below the current one, by reference or in place.
    fn child(&mut self, name: &'a str, schema: &'a Value, preserve: bool) -> Result<Child, SchemaError> {
        self.place.push(name);
        let child = match reference(schema) {
            Some(target) => self.referred(target, schema)?,
            None => Child::Node(Arc::new(self.node(schema, preserve)?)),
        };
        self.place.pop();
        Ok(child)
    }

    /// A `$ref`, with what the place of reference says beside it.
    fn referred(&mut self, target: &'a str, schema: &Value) -> Result<Child, SchemaError> {
        let child = self.named(target)?;
        let Some(schema) = schema.as_object() else { return Ok(child) };
        let (default, nullable) = (default_of(schema), is_true(schema, "nullable"));
        let atomic = self.map_type(schema)?;
        if default.is_none() && !nullable && atomic.is_none() {
            return Ok(child);
        }
        let mut node = child.node().clone();
        node.default = default;
        node.nullable = nullable;
        if let (Some(atomic), Some(map)) = (atomic, &mut node.map) {
            map.atomic = atomic;
        }
        Ok(Child::Node(Arc::new(node)))
    }

    fn named(&mut self, name: &'a str) -> Result<Child, SchemaError> {
        if name == QUANTITY {
            return Ok(Child::Node(meta::scalar()));
        }
        if name == RAW_EXTENSION {
            return Ok(Child::Untyped);
        }
        if let Some(node) = self.known.get(name) {
            return Ok(Child::Node(node.clone()));
        }
        if self.open.contains(&name) {
            return Ok(Child::Deduced);
        }
        let Some(schema) = self.schemas.and_then(|schemas| schemas.get(name)) else {
            return Err(self.malformed(&format!("`$ref` to the unknown type {name:?}")));
        };
        self.open.push(name);
        let node = Arc::new(self.node(schema, false)?);
        self.open.pop();
        self.known.insert(name, node.clone());
        Ok(Child::Node(node))
    }

    fn map(&mut self, schema: &'a Map<String, Value>, preserve: bool) -> Result<MapNode, SchemaError> {
        let mut fields = BTreeMap::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, member) in properties.into_iter().flatten() {
            let node = match self.child(name, member, preserve)? {
                Child::Node(node) => node,
                other => Arc::new(other.node().clone()),
            };
            fields.insert(Arc::from(name.as_str()), node);
        }
        let element = match schema.get("additionalProperties") {
            // An object without properties is a free-form object.
            None => (preserve || fields.is_empty()).then_some(Child::Deduced),
            Some(Value::Bool(allowed)) => allowed.then_some(Child::Deduced),
            Some(member) => Some(self.child("*", member, preserve)?.without_default()),
        };
        let atomic = self.map_type(schema)?.unwrap_or(false);
        Ok(MapNode { fields, element, atomic })
    }

    fn map_type(&self, schema: &Map<String, Value>) -> Result<Option<bool>, SchemaError> {
        match schema.get("x-kubernetes-map-type").map(Value::as_str) {
            None => Ok(None),
            Some(Some("atomic")) => Ok(Some(true)),
            Some(Some("granular")) => Ok(Some(false)),
            Some(_) => Err(self.malformed("unknown x-kubernetes-map-type")),
        }
    }

    fn list(&mut self, schema: &'a Map<String, Value>, preserve: bool) -> Result<ListNode, SchemaError> {
        let item = match schema.get("items") {
            None => Child::Untyped,
            Some(items) => self.child("[*]", items, preserve)?.without_default(),
        };
        let shape = match schema.get("x-kubernetes-list-type").map(Value::as_str) {
            None => self.shape_of_patch(schema, &item)?,
            Some(Some("atomic")) => ListShape::Atomic,
            Some(Some("set")) => set_shape(&item),
            Some(Some("map")) => {
                let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                let keys = keys.into_iter().flatten().filter_map(Value::as_str);
                self.keyed(keys, &item)?
            }
            Some(_) => return Err(self.malformed("unknown x-kubernetes-list-type")),
        };
        Ok(ListNode { shape, item })
    }

    /// Old built-in types have only their strategic merge patch markers.
    fn shape_of_patch(&self, schema: &Map<String, Value>, item: &Child) -> Result<ListShape, SchemaError> {
        match schema.get("x-kubernetes-patch-strategy").and_then(Value::as_str) {
            Some("merge" | "merge,retainKeys") => {
                match schema.get("x-kubernetes-patch-merge-key").and_then(Value::as_str) {
                    Some(key) => self.keyed(std::iter::once(key), item),
                    None => Ok(set_shape(item)),
                }
            }
            _ => Ok(ListShape::Atomic),
        }
    }

    fn keyed<'k>(
        &self,
        names: impl Iterator<Item = &'k str>,
        item: &Child,
    ) -> Result<ListShape, SchemaError> {
        let fields = item.node().map.as_ref();
        let mut keys: Vec<ListKey> = names
            .map(|name| ListKey {
                name: Arc::from(name),
                default: fields.and_then(|map| key_default(map, name)),
            })
            .collect();
        if keys.is_empty() {
            return Err(self.malformed("a list of type map needs x-kubernetes-list-map-keys"));
        }
        // Elements have their key fields sorted by name; so has every list shape.
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        keys.dedup_by(|a, b| a.name == b.name);
        Ok(ListShape::Keyed(Arc::from(keys)))
    }

    fn at(&self) -> String {
        format!(".{}", self.place.join("."))
    }

    fn malformed(&self, what: &str) -> SchemaError {
        SchemaError::Malformed { at: self.at(), what: what.to_owned() }
    }
}

impl Child {
    /// Nothing puts an item or a member there that the writer left out. What a schema calls its default (built-in
    /// kinds: the empty string for every label) stands in for a `null` at most, and that the writer has set.
    fn without_default(self) -> Self {
        match self {
            Self::Node(node) if node.default.is_some() => {
                let mut node = SchemaNode::clone(&node);
                node.default = None;
                Self::Node(Arc::new(node))
            }
            other => other,
        }
    }
}

/// The API server accepts sets of atomic maps and lists, but its merge code cannot
/// tell such items apart and gives up tracking; as one value we can still judge them.
fn set_shape(item: &Child) -> ListShape {
    if item.node().scalar { ListShape::Set } else { ListShape::Atomic }
}

fn key_default(map: &MapNode, name: &str) -> Option<Scalar> {
    let field = map.fields.get(name)?;
    Scalar::parse(field.default.as_deref()?.get())
}

fn default_of(schema: &Map<String, Value>) -> Option<Box<RawValue>> {
    let default = schema.get("default").filter(|default| !default.is_null())?;
    serde_json::value::to_raw_value(default).ok()
}

fn is_true(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

/// The name of the type that a schema refers to, directly or as a lone `allOf`.
fn reference(schema: &Value) -> Option<&str> {
    let direct = schema.get("$ref").and_then(Value::as_str);
    let wrapped = || match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("$ref").and_then(Value::as_str),
        _ => None,
    };
    direct.or_else(wrapped).and_then(|target| target.rsplit('/').next())
}
