//! Conditions as CEL over a state of the object.
//!
//! In: a condition and the variable that holds the state. Out: an expression with the same value, or, where the
//! condition has none (it leaves a claim undecided), one that the API server cannot evaluate either.

use super::cel::{Bool, optional};
use crate::ownership::condition::{Access, Expr, Literal};

/// The condition, read from `state`.
pub(super) fn holds(condition: &Expr, state: &str) -> Bool {
    Bool::Text(text(condition, state))
}

/// Binds tighter than any operator.
fn text(condition: &Expr, state: &str) -> String {
    let terms = |terms: &[Expr], operator: &str| {
        let terms: Vec<String> = terms.iter().map(|term| text(term, state)).collect();
        format!("({})", terms.join(operator))
    };
    match condition {
        Expr::Literal(literal) => value(literal),
        // In a condition an absent path is null.
        Expr::Read(access) => format!("{}.orValue(null)", at(access, state)),
        Expr::Has(access) => format!("{}.hasValue()", at(access, state)),
        Expr::Not(inner) => format!("!{}", text(inner, state)),
        Expr::Compare(comparison, left, right) => {
            format!("({} {} {})", text(left, state), comparison.as_str(), text(right, state))
        }
        Expr::All(all) => terms(all, " && "),
        Expr::Any(any) => terms(any, " || "),
    }
}

fn at(access: &Access, state: &str) -> String {
    optional(state, access.path.iter().map(|name| &**name))
}

/// The API server's CEL wants the items of a list, and what is compared, to be of one type.
fn value(literal: &Literal) -> String {
    match literal {
        Literal::List(items) => {
            let items: Vec<String> = items.iter().map(value).collect();
            format!("[{}]", items.join(", "))
        }
        scalar => format!("dyn({scalar})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::when;

    #[test]
    fn an_absent_path_is_null_and_types_are_free() {
        for (when, expected) in [
            ("oldObject.spec.handOff == 'Direct'", "(s.?spec.?handOff.orValue(null) == dyn('Direct'))"),
            (
                "oldObject.spec.a in ['x', 1, null] && !has(oldObject.metadata.labels['a/b'])",
                "((s.?spec.?a.orValue(null) in [dyn('x'), dyn(1), dyn(null)]) && \
                 !s.?metadata.?labels[?'a/b'].hasValue())",
            ),
            (
                "oldObject.spec.n > 3 || oldObject.spec.on",
                "((s.?spec.?n.orValue(null) > dyn(3)) || s.?spec.?on.orValue(null))",
            ),
        ] {
            assert_eq!(holds(&when::parse(when).unwrap(), "s").to_string(), expected);
        }
    }
}
