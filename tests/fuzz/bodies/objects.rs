//! Objects by shape, and what writers make of them.
//!
//! In: choices and a shape. Out: JSON as it may stand in a review, now and then with values of a wrong
//! type, odd spellings and names that stand twice; a second object that differs in places; and
//! `managedFields` over both, truthful or not.

use super::dice::Dice;

/// What a field may hold.
pub enum Shape {
    /// One of these texts.
    Scalar(&'static [&'static str]),
    /// Some of these members.
    Map(&'static [(&'static str, Shape)]),
    /// A few of these.
    List(&'static Shape),
}

/// A JSON value whose members may stand in any order and more than once.
#[derive(Clone)]
pub enum Json {
    Text(String),
    Object(Vec<(String, Json)>),
    List(Vec<Json>),
}

/// Values that fit nowhere, or everywhere.
const ODD: [&str; 16] = [
    "null",
    "{}",
    "[]",
    "\"\"",
    "0",
    "-0",
    "1.0",
    "1e0",
    "9007199254740993",
    "1e999",
    "true",
    "[[]]",
    "[null]",
    "{\"\":{}}",
    "\"\\ud800\"",
    "{\"a\":1,\"a\":2}",
];

const MANAGERS: [&str; 8] = [
    "ann",
    "bob",
    "autoscaler",
    "kubectl-client-side-apply",
    "before-first-apply",
    "ancient-changes",
    "ctrl-a",
    "kubectl-edit",
];

const TIMES: [&str; 4] = ["\"2026-01-01T00:00:00Z\"", "\"2026-01-02T00:00:00Z\"", "null", "7"];

const BAD_FIELDS: [&str; 9] = [
    "null",
    "{}",
    "[]",
    "\"f:spec\"",
    "{\"f:spec\":{\"x:y\":{}}}",
    "{\"spec\":{}}",
    "{\"f:spec\":{\"k:{\\\"key\\\":[]}\":{}}}",
    "{\"f:spec\":{\"v:{\":{}}}",
    "{\"f:spec\":{\".\":{},\"i:-1\":{}},\"f:spec\":null}",
];

/// An object with a member set, or set anew.
pub fn set(object: &mut Json, name: &str, value: Json) {
    if let Json::Object(members) = object {
        members.retain(|(other, _)| other != name);
        members.push((name.to_owned(), value));
    }
}

pub fn text(value: &str) -> Json {
    Json::Text(value.to_owned())
}

impl Json {
    /// The text form.
    pub fn render(&self) -> String {
        let list = |items: Vec<String>| items.join(",");
        match self {
            Self::Text(text) => text.clone(),
            Self::Object(members) => {
                let member = |(name, value): &(String, Self)| format!("{}:{}", quoted(name), value.render());
                format!("{{{}}}", list(members.iter().map(member).collect()))
            }
            Self::List(items) => format!("[{}]", list(items.iter().map(Self::render).collect())),
        }
    }

    fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.iter().find(|(other, _)| other == name).map(|(_, value)| value),
            _ => None,
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A value of a shape.
pub fn value(dice: &mut Dice<'_>, shape: &Shape) -> Json {
    if dice.chance(2) {
        return text(dice.pick(&ODD));
    }
    match shape {
        Shape::Scalar(values) => text(dice.pick(values)),
        Shape::Map(members) => {
            let mut object = Vec::new();
            for (name, shape) in *members {
                let times = if dice.chance(35) { 0 } else { 1 + usize::from(dice.chance(1)) };
                for _ in 0..times {
                    object.push(((*name).to_owned(), value(dice, shape)));
                }
            }
            Json::Object(object)
        }
        Shape::List(item) => Json::List((0..dice.below(4)).map(|_| value(dice, item)).collect()),
    }
}

/// The first object with parts of the second.
pub fn blended(dice: &mut Dice<'_>, old: &Json, other: &Json) -> Json {
    match (old, other) {
        (Json::Object(old), Json::Object(other)) => {
            let mut members: Vec<(String, Json)> = Vec::new();
            for (name, value) in old {
                let there = other.iter().find(|(other, _)| other == name).map(|(_, value)| value);
                match there {
                    Some(there) if dice.chance(40) => {
                        members.push((name.clone(), blended(dice, value, there)));
                    }
                    _ if dice.chance(4) => {}
                    _ => members.push((name.clone(), value.clone())),
                }
            }
            for (name, value) in other {
                if old.iter().all(|(known, _)| known != name) && dice.chance(20) {
                    members.push((name.clone(), value.clone()));
                }
            }
            Json::Object(members)
        }
        (Json::List(old), Json::List(other)) => {
            let mut items = old.clone();
            match dice.below(5) {
                1 => items.extend(other.first().cloned()),
                2 => items.reverse(),
                3 => drop(items.pop()),
                4 => {
                    for (item, there) in items.iter_mut().zip(other) {
                        *item = blended(dice, item, there);
                    }
                }
                _ => {}
            }
            Json::List(items)
        }
        _ if dice.chance(60) => other.clone(),
        _ => old.clone(),
    }
}

/// The path elements of some fields of an object, as `FieldsV1`.
fn fields(dice: &mut Dice<'_>, object: &Json, keep: usize) -> Json {
    let mut held = Vec::new();
    match object {
        Json::Object(members) => {
            for (name, value) in members {
                if name != "managedFields" && dice.chance(keep) {
                    held.push((format!("f:{name}"), fields(dice, value, keep)));
                }
            }
        }
        Json::List(items) => {
            for item in items {
                if !dice.chance(keep) {
                    continue;
                }
                let element = match item {
                    Json::Object(_) => {
                        let keys = ["effect", "key", "name", "requester"];
                        let keys: Vec<_> =
                            keys.iter().filter_map(|key| Some((*key, item.get(key)?))).collect();
                        let member =
                            |(key, value): &(&str, &Json)| format!("{}:{}", quoted(key), value.render());
                        format!("k:{{{}}}", keys.iter().map(member).collect::<Vec<_>>().join(","))
                    }
                    other => format!("v:{}", other.render()),
                };
                let mut below = fields(dice, item, keep);
                if dice.chance(70) {
                    set(&mut below, ".", text("{}"));
                }
                held.push((element, below));
            }
        }
        Json::Text(_) => {}
    }
    Json::Object(held)
}

fn entry(dice: &mut Dice<'_>, object: &Json, api_version: &str) -> Json {
    let manager = dice.pick(&MANAGERS);
    named_entry(dice, object, api_version, manager)
}

/// An entry that holds some fields of an object.
pub fn named_entry(dice: &mut Dice<'_>, object: &Json, api_version: &str, manager: &str) -> Json {
    let keep = dice.pick(&[50, 80, 100]);
    let held = if dice.chance(4) { text(dice.pick(&BAD_FIELDS)) } else { fields(dice, object, keep) };
    let version = if dice.chance(5) { "other/v9" } else { api_version };
    let mut entry = vec![
        ("apiVersion".to_owned(), Json::Text(quoted(version))),
        ("fieldsType".to_owned(), text(if dice.chance(2) { "\"FieldsV2\"" } else { "\"FieldsV1\"" })),
        ("fieldsV1".to_owned(), held),
        ("manager".to_owned(), Json::Text(quoted(manager))),
        ("operation".to_owned(), text(dice.pick(&["\"Update\"", "\"Apply\"", "\"Apply\"", "\"Other\""]))),
        ("time".to_owned(), text(dice.pick(&TIMES))),
    ];
    if dice.chance(20) {
        entry.push(("subresource".to_owned(), text(dice.pick(&["\"status\"", "\"scale\"", "\"\"", "null"]))));
    }
    Json::Object(entry)
}

/// `managedFields` of a stored object.
pub fn tracked(dice: &mut Dice<'_>, object: &Json, api_version: &str) -> Vec<Json> {
    (0..dice.below(5)).map(|_| entry(dice, object, api_version)).collect()
}

/// What becomes of `managedFields`: mostly the same, with what a write adds, and now and then a lie.
pub fn tracked_after(dice: &mut Dice<'_>, before: &[Json], new: &Json, api_version: &str) -> Vec<Json> {
    let mut after = Vec::new();
    for old in before {
        let mut kept = old.clone();
        match dice.below(10) {
            4 => set(&mut kept, "time", text(dice.pick(&TIMES))),
            5 => set(&mut kept, "fieldsV1", fields(dice, new, 80)),
            6 => {
                let fields = old.get("fieldsV1").map(|held| {
                    let all = fields(dice, new, 100);
                    blended(dice, held, &all)
                });
                set(&mut kept, "fieldsV1", fields.unwrap_or_else(|| text("{}")));
            }
            7 => set(&mut kept, "manager", Json::Text(quoted(dice.pick(&MANAGERS)))),
            8 => continue,
            9 => after.push(old.clone()),
            _ => {}
        }
        after.push(kept);
    }
    if dice.chance(30) {
        after.push(entry(dice, new, api_version));
    }
    if dice.chance(5) {
        after.clear();
    }
    after
}
