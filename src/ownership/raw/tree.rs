//! A JSON value with the ends of all its containers known.
//!
//! In: a value. Out: nodes whose members and items are found without scanning what
//! is in them. One pass over the text makes the tree; after it, a descent to any
//! depth reads each name and scalar once. It must not copy text.

use std::borrow::Cow;

use super::{Kind, Raw, RawError, each_member, list_items, named_members, scan, sorted_members};

/// Bytes of text for which room for one container is made. In `managedFields`, which have more
/// containers than anything else, it is about this.
const TEXT_PER_CONTAINER: usize = 32;
/// Containers inside each other in most objects, `managedFields` included.
const USUAL_DEPTH: usize = 16;

/// The ends of the containers in a value.
#[derive(Debug)]
pub(in crate::ownership) struct Tree<'a> {
    raw: Raw<'a>,
    /// In the order in which they open, so that what is in a container follows it.
    containers: Vec<Container>,
}

#[derive(Clone, Copy, Debug)]
struct Container {
    /// The byte after the closing bracket.
    end: u32,
    /// The first container that is neither this one nor inside it.
    next: u32,
}

/// A value in a [`Tree`].
#[derive(Clone, Copy, Debug)]
pub(in crate::ownership) struct Node<'a, 't> {
    /// The value itself.
    pub(in crate::ownership) raw: Raw<'a>,
    tree: &'t Tree<'a>,
    /// Where the value begins in the text of the tree.
    start: u32,
    /// For a container: its number.
    container: u32,
}

impl<'a> Tree<'a> {
    pub(in crate::ownership) fn new(raw: Raw<'a>) -> Result<Self, RawError> {
        let mut containers: Vec<Container> = Vec::new();
        if !matches!(raw.kind(), Kind::Object | Kind::Array) {
            return Ok(Self { raw, containers });
        }
        // Positions are kept in 32 bits; request bodies are capped far below.
        u32::try_from(raw.text().len()).map_err(|_| RawError::Syntax)?;
        containers.reserve(raw.text().len() / TEXT_PER_CONTAINER);
        let mut open: Vec<usize> = Vec::with_capacity(USUAL_DEPTH);
        let mut balanced = true;
        scan::each_bracket(raw.text().as_bytes(), |at, opens| {
            if opens {
                open.push(containers.len());
                containers.push(Container { end: 0, next: 0 });
                return true;
            }
            let next = number(containers.len());
            match open.pop().and_then(|last| containers.get_mut(last)) {
                Some(container) => *container = Container { end: number(at + 1), next },
                None => balanced = false,
            }
            balanced
        });
        if balanced && open.is_empty() { Ok(Self { raw, containers }) } else { Err(RawError::Syntax) }
    }

    pub(in crate::ownership) fn root<'t>(&'t self) -> Node<'a, 't> {
        Node { raw: self.raw, tree: self, start: 0, container: 0 }
    }
}

impl<'a> Node<'a, '_> {
    /// The members of an object, sorted by name.
    pub(in crate::ownership) fn members(self) -> Result<Vec<(Cow<'a, str>, Self)>, RawError> {
        sorted_members(self.raw, self.reader())
    }

    /// The items of an array, in order.
    pub(in crate::ownership) fn items(self) -> Result<Vec<Self>, RawError> {
        list_items(self.raw, self.reader())
    }

    /// The value of one member of an object; `None` if it has no such member.
    pub(in crate::ownership) fn get(self, name: &str) -> Result<Option<Self>, RawError> {
        let [found] = self.named([name])?;
        Ok(found)
    }

    /// The values of some members of an object, in the order of `names`.
    pub(in crate::ownership) fn named<const N: usize>(
        self,
        names: [&str; N],
    ) -> Result<[Option<Self>; N], RawError> {
        let mut found = [None; N];
        named_members(self.raw, self.reader(), &names, &mut found)?;
        Ok(found)
    }

    /// The values of some members of an object: `slot` says where a name belongs.
    pub(in crate::ownership) fn pick(
        self,
        slots: usize,
        slot: impl Fn(&str) -> Option<usize>,
    ) -> Result<Vec<Option<Raw<'a>>>, RawError> {
        let mut picked = vec![None; slots];
        each_member(self.raw, self.reader(), |name, value: Self| {
            match slot(&name).and_then(|slot| picked.get_mut(slot)) {
                Some(place @ None) => *place = Some(value.raw),
                Some(Some(_)) => return Err(RawError::DuplicateName(name.into_owned())),
                None => {}
            }
            Ok(())
        })?;
        Ok(picked)
    }

    /// Reads the values of this container, which must be asked for in order.
    fn reader(self) -> impl FnMut(usize) -> Result<(Self, usize), RawError> {
        let (text, base, tree) = (self.raw, self.start, self.tree);
        let mut inner = self.container.saturating_add(1);
        move |at| {
            let bytes = text.text().as_bytes();
            let container = inner;
            let end = if let Some(b'{' | b'[') = bytes.get(at) {
                let index = usize::try_from(container).map_err(|_| RawError::Syntax)?;
                let Container { end, next } = *tree.containers.get(index).ok_or(RawError::Syntax)?;
                inner = next;
                end.checked_sub(base).and_then(|end| usize::try_from(end).ok())
            } else {
                scan::value_end(bytes, at)
            };
            let end = end.ok_or(RawError::Syntax)?;
            let start = base.saturating_add(number(at));
            Ok((Node { raw: text.slice(at, end)?, tree, start, container }, end))
        }
    }
}

/// The caller has checked that the whole text is shorter than 4 GiB.
fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
