//! The list of proofs in `docs/correctness.md`: made from the names of the tests, and complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use crate::cases::{ELSEWHERE, PARTS};
use crate::harness::repository;

const BEGIN: &str = "<!-- proofs: begin -->";
const END: &str = "<!-- proofs: end -->";

/// How the list is made again.
const REFRESH: &str = "FIELDKEEPER_REFRESH=1 cargo test --test it correctness::";

/// The numbers that have to be there: letter and how many.
const NUMBERS: [(char, usize, &str); 2] = [('b', 72, "Ways around ownership"), ('f', 42, "Innocent writes")];

/// The name of every test, in order.
fn tests() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![repository("tests/it")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            for pair in lines.windows(2) {
                let is_test = pair[0].starts_with("#[tokio::test") || pair[0].starts_with("#[test]");
                let name = pair[1].split("fn ").nth(1).and_then(|rest| rest.split('(').next());
                if let (true, Some(name)) = (is_test, name) {
                    found.insert(name.to_owned());
                }
            }
        }
    }
    found
}

/// Every test whose name begins with `prefix` and a number, by that number: its sentences.
fn proofs(prefix: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in tests() {
        if let Some((number, sentence)) = name.strip_prefix(prefix).and_then(|name| name.split_once('_'))
            && number.len() == 3
            && number[1..].chars().all(|digit| digit.is_ascii_digit())
        {
            found.entry(number.to_owned()).or_default().push(sentence.replace('_', " "));
        }
    }
    found
}

/// The numbers of a letter, `b01` and so on.
fn numbers(letter: char, count: usize) -> impl Iterator<Item = String> {
    (1..=count).map(move |number| format!("{letter}{number:02}"))
}

/// Numbers that `docs/limits.md` names as beyond any webhook.
fn limits() -> String {
    fs::read_to_string(repository("docs/limits.md")).unwrap_or_default()
}

fn table() -> (String, Vec<String>) {
    let (proofs, limits) = (proofs(""), limits());
    let (mut table, mut missing) = (String::new(), Vec::new());
    for (letter, count, title) in NUMBERS {
        let _ = writeln!(table, "\n### {title}\n\n| number | what its test shows |\n| --- | --- |");
        for number in numbers(letter, count) {
            let upper = number.to_uppercase();
            let limited = limits.contains(&format!("`{upper}`"));
            match proofs.get(&number) {
                Some(sentences) => {
                    for sentence in sentences {
                        let _ = writeln!(table, "| {upper} | {sentence} |");
                    }
                }
                None if limited => {
                    let _ = writeln!(table, "| {upper} | no webhook can: see [limits](limits.md) |");
                }
                None => missing.push(upper),
            }
        }
    }
    table.push_str(&cases());
    (table, missing)
}

/// Reports from practice: those with a test, and what the others are about.
fn cases() -> String {
    let proofs = proofs("case_");
    let mut table =
        String::from("\n### Reports from practice\n\n| case | what its test shows |\n| --- | --- |\n");
    for (letter, count, _) in PARTS {
        for number in numbers(letter, count) {
            for sentence in proofs.get(&number).into_iter().flatten() {
                let _ = writeln!(table, "| case {} | {sentence} |", number.to_uppercase());
            }
        }
    }
    table.push_str("\nThe parts are:");
    for (letter, _, title) in PARTS {
        let _ = write!(table, " {}, {title};", letter.to_uppercase());
    }
    table.push_str(" the rest is about what no answer to a write shows:\n\n");
    for (about, numbers) in ELSEWHERE {
        let _ = writeln!(table, "- {about}: {numbers}");
    }
    table
}

#[test]
fn every_number_has_a_test_or_stands_among_the_limits() {
    let (_, missing) = table();
    assert_eq!(missing, [""; 0], "numbers without a proof");
}

#[test]
fn every_case_has_a_test_or_is_about_something_else() {
    let shown = proofs("case_");
    let elsewhere: Vec<String> =
        ELSEWHERE.iter().flat_map(|(_, numbers)| numbers.split(' ')).map(str::to_lowercase).collect();
    let mut all: Vec<String> = PARTS.iter().flat_map(|(letter, count, _)| numbers(*letter, *count)).collect();
    let mut placed: Vec<String> = shown.into_keys().chain(elsewhere).collect();
    placed.sort();
    all.sort();
    assert_eq!(placed, all, "each once");
}

#[test]
fn the_list_of_proofs_is_that_of_the_tests() {
    let page = repository("docs/correctness.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the mark where the list begins");
    let (_, after) = rest.split_once(END).expect("the mark where the list ends");
    let fresh = format!("{before}{BEGIN}\n{}\n{END}{after}", table().0);
    if std::env::var_os("FIELDKEEPER_REFRESH").is_some() {
        fs::write(&page, fresh).unwrap();
    } else {
        assert!(text == fresh, "docs/correctness.md is stale; refresh it with: {REFRESH}");
    }
}
