//! The text of CEL expressions.
//!
//! In: names, values, parts of expressions. Out: text that the API server's CEL reads as meant. Knows no policy.

use std::fmt::Write as _;

use crate::ownership::condition::{Literal, is_selector};
use crate::ownership::element::Scalar;

/// Words that CEL keeps for itself: no field is selected by them after a dot.
const RESERVED: [&str; 18] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
    "__proto__",
];

/// An expression that is true or false. Constants are folded, so that no text says less than it seems to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bool {
    /// `true`
    Always,
    /// `false`
    Never,
    /// Anything else; binds at least as tightly as a comparison.
    Text(String),
}

impl Bool {
    /// Whether any of the terms holds.
    pub(super) fn any(terms: impl IntoIterator<Item = Self>) -> Self {
        Self::join(terms, &Self::Always, &Self::Never, " || ")
    }

    /// Whether all of the terms hold.
    pub(super) fn all(terms: impl IntoIterator<Item = Self>) -> Self {
        Self::join(terms, &Self::Never, &Self::Always, " && ")
    }

    fn join(terms: impl IntoIterator<Item = Self>, settling: &Self, idle: &Self, operator: &str) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for term in terms {
            match term {
                term if term == *settling => return term,
                Self::Text(text) if !texts.contains(&text) => texts.push(text),
                _ => {}
            }
        }
        match texts.as_slice() {
            [] => idle.clone(),
            [one] => Self::Text(one.clone()),
            many => Self::Text(format!("({})", many.join(operator))),
        }
    }

    /// The opposite.
    pub(super) fn not(self) -> Self {
        match self {
            Self::Always => Self::Never,
            Self::Never => Self::Always,
            Self::Text(text) if text.contains(' ') && !is_enclosed(&text) => Self::Text(format!("!({text})")),
            Self::Text(text) => Self::Text(format!("!{text}")),
        }
    }

    /// `then` where this holds, else `otherwise`.
    pub(super) fn choose(self, then: Self, otherwise: Self) -> Self {
        match (self, then, otherwise) {
            (Self::Always, then, _) => then,
            (Self::Never, _, otherwise) => otherwise,
            (holds, Self::Always, otherwise) => Self::any([holds, otherwise]),
            (holds, Self::Never, otherwise) => Self::all([holds.not(), otherwise]),
            (holds, then, Self::Never) => Self::all([holds, then]),
            (Self::Text(holds), then, otherwise) => Self::Text(format!("({holds} ? {then} : {otherwise})")),
        }
    }
}

impl std::fmt::Display for Bool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Always => "true",
            Self::Never => "false",
            Self::Text(text) => text,
        })
    }
}

/// Whether the first parenthesis closes at the end. Quoted ones may make this say no, which costs a pair more.
fn is_enclosed(text: &str) -> bool {
    let mut depth = 0_usize;
    let closes = text.char_indices().find_map(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth == 0).then_some(at + c.len_utf8())
    });
    text.starts_with('(') && closes == Some(text.len()) && !text.contains('\'')
}

/// A string literal.
pub(super) fn string(text: &str) -> String {
    Literal::String(text.into()).to_string()
}

/// A list of string literals.
pub(super) fn strings<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(string).collect();
    format!("[{}]", texts.join(", "))
}

/// A literal of a scalar; `None` for a number that CEL has no literal for.
pub(super) fn scalar(scalar: &Scalar) -> Option<String> {
    match scalar {
        Scalar::Null => Some("null".to_owned()),
        Scalar::Bool(value) => Some(value.to_string()),
        Scalar::String(text) => Some(string(text)),
        Scalar::Number(number) if number.is_i64() => Some(number.to_string()),
        // Always with a point or an exponent, so that it stays a double.
        Scalar::Number(number) => {
            number.as_f64().filter(|_| !number.is_u64()).map(|value| format!("{value:?}"))
        }
    }
}

/// Whether a field of this name can be selected after a dot in a typed object.
pub(super) fn is_plain(name: &str) -> bool {
    is_selector(name) && !RESERVED.contains(&name)
}

/// What stands at `names` below `base`, as an optional.
pub(super) fn optional<'n>(base: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    names.into_iter().fold(base.to_owned(), |mut text, name| {
        // Writing to a String cannot fail.
        let _ = if is_plain(name) { write!(text, ".?{name}") } else { write!(text, "[?{}]", string(name)) };
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Bool {
        Bool::Text(text.to_owned())
    }

    #[test]
    fn constants_fold_and_what_is_left_says_the_same() {
        assert_eq!(Bool::any([]), Bool::Never);
        assert_eq!(Bool::all([]), Bool::Always);
        assert_eq!(Bool::any([text("a"), Bool::Always]), Bool::Always);
        assert_eq!(Bool::any([text("a"), Bool::Never, text("a")]), text("a"));
        assert_eq!(Bool::all([text("a"), text("b").not()]), text("(a && !b)"));
        assert_eq!(text("a == b").not(), text("!(a == b)"));
        assert_eq!(Bool::any([text("a"), text("b")]).not(), text("!(a || b)"));
        assert_eq!(text("(a) == (b)").not(), text("!((a) == (b))"));
        assert_eq!(text("c").choose(Bool::Never, text("d")), text("(!c && d)"));
        assert_eq!(text("c").choose(text("d"), Bool::Never), text("(c && d)"));
        assert_eq!(text("c").choose(text("d"), text("e")), text("(c ? d : e)"));
        assert_eq!(text("c").choose(Bool::Always, text("e")), text("(c || e)"));
    }

    #[test]
    fn names_that_are_no_identifiers_stand_in_brackets() {
        assert_eq!(
            optional("object", ["spec", "a-b", "in", "namespace"]),
            "object.?spec[?'a-b'][?'in'][?'namespace']"
        );
        assert_eq!(string("it's \\ \n"), r"'it\'s \\ \n'");
        assert_eq!(scalar(&Scalar::parse("1").unwrap()).as_deref(), Some("1"));
        assert_eq!(scalar(&Scalar::parse("1e0").unwrap()).as_deref(), Some("1.0"));
        assert_eq!(scalar(&Scalar::parse("18446744073709551615").unwrap()), None);
    }
}
