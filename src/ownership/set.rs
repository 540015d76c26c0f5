//! Sets of paths and their algebra.
//!
//! In: paths, one by one or as `FieldsV1` (read by `fieldsv1`). Out: membership,
//! union, intersection, differences, leaves and ordered iteration. A set is a trie:
//! each node says whether it is itself a member and what lies below it. As in
//! structured-merge-diff, membership of a node says nothing of the nodes below.
//! This module gives no meaning to a set: it never reads a schema or a policy.

use std::fmt;
use std::iter::Peekable;
use std::slice;

use super::element::Element;
use super::path::{DisplayPath, Path};

/// How deep a set distinguishes paths: longer ones stand for their ancestor of
/// this length.
///
/// Whoever writes an object chooses its depth, and functions here call themselves
/// once per level, so that some bound is needed; and one that turned such objects
/// into errors would let anybody make an object undecidable. Nothing is lost for
/// a decision, because the paths that policies name are far shorter. The number
/// lies below the 128 levels that `serde_json` reads.
pub const MAX_DEPTH: usize = 120;

/// A set of paths.
///
/// Seen from a node (see [`PathSet::get`]) a set holds the paths from that node
/// on; the empty path is then the node itself.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct PathSet {
    member: bool,
    /// Sorted. No node in here is empty, so that equal sets have equal tries. Most nodes have few children, and sets
    /// are mostly made in order: a list costs less than a map to make and to free.
    children: Vec<(Element, Self)>,
}

impl PathSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { member: false, children: Vec::new() }
    }

    /// A node, made by who has read it. The children are in order, none twice; empty ones are left out.
    pub(super) fn from_children(member: bool, children: impl IntoIterator<Item = (Element, Self)>) -> Self {
        let children: Vec<_> = children.into_iter().filter(|(_, below)| !below.is_empty()).collect();
        debug_assert!(children.is_sorted_by(|(a, _), (b, _)| a < b), "children are in order");
        Self { member, children }
    }

    fn child(&self, element: &Element) -> Option<&Self> {
        let found = self.children.binary_search_by(|(child, _)| child.cmp(element)).ok()?;
        self.children.get(found).map(|(_, below)| below)
    }

    /// Takes over what `later` holds below itself, unless that is nothing, and its membership.
    pub(super) fn replace_below(&mut self, later: &mut Self) {
        self.member |= later.member;
        if !later.children.is_empty() {
            self.children = std::mem::take(&mut later.children);
        }
    }

    /// Adds a path and says whether it was new. Its ancestors are not added. Many paths are added in order, as
    /// [`Extend`] does: one that belongs before others moves them.
    pub fn insert(&mut self, path: &[Element]) -> bool {
        let mut node = self;
        for element in within_depth(path) {
            let place = match node.children.binary_search_by(|(child, _)| child.cmp(element)) {
                Ok(place) => place,
                Err(place) => {
                    node.children.insert(place, (element.clone(), Self::new()));
                    place
                }
            };
            match node.children.get_mut(place) {
                Some((_, below)) => node = below,
                None => return false,
            }
        }
        !std::mem::replace(&mut node.member, true)
    }

    /// Whether the set holds exactly this path.
    #[must_use]
    pub fn contains(&self, path: &[Element]) -> bool {
        self.get(path).is_some_and(|node| node.member)
    }

    /// Whether the set holds a proper ancestor of this path.
    #[must_use]
    pub fn covers_ancestor(&self, path: &[Element]) -> bool {
        let mut node = self;
        for element in within_depth(path) {
            if node.member {
                return true;
            }
            match node.child(element) {
                Some(below) => node = below,
                None => return false,
            }
        }
        false
    }

    /// Whether the set holds a path properly below this one.
    #[must_use]
    pub fn has_below(&self, path: &[Element]) -> bool {
        self.get(path).is_some_and(|node| !node.children.is_empty())
    }

    /// Whether the set holds no path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    /// The number of paths. Counts them.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.member) + self.children.iter().map(|(_, below)| below.len()).sum::<usize>()
    }

    /// Whether the node from which this set is seen is itself a member.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.member
    }

    /// The next nodes below, in order, each with what the set holds from there on.
    #[must_use]
    pub fn children(&self) -> impl ExactSizeIterator<Item = (&Element, &Self)> {
        self.children.iter().map(|(element, below)| (element, below))
    }

    /// What the set holds at `element` and below it; `None` if nothing.
    #[must_use]
    pub fn with_prefix(&self, element: &Element) -> Option<&Self> {
        self.child(element)
    }

    /// What the set holds at a path and below it; `None` if nothing.
    #[must_use]
    pub fn get(&self, path: &[Element]) -> Option<&Self> {
        let node = within_depth(path).iter().try_fold(self, |node, element| node.child(element))?;
        (!node.is_empty()).then_some(node)
    }

    /// The paths that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.combine(other, Keep { left: true, both: true, right: true })
    }

    /// The paths that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, Keep { left: false, both: true, right: false })
    }

    /// The paths that are in this set and not in the other. A path stays if only
    /// its ancestor is in the other: see [`PathSet::recursive_difference`].
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, Keep { left: true, both: false, right: false })
    }

    /// The paths of this set that are neither in the other nor below a path of it.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        if other.member {
            return Self::new();
        }
        let children = Joined::of(self, other).filter_map(|(element, left, right)| match (left, right) {
            (Some(left), Some(right)) => Some((element.clone(), left.recursive_difference(right))),
            (Some(left), None) => Some((element.clone(), left.clone())),
            (None, _) => None,
        });
        Self::from_children(self.member, children)
    }

    /// Whether the two sets share a path. Makes no set.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        (self.member && other.member)
            || Joined::of(self, other).any(|(_, left, right)| match (left, right) {
                (Some(left), Some(right)) => left.intersects(right),
                _ => false,
            })
    }

    /// The paths of the set below which it holds no other.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let children = self.children.iter().map(|(element, below)| (element.clone(), below.leaves()));
        Self::from_children(self.member && self.children.is_empty(), children)
    }

    /// The paths in order: a node before what lies below it. Each is a copy; see
    /// [`PathSet::for_each`].
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { root: self.member, path: Path::root(), open: vec![self.children.iter()] }
    }

    /// Shows each path in order, without copying paths.
    pub fn for_each(&self, mut show: impl FnMut(&[Element])) {
        self.show_below(&mut Vec::new(), &mut show);
    }

    fn show_below(&self, path: &mut Vec<Element>, show: &mut impl FnMut(&[Element])) {
        if self.member {
            show(path);
        }
        for (element, below) in &self.children {
            path.push(element.clone());
            below.show_below(path, show);
            path.pop();
        }
    }

    fn combine(&self, other: &Self, keep: Keep) -> Self {
        let member = match (self.member, other.member) {
            (true, true) => keep.both,
            (true, false) => keep.left,
            (false, true) => keep.right,
            (false, false) => false,
        };
        let children = Joined::of(self, other).filter_map(|(element, left, right)| {
            let below = match (left, right) {
                (Some(left), Some(right)) => left.combine(right, keep),
                (Some(only), None) if keep.left => only.clone(),
                (None, Some(only)) if keep.right => only.clone(),
                _ => return None,
            };
            Some((element.clone(), below))
        });
        Self::from_children(member, children)
    }
}

/// The part of a path that sets distinguish.
fn within_depth(path: &[Element]) -> &[Element] {
    path.get(..MAX_DEPTH).unwrap_or(path)
}

/// Which paths a combination of two sets keeps.
#[derive(Clone, Copy)]
struct Keep {
    left: bool,
    both: bool,
    right: bool,
}

/// The children of two nodes side by side, in order, in one pass over both.
struct Joined<'a> {
    left: Peekable<slice::Iter<'a, (Element, PathSet)>>,
    right: Peekable<slice::Iter<'a, (Element, PathSet)>>,
}

impl<'a> Joined<'a> {
    fn of(left: &'a PathSet, right: &'a PathSet) -> Self {
        Self { left: left.children.iter().peekable(), right: right.children.iter().peekable() }
    }
}

impl<'a> Iterator for Joined<'a> {
    type Item = (&'a Element, Option<&'a PathSet>, Option<&'a PathSet>);

    fn next(&mut self) -> Option<Self::Item> {
        let order = match (self.left.peek(), self.right.peek()) {
            (Some((left, _)), Some((right, _))) => left.cmp(right),
            (_, None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
        };
        let left = if order.is_le() { self.left.next() } else { None };
        let right = if order.is_ge() { self.right.next() } else { None };
        let (element, _) = left.or(right)?;
        Some((element, left.map(|(_, node)| node), right.map(|(_, node)| node)))
    }
}

/// The paths of a set in order. Made by [`PathSet::iter`].
pub struct Iter<'a> {
    /// The empty path is still to come.
    root: bool,
    path: Path,
    /// The nodes from the root to the present one that are not finished.
    open: Vec<slice::Iter<'a, (Element, PathSet)>>,
}

impl Iterator for Iter<'_> {
    type Item = Path;

    fn next(&mut self) -> Option<Path> {
        if std::mem::take(&mut self.root) {
            return Some(Path::root());
        }
        loop {
            if let Some((element, node)) = self.open.last_mut()?.next() {
                self.path.push(element.clone());
                self.open.push(node.children.iter());
                if node.member {
                    return Some(self.path.clone());
                }
            } else {
                self.open.pop();
                self.path.pop();
            }
        }
    }
}

impl<'a> IntoIterator for &'a PathSet {
    type Item = Path;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<P: AsRef<[Element]>> FromIterator<P> for PathSet {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Self {
        let mut set = Self::new();
        set.extend(paths);
        set
    }
}

impl<P: AsRef<[Element]>> Extend<P> for PathSet {
    fn extend<I: IntoIterator<Item = P>>(&mut self, paths: I) {
        let mut paths: Vec<P> = paths.into_iter().collect();
        paths.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
        for path in paths {
            self.insert(path.as_ref());
        }
    }
}

/// Shows the paths as text, because the trie itself is unreadable.
impl fmt::Debug for PathSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_set();
        self.for_each(|path| {
            list.entry(&format_args!("{}", DisplayPath(path)));
        });
        list.finish()
    }
}

#[cfg(test)]
mod tests;
