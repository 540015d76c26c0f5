//! What conditions mean. Trees are parsed from text, as they are in life.

use serde_json::value::RawValue;

use super::*;
use crate::ownership::raw::Raw;
use crate::policy::when;

const POOL: &str = r#"{
  "metadata": {"name": "general", "labels": {"a.b/c": "x"}, "finalizers": ["f1", "f2"]},
  "spec": {"handOff": "Direct", "targetNodes": 5, "paused": false, "empty": null, "escaped": "a\"\u00e9",
           "big": 9007199254740993, "half": 1.50, "one": 1.0, "limits": {"cpu": 1}, "nested": [1, ["x", null]]}
}"#;

fn eval(text: &str) -> Result<bool, EvalError> {
    let pool: Box<RawValue> = serde_json::from_str(POOL).unwrap();
    when::parse(text).unwrap().eval(Some(Raw::from(&*pool)))
}

fn holds(text: &str) {
    assert_eq!(eval(text), Ok(true), "{text}");
}

fn fails(text: &str) {
    assert_eq!(eval(text), Ok(false), "{text}");
}

fn undecided(text: &str, sentence: &str) {
    assert_eq!(eval(text).unwrap_err().to_string(), sentence, "{text}");
}

#[test]
fn values_of_the_object_compare_with_literals() {
    holds("oldObject.spec.handOff == 'Direct'");
    fails("oldObject.spec.handOff != 'Direct'");
    holds("oldObject.spec.handOff in ['ScaleRequest', 'Direct']");
    fails("oldObject.spec.handOff in []");
    holds("oldObject.metadata.labels['a.b/c'] == 'x'");
    holds(r#"oldObject.spec.escaped == "a\"é""#);
    holds("!oldObject.spec.paused && oldObject.spec.targetNodes >= 5");
    holds("'a' < 'b' && oldObject.spec.handOff < 'E' && false < true");
}

#[test]
fn an_absent_path_compares_as_null() {
    holds("oldObject.spec.missing == null");
    holds("oldObject.status.deep.missing == null");
    holds("oldObject.spec.empty == null && oldObject.spec.empty.deeper == null");
    holds("oldObject.spec.missing != 'Direct'");
    fails("oldObject.spec.missing == false || oldObject.spec.missing == 0 || oldObject.spec.missing == ''");
    holds("oldObject.spec.missing in [null]");
    holds("oldObject.?spec.?missing == null");
}

#[test]
fn without_an_object_everything_is_absent() {
    assert_eq!(when::parse("oldObject.spec.a == null").unwrap().eval(None), Ok(true));
    assert_eq!(when::parse("has(oldObject.spec)").unwrap().eval(None), Ok(false));
}

#[test]
fn has_asks_for_presence_and_not_for_a_value() {
    holds("has(oldObject.spec.paused) && has(oldObject.spec.empty)");
    fails("has(oldObject.spec.missing) || has(oldObject.status.deep)");
}

#[test]
fn numbers_compare_by_value_and_without_loss() {
    holds("oldObject.spec.one == 1 && oldObject.spec.one == 1u && oldObject.spec.targetNodes == 5.0");
    holds("oldObject.spec.half > 1 && oldObject.spec.half < 2");
    fails("oldObject.spec.big == 9007199254740992.0 || oldObject.spec.big == 9007199254740992");
    holds("oldObject.spec.big == 9007199254740993");
    holds("oldObject.spec.one in [0, 1]");
}

#[test]
fn values_of_unlike_types_are_not_equal() {
    fails(
        "oldObject.spec.targetNodes == '5' || oldObject.spec.limits == 'cpu' || oldObject.metadata.finalizers == 1",
    );
}

#[test]
fn lists_and_maps_compare_as_a_whole() {
    holds("oldObject.metadata.finalizers == ['f1', 'f2']");
    holds("['f1', 'f2'] == oldObject.metadata.finalizers");
    fails("oldObject.metadata.finalizers == ['f1'] || oldObject.metadata.finalizers == ['f2', 'f1']");
    holds("oldObject.spec.nested == [1.0, ['x', null]]");
    holds(
        "oldObject.spec.limits == oldObject.spec.limits && oldObject.spec.limits != oldObject.metadata.labels",
    );
    holds("[1] == [1.0]");
}

#[test]
fn in_looks_into_lists_and_into_the_keys_of_maps() {
    holds("'f2' in oldObject.metadata.finalizers && !('f3' in oldObject.metadata.finalizers)");
    holds(
        "'cpu' in oldObject.spec.limits && !('memory' in oldObject.spec.limits) && !(1 in oldObject.spec.limits)",
    );
}

#[test]
fn what_has_no_answer_is_an_error() {
    undecided("oldObject.spec.missing < 1", "a null and a number have no order");
    undecided("oldObject.spec.handOff > 1", "a string and a number have no order");
    undecided("oldObject.spec.limits", "a bool is needed, but there is a map");
    undecided("!oldObject.spec.missing", "a bool is needed, but there is a null");
    undecided("'x' in oldObject.spec.missing", "`in` needs a list or a map, but there is a null");
    undecided(
        "oldObject.spec.handOff.deep == 1",
        "oldObject.spec.handOff.deep leads through something that is no object",
    );
}

#[test]
fn an_error_does_not_count_where_the_other_side_settles_it() {
    let bad = "oldObject.spec.handOff > 1";
    fails(&format!("{bad} && false"));
    fails(&format!("false && {bad}"));
    holds(&format!("{bad} || true"));
    holds(&format!("true || {bad}"));
    assert!(eval(&format!("{bad} && true")).is_err());
    assert!(eval(&format!("true && {bad}")).is_err());
    assert!(eval(&format!("{bad} || false")).is_err());
    assert!(eval(&format!("!({bad})")).is_err());
    fails(&format!("{bad} && {bad} && false"));
}

#[test]
fn the_read_paths_are_known_and_each_is_named_once() {
    let expr = when::parse_mutator(
        "has(oldObject.spec.b) || oldObject.spec.a in ['x'] && (oldObject.spec.b != object.status['c.d'])",
    )
    .unwrap();
    let printed: Vec<_> = expr.accesses().iter().map(ToString::to_string).collect();
    assert_eq!(printed, ["oldObject.spec.a", "oldObject.spec.b", "object.status['c.d']"]);
    assert_eq!(expr.reads().len(), 3);
}

#[test]
fn values_may_come_from_elsewhere_and_only_what_is_needed_is_asked_for() {
    let expr = when::parse("oldObject.a == 1 || oldObject.b == 2").unwrap();
    let one: Box<RawValue> = serde_json::from_str("1").unwrap();
    let mut asked = Vec::new();
    let result = expr.eval_with(&mut |access| {
        asked.push(access.to_string());
        Ok(Some(Raw::from(&*one)))
    });
    assert_eq!(result, Ok(true));
    assert_eq!(asked, ["oldObject.a"]);
}

#[test]
fn mutators_see_both_objects() {
    let (old, new): (Box<RawValue>, Box<RawValue>) =
        (serde_json::from_str(r#"{"a": 1}"#).unwrap(), serde_json::from_str(r#"{"a": 2}"#).unwrap());
    let objects = Objects { old_object: Some(Raw::from(&*old)), object: Some(Raw::from(&*new)) };
    let expr = when::parse_mutator("oldObject.a < object.a").unwrap();
    assert_eq!(expr.eval_on(&objects), Ok(true));
}

#[test]
fn an_object_that_two_readers_may_read_differently_decides_nothing() {
    let twice: Box<RawValue> = serde_json::from_str(r#"{"a": {"b": 1, "b": 2}}"#).unwrap();
    let error = when::parse("oldObject.a.b == 2").unwrap().eval(Some(Raw::from(&*twice))).unwrap_err();
    assert_eq!(error.to_string(), "the object cannot be read: the name \"b\" occurs twice in one object");
    // What is not read does not matter.
    assert_eq!(when::parse("has(oldObject.c)").unwrap().eval(Some(Raw::from(&*twice))), Ok(false));
}
