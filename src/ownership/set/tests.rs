use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::ownership::element::Scalar;

fn path(fields: &str) -> Path {
    fields.split('.').filter(|name| !name.is_empty()).map(Element::field).collect()
}

fn set(paths: &[&str]) -> PathSet {
    paths.iter().map(|fields| path(fields)).collect()
}

#[test]
fn a_member_says_nothing_of_its_ancestors_and_descendants() {
    let set = set(&["spec.size"]);
    assert!(set.contains(&path("spec.size")));
    assert!(!set.contains(&path("spec")));
    assert!(!set.contains(&path("spec.size.unit")));
    assert!(!set.contains(&path("")));
}

#[test]
fn above_and_below_are_asked_for_separately() {
    let set = set(&["spec.size"]);
    assert!(set.covers_ancestor(&path("spec.size.unit")));
    assert!(!set.covers_ancestor(&path("spec.size")));
    assert!(!set.covers_ancestor(&path("spec.other.unit")));
    assert!(set.has_below(&path("spec")) && set.has_below(&path("")));
    assert!(!set.has_below(&path("spec.size")) && !set.has_below(&path("status")));
}

#[test]
fn inserting_says_whether_the_path_was_new() {
    let mut set = PathSet::new();
    assert!(set.is_empty() && set.insert(&path("a.b")) && set.insert(&path("a")));
    assert!(!set.insert(&path("a.b")));
    assert_eq!(set.len(), 2);
}

#[test]
fn the_root_can_be_a_member_and_covers_everything() {
    let set = set(&[""]);
    assert!(set.is_member() && !set.is_empty() && set.contains(&[]));
    assert!(set.covers_ancestor(&path("a")) && !set.covers_ancestor(&[]));
    assert_eq!(set.iter().collect::<Vec<_>>(), [Path::root()]);
}

#[test]
fn what_lies_at_a_node_is_a_set_of_its_own() {
    let set = set(&["spec", "spec.size", "status"]);
    let below = set.with_prefix(&Element::field("spec")).unwrap();
    assert!(below.is_member() && below.contains(&path("size")) && below.len() == 2);
    assert_eq!(set.get(&path("spec")), Some(below));
    assert!(set.get(&path("spec.size.unit")).is_none() && PathSet::new().get(&[]).is_none());
    assert_eq!(set.children().len(), 2);
}

#[test]
fn leaves_are_members_with_no_member_below() {
    assert_eq!(set(&["a", "a.b", "c", "d.e"]).leaves(), set(&["a.b", "c", "d.e"]));
}

#[test]
fn a_recursive_difference_takes_away_what_lies_below() {
    let left = set(&["a", "a.b", "a.b.c", "a.d"]);
    assert_eq!(left.recursive_difference(&set(&["a.b"])), set(&["a", "a.d"]));
    assert_eq!(left.difference(&set(&["a.b"])), set(&["a", "a.b.c", "a.d"]));
    assert_eq!(left.recursive_difference(&set(&["a.b.c"])), set(&["a", "a.b", "a.d"]));
}

#[test]
fn paths_are_shown_for_debugging() {
    assert_eq!(format!("{:?}", set(&["a.b", "a"])), "{.a, .a.b}");
}

#[test]
fn a_path_of_any_depth_is_its_ancestor_at_the_limit() {
    let deep: Path = std::iter::repeat_n(Element::field("a"), 200_000).collect();
    let mut set = PathSet::new();
    assert!(set.insert(&deep) && !set.insert(&deep[..MAX_DEPTH]));
    assert!(set.contains(&deep) && set.covers_ancestor(&deep) == set.covers_ancestor(&deep[..MAX_DEPTH]));
    assert_eq!(set.iter().next().map(|path| path.len()), Some(MAX_DEPTH));
    let twice = set.union(&set).intersection(&set.clone()).leaves();
    assert_eq!(twice.difference(&set), PathSet::new());
    assert!(set.recursive_difference(&set).is_empty());
}

fn any_element() -> impl Strategy<Value = Element> {
    prop_oneof![
        4 => "[ab]".prop_map(|name| Element::field(&name)),
        1 => (0_u8..2).prop_map(|n| Element::key(vec![(Arc::from("k"), Scalar::Number(n.into()))])),
        1 => "[ab]".prop_map(|text| Element::value(Scalar::string(&text))),
        1 => (0_u32..2).prop_map(Element::Index),
    ]
}

fn any_path() -> impl Strategy<Value = Path> {
    prop::collection::vec(any_element(), 0..4).prop_map(Path::from)
}

fn any_model() -> impl Strategy<Value = BTreeSet<Path>> {
    prop::collection::btree_set(any_path(), 0..24)
}

fn model(set: &PathSet) -> BTreeSet<Path> {
    set.iter().collect()
}

proptest! {
    #[test]
    fn a_set_behaves_like_a_plain_set_of_paths(a in any_model(), b in any_model()) {
        let (left, right): (PathSet, PathSet) = (a.iter().collect(), b.iter().collect());
        prop_assert_eq!(left.len(), a.len());
        prop_assert_eq!(left.is_empty(), a.is_empty());
        prop_assert_eq!(model(&left.union(&right)), a.union(&b).cloned().collect());
        prop_assert_eq!(model(&left.intersection(&right)), a.intersection(&b).cloned().collect());
        prop_assert_eq!(model(&left.difference(&right)), a.difference(&b).cloned().collect());
        prop_assert_eq!(left.intersects(&right), !a.is_disjoint(&b));
        prop_assert_eq!(left == right, a == b);
        let apart = a.iter().filter(|path| !b.iter().any(|other| path.starts_with(other))).cloned();
        prop_assert_eq!(model(&left.recursive_difference(&right)), apart.collect());
        let leaves = a.iter().filter(|path| !a.iter().any(|other| other != *path && other.starts_with(path))).cloned();
        prop_assert_eq!(model(&left.leaves()), leaves.collect());
    }

    #[test]
    fn questions_about_one_path_agree_with_a_plain_set(a in any_model(), path in any_path()) {
        let set: PathSet = a.iter().collect();
        prop_assert_eq!(set.contains(&path), a.contains(&path));
        prop_assert_eq!(set.covers_ancestor(&path), a.iter().any(|other| *other != path && path.starts_with(other)));
        prop_assert_eq!(set.has_below(&path), a.iter().any(|other| *other != path && other.starts_with(&path)));
        prop_assert_eq!(set.get(&path).is_some(), a.iter().any(|other| other.starts_with(&path)));
    }

    #[test]
    fn paths_come_in_their_order_and_the_trie_is_the_same_however_it_was_made(a in any_model(), b in any_model()) {
        let (left, right): (PathSet, PathSet) = (a.iter().collect(), b.iter().collect());
        prop_assert_eq!(left.iter().collect::<Vec<_>>(), a.iter().cloned().collect::<Vec<_>>());
        let mut shown = Vec::new();
        left.for_each(|path| shown.push(Path::from(path)));
        prop_assert_eq!(shown, a.iter().cloned().collect::<Vec<_>>());
        let rest = left.difference(&right);
        prop_assert_eq!(rest.union(&left.intersection(&right)), left);
        prop_assert_eq!(&rest, &rest.iter().collect::<PathSet>());
    }
}
