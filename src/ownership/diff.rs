//! The typed difference of two objects.
//!
//! In: the old and the new object as borrowed JSON, and the schema of their kind.
//! Out: the changed paths, exactly those that structured-merge-diff's `Compare`
//! puts into its added, removed and modified sets: keyed lists by key, sets by
//! value, atomic nodes whole, order free, numbers by value. Text that is the same
//! on both sides is stepped over, so a small change costs a scan of the levels
//! above it.
//!
//! Atomic nodes that have claims below can be split in addition, see [`Refine`].
//! What cannot be compared is an error. This module must not know policies, and it
//! must never leave a difference out silently, except for the fields that nobody
//! can own ([`is_unowned`]).

mod list;
mod walk;

use thiserror::Error;

use super::element::Element;
use super::path::Path;
use super::raw::{Kind, Node, Raw, RawError, Tree};
use super::schema::{ListShape, Schema};

pub use super::value::MAX_DEPTH;

/// Differences whose paths have more elements than this in all are refused: a small
/// object that is deep and wide at its deepest would fill the memory otherwise.
pub const MAX_PATH_ELEMENTS: usize = 1 << 21;

/// What happened at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    /// It is only in the new object.
    Added,
    /// It is only in the old object.
    Removed,
    /// It is in both, with different values.
    Modified,
}

/// What stands at the path of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// A scalar, a `null`, an empty map or an empty list.
    Leaf,
    /// An atomic list or map, taken as one value.
    Atomic,
    /// A whole item of a keyed list or set, added or removed.
    Item,
    /// A struct or map, or a list of items, added or removed: what is in it is listed by itself.
    Container,
    /// Several items with the same key or value, taken as one. What changed below is
    /// not known: a claim on any part of such an item is touched.
    Duplicates,
    /// A subtree that nobody asked to see in parts, see [`Refine::descends`].
    Whole,
    /// What differs in a split list beside its items: their order, or items that
    /// have none of the keys.
    Rest,
}

/// One changed path.
#[derive(Debug, Clone)]
pub struct Change<'a> {
    /// Where.
    pub path: Path,
    /// What happened.
    pub kind: ChangeKind,
    /// What stands there.
    pub node: NodeKind,
    /// Whether this is all there is to say about the node. Otherwise each part of
    /// it follows as a change of its own, and this one only tells that the
    /// container came or went.
    pub leaf: bool,
    /// The value before. Of duplicates, the first.
    pub old: Option<Raw<'a>>,
    /// The value after. Of duplicates, the first.
    pub new: Option<Raw<'a>>,
    /// For a part of a split atomic node: the length of the path of that node. Such
    /// changes are not in managedFields; those that no claim covers roll up to the
    /// node, whose own change stands before them.
    pub atomic_at: Option<usize>,
    /// For an atomic node: its parts follow, with `atomic_at` set. They name
    /// every difference inside the node.
    pub split: bool,
}

/// How to look into an atomic node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Split {
    /// By member. Maps further down are split too.
    Members,
    /// By item, told apart in this way.
    Items(ListShape),
}

/// Says where claims lie, so that atomic nodes are looked into where they matter
/// and other subtrees are not where they do not.
///
/// The API server takes an atomic node (an atomic list or map, and every list below
/// preserve-unknown-fields) as one value. A claim below it can be judged only if the
/// change is split; list keys then come from the claims themselves.
///
/// Asked at every changed atomic node, and inside a split node at every list whose
/// schema tells its items not apart.
pub trait Refine {
    /// How to split the atomic node at `path`; `None` to leave it whole.
    fn split(&self, path: &[Element]) -> Option<Split>;

    /// Whether the parts of the changed node at `path` matter one by one. If not, it
    /// is one change of kind [`NodeKind::Whole`], which saves most of the work on
    /// CREATE. Without this, the changes are those of structured-merge-diff.
    fn descends(&self, path: &[Element]) -> bool {
        let _ = path;
        true
    }
}

/// Why two objects cannot be compared. Never to be taken as "no change".
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DiffError {
    /// One of the two is no object.
    #[error("expected an object, found {0}")]
    NotAnObject(Kind),
    /// The objects differ deeper than [`MAX_DEPTH`].
    #[error("the difference is nested deeper than {MAX_DEPTH} levels, below {0}")]
    Depth(String),
    /// The paths of all changes have more than [`MAX_PATH_ELEMENTS`] elements.
    #[error("the difference is too large")]
    Size,
    /// The JSON is ambiguous or broken.
    #[error("{at}: {source}")]
    Json {
        /// Path of the value.
        at: String,
        /// What is wrong with it.
        source: RawError,
    },
    /// A list has an item that its schema cannot tell from the others. The API
    /// server stops tracking such an object.
    #[error("{at}: {what}")]
    Item {
        /// Path of the list.
        at: String,
        /// What is wrong with the item.
        what: &'static str,
    },
}

impl DiffError {
    /// A label for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotAnObject(_) => "not_an_object",
            Self::Depth(_) => "too_deep",
            Self::Size => "too_large",
            Self::Json { .. } => "json",
            Self::Item { .. } => "list_item",
        }
    }
}

/// Two values at one path; at least one is there.
pub(super) type Pair<'a, 't> = (Option<Node<'a, 't>>, Option<Node<'a, 't>>);

/// What differs between two objects.
#[derive(Debug, Default)]
pub(super) struct Difference<'a, 't> {
    /// The changed paths.
    pub(super) changes: Vec<Change<'a>>,
    /// `metadata.managedFields` of both, if their texts differ. They are found on the way.
    pub(super) managed_fields: Pair<'a, 't>,
}

/// The changes from `old` to `new`.
///
/// Without `old` everything was added (CREATE), without `new` everything was removed
/// (DELETE). A container comes before its parts; there is no other order.
pub fn diff<'a>(
    old: Option<Raw<'a>>,
    new: Option<Raw<'a>>,
    schema: &Schema,
    refine: Option<&dyn Refine>,
) -> Result<Vec<Change<'a>>, DiffError> {
    let tree = |side: Option<Raw<'a>>| side.map(Tree::new).transpose();
    let trees = tree(old).and_then(|old| Ok((old, tree(new)?)));
    let (old, new) = trees.map_err(|source| DiffError::Json { at: Path::root().to_string(), source })?;
    let nodes = (old.as_ref().map(Tree::root), new.as_ref().map(Tree::root));
    difference(nodes, schema, refine).map(|difference| difference.changes)
}

/// As [`diff`], with what else was found.
pub(super) fn difference<'a, 't>(
    (old, new): Pair<'a, 't>,
    schema: &Schema,
    refine: Option<&dyn Refine>,
) -> Result<Difference<'a, 't>, DiffError> {
    for side in [old, new].into_iter().flatten() {
        if side.raw.kind() != Kind::Object {
            return Err(DiffError::NotAnObject(side.raw.kind()));
        }
    }
    let same = matches!((old, new), (Some(old), Some(new)) if old.raw.text() == new.raw.text());
    if same {
        return Ok(Difference::default());
    }
    walk::Walker::new(refine).run((old, new), schema.root())
}

/// Whether nobody can own the path: what names the object, and what only the API
/// server writes. The API server keeps the same list out of managedFields; the two
/// deletion fields are here because only DELETE can set them.
#[must_use]
pub fn is_unowned(path: &[Element]) -> bool {
    match path {
        [] => true,
        [Element::Field(name)] => walk::is_unowned_field(&[], name) || &**name == walk::METADATA,
        [parent @ Element::Field(_), Element::Field(name)] => {
            walk::is_unowned_field(std::slice::from_ref(parent), name)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
