use proptest::prelude::*;

use super::*;
use crate::ownership::element::Element;

fn raw(json: &str) -> Raw<'_> {
    Raw::parse(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

const OBSERVED: &str = r#"[
  {"manager":"ctrl-a","operation":"Apply","apiVersion":"infra.example.io/v1","time":"2026-07-24T10:00:00Z",
   "fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{},"f:size":{}}}},
  {"manager":"kube-controller-manager","operation":"Update","apiVersion":"infra.example.io/v1",
   "fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}},"subresource":"scale"}
]"#;

#[test]
fn entries_borrow_from_the_object() {
    let list = raw(OBSERVED);
    let entries = parse_entries(list).unwrap();
    let [applied, scaled] = &entries[..] else { panic!("two entries") };
    assert_eq!(applied.identity(), ("ctrl-a", Operation::Apply, ""));
    assert_eq!(scaled.identity(), ("kube-controller-manager", Operation::Update, "scale"));
    assert_eq!(applied.time.as_deref(), Some("2026-07-24T10:00:00Z"));
    assert!(scaled.time.is_none());
    for text in [&applied.manager, &applied.api_version, &scaled.subresource] {
        assert!(matches!(text, Cow::Borrowed(_)), "{text}");
    }
    assert!(applied.raw.starts_with(r#"{"manager":"ctrl-a""#) && applied.raw.ends_with("}}}"));
}

#[test]
fn the_set_is_read_on_demand() {
    let list = raw(OBSERVED);
    let entries = parse_entries(list).unwrap();
    let set = entries[0].set().unwrap();
    assert!(set.contains(&[Element::field("spec"), Element::field("size")]));
    assert_eq!(set.len(), 2);
}

#[test]
fn an_entry_without_known_fields_is_kept_as_unreadable() {
    for json in [
        "[{}]",
        r#"[{"fieldsV1":{"f:a":{}}}]"#,
        r#"[{"fieldsType":"FieldsV1"}]"#,
        r#"[{"fieldsType":"FieldsV1","fieldsV1":null}]"#,
        r#"[{"fieldsV1":{"f:a":{}},"fieldsType":"FieldsV2"}]"#,
    ] {
        let list = raw(json);
        let entries = parse_entries(list).unwrap();
        assert_eq!(entries.len(), 1);
        assert!(!entries[0].is_readable(), "{json}");
        assert_eq!(entries[0].set(), Err(FieldsV1Error::Missing));
    }
}

#[test]
fn a_bad_set_is_an_error_of_that_entry_only() {
    let list = raw(r#"[{"fieldsType":"FieldsV1","fieldsV1":["x"]},{"fieldsType":"FieldsV1","fieldsV1":{}}]"#);
    let entries = parse_entries(list).unwrap();
    assert!(matches!(entries[0].set(), Err(FieldsV1Error::Syntax(_))));
    assert_eq!(entries[1].set(), Ok(&PathSet::new()));
}

#[test]
fn what_is_absent_is_empty() {
    let list = raw(r#"[{"manager":null,"operation":"Patch","later":{"added":[1]}}]"#);
    let entries = parse_entries(list).unwrap();
    assert_eq!(entries[0].identity(), ("", Operation::Other, ""));
    assert!(parse_entries(raw("null")).unwrap().is_empty());
    assert!(parse_entries(raw("[]")).unwrap().is_empty());
}

#[test]
fn escaped_names_are_read() {
    let list = raw(r#"[{"\u006danager":"a\"b\u0041"}]"#);
    assert_eq!(parse_entries(list).unwrap()[0].manager, "a\"bA");
}

#[test]
fn garbage_is_an_error_that_says_where() {
    for (json, text) in [
        ("{}", "managedFields is not valid: expected an array, found an object"),
        ("7", "managedFields is not valid: expected an array, found a number"),
        (r#"[{},"x"]"#, "managedFields[1] is not valid: expected an object, found a string"),
        (r#"[["ctrl-a","Apply"]]"#, "managedFields[0] is not valid: expected an object, found an array"),
        ("[null]", "managedFields[0] is not valid: expected an object, found null"),
        (r#"[{"manager":7}]"#, "managedFields[0] is not valid: expected a string, found a number"),
        (r#"[{"time":{}}]"#, "managedFields[0] is not valid: expected a string, found an object"),
        (r#"[{"time":null,"time":null}]"#, "managedFields[0] is not valid: the name \"time\" occurs twice"),
    ] {
        let error = parse_entries(raw(json)).map(|entries| entries.len()).expect_err(json).to_string();
        assert!(error.starts_with(text), "{json}: {error}");
    }
}

#[test]
fn too_many_entries_are_an_error() {
    let many = |count: usize| {
        parse_entries(raw(&format!("[{}]", vec!["{}"; count].join(",")))).map(|list| list.len())
    };
    assert_eq!(many(MAX_ENTRIES), Ok(MAX_ENTRIES));
    assert_eq!(many(MAX_ENTRIES + 1), Err(EntryError::TooMany));
}

proptest! {
    #[test]
    fn reading_never_panics(parts in prop::collection::vec(prop::sample::select(vec![
        "[", "]", "{", "}", ",", ":", "\"manager\"", "\"fieldsV1\"", "\"fieldsType\"", "\"FieldsV1\"", "null", "1",
    ]), 0..16)) {
        if let Ok(list) = Raw::parse(&parts.concat())
            && let Ok(entries) = parse_entries(list)
        {
            for entry in entries {
                let _ = entry.set();
            }
        }
    }
}
