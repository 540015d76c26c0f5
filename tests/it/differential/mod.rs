//! The differential proof: our typed difference, sets of paths and FieldsV1 against structured-merge-diff itself.
//!
//! Random schemas of every topology and random pairs of objects are given to both; see `docs/correctness.md` for
//! what is compared and what is known to differ. The environment chooses: `FIELDKEEPER_DIFFERENTIAL_SEED=…` one
//! batch, the one that a failure names; `FIELDKEEPER_DIFFERENTIAL_CASES=200000` the length of the fresh part.

mod agreement;
mod batch;
mod json;
mod kept;
mod objects;
mod random;
mod scalars;
mod schemas;
mod texts;

use std::time::{SystemTime, UNIX_EPOCH};

use batch::{Batch, Tally};
use random::Random;

use crate::harness::Oracle;

const SEED: &str = "FIELDKEEPER_DIFFERENTIAL_SEED";
const CASES: &str = "FIELDKEEPER_DIFFERENTIAL_CASES";

/// Pairs of objects in each of the two parts, where nothing else is asked for.
const EACH_PART: usize = 6_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Runs one batch. On a disagreement it says how to run just that one again.
fn batch(seed: u64, oracle: &mut Oracle) -> Tally {
    Batch::new(seed).run(oracle).unwrap_or_else(|error| {
        panic!(
            "{error}\n\nagain: {SEED}={seed} cargo test --test it differential::fresh\n(structured-merge-diff {})",
            oracle.version
        )
    })
}

/// Runs batches until so many pairs of objects are compared.
fn run(start: u64, pairs: usize) -> Tally {
    let mut oracle = Oracle::start().unwrap();
    let mut seeds = Random::new(start);
    let mut tally = Tally::default();
    while tally.pairs < pairs {
        tally.add(batch(seeds.next(), &mut oracle));
    }
    eprintln!("structured-merge-diff {}: {tally:?}", oracle.version);
    tally
}

#[test]
fn fixed_random_cases_agree_and_are_worth_comparing() {
    let tally = run(1, EACH_PART);
    assert!(tally.refused_pairs * 20 < tally.pairs, "too many objects are not valid: {tally:?}");
    assert!(tally.equal_pairs * 3 < tally.pairs, "too many objects are equal: {tally:?}");
    assert!(tally.refused_texts * 2 < tally.texts, "too many texts are no FieldsV1: {tally:?}");
}

#[test]
fn fresh_random_cases_agree() {
    if let Some(seed) = number(SEED) {
        batch(seed, &mut Oracle::start().unwrap());
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let cases = number(CASES).map_or(EACH_PART, |cases| usize::try_from(cases).unwrap());
    run(now.as_secs() ^ u64::from(now.subsec_nanos()) << 32, cases);
}
