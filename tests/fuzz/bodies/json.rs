//! JSON read level by level, by `serde_json` and by nothing of the product.
//!
//! In: raw values. Out: all members in the order of the text, repeated names included, and texts made
//! anew from them. Readers under test are compared with it, so it must not share code with them.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Nesting that is followed. `serde_json` itself ends at 128.
const MAX_DEPTH: usize = 100;

/// The members of an object; `None` where the value is none, or has a name that is no text.
pub fn members(raw: &RawValue) -> Option<Vec<(String, &RawValue)>> {
    struct Members<'a>(Vec<(String, &'a RawValue)>);
    impl<'de> Deserialize<'de> for Members<'de> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(All)
        }
    }
    struct All;
    impl<'de> Visitor<'de> for All {
        type Value = Members<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(Members(members))
        }
    }
    serde_json::from_str(raw.get()).ok().map(|Members(members)| members)
}

/// The value of the one member of this name; `None` where there is none, or more than one.
pub fn only<'a>(members: &[(String, &'a RawValue)], name: &str) -> Option<&'a RawValue> {
    let mut found = members.iter().filter(|(other, _)| other == name).map(|(_, value)| *value);
    found.next().filter(|_| found.next().is_none())
}

/// What becomes of an object on the way.
pub type Change = fn(depth: usize, members: &mut Vec<(String, &RawValue)>);

/// The same text with each object changed, `depth` counted from the outermost, but for `managedFields`,
/// which stay as they are spelled; `None` where a name stands twice, or it is nested too deep.
pub fn rewritten(raw: &RawValue, change: Change) -> Option<Box<RawValue>> {
    let mut out = String::with_capacity(raw.get().len());
    rewrite(raw, 0, change, &mut out)?;
    RawValue::from_string(out).ok()
}

fn rewrite(raw: &RawValue, depth: usize, change: Change, out: &mut String) -> Option<()> {
    if depth > MAX_DEPTH {
        return None;
    }
    match raw.get().trim_start().chars().next()? {
        '{' => {
            let mut members = members(raw)?;
            let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            if names.windows(2).any(|pair| pair[0] == pair[1]) {
                return None;
            }
            change(depth, &mut members);
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&serde_json::to_string(name).ok()?);
                out.push(':');
                if name == "managedFields" {
                    out.push_str(value.get());
                } else {
                    rewrite(value, depth + 1, change, out)?;
                }
            }
            out.push('}');
        }
        '[' => {
            let items: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                rewrite(item, depth + 1, change, out)?;
            }
            out.push(']');
        }
        _ => out.push_str(raw.get().trim()),
    }
    Some(())
}
