use proptest::prelude::*;

use super::*;
use crate::ownership::path::Path;
use crate::ownership::raw::Raw;

/// As seen on API servers; each must print back byte for byte.
const OBSERVED: &[&str] = &[
    "{}",
    r#"{"f:spec":{"f:replicas":{},"f:size":{}}}"#,
    r#"{"f:spec":{".":{},"f:mode":{}}}"#,
    r#"{"f:spec":{"f:replicas":{}}}"#,
    r#"{"f:spec":{"f:size":{}}}"#,
    r#"{"f:spec":{}}"#,
    r#"{"f:spec":{"f:mode":{}}}"#,
    r#"{"f:spec":{"f:taints":{"k:{\"effect\":\"NoSchedule\",\"key\":\"a\"}":{".":{},"f:effect":{},"f:key":{},"f:value":{}}}}}"#,
    r#"{"f:spec":{"f:taints":{}}}"#,
    r#"{"f:metadata":{"f:annotations":{".":{},"f:a.b/c:d":{},"f:~x~1":{}},"f:finalizers":{".":{},"v:\"ex.io/fin\"":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"1\"}":{}}}}"#,
    r#"{"f:spec":{"f:args":{},"f:atomicMap":{},"f:free":{"f:deep":{".":{},"f:l":{},"f:x":{}}},"f:limits":{},"f:size":{}}}"#,
    r#"{"f:spec":{".":{},"f:zones":{".":{},"v:\"a\"":{},"v:\"b\"":{}}}}"#,
    r#"{"f:data":{"f:k":{}},"f:status":{}}"#,
    r#"{"f:spec":{"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}"#,
];

fn fields(names: &str) -> Path {
    names.split('.').map(Element::field).collect()
}

fn read(raw: &str) -> PathSet {
    parse(raw).unwrap_or_else(|error| panic!("{raw}: {error}"))
}

fn below_x(element: &str) -> String {
    write(&read(&format!(r#"{{"f:x":{{{element}:{{}}}}}}"#)))
}

#[test]
fn every_observed_text_prints_back_identically() {
    for raw in OBSERVED {
        assert_eq!(&write(&read(raw)), raw);
    }
}

#[test]
fn only_an_empty_object_or_a_dot_makes_a_node_a_member() {
    let set = read(r#"{"f:spec":{"f:a":{".":{},"f:b":{}}}}"#);
    assert!(!set.contains(&fields("spec")));
    assert!(set.contains(&fields("spec.a")) && set.contains(&fields("spec.a.b")));
}

#[test]
fn the_text_after_the_first_colon_is_the_key_itself() {
    let set = read(r#"{"f:a.b/c:d":{},"f:":{},"f:f:x":{},"f:\u0041":{}}"#);
    for name in ["a.b/c:d", "", "f:x", "A"] {
        assert!(set.contains(&[Element::field(name)]), "{name}");
    }
    assert_eq!(set.len(), 4);
}

#[test]
fn elements_come_in_the_order_of_structured_merge_diff() {
    let raw = r#"{"i:1":{},"v:null":{},"v:true":{},"v:\"a\"":{},"v:2":{},"k:{\"b\":1,\"a\":2}":{},"f:b":{},"f:a":{}}"#;
    let sorted = r#"{"f:a":{},"f:b":{},"k:{\"a\":2,\"b\":1}":{},"v:2":{},"v:\"a\"":{},"v:true":{},"v:null":{},"i:1":{}}"#;
    assert_eq!(write(&read(raw)), sorted);
}

#[test]
fn equal_numbers_are_one_element() {
    assert_eq!(read(r#"{"v:1":{},"v:1.0":{}}"#).len(), 1);
    assert_eq!(below_x(r#""v:1.50""#), r#"{"f:x":{"v:1.5":{}}}"#);
}

#[test]
fn strings_are_escaped_as_gos_encoder_does() {
    let read_back = |element: Element| {
        let set: PathSet = [vec![element]].into_iter().collect();
        let raw = write(&set);
        assert_eq!(read(&raw), set, "{raw}");
        raw
    };
    assert_eq!(read_back(Element::field("<&>\u{2028}\u{8}\u{7f}")), "{\"f:<&>\u{2028}\\u0008\u{7f}\":{}}");
    assert_eq!(
        read_back(Element::Value(Scalar::string("<&>\u{2028}\u{8}\"\t"))),
        r#"{"v:\"\\u003c\\u0026\\u003e\\u2028\\u0008\\\"\\t\"":{}}"#
    );
    assert_eq!(
        read_back(Element::key(vec![(Arc::from("<"), Scalar::string("<"))])),
        r#"{"k:{\"<\":\"\\u003c\"}":{}}"#
    );
}

#[test]
fn what_later_versions_may_add_is_left_out() {
    assert_eq!(read(r#"{"x:new":{"f:a":{}},"f:a":{"z:":[1,{"k":2}]}}"#), read(r#"{"f:a":{}}"#));
    assert_eq!(read(r#"{"f:a":{".":{"f:b":{}},"f:c":{}}}"#), read(r#"{"f:a":{".":{},"f:c":{}}}"#));
}

#[test]
fn items_that_no_list_can_have_are_left_out() {
    for element in
        [r#""v:{\"a\":1}""#, r#""v:[]""#, r#""k:{\"a\":{}}""#, r#""k:null""#, r#""k:1""#, r#""i:-1""#]
    {
        assert_eq!(below_x(element), r#"{"f:x":{}}"#, "{element}");
    }
}

#[test]
fn null_stands_for_an_empty_object() {
    assert_eq!(read(r#"{"f:a":null}"#), read(r#"{"f:a":{}}"#));
    assert!(read("null").is_empty() && read(r#"{".":{}}"#).is_empty());
}

#[test]
fn of_a_repeated_element_the_last_children_count() {
    assert_eq!(read(r#"{"f:a":{"f:b":{}},"f:a":{"f:c":{}}}"#), read(r#"{"f:a":{"f:c":{}}}"#));
    assert_eq!(read(r#"{"f:a":{"f:b":{}},"f:a":{}}"#), read(r#"{"f:a":{".":{},"f:b":{}}}"#));
    assert_eq!(
        read(r#"{"f:a":{"f:b":{}},"f:0":{},"f:a":{"f:c":{}}}"#),
        read(r#"{"f:0":{},"f:a":{"f:c":{}}}"#)
    );
}

#[test]
fn what_is_no_fieldsv1_is_an_error_that_says_why() {
    for (raw, text) in [
        ("", "fieldsV1 is not valid: EOF"),
        ("{", "fieldsV1 is not valid: EOF"),
        ("[]", "expected an object of path elements"),
        ("7", "expected an object of path elements"),
        (r#"{"f:a":1}"#, "expected an object of path elements"),
        (r#"{"f:a":{}}{}"#, "trailing characters"),
        (r#"{"f:a":{},}"#, "trailing comma"),
        ("{'f:a':{}}", "key must be a string"),
        (r#"{"f:a":{},"":{}}"#, r#"the key "": a path element is one letter"#),
        (r#"{"spec":{}}"#, r#"the key "spec": a path element is one letter"#),
        (r#"{"é:":{}}"#, "a path element is one letter"),
        (r#"{"k:x":{}}"#, "a list key is a JSON object"),
        (r#"{"k:{}}":{}}"#, "a list key is a JSON object"),
        (r#"{"v:":{}}"#, "an item of a set is a JSON value"),
        (r#"{"v:a":{}}"#, "an item of a set is a JSON value"),
        (r#"{"i:x":{}}"#, "a list index is a whole number"),
        (r#"{"v:\"\\ud800\"":{}}"#, "a scalar has no valid value"),
        (r#"{"v:1e999":{}}"#, "a scalar has no valid value"),
        (r#"{"k:{\"a\":\"\\udc00\"}":{}}"#, "a list key has no valid value"),
        (r#"{"k:{\"\\udc00\":1}":{}}"#, "a list key has no valid value"),
    ] {
        let error = parse(raw).expect_err(raw).to_string();
        assert!(error.contains(text), "{raw}: {error}");
    }
}

#[test]
fn a_long_bad_key_is_shortened_in_the_error() {
    let error = parse(&format!(r#"{{"{}":{{}}}}"#, "a".repeat(10_000))).expect_err("no element");
    assert!(error.to_string().len() < 200);
}

#[test]
fn depth_is_merged_into_the_deepest_node_that_is_kept() {
    for levels in [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 100_000] {
        let raw = format!("{}{{}}{}", r#"{"f:a":"#.repeat(levels), "}".repeat(levels));
        let path: Path = std::iter::repeat_n(Element::field("a"), levels).collect();
        assert_eq!(read(&raw), [path].into_iter().collect());
    }
}

#[test]
fn too_many_elements_are_an_error() {
    let many = |count: usize| {
        let elements: Vec<_> = (0..count).map(|n| format!(r#""f:{n}":{{}}"#)).collect();
        parse(&format!("{{{}}}", elements.join(",")))
    };
    assert_eq!(many(MAX_ELEMENTS).map(|set| set.len()), Ok(MAX_ELEMENTS));
    assert_eq!(many(MAX_ELEMENTS + 1), Err(FieldsV1Error::TooManyElements));
}

fn any_scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        Just(Scalar::Null),
        any::<bool>().prop_map(Scalar::Bool),
        any::<i64>().prop_map(|n| Scalar::Number(n.into())),
        any::<f64>().prop_filter_map("finite", |n| serde_json::Number::from_f64(n).map(Scalar::Number)),
        any::<String>().prop_map(|text| Scalar::string(&text)),
    ]
}

fn any_element() -> impl Strategy<Value = Element> {
    prop_oneof![
        "[a-c]|.{0,6}".prop_map(|name| Element::field(&name)),
        prop::collection::vec((".{0,3}", any_scalar()), 0..3).prop_map(|fields| Element::key(
            fields.into_iter().map(|(name, s)| (Arc::from(name), s)).collect()
        )),
        any_scalar().prop_map(Element::Value),
        any::<u32>().prop_map(Element::Index),
    ]
}

/// A text with what servers never write too: names twice, unknown types, `null`, other spellings.
fn any_text() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        ".",
        "f:a",
        "f:b",
        r"f:\u0061",
        r#"k:{\"a\":1}"#,
        r#"k:{\"a\":1.0}"#,
        "v:1",
        "v:2",
        "z:a",
        "i:0",
        "i:-1",
    ]);
    let leaf = prop::sample::select(vec!["{}".to_owned(), "null".to_owned(), "{\"z:a\":{}}".to_owned()]);
    leaf.prop_recursive(4, 40, 4, move |inner| {
        prop::collection::vec((key.clone(), inner), 0..4).prop_map(|members| {
            let members: Vec<_> = members.iter().map(|(key, text)| format!("\"{key}\":{text}")).collect();
            format!("{{{}}}", members.join(","))
        })
    })
}

/// Two texts that are often alike.
fn two_texts() -> impl Strategy<Value = (String, String)> {
    let part = || prop::collection::vec(any_text(), 5);
    (part(), part(), prop::collection::vec(any::<bool>(), 5)).prop_map(|(old, other, keep)| {
        let text = |parts: &[&String]| {
            let [first, second, third, fourth, fifth] = parts else { return "{}".to_owned() };
            format!(
                "{{\".\":{{}},\"f:a\":{{\"f:a\":{first},\"f:b\":{second}}},\"f:b\":{third},\"k:{{}}\":{fourth},\"v:1\":{fifth}}}"
            )
        };
        let new: Vec<_> = (0..5).map(|n| if keep[n] { &old[n] } else { &other[n] }).collect();
        (text(&old.iter().collect::<Vec<_>>()), text(&new))
    })
}

proptest! {
    #[test]
    fn reading_only_what_changed_gives_the_differences_of_the_sets(
        (old, new) in prop_oneof![two_texts(), (any_text(), any_text())]
    ) {
        let sets = (read(&old), read(&new));
        let parts = parse_changed(Raw::parse(&old).unwrap(), Raw::parse(&new).unwrap()).unwrap();
        prop_assert_eq!(parts.0.difference(&parts.1), sets.0.difference(&sets.1), "{} {}", &old, &new);
        prop_assert_eq!(parts.1.difference(&parts.0), sets.1.difference(&sets.0), "{} {}", &old, &new);
    }

    #[test]
    fn a_written_set_reads_back_as_the_same(
        paths in prop::collection::vec(prop::collection::vec(any_element(), 1..5), 0..16)
    ) {
        let set: PathSet = paths.iter().collect();
        let raw = write(&set);
        prop_assert_eq!(parse(&raw), Ok(set));
    }

    #[test]
    fn reading_never_panics_and_is_stable(raw in r#"(\{|\}|"(f:|k:|v:|i:|x:|\.)[a-c1]*"|:|,|\{\}|null|1| ){0,24}"#) {
        if let Ok(set) = parse(&raw) {
            prop_assert_eq!(parse(&write(&set)), Ok(set));
        }
    }
}
