//! The kept cases in `tests/data/differential`: every disagreement that was ever found, and what is known to differ.
//!
//! Input: files. Output: that both sides still say what they said. A case without `difference` must agree; one with
//! it must still differ, in the way that it says.

use std::fs;
use std::path::Path;

use fieldkeeper::ownership::diff::diff;
use fieldkeeper::ownership::fieldsv1;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::agreement::{self, Answer, Sets};
use super::batch::{question, read_schema};
use crate::harness::Oracle;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/differential");

/// One file: a text, or a pair of objects with their schema.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What the case is about, for people.
    about: String,
    #[serde(rename = "fieldsV1")]
    text: Option<String>,
    schema: Option<Value>,
    #[serde(default)]
    preserve: bool,
    old: Option<Box<RawValue>>,
    new: Option<Box<RawValue>>,
    /// A [`TextDifference`] or a [`Difference`].
    difference: Option<Value>,
}

/// What we make of a text, and what structured-merge-diff does: a `FieldsV1`, or `error`.
#[derive(Deserialize)]
struct TextDifference {
    ours: String,
    theirs: String,
}

/// What we make of two objects, and what structured-merge-diff does: three sets, or nothing where it is an error.
#[derive(Deserialize)]
struct Difference {
    ours: Option<Sets>,
    theirs: Option<Sets>,
}

#[test]
fn every_kept_case_is_as_it_was_left() {
    let mut files: Vec<_> = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 20, "where are the kept cases?");
    let mut oracle = Oracle::start().unwrap();
    for file in files {
        if let Err(error) = check(&file, &mut oracle) {
            panic!("{:?}: {error}", file.file_name());
        }
    }
}

fn check(file: &Path, oracle: &mut Oracle) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    let case: Case = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let about = case.about;
    let found = if let Some(text) = case.text {
        check_text(text, known(case.difference)?.as_ref(), oracle)
    } else {
        let side = |object: Option<Box<RawValue>>| object.map(|object| object.get().to_owned());
        let pair = (side(case.old), side(case.new));
        check_objects(case.schema.as_ref(), case.preserve, pair, known(case.difference)?.as_ref(), oracle)
    };
    found.map_err(|error| format!("({about}) {error}"))
}

fn known<D: DeserializeOwned>(difference: Option<Value>) -> Result<Option<D>, String> {
    difference.map(serde_json::from_value).transpose().map_err(|error| error.to_string())
}

fn check_text(text: String, known: Option<&TextDifference>, oracle: &mut Oracle) -> Result<(), String> {
    let texts = [text];
    let answer = ask(oracle, &question(None, false, &[], &texts, &[]))?;
    let ([text], [said]) = (&texts, answer.texts.as_slice()) else { return Err("no answer".to_owned()) };
    let Some(known) = known else { return agreement::text(text, said, &oracle.version) };
    let ours = fieldsv1::parse(text).map_or_else(|_| "error".to_owned(), |set| fieldsv1::write(&set));
    let theirs = if said.error.is_some() { "error" } else { &said.fields };
    agreement::differ("ours", ours.as_str(), known.ours.as_str())?;
    agreement::differ("theirs", theirs, known.theirs.as_str())
}

fn check_objects(
    schema: Option<&Value>,
    preserve: bool,
    pair: agreement::Pair,
    known: Option<&Difference>,
    oracle: &mut Oracle,
) -> Result<(), String> {
    let pairs = [pair];
    let answer = ask(oracle, &question(schema, preserve, &pairs, &[], &[]))?;
    let topology = read_schema(schema, preserve).map_err(|error| error.to_string())?;
    let ([pair], [said]) = (&pairs, answer.pairs.as_slice()) else { return Err("no answer".to_owned()) };
    let Some(known) = known else {
        return match &said.error {
            Some(error) => Err(format!("structured-merge-diff does not take the objects: {error}")),
            None => agreement::pair(&topology, pair, said, 0),
        };
    };
    let read = |side| agreement::read(side).map_err(|error| error.to_string());
    let (old, new) = (read(pair.0.as_deref())?, read(pair.1.as_deref())?);
    let ours = diff(old, new, &topology, None).ok().map(|changes| agreement::sets(&changes));
    let theirs = if said.error.is_some() { None } else { Some(agreement::owned(&said.sets)?) };
    agreement::differ("ours", &ours, &known.ours)?;
    agreement::differ("theirs", &theirs, &known.theirs)
}

fn ask(oracle: &mut Oracle, question: &str) -> Result<Answer, String> {
    let answer: Answer = oracle.ask(question).map_err(|error| format!("{error:#}"))?;
    match answer.schema_error {
        Some(error) => Err(format!("the API server does not accept the schema: {error}")),
        None => Ok(answer),
    }
}
