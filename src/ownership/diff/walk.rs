//! The descent through two objects and their schema.
//!
//! In: two values and a node. Out: changes, in the walker. The cases follow
//! structured-merge-diff's `compare.go` one by one; lists are in `list`.

use std::borrow::Cow;

use super::super::path::{DisplayPath, Path};
use super::super::raw::{Kind, Node, Raw, RawError, zip};
use super::super::schema::{MapNode, SchemaNode};
use super::super::value;
use super::{Change, ChangeKind, DiffError, Difference, Element, ListShape, NodeKind, Pair, Refine, Split};
use super::{MAX_DEPTH, MAX_PATH_ELEMENTS};

pub(super) const METADATA: &str = "metadata";
const MANAGED_FIELDS: &str = "managedFields";

/// Two values at one path, as changes show them.
pub(super) type RawPair<'a> = (Option<Raw<'a>>, Option<Raw<'a>>);

/// How a node was treated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Treated {
    /// Its parts were compared.
    Parts,
    /// It is a scalar, a null or empty.
    Leaf,
    /// It is a value of several parts, and they are not compared.
    Whole(NodeKind),
}

pub(super) struct Walker<'a, 't, 'r> {
    pub(super) path: Path,
    found: Difference<'a, 't>,
    /// How many more elements the paths of all changes may have.
    room: usize,
    refine: Option<&'r dyn Refine>,
    /// Inside a split atomic node: the length of its path.
    split_at: Option<usize>,
}

/// Whether nobody can own a member of the object or of its metadata.
pub(super) fn is_unowned_field(parent: &[Element], name: &str) -> bool {
    match parent {
        [] => matches!(name, "apiVersion" | "kind"),
        [Element::Field(parent)] if &**parent == METADATA => matches!(
            name,
            "clusterName"
                | "creationTimestamp"
                | "deletionGracePeriodSeconds"
                | "deletionTimestamp"
                | "generation"
                | "managedFields"
                | "name"
                | "namespace"
                | "resourceVersion"
                | "selfLink"
                | "uid"
        ),
        _ => false,
    }
}

impl<'a, 't, 'r> Walker<'a, 't, 'r> {
    pub(super) fn new(refine: Option<&'r dyn Refine>) -> Self {
        Self {
            path: Path::root(),
            found: Difference::default(),
            room: MAX_PATH_ELEMENTS,
            refine,
            split_at: None,
        }
    }

    /// Compares two whole objects. The object and its metadata are no paths of their own.
    pub(super) fn run(
        mut self,
        objects: Pair<'a, 't>,
        root: &SchemaNode,
    ) -> Result<Difference<'a, 't>, DiffError> {
        self.top(objects, root.map())?;
        Ok(self.found)
    }

    /// Compares the members of the object or of its metadata, of which many cannot be owned.
    fn top(&mut self, (old, new): Pair<'a, 't>, map: Option<&MapNode>) -> Result<(), DiffError> {
        for (name, (old, new)) in self.members((old, new))? {
            if is_unowned_field(&self.path, &name) {
                if name == MANAGED_FIELDS {
                    self.found.managed_fields = (old, new);
                }
                continue;
            }
            let node = map.and_then(|map| map.field(&name)).unwrap_or_else(|| SchemaNode::deduced());
            self.path.push(element_of(&name, map));
            if self.path.len() == 1 && name == METADATA {
                self.top((map_or_nothing(old)?, map_or_nothing(new)?), node.map())?;
            } else {
                self.compare((old, new), node)?;
            }
            self.path.pop();
        }
        Ok(())
    }

    /// The members that are not the same text in both.
    fn members<'n>(
        &self,
        (old, new): Pair<'a, 'n>,
    ) -> Result<impl Iterator<Item = (Cow<'a, str>, Pair<'a, 'n>)> + use<'a, 'n>, DiffError> {
        let members = |side: Option<Node<'a, 'n>>| side.map_or(Ok(Vec::new()), Node::members);
        let old = members(old).map_err(|error| self.json(error))?;
        let new = members(new).map_err(|error| self.json(error))?;
        Ok(zip(old, new)
            .map(|(name, old, new)| (name, (old, new)))
            .filter(|(_, (old, new))| !same_text(old.map(|node| node.raw), new.map(|node| node.raw))))
    }

    /// Compares what stands at the current path.
    pub(super) fn compare(&mut self, pair: Pair<'a, '_>, node: &SchemaNode) -> Result<(), DiffError> {
        let (old, new) = raws(pair);
        if same_text(old, new) {
            return Ok(());
        }
        if self.path.len() > MAX_DEPTH {
            return Err(self.json(RawError::Depth(MAX_DEPTH)));
        }
        if self.split_at.is_none() && self.refine.is_some_and(|refine| !refine.descends(&self.path)) {
            return self.whole(NodeKind::Whole, pair, node);
        }
        let came_or_went = match (old, new) {
            (None, Some(only)) => Some((ChangeKind::Added, only)),
            (Some(only), None) => Some((ChangeKind::Removed, only)),
            _ => None,
        };
        if let Some((kind, only)) = came_or_went
            && self.has_parts(only, node)
        {
            self.push(kind, self.item_or(NodeKind::Container), false, (old, new))?;
        }
        match self.treat(pair, node)? {
            Treated::Parts => Ok(()),
            Treated::Leaf => self.whole(NodeKind::Leaf, pair, node),
            Treated::Whole(kind) => self.whole(kind, pair, node),
        }
    }

    /// Compares the parts of both sides, each by its own form.
    fn treat(&mut self, pair: Pair<'a, '_>, node: &SchemaNode) -> Result<Treated, DiffError> {
        let (Some(old), Some(new)) = pair else {
            return self.treat_as(Form::of(pair.0.or(pair.1), node), pair, node);
        };
        let (old, new) = (Form::of(Some(old), node), Form::of(Some(new), node));
        let first = self.treat_as(old, pair, node)?;
        if old == new {
            return Ok(first);
        }
        // Another form than before: the parts of each side, and the node itself where
        // one of the two forms has no parts.
        Ok(first.max(self.treat_as(new, pair, node)?))
    }

    fn treat_as(&mut self, form: Form, pair: Pair<'a, '_>, node: &SchemaNode) -> Result<Treated, DiffError> {
        match (form, node.map(), node.list()) {
            (Form::Map, Some(map), _) => self.map(pair, map),
            (Form::List, _, Some(list)) => self.list(pair, list),
            _ => Ok(Treated::Leaf),
        }
    }

    /// Compares two maps at the current path.
    fn map(&mut self, (old, new): Pair<'a, '_>, map: &MapNode) -> Result<Treated, DiffError> {
        let (old, new) = (of_kind(old, Kind::Object), of_kind(new, Kind::Object));
        if map.is_atomic() && self.split_at.is_none() {
            return Ok(Treated::Whole(NodeKind::Atomic));
        }
        if is_empty(old) && is_empty(new) {
            return Ok(Treated::Leaf);
        }
        for (name, (old, new)) in self.members((old, new))? {
            // A name that the schema does not know should have been pruned. It is judged
            // by what it holds.
            let node = map.field(&name).unwrap_or_else(|| SchemaNode::deduced());
            self.path.push(element_of(&name, Some(map)));
            self.compare((old, new), node)?;
            self.path.pop();
        }
        Ok(Treated::Parts)
    }

    /// Reports a node that was not, or not only, compared part by part.
    fn whole(&mut self, shown: NodeKind, pair: Pair<'a, '_>, node: &SchemaNode) -> Result<(), DiffError> {
        let kind = match pair {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            (Some(old), Some(new)) => {
                let depth = self.path.len();
                if value::equal_nodes(old, new, depth).map_err(|error| self.json(error))? {
                    return Ok(());
                }
                ChangeKind::Modified
            }
        };
        let named = if kind == ChangeKind::Modified { shown } else { self.item_or(shown) };
        self.push(kind, named, true, raws(pair))?;
        if shown == NodeKind::Atomic && self.split_at.is_none() {
            self.split(pair, node)?;
        }
        Ok(())
    }

    /// Looks into the atomic node at the current path, if there are claims below it.
    fn split(&mut self, pair: Pair<'a, '_>, node: &SchemaNode) -> Result<(), DiffError> {
        if self.refine.is_none_or(|refine| refine.split(&self.path).is_none()) {
            return Ok(());
        }
        if let Some(atomic) = self.found.changes.last_mut() {
            atomic.split = true;
        }
        self.split_at = Some(self.path.len());
        let result = self.compare(pair, node);
        self.split_at = None;
        result
    }

    /// How the claims below the list at the current path tell its items apart.
    pub(super) fn claimed_shape(&self) -> Option<ListShape> {
        self.split_at?;
        match self.refine?.split(&self.path)? {
            Split::Items(ListShape::Atomic) | Split::Members => None,
            Split::Items(shape) => Some(shape),
        }
    }

    /// Whether the parts of a value that came or went are compared one by one.
    fn has_parts(&self, only: Raw<'_>, node: &SchemaNode) -> bool {
        if only.is_empty_container() {
            return false;
        }
        match (only.kind(), node.map(), node.list()) {
            (Kind::Object, Some(map), _) => !map.is_atomic() || self.split_at.is_some(),
            (Kind::Array, _, Some(list)) => self.shape_of(list) != ListShape::Atomic,
            _ => false,
        }
    }

    pub(super) fn push(
        &mut self,
        kind: ChangeKind,
        node: NodeKind,
        leaf: bool,
        (old, new): RawPair<'a>,
    ) -> Result<(), DiffError> {
        self.room = self.room.checked_sub(self.path.len()).ok_or(DiffError::Size)?;
        let (path, atomic_at) = (self.path.clone(), self.split_at);
        self.found.changes.push(Change { path, kind, node, leaf, old, new, atomic_at, split: false });
        Ok(())
    }

    fn item_or(&self, other: NodeKind) -> NodeKind {
        match self.path.last() {
            Some(Element::Key(_) | Element::Value(_)) => NodeKind::Item,
            _ => other,
        }
    }

    /// The error of reading the value at the current path.
    pub(super) fn json(&self, source: RawError) -> DiffError {
        match source {
            RawError::Depth(_) => {
                let start = self.path.elements().get(..4).unwrap_or(&self.path);
                DiffError::Depth(DisplayPath(start).to_string())
            }
            source => DiffError::Json { at: self.path.to_string(), source },
        }
    }
}

/// The form in which a side is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Scalar,
    List,
    Map,
}

impl Form {
    /// The form of a value at a node: its own if the node has that form. A value that
    /// fits none is compared as a leaf, which the API server's validation precludes.
    fn of(side: Option<Node<'_, '_>>, node: &SchemaNode) -> Self {
        match side.map(|side| side.raw.kind()) {
            // `null` takes the form that the node has.
            Some(Kind::Object | Kind::Null) if node.map().is_some() => Self::Map,
            Some(Kind::Array | Kind::Null) if node.list().is_some() => Self::List,
            _ => Self::Scalar,
        }
    }
}

/// Metadata, which is an object if it is there.
fn map_or_nothing<'a, 't>(side: Option<Node<'a, 't>>) -> Result<Option<Node<'a, 't>>, DiffError> {
    match side.map(|side| side.raw.kind()) {
        None | Some(Kind::Null) => Ok(None),
        Some(Kind::Object) => Ok(side),
        Some(kind) => Err(DiffError::NotAnObject(kind)),
    }
}

/// The element of a member, sharing the name with the schema if it can.
fn element_of(name: &str, map: Option<&MapNode>) -> Element {
    map.map_or_else(|| Element::field(name), |map| map.element_of(name))
}

fn same_text(old: Option<Raw<'_>>, new: Option<Raw<'_>>) -> bool {
    matches!((old, new), (Some(old), Some(new)) if old.text() == new.text())
}

pub(super) fn raws<'a>((old, new): Pair<'a, '_>) -> RawPair<'a> {
    (old.map(|node| node.raw), new.map(|node| node.raw))
}

pub(super) fn of_kind<'a, 't>(side: Option<Node<'a, 't>>, kind: Kind) -> Option<Node<'a, 't>> {
    side.filter(|node| node.raw.kind() == kind)
}

pub(super) fn is_empty(side: Option<Node<'_, '_>>) -> bool {
    side.is_none_or(|node| node.raw.is_empty_container())
}
