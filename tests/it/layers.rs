//! The structure of the code itself: layers only depend downwards, the core stays pure, writes have one door.

use std::fs;
use std::path::{Path, PathBuf};

/// The layers from bottom to top. A module may use those of lower layers and itself.
const LAYERS: [&[&str]; 7] = [
    &["ownership"],
    &["api", "managers"],
    &["policy", "fleet"],
    &["cluster", "provider", "telemetry"],
    &["admission", "controllers", "audit"],
    &["cli"],
    &["commands"],
];

/// What pure code must not name: IO, clocks, chance, logging, clients.
const IMPURE: [&str; 12] = [
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::io",
    "SystemTime",
    "Instant::now",
    "Timestamp::now",
    "tokio",
    "tracing",
    "kube::Client",
    "rand::",
];

/// Lines of code that a file may have before it should be split.
const LINES: usize = 400;

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((path.clone(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// The code of a file without its comments, which may name what they like.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

fn top_module(path: &Path) -> String {
    let inside = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    inside.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

fn is_test(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem == "tests" || stem.to_string_lossy().ends_with("_tests"))
        || path.components().any(|part| part.as_os_str() == "tests")
}

#[test]
fn every_module_belongs_to_a_layer_and_uses_only_lower_ones() {
    for (path, text) in sources("src").into_iter().filter(|(path, _)| !is_test(path)) {
        let module = top_module(&path);
        if module == "lib" || module == "main" {
            continue;
        }
        let own = layer(&module).unwrap_or_else(|| panic!("{} belongs to no layer", path.display()));
        for used in code(&text).flat_map(|line| line.match_indices("crate::").map(|(at, _)| &line[at + 7..]))
        {
            let used: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let Some(below) = layer(&used) else { continue };
            assert!(below < own || used == module, "{}: {module} must not use {used}", path.display());
        }
    }
}

#[test]
fn the_core_does_no_io_reads_no_clock_and_does_not_log() {
    for folder in ["src/ownership", "src/policy", "src/fleet", "src/api"] {
        for (path, text) in sources(folder).iter().filter(|(path, _)| !is_test(path)) {
            let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for word in IMPURE {
                let line = code(production).find(|line| line.contains(word));
                assert_eq!(line, None, "{} names {word}", path.display());
            }
        }
    }
}

#[test]
fn force_stands_in_one_file_only() {
    for (path, text) in sources("src") {
        let forces = code(&text).any(|line| line.contains(".force()") || line.contains("force: true"));
        assert!(!forces || path.ends_with("cluster/write.rs"), "{} forces", path.display());
    }
}

#[test]
fn no_file_is_larger_than_a_room() {
    for (path, text) in sources("src").into_iter().filter(|(path, _)| !is_test(path)) {
        let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        assert!(
            production.lines().count() <= LINES,
            "{} has {} lines",
            path.display(),
            production.lines().count()
        );
    }
}

#[test]
fn every_module_says_what_it_is_for() {
    for (path, text) in sources("src").iter().chain(&sources("tests/it")).chain(&sources("tests/harness")) {
        assert!(is_test(path) || text.starts_with("//!"), "{} has no head", path.display());
    }
}
