//! A batch: one seed, one schema, some pairs of objects, some sets of paths.
//!
//! Input: a seed. Output: questions, or what the oracle and we disagree about.

use fieldkeeper::ownership::schema::{Schema, SchemaError};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::agreement::{self, Answer, Pair};
use super::json::Json;
use super::objects;
use super::random::Random;
use super::schemas::Node;
use super::texts;
use crate::harness::Oracle;

const PAIRS: usize = 16;
const TEXTS: usize = 4;
const ALGEBRA: usize = 2;

pub struct Batch {
    seed: u64,
    /// Absent for a kind whose schema is not known.
    schema: Option<Value>,
    /// The old `spec.preserveUnknownFields`.
    preserve: bool,
    pairs: Vec<Pair>,
    texts: Vec<String>,
    algebra: Vec<(String, String)>,
}

/// What was compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub schemas: usize,
    pub pairs: usize,
    pub refused_pairs: usize,
    pub equal_pairs: usize,
    pub texts: usize,
    pub refused_texts: usize,
    pub algebra: usize,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.schemas += other.schemas;
        self.pairs += other.pairs;
        self.refused_pairs += other.refused_pairs;
        self.equal_pairs += other.equal_pairs;
        self.texts += other.texts;
        self.refused_texts += other.refused_texts;
        self.algebra += other.algebra;
    }
}

impl Batch {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let random = &mut random;
        let known = !random.chance(5);
        let kind = if known { Node::kind(random) } else { Node::unknown_kind() };
        let preserve = known && random.chance(4);
        let pairs = (0..PAIRS).map(|_| pair(&kind, random)).collect();
        let texts = (0..TEXTS).map(|_| texts::text(random)).collect();
        let algebra = (0..ALGEBRA).map(|_| (texts::small(random), texts::small(random))).collect();
        Self { seed, schema: known.then(|| kind.openapi()), preserve, pairs, texts, algebra }
    }

    /// Asks the oracle and compares.
    pub fn run(&self, oracle: &mut Oracle) -> Result<Tally, String> {
        let question = question(self.schema.as_ref(), self.preserve, &self.pairs, &self.texts, &self.algebra);
        let answer: Answer = oracle.ask(&question).map_err(|error| format!("{error:#}"))?;
        if let Some(error) = answer.schema_error {
            return Err(format!("the API server does not accept the schema: {error}\n{}", self.described()));
        }
        let schema = read_schema(self.schema.as_ref(), self.preserve)
            .map_err(|error| format!("schema not read: {error}\n{}", self.described()))?;
        for (position, (pair, said)) in self.pairs.iter().zip(&answer.pairs).enumerate() {
            agreement::pair(&schema, pair, said, self.seed ^ position as u64)
                .map_err(|error| format!("{error}\n{}", case(self.schema.as_ref(), self.preserve, pair)))?;
        }
        for (text, said) in self.texts.iter().zip(&answer.texts) {
            agreement::text(text, said, &oracle.version)
                .map_err(|error| format!("{error}\nFieldsV1 {text:?}"))?;
        }
        for (pair, said) in self.algebra.iter().zip(&answer.algebra) {
            agreement::algebra(pair, said).map_err(|error| format!("{error}\n{pair:?}"))?;
        }
        let complete = answer.pairs.len() == self.pairs.len()
            && answer.texts.len() == self.texts.len()
            && answer.algebra.len() == self.algebra.len();
        if complete { Ok(self.tally(&answer)) } else { Err("the oracle left questions open".to_owned()) }
    }

    fn tally(&self, answer: &Answer) -> Tally {
        let equal = |said: &&agreement::Comparison| {
            [&said.sets.added, &said.sets.removed, &said.sets.modified].iter().all(|set| *set == "{}")
        };
        Tally {
            schemas: 1,
            pairs: self.pairs.len(),
            refused_pairs: answer.pairs.iter().filter(|said| said.error.is_some()).count(),
            equal_pairs: answer.pairs.iter().filter(equal).count(),
            texts: self.texts.len(),
            refused_texts: answer.texts.iter().filter(|said| said.error.is_some()).count(),
            algebra: self.algebra.len(),
        }
    }

    fn described(&self) -> String {
        self.schema.as_ref().map(Value::to_string).unwrap_or_default()
    }
}

fn pair(kind: &Node, random: &mut Random) -> Pair {
    let old = objects::object(kind, random);
    let new =
        if random.chance(8) { objects::object(kind, random) } else { objects::changed(&old, kind, random) };
    let (old, new) = match random.below(20) {
        0 => (None, Some(new)),
        1 => (Some(old), None),
        _ => (Some(old), Some(new)),
    };
    let spell = |object: Option<Json>, random: &mut Random| {
        object.map(|object| if random.chance(70) { object.plain() } else { object.spelled(random) })
    };
    (spell(old, random), spell(new, random))
}

pub fn read_schema(schema: Option<&Value>, preserve: bool) -> Result<Schema, SchemaError> {
    match schema {
        None => Ok(Schema::deduced()),
        Some(schema) if preserve => Schema::from_crd_preserving(schema),
        Some(schema) => Schema::from_crd(schema),
    }
}

/// The request for the oracle. Objects stand in it as they are spelled.
pub fn question(
    schema: Option<&Value>,
    preserve: bool,
    pairs: &[Pair],
    texts: &[String],
    algebra: &[(String, String)],
) -> String {
    let raw = |text: &Option<String>| text.as_ref().and_then(|text| RawValue::from_string(text.clone()).ok());
    let pairs: Vec<_> = pairs.iter().map(|(old, new)| (raw(old), raw(new))).collect();
    serde_json::to_string(
        &json!({"schema": schema, "preserve": preserve, "texts": texts, "algebra": algebra}),
    )
    .and_then(|rest| {
        Ok(format!("{},\"pairs\":{}}}", rest.trim_end_matches('}'), serde_json::to_string(&pairs)?))
    })
    .unwrap()
}

/// A pair in the form of `tests/data/differential`, to be kept once it is small.
fn case(schema: Option<&Value>, preserve: bool, (old, new): &Pair) -> String {
    let text = |side: &Option<String>| side.clone().unwrap_or_else(|| "null".to_owned());
    let schema = schema.map_or_else(|| "null".to_owned(), Value::to_string);
    format!(
        "{{\"about\": \"\",\n\"schema\": {schema},\n\"preserve\": {preserve},\n\"old\": {},\n\"new\": {}}}",
        text(old),
        text(new)
    )
}
