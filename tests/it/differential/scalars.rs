//! Scalars and names, from small pools so that the same ones meet often.
//!
//! Left out of the pools is what is known to be taken differently, see `docs/correctness.md`: zeros with a minus,
//! and whole numbers that only differ beyond the 53 bits of a float.

use serde_json::{Map, Value, json};

use super::json::Json;
use super::random::Random;

pub const NAMES: &[&str] = &[
    "a", "b", "c", "d", "key", "name", "value", "x.y/z", "ü", "~1", "f:x", "v:1", "<t>", "a b", "🦀", ".",
    "\"q\"", "\\",
];

const STRINGS: &[&str] = &[
    "", "a", "b", "c", "A", "a.b/c", "ü", "日本", "🦀", "<&>", "k\"q", "\u{2028}", "\t\u{1}", "\u{7f}", "1",
    "true", "null",
];

const INTEGERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "80",
    "443",
    "2147483648",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
];

/// Some of them are whole numbers in another spelling.
const FRACTIONS: &[&str] = &[
    "0.0",
    "1.0",
    "1e0",
    "10e-1",
    "1.5",
    "-2.25",
    "0.1",
    "1e3",
    "1000.0",
    "1E3",
    "1e-7",
    "0.000001",
    "1e21",
    "1e+21",
    "100000000000000000000",
    "123456789.125",
    "18446744073709552000",
    "1.7976931348623157e308",
    "5e-324",
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    Boolean,
    Integer,
    Number,
    String,
    IntOrString,
    DateTime,
    Bytes,
}

impl Scalar {
    pub const ALL: &[Self] = &[
        Self::Boolean,
        Self::Integer,
        Self::Number,
        Self::String,
        Self::String,
        Self::IntOrString,
        Self::DateTime,
        Self::Bytes,
    ];

    pub fn describe(self, schema: &mut Map<String, Value>) {
        let (kind, format) = match self {
            Self::Boolean => ("boolean", None),
            Self::Integer => ("integer", Some("int64")),
            Self::Number => ("number", None),
            Self::String => ("string", None),
            Self::DateTime => ("string", Some("date-time")),
            Self::Bytes => ("string", Some("byte")),
            Self::IntOrString => {
                schema.insert("x-kubernetes-int-or-string".into(), json!(true));
                return;
            }
        };
        schema.insert("type".into(), json!(kind));
        if let Some(format) = format {
            schema.insert("format".into(), json!(format));
        }
    }

    pub fn value(self, random: &mut Random) -> Json {
        match self {
            Self::Boolean => Json::Bool(random.chance(50)),
            Self::Integer => integer(random),
            Self::Number => number(random),
            Self::IntOrString if random.chance(50) => integer(random),
            Self::String | Self::IntOrString => Json::string(random.pick(STRINGS)),
            Self::DateTime => Json::string(random.pick(&["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"])),
            Self::Bytes => Json::string(random.pick(&["YQ==", "YWI="])),
        }
    }
}

/// Mostly one of the first, so that the same come often.
fn common<'a>(pool: &[&'a str], random: &mut Random) -> &'a str {
    let from = if random.chance(60) { pool.get(..4).unwrap() } else { pool };
    random.pick(from)
}

pub fn integer(random: &mut Random) -> Json {
    Json::Number(common(INTEGERS, random).to_owned())
}

pub fn number(random: &mut Random) -> Json {
    let pool = if random.chance(40) { INTEGERS } else { FRACTIONS };
    Json::Number(common(pool, random).to_owned())
}

pub fn any(random: &mut Random) -> Json {
    match random.below(6) {
        0 => Json::Bool(random.chance(50)),
        1 | 2 => number(random),
        _ => Json::string(common(STRINGS, random)),
    }
}
