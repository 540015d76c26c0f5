//! JSON as it is spelled: numbers keep their text, members their order.
//!
//! Input: values. Output: one text of the many that mean the same.

use std::fmt::Write as _;

use super::random::Random;

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(String),
    String(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl Json {
    pub fn string(text: &str) -> Self {
        Self::String(text.to_owned())
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        match self {
            Self::Map(members) => members.iter_mut().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Sets or replaces a member of a map.
    pub fn put(&mut self, name: &str, value: Json) {
        if let Some(place) = self.get_mut(name) {
            *place = value;
        } else if let Self::Map(members) = self {
            members.push((name.to_owned(), value));
        }
    }

    /// The text as the API server sends it: members sorted, no spaces.
    pub fn plain(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, &mut None);
        out
    }

    /// A text that means the same: order of members, spaces and escapes are chance.
    pub fn spelled(&self, random: &mut Random) -> String {
        let mut out = String::new();
        self.write(&mut out, &mut Some(random));
        out
    }

    fn write(&self, out: &mut String, chance: &mut Option<&mut Random>) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Self::Number(text) => out.push_str(text),
            Self::String(text) => write_string(out, text, chance),
            Self::List(items) => {
                out.push('[');
                for (position, item) in items.iter().enumerate() {
                    separate(out, position, chance);
                    item.write(out, chance);
                }
                space(out, chance);
                out.push(']');
            }
            Self::Map(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by(|a, b| a.0.cmp(&b.0));
                if let Some(random) = chance {
                    random.shuffle(&mut members);
                }
                out.push('{');
                for (position, (name, value)) in members.into_iter().enumerate() {
                    separate(out, position, chance);
                    write_string(out, name, chance);
                    out.push(':');
                    space(out, chance);
                    value.write(out, chance);
                }
                space(out, chance);
                out.push('}');
            }
        }
    }
}

fn separate(out: &mut String, position: usize, chance: &mut Option<&mut Random>) {
    if position > 0 {
        out.push(',');
    }
    space(out, chance);
}

fn space(out: &mut String, chance: &mut Option<&mut Random>) {
    if let Some(random) = chance
        && random.chance(3)
    {
        out.push_str(random.pick(&[" ", "\n", "\t", "  \r\n"]));
    }
}

fn write_string(out: &mut String, text: &str, chance: &mut Option<&mut Random>) {
    if let Some(random) = chance
        && random.chance(5)
    {
        out.push('"');
        for unit in text.encode_utf16() {
            let _ = write!(out, "\\u{unit:04x}");
        }
        out.push('"');
        return;
    }
    out.push_str(&serde_json::to_string(text).unwrap());
}
