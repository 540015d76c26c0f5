//! Reads the text form of patterns.
//!
//! In: text that somebody has typed. Out: a [`Pattern`], or an error that says
//! where, what was found and what is written there. There is one way to write each
//! step (spaces in brackets aside), so that policies can be searched as text.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::{MAX_LENGTH, MAX_STEPS, Pattern, Step};
use crate::ownership::element::{Scalar, is_plain_byte};

/// What is wrong with the text of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    /// Where, as an offset in bytes.
    pub position: usize,
    /// What was found there and what is expected.
    pub message: String,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.message, self.position)
    }
}

impl Error for PatternError {}

/// What may stand in brackets.
const BRACKETS: &str =
    "list keys are written [name=\"value\"], items of sets [=\"value\"], map keys [\"key\"], any of them [*]";

/// What may follow a name.
const AFTER_NAME: &str = "a name ends at '.' or '['; one with other characters than letters, digits, '_' \
    and '-' is written [\"a.b/c\"]";

/// What a value may be.
const VALUES: &str = "text is written in double quotes; without them stand numbers, true, false and null";

/// What follows a comma in a list key.
const NEXT_FIELD: &str = "the next field of the list key is expected, like [a=\"x\",b=\"y\"]";

/// What is wrong with text in quotes.
const BAD_STRING: &str =
    "the text in quotes is not valid JSON: '\\' and control characters are escaped there";

/// Reads a whole pattern.
pub(super) fn pattern(text: &str) -> Result<Pattern, PatternError> {
    let mut reader = Reader { text, position: 0 };
    if text.len() > MAX_LENGTH {
        return Err(error(
            text.floor_char_boundary(MAX_LENGTH),
            format!("the path has more than {MAX_LENGTH} bytes"),
        ));
    }
    if text.is_empty() || text == "." {
        return Err(error(0, "a path names at least one field, like .spec.replicas"));
    }
    let mut steps = Vec::new();
    while let Some(byte) = reader.peek() {
        if steps.len() == MAX_STEPS {
            return Err(reader.error(format!("the path has more than {MAX_STEPS} steps")));
        }
        steps.push(match byte {
            b'.' => reader.dotted()?,
            b'[' => reader.bracketed()?,
            _ if steps.is_empty() => {
                return Err(reader.unexpected("a path begins with a dot, like .spec.replicas"));
            }
            _ => return Err(reader.unexpected(AFTER_NAME)),
        });
    }
    Ok(Pattern { steps })
}

fn error(position: usize, message: impl Into<String>) -> PatternError {
    PatternError { position, message: message.into() }
}

/// The text and how far it is read. The position is always the start of a character.
struct Reader<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().bytes().next()
    }

    /// Goes on if the next byte is this one.
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    fn skip_spaces(&mut self) {
        while self.eat(b' ') {}
    }

    /// The longest text from here on of bytes that fit.
    fn take_while(&mut self, fits: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.bytes().position(|byte| !fits(byte)).unwrap_or(rest.len());
        self.position += length;
        rest.get(..length).unwrap_or_default()
    }

    fn error(&self, message: impl Into<String>) -> PatternError {
        error(self.position, message)
    }

    /// An error about the character that comes next.
    fn unexpected(&self, expected: &str) -> PatternError {
        match self.rest().chars().next() {
            Some(found) => self.error(format!("found {found:?}: {expected}")),
            None => self.error(format!("the path ends here: {expected}")),
        }
    }

    /// `.name`
    fn dotted(&mut self) -> Result<Step, PatternError> {
        self.position += 1;
        match self.peek() {
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                Ok(Step::Field(Arc::from(self.plain_name())))
            }
            Some(b'[') => Err(self.unexpected("no dot is written before a bracket")),
            Some(b'*') => Err(self.unexpected("any field, map key or item is written [*]")),
            _ => Err(self.unexpected(
                "a name after a dot begins with a letter or '_'; any other one is written [\"name\"]",
            )),
        }
    }

    fn plain_name(&mut self) -> &'a str {
        self.take_while(is_plain_byte)
    }

    /// `["name"]`, `[name="x"]`, `[="x"]` or `[*]`
    fn bracketed(&mut self) -> Result<Step, PatternError> {
        self.position += 1;
        self.skip_spaces();
        let step = match self.peek() {
            Some(b'*') => {
                self.position += 1;
                Step::Any
            }
            Some(b'=') => {
                self.position += 1;
                Step::Value(self.scalar()?)
            }
            Some(b'"') => {
                let name = self.string()?;
                self.skip_spaces();
                if self.peek() == Some(b'=') { self.key(name)? } else { Step::Field(name) }
            }
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                let name = Arc::from(self.plain_name());
                self.key(name)?
            }
            Some(b'0'..=b'9' | b'-') => {
                return Err(
                    self.unexpected(&format!("positions in lists change, so they own nothing; {BRACKETS}"))
                );
            }
            _ => return Err(self.unexpected(BRACKETS)),
        };
        self.skip_spaces();
        if self.eat(b']') { Ok(step) } else { Err(self.unexpected("']' is expected")) }
    }

    /// The rest of a list key, from after its first name on.
    fn key(&mut self, first: Arc<str>) -> Result<Step, PatternError> {
        let mut fields: Vec<(Arc<str>, Scalar)> = Vec::new();
        let mut name = first;
        loop {
            self.skip_spaces();
            if !self.eat(b'=') {
                return Err(self.unexpected(&format!("'=' and a value are expected; {BRACKETS}")));
            }
            let value = self.scalar()?;
            if fields.iter().any(|(other, _)| *other == name) {
                return Err(self.error(format!("the list key names the field {name:?} twice")));
            }
            fields.push((name, value));
            self.skip_spaces();
            if !self.eat(b',') {
                break;
            }
            self.skip_spaces();
            name = match self.peek() {
                Some(b'"') => self.string()?,
                Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => Arc::from(self.plain_name()),
                _ => return Err(self.unexpected(NEXT_FIELD)),
            };
        }
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Step::Key(Arc::from(fields)))
    }

    /// A JSON scalar.
    fn scalar(&mut self) -> Result<Scalar, PatternError> {
        self.skip_spaces();
        if self.peek() == Some(b'"') {
            return self.string().map(Scalar::String);
        }
        let start = self.position;
        let word = self.take_while(|byte| !matches!(byte, b',' | b']' | b'[' | b'"' | b' '));
        match Scalar::parse(word) {
            Some(scalar) => Ok(scalar),
            None if word.is_empty() => {
                Err(self.unexpected("a value is expected: \"text\", a number, true, false or null"))
            }
            None => Err(error(start, format!("found {word:?}: {VALUES}"))),
        }
    }

    /// A JSON string.
    fn string(&mut self) -> Result<Arc<str>, PatternError> {
        let start = self.position;
        let mut escaped = false;
        let closing = self.rest().bytes().skip(1).position(|byte| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        });
        let Some(inside) = closing else {
            return Err(error(start, "the text that begins here has no closing quote"));
        };
        self.position += inside + 2;
        match self.text.get(start..self.position).and_then(Scalar::parse) {
            Some(Scalar::String(text)) => Ok(text),
            _ => Err(error(start, BAD_STRING)),
        }
    }
}
