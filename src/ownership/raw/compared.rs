//! The members in which two objects differ.
//!
//! In: two objects, of which one may be missing. Out: the names of the members that are the same text
//! on both sides, and both values of all others. The two texts are read in step: where the second
//! goes on like the first it is only compared, which costs a fraction of finding out where its values
//! end. This module must not say whether different texts are different values.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::{Kind, Raw, RawError, next_entry, scan};

/// Two objects, member by member.
#[derive(Debug, Default)]
pub(in crate::ownership) struct Compared<'a> {
    /// Names of the members that are the same text.
    pub(in crate::ownership) same: Vec<Cow<'a, str>>,
    /// The others.
    pub(in crate::ownership) changed: Vec<Changed<'a>>,
}

/// A member with other text, or on one side only.
pub(in crate::ownership) type Changed<'a> = (Cow<'a, str>, Option<Raw<'a>>, Option<Raw<'a>>);

/// Compares the members of two objects. What is not there has none.
pub(in crate::ownership) fn compare<'a>(
    old: Option<Raw<'a>>,
    new: Option<Raw<'a>>,
) -> Result<Compared<'a>, RawError> {
    if let (Some(old), Some(new)) = (old, new)
        && let Some(compared) = in_step(old, new)?
    {
        return Ok(compared);
    }
    let members = |side: Option<Raw<'a>>| side.map_or(Ok(Vec::new()), Raw::members);
    Ok(merged(members(old)?, members(new)?))
}

/// Reads both texts in step; `None` if they are written in a way that this does not understand:
/// names with escapes, or names out of order that are not in the same order on both sides.
fn in_step<'a>(old: Raw<'a>, new: Raw<'a>) -> Result<Option<Compared<'a>>, RawError> {
    let (mut old, mut new) = (Cursor::open(old)?, Cursor::open(new)?);
    let mut compared = Compared::default();
    // Whether each name was on both sides so far.
    let mut paired = true;
    let (mut before, mut after): (Option<Member<'a>>, Option<Member<'a>>) = (None, None);
    loop {
        if before.is_none() {
            before = old.member()?;
        }
        let like = before.filter(|_| after.is_none()).and_then(|member| new.like(old.object, member));
        if like.is_none() && after.is_none() {
            after = new.member()?;
        }
        let order = match (before, like.or(after)) {
            (Some(before), Some(after)) => before.name.cmp(after.name),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        let left = if order.is_le() { before.take() } else { None };
        let right = if order.is_ge() { like.or(after.take()) } else { None };
        if let Some(member) = left {
            old.step(member)?;
        }
        if let Some(member) = right {
            new.step(member)?;
        }
        match (left, right) {
            (Some(left), Some(right)) if like.is_some() || left.value.0 == right.value.0 => {
                compared.same.push(Cow::Borrowed(left.name));
            }
            (Some(Member { name, .. }), _) | (None, Some(Member { name, .. })) => {
                let values = (left.map(|member| member.value), right.map(|member| member.value));
                compared.changed.push((Cow::Borrowed(name), values.0, values.1));
            }
            (None, None) => {}
        }
        paired &= order.is_eq();
        if old.escaped || new.escaped || !(paired || (old.ascending && new.ascending)) {
            return Ok(None);
        }
    }
    // Names that ascend cannot repeat. Of others, those of the one side are those of the other.
    if !(old.ascending && new.ascending) {
        let mut names: Vec<&str> = compared.same.iter().map(|name| &**name).collect();
        names.extend(compared.changed.iter().map(|(name, ..)| &**name));
        names.sort_unstable();
        if let Some((name, _)) = names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b) {
            return Err(RawError::DuplicateName((*name).to_owned()));
        }
    }
    Ok(Some(compared))
}

/// A place between two members of an object.
struct Cursor<'a> {
    object: Raw<'a>,
    /// Where the next member begins; `None` at the end.
    at: Option<usize>,
    last: Option<&'a str>,
    /// Whether the names so far ascend.
    ascending: bool,
    /// Whether a name so far has escapes.
    escaped: bool,
}

#[derive(Clone, Copy)]
struct Member<'a> {
    /// As it is written, without the quotes.
    name: &'a str,
    value: Raw<'a>,
    start: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    fn open(object: Raw<'a>) -> Result<Self, RawError> {
        object.expect(Kind::Object)?;
        let bytes = object.0.as_bytes();
        let first = scan::space_end(bytes, 1);
        let at = (bytes.get(first) != Some(&b'}')).then_some(first);
        Ok(Self { object, at, last: None, ascending: true, escaped: false })
    }

    /// The next member.
    fn member(&self) -> Result<Option<Member<'a>>, RawError> {
        let Some(start) = self.at else { return Ok(None) };
        let (name, value) = self.object.name_at(start)?;
        let (value, end) = self.object.value_at(value)?;
        let name = name.get(1..name.len().saturating_sub(1)).ok_or(RawError::Syntax)?;
        Ok(Some(Member { name, value, start, end }))
    }

    /// The next member, if it is the same text as one of another object.
    fn like(&self, other: Raw<'_>, member: Member<'a>) -> Option<Member<'a>> {
        let text = other.0.as_bytes().get(member.start..member.end)?;
        let rest = self.object.0.as_bytes().get(self.at?..)?.strip_prefix(text)?;
        // A number may go on.
        let ends = matches!(rest.first()?, b',' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
        ends.then_some(Member { end: self.object.0.len() - rest.len(), ..member })
    }

    fn step(&mut self, member: Member<'a>) -> Result<(), RawError> {
        self.at = next_entry(self.object.0.as_bytes(), member.end, b'}')?;
        self.escaped |= member.name.as_bytes().contains(&b'\\');
        self.ascending &= self.last.is_none_or(|last| last < member.name);
        self.last = Some(member.name);
        Ok(())
    }
}

/// Compares members that are sorted.
fn merged<'a>(old: Vec<super::Member<'a>>, new: Vec<super::Member<'a>>) -> Compared<'a> {
    let mut compared = Compared::default();
    let mut new = new.into_iter().peekable();
    for (name, before) in old {
        while let Some((name, after)) = new.next_if(|(other, _)| *other < name) {
            compared.changed.push((name, None, Some(after)));
        }
        match new.next_if(|(other, _)| *other == name) {
            Some((_, after)) if after.0 == before.0 => compared.same.push(name),
            after => compared.changed.push((name, Some(before), after.map(|(_, after)| after))),
        }
    }
    compared.changed.extend(new.map(|(name, after)| (name, None, Some(after))));
    compared
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(old: &str, new: &str) -> Result<(Vec<String>, Vec<String>), RawError> {
        let compared = compare(Some(Raw::parse(old).unwrap()), Some(Raw::parse(new).unwrap()))?;
        let mut same: Vec<String> = compared.same.iter().map(ToString::to_string).collect();
        let text = |side: Option<Raw<'_>>| side.map_or("-", Raw::text).to_owned();
        let mut changed: Vec<String> = compared
            .changed
            .iter()
            .map(|(name, old, new)| format!("{name}: {} {}", text(*old), text(*new)))
            .collect();
        same.sort();
        changed.sort();
        Ok((same, changed))
    }

    #[test]
    fn members_are_told_apart_by_name_and_text() {
        let (same, changed) =
            shown(r#"{"a":1,"b":[1],"d":"x","e":{}}"#, r#"{"a":12,"b":[1],"c":0,"e":{ }}"#).unwrap();
        assert_eq!(same, ["b"]);
        assert_eq!(changed, [r"a: 1 12", r"c: - 0", r#"d: "x" -"#, r"e: {} { }"]);
    }

    #[test]
    fn names_out_of_order_are_compared_by_name() {
        let (same, changed) = shown(r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#).unwrap();
        assert_eq!((same, changed), (vec!["a".to_owned(), "b".to_owned()], vec![]));
        let (_, changed) = shown(r#"{"kind":1,"api":{"x":1}}"#, r#"{"kind":1,"api":{"x":2}}"#).unwrap();
        assert_eq!(changed, [r#"api: {"x":1} {"x":2}"#]);
    }

    #[test]
    fn a_name_that_occurs_twice_is_an_error_also_where_nothing_changed() {
        for (old, new) in [
            (r#"{"a":1,"b":1,"a":2}"#, r#"{"a":0,"b":1,"a":2}"#),
            (r#"{"a":1,"a":1}"#, r#"{"a":1,"a":1}"#),
            (r#"{"a":1}"#, r#"{"a":1,"\u0061":1}"#),
            (r#"{"a":1,"b":1}"#, r#"{"a":1,"b":1,"b":2}"#),
        ] {
            assert!(matches!(shown(old, new), Err(RawError::DuplicateName(_))), "{old} {new}");
        }
    }

    proptest! {
        #[test]
        fn in_step_or_sorted_is_the_same(
            old in prop::collection::btree_map("[a-c]{0,2}|\\\\\\\\", "1|12|\"x\"|\\[1,2\\]|\\{\"a\":1\\}", 0..7),
            new in prop::collection::btree_map("[a-c]{0,2}|\\\\\\\\", "1|12|\"x\"|\\[1,2\\]|\\{\"a\":1\\}", 0..7),
            reversed in any::<(bool, bool)>(),
        ) {
            let text = |side: &std::collections::BTreeMap<String, String>, reversed: bool| {
                let mut members: Vec<String> =
                    side.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                if reversed {
                    members.reverse();
                }
                format!("{{{}}}", members.join(","))
            };
            let (old, new) = (text(&old, reversed.0), text(&new, reversed.1));
            let (a, b) = (Raw::parse(&old).unwrap(), Raw::parse(&new).unwrap());
            let sorted = merged(a.members().unwrap(), b.members().unwrap());
            let (same, changed) = shown(&old, &new).unwrap();
            prop_assert_eq!(same.len(), sorted.same.len(), "{} {}", &old, &new);
            prop_assert_eq!(changed.len(), sorted.changed.len());
            for (name, before, after) in sorted.changed {
                let text = |side: Option<Raw<'_>>| side.map_or("-", Raw::text).to_owned();
                let line = format!("{name}: {} {}", text(before), text(after));
                prop_assert!(changed.contains(&line), "{}", line);
            }
        }
    }
}
