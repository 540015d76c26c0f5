//! Reading, writing and combining `FieldsV1`.
//!
//! In: one or two texts, apart by a line break. Out: a panic where one that is read does not write and
//! read back as the same set, where two sets break a law of sets, or where reading only what differs
//! gives another difference than reading all.

use fieldkeeper::ownership::fieldsv1::{parse, parse_changed, write};
use fieldkeeper::ownership::raw::Raw;
use fieldkeeper::ownership::set::PathSet;

/// Below this nesting every reader goes to the bottom, so that none may give up where another reads.
const SHALLOW: usize = 100;

/// Checks one input.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (left, right) = text.split_once('\n').unwrap_or((text, "{}"));
    let sets = (parse(left), parse(right));
    for set in [&sets.0, &sets.1].into_iter().flatten() {
        is_read_as_written(set);
    }
    if let (Ok(a), Ok(b)) = &sets {
        obey_the_laws(a, b);
        obey_the_laws(b, a);
        differ_as_changed(left, right, a, b);
    }
}

fn is_read_as_written(set: &PathSet) {
    let written = write(set);
    let again = parse(&written).unwrap_or_else(|error| panic!("{written} is not read: {error}"));
    assert_eq!(again, *set, "{written} is another set");
    assert_eq!(write(&again), written, "one set, two texts");
    assert!(!set.is_member(), "the root is no path that could be held");
}

fn obey_the_laws(a: &PathSet, b: &PathSet) {
    let empty = PathSet::new();
    assert_eq!(a.union(a), *a);
    assert_eq!(a.intersection(a), *a);
    assert_eq!(a.difference(a), empty);
    assert_eq!(a.union(&empty), *a);
    assert_eq!(a.intersection(&empty), empty);
    assert_eq!(a.union(b), b.union(a));
    assert_eq!(a.intersection(b), b.intersection(a));
    let (only, both) = (a.difference(b), a.intersection(b));
    assert_eq!(only.union(&both), *a);
    assert!(!only.intersects(b));
    assert_eq!(a.intersects(b), !both.is_empty());
    assert_eq!(a.union(b).len() + both.len(), a.len() + b.len());
    let far = a.recursive_difference(b);
    assert_eq!(far.difference(&only), empty, "what is not below {b:?} is not in it either");
    let leaves = a.leaves();
    assert_eq!(leaves.difference(a), empty);
    assert_eq!(leaves.leaves(), leaves);
    let mut last = None;
    for path in a {
        assert!(a.contains(&path));
        assert_eq!(only.contains(&path), !b.contains(&path));
        assert_eq!(far.contains(&path), !b.contains(&path) && !b.covers_ancestor(&path));
        assert_eq!(leaves.contains(&path), !a.has_below(&path));
        assert!(last.is_none_or(|last| last < path), "paths come in order");
        last = Some(path);
    }
    assert_eq!(a.iter().count(), a.len());
    assert_eq!(a.iter().collect::<PathSet>(), *a);
}

fn differ_as_changed(left: &str, right: &str, a: &PathSet, b: &PathSet) {
    let (Ok(old), Ok(new)) = (Raw::parse(left), Raw::parse(right)) else {
        panic!("a set was read from what is no JSON");
    };
    match parse_changed(old, new) {
        Ok((before, after)) => {
            assert_eq!(before.difference(&after), a.difference(b), "what is lost");
            assert_eq!(after.difference(&before), b.difference(a), "what is gained");
        }
        Err(error) => {
            let nesting = |text: &str| text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
            assert!(nesting(left).max(nesting(right)) > SHALLOW, "both sets are read, but: {error}");
        }
    }
}
