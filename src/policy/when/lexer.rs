//! Tokens of a condition, as CEL has them. Looks one token ahead.

use super::{ParseError, error};
use crate::ownership::condition::Number;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'t> {
    /// A variable, a field, or a word such as `in` and `true`.
    Name(&'t str),
    /// A string, without quotes and escapes.
    String(String),
    /// A number without sign.
    Number(Number),
    /// An operator or a bracket.
    Symbol(&'t str),
    /// The end of the text.
    End,
}

/// What a token is longer than, first: `<=` before `<`.
const SYMBOLS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "[", "]", ".", ",", "-", "?", ":", "+", "*",
    "/", "%", "{", "}", "=", "&",
];

pub(super) struct Lexer<'t> {
    text: &'t str,
    position: usize,
    ahead: Option<(usize, Token<'t>)>,
    negative: bool,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, position: 0, ahead: None, negative: false }
    }

    /// The next token and where it begins, taken.
    pub(super) fn next(&mut self) -> Result<(usize, Token<'t>), ParseError> {
        match self.ahead.take() {
            Some(token) => Ok(token),
            None => self.read(),
        }
    }

    /// The same, left where it is.
    pub(super) fn peek(&mut self) -> Result<(usize, Token<'t>), ParseError> {
        let token = self.next()?;
        self.ahead = Some(token.clone());
        Ok(token)
    }

    /// A number right behind a minus: `i64::MIN` has no positive twin, so the sign has to be known when it is read.
    pub(super) fn negative_number(&mut self) -> Result<Option<Number>, ParseError> {
        self.negative = true;
        let token = self.next();
        self.negative = false;
        Ok(match token?.1 {
            Token::Number(Number::Integer(value)) => Some(Number::Integer(-value)),
            Token::Number(Number::Double(value)) => Some(Number::Double(-value)),
            _ => None,
        })
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn read(&mut self) -> Result<(usize, Token<'t>), ParseError> {
        let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}');
        self.position = self.text.len() - self.rest().trim_start_matches(blank).len();
        let (at, rest) = (self.position, self.rest());
        let Some(first) = rest.chars().next() else { return Ok((at, Token::End)) };
        let digit_behind_dot =
            rest.strip_prefix('.').is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()));
        if first.is_ascii_digit() || digit_behind_dot {
            return Ok((at, Token::Number(self.number()?)));
        }
        if matches!(first, '\'' | '"') {
            return Ok((at, Token::String(self.string(false)?)));
        }
        if first == '_' || first.is_ascii_alphabetic() {
            let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let (name, behind) = rest.split_at(end);
            if behind.starts_with(['\'', '"']) {
                return self.prefixed_string(at, name);
            }
            self.position += end;
            return Ok((at, Token::Name(name)));
        }
        let known = SYMBOLS.iter().copied().chain(["|"]).find(|symbol| rest.starts_with(symbol));
        let Some(symbol) = known else {
            return error(at, format!("the character {first:?} has no meaning in a condition"));
        };
        self.position += symbol.len();
        Ok((at, Token::Symbol(symbol)))
    }

    fn prefixed_string(&mut self, at: usize, prefix: &str) -> Result<(usize, Token<'t>), ParseError> {
        if !matches!(prefix, "r" | "R") {
            return error(at, "a string has no prefix but r; bytes are not possible in a condition");
        }
        self.position += prefix.len();
        Ok((at, Token::String(self.string(true)?)))
    }

    fn number(&mut self) -> Result<Number, ParseError> {
        let (at, rest) = (self.position, self.rest());
        let (radix, digits_at) =
            if rest.starts_with("0x") || rest.starts_with("0X") { (16, 2) } else { (10, 0) };
        let mut end = digits_at + span(rest, digits_at, |c| c.is_digit(radix));
        let mut double = false;
        if radix == 10 {
            // `1.` is no number in CEL, so the point belongs to it only with a digit behind.
            let fraction = span(rest, end + 1, |c| c.is_ascii_digit());
            if rest.get(end..).is_some_and(|r| r.starts_with('.')) && fraction > 0 {
                double = true;
                end += 1 + fraction;
            }
            if rest.get(end..).is_some_and(|r| r.starts_with(['e', 'E'])) {
                let sign = usize::from(rest.get(end + 1..).is_some_and(|r| r.starts_with(['+', '-'])));
                let exponent = span(rest, end + 1 + sign, |c| c.is_ascii_digit());
                if exponent > 0 {
                    double = true;
                    end += 1 + sign + exponent;
                }
            }
        }
        let unsigned = !double && rest.get(end..).is_some_and(|r| r.starts_with(['u', 'U']));
        let text = rest.get(digits_at..end).unwrap_or_default();
        let value = if double {
            text.parse().ok().filter(|d: &f64| d.is_finite()).map(Number::Double)
        } else {
            let limit = match (unsigned, self.negative) {
                (false, false) => i128::from(i64::MAX),
                (false, true) => i128::from(i64::MAX) + 1,
                (true, false) => i128::from(u64::MAX),
                (true, true) => 0,
            };
            i128::from_str_radix(text, radix).ok().filter(|i| *i <= limit).map(Number::Integer)
        };
        end += usize::from(unsigned);
        if rest.get(end..).is_some_and(|r| r.starts_with(|c: char| c == '_' || c.is_ascii_alphanumeric())) {
            return error(at + end, "a number ends before letters");
        }
        let Some(value) = value else { return error(at, "the number is out of range") };
        self.position += end;
        Ok(value)
    }

    fn string(&mut self, raw: bool) -> Result<String, ParseError> {
        let start = self.position;
        let Some(quote) = self.rest().chars().next() else { return Ok(String::new()) };
        if self.rest().starts_with(&String::from_iter([quote; 3])) {
            return error(start, "strings in triple quotes are not possible in a condition");
        }
        self.position += 1;
        let mut text = String::new();
        loop {
            let at = self.position;
            let Some(c) = self.rest().chars().next() else {
                return error(start, "the string does not end");
            };
            self.position += c.len_utf8();
            match c {
                c if c == quote => return Ok(text),
                '\n' | '\r' => return error(at, "a string ends before the line does"),
                '\\' if !raw => text.push(self.escape(at)?),
                c => text.push(c),
            }
        }
    }

    /// The character that an escape means; the position is behind its backslash.
    fn escape(&mut self, at: usize) -> Result<char, ParseError> {
        let Some(kind) = self.rest().chars().next() else { return error(at, "the string does not end") };
        self.position += kind.len_utf8();
        let (digits, radix) = match kind {
            'a' => return Ok('\u{7}'),
            'b' => return Ok('\u{8}'),
            'f' => return Ok('\u{c}'),
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            'v' => return Ok('\u{b}'),
            '\\' | '\'' | '"' | '`' | '?' => return Ok(kind),
            'x' | 'X' => (2, 16),
            'u' => (4, 16),
            'U' => (8, 16),
            '0'..='3' => {
                // Octal: the digit is part of the number.
                self.position -= 1;
                (3, 8)
            }
            _ => return error(at, "CEL has no such escape in strings; a backslash itself is written twice"),
        };
        let code = self.rest().get(..digits).filter(|code| code.chars().all(|c| c.is_digit(radix)));
        let c = code.and_then(|code| u32::from_str_radix(code, radix).ok()).and_then(char::from_u32);
        let Some(c) = c else { return error(at, "the escape names no character") };
        self.position += digits;
        Ok(c)
    }
}

/// How many bytes of `text` from `start` on are such (ASCII) characters.
fn span(text: &str, start: usize, such: impl Fn(char) -> bool) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    rest.find(|c| !such(c)).unwrap_or(rest.len())
}
