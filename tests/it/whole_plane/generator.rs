//! Random writes, as clients send them: every verb and content type, by several people and managers.
//!
//! Input: random numbers and the object as it is stored. Output: [`Attempt`]s. The same seed gives the same
//! attempts as long as the server gives the same answers.
//! Must not: aim at anything. What is legal is for others to say.

use serde_json::{Map, Value, json};

use super::policy::{PEOPLE, Who};
use crate::arena::Call;

/// splitmix64: a few lines, and every seed is a good one.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// What a write goes to, which says how its effect is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Write,
    Scale(i64),
    Delete,
}

/// One write by somebody.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub who: usize,
    pub kind: Kind,
    pub call: Call,
}

const MANAGERS: [&str; 4] = ["one", "two", "three", "kubectl"];

/// The next write; `stored` is the object, if there is one.
pub fn attempt(random: &mut Random, resource: &str, kind: &str, stored: Option<&Value>) -> Attempt {
    let who = random.below(PEOPLE.len());
    let at = format!("{resource}/object");
    let blank = json!({
        "apiVersion": "arena.example.com/v1", "kind": kind, "metadata": {"name": "object"}, "spec": {},
    });
    let Some(stored) = stored else {
        let mut body = blank;
        edits(random, &mut body, 6);
        let call = match random.below(3) {
            0 => apply(random, &at, &body),
            _ => manager(random, Call::create(resource, &body)),
        };
        return Attempt { who, kind: Kind::Write, call };
    };
    let mut edited = stored.clone();
    edits(random, &mut edited, 3);
    let status = random.chance(15);
    let target = if status { format!("{at}/status") } else { at.clone() };
    let call = match random.below(20) {
        0..4 => {
            let metadata = edited["metadata"].as_object_mut().unwrap();
            // As clients do that keep less of what they read.
            if random.chance(30) {
                metadata.remove("managedFields");
            }
            if random.chance(30) {
                metadata.remove("resourceVersion");
            }
            manager(random, Call::put(&target, &edited))
        }
        4..8 => manager(random, Call::merge_patch(&target, &merge_patch(stored, &edited))),
        8..11 => {
            let patch = json_patch(random, stored, &edited);
            manager(random, Call::json_patch(&target, &patch))
        }
        11..16 => {
            let mut body = blank;
            edits(random, &mut body, 5);
            apply(random, &target, &body)
        }
        16 | 17 => {
            let replicas = i64::try_from(random.below(4)).unwrap();
            let body = json!({"spec": {"replicas": replicas}});
            let call = manager(random, Call::merge_patch(&format!("{at}/scale"), &body));
            return Attempt { who, kind: Kind::Scale(replicas), call };
        }
        18 => {
            let call = Call::delete(&at);
            return Attempt { who, kind: Kind::Delete, call };
        }
        _ => {
            // One list element, by its place.
            let patch = match random.below(3) {
                0 => json!([{"op": "remove", "path": "/spec/taints/0"}]),
                1 => json!([{"op": "add", "path": "/spec/zones/-", "value": random.pick(&["a", "b", "c"])}]),
                _ => json!([{"op": "replace", "path": "/spec/rules/0/port", "value": random.below(3)}]),
            };
            manager(random, Call::json_patch(&at, &patch))
        }
    };
    Attempt { who, kind: Kind::Write, call }
}

fn apply(random: &mut Random, at: &str, body: &Value) -> Call {
    let call = Call::apply(at, random.pick(&MANAGERS), body);
    if random.chance(65) { call.force() } else { call }
}

/// Under a name of the client's choice, or under the one that its User-Agent gives.
fn manager(random: &mut Random, call: Call) -> Call {
    if random.chance(60) { call.manager(random.pick(&MANAGERS)) } else { call }
}

fn edits(random: &mut Random, object: &mut Value, most: usize) {
    for _ in 0..=random.below(most) {
        edit(random, object);
    }
}

/// Changes one field, to something else or to nothing.
fn edit(random: &mut Random, object: &mut Value) {
    let remove = random.chance(20);
    let pick = |random: &mut Random, values: &[Value]| random.pick(values);
    let (path, value): (&[&str], Value) = match random.below(22) {
        0 | 1 => (&["spec", "size"], pick(random, &[json!("S"), json!("M"), json!("L")])),
        2 | 3 => (&["spec", "mode"], pick(random, &[json!("calm"), json!("storm"), json!("fog")])),
        4 => (&["spec", "shape"], pick(random, &[json!("round"), json!("flat")])),
        5 => (&["spec", "note"], pick(random, &[json!(null), json!("n"), json!("m")])),
        6 => (&["spec", "replicas"], json!(random.below(4))),
        7 => (&["spec", "limits", "cpu"], pick(random, &[json!(1), json!(2), json!("1"), json!("500m")])),
        8 => (&["spec", "limits", "memory"], pick(random, &[json!("1Gi"), json!(7)])),
        9 => (&["spec", "limits"], pick(random, &[json!({}), json!({"cpu": 1}), json!({"disk": 1})])),
        10 => (&["spec", "labels", "a.b/c"], pick(random, &[json!("x"), json!("y")])),
        11 => (&["spec", "labels", "plain"], pick(random, &[json!("x"), json!("y")])),
        12 | 13 => return edit_taints(random, object),
        14 => return edit_set(random, object),
        15 => (
            &["spec", "args"],
            pick(random, &[json!([]), json!(["a"]), json!(["b", "a"]), json!(["a", "b"])]),
        ),
        16 => {
            let rules = ["web", "api", "db"].map(|name| json!({"name": name, "port": random.below(3)}));
            let some = rules.into_iter().filter(|_| random.chance(60)).collect();
            (&["spec", "rules"], Value::Array(some))
        }
        17 => {
            let part: &[&str] =
                if random.chance(50) { &["spec", "window", "from"] } else { &["spec", "window", "to"] };
            (part, pick(random, &[json!("1"), json!("2")]))
        }
        18 => {
            let values = [
                json!(1),
                json!("s"),
                json!({"a": 1}),
                json!({"a": 2, "b": 1}),
                json!([1, 2]),
                json!([2, 1]),
            ];
            let part: &[&str] =
                if random.chance(60) { &["spec", "free", "deep"] } else { &["spec", "free", "flat"] };
            (part, pick(random, &values))
        }
        19 => {
            let part: &[&str] = if random.chance(50) { &["data", "k"] } else { &["data", "other"] };
            (part, pick(random, &[json!("v"), json!("w")]))
        }
        20 => match random.below(3) {
            0 => (&["metadata", "labels", "x"], pick(random, &[json!("1"), json!("2")])),
            1 => (&["metadata", "annotations", "note"], pick(random, &[json!("1"), json!("2")])),
            _ => (&["metadata", "finalizers"], json!(["arena.example.com/fin"])),
        },
        _ => match random.below(3) {
            0 => (&["status", "phase"], pick(random, &[json!("Wet"), json!("Dry")])),
            1 => (&["status", "other"], pick(random, &[json!("x"), json!("y")])),
            _ => (&["status", "replicas"], json!(random.below(3))),
        },
    };
    set(object, path, (!remove).then_some(value));
}

/// Adds, changes or removes one item, now and then several.
fn edit_taints(random: &mut Random, object: &mut Value) {
    let mut taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
    for _ in 0..=random.below(2) {
        let key = random.pick(&["a", "b"]);
        let effect = if random.chance(80) { "NoSchedule" } else { "NoExecute" };
        let had = taints.len();
        taints.retain(|taint| taint["key"] != key || taint["effect"] != effect);
        if had == taints.len() || random.chance(60) {
            let mut taint = json!({"key": key, "effect": effect});
            if random.chance(75) {
                taint["value"] = json!(random.pick(&["x", "y"]));
            }
            // Anywhere: the order of a keyed list means nothing.
            taints.insert(random.below(taints.len() + 1), taint);
        }
    }
    set(object, &["spec", "taints"], Some(Value::Array(taints)));
}

fn edit_set(random: &mut Random, object: &mut Value) {
    let mut zones = object["spec"]["zones"].as_array().cloned().unwrap_or_default();
    let zone = json!(random.pick(&["a", "b", "c"]));
    if zones.contains(&zone) {
        zones.retain(|one| *one != zone);
    } else {
        zones.insert(random.below(zones.len() + 1), zone);
    }
    set(object, &["spec", "zones"], Some(Value::Array(zones)));
}

fn set(object: &mut Value, path: &[&str], value: Option<Value>) {
    let (last, parents) = path.split_last().unwrap();
    let mut node = object;
    for name in parents {
        if !node[*name].is_object() {
            if value.is_none() {
                return;
            }
            node[*name] = json!({});
        }
        node = &mut node[*name];
    }
    match value {
        Some(value) => node[*last] = value,
        None => {
            node.as_object_mut().unwrap().remove(*last);
        }
    }
}

/// What a merge patch has to say to get from one to the other. It cannot set a null.
fn merge_patch(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        match old.get(name) {
            Some(before) if before == value => {}
            Some(before) => {
                patch.insert(name.clone(), merge_patch(before, value));
            }
            None => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

/// The same in operations, now and then for a whole subtree instead of its parts.
fn json_patch(random: &mut Random, old: &Value, new: &Value) -> Value {
    let mut operations = Vec::new();
    compare(random, old, new, "", &mut operations);
    Value::Array(operations)
}

fn compare(random: &mut Random, old: &Value, new: &Value, at: &str, operations: &mut Vec<Value>) {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        if old != new {
            operations.push(json!({"op": "replace", "path": at, "value": new}));
        }
        return;
    };
    if old != new && at.len() > 6 && random.chance(20) {
        operations.push(json!({"op": "replace", "path": at, "value": new}));
        return;
    }
    let escaped = |name: &str| format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        operations.push(json!({"op": "remove", "path": escaped(name)}));
    }
    for (name, value) in after {
        match before.get(name) {
            Some(before) => compare(random, before, value, &escaped(name), operations),
            None => operations.push(json!({"op": "add", "path": escaped(name), "value": value})),
        }
    }
}

/// The same person, past the webhook: what a dry run by this one answers is what the write would do.
pub fn twin(who: &Who) -> Vec<&'static str> {
    who.group.into_iter().chain(["fieldkeeper.dev:bypass"]).collect()
}
