//! The inputs that fuzzing is begun with, and all that it has found, by the same checks without a fuzzer.
//!
//! Fuzzing itself needs a nightly compiler (`tests/fuzz`). What it finds is kept in `tests/data/fuzz`, so
//! that it is tried by everybody from then on.

#[path = "../fuzz/bodies/mod.rs"]
mod bodies;

use std::fs;
use std::panic::catch_unwind;
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use crate::harness::repository;

/// Random cases of one run: a second of work.
const RANDOM: usize = 300;

/// The kept inputs of one target, by name.
fn inputs(target: &str) -> Vec<PathBuf> {
    let folders = ["tests/data/fuzz", "tests/fuzz/seeds"].map(|folder| repository(folder).join(target));
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn replay(target: &str, check: fn(&[u8])) {
    let files = inputs(target);
    assert!(files.len() >= 8, "the seeds of {target} are gone");
    for file in files {
        // Seen only where the check fails.
        println!("{}", file.display());
        check(&fs::read(&file).unwrap());
    }
}

#[test]
fn kept_bodies_of_reviews_are_taken_apart_as_they_are_written() {
    replay("envelope", bodies::envelope::check);
}

#[test]
fn kept_sets_of_fields_are_read_as_written_and_obey_the_laws_of_sets() {
    replay("fieldsv1", bodies::fieldsv1::check);
}

#[test]
fn kept_paths_are_read_as_printed() {
    replay("path", bodies::path::check);
}

#[test]
fn kept_conditions_are_read_as_printed_and_say_one_thing() {
    replay("when", bodies::when::check);
}

#[test]
fn kept_cases_are_decided_as_promised() {
    replay("decide", bodies::decide::check);
}

#[test]
fn random_cases_are_decided_as_promised_and_mostly_come_to_a_verdict() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let (mut verdicts, mut findings, mut denials) = (0, 0, 0);
    for _ in 0..RANDOM {
        let choices = vec(any::<u8>(), 400..1200).new_tree(&mut runner).unwrap().current();
        let caught = catch_unwind(|| bodies::decide::judged(&choices));
        let judged = caught.unwrap_or_else(|_| panic!("{}", bodies::decide::case(&choices).unwrap()));
        verdicts += usize::from(judged.is_some());
        findings += usize::from(judged.as_ref().is_some_and(|verdict| !verdict.findings.is_empty()));
        denials += usize::from(judged.is_some_and(|verdict| verdict.denies()));
    }
    println!("of {RANDOM}: {verdicts} with a verdict, {findings} with findings, {denials} denied");
    assert!(verdicts > RANDOM / 2 && findings > RANDOM / 5 && denials > RANDOM / 20);
}
