use super::{node_pool, show};
use crate::ownership::diff::{Refine, Split, diff};
use crate::ownership::element::Element;
use crate::ownership::path::DisplayPath;
use crate::ownership::raw::Raw;
use crate::ownership::schema::{ListKey, ListShape};
use serde_json::{Value, json};

/// Claims, as the paths of the nodes above them.
struct Claims<'c> {
    split: &'c [(&'c str, Split)],
    whole: &'c [&'c str],
}

impl Refine for Claims<'_> {
    fn split(&self, path: &[Element]) -> Option<Split> {
        let path = DisplayPath(path).to_string();
        self.split.iter().find(|(at, _)| *at == path).map(|(_, split)| split.clone())
    }

    fn descends(&self, path: &[Element]) -> bool {
        !self.whole.contains(&DisplayPath(path).to_string().as_str())
    }
}

fn by_name() -> Split {
    Split::Items(ListShape::Keyed([ListKey { name: "name".into(), default: None }].into()))
}

fn refined(split: &[(&str, Split)], old: Value, new: Value) -> Vec<String> {
    let object = |spec: Value| json!({"spec": spec}).to_string();
    let (old, new) = (object(old), object(new));
    let (old, new) = (Raw::parse(&old).unwrap(), Raw::parse(&new).unwrap());
    show(&diff(Some(old), Some(new), &node_pool(), Some(&Claims { split, whole: &[] })).unwrap())
}

#[test]
fn an_atomic_map_with_claims_below_is_split_by_member() {
    let (old, new) = (json!({"selector": {"a": "1", "b": "1"}}), json!({"selector": {"a": "2", "c": "1"}}));
    assert_eq!(
        refined(&[(".spec.selector", Split::Members)], old.clone(), new.clone()),
        [
            "+ .spec.selector.c in 2",
            "- .spec.selector.b in 2",
            "~ .spec.selector Atomic split",
            "~ .spec.selector.a in 2",
        ]
    );
    assert_eq!(refined(&[(".spec.other", Split::Members)], old, new), ["~ .spec.selector Atomic"]);
}

#[test]
fn a_list_below_preserve_unknown_is_split_by_the_keys_of_the_claims() {
    let list = |items: Value| json!({"settings": {"pools": items}});
    let claims = [(".spec.settings.pools", by_name())];
    let old = list(json!([{"name": "a", "size": {"min": 1}}, {"name": "b"}]));
    let new = list(json!([{"name": "a", "size": {"min": 2}}]));
    assert_eq!(
        refined(&claims, old.clone(), new),
        [
            "- .spec.settings.pools[name=\"b\"] Item of in 3",
            "- .spec.settings.pools[name=\"b\"].name in 3",
            "~ .spec.settings.pools Atomic split",
            "~ .spec.settings.pools[name=\"a\"].size.min in 3",
        ]
    );
    assert_eq!(
        refined(&claims, list(json!(null)), old),
        [
            "+ .spec.settings.pools[name=\"a\"] Item of in 3",
            "+ .spec.settings.pools[name=\"a\"].name in 3",
            "+ .spec.settings.pools[name=\"a\"].size Container of in 3",
            "+ .spec.settings.pools[name=\"a\"].size.min in 3",
            "+ .spec.settings.pools[name=\"b\"] Item of in 3",
            "+ .spec.settings.pools[name=\"b\"].name in 3",
            "~ .spec.settings.pools Atomic split",
            "~ .spec.settings.pools in 3",
        ]
    );
}

#[test]
fn a_new_order_of_a_split_list_is_a_change_of_the_list_itself() {
    let list = |items: Value| json!({"args": items});
    let claims = [(".spec.args", Split::Items(ListShape::Set))];
    assert_eq!(
        refined(&claims, list(json!(["a", "b"])), list(json!(["b", "a"]))),
        ["~ .spec.args Atomic split", "~ .spec.args Rest in 2",]
    );
    assert_eq!(
        refined(&claims, list(json!(["a", "b"])), list(json!(["c", "a", "b"]))),
        ["+ .spec.args[=\"c\"] Item in 2", "~ .spec.args Atomic split",]
    );
}

#[test]
fn an_item_without_keys_does_not_hide_a_change_of_a_claimed_one() {
    let list = |items: Value| json!({"settings": items});
    let claims = [(".spec.settings", by_name())];
    let old = list(json!([{"name": "a", "size": 1}]));
    let new = list(json!([{"name": "a", "size": 99}, {"size": 1}, 3, null]));
    assert_eq!(
        refined(&claims, old, new),
        [
            "~ .spec.settings Atomic split",
            "~ .spec.settings Rest in 2",
            "~ .spec.settings[name=\"a\"].size in 2",
        ]
    );
}

#[test]
fn a_second_item_of_the_same_name_does_not_hide_a_change_of_a_claimed_one() {
    let list = |items: Value| json!({"settings": items});
    let claims = [(".spec.settings", by_name())];
    let old = list(json!([{"name": "a", "size": 1}]));
    let new = list(json!([{"name": "a", "size": 1}, {"name": "a", "size": 99}]));
    assert_eq!(
        refined(&claims, old, new),
        [
            "+ .spec.settings[name=\"a\"] Duplicates in 2",
            "- .spec.settings[name=\"a\"] Item of in 2",
            "- .spec.settings[name=\"a\"].name in 2",
            "- .spec.settings[name=\"a\"].size in 2",
            "~ .spec.settings Atomic split",
            "~ .spec.settings Rest in 2",
        ]
    );
}

#[test]
fn lists_inside_a_split_node_are_split_where_claims_say_how() {
    let value =
        |v: u8, w: u8| json!({"settings": [{"name": "a", "in": [{"name": "x", "v": v}], "out": [w]}]});
    let outer = (".spec.settings", by_name());
    let inner = (".spec.settings[name=\"a\"].in", by_name());
    assert_eq!(
        refined(&[outer, inner], value(1, 1), value(2, 2)),
        [
            "~ .spec.settings Atomic split",
            "~ .spec.settings[name=\"a\"].in[name=\"x\"].v in 2",
            "~ .spec.settings[name=\"a\"].out Atomic in 2",
        ]
    );
}

#[test]
fn a_subtree_that_nobody_asks_about_is_one_change() {
    let claims = Claims { split: &[], whole: &[".spec.settings"] };
    let (old, new) = (r#"{"spec":{"settings":{"a":1,"b":2}}}"#, r#"{"spec":{"settings":{"a":2,"c":2}}}"#);
    let (old, new) = (Raw::parse(old).unwrap(), Raw::parse(new).unwrap());
    let all = diff(Some(old), Some(new), &node_pool(), Some(&claims)).unwrap();
    assert_eq!(show(&all), ["~ .spec.settings Whole"]);
    let added = diff(None, Some(new), &node_pool(), Some(&claims)).unwrap();
    assert_eq!(show(&added), ["+ .spec Container of", "+ .spec.settings Whole"]);
}
