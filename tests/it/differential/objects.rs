//! Random objects of a schema, and changed copies of them.
//!
//! Input: a schema and chance. Output: objects that structured-merge-diff takes, nearly always, though a validation
//! of values might refuse some of them.

use super::json::Json;
use super::random::Random;
use super::scalars::{self, NAMES};
use super::schemas::{Node, Shape};

/// What the schema says of a place in an object; nothing where the schema knows nothing.
#[derive(Clone, Copy)]
struct Place<'n> {
    node: Option<&'n Node>,
    /// Unknown fields are preserved, here or above.
    preserve: bool,
    depth: usize,
}

impl<'n> Place<'n> {
    fn below(self, node: Option<&'n Node>) -> Self {
        let preserve = self.preserve || node.is_none_or(|node| node.preserve);
        Self { node, preserve, depth: self.depth + 1 }
    }

    fn member(self, name: &str) -> Self {
        let declared = match self.node.map(|node| &node.shape) {
            Some(Shape::Struct { fields, .. } | Shape::Untyped { fields, .. }) => {
                let field = fields.iter().rev().find(|field| field.name == name);
                if let Some(field) = field.filter(|field| field.implied) {
                    // The API server drops what is unknown in metadata, whatever the schema preserves.
                    return Self { node: Some(&field.node), preserve: false, depth: self.depth + 1 };
                }
                field.map(|field| &field.node)
            }
            Some(Shape::Map { member, .. }) => member.as_deref(),
            _ => None,
        };
        self.below(declared)
    }

    fn item(self) -> Self {
        self.below(match self.node.map(|node| &node.shape) {
            Some(Shape::List { item, .. }) => Some(item),
            Some(Shape::Untyped { item, .. }) => item.as_deref(),
            _ => None,
        })
    }

    /// Whether `null` among the items of the list here would be an error.
    fn tells_items_apart(self) -> bool {
        matches!(self.node.map(|node| &node.shape),
            Some(Shape::List { topology, .. }) if matches!(topology, Some("set" | "map")))
    }

    /// A name that a member here may have.
    fn name(self, random: &mut Random) -> Option<String> {
        let fields = match self.node.map(|node| &node.shape) {
            Some(Shape::Struct { fields, .. } | Shape::Untyped { fields, .. }) => fields.as_slice(),
            _ => &[],
        };
        let open = self.preserve
            || match self.node.map(|node| &node.shape) {
                Some(Shape::Struct { fields, .. }) => fields.is_empty(),
                _ => true,
            };
        if fields.is_empty() || open && random.chance(25) {
            return open.then(|| random.pick(NAMES).to_owned());
        }
        Some(fields[random.below(fields.len())].name.clone())
    }
}

/// A random object of a kind.
pub fn object(kind: &Node, random: &mut Random) -> Json {
    value(root(kind), random)
}

fn root(kind: &Node) -> Place<'_> {
    Place { node: Some(kind), preserve: kind.preserve, depth: 0 }
}

fn value(place: Place<'_>, random: &mut Random) -> Json {
    let Some(node) = place.node else { return anything(place, random) };
    let nulls = if node.nullable { 12 } else { 1 };
    if place.depth > 0 && random.chance(nulls) {
        return Json::Null;
    }
    match &node.shape {
        Shape::Scalar(scalar) => scalar.value(random),
        Shape::Untyped { .. } => anything(place, random),
        Shape::Struct { .. } | Shape::Map { .. } => map(place, random),
        Shape::List { .. } => list(place, random),
    }
}

fn anything(place: Place<'_>, random: &mut Random) -> Json {
    match random.below(if place.depth < 7 { 10 } else { 5 }) {
        0 => Json::Null,
        1..5 => scalars::any(random),
        5..8 => map(place, random),
        _ => list(place, random),
    }
}

fn map(place: Place<'_>, random: &mut Random) -> Json {
    let mut map = Json::Map(Vec::new());
    if random.chance(10) {
        return map;
    }
    if let Some(Node { shape: Shape::Struct { fields, embedded, .. }, .. }) = place.node {
        // Of large structs only some fields, or objects become huge.
        let share = 65.min(500 / fields.len().max(1));
        for field in fields {
            if random.chance(share) || *embedded && field.implied {
                map.put(&field.name, value(place.member(&field.name), random));
            }
        }
    }
    let more = if place.node.is_some_and(Node::has_fields) { 2 } else { 5 };
    for _ in 0..random.below(more) {
        if let Some(name) = place.name(random) {
            map.put(&name, value(place.member(&name), random));
        }
    }
    map
}

fn list(place: Place<'_>, random: &mut Random) -> Json {
    let count = random.below(5);
    Json::List((0..count).map(|_| item(place, random)).collect())
}

fn item(list: Place<'_>, random: &mut Random) -> Json {
    let place = list.item();
    loop {
        let mut item = value(place, random);
        if item == Json::Null && list.tells_items_apart() {
            continue;
        }
        if let Some(Node { shape: Shape::List { keys, .. }, .. }) = list.node {
            for key in keys {
                complete(&mut item, key, place, random);
            }
        }
        return item;
    }
}

/// Gives an item its key. One with a default may stay away.
fn complete(item: &mut Json, key: &str, place: Place<'_>, random: &mut Random) {
    let place = place.member(key);
    let needed = place.node.is_none_or(|node| node.default.is_none());
    match item.get_mut(key) {
        Some(Json::Null) | None if needed || random.chance(40) => {}
        Some(Json::Null) => {
            if let Json::Map(members) = item {
                members.retain(|(name, _)| name != key);
            }
            return;
        }
        _ => return,
    }
    // Now and then a required key is left out: nothing stops that in a request that is not validated yet.
    if random.chance(97) {
        let value = loop {
            match value(place, random) {
                Json::Null => {}
                value => break value,
            }
        };
        item.put(key, value);
    }
}

/// A copy with one change or some.
pub fn changed(object: &Json, kind: &Node, random: &mut Random) -> Json {
    let mut copy = object.clone();
    let mut changes = 1 + random.below(4);
    while changes > 0 {
        change(&mut copy, root(kind), random);
        // What changed nothing does not count, most of the time.
        if copy != *object || random.chance(5) {
            changes -= 1;
        }
    }
    copy
}

fn change(object: &mut Json, place: Place<'_>, random: &mut Random) {
    match object {
        Json::Map(members) => {
            let count = members.len();
            match random.below(10) {
                0 if place.depth > 0 => *object = value(place, random),
                0 | 1 if count > 0 => drop(members.remove(random.below(count))),
                2 | 3 => add(object, place, random),
                _ if count > 0 => {
                    let (name, below) = &mut members[random.below(count)];
                    change(below, place.member(name), random);
                }
                _ => add(object, place, random),
            }
        }
        Json::List(items) => {
            let count = items.len();
            match random.below(12) {
                0 => *object = value(place, random),
                1 | 2 if count > 0 => drop(items.remove(random.below(count))),
                3 if count > 0 => items.push(items[random.below(count)].clone()),
                4 | 5 => random.shuffle(items),
                6 => items.clear(),
                7 | 8 if count > 0 => {
                    let position = random.below(count);
                    change(&mut items[position], place.item(), random);
                }
                9 if count > 0 => items[random.below(count)] = item(place, random),
                _ => items.insert(random.below(count + 1), item(place, random)),
            }
        }
        _ => *object = value(place, random),
    }
}

fn add(object: &mut Json, place: Place<'_>, random: &mut Random) {
    if let Some(name) = place.name(random) {
        object.put(&name, value(place.member(&name), random));
    }
}
