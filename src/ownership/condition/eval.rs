//! Evaluation of a condition on raw JSON. Only the members that are read are parsed.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use super::number::Number;
use super::{Access, Comparison, Expr, Literal, Root};
use crate::ownership::raw::{Kind, Node, Raw, RawError};
use crate::ownership::value;

/// The objects that a condition may read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Objects<'a> {
    /// What `oldObject` stands for.
    pub old_object: Option<Raw<'a>>,
    /// What `object` stands for.
    pub object: Option<Raw<'a>>,
}

/// Why a condition is neither true nor false. Each is a sentence without its full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// A bool is needed.
    NotABool {
        /// What is there.
        found: &'static str,
    },
    /// Values of these types have no order.
    NoOrder {
        /// Type on the left.
        left: &'static str,
        /// Type on the right.
        right: &'static str,
    },
    /// The right side of `in` is no collection.
    NotACollection {
        /// What is there.
        found: &'static str,
    },
    /// A path leads through something that is no object.
    NotAnObject {
        /// The path that was asked for.
        path: String,
    },
    /// The object cannot be read.
    Unreadable(RawError),
}

impl From<RawError> for EvalError {
    fn from(error: RawError) -> Self {
        Self::Unreadable(error)
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotABool { found } => write!(f, "a bool is needed, but there is a {found}"),
            Self::NoOrder { left, right } => write!(f, "a {left} and a {right} have no order"),
            Self::NotACollection { found } => write!(f, "`in` needs a list or a map, but there is a {found}"),
            Self::NotAnObject { path } => write!(f, "{path} leads through something that is no object"),
            Self::Unreadable(error) => write!(f, "the object cannot be read: {error}"),
        }
    }
}

impl std::error::Error for EvalError {}

impl<'a> Objects<'a> {
    /// The value that `access` means; `None` if it, or something on the way to it, is absent.
    pub fn get(&self, access: &Access) -> Result<Option<Raw<'a>>, EvalError> {
        let object = match access.root {
            Root::OldObject => self.old_object,
            Root::Object => self.object,
        };
        object.map_or(Ok(None), |object| follow(access, object, Raw::kind, Raw::get))
    }
}

/// The value at a path, of which the caller says how to get one step further.
fn follow<V: Copy>(
    access: &Access,
    object: V,
    kind: impl Fn(V) -> Kind,
    get: impl Fn(V, &str) -> Result<Option<V>, RawError>,
) -> Result<Option<V>, EvalError> {
    let mut current = object;
    for name in &access.path {
        let found = match kind(current) {
            Kind::Object => get(current, name)?,
            Kind::Null => None,
            _ => return Err(EvalError::NotAnObject { path: access.to_string() }),
        };
        let Some(found) = found else { return Ok(None) };
        current = found;
    }
    Ok(Some(current))
}

impl Expr {
    /// Whether the condition of a claim holds of the stored object.
    pub fn eval(&self, old_object: Option<Raw<'_>>) -> Result<bool, EvalError> {
        self.eval_on(&Objects { old_object, object: None })
    }

    /// The same for an object whose tree is known.
    pub(in crate::ownership) fn eval_node(
        &self,
        old_object: Option<Node<'_, '_>>,
    ) -> Result<bool, EvalError> {
        self.eval_with(&mut |access| {
            let object = if access.root == Root::OldObject { old_object } else { None };
            let Some(object) = object else { return Ok(None) };
            let found = follow(access, object, |node| node.raw.kind(), Node::get)?;
            Ok(found.map(|node| node.raw))
        })
    }

    /// Whether the condition holds of these objects.
    pub fn eval_on(&self, objects: &Objects<'_>) -> Result<bool, EvalError> {
        self.eval_with(&mut |access| objects.get(access))
    }

    /// The same with the values from elsewhere. A caller with many conditions on one object looks each of
    /// [`Expr::accesses`] up once and answers from that.
    pub fn eval_with<'a>(
        &self,
        get: &mut dyn FnMut(&Access) -> Result<Option<Raw<'a>>, EvalError>,
    ) -> Result<bool, EvalError> {
        match self.value(get)? {
            Value::Bool(holds) => Ok(holds),
            other => Err(EvalError::NotABool { found: other.type_name() }),
        }
    }

    fn value<'a, 'e: 'v, 'v>(
        &'e self,
        get: &mut dyn FnMut(&Access) -> Result<Option<Raw<'a>>, EvalError>,
    ) -> Result<Value<'v>, EvalError>
    where
        'a: 'v,
    {
        Ok(match self {
            Self::Literal(literal) => Value::of_literal(literal),
            Self::Read(access) => match get(access)? {
                Some(raw) => Value::of_raw(raw)?,
                None => Value::Null,
            },
            Self::Has(access) => Value::Bool(get(access)?.is_some()),
            Self::Not(inner) => Value::Bool(!inner.eval_with(get)?),
            Self::Compare(comparison, left, right) => {
                Value::Bool(compare(*comparison, &left.value(get)?, &right.value(get)?)?)
            }
            Self::All(terms) => Value::Bool(settle(terms, false, get)?),
            Self::Any(terms) => Value::Bool(settle(terms, true, get)?),
        })
    }
}

/// `&&` (settled by false) and `||` (settled by true): one settling term decides, whatever the others are and
/// wherever they stand; without one, an error of any term is the error of all.
fn settle<'a>(
    terms: &[Expr],
    settling: bool,
    get: &mut dyn FnMut(&Access) -> Result<Option<Raw<'a>>, EvalError>,
) -> Result<bool, EvalError> {
    let mut first_error = None;
    for term in terms {
        match term.eval_with(get) {
            Ok(value) if value == settling => return Ok(settling),
            Ok(_) => {}
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(!settling), Err)
}

/// A value on the way. Lists and maps of the object stay text until something asks for their content.
enum Value<'a> {
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    Literals(&'a [Literal]),
    List(Raw<'a>),
    Map(Raw<'a>),
}

impl<'a> Value<'a> {
    fn of_literal(literal: &'a Literal) -> Self {
        match literal {
            Literal::Null => Self::Null,
            Literal::Bool(value) => Self::Bool(*value),
            Literal::Number(number) => Self::Number(*number),
            Literal::String(text) => Self::String(Cow::Borrowed(text)),
            Literal::List(items) => Self::Literals(items),
        }
    }

    fn of_raw(raw: Raw<'a>) -> Result<Self, EvalError> {
        Ok(match raw.kind() {
            Kind::Null => Self::Null,
            Kind::Bool => Self::Bool(raw.text() == "true"),
            Kind::String => Self::String(raw.string()?),
            Kind::Array => Self::List(raw),
            Kind::Object => Self::Map(raw),
            Kind::Number => Self::Number(Number::parse(raw.text()).ok_or(RawError::Syntax)?),
        })
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Literals(_) | Self::List(_) => "list",
            Self::Map(_) => "map",
        }
    }
}

fn compare(comparison: Comparison, left: &Value<'_>, right: &Value<'_>) -> Result<bool, EvalError> {
    let ordered = |wanted: fn(Ordering) -> bool| order(left, right).map(wanted);
    match comparison {
        Comparison::Equal => equal(left, right),
        Comparison::NotEqual => equal(left, right).map(|same| !same),
        Comparison::Less => ordered(Ordering::is_lt),
        Comparison::LessOrEqual => ordered(Ordering::is_le),
        Comparison::Greater => ordered(Ordering::is_gt),
        Comparison::GreaterOrEqual => ordered(Ordering::is_ge),
        Comparison::In => is_in(left, right),
    }
}

fn order(left: &Value<'_>, right: &Value<'_>) -> Result<Ordering, EvalError> {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => Ok(a.compare(*b)),
        // By bytes, which for UTF-8 is by code points.
        (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        _ => Err(EvalError::NoOrder { left: left.type_name(), right: right.type_name() }),
    }
}

fn is_in(left: &Value<'_>, right: &Value<'_>) -> Result<bool, EvalError> {
    match right {
        Value::Literals(items) => any(items.iter().map(|item| equal(left, &Value::of_literal(item)))),
        Value::List(raw) => any(raw.items()?.into_iter().map(|item| equal(left, &Value::of_raw(item)?))),
        Value::Map(raw) => match left {
            Value::String(key) => Ok(raw.get(key)?.is_some()),
            // No other type can be a key of a JSON object.
            _ => Ok(false),
        },
        _ => Err(EvalError::NotACollection { found: right.type_name() }),
    }
}

fn any(mut items: impl Iterator<Item = Result<bool, EvalError>>) -> Result<bool, EvalError> {
    items.find(|item| !matches!(item, Ok(false))).unwrap_or(Ok(false))
}

fn all(items: impl Iterator<Item = Result<bool, EvalError>>) -> Result<bool, EvalError> {
    any(items.map(|item| item.map(|same| !same))).map(|differs| !differs)
}

fn equal(left: &Value<'_>, right: &Value<'_>) -> Result<bool, EvalError> {
    Ok(match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => a == b,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Literals(a), Value::Literals(b)) => a == b,
        (Value::Literals(items), Value::List(raw)) | (Value::List(raw), Value::Literals(items)) => {
            let found = raw.items()?;
            let same =
                |(raw, item): (&Raw<'_>, &Literal)| equal(&Value::of_raw(*raw)?, &Value::of_literal(item));
            found.len() == items.len() && all(found.iter().zip(*items).map(same))?
        }
        (Value::List(a), Value::List(b)) | (Value::Map(a), Value::Map(b)) => value::equal(*a, *b)?,
        _ => false,
    })
}
