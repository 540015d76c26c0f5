//! Values: when two are the same, and what stands at a path.
//!
//! In: borrowed JSON. Out: equality as the API server sees it (member order is
//! free, numbers are compared by value, everything else exactly), and the value
//! below a path. It must not know policies: looser comparisons that a policy may ask
//! for are built on top.

use std::sync::Arc;

use super::element::{Element, Scalar};
use super::raw::{Kind, Node, Raw, RawError, Tree};
use super::schema::{ListKey, ListShape, SchemaNode};

/// Values nested deeper than this are not judged, which is an error and never "equal".
///
/// Recursion this deep takes under 400 KiB of stack, 1.6 MiB without optimisation;
/// worker threads have 2 MiB. The API server itself stops at 10,000, so an object
/// like that can exist.
pub const MAX_DEPTH: usize = 200;

/// Whether two values are the same.
pub fn equal(a: Raw<'_>, b: Raw<'_>) -> Result<bool, RawError> {
    if a.text() == b.text() {
        return Ok(true);
    }
    if a.kind() != b.kind() {
        return Ok(false);
    }
    let (a, b) = (Tree::new(a)?, Tree::new(b)?);
    equal_nodes(a.root(), b.root(), 0)
}

/// Whether two values are the same, of which the trees are known; `depth` levels
/// of the two were gone through before.
pub(super) fn equal_nodes(a: Node<'_, '_>, b: Node<'_, '_>, depth: usize) -> Result<bool, RawError> {
    let (a_raw, b_raw) = (a.raw, b.raw);
    if a_raw.text() == b_raw.text() {
        return Ok(true);
    }
    if depth > MAX_DEPTH {
        return Err(RawError::Depth(MAX_DEPTH));
    }
    if a_raw.kind() != b_raw.kind() {
        return Ok(false);
    }
    match a_raw.kind() {
        Kind::Null | Kind::Bool => Ok(false),
        Kind::Number => Ok(same_number(a_raw.text(), b_raw.text())),
        Kind::String => Ok(a_raw.string()? == b_raw.string()?),
        Kind::Array => {
            let (a, b) = (a.items()?, b.items()?);
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.into_iter().zip(b) {
                if !equal_nodes(a, b, depth + 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Kind::Object => {
            let (a, b) = (a.members()?, b.members()?);
            if a.len() != b.len() {
                return Ok(false);
            }
            for ((a_name, a), (b_name, b)) in a.into_iter().zip(b) {
                if a_name != b_name || !equal_nodes(a, b, depth + 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// Whether two JSON numbers have the same value. Digits are compared, not floats:
/// 2^64 and 2^64+1 differ, 1 and 1.0 and 10e-1 do not.
#[must_use]
pub fn same_number(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    match (Decimal::read(a), Decimal::read(b)) {
        (Some(a), Some(b)) => a.same(&b),
        _ => false,
    }
}

/// A decimal number: the digits of `whole` and `part` times ten to the `exponent`,
/// without zeros at either end. Zero has no digits.
struct Decimal<'a> {
    negative: bool,
    whole: &'a str,
    part: &'a str,
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// `None` for an exponent that no machine number can have.
    fn read(text: &'a str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i64 = exponent.parse().ok()?;
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let part = part.trim_end_matches('0');
        let mut exponent = exponent.checked_sub(i64::try_from(part.len()).ok()?)?;
        let mut kept = whole;
        if part.is_empty() {
            kept = whole.trim_end_matches('0');
            exponent = exponent.checked_add(i64::try_from(whole.len() - kept.len()).ok()?)?;
        }
        let whole = kept.trim_start_matches('0');
        let part = if whole.is_empty() { part.trim_start_matches('0') } else { part };
        Some(Self { negative, whole, part, exponent })
    }

    fn is_zero(&self) -> bool {
        self.whole.is_empty() && self.part.is_empty()
    }

    fn same(&self, other: &Self) -> bool {
        if self.is_zero() || other.is_zero() {
            return self.is_zero() && other.is_zero();
        }
        self.negative == other.negative && self.exponent == other.exponent && self.digits().eq(other.digits())
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.whole.bytes().chain(self.part.bytes())
    }
}

/// The value at a path below `value`, for who asks only once; see `at`.
pub fn find<'a>(value: Raw<'a>, path: &[Element], node: &SchemaNode) -> Result<Option<Raw<'a>>, RawError> {
    at(Tree::new(value)?.root(), path, node)
}

/// The value at a path below `value`, whose schema node is `node`; `None` if there is none.
///
/// Of several items with the same key the first is taken. Key elements that name
/// keys which the schema does not know are looked for as they are, so that paths
/// into lists without a schema work.
pub(super) fn at<'a>(
    value: Node<'a, '_>,
    path: &[Element],
    node: &SchemaNode,
) -> Result<Option<Raw<'a>>, RawError> {
    let (mut value, mut node) = (value, node);
    for element in path {
        let kind = value.raw.kind();
        let found = match element {
            Element::Field(name) if kind == Kind::Object => value.get(name)?,
            Element::Index(index) if kind == Kind::Array => {
                value.items()?.get(usize::try_from(*index).unwrap_or(usize::MAX)).copied()
            }
            Element::Key(_) | Element::Value(_) if kind == Kind::Array => {
                let shape = node.list().map(super::schema::ListNode::shape);
                item_of(value, element, shape)?
            }
            _ => None,
        };
        let Some(found) = found else { return Ok(None) };
        value = found;
        node = node.child(element).unwrap_or_else(|| SchemaNode::deduced());
    }
    Ok(Some(value.raw))
}

fn item_of<'a, 't>(
    list: Node<'a, 't>,
    element: &Element,
    shape: Option<&ListShape>,
) -> Result<Option<Node<'a, 't>>, RawError> {
    for item in list.items()? {
        let is_it = match element {
            Element::Value(wanted) => Scalar::parse(item.raw.text()).is_some_and(|scalar| scalar == *wanted),
            Element::Key(wanted) if item.raw.kind() == Kind::Object => has_key(item, wanted, shape)?,
            _ => false,
        };
        if is_it {
            return Ok(Some(item));
        }
    }
    Ok(None)
}

fn has_key(
    item: Node<'_, '_>,
    wanted: &[(Arc<str>, Scalar)],
    shape: Option<&ListShape>,
) -> Result<bool, RawError> {
    for (name, scalar) in wanted {
        if key_field(item, name, shape)?.as_ref() != Some(scalar) {
            return Ok(false);
        }
    }
    // A key that the element leaves out is one that the item must not have either.
    let Some(ListShape::Keyed(keys)) = shape else { return Ok(true) };
    for key in keys.iter().filter(|key| !wanted.iter().any(|(name, _)| *name == key.name)) {
        if key_field(item, &key.name, shape)?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One key field of an item, or its default.
fn key_field(item: Node<'_, '_>, name: &str, shape: Option<&ListShape>) -> Result<Option<Scalar>, RawError> {
    if let Some(value) = item.get(name)? {
        return Ok(Scalar::parse(value.raw.text()));
    }
    let Some(ListShape::Keyed(keys)) = shape else { return Ok(None) };
    Ok(keys.iter().find(|key: &&ListKey| *key.name == *name).and_then(|key| key.default.clone()))
}

#[cfg(test)]
mod tests;
