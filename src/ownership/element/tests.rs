use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn scalar(raw: &str) -> Scalar {
    Scalar::parse(raw).unwrap_or_else(|| panic!("{raw} is a scalar"))
}

fn hash(scalar: &Scalar) -> u64 {
    let mut hasher = DefaultHasher::new();
    scalar.hash(&mut hasher);
    hasher.finish()
}

fn key(fields: &[(&str, &str)]) -> Element {
    Element::key(fields.iter().map(|(name, raw)| (Arc::from(*name), scalar(raw))).collect())
}

#[test]
fn numbers_are_equal_by_value_and_hash_alike() {
    for (a, b) in
        [("1", "1.0"), ("1", "1e0"), ("0", "-0.0"), ("-3", "-3.000"), ("1e20", "100000000000000000000")]
    {
        assert_eq!(scalar(a), scalar(b));
        assert_eq!(hash(&scalar(a)), hash(&scalar(b)));
        assert_eq!(scalar(a).to_string(), scalar(b).to_string());
    }
}

#[test]
fn large_integers_keep_every_digit() {
    for (a, b) in [
        ("9007199254740992", "9007199254740993"),
        ("9223372036854775807", "9223372036854775808"),
        ("18446744073709551614", "18446744073709551615"),
        ("18446744073709551615", "18446744073709551616"),
    ] {
        assert!(scalar(a) < scalar(b), "{a} {b}");
        assert_eq!(scalar(a).to_string(), a);
    }
}

#[test]
fn whole_numbers_and_fractions_are_ordered_exactly() {
    let ascending = [
        "-1e300",
        "-9223372036854775809e3",
        "-9223372036854775808",
        "-2",
        "-1.5",
        "-1",
        "-0.5",
        "0",
        "1e-7",
        "0.5",
        "1",
        "1.5",
        "9007199254740993",
        "18446744073709551615",
        "1e20",
        "1e300",
    ];
    for pair in ascending.windows(2) {
        assert!(scalar(pair[0]) < scalar(pair[1]), "{pair:?}");
        assert!(scalar(pair[1]) > scalar(pair[0]), "{pair:?}");
    }
}

#[test]
fn kinds_of_scalars_are_never_equal_and_ordered_as_in_structured_merge_diff() {
    let ascending = ["2", "\"1\"", "false", "true", "null"];
    for pair in ascending.windows(2) {
        assert!(scalar(pair[0]) < scalar(pair[1]), "{pair:?}");
    }
}

#[test]
fn kinds_of_elements_are_ordered_as_in_structured_merge_diff() {
    let ascending = [
        Element::field("a"),
        Element::field("b"),
        key(&[("a", "1")]),
        key(&[("a", "1"), ("b", "1")]),
        key(&[("a", "2")]),
        key(&[("b", "1")]),
        Element::value(scalar("1")),
        Element::value(scalar("\"a\"")),
        Element::Index(0),
        Element::Index(1),
    ];
    for pair in ascending.windows(2) {
        assert!(pair[0] < pair[1], "{pair:?}");
    }
}

#[test]
fn only_scalars_are_read_as_scalars() {
    for raw in [
        "", " ", "{}", "[1]", "nul", "nulll", "tru", "01", "1 2", "\"a", "\"a\"b\"", "\"\n\"", "'a'", "NaN",
        "1e999", "+1",
    ] {
        assert!(Scalar::parse(raw).is_none(), "{raw:?}");
    }
    assert!(Scalar::from_json(&json!({})).is_none());
    assert!(Scalar::from_json(&json!([])).is_none());
}

#[test]
fn reading_from_text_and_from_a_value_is_the_same() {
    for value in [json!(null), json!(true), json!(-7), json!(1.25), json!("a\"\\\u{1}é\u{2028}")] {
        assert_eq!(Scalar::parse(&value.to_string()), Scalar::from_json(&value));
    }
    assert_eq!(Scalar::parse(" \t\n\"x\"\r"), Some(Scalar::string("x")));
    assert_eq!(scalar(r#""\u0061\/b""#), Scalar::string("a/b"));
}

#[test]
fn elements_print_as_in_apply_conflicts() {
    assert_eq!(Element::field("spec").to_string(), ".spec");
    assert_eq!(Element::field("_a-b0").to_string(), "._a-b0");
    assert_eq!(Element::field("a.b/c").to_string(), r#"["a.b/c"]"#);
    assert_eq!(Element::field("").to_string(), r#"[""]"#);
    assert_eq!(Element::field("0").to_string(), r#"["0"]"#);
    assert_eq!(Element::field("-a").to_string(), r#"["-a"]"#);
    assert_eq!(
        key(&[("key", "\"x\""), ("effect", "\"NoSchedule\"")]).to_string(),
        r#"[effect="NoSchedule",key="x"]"#
    );
    assert_eq!(key(&[("a.b", "80")]).to_string(), r#"["a.b"=80]"#);
    assert_eq!(Element::value(scalar("true")).to_string(), "[=true]");
    assert_eq!(Element::value(scalar("null")).to_string(), "[=null]");
    assert_eq!(Element::Index(7).to_string(), "[7]");
}

#[test]
fn numbers_print_as_gos_json_prints_them() {
    for (raw, printed) in [
        ("1.0", "1"),
        ("1e3", "1000"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("1.5e-7", "1.5e-07"),
        ("0.000001", "0.000001"),
        ("-1e300", "-1e+300"),
        ("0.1", "0.1"),
    ] {
        assert_eq!(scalar(raw).to_string(), printed);
    }
}

#[test]
fn characters_that_could_deceive_a_reader_are_escaped() {
    let printed = Scalar::string("\u{1b}[2J\u{202e}\u{7f}\u{85}\u{200b}\n").to_string();
    assert_eq!(printed, r#""\u001b[2J\u202e\u007f\u0085\u200b\n""#);
    assert_eq!(scalar(&printed), Scalar::string("\u{1b}[2J\u{202e}\u{7f}\u{85}\u{200b}\n"));
}

#[test]
fn the_order_of_key_fields_as_given_does_not_matter() {
    assert_eq!(key(&[("a", "1"), ("b", "2")]), key(&[("b", "2"), ("a", "1")]));
}

fn any_scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        Just(Scalar::Null),
        any::<bool>().prop_map(Scalar::Bool),
        any::<i64>().prop_map(|n| Scalar::Number(n.into())),
        any::<u64>().prop_map(|n| Scalar::Number(n.into())),
        (-4_i32..4).prop_map(|n| Scalar::Number(Number::from_f64(f64::from(n) / 2.0).unwrap())),
        any::<f64>().prop_filter_map("finite", |n| Number::from_f64(n).map(Scalar::Number)),
        any::<String>().prop_map(|text| Scalar::string(&text)),
    ]
}

proptest! {
    #[test]
    fn a_printed_scalar_reads_back_as_the_same(scalar in any_scalar()) {
        let printed = scalar.to_string();
        prop_assert_eq!(Scalar::parse(&printed), Some(scalar));
        prop_assert!(serde_json::from_str::<Value>(&printed).is_ok());
    }

    #[test]
    fn the_order_of_scalars_is_total(a in any_scalar(), b in any_scalar(), c in any_scalar()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
        if a == b {
            prop_assert_eq!(hash(&a), hash(&b));
            prop_assert_eq!(a.to_string(), b.to_string());
        }
        let distinct: HashSet<_> = [&a, &b, &c].into_iter().collect();
        let mut sorted = [&a, &b, &c].to_vec();
        sorted.sort();
        sorted.dedup();
        prop_assert_eq!(distinct.len(), sorted.len());
    }

    #[test]
    fn reading_a_scalar_never_panics(raw in ".{0,24}") {
        let _ = Scalar::parse(&raw);
    }
}
