use std::collections::{BTreeMap, BTreeSet};

use super::node_pool;
use crate::ownership::diff::{Change, ChangeKind, Refine, Split, diff};
use crate::ownership::element::Element;
use crate::ownership::path::Path;
use crate::ownership::raw::{Raw, tests::any_json};
use crate::ownership::schema::{ListKey, ListShape, Schema};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any value below preserve-unknown: few names and scalars, so that two have much in common.
fn free() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        (0..3).prop_map(Value::from),
        "[a-b]".prop_map(Value::from),
        Just(json!({})),
        Just(json!([])),
    ];
    leaf.prop_recursive(4, 30, 4, |inner| {
        prop_oneof![
            3 => proptest::collection::btree_map("[a-d]", inner.clone(), 0..4)
                .prop_map(|map| map.into_iter().collect::<Value>()),
            1 => proptest::collection::vec(inner, 0..3).prop_map(Value::from),
        ]
    })
}

/// A NodePool with lists that may hold duplicates.
fn pool() -> impl Strategy<Value = Value> {
    let taint = ("[a-b]", proptest::option::of("[x-y]"), proptest::option::of("[1-2]")).prop_map(
        |(key, effect, value)| {
            let mut taint = json!({"key": key});
            if let Some(effect) = effect {
                taint["effect"] = json!(effect);
            }
            if let Some(value) = value {
                taint["value"] = json!(value);
            }
            taint
        },
    );
    let env = ("[a-b]", "[1-2]").prop_map(|(name, value)| json!({"name": name, "value": value}));
    let container = ("[a-c]", proptest::collection::vec(env, 0..3))
        .prop_map(|(name, env)| json!({"name": name, "env": env}));
    let field = |strategy: BoxedStrategy<Value>| proptest::option::of(strategy);
    (
        field(proptest::collection::vec("[a-c]", 0..4).prop_map(Value::from).boxed()),
        field(proptest::collection::vec(taint, 0..4).prop_map(Value::from).boxed()),
        field(proptest::collection::vec(container, 0..4).prop_map(Value::from).boxed()),
        field(free().boxed()),
        field(proptest::collection::btree_map("[a-c]", "[1-2]", 0..3).prop_map(|map| json!(map)).boxed()),
        field((0..3).prop_map(Value::from).boxed()),
    )
        .prop_map(|(zones, taints, containers, settings, selector, nodes)| {
            let mut spec = Map::new();
            let named = [
                ("zones", zones),
                ("taints", taints),
                ("containers", containers),
                ("settings", settings),
                ("selector", selector),
                ("targetNodes", nodes),
            ];
            spec.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
            json!({"spec": spec})
        })
}

type Sets = (BTreeSet<Path>, BTreeSet<Path>, BTreeSet<Path>);

fn sets(changes: &[Change<'_>]) -> Sets {
    let of = |kind| {
        let of_kind = changes.iter().filter(|change| change.kind == kind);
        of_kind.map(|change| change.path.clone()).collect()
    };
    (of(ChangeKind::Added), of(ChangeKind::Removed), of(ChangeKind::Modified))
}

fn compare(old: &Value, new: &Value, schema: &Schema) -> Sets {
    let (old, new) = (old.to_string(), new.to_string());
    let (old, new) = (Raw::parse(&old).unwrap(), Raw::parse(&new).unwrap());
    sets(&diff(Some(old), Some(new), schema, None).unwrap())
}

/// Every node of a value without schema, by path.
fn nodes<'v>(value: &'v Value, path: &mut Path, all: &mut BTreeMap<Path, &'v Value>) {
    let Value::Object(map) = value else { return };
    for (name, value) in map {
        path.push(Element::field(name));
        all.insert(path.clone(), value);
        nodes(value, path, all);
        path.pop();
    }
}

/// The difference of two values without schema, from the definition: a path is added
/// if only the new value has it; it is modified if both have it with unequal values
/// and one of them is a leaf that is not just the other one without its members.
fn reference(old: &Value, new: &Value) -> Sets {
    let (mut in_old, mut in_new) = (BTreeMap::new(), BTreeMap::new());
    nodes(old, &mut Path::root(), &mut in_old);
    nodes(new, &mut Path::root(), &mut in_new);
    let only = |a: &BTreeMap<Path, &Value>, b: &BTreeMap<Path, &Value>| {
        a.keys().filter(|path| !b.contains_key(*path)).cloned().collect()
    };
    let has_members = |value: &Value| value.as_object().is_some_and(|map| !map.is_empty());
    let hollow = |value: &Value| value.is_null() || value.is_object();
    let modified =
        |a: &Value, b: &Value| a != b && !(hollow(a) && hollow(b) && (has_members(a) || has_members(b)));
    let both = in_old.iter().filter_map(|(path, a)| Some((path, a, in_new.get(path)?)));
    let changed = both.filter(|(_, a, b)| modified(a, b)).map(|(path, ..)| path.clone()).collect();
    (only(&in_new, &in_old), only(&in_old, &in_new), changed)
}

struct SplitAll;

impl Refine for SplitAll {
    fn split(&self, _: &[Element]) -> Option<Split> {
        Some(Split::Items(ListShape::Keyed([ListKey { name: "a".into(), default: None }].into())))
    }
}

proptest! {
    #[test]
    fn an_object_does_not_differ_from_itself(pool in pool()) {
        let (compact, pretty) = (pool.to_string(), format!("{pool:#}"));
        let (old, new) = (Raw::parse(&compact).unwrap(), Raw::parse(&pretty).unwrap());
        prop_assert!(diff(Some(old), Some(new), &node_pool(), None).unwrap().is_empty());
    }

    #[test]
    fn the_way_back_is_the_mirror_of_the_way_there(old in pool(), new in pool()) {
        let (added, removed, modified) = compare(&old, &new, &node_pool());
        prop_assert_eq!(compare(&new, &old, &node_pool()), (removed, added, modified));
    }

    #[test]
    fn unequal_objects_differ_somewhere(old in free(), new in free()) {
        let (old, new) = (json!({"spec": {"settings": old}}), json!({"spec": {"settings": new}}));
        let (added, removed, modified) = compare(&old, &new, &node_pool());
        prop_assert_eq!(old == new, added.is_empty() && removed.is_empty() && modified.is_empty());
    }

    #[test]
    fn without_a_schema_the_difference_is_the_one_of_its_definition(old in free(), new in free()) {
        let (old, new) = (json!({"spec": old}), json!({"spec": new}));
        prop_assert_eq!(compare(&old, &new, &Schema::deduced()), reference(&old, &new));
    }

    #[test]
    fn splitting_adds_changes_and_alters_none(old in free(), new in free()) {
        let (old, new) = (json!({"spec": old}).to_string(), json!({"spec": new}).to_string());
        let (old, new) = (Raw::parse(&old).unwrap(), Raw::parse(&new).unwrap());
        let plain = diff(Some(old), Some(new), &Schema::deduced(), None).unwrap();
        let split = diff(Some(old), Some(new), &Schema::deduced(), Some(&SplitAll)).unwrap();
        let (inside, outside): (Vec<_>, Vec<_>) = split.into_iter().partition(|change| change.atomic_at.is_some());
        prop_assert_eq!(sets(&plain), sets(&outside));
        for atomic in outside.iter().filter(|change| change.split) {
            prop_assert!(inside.iter().any(|change| change.path.starts_with(&atomic.path)), "{}", atomic.path);
        }
    }

    #[test]
    fn no_pair_of_objects_makes_the_difference_panic(old in any_json(), new in any_json()) {
        let (old, new) = (Raw::parse(&old).unwrap(), Raw::parse(&new).unwrap());
        let schema = node_pool();
        for schema in [&schema, &Schema::deduced()] {
            let _ = diff(Some(old), Some(new), schema, Some(&SplitAll));
            let _ = diff(None, Some(new), schema, None);
        }
    }
}
