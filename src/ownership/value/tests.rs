use super::*;
use crate::ownership::schema::Schema;
use proptest::prelude::*;
use serde_json::json;

fn same(a: &str, b: &str) -> bool {
    equal(Raw::parse(a).unwrap(), Raw::parse(b).unwrap()).unwrap()
}

#[test]
fn numbers_are_compared_by_value() {
    for (a, b) in [
        ("1", "1.0"),
        ("1", "10e-1"),
        ("100", "1E+2"),
        ("0.5", "5e-1"),
        ("0", "-0"),
        ("0.0", "0e9"),
        ("-1.50", "-1.5"),
    ] {
        assert!(same(a, b), "{a} {b}");
    }
    for (a, b) in [("1", "-1"), ("1", "10"), ("0.1", "0.01"), ("12", "21"), ("1", "\"1\""), ("101", "11")] {
        assert!(!same(a, b), "{a} {b}");
    }
}

#[test]
fn large_numbers_do_not_lose_digits() {
    assert!(!same("18446744073709551616", "18446744073709551617"));
    assert!(!same("9007199254740993", "9007199254740992"));
    assert!(!same("9007199254740993", "9007199254740992.0"));
    assert!(same("9007199254740993", "9007199254740993.0"));
    let long = "7".repeat(400);
    assert!(same(&format!("{long}0"), &format!("{long}e1")));
    assert!(!same(&long, &format!("{long}1")));
}

#[test]
fn an_exponent_beyond_all_machines_is_only_equal_to_itself() {
    let huge = "1e99999999999999999999999";
    assert!(same(huge, huge));
    assert!(!same(huge, "10e99999999999999999999998"));
    assert!(!same("1e400", "1e401"));
    assert!(same("1e400", "10e399"));
}

#[test]
fn quantities_are_strings_like_any_other() {
    assert!(!same("\"1000m\"", "\"1\""));
}

#[test]
fn strings_are_compared_by_what_they_mean() {
    assert!(same(r#""a/b""#, r#""a\/\u0062""#));
    assert!(!same(r#""a""#, r#""A""#));
}

#[test]
fn members_may_come_in_any_order_and_items_may_not() {
    assert!(same(r#"{"a":1,"b":[1,2]}"#, r#"{ "b":[1.0, 2], "a":1 }"#));
    assert!(!same("[1,2]", "[2,1]"));
    assert!(!same(r#"{"a":null}"#, "{}"));
    assert!(!same("{}", "[]"));
}

#[test]
fn a_doubled_name_or_too_much_depth_is_never_equal() {
    let twice = equal(Raw::parse(r#"{"a":1,"a":2}"#).unwrap(), Raw::parse(r#"{"a":2,"a":2}"#).unwrap());
    assert_eq!(twice, Err(RawError::DuplicateName("a".to_owned())));
    let deep = |leaf: &str| format!("{}{leaf}{}", "[".repeat(100_000), "]".repeat(100_000));
    let (a, b) = (deep("1"), deep("2"));
    assert_eq!(equal(Raw::parse(&a).unwrap(), Raw::parse(&b).unwrap()), Err(RawError::Depth(MAX_DEPTH)));
}

#[test]
fn values_are_found_by_field_key_member_and_index() {
    let schema = Schema::from_crd(&json!({"type": "object", "properties": {
        "ports": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "properties": {
                "port": {"type": "integer"}, "name": {"type": "string"},
                "protocol": {"type": "string", "default": "TCP"}}}}}}))
    .unwrap();
    let text = r#"{"ports":[{"port":1,"protocol":"UDP","name":"u"},{"port":1,"name":"t"}],"s":["x","y"]}"#;
    let tree = Tree::new(Raw::parse(text).unwrap()).unwrap();
    let key = |fields: &[(&str, Scalar)]| {
        Element::key(fields.iter().map(|(name, scalar)| (Arc::from(*name), scalar.clone())).collect())
    };
    let one = Scalar::parse("1.0").unwrap();
    let find = |path: &[Element]| at(tree.root(), path, schema.root()).unwrap().map(Raw::text);
    let ports = Element::field("ports");
    let tcp = key(&[("port", one.clone()), ("protocol", Scalar::string("TCP"))]);
    assert_eq!(find(&[ports.clone(), tcp, Element::field("name")]), Some("\"t\""));
    assert_eq!(find(&[ports.clone(), key(&[("port", one)])]), None, "a default is part of the key");
    assert_eq!(find(&[ports, Element::Index(0), Element::field("name")]), Some("\"u\""));
    assert_eq!(find(&[Element::field("s"), Element::value(Scalar::string("y"))]), Some("\"y\""));
    assert_eq!(find(&[Element::field("s"), Element::field("y")]), None);
    assert_eq!(find(&[]), Some(text));
}

proptest! {
    #[test]
    fn numbers_written_differently_are_the_same(number in any::<i64>(), zeros in 0..5_usize) {
        let written = [
            format!("{number}.{}", "0".repeat(zeros + 1)),
            format!("{number}{}e-{zeros}", "0".repeat(zeros)),
            format!("{number}e0"),
        ];
        for other in written {
            prop_assert!(same_number(&number.to_string(), &other), "{number} {other}");
        }
    }

    #[test]
    fn two_integers_are_the_same_number_only_if_they_are_one(a in any::<i128>(), b in any::<i128>()) {
        prop_assert_eq!(same_number(&a.to_string(), &b.to_string()), a == b);
        prop_assert!(same_number(&a.to_string(), &a.to_string()));
    }
}
