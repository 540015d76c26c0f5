//! Conditions: the `when` of a claim as a tree that can be evaluated.
//!
//! - **Input**: a tree from `policy::when`, and a way to look values up in an object.
//! - **Output**: whether it holds, or why that cannot be said; and which paths it reads.
//! - **Must not**: parse text, or look at anything but what [`Expr::accesses`] names.
//!
//! The meaning is CEL's, with one difference that makes conditions total: a path that is absent compares as null. So
//! `.?x` and `.x` are the same here, and the tree does not tell them apart. What is left as an error (order between
//! unlike types, a value that is no bool where one is needed, `in` something that is no collection) leaves a claim
//! undecided. As in CEL, an error does not count where the other side of `&&` or `||` settles the matter.
//!
//! Printing a tree gives text that parses to the same tree.

mod eval;
mod number;
#[cfg(test)]
mod tests;

use std::fmt;

pub use eval::{EvalError, Objects};
pub use number::Number;

/// The variable that a path starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Root {
    /// The stored object; on CREATE the new one.
    OldObject,
    /// The object as it would be stored. Only where mutators are described.
    Object,
}

impl Root {
    /// The variable's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OldObject => "oldObject",
            Self::Object => "object",
        }
    }
}

/// A value that an expression reads: fields and map keys from a variable on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    /// Where it starts.
    pub root: Root,
    /// Names of fields and map keys; at least one. Never list indexes: positions in a list belong to nobody.
    pub path: Box<[Box<str>]>,
}

/// A value that stands in the text.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`, which an absent path equals.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// Any number.
    Number(Number),
    /// Text.
    String(Box<str>),
    /// A list of such values.
    List(Box<[Literal]>),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `==`: values of unlike types are not equal, numbers of unlike types can be.
    Equal,
    /// `!=`
    NotEqual,
    /// `<`: between two numbers, two strings or two bools.
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `in`: an item of a list, or a key of a map.
    In,
}

impl Comparison {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
        }
    }
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A value in the text.
    Literal(Literal),
    /// A value of an object; null if absent.
    Read(Access),
    /// `has(path)`: whether the path is present, even as null.
    Has(Access),
    /// `!`
    Not(Box<Expr>),
    /// A comparison.
    Compare(Comparison, Box<Expr>, Box<Expr>),
    /// `&&` of two or more. One tree level however many, so that a long list of terms is not a deep tree.
    All(Vec<Expr>),
    /// `||` of two or more.
    Any(Vec<Expr>),
}

impl Expr {
    /// Every value that the expression can depend on, sorted, each once.
    #[must_use]
    pub fn accesses(&self) -> Vec<&Access> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found.sort();
        found.dedup();
        found
    }

    /// The paths of [`Expr::accesses`]. A condition of a claim has only one variable, so the paths say it all.
    #[must_use]
    pub fn reads(&self) -> Vec<&[Box<str>]> {
        self.accesses().into_iter().map(|access| &*access.path).collect()
    }

    fn collect<'a>(&'a self, found: &mut Vec<&'a Access>) {
        match self {
            Self::Literal(_) => {}
            Self::Read(access) | Self::Has(access) => found.push(access),
            Self::Not(inner) => inner.collect(found),
            Self::Compare(_, left, right) => {
                left.collect(found);
                right.collect(found);
            }
            Self::All(terms) | Self::Any(terms) => terms.iter().for_each(|term| term.collect(found)),
        }
    }

    /// How tightly the expression's own operator binds; what binds less than its place needs parentheses.
    fn tightness(&self) -> u8 {
        match self {
            Self::Any(_) => 0,
            Self::All(_) => 1,
            Self::Compare(..) => 2,
            Self::Not(_) => 3,
            Self::Literal(_) | Self::Read(_) | Self::Has(_) => 4,
        }
    }

    fn fmt_at_least(&self, tightness: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tightness() < tightness { write!(f, "({self})") } else { write!(f, "{self}") }
    }

    fn fmt_terms(terms: &[Self], operator: &str, tightness: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in terms.iter().enumerate() {
            if i > 0 {
                write!(f, " {operator} ")?;
            }
            term.fmt_at_least(tightness, f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => literal.fmt(f),
            Self::Read(access) => access.fmt(f),
            Self::Has(access) => write!(f, "has({access})"),
            Self::Not(inner) => {
                f.write_str("!")?;
                inner.fmt_at_least(3, f)
            }
            Self::Compare(comparison, left, right) => {
                left.fmt_at_least(3, f)?;
                write!(f, " {} ", comparison.as_str())?;
                right.fmt_at_least(3, f)
            }
            Self::All(terms) => Self::fmt_terms(terms, "&&", 2, f),
            Self::Any(terms) => Self::fmt_terms(terms, "||", 1, f),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.root.as_str())?;
        for name in &self.path {
            if is_selector(name) {
                write!(f, ".{name}")?;
            } else {
                f.write_str("[")?;
                fmt_string(name, f)?;
                f.write_str("]")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::String(text) => fmt_string(text, f),
            Self::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    item.fmt(f)?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Whether CEL lets `name` stand after a dot.
#[must_use]
pub fn is_selector(name: &str) -> bool {
    let plain = |c: char| c == '_' || c.is_ascii_alphanumeric();
    name.starts_with(|c: char| plain(c) && !c.is_ascii_digit())
        && name.chars().all(plain)
        && !matches!(name, "true" | "false" | "null" | "in")
}

fn fmt_string(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("'")?;
    for c in text.chars() {
        match c {
            '\'' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("'")
}
