//! Parser of `when`: CEL restricted to what can be known beforehand.
//!
//! - **Input**: the text of a `when`.
//! - **Output**: a tree ([`Expr`]), or the byte where it goes wrong and a sentence about it.
//! - **Must not**: evaluate, or accept anything that CEL reads differently.
//!
//! Accepted are field selection (`a.b`, `a.?b`, `a['key']`, `a[?'key']`), `has(...)`, `==`, `!=`, `<`, `<=`, `>`, `>=`,
//! `in`, `!`, `&&`, `||`, parentheses and literals. `?` is read and dropped: an absent path is null here anyway. Beyond
//! CEL, `has` also takes a key in brackets, since many keys of labels and annotations have no other spelling.
//!
//! Written by hand, because the restriction is the point. Without calls, macros and arithmetic every path that an
//! expression reads stands in its text, so that the compiler can demand that it is claimed; and its cost is bounded by
//! its length. The `cel` crate would bring a parser generator's run time and the whole language, which we would then
//! have to take away again, and has no limit on cost.

mod lexer;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::ownership::condition::{Access, Comparison, Expr, Literal, Root};
use lexer::{Lexer, Token};

/// Longest text. The API server allows the same, so this is for policies from files.
pub const MAX_LENGTH: usize = crate::api::field_policy::MAX_WHEN;
/// Deepest nesting of parentheses, `!` and lists. Bounds the stack; nobody reads deeper ones.
pub const MAX_DEPTH: usize = 32;

/// Why a text is no condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Byte in the text.
    pub position: usize,
    /// What is wrong, without a full stop.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.message, self.position)
    }
}

impl std::error::Error for ParseError {}

/// Parses the `when` of a claim, which may read `oldObject`.
pub fn parse(text: &str) -> Result<Expr, ParseError> {
    parse_with(text, &[Root::OldObject])
}

/// Parses the `when` of a mutator, which may also read `object`.
pub fn parse_mutator(text: &str) -> Result<Expr, ParseError> {
    parse_with(text, &[Root::OldObject, Root::Object])
}

fn parse_with(text: &str, roots: &[Root]) -> Result<Expr, ParseError> {
    if text.len() > MAX_LENGTH {
        let end = text.floor_char_boundary(MAX_LENGTH);
        return error(end, format!("the condition is longer than {MAX_LENGTH} bytes"));
    }
    let mut parser = Parser { lexer: Lexer::new(text), roots, depth: 0 };
    let expr = parser.any()?;
    must_be_bool(&expr, 0, "the condition")?;
    match parser.lexer.next()? {
        (_, Token::End) => Ok(expr),
        (at, token) => error(at, unexpected(&token)),
    }
}

fn error<T>(position: usize, message: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError { position, message: message.into() })
}

/// What to say about a token that cannot stand where it does; names what CEL has and a condition has not.
fn unexpected(token: &Token<'_>) -> String {
    match token {
        Token::End => "the condition ends too early".to_owned(),
        Token::Symbol("+" | "-" | "*" | "/" | "%") => "arithmetic is not possible in a condition".to_owned(),
        Token::Symbol("?" | ":") => "`? :` is not possible in a condition; use && and ||".to_owned(),
        Token::Symbol("=") => "`=` is no comparison; use ==".to_owned(),
        Token::Symbol("&" | "|") => "write && and || with two characters".to_owned(),
        Token::Symbol("(") => "calls are not possible in a condition, except has(...)".to_owned(),
        Token::Symbol("==" | "!=" | "<" | "<=" | ">" | ">=") | Token::Name("in") => {
            "comparisons do not chain; use && or parentheses".to_owned()
        }
        Token::Symbol(symbol) => format!("`{symbol}` cannot stand here"),
        Token::Name(name) => format!("`{name}` cannot stand here"),
        Token::String(_) | Token::Number(_) => "a value cannot stand here".to_owned(),
    }
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    roots: &'t [Root],
    depth: usize,
}

impl<'t> Parser<'t> {
    /// `a || b`
    fn any(&mut self) -> Result<Expr, ParseError> {
        self.terms("||", Self::all, Expr::Any)
    }

    /// `a && b`
    fn all(&mut self) -> Result<Expr, ParseError> {
        self.terms("&&", Self::relation, Expr::All)
    }

    fn terms(
        &mut self,
        operator: &str,
        term: fn(&mut Self) -> Result<Expr, ParseError>,
        join: fn(Vec<Expr>) -> Expr,
    ) -> Result<Expr, ParseError> {
        let mut start = self.lexer.peek()?.0;
        let first = term(self)?;
        if !self.accept(operator)? {
            return Ok(first);
        }
        must_be_bool(&first, start, operator)?;
        let mut terms = vec![first];
        loop {
            start = self.lexer.peek()?.0;
            let next = term(self)?;
            must_be_bool(&next, start, operator)?;
            terms.push(next);
            if !self.accept(operator)? {
                return Ok(join(terms));
            }
        }
    }

    /// `a == b`; one comparison at most, a second one is left over and reported.
    fn relation(&mut self) -> Result<Expr, ParseError> {
        let left_at = self.lexer.peek()?.0;
        let left = self.unary()?;
        let comparison = match self.lexer.peek()?.1 {
            Token::Symbol("==") => Comparison::Equal,
            Token::Symbol("!=") => Comparison::NotEqual,
            Token::Symbol("<") => Comparison::Less,
            Token::Symbol("<=") => Comparison::LessOrEqual,
            Token::Symbol(">") => Comparison::Greater,
            Token::Symbol(">=") => Comparison::GreaterOrEqual,
            Token::Name("in") => Comparison::In,
            _ => return Ok(left),
        };
        self.lexer.next()?;
        let right_at = self.lexer.peek()?.0;
        let right = self.unary()?;
        match comparison {
            Comparison::Equal | Comparison::NotEqual => {}
            Comparison::In => match right {
                Expr::Literal(Literal::List(_)) | Expr::Read(_) => {}
                _ => return error(right_at, "`in` needs a list or a map on its right"),
            },
            _ => {
                for (at, side) in [(left_at, &left), (right_at, &right)] {
                    if let Expr::Literal(literal @ (Literal::Null | Literal::List(_))) = side {
                        return error(at, format!("{literal} has no order"));
                    }
                }
            }
        }
        Ok(Expr::Compare(comparison, Box::new(left), Box::new(right)))
    }

    /// `!a`
    fn unary(&mut self) -> Result<Expr, ParseError> {
        if !self.accept("!")? {
            return self.primary();
        }
        let start = self.lexer.peek()?.0;
        let inner = self.nested(start, Self::unary)?;
        must_be_bool(&inner, start, "!")?;
        Ok(Expr::Not(Box::new(inner)))
    }

    /// A path, a literal, `has(...)` or an expression in parentheses.
    fn primary(&mut self) -> Result<Expr, ParseError> {
        let (at, token) = self.lexer.next()?;
        match token {
            Token::Symbol("(") => {
                let inner = self.nested(at, Self::any)?;
                self.expect(")")?;
                if let (at, Token::Symbol("." | "[")) = self.lexer.peek()? {
                    return error(at, "only a variable has fields to select");
                }
                Ok(inner)
            }
            Token::Name("has") => {
                self.expect("(")?;
                let (at, token) = self.lexer.next()?;
                let Token::Name(name) = token else {
                    return error(at, "has() needs a path such as oldObject.spec.mode");
                };
                let access = self.access(at, name)?;
                self.expect(")")?;
                Ok(Expr::Has(access))
            }
            Token::Name(name) if !matches!(name, "true" | "false" | "null") => {
                self.access(at, name).map(Expr::Read)
            }
            _ => self.literal(at, token).map(Expr::Literal),
        }
    }

    /// A variable and what is selected from it.
    fn access(&mut self, at: usize, name: &str) -> Result<Access, ParseError> {
        let Some(root) = self.roots.iter().copied().find(|root| root.as_str() == name) else {
            if let (_, Token::Symbol("(")) = self.lexer.peek()? {
                return error(at, unexpected(&Token::Symbol("(")));
            }
            let known: Vec<_> = self.roots.iter().map(|root| root.as_str()).collect();
            return error(at, format!("`{name}` is unknown here; there is only {}", known.join(" and ")));
        };
        let mut path = Vec::new();
        loop {
            if self.accept(".")? {
                self.accept("?")?;
                match self.lexer.next()? {
                    (_, Token::Name(name)) if !matches!(name, "true" | "false" | "null" | "in") => {
                        path.push(Box::from(name));
                    }
                    (at, _) => {
                        return error(at, "a field name is needed after the dot; others go into ['...']");
                    }
                }
            } else if self.accept("[")? {
                self.accept("?")?;
                match self.lexer.next()? {
                    (_, Token::String(key)) => path.push(key.into_boxed_str()),
                    (at, Token::Number(_)) => {
                        return error(
                            at,
                            "items cannot be read by position: any writer of the list can move them",
                        );
                    }
                    (at, _) => return error(at, "a key in quotes is needed between the brackets"),
                }
                self.expect("]")?;
            } else {
                break;
            }
        }
        if path.is_empty() {
            return error(at, format!("select a field of `{name}`, such as {name}.spec"));
        }
        if let (at, token @ Token::Symbol("(")) = self.lexer.peek()? {
            return error(at, unexpected(&token));
        }
        Ok(Access { root, path: path.into_boxed_slice() })
    }

    fn literal(&mut self, at: usize, token: Token<'t>) -> Result<Literal, ParseError> {
        Ok(match token {
            Token::Name("null") => Literal::Null,
            Token::Name("true") => Literal::Bool(true),
            Token::Name("false") => Literal::Bool(false),
            Token::Number(number) => Literal::Number(number),
            Token::String(text) => Literal::String(text.into_boxed_str()),
            Token::Symbol("-") => match self.lexer.negative_number()? {
                Some(number) => Literal::Number(number),
                None => return error(at, unexpected(&token)),
            },
            Token::Symbol("[") => Literal::List(self.nested(at, Self::items)?),
            Token::Symbol("{") => return error(at, "maps cannot be written in a condition"),
            Token::Name(_) => return error(at, "a list holds only literals"),
            token => return error(at, unexpected(&token)),
        })
    }

    /// The items of a list, behind its bracket. CEL allows a comma at the end.
    fn items(&mut self) -> Result<Box<[Literal]>, ParseError> {
        let mut items = Vec::new();
        while !self.accept("]")? {
            let (at, token) = self.lexer.next()?;
            items.push(self.literal(at, token)?);
            if !self.accept(",")? {
                self.expect("]")?;
                break;
            }
        }
        Ok(items.into_boxed_slice())
    }

    fn nested<T>(
        &mut self,
        at: usize,
        inner: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        if self.depth == MAX_DEPTH {
            return error(at, format!("the condition is nested more than {MAX_DEPTH} deep"));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn accept(&mut self, symbol: &str) -> Result<bool, ParseError> {
        let found = matches!(self.lexer.peek()?, (_, Token::Symbol(found)) if found == symbol);
        if found {
            self.lexer.next()?;
        }
        Ok(found)
    }

    fn expect(&mut self, symbol: &str) -> Result<(), ParseError> {
        match self.lexer.next()? {
            (_, Token::Symbol(found)) if found == symbol => Ok(()),
            (at, Token::End) => error(at, format!("`{symbol}` is missing")),
            (at, token) => {
                let said = unexpected(&token);
                let generic = said.ends_with("cannot stand here");
                error(at, if generic { format!("`{symbol}` is missing here") } else { said })
            }
        }
    }
}

/// Refuses what can never be a bool. What an object holds is known only when it comes.
fn must_be_bool(expr: &Expr, at: usize, place: &str) -> Result<(), ParseError> {
    match expr {
        Expr::Literal(literal) if !matches!(literal, Literal::Bool(_)) => {
            let place = if place.starts_with("the") { place.to_owned() } else { format!("`{place}`") };
            error(at, format!("{place} needs true or false, not {literal}"))
        }
        _ => Ok(()),
    }
}
