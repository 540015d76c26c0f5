//! What is a condition and what is not, and that printing and parsing agree.

use proptest::prelude::*;

use super::*;
use crate::ownership::condition::Number;

fn printed(text: &str) -> String {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
}

fn refused(text: &str) -> (usize, String) {
    let error = parse(text).expect_err(text);
    (error.position, error.message)
}

#[test]
fn precedence_is_that_of_cel() {
    assert_eq!(
        printed("(oldObject.a == 1 && oldObject.b == 2) || (oldObject.c == 3)"),
        "oldObject.a == 1 && oldObject.b == 2 || oldObject.c == 3"
    );
    assert_eq!(
        printed("(oldObject.a || oldObject.b) && oldObject.c"),
        "(oldObject.a || oldObject.b) && oldObject.c"
    );
    assert_eq!(printed("!oldObject.a == oldObject.b"), "!oldObject.a == oldObject.b");
    assert_eq!(printed("!(oldObject.a == oldObject.b)"), "!(oldObject.a == oldObject.b)");
    assert!(matches!(parse("!oldObject.a == true").unwrap(), Expr::Compare(Comparison::Equal, ..)));
    assert!(
        matches!(parse("oldObject.a && oldObject.b && oldObject.c").unwrap(), Expr::All(terms) if terms.len() == 3)
    );
}

#[test]
fn fields_and_keys_are_selected_in_every_spelling() {
    for text in ["oldObject.a['b.c/d'].e", "oldObject [\"a\"] . ?'b.c/d'", "oldObject.?a[?'b.c/d']['e']"] {
        let parsed = parse(&format!("has({text})"));
        if text.contains(". ?'") {
            assert!(parsed.is_err(), "{text}");
        } else {
            assert_eq!(parsed.unwrap().to_string(), "has(oldObject.a['b.c/d'].e)", "{text}");
        }
    }
    assert_eq!(printed("has(oldObject.spec.namespace.for)"), "has(oldObject.spec.namespace.for)");
    assert_eq!(printed("has(oldObject.spec['in'])"), "has(oldObject.spec['in'])");
}

#[test]
fn strings_have_the_escapes_of_cel() {
    let text = |literal: &str| match parse(&format!("oldObject.a == {literal}")).unwrap() {
        Expr::Compare(_, _, right) => match *right {
            Expr::Literal(Literal::String(text)) => text.into_string(),
            other => panic!("{other}"),
        },
        other => panic!("{other}"),
    };
    assert_eq!(text(r#"'it\'s "so"'"#), "it's \"so\"");
    assert_eq!(text(r#""\a\b\f\n\r\t\v\\\?\`""#), "\u{7}\u{8}\u{c}\n\r\t\u{b}\\?`");
    assert_eq!(text(r"'\x41\u00e9\U0001F600\101'"), "Aé😀A");
    assert_eq!(text(r"r'\d+'"), r"\d+");
    assert_eq!(text("'é'"), "é");
}

#[test]
fn numbers_have_the_forms_of_cel() {
    for (text, value) in [
        ("0", Number::Integer(0)),
        ("-9223372036854775808", Number::Integer(i128::from(i64::MIN))),
        ("9223372036854775807", Number::Integer(i128::from(i64::MAX))),
        ("18446744073709551615u", Number::Integer(i128::from(u64::MAX))),
        ("0xFF", Number::Integer(255)),
        ("-0x10", Number::Integer(-16)),
        ("1.5", Number::Double(1.5)),
        (".5", Number::Double(0.5)),
        ("1e3", Number::Double(1000.0)),
        ("-2.5E-1", Number::Double(-0.25)),
    ] {
        let expected = Expr::Literal(Literal::Number(value));
        let Expr::Compare(_, _, right) = parse(&format!("oldObject.a == {text}")).unwrap() else {
            panic!("{text}")
        };
        assert_eq!(*right, expected, "{text}");
    }
    for text in
        ["9223372036854775808", "-9223372036854775809", "18446744073709551616u", "-1u", "1e999", "0x", "12ab"]
    {
        assert!(parse(&format!("oldObject.a == {text}")).is_err(), "{text}");
    }
}

#[test]
fn errors_name_the_byte_and_say_what_to_do() {
    for (text, position, message) in [
        ("", 0, "the condition ends too early"),
        ("oldObject.a ==", 14, "the condition ends too early"),
        ("oldObject.a = 1", 12, "`=` is no comparison; use =="),
        ("oldObject.a & true", 12, "write && and || with two characters"),
        ("oldObject.a | true", 12, "write && and || with two characters"),
        ("oldObject.a + 1 == 2", 12, "arithmetic is not possible in a condition"),
        ("-oldObject.a == 2", 0, "arithmetic is not possible in a condition"),
        ("oldObject.a ? true : false", 12, "`? :` is not possible in a condition; use && and ||"),
        ("size(oldObject.a) == 1", 0, "calls are not possible in a condition, except has(...)"),
        ("oldObject.a.startsWith('x')", 22, "calls are not possible in a condition, except has(...)"),
        ("oldObject.a[0] == 1", 12, "items cannot be read by position: any writer of the list can move them"),
        ("oldObject.a[oldObject.b] == 1", 12, "a key in quotes is needed between the brackets"),
        ("self.a == 1", 0, "`self` is unknown here; there is only oldObject"),
        ("object.a == 1", 0, "`object` is unknown here; there is only oldObject"),
        ("oldObject == null", 0, "select a field of `oldObject`, such as oldObject.spec"),
        ("has(oldObject)", 4, "select a field of `oldObject`, such as oldObject.spec"),
        ("has('a')", 4, "has() needs a path such as oldObject.spec.mode"),
        ("oldObject.1a == 1", 11, "a number ends before letters"),
        ("oldObject.a-b == 1", 11, "arithmetic is not possible in a condition"),
        ("oldObject.true", 10, "a field name is needed after the dot; others go into ['...']"),
        ("1 < oldObject.a < 3", 16, "comparisons do not chain; use && or parentheses"),
        ("oldObject.a in 'x'", 15, "`in` needs a list or a map on its right"),
        ("oldObject.a in [oldObject.b]", 16, "a list holds only literals"),
        ("oldObject.a < null", 14, "null has no order"),
        ("'x'", 0, "the condition needs true or false, not 'x'"),
        ("oldObject.a && 1", 15, "`&&` needs true or false, not 1"),
        ("!'x'", 1, "`!` needs true or false, not 'x'"),
        ("(oldObject.a", 12, "`)` is missing"),
        ("(oldObject).a", 1, "select a field of `oldObject`, such as oldObject.spec"),
        ("(oldObject.a).b", 13, "only a variable has fields to select"),
        ("oldObject.a == {}", 15, "maps cannot be written in a condition"),
        ("oldObject.a == b'x'", 15, "a string has no prefix but r; bytes are not possible in a condition"),
        ("oldObject.a == 'x", 15, "the string does not end"),
        ("oldObject.a == '''x'''", 15, "strings in triple quotes are not possible in a condition"),
        (
            "oldObject.a == '\\q'",
            16,
            "CEL has no such escape in strings; a backslash itself is written twice",
        ),
        ("oldObject.a == '\\ud800'", 16, "the escape names no character"),
        ("oldObject.a == #", 15, "the character '#' has no meaning in a condition"),
        ("oldObject.a oldObject.b", 12, "`oldObject` cannot stand here"),
        ("oldObject.a 'x'", 12, "a value cannot stand here"),
    ] {
        assert_eq!(refused(text), (position, message.to_owned()), "{text}");
    }
}

#[test]
fn a_condition_that_is_too_long_is_marked_between_two_characters() {
    let long = format!("oldObject.a == '{}'", "\u{e9}".repeat(MAX_LENGTH));
    for text in [format!(" {long}"), long] {
        assert!(text.is_char_boundary(refused(&text).0), "{}", refused(&text).0);
    }
}

#[test]
fn length_and_depth_are_limited() {
    let long = format!("oldObject.a == '{}'", "x".repeat(MAX_LENGTH));
    assert_eq!(refused(&long).1, "the condition is longer than 1024 bytes");
    let deep = |n: usize| format!("{}oldObject.a{}", "(".repeat(n), ")".repeat(n));
    assert!(parse(&deep(MAX_DEPTH)).is_ok());
    assert_eq!(
        refused(&deep(MAX_DEPTH + 1)),
        (MAX_DEPTH, "the condition is nested more than 32 deep".to_owned())
    );
    assert!(parse(&format!("{}oldObject.a", "!".repeat(MAX_DEPTH + 1))).is_err());
    assert!(parse(&format!("oldObject.a in {}{}", "[".repeat(40), "]".repeat(40))).is_err());
    let wide = vec!["oldObject.a"; 60].join(" || ");
    assert!(parse(&wide).is_ok(), "many terms are not deep");
}

#[test]
fn a_mutator_reads_both_objects_and_a_claim_only_the_stored_one() {
    assert!(parse_mutator("object.a == oldObject.a").is_ok());
    assert_eq!(
        parse_mutator("self.a == 1").unwrap_err().message,
        "`self` is unknown here; there is only oldObject and object"
    );
}

fn any_number() -> impl Strategy<Value = Number> {
    let integer =
        prop_oneof![any::<i64>().prop_map(i128::from), any::<u64>().prop_map(i128::from), Just(0), Just(1)];
    prop_oneof![
        integer.prop_map(Number::Integer),
        any::<f64>().prop_filter("finite", |d| d.is_finite()).prop_map(Number::Double)
    ]
}

fn any_text() -> impl Strategy<Value = Box<str>> {
    prop_oneof![
        "[a-z]{1,4}".prop_map(String::into_boxed_str),
        any::<String>().prop_map(|mut text| {
            text.truncate(text.floor_char_boundary(8));
            text.into_boxed_str()
        }),
        prop_oneof![Just("in"), Just("true"), Just("a.b/c"), Just("'\\\""), Just("")].prop_map(Box::from),
    ]
}

fn any_literal() -> impl Strategy<Value = Literal> {
    let leaf = prop_oneof![
        Just(Literal::Null),
        any::<bool>().prop_map(Literal::Bool),
        any_number().prop_map(Literal::Number),
        any_text().prop_map(Literal::String),
    ];
    leaf.prop_recursive(2, 6, 3, |item| {
        prop::collection::vec(item, 0..3).prop_map(|items| Literal::List(items.into_boxed_slice()))
    })
}

fn any_access() -> impl Strategy<Value = Access> {
    let root = prop_oneof![Just(Root::OldObject), Just(Root::Object)];
    (root, prop::collection::vec(any_text(), 1..4))
        .prop_map(|(root, path)| Access { root, path: path.into_boxed_slice() })
}

/// Expressions that can be a bool.
fn any_expr() -> impl Strategy<Value = Expr> {
    let operand = || prop_oneof![any_access().prop_map(Expr::Read), any_literal().prop_map(Expr::Literal)];
    let collection = || {
        prop_oneof![
            any_access().prop_map(Expr::Read),
            prop::collection::vec(any_literal(), 0..3)
                .prop_map(|items| Expr::Literal(Literal::List(items.into_boxed_slice())))
        ]
    };
    let ordered = || {
        prop_oneof![
            any_access().prop_map(Expr::Read),
            any_number().prop_map(|n| Expr::Literal(Literal::Number(n))),
            any_text().prop_map(|t| Expr::Literal(Literal::String(t))),
        ]
    };
    let compare = |c, l, r| Expr::Compare(c, Box::new(l), Box::new(r));
    let leaf = prop_oneof![
        any::<bool>().prop_map(|b| Expr::Literal(Literal::Bool(b))),
        any_access().prop_map(Expr::Read),
        any_access().prop_map(Expr::Has),
        (prop_oneof![Just(Comparison::Equal), Just(Comparison::NotEqual)], operand(), operand())
            .prop_map(move |(c, l, r)| compare(c, l, r)),
        (prop_oneof![Just(Comparison::Less), Just(Comparison::GreaterOrEqual)], ordered(), ordered())
            .prop_map(move |(c, l, r)| compare(c, l, r)),
        (operand(), collection()).prop_map(move |(l, r)| compare(Comparison::In, l, r)),
    ];
    leaf.prop_recursive(4, 12, 3, move |inner| {
        prop_oneof![
            inner.clone().prop_map(|e| Expr::Not(Box::new(e))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expr::All),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expr::Any),
            (inner.clone(), inner).prop_map(move |(l, r)| compare(Comparison::Equal, l, r)),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_parses_to_the_same(expr in any_expr()) {
        let text = expr.to_string();
        prop_assume!(text.len() <= MAX_LENGTH);
        prop_assert_eq!(parse_mutator(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?, expr);
    }

    #[test]
    fn no_text_makes_the_parser_panic_and_its_errors_lie_in_the_text(text in "[a-zO.()\\[\\]!&|=<>?'\"\\\\0-9eux, -]{0,40}|.{0,40}") {
        let text = format!("oldObject{text}");
        if let Err(error) = parse(&text) {
            prop_assert!(text.is_char_boundary(error.position), "{} in {:?}", error.position, text);
        }
    }
}
