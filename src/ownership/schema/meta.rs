//! The built-in topology of `metadata`.
//!
//! In: nothing. Out: the node of `ObjectMeta`, which the API server puts at
//! `metadata` of every custom resource and of every embedded resource, whatever
//! the CRD says there. It must follow `ObjectMeta` of apimachinery.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::{Child, ListKey, ListNode, ListShape, MapNode, SchemaNode};
use crate::ownership::element::Scalar;

static OBJECT_META: LazyLock<Arc<SchemaNode>> = LazyLock::new(|| Arc::new(build()));
static SCALAR: LazyLock<Arc<SchemaNode>> = LazyLock::new(|| Arc::new(scalar_node()));

/// `metadata` of an object.
pub(super) fn object_meta() -> Arc<SchemaNode> {
    OBJECT_META.clone()
}

/// A plain scalar, such as `apiVersion` and `kind`.
pub(super) fn scalar() -> Arc<SchemaNode> {
    SCALAR.clone()
}

fn scalar_node() -> SchemaNode {
    SchemaNode { scalar: true, list: None, map: None, default: None, nullable: false }
}

fn map(fields: BTreeMap<Arc<str>, Arc<SchemaNode>>, element: Option<Child>, atomic: bool) -> SchemaNode {
    let map = Some(MapNode { fields, element, atomic });
    SchemaNode { scalar: false, list: None, map, default: None, nullable: false }
}

fn list(shape: ListShape, item: SchemaNode) -> SchemaNode {
    let list = Some(ListNode { shape, item: Child::Node(Arc::new(item)) });
    SchemaNode { scalar: false, list, map: None, default: None, nullable: false }
}

fn scalars(names: &[&str]) -> BTreeMap<Arc<str>, Arc<SchemaNode>> {
    names.iter().map(|name| (Arc::from(*name), scalar())).collect()
}

fn build() -> SchemaNode {
    let mut fields = scalars(&[
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generateName",
        "generation",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ]);
    let strings = || map(BTreeMap::new(), Some(Child::Node(scalar())), false);
    // The generated OpenAPI gives every required string an empty default, the key too.
    let uid = ListKey { name: Arc::from("uid"), default: Some(Scalar::string("")) };
    let owner =
        map(scalars(&["apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"]), None, true);
    let mut put = |name: &str, node: SchemaNode| fields.insert(Arc::from(name), Arc::new(node));
    put("annotations", strings());
    put("labels", strings());
    put("finalizers", list(ListShape::Set, scalar_node()));
    put("ownerReferences", list(ListShape::Keyed(Arc::from([uid])), owner));
    put("managedFields", list(ListShape::Atomic, SchemaNode::deduced().clone()));
    map(fields, None, false)
}
