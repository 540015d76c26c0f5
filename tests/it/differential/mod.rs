//! The differential proof: our typed difference, sets of paths and FieldsV1 against structured-merge-diff itself.
//!
//! Random schemas of every topology and random pairs of objects are given to both; see `docs/correctness.md` for
//! what is compared and what is known to differ. The environment chooses: `FIELDKEEPER_DIFFERENTIAL_SEED=…` one
//! batch, the one that a failure names; `FIELDKEEPER_DIFFERENTIAL_CASES=200000` the length of the fresh part.

mod agreement;
mod batch;
mod json;
mod objects;
mod random;
mod scalars;
mod schemas;
mod texts;

use std::time::{SystemTime, UNIX_EPOCH};

use batch::{Batch, PAIRS, Tally};
use random::Random;

use crate::harness::Oracle;

const SEED: &str = "FIELDKEEPER_DIFFERENTIAL_SEED";
const CASES: &str = "FIELDKEEPER_DIFFERENTIAL_CASES";

/// Pairs of objects in each of the two parts, where nothing else is asked for.
const EACH_PART: usize = 8_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Runs batches until `pairs` pairs are compared.
fn run(first: u64, pairs: usize) -> Tally {
    let mut oracle = Oracle::start().unwrap();
    let mut seeds = Random::new(first);
    let mut tally = Tally::default();
    while tally.pairs < pairs {
        let seed = if pairs == PAIRS { first } else { seeds.next() };
        match Batch::new(seed).run(&mut oracle) {
            Ok(more) => tally.add(more),
            Err(error) if pairs > 100_000 => eprintln!("FOUND {seed} {error}"),
            Err(error) => panic!(
                "{error}\n\nagain: {SEED}={seed} cargo test --test it differential::this_time\n(structured-merge-diff {})",
                oracle.version
            ),
        }
    }
    tally
}

#[test]
fn the_same_random_cases_agree_every_time() {
    let tally = run(1, EACH_PART);
    assert!(tally.refused_pairs * 10 < tally.pairs, "too many objects are not valid: {tally:?}");
    assert!(tally.equal_pairs * 4 < tally.pairs, "too many objects are equal: {tally:?}");
    assert!(tally.refused_texts * 2 < tally.texts, "too many texts are no FieldsV1: {tally:?}");
}

#[test]
fn this_time_s_random_cases_agree_too() {
    if let Some(seed) = number(SEED) {
        run(seed, PAIRS);
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let cases = number(CASES).map_or(EACH_PART, |cases| usize::try_from(cases).unwrap());
    let tally = run(now.as_nanos() as u64, cases);
    eprintln!("{tally:?}");
}
