//! What a request does to `managedFields`: which entries gain, lose or keep which paths.
//!
//! Input: the lists of the stored and the new object. Output: for each manager whose entry changed a
//! [`Movement`]. Of an entry that is the same text on both sides only the head is read, and of one
//! that changed only the paths that did. Nothing here decides: an entry is evidence, not authority.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;

use super::diff::Pair;
use super::entry::{EntryError, ManagedFieldsEntry, Operation, nodes, parse_entries, parse_entry};
use super::fieldsv1::{self, FieldsV1Error, parse_changed, parse_changed_nodes};
use super::path::Path;
use super::raw::{Kind, Node, Raw};
use super::set::PathSet;
use super::verdict::Holder;

/// Manager under which the server files what was there before the first apply.
pub(super) const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Manager into which the server merges its oldest Update entries.
pub(super) const ANCIENT_CHANGES: &str = "ancient-changes";

/// Holders that a message names: more would not be read.
const SHOWN_HOLDERS: usize = 3;

/// The entries before and after a request.
#[derive(Debug, Default)]
pub(super) struct Tracking<'f> {
    stored: Option<Raw<'f>>,
    new: Option<Raw<'f>>,
    /// Entries of the stored list that are not, or not like this, in the new one.
    pub(super) gone: Vec<ManagedFieldsEntry<'f>>,
    /// Entries of the new list that are not, or not like this, in the stored one.
    pub(super) come: Vec<ManagedFieldsEntry<'f>>,
    /// Entries of both lists.
    kept: Vec<ManagedFieldsEntry<'f>>,
    pub(super) movements: Vec<Movement<'f>>,
}

/// How the holdings of one manager (name, operation, subresource) changed.
#[derive(Debug)]
pub(super) struct Movement<'f> {
    pub(super) manager: Cow<'f, str>,
    pub(super) operation: Operation,
    pub(super) subresource: Cow<'f, str>,
    pub(super) before: Holding<'f>,
    pub(super) after: Holding<'f>,
    pub(super) lost: PathSet,
    pub(super) gained: PathSet,
    /// An entry that is on both sides has another time.
    pub(super) retimed: bool,
    /// The stored list has several entries where there can be one.
    pub(super) doubled: bool,
}

/// All that a manager holds on one side. Read when first asked for: mostly nobody asks.
#[derive(Debug)]
pub(super) struct Holding<'f> {
    /// An updater may hold an entry for each version that it has written: together they are its hold.
    fields: Vec<Raw<'f>>,
    set: OnceCell<PathSet>,
}

impl<'f> Tracking<'f> {
    /// Compares two lists. One that is not there is empty; two that are the same need not be given.
    pub(super) fn read<'t>((stored, new): Pair<'f, 't>) -> Result<Self, TrackingError> {
        let entries = |list: Option<Node<'f, 't>>| list.map_or(Ok(Vec::new()), nodes);
        let (before, after) = (entries(stored)?, entries(new)?);
        let (stored, new) = (stored.map(|list| list.raw), new.map(|list| list.raw));
        let (old_texts, new_texts) = (Texts::of(&before), Texts::of(&after));
        // The paths of an entry stand in a tree already.
        let mut fields: Vec<Node<'f, 't>> = Vec::new();
        let mut heads = |entries: &[Node<'f, 't>], wanted: &dyn Fn(&Node<'f, 't>) -> bool| {
            let wanted = entries.iter().enumerate().filter(|(_, entry)| wanted(entry));
            let read = wanted.map(|(index, entry)| {
                let (entry, paths) = parse_entry(index, *entry)?;
                fields.extend(paths);
                Ok(entry)
            });
            read.collect::<Result<Vec<_>, TrackingError>>()
        };
        let gone = heads(&before, &|entry| !new_texts.contain(entry))?;
        let come = heads(&after, &|entry| !old_texts.contain(entry))?;
        if gone.is_empty() && come.is_empty() {
            return Ok(Self { stored, new, ..Self::default() });
        }
        let kept = heads(&before, &|entry| new_texts.contain(entry))?;
        let mut moved: Vec<_> = gone.iter().chain(&come).collect();
        moved.sort_by(|a, b| a.identity().cmp(&b.identity()));
        moved.dedup_by(|a, b| a.identity() == b.identity());
        let movements = moved.into_iter().map(|one| {
            Movement::of(one, &of_manager(one, &gone, &kept), &of_manager(one, &come, &kept), &fields)
        });
        let movements = movements.collect::<Result<_, _>>()?;
        Ok(Self { stored, new, gone, come, kept, movements })
    }

    /// Whether the stored object has no entries.
    pub(super) fn was_empty(&self) -> bool {
        self.stored.is_none_or(is_empty)
    }

    /// Whether the new object has no entries.
    pub(super) fn is_empty(&self) -> bool {
        self.new.is_none_or(is_empty)
    }

    /// All entries of the new object, where any moved, in no particular order.
    pub(super) fn after(&self) -> impl Iterator<Item = &ManagedFieldsEntry<'f>> {
        self.come.iter().chain(&self.kept)
    }

    /// The managers that hold a path in the stored object, for messages.
    pub(super) fn holders_before(object: Option<Node<'f, '_>>, path: &Path) -> Vec<Holder> {
        let path = path.elements();
        let holds = |entry: &ManagedFieldsEntry<'f>| {
            entry.set().is_ok_and(|set| set.contains(path) || set.has_below(path))
        };
        // What cannot be read names nobody; the decision itself does not rest on it.
        let list = match object.map(|object| object.get("metadata")) {
            Some(Ok(Some(metadata))) => metadata.get("managedFields").ok().flatten(),
            _ => None,
        };
        let entries = list.and_then(|list| parse_entries(list.raw).ok()).unwrap_or_default();
        entries
            .iter()
            .filter(|entry| holds(entry))
            .take(SHOWN_HOLDERS)
            .map(|entry| Holder {
                manager: entry.manager.clone().into_owned(),
                operation: entry.operation.to_string(),
            })
            .collect()
    }

    /// Whether an entry of this manager gained a path or a new time. What a schema that became
    /// atomic does to entries is no gain.
    pub(super) fn gains(&self, manager: &str) -> bool {
        self.movements.iter().any(|movement| {
            // What cannot be read was no hold before.
            let new = |path: Path| !movement.before.set().is_ok_and(|set| set.has_below(path.elements()));
            movement.manager == manager && (movement.retimed || movement.gained.iter().any(new))
        })
    }
}

/// Why the entries of an object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TrackingError {
    /// The list or one of its entries.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The paths of one entry.
    #[error("the managedFields entry of {manager:?} cannot be read: {source}")]
    Fields { manager: String, source: FieldsV1Error },
}

/// The texts of the entries of one list, sorted. The length first, so that texts are seldom compared.
struct Texts<'f>(Vec<(usize, &'f str)>);

impl<'f> Texts<'f> {
    fn of(entries: &[Node<'f, '_>]) -> Self {
        let mut texts: Vec<_> = entries.iter().map(Self::key).collect();
        texts.sort_unstable();
        Self(texts)
    }

    fn contain(&self, entry: &Node<'f, '_>) -> bool {
        self.0.binary_search(&Self::key(entry)).is_ok()
    }

    fn key(entry: &Node<'f, '_>) -> (usize, &'f str) {
        (entry.raw.text().len(), entry.raw.text())
    }
}

/// The entries of one manager on a side: those that changed, and those that stay, which may be its
/// own in another version.
fn of_manager<'e, 'f>(
    one: &ManagedFieldsEntry<'f>,
    changed: &'e [ManagedFieldsEntry<'f>],
    kept: &'e [ManagedFieldsEntry<'f>],
) -> Vec<&'e ManagedFieldsEntry<'f>> {
    changed.iter().chain(kept).filter(|entry| entry.identity() == one.identity()).collect()
}

fn is_empty(list: Raw<'_>) -> bool {
    list.kind() == Kind::Null || list.is_empty_container()
}

impl<'f> Movement<'f> {
    /// The movement of the manager of `one` between its entries of both sides. `trees` has the paths of them all.
    fn of(
        one: &ManagedFieldsEntry<'f>,
        before: &[&ManagedFieldsEntry<'f>],
        after: &[&ManagedFieldsEntry<'f>],
        trees: &[Node<'f, '_>],
    ) -> Result<Self, TrackingError> {
        let holding = |entries: &[&ManagedFieldsEntry<'f>]| Holding {
            fields: entries.iter().filter_map(|entry| entry.fields).collect(),
            set: OnceCell::new(),
        };
        let times = |entries: &[&'_ ManagedFieldsEntry<'f>]| {
            entries.iter().map(|entry| entry.time.clone().unwrap_or_default()).collect::<BTreeSet<_>>()
        };
        let tree = |raw: Raw<'f>| trees.iter().find(|node| std::ptr::eq(node.raw.text(), raw.text()));
        let (held, holds) = (holding(before), holding(after));
        let moved = || match (&*held.fields, &*holds.fields) {
            ([old], [new]) if old.text() == new.text() => Ok((PathSet::new(), PathSet::new())),
            ([old], [new]) => {
                let (old, new) = match (tree(*old), tree(*new)) {
                    (Some(old), Some(new)) => parse_changed_nodes(*old, *new)?,
                    _ => parse_changed(*old, *new)?,
                };
                Ok((old.difference(&new), new.difference(&old)))
            }
            // An entry that comes or goes brings or takes all that it holds.
            ([], [new]) => Ok((PathSet::new(), fieldsv1::parse(new.text())?)),
            ([old], []) => Ok((fieldsv1::parse(old.text())?, PathSet::new())),
            _ => Ok((held.set()?.difference(holds.set()?), holds.set()?.difference(held.set()?))),
        };
        let unreadable = |source| TrackingError::Fields { manager: one.manager.clone().into_owned(), source };
        let (lost, gained) = moved().map_err(unreadable)?;
        let same_version =
            |old: &&&ManagedFieldsEntry<'f>, one: &ManagedFieldsEntry<'f>| old.api_version == one.api_version;
        let another_time = after.iter().any(|new| {
            let mut olds = before.iter().filter(|old| same_version(old, new)).peekable();
            olds.peek().is_some() && olds.all(|old| old.time != new.time)
        });
        let doubled = before.iter().any(|one| before.iter().filter(|old| same_version(old, one)).count() > 1);
        // The same paths under another version are the same entry, too.
        let kept = lost.is_empty() && gained.is_empty();
        Ok(Self {
            manager: one.manager.clone(),
            operation: one.operation,
            subresource: one.subresource.clone(),
            retimed: another_time || (kept && !doubled && times(before) != times(after)),
            doubled,
            before: held,
            after: holds,
            lost,
            gained,
        })
    }
}

impl Holding<'_> {
    /// The paths.
    pub(super) fn set(&self) -> Result<&PathSet, FieldsV1Error> {
        if self.set.get().is_none() {
            let mut set = PathSet::new();
            for fields in &self.fields {
                let more = fieldsv1::parse(fields.text())?;
                set = if set.is_empty() { more } else { set.union(&more) };
            }
            // Nobody else can have set it meanwhile.
            let _ = self.set.set(set);
        }
        Ok(self.set.get_or_init(PathSet::new))
    }
}
