//! Random `FieldsV1`, as structured-merge-diff writes them and as nobody does.
//!
//! Left out is what is known to be read differently, see `docs/correctness.md`.

use std::fmt::Write as _;

use super::random::Random;

const ELEMENTS: &[&str] = &[
    "f:a",
    "f:b",
    "f:c",
    "f:",
    "f:.",
    "f:a.b/c:d",
    "f:ü",
    "f:<t>",
    "f:\"q\"",
    "f:v:1",
    "f:\u{2028}",
    "f:\t",
    r#"k:{"a":1}"#,
    r#"k:{"a":2}"#,
    r#"k:{"a":"x","b":true}"#,
    r#"k:{"a":"<","b":null}"#,
    r#"k:{"name":"ü"}"#,
    "v:1",
    "v:2",
    "v:1.5",
    r#"v:"a""#,
    r#"v:"1""#,
    r#"v:"<&>""#,
    "v:true",
    "v:false",
    "v:null",
    "v:1e+21",
    "v:1e-07",
    "v:-3",
    "i:0",
    "i:1",
    "i:20",
];

/// Elements that mean one of the above, or nothing, or are errors.
const ODD_ELEMENTS: &[&str] = &[
    r#"k:{"b":true,"a":"x"}"#,
    r#"k: { "a" : 1.0 } "#,
    r#"k:{"a":1,"a":2}"#,
    "k:{}",
    "v:1.0",
    "v:10e-1",
    r#"v:"\u0061""#,
    "v: 1 ",
    "v:1e21",
    "v:0.0000001",
    r#"v:"\u00fc""#,
    "x:1",
    "F:a",
    "z:",
    "i:01",
    "i:+1",
    "i: 1",
    "i:1.0",
    "",
    ".",
    "..",
    "f",
    "a",
    "spec",
    "v:",
    "v:a",
    "v:1 2",
    "v:tru",
    "k:",
    "k:x",
    r#"k:{"a":}"#,
    r#"k:{"a":1}x"#,
    r#"k:{"a":1,}"#,
    "v:01",
    "v:1.",
    "v:.5",
    "v:+1",
    "v:-",
    "v:1e",
    "v:'a'",
    "v:NaN",
    "v:\"a",
    "é:",
    "fé",
];

const ODD_VALUES: &[&str] =
    &["null", " { } ", "{\".\":{}}", "{\".\":null}", "{\".\":{\"f:x\":{}}}", "[]", "1", "\"\"", "true", ""];

/// A text that is a set, in order and without repetition or not.
pub fn text(random: &mut Random) -> String {
    let odd = [0, 0, 5, 15][random.below(4)];
    let mut out = String::new();
    write_node(&mut out, 0, odd, random);
    if odd > 0 && random.chance(25) {
        let mut corrupted = out.clone();
        corrupt(&mut corrupted, random);
        // One changed byte makes an index below 0 of a number below 0.
        if !corrupted.contains("i:-") {
            return corrupted;
        }
    }
    out
}

/// A text that is read without an error, from a pool so small that two of them overlap.
pub fn small(random: &mut Random) -> String {
    let mut out = String::new();
    write_small(&mut out, 0, random);
    out
}

fn write_node(out: &mut String, depth: usize, odd: usize, random: &mut Random) {
    if depth > 0 && random.chance(odd) {
        out.push_str(random.pick(ODD_VALUES));
        return;
    }
    let count = if depth > 4 { 0 } else { random.below(4) + usize::from(depth == 0) };
    out.push('{');
    for position in 0..count {
        if position > 0 {
            out.push(',');
        } else if random.chance(30) {
            out.push_str("\".\":{},");
        }
        let pool = if random.chance(odd) { ODD_ELEMENTS } else { ELEMENTS };
        out.push_str(&serde_json::to_string(random.pick(pool)).unwrap());
        out.push(':');
        write_node(out, depth + 1, odd, random);
    }
    out.push('}');
}

fn write_small(out: &mut String, depth: usize, random: &mut Random) {
    out.push('{');
    let mut separator = "";
    if depth > 0 && random.chance(40) {
        out.push_str("\".\":{}");
        separator = ",";
    }
    for element in ["f:a", "f:b", r#"k:{\"a\":1}"#, r#"v:\"x\""#, "v:1", "i:0"] {
        if depth < 4 && random.chance(35) {
            let _ = write!(out, "{separator}\"{element}\":");
            separator = ",";
            write_small(out, depth + 1, random);
        }
    }
    out.push('}');
}

/// Replaces, inserts or drops one character.
fn corrupt(out: &mut String, random: &mut Random) {
    let mut characters: Vec<char> = out.chars().collect();
    let position = random.below(characters.len());
    let other =
        random.pick(&['f', 'i', 'x', ':', '.', '{', '}', '"', '\\', ',', ' ', '1', 'n', '\t', '\u{0}']);
    match random.below(3) {
        0 => characters[position] = other,
        1 => characters.insert(position, other),
        _ => drop(characters.remove(position)),
    }
    *out = characters.into_iter().collect();
}
