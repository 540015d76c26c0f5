//! What can be said of a condition from its text alone.
//!
//! Input: conditions. Output: whether they hold always, never, or never together. Must err towards
//! "cannot be said": a rule that speaks wrongly is worse than one that is silent.

use crate::ownership::condition::{Access, Comparison, Expr, Literal};

/// Whether a condition is the same for every object, and what it then is.
pub(super) fn constant(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Literal(Literal::Bool(value)) => Some(*value),
        Expr::Literal(_) | Expr::Read(_) | Expr::Has(_) => None,
        Expr::Not(inner) => constant(inner).map(|value| !value),
        Expr::Compare(comparison, left, right) => compare(*comparison, left, right),
        Expr::All(terms) => settle(terms, false).or_else(|| conflict(terms).then_some(false)),
        Expr::Any(terms) => settle(terms, true).or_else(|| complementary(terms).then_some(true)),
    }
}

/// Whether a claim under this condition is always active.
pub(super) fn always(when: Option<&Expr>) -> bool {
    when.is_none_or(|when| constant(when) == Some(true))
}

/// Whether two claims can never be active together.
pub(super) fn exclusive(a: Option<&Expr>, b: Option<&Expr>) -> bool {
    let terms: Vec<Expr> = [a, b].into_iter().flatten().flat_map(conjuncts).cloned().collect();
    constant(&Expr::All(terms)) == Some(false)
}

/// Whether at least one of the conditions always holds.
pub(super) fn exhaustive(whens: &[&Expr]) -> bool {
    let terms: Vec<Expr> = whens.iter().flat_map(|when| disjuncts(when)).cloned().collect();
    constant(&Expr::Any(terms)) == Some(true)
}

/// `decisive` settles `&&` and `||`; the other value does so only in all terms.
fn settle(terms: &[Expr], decisive: bool) -> Option<bool> {
    let values: Vec<Option<bool>> = terms.iter().map(constant).collect();
    if values.contains(&Some(decisive)) {
        return Some(decisive);
    }
    (!terms.is_empty() && values.iter().all(|value| *value == Some(!decisive))).then_some(!decisive)
}

fn compare(comparison: Comparison, left: &Expr, right: &Expr) -> Option<bool> {
    match (comparison, left, right) {
        (Comparison::In, _, Expr::Literal(Literal::List(items))) if items.is_empty() => Some(false),
        (Comparison::In, Expr::Literal(item), Expr::Literal(Literal::List(items))) => {
            Some(items.contains(item))
        }
        (Comparison::Equal, Expr::Literal(left), Expr::Literal(right)) => Some(left == right),
        (Comparison::NotEqual, Expr::Literal(left), Expr::Literal(right)) => Some(left != right),
        _ => None,
    }
}

fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::All(terms) => terms.iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

fn disjuncts(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Any(terms) => terms.iter().flat_map(disjuncts).collect(),
        other => vec![other],
    }
}

/// Whether two of the terms cannot hold together.
fn conflict(terms: &[Expr]) -> bool {
    let terms: Vec<&Expr> = terms.iter().flat_map(conjuncts).collect();
    pairs(&terms).any(|(a, b)| is_negation(a, b) || demand_different_values(a, b))
}

/// Whether one of two terms always holds.
fn complementary(terms: &[Expr]) -> bool {
    let terms: Vec<&Expr> = terms.iter().flat_map(disjuncts).collect();
    pairs(&terms).any(|(a, b)| is_negation(a, b))
}

fn pairs<'t, 'e>(terms: &'t [&'e Expr]) -> impl Iterator<Item = (&'e Expr, &'e Expr)> + use<'t, 'e> {
    let after = |index: usize| terms.iter().skip(index + 1).copied();
    terms.iter().enumerate().flat_map(move |(index, first)| after(index).map(move |second| (*first, second)))
}

fn is_negation(a: &Expr, b: &Expr) -> bool {
    match (a, b) {
        (Expr::Not(inner), other) | (other, Expr::Not(inner)) if **inner == *other => true,
        (Expr::Compare(Comparison::Equal, left, right), Expr::Compare(Comparison::NotEqual, x, y))
        | (Expr::Compare(Comparison::NotEqual, x, y), Expr::Compare(Comparison::Equal, left, right)) => {
            left == x && right == y
        }
        _ => false,
    }
}

fn demand_different_values(a: &Expr, b: &Expr) -> bool {
    match (demanded(a), demanded(b)) {
        (Some((path, wanted)), Some((other, values))) => {
            path == other && !wanted.iter().any(|value| values.contains(value))
        }
        _ => false,
    }
}

/// The values of one path that a term lets pass, where it names them.
fn demanded(term: &Expr) -> Option<(&Access, &[Literal])> {
    match term {
        Expr::Compare(Comparison::Equal, left, right) => match (&**left, &**right) {
            (Expr::Read(access), Expr::Literal(value)) | (Expr::Literal(value), Expr::Read(access)) => {
                Some((access, std::slice::from_ref(value)))
            }
            _ => None,
        },
        Expr::Compare(Comparison::In, left, right) => match (&**left, &**right) {
            (Expr::Read(access), Expr::Literal(Literal::List(values))) => Some((access, values)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::when::parse;

    fn said(text: &str) -> Option<bool> {
        constant(&parse(text).unwrap())
    }

    fn never_together(a: &str, b: &str) -> bool {
        exclusive(Some(&parse(a).unwrap()), Some(&parse(b).unwrap()))
    }

    #[test]
    fn constants_are_seen_and_nothing_else_is() {
        for text in ["true", "1 == 1", "!false", "true || oldObject.a == 1", "oldObject.a || !oldObject.a"] {
            assert_eq!(said(text), Some(true), "{text}");
        }
        for text in [
            "false",
            "oldObject.a in []",
            "oldObject.a == 1 && oldObject.a == 2",
            "oldObject.a == 'x' && oldObject.b == 1 && oldObject.a in ['y', 'z']",
            "oldObject.a == 1 && !(oldObject.a == 1)",
        ] {
            assert_eq!(said(text), Some(false), "{text}");
        }
        for text in ["oldObject.a == 1", "oldObject.a == 1 && oldObject.b == 2", "oldObject.a in ['x', 'y']"]
        {
            assert_eq!(said(text), None, "{text}");
        }
    }

    #[test]
    fn conditions_that_exclude_each_other_are_seen() {
        assert!(never_together("oldObject.m == 'A'", "oldObject.m in ['B', 'C']"));
        assert!(never_together("oldObject.m == 'A'", "oldObject.m != 'A' && oldObject.n == 1"));
        assert!(!never_together("oldObject.m == 'A'", "oldObject.m in ['A', 'C']"));
        assert!(!never_together("oldObject.m == 'A'", "oldObject.n == 'B'"));
        assert!(!exclusive(None, Some(&parse("oldObject.m == 'A'").unwrap())));
    }

    #[test]
    fn conditions_that_leave_nothing_out_are_seen() {
        let all = |texts: &[&str]| {
            let parsed: Vec<Expr> = texts.iter().map(|text| parse(text).unwrap()).collect();
            exhaustive(&parsed.iter().collect::<Vec<_>>())
        };
        assert!(all(&["oldObject.m == 'A'", "oldObject.m != 'A'"]));
        assert!(all(&["has(oldObject.m)", "!has(oldObject.m)"]));
        assert!(!all(&["oldObject.m == 'A'", "oldObject.m == 'B'"]));
        assert!(!all(&[]));
    }
}
