use proptest::prelude::*;

use super::*;

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The path of the same text.
fn path(text: &str) -> Path {
    if text == "." { Path::root() } else { pattern(text).literal_path().expect("no [*]") }
}

#[test]
fn every_form_of_step_is_read() {
    let steps = pattern(r#".spec["a.b/c"][key="x",effect="NoSchedule"][="x"][=1][=true][=null][*]._a-b0"#);
    let key = Element::key(vec![
        (Arc::from("effect"), Scalar::string("NoSchedule")),
        (Arc::from("key"), Scalar::string("x")),
    ]);
    let Element::Key(key) = key else { unreachable!() };
    assert_eq!(
        steps.steps(),
        [
            Step::Field(Arc::from("spec")),
            Step::Field(Arc::from("a.b/c")),
            Step::Key(key),
            Step::Value(Scalar::string("x")),
            Step::Value(Scalar::Number(1.into())),
            Step::Value(Scalar::Bool(true)),
            Step::Value(Scalar::Null),
            Step::Any,
            Step::Field(Arc::from("_a-b0")),
        ]
    );
}

#[test]
fn a_pattern_prints_its_canonical_text() {
    for (written, printed) in [
        (".spec.replicas", ".spec.replicas"),
        (r#"["spec"]["a-b"]["a.b"]"#, r#".spec.a-b["a.b"]"#),
        (r#".a[ key = "x" , effect = "y" ]"#, r#".a[effect="y",key="x"]"#),
        (r#".a["b"=1.0,"c.d"=2]"#, r#".a[b=1,"c.d"=2]"#),
        (r#".a[="\u0041\"\\"]"#, r#".a[="A\"\\"]"#),
        (r#".a["]"][="x]y"][k="a,b"]"#, r#".a["]"][="x]y"][k="a,b"]"#),
        (r#".a[""][*]"#, r#".a[""][*]"#),
    ] {
        assert_eq!(pattern(written).to_string(), printed);
        assert_eq!(pattern(printed), pattern(written));
    }
}

#[test]
fn the_order_of_key_fields_does_not_make_another_path() {
    assert_eq!(pattern(r#".a[k="x",e="y"]"#), pattern(r#".a[e="y",k="x"]"#));
    assert_ne!(pattern(".a.b"), pattern(r#"["a.b"]"#));
}

#[test]
fn errors_say_where_what_was_found_and_what_is_expected() {
    for (text, position, message) in [
        ("", 0, "at least one field"),
        (".", 0, "at least one field"),
        ("spec.a", 0, "found 's': a path begins with a dot"),
        ("..a", 1, "found '.': a name after a dot begins with"),
        (".a.", 3, "the path ends here: a name after a dot"),
        (".a.0", 3, "written [\"name\"]"),
        (".a b", 2, "found ' ': a name ends at '.' or '['"),
        (".metadata.annotations.a.b/c", 25, "found '/': a name ends at '.' or '['"),
        (".é", 1, "found 'é'"),
        (r#".a.["b"]"#, 3, "no dot is written before a bracket"),
        (".a.*", 3, "is written [*]"),
        (".a[0]", 3, "positions in lists change"),
        (".a[-1]", 3, "positions in lists change"),
        (".a[]", 3, "found ']': list keys are written [name=\"value\"]"),
        (".a[", 3, "the path ends here: list keys are written"),
        (".a['b']", 3, "map keys [\"key\"]"),
        (".a[name]", 7, "found ']': '=' and a value are expected; list keys are written [name=\"value\"]"),
        (".a[name:\"x\"]", 7, "found ':': '=' and a value"),
        (".a[name=x]", 8, "found \"x\": text is written in double quotes"),
        (".a[name='x']", 8, "text is written in double quotes"),
        (".a[name=]", 8, "a value is expected"),
        (".a[={}]", 4, "found \"{}\""),
        (".a[name=01]", 8, "found \"01\""),
        (r#".a[name="x"#, 8, "no closing quote"),
        (r#".a[name="x\"]"#, 8, "no closing quote"),
        (r#".a["b\x"]"#, 3, "not valid JSON"),
        (r#".a[name="x""#, 11, "the path ends here: ']' is expected"),
        (r#".a["b" c]"#, 7, "found 'c': ']' is expected"),
        (r#".a[name="x" b="y"]"#, 12, "']' is expected"),
        (r#".a[name="x",]"#, 12, "the next field of the list key"),
        (r#".a[name="x",name="y"]"#, 20, "names the field \"name\" twice"),
        (".a[*", 4, "']' is expected"),
        (".a[*]b", 5, "a name ends at"),
        (".a]", 2, "found ']'"),
    ] {
        let error = Pattern::parse(text).expect_err(text);
        assert_eq!(error.position, position, "{text}: {error}");
        assert!(error.message.contains(message), "{text}: {error}");
    }
}

#[test]
fn length_and_steps_are_limited() {
    assert_eq!(pattern(&".a".repeat(MAX_STEPS)).steps().len(), MAX_STEPS);
    let error = Pattern::parse(&".a".repeat(MAX_STEPS + 1)).expect_err("too many");
    assert_eq!(error.position, 2 * MAX_STEPS);
    assert!(Pattern::parse(&format!(".{}", "a".repeat(MAX_LENGTH - 1))).is_ok());
    assert!(Pattern::parse(&format!(".{}", "a".repeat(MAX_LENGTH))).is_err());
}

#[test]
fn a_pattern_covers_its_node_and_all_below() {
    let spec = pattern(".spec");
    assert!(spec.covers(&path(".spec")) && spec.covers(&path(r#".spec.a["b.c"][x=1]"#)));
    assert!(!spec.covers(&path(".status")) && !spec.covers(&path(".specs")) && !spec.covers(&[]));
    assert!(spec.ends_at(&path(".spec")) && !spec.ends_at(&path(".spec.a")));
}

#[test]
fn a_pattern_reaches_below_the_nodes_above_its_own() {
    let pattern = pattern(".spec.taints[*].value");
    for above in [".", ".spec", ".spec.taints", r#".spec.taints[key="x"]"#] {
        assert!(pattern.reaches_below(&path(above)), "{above}");
    }
    for other in [r#".spec.taints[key="x"].value"#, ".spec.other", ".status"] {
        assert!(!pattern.reaches_below(&path(other)), "{other}");
    }
}

#[test]
fn a_star_covers_items_keys_and_indexes() {
    let any = pattern(".a[*]");
    for element in [".a.b", r#".a["b.c"]"#, r#".a[k="x"]"#, r#".a[="x"]"#] {
        assert!(any.ends_at(&path(element)), "{element}");
    }
    assert!(any.ends_at(&[Element::field("a"), Element::Index(3)]));
    assert!(!any.covers(&path(".a")));
}

#[test]
fn part_of_a_list_key_covers_every_item_that_has_it() {
    let part = pattern(r#".taints[key="x"]"#);
    assert!(part.covers(&path(r#".taints[key="x"]"#)));
    assert!(part.covers(&path(r#".taints[effect="NoSchedule",key="x"].value"#)));
    assert!(!part.covers(&path(r#".taints[key="y"]"#)) && !part.covers(&path(r#".taints[effect="x"]"#)));
    let whole = pattern(r#".taints[key="x",effect="NoSchedule"]"#);
    assert!(!whole.covers(&path(r#".taints[key="x"]"#)));
}

#[test]
fn values_are_compared_as_the_server_does() {
    assert!(pattern(".a[port=80.0]").covers(&path(".a[port=80]")));
    assert!(!pattern(r#".a[port="80"]"#).covers(&path(".a[port=80]")));
    assert!(!pattern(r#".a[="b"]"#).covers(&path(".a.b")));
}

#[test]
fn the_most_specific_pattern_comes_first() {
    let ordered = [
        r#".spec.taints[effect="e",key="x"].value"#,
        r#".spec.taints[key="x"].value"#,
        ".spec.taints[*].value",
        r#".spec.taints[effect="e",key="x"]"#,
        r#".spec.taints[key="x"]"#,
        ".spec.taints[*]",
        ".spec[*][*]",
        ".spec.taints",
        ".spec[*]",
        ".spec",
    ]
    .map(pattern);
    for (i, a) in ordered.iter().enumerate() {
        for (j, b) in ordered.iter().enumerate() {
            assert_eq!(a.cmp_specificity(b), i.cmp(&j), "{a} {b}");
        }
    }
    assert_eq!(pattern(".a").cmp_specificity(&pattern(".b")), Ordering::Equal);
}

#[test]
fn only_a_pattern_without_star_is_one_path() {
    assert_eq!(pattern(r#".a["b.c"][k=1][=2]"#).literal_path().unwrap().to_string(), r#".a["b.c"][k=1][=2]"#);
    assert_eq!(pattern(".a[*].b").literal_path(), None);
}

#[test]
fn steps_that_have_no_text_make_no_pattern() {
    let key = |names: &[&str]| {
        Step::Key(names.iter().map(|name| (Arc::from(*name), Scalar::Null)).collect::<Vec<_>>().into())
    };
    assert_eq!(Pattern::from_steps(vec![]), None);
    assert_eq!(Pattern::from_steps(vec![key(&[])]), None);
    assert_eq!(Pattern::from_steps(vec![key(&["a", "a"])]), None);
    assert_eq!(Pattern::from_steps(vec![Step::Any; MAX_STEPS + 1]), None);
    assert_eq!(Pattern::from_steps(vec![key(&["b", "a"])]), Some(pattern("[a=null,b=null]")));
}

fn any_scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        Just(Scalar::Null),
        any::<bool>().prop_map(Scalar::Bool),
        any::<i64>().prop_map(|n| Scalar::Number(n.into())),
        any::<f64>().prop_filter_map("finite", |n| serde_json::Number::from_f64(n).map(Scalar::Number)),
        ".{0,6}".prop_map(|text| Scalar::string(&text)),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let name = prop_oneof!["[a-c]", "[a-zA-Z_][a-zA-Z0-9_-]{0,8}", ".{0,6}"];
    prop_oneof![
        name.clone().prop_map(|name| Step::Field(Arc::from(name))),
        prop::collection::btree_map(name.prop_map(Arc::from), any_scalar(), 1..3)
            .prop_map(|fields| Step::Key(fields.into_iter().collect::<Vec<_>>().into())),
        any_scalar().prop_map(Step::Value),
        Just(Step::Any),
    ]
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    prop::collection::vec(any_step(), 1..6).prop_map(|steps| Pattern::from_steps(steps).expect("valid steps"))
}

proptest! {
    #[test]
    fn a_printed_pattern_reads_back_as_the_same(pattern in any_pattern()) {
        let text = pattern.to_string();
        prop_assert_eq!(Pattern::parse(&text), Ok(pattern));
    }

    #[test]
    fn a_printed_path_is_a_pattern_that_ends_at_it(pattern in any_pattern()) {
        if let Some(path) = pattern.literal_path() {
            let read = Pattern::parse(&path.to_string());
            prop_assert_eq!(read.as_ref().map(|read| read.ends_at(&path)), Ok(true));
            prop_assert_eq!(read.map(|read| read.literal_path()), Ok(Some(path)));
        }
    }

    #[test]
    fn reading_never_panics_and_points_into_the_text(text in r#"([.a-c\[\]*="\\ ,0é-]|\.spec){0,16}"#) {
        match Pattern::parse(&text) {
            Ok(pattern) => prop_assert_eq!(Pattern::parse(&pattern.to_string()), Ok(pattern)),
            Err(error) => prop_assert!(text.is_char_boundary(error.position)),
        }
    }

    #[test]
    fn a_pattern_stands_to_a_path_in_one_way_at_most(pattern in any_pattern(), cut in 0_usize..6, more in any_step()) {
        let Some(mut path) = pattern.literal_path() else { return Ok(()) };
        path.extend(more.element());
        let path = &path[..cut.min(path.len())];
        prop_assert_eq!(pattern.covers(path), path.len() >= pattern.steps().len());
        prop_assert_eq!(pattern.ends_at(path), path.len() == pattern.steps().len());
        prop_assert_eq!(pattern.reaches_below(path), path.len() < pattern.steps().len());
    }

    #[test]
    fn specificity_is_an_order(a in any_pattern(), b in any_pattern(), c in any_pattern()) {
        prop_assert_eq!(a.cmp_specificity(&b), b.cmp_specificity(&a).reverse());
        if a.cmp_specificity(&b).is_le() && b.cmp_specificity(&c).is_le() {
            prop_assert!(a.cmp_specificity(&c).is_le());
        }
    }
}
