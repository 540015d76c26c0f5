use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn raw(text: &str) -> Raw<'_> {
    Raw::parse(text).unwrap()
}

fn names(text: &str) -> Vec<String> {
    raw(text).members().unwrap().into_iter().map(|(name, value)| format!("{name}={value:?}")).collect()
}

#[test]
fn the_kind_of_a_value_is_known_from_its_first_byte() {
    let kinds = ["{}", "[]", "\"\"", "true", "false", "null", "-1", "0.5"].map(|text| raw(text).kind());
    assert_eq!(
        kinds,
        [
            Kind::Object,
            Kind::Array,
            Kind::String,
            Kind::Bool,
            Kind::Bool,
            Kind::Null,
            Kind::Number,
            Kind::Number
        ]
    );
}

#[test]
fn members_come_sorted_and_untouched() {
    assert_eq!(names(r#" { "b" : [1, {"x":2}] , "a":"\"}" } "#), [r#"a="\"}""#, r#"b=[1, {"x":2}]"#]);
    assert!(names("{ }").is_empty());
}

#[test]
fn names_are_compared_by_what_they_mean() {
    assert_eq!(raw(r#"{"\u0061":1}"#).get("a").unwrap().unwrap().text(), "1");
    assert_eq!(raw(r#"{"a":1}"#).get("b").unwrap().map(Raw::text), None);
}

#[test]
fn a_name_that_occurs_twice_is_an_error_however_it_is_written() {
    let twice = RawError::DuplicateName("a".to_owned());
    for text in [r#"{"a":1,"a":1}"#, r#"{"a":1,"b":2,"\u0061":3}"#, r#"{"b":1,"a":1,"c":1,"a":2}"#] {
        assert_eq!(raw(text).members().unwrap_err(), twice, "{text}");
        assert_eq!(raw(text).get("a").unwrap_err(), twice, "{text}");
        let tree = Tree::new(raw(text)).unwrap();
        assert_eq!(tree.root().members().err(), Some(twice.clone()), "{text}");
        let picked = tree.root().pick(1, |name| (name == "a").then_some(0));
        assert_eq!(picked.err(), Some(twice.clone()), "{text}");
    }
}

#[test]
fn half_a_surrogate_pair_is_an_error_and_not_a_guess() {
    assert_eq!(raw(r#""\ud800""#).string().unwrap_err(), RawError::Unicode);
    assert_eq!(raw(r#"{"\ud800":1}"#).members().unwrap_err(), RawError::Unicode);
}

#[test]
fn asking_a_value_for_what_it_is_not_says_so() {
    let error = raw("[]").members().unwrap_err();
    assert_eq!(error.to_string(), "expected an object, found an array");
    assert!(raw("{}").items().is_err());
    assert!(raw("1").string().is_err());
}

#[test]
fn text_that_is_no_json_is_refused() {
    for text in ["", "{", "[1,]", "{\"a\"}", "1 2", "nul", "\"\u{1}\"", "{\"a\":1,}"] {
        assert_eq!(Raw::parse(text).unwrap_err(), RawError::Syntax, "{text}");
    }
}

#[test]
fn containers_are_empty_with_or_without_space() {
    for (text, empty) in [("{}", true), ("[ \n]", true), ("[0]", false), ("{\"a\":1}", false), ("1", false)] {
        assert_eq!(raw(text).is_empty_container(), empty, "{text}");
    }
}

/// Any JSON value, printed with or without space.
pub(in crate::ownership) fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c\"\\\\{}\\[\\]\u{e9}\n]{0,70}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map("[a-c\"\\\\{}]{0,40}", inner, 0..6)
                .prop_map(|map| map.into_iter().collect()),
        ]
    });
    (value, any::<bool>())
        .prop_map(|(value, pretty)| if pretty { format!("{value:#}") } else { value.to_string() })
}

/// Reads level by level what `serde_json` reads at once.
fn rebuild(raw: Raw<'_>) -> Value {
    match raw.kind() {
        Kind::Object => {
            raw.members().unwrap().into_iter().map(|(name, raw)| (name.into_owned(), rebuild(raw))).collect()
        }
        Kind::Array => raw.items().unwrap().into_iter().map(rebuild).collect(),
        Kind::String => Value::from(raw.string().unwrap().into_owned()),
        _ => serde_json::from_str(raw.text()).unwrap(),
    }
}

fn rebuild_tree(node: Node<'_, '_>) -> Value {
    match node.raw.kind() {
        Kind::Object => {
            let members = node.members().unwrap();
            members.into_iter().map(|(name, node)| (name.into_owned(), rebuild_tree(node))).collect()
        }
        Kind::Array => node.items().unwrap().into_iter().map(rebuild_tree).collect(),
        _ => rebuild(node.raw),
    }
}

proptest! {
    #[test]
    fn reading_level_by_level_gives_what_serde_json_gives(text in any_json()) {
        let expected: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(rebuild(raw(&text)), expected.clone());
        let tree = Tree::new(raw(&text)).unwrap();
        prop_assert_eq!(rebuild_tree(tree.root()), expected);
    }

    #[test]
    fn no_text_makes_reading_panic(text in "[\\[\\]{}\",:a1\\\\ ]{0,60}") {
        // Not through `parse`: the scanner must stand by itself.
        let raw = Raw(&text);
        let _ = (raw.members(), raw.items(), raw.get("a"), raw.string(), raw.is_empty_container());
        if let Ok(tree) = Tree::new(raw) {
            let _ = (tree.root().members(), tree.root().items());
        }
    }
}
