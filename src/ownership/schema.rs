//! The topology of a kind: what is a map, a keyed list, a set, or one atomic value.
//!
//! In: the `openAPIV3Schema` of a CRD version, an `OpenAPI` document of built-in
//! kinds, or nothing. Out: a tree of [`SchemaNode`]s that says for every path how
//! the API server tracks it, its list keys and its default. The tree is what
//! kube-openapi's schemaconv makes for structured-merge-diff, so that a difference
//! taken with it equals the server's.
//!
//! Schemas are read for topology only: this module must not validate objects.

mod build;
mod lookup;
mod meta;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use thiserror::Error;

use super::element::{Element, Scalar};
use super::raw::Raw;

pub use lookup::{Lookup, Problem, Step};

/// Schemas nested deeper than this are refused; real ones stay below 40.
pub const MAX_SCHEMA_DEPTH: usize = 128;
/// Schemas with more nodes than this are refused; the largest real CRDs have about 20,000.
pub const MAX_SCHEMA_NODES: usize = 250_000;

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// Deeper than [`MAX_SCHEMA_DEPTH`].
    #[error("schema nested deeper than {MAX_SCHEMA_DEPTH} levels at {0}")]
    Depth(String),
    /// Larger than [`MAX_SCHEMA_NODES`].
    #[error("schema has more than {MAX_SCHEMA_NODES} nodes")]
    Size,
    /// A part of the schema says something that the API server would not accept.
    #[error("schema at {at}: {what}")]
    Malformed {
        /// Where, as a path in the object that the schema describes.
        at: String,
        /// What is wrong.
        what: String,
    },
    /// An `OpenAPI` document has no such kind.
    #[error("the OpenAPI document has no kind {kind} in {group}/{version}")]
    NoSuchKind {
        /// API group, empty for the core group.
        group: String,
        /// API version.
        version: String,
        /// Kind.
        kind: String,
    },
}

impl SchemaError {
    /// A label for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Depth(_) => "schema_depth",
            Self::Size => "schema_size",
            Self::Malformed { .. } => "schema_malformed",
            Self::NoSuchKind { .. } => "schema_missing",
        }
    }
}

/// The topology of one kind in one version.
#[derive(Debug, Clone)]
pub struct Schema {
    root: Arc<SchemaNode>,
}

/// One node of a schema. A node may have several forms: an untyped one is a scalar,
/// a list or a map, whatever the object holds.
#[derive(Debug, Clone)]
pub struct SchemaNode {
    scalar: bool,
    list: Option<ListNode>,
    map: Option<MapNode>,
    default: Option<Box<RawValue>>,
    nullable: bool,
}

/// How the items of a list are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListShape {
    /// Not at all: the list is one value.
    Atomic,
    /// By their value.
    Set,
    /// By these of their fields.
    Keyed(Arc<[ListKey]>),
}

/// One of the fields that tell the items of a list apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListKey {
    /// Name of the field.
    pub name: Arc<str>,
    /// What an item has that leaves the field out.
    pub default: Option<Scalar>,
}

/// The list form of a node.
#[derive(Debug, Clone)]
pub struct ListNode {
    shape: ListShape,
    item: Child,
}

/// The map form of a node: a struct, a map, or both.
#[derive(Debug, Clone)]
pub struct MapNode {
    fields: BTreeMap<Arc<str>, Arc<SchemaNode>>,
    element: Option<Child>,
    atomic: bool,
}

/// A node below a node. The two endless ones are not in the tree.
#[derive(Debug, Clone)]
enum Child {
    Node(Arc<SchemaNode>),
    Deduced,
    Untyped,
}

/// Below preserve-unknown-fields, and in objects without schema: maps are granular
/// all the way down, lists are atomic.
static DEDUCED: SchemaNode = SchemaNode {
    scalar: true,
    list: Some(ListNode { shape: ListShape::Atomic, item: Child::Untyped }),
    map: Some(MapNode { fields: BTreeMap::new(), element: Some(Child::Deduced), atomic: false }),
    default: None,
    nullable: true,
};

/// Inside what has no schema and is atomic already.
static UNTYPED: SchemaNode = SchemaNode {
    scalar: true,
    list: Some(ListNode { shape: ListShape::Atomic, item: Child::Untyped }),
    map: Some(MapNode { fields: BTreeMap::new(), element: Some(Child::Untyped), atomic: true }),
    default: None,
    nullable: true,
};

impl Schema {
    /// For kinds without a usable schema: the topology is what the object shows.
    #[must_use]
    pub fn deduced() -> Self {
        Self { root: Arc::new(DEDUCED.clone()) }
    }

    /// From `spec.versions[].schema.openAPIV3Schema` of a CRD.
    pub fn from_crd(schema: &serde_json::Value) -> Result<Self, SchemaError> {
        build::crd(schema, false).map(|root| Self { root: Arc::new(root) })
    }

    /// As [`Schema::from_crd`], for a CRD with the old `spec.preserveUnknownFields: true`.
    pub fn from_crd_preserving(schema: &serde_json::Value) -> Result<Self, SchemaError> {
        build::crd(schema, true).map(|root| Self { root: Arc::new(root) })
    }

    /// From a document of `/openapi/v3/…`, for built-in and aggregated kinds.
    pub fn from_openapi(
        document: &serde_json::Value,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Result<Self, SchemaError> {
        build::openapi(document, group, version, kind).map(|root| Self { root })
    }

    /// The node of the object itself.
    #[must_use]
    pub fn root(&self) -> &SchemaNode {
        &self.root
    }
}

impl SchemaNode {
    /// The node of values without any schema; see [`Schema::deduced`].
    #[must_use]
    pub fn deduced() -> &'static Self {
        &DEDUCED
    }

    /// Whether a scalar may stand here.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        self.scalar
    }

    /// The list form, if a list may stand here.
    #[must_use]
    pub fn list(&self) -> Option<&ListNode> {
        self.list.as_ref()
    }

    /// The map form, if a map may stand here.
    #[must_use]
    pub fn map(&self) -> Option<&MapNode> {
        self.map.as_ref()
    }

    /// Whether anything may stand here, so that an object alone shows what does.
    #[must_use]
    pub fn is_untyped(&self) -> bool {
        self.scalar && self.list.is_some() && self.map.is_some()
    }

    /// Whether an explicit `null` is kept.
    #[must_use]
    pub fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// The default of the field, declared at this very node. For values inside
    /// the default of a node above see [`Schema::is_default`].
    #[must_use]
    pub fn default_value(&self) -> Option<Raw<'_>> {
        self.default.as_deref().map(Raw::from)
    }

    /// The node one step below; `None` if the schema has none there.
    #[must_use]
    pub fn child(&self, element: &Element) -> Option<&Self> {
        match element {
            Element::Field(name) => self.map.as_ref()?.field(name),
            Element::Key(_) | Element::Value(_) | Element::Index(_) => self.list.as_ref().map(ListNode::item),
        }
    }
}

impl ListNode {
    /// How items are told apart.
    #[must_use]
    pub fn shape(&self) -> &ListShape {
        &self.shape
    }

    /// The node of the items.
    #[must_use]
    pub fn item(&self) -> &SchemaNode {
        self.item.node()
    }
}

impl MapNode {
    /// Whether the whole map is one value.
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        self.atomic
    }

    /// The node of a member, declared or not; `None` if unknown names are pruned.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&SchemaNode> {
        self.fields.get(name).map(Arc::as_ref).or_else(|| self.element())
    }

    /// The declared fields.
    pub fn fields(&self) -> impl Iterator<Item = (&Arc<str>, &SchemaNode)> {
        self.fields.iter().map(|(name, node)| (name, node.as_ref()))
    }

    /// The node of members that are not declared one by one.
    #[must_use]
    pub fn element(&self) -> Option<&SchemaNode> {
        self.element.as_ref().map(Child::node)
    }

    /// The element that names a member, sharing the name with the schema if it can.
    pub(super) fn element_of(&self, name: &str) -> Element {
        match self.fields.get_key_value(name) {
            Some((known, _)) => Element::Field(known.clone()),
            None => Element::field(name),
        }
    }
}

impl Child {
    fn node(&self) -> &SchemaNode {
        match self {
            Self::Node(node) => node,
            Self::Deduced => &DEDUCED,
            Self::Untyped => &UNTYPED,
        }
    }
}

#[cfg(test)]
mod tests;
