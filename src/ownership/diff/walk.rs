//! The descent through two objects and their schema.
//!
//! In: two values and a node. Out: changes, in the walker. The cases follow
//! structured-merge-diff's `compare.go` one by one; lists are in `list`.

use super::super::path::{DisplayPath, Path};
use super::super::raw::{Kind, Member, Raw, RawError};
use super::super::schema::{MapNode, SchemaNode};
use super::super::value;
use super::{Change, ChangeKind, DiffError, Element, ListShape, MAX_DEPTH, NodeKind, Refine, Split};

pub(super) const METADATA: &str = "metadata";

/// Two values at one path; at least one is there.
pub(super) type Pair<'a> = (Option<Raw<'a>>, Option<Raw<'a>>);

/// How a node was treated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Treated {
    /// Its parts were compared.
    Parts,
    /// It is a scalar, a null or empty.
    Leaf,
    /// It is a value of several parts, and they are not compared.
    Whole,
}

pub(super) struct Walker<'a, 'r> {
    pub(super) path: Path,
    pub(super) changes: Vec<Change<'a>>,
    refine: Option<&'r dyn Refine>,
    /// Inside a split atomic node: the length of its path.
    pub(super) split_at: Option<usize>,
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

impl<'a, 'r> Walker<'a, 'r> {
    pub(super) fn new(refine: Option<&'r dyn Refine>) -> Self {
        Self { path: Path::root(), changes: Vec::new(), refine, split_at: None }
    }

    /// Compares two whole objects. The object itself is no path of its own.
    pub(super) fn run(
        mut self,
        old: Option<Raw<'a>>,
        new: Option<Raw<'a>>,
        root: &SchemaNode,
    ) -> Result<Vec<Change<'a>>, DiffError> {
        self.members((old, new), root.map())?;
        Ok(self.changes)
    }

    /// Compares what stands at the current path.
    pub(super) fn compare(&mut self, pair: Pair<'a>, node: &SchemaNode) -> Result<(), DiffError> {
        if let (Some(old), Some(new)) = pair
            && old.text() == new.text()
        {
            return Ok(());
        }
        if self.path.len() > MAX_DEPTH {
            let start = self.path.elements().get(..4).unwrap_or_default();
            return Err(DiffError::Depth(DisplayPath(start).to_string()));
        }
        let container = self.container_came_or_went(pair, node);
        if let Some(kind) = container {
            self.push(kind, self.item_or(NodeKind::Container), false, pair);
        }
        let treated = self.treat(pair, node)?;
        if treated != Treated::Parts {
            self.whole(treated, pair, node)?;
        }
        Ok(())
    }

    /// Compares the parts of both sides, each by its own form.
    fn treat(&mut self, (old, new): Pair<'a>, node: &SchemaNode) -> Result<Treated, DiffError> {
        let (Some(a), Some(b)) = (old, new) else {
            return self.treat_as(Form::of(old.or(new), node), (old, new), node);
        };
        let (a, b) = (Form::of(Some(a), node), Form::of(Some(b), node));
        let first = self.treat_as(a, (old, new), node)?;
        if a == b {
            return Ok(first);
        }
        // Another form than before: the parts of each side, and the node itself where
        // one of the two forms has no parts.
        Ok(first.max(self.treat_as(b, (old, new), node)?))
    }

    fn treat_as(&mut self, form: Form, pair: Pair<'a>, node: &SchemaNode) -> Result<Treated, DiffError> {
        match (form, node.map(), node.list()) {
            (Form::Map, Some(map), _) => self.map(pair, map),
            (Form::List, _, Some(list)) => self.list(pair, list),
            _ => Ok(Treated::Leaf),
        }
    }

    fn map(&mut self, (old, new): Pair<'a>, map: &MapNode) -> Result<Treated, DiffError> {
        let (old, new) = (of_kind(old, Kind::Object), of_kind(new, Kind::Object));
        if map.is_atomic() && self.split_at.is_none() {
            return Ok(Treated::Whole);
        }
        if is_empty(old) && is_empty(new) {
            return Ok(Treated::Leaf);
        }
        self.members((old, new), Some(map))?;
        Ok(Treated::Parts)
    }

    /// Compares the members of two objects by name.
    fn members(&mut self, (old, new): Pair<'a>, map: Option<&MapNode>) -> Result<(), DiffError> {
        let mut old = self.members_of(old)?.into_iter().peekable();
        let mut new = self.members_of(new)?.into_iter().peekable();
        loop {
            // Both are sorted: the smaller name is on one side only.
            let order = match (old.peek(), new.peek()) {
                (Some((a, _)), Some((b, _))) => a.cmp(b),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return Ok(()),
            };
            let before = if order.is_le() { old.next() } else { None };
            let after = if order.is_ge() { new.next() } else { None };
            let pair = (before.as_ref().map(|m| m.1), after.as_ref().map(|m| m.1));
            if let (Some(old), Some(new)) = pair
                && old.text() == new.text()
            {
                continue;
            }
            if let Some((name, _)) = before.as_ref().or(after.as_ref()) {
                self.member(name, pair, map)?;
            }
        }
    }

    fn member(&mut self, name: &str, pair: Pair<'a>, map: Option<&MapNode>) -> Result<(), DiffError> {
        if self.path.len() < 2 && is_unowned_field(&self.path, name) {
            return Ok(());
        }
        if self.path.is_empty() && name == METADATA {
            return self.metadata(pair, map);
        }
        // A name that the schema does not know should have been pruned. It is judged
        // by what it holds.
        let node = map.and_then(|map| map.field(name)).unwrap_or_else(|| SchemaNode::deduced());
        self.path.push(map.map_or_else(|| Element::field(name), |map| map.element_of(name)));
        self.compare(pair, node)?;
        self.path.pop();
        Ok(())
    }

    /// Metadata is always there, and no path of its own: only what is in it counts.
    fn metadata(&mut self, (old, new): Pair<'a>, root: Option<&MapNode>) -> Result<(), DiffError> {
        let side = |raw: Option<Raw<'a>>| match raw.map(|raw| (raw, raw.kind())) {
            None | Some((_, Kind::Null)) => Ok(None),
            Some((raw, Kind::Object)) => Ok(Some(raw)),
            Some((_, kind)) => Err(DiffError::NotAnObject(kind)),
        };
        let pair = (side(old)?, side(new)?);
        let node = root.and_then(|map| map.field(METADATA)).unwrap_or_else(|| SchemaNode::deduced());
        self.path.push(Element::field(METADATA));
        self.members(pair, node.map())?;
        self.path.pop();
        Ok(())
    }

    fn members_of(&self, side: Option<Raw<'a>>) -> Result<Vec<Member<'a>>, DiffError> {
        side.map_or(Ok(Vec::new()), |raw| raw.members().map_err(|error| self.json(error)))
    }

    /// Reports a node that was not, or not only, compared part by part.
    fn whole(&mut self, treated: Treated, pair: Pair<'a>, node: &SchemaNode) -> Result<(), DiffError> {
        let kind = match pair {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            (Some(old), Some(new)) => {
                if value::equal(old, new).map_err(|error| self.json(error))? {
                    return Ok(());
                }
                ChangeKind::Modified
            }
        };
        let plain = if treated == Treated::Whole { NodeKind::Atomic } else { NodeKind::Leaf };
        let shown = if kind == ChangeKind::Modified { plain } else { self.item_or(plain) };
        self.push(kind, shown, true, pair);
        if treated == Treated::Whole && self.split_at.is_none() {
            self.split(pair, node)?;
        }
        Ok(())
    }

    /// Looks into the atomic node at the current path, if there are claims below it.
    fn split(&mut self, pair: Pair<'a>, node: &SchemaNode) -> Result<(), DiffError> {
        if self.refine.is_none_or(|refine| refine.split(&self.path).is_none()) {
            return Ok(());
        }
        if let Some(atomic) = self.changes.last_mut() {
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

    /// Whether a container whose parts are compared is on one side only.
    fn container_came_or_went(&self, pair: Pair<'a>, node: &SchemaNode) -> Option<ChangeKind> {
        let (kind, only) = match pair {
            (None, Some(new)) => (ChangeKind::Added, new),
            (Some(old), None) => (ChangeKind::Removed, old),
            _ => return None,
        };
        if only.is_empty_container() {
            return None;
        }
        let has_parts = match (only.kind(), node.map(), node.list()) {
            (Kind::Object, Some(map), _) => !map.is_atomic() || self.split_at.is_some(),
            (Kind::Array, _, Some(list)) => self.shape_of(list) != ListShape::Atomic,
            _ => false,
        };
        has_parts.then_some(kind)
    }

    pub(super) fn push(&mut self, kind: ChangeKind, node: NodeKind, leaf: bool, (old, new): Pair<'a>) {
        let (path, atomic_at) = (self.path.clone(), self.split_at);
        self.changes.push(Change { path, kind, node, leaf, old, new, atomic_at, split: false });
    }

    fn item_or(&self, other: NodeKind) -> NodeKind {
        match self.path.last() {
            Some(Element::Key(_) | Element::Value(_)) => NodeKind::Item,
            _ => other,
        }
    }

    pub(super) fn json(&self, source: RawError) -> DiffError {
        DiffError::Json { at: self.path.to_string(), source }
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
    fn of(side: Option<Raw<'_>>, node: &SchemaNode) -> Self {
        match side.map(Raw::kind) {
            Some(Kind::Object) if node.map().is_some() => Self::Map,
            Some(Kind::Array) if node.list().is_some() => Self::List,
            // `null` takes the form that the node has.
            Some(Kind::Null) if node.map().is_some() => Self::Map,
            Some(Kind::Null) if node.list().is_some() => Self::List,
            _ => Self::Scalar,
        }
    }
}

fn of_kind(side: Option<Raw<'_>>, kind: Kind) -> Option<Raw<'_>> {
    side.filter(|raw| raw.kind() == kind)
}

pub(super) fn is_empty(side: Option<Raw<'_>>) -> bool {
    side.is_none_or(Raw::is_empty_container)
}
