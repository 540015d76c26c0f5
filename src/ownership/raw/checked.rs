//! Reading a text for the first time: every byte is checked, and looked at once.
//!
//! In: any text. Out: the values that a caller asks for, as [`Raw`], or the position at which the text is no JSON. What
//! is JSON here is JSON for `serde_json`, and nothing else is, whatever is asked for. No depth costs stack.

use std::borrow::Cow;

use wide::u8x16;

use super::scan::{LANE, space_end};
use super::{Raw, decode};

/// Containers inside each other in most texts.
const USUAL_DEPTH: usize = 32;
/// The highest byte that must not stand in a string as it is.
const LAST_CONTROL: u8 = 0x1f;

/// Where a text is not JSON, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misplaced(pub usize);

/// A text that nobody has checked yet.
#[derive(Clone, Copy, Debug)]
pub struct Unchecked<'a>(pub &'a str);

impl<'a> Unchecked<'a> {
    /// Where the one value of the text begins.
    #[must_use]
    pub fn start(self) -> usize {
        space_end(self.0.as_bytes(), 0)
    }

    /// Nothing may follow the value that ends at `at`.
    pub fn finish(self, at: usize) -> Result<(), Misplaced> {
        let end = space_end(self.0.as_bytes(), at);
        if end == self.0.len() { Ok(()) } else { Err(Misplaced(end)) }
    }

    /// The value that begins at `at`, and where it ends.
    pub fn value(self, at: usize) -> Result<(Raw<'a>, usize), Misplaced> {
        let end = valid_end(self.0.as_bytes(), at)?;
        let text = self.0.get(at..end).filter(|text| !text.is_empty()).ok_or(Misplaced(at))?;
        Ok((Raw(text), end))
    }

    /// The end of the value that begins at `at`, which has to be a string.
    pub fn string(self, at: usize) -> Result<usize, Misplaced> {
        expect(self.0.as_bytes(), at, b'"')?;
        valid_string_end(self.0.as_bytes(), at + 1)
    }

    /// The end of the value that begins at `at`, which has to be `null`.
    pub fn null(self, at: usize) -> Result<usize, Misplaced> {
        word_end(self.0.as_bytes(), at, b"null")
    }

    /// Shows the name of each member of the object that begins at `at` and where its value begins, and is told where
    /// the value ends. Gives the end of the object.
    pub fn members(
        self,
        at: usize,
        mut visit: impl FnMut(Cow<'a, str>, usize) -> Result<usize, Misplaced>,
    ) -> Result<usize, Misplaced> {
        let bytes = self.0.as_bytes();
        expect(bytes, at, b'{')?;
        let mut at = space_end(bytes, at + 1);
        if bytes.get(at) == Some(&b'}') {
            return Ok(at + 1);
        }
        loop {
            let (end, value) = name_end(bytes, at)?;
            let quoted = self.0.get(at..end).ok_or(Misplaced(at))?;
            let name = decode(quoted).map_err(|_| Misplaced(at))?;
            at = space_end(bytes, visit(name, value)?);
            match bytes.get(at) {
                Some(b',') => at = space_end(bytes, at + 1),
                Some(b'}') => return Ok(at + 1),
                _ => return Err(Misplaced(at)),
            }
        }
    }
}

/// The position after the value that begins at `at`.
fn valid_end(text: &[u8], mut at: usize) -> Result<usize, Misplaced> {
    // The closing brackets that are still to come.
    let mut open: Vec<u8> = Vec::new();
    loop {
        let byte = *text.get(at).ok_or(Misplaced(at))?;
        at = match byte {
            b'"' => valid_string_end(text, at + 1)?,
            // The closing bracket of either is two above it.
            b'{' | b'[' => {
                let first = space_end(text, at + 1);
                if text.get(first) == Some(&(byte + 2)) {
                    first + 1
                } else {
                    if open.is_empty() {
                        open.reserve(USUAL_DEPTH);
                    }
                    open.push(byte + 2);
                    at = if byte == b'{' { name_end(text, first)?.1 } else { first };
                    continue;
                }
            }
            b'-' | b'0'..=b'9' => number_end(text, at)?,
            b't' => word_end(text, at, b"true")?,
            b'f' => word_end(text, at, b"false")?,
            b'n' => word_end(text, at, b"null")?,
            _ => return Err(Misplaced(at)),
        };
        loop {
            let Some(close) = open.last() else { return Ok(at) };
            at = space_end(text, at);
            match text.get(at) {
                Some(b',') => {
                    at = space_end(text, at + 1);
                    if *close == b'}' {
                        (_, at) = name_end(text, at)?;
                    }
                    break;
                }
                Some(byte) if byte == close => {
                    open.pop();
                    at += 1;
                }
                _ => return Err(Misplaced(at)),
            }
        }
    }
}

/// Where the quoted name that begins at `at` ends, and where its value begins.
fn name_end(text: &[u8], at: usize) -> Result<(usize, usize), Misplaced> {
    expect(text, at, b'"')?;
    let end = valid_string_end(text, at + 1)?;
    let colon = space_end(text, end);
    expect(text, colon, b':')?;
    Ok((end, space_end(text, colon + 1)))
}

/// The position after the closing quote of a string whose opening quote is before `at`.
fn valid_string_end(text: &[u8], mut at: usize) -> Result<usize, Misplaced> {
    let [quote, slash, control] = [b'"', b'\\', LAST_CONTROL].map(u8x16::splat);
    loop {
        while let Some(bytes) = text.get(at..).and_then(|rest| rest.first_chunk::<LANE>()) {
            let bytes = u8x16::new(*bytes);
            let found = bytes.simd_eq(quote) | bytes.simd_eq(slash) | bytes.min(control).simd_eq(bytes);
            let found = found.to_bitmask();
            if found != 0 {
                at += found.trailing_zeros() as usize;
                break;
            }
            at += LANE;
        }
        match text.get(at).ok_or(Misplaced(at))? {
            b'"' => return Ok(at + 1),
            b'\\' => at = escape_end(text, at)?,
            ..=LAST_CONTROL => return Err(Misplaced(at)),
            _ => at += 1,
        }
    }
}

/// The position after the escape that begins at `at`. Whether four digits are half of a pair is not looked at.
fn escape_end(text: &[u8], at: usize) -> Result<usize, Misplaced> {
    match text.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match text.get(at + 2..at + 6) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(at + 6),
            _ => Err(Misplaced(at)),
        },
        _ => Err(Misplaced(at)),
    }
}

fn number_end(text: &[u8], at: usize) -> Result<usize, Misplaced> {
    let digits = |at: usize| {
        let rest = text.get(at..).unwrap_or_default();
        match rest.iter().take_while(|byte| byte.is_ascii_digit()).count() {
            0 => Err(Misplaced(at)),
            count => Ok(at + count),
        }
    };
    let start = at + usize::from(text.get(at) == Some(&b'-'));
    let mut end = digits(start)?;
    if text.get(start) == Some(&b'0') && end > start + 1 {
        return Err(Misplaced(start + 1));
    }
    if text.get(end) == Some(&b'.') {
        end = digits(end + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(end) {
        end = digits(end + 1 + usize::from(matches!(text.get(end + 1), Some(b'+' | b'-'))))?;
    }
    Ok(end)
}

fn word_end(text: &[u8], at: usize, word: &[u8]) -> Result<usize, Misplaced> {
    let end = at + word.len();
    if text.get(at..end) == Some(word) { Ok(end) } else { Err(Misplaced(at)) }
}

fn expect(text: &[u8], at: usize, byte: u8) -> Result<(), Misplaced> {
    if text.get(at) == Some(&byte) { Ok(()) } else { Err(Misplaced(at)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    fn is_valid(text: &str) -> bool {
        let unchecked = Unchecked(text);
        unchecked.value(unchecked.start()).and_then(|(_, end)| unchecked.finish(end)).is_ok()
    }

    /// Texts that are JSON, and some that nearly are.
    fn texts() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "-?(0|[1-9][0-9]{0,3})([.][0-9]{1,2})?([eE][+-]?[0-9]{1,2})?",
            r"[-+.0-9eE]{1,4}",
            "true|false|null|nul|True",
            r#""[a-z \u{e4}]{0,40}""#,
            r#""([ab]|\\["\\/bfnrtux]|\\u[0-9a-fG]{4}){0,9}""#,
            "\"[\t\u{1f}\u{20}\u{7f}]{1,3}\"",
        ];
        leaf.prop_recursive(6, 40, 4, |inner| {
            let space = prop::sample::select(vec!["", "", "", " ", "\n", "\u{b}"]);
            let joined = |items: Vec<(String, &str)>, comma: &str| {
                items
                    .iter()
                    .map(|(item, space)| format!("{space}{item}{space}"))
                    .collect::<Vec<_>>()
                    .join(comma)
            };
            let items = prop::collection::vec((inner.clone(), space), 0..4);
            let comma = || prop::sample::select(vec![",", ",", ",", ",", "", ",,"]);
            prop_oneof![
                (items.clone(), comma())
                    .prop_map(move |(items, comma)| format!("[{}]", joined(items, comma))),
                (items, comma(), prop::sample::select(vec![":", ":", ":", ":", "", ",", " : "])).prop_map(
                    move |(items, comma, colon)| {
                        let named = items.into_iter().enumerate();
                        let members =
                            named.map(|(n, (item, space))| (format!("\"k{n}\"{colon}{item}"), space));
                        format!("{{{}}}", joined(members.collect(), comma))
                    }
                ),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_text_is_json_here_if_it_is_for_serde_json(text in texts()) {
            prop_assert_eq!(is_valid(&text), serde_json::from_str::<IgnoredAny>(&text).is_ok(), "{}", text);
        }

        #[test]
        fn one_changed_byte_is_judged_alike(text in texts(), place: prop::sample::Index, byte in 0_u8..128) {
            let mut bytes = text.into_bytes();
            let place = place.index(bytes.len());
            bytes[place] = byte;
            if let Ok(text) = std::str::from_utf8(&bytes) {
                prop_assert_eq!(is_valid(text), serde_json::from_str::<IgnoredAny>(text).is_ok(), "{}", text);
            }
        }

        #[test]
        fn any_text_is_judged_alike(text in r#"[\[\]{}:,"\\ae0-9.\-+ ntrufls]{0,12}"#) {
            prop_assert_eq!(is_valid(&text), serde_json::from_str::<IgnoredAny>(&text).is_ok(), "{}", text);
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert!(is_valid(&deep));
        assert!(!is_valid(&deep[..deep.len() - 1]));
    }

    #[test]
    fn members_are_shown_with_the_place_of_their_values() {
        let text = r#" {"a": [1] , "\u0062":{"c":null}} "#;
        let unchecked = Unchecked(text);
        let mut seen = Vec::new();
        let end = unchecked.members(unchecked.start(), |name, at| {
            let (value, end) = unchecked.value(at)?;
            seen.push((name.into_owned(), value.text()));
            Ok(end)
        });
        assert_eq!(unchecked.finish(end.unwrap()), Ok(()));
        assert_eq!(seen, [("a".to_owned(), "[1]"), ("b".to_owned(), r#"{"c":null}"#)]);
        let odd = Unchecked(r#"{"a":1 "b":2}"#);
        assert_eq!(odd.members(0, |_, at| odd.value(at).map(|(_, end)| end)), Err(Misplaced(7)));
        assert_eq!(Unchecked("[]").members(0, |_, at| Ok(at)), Err(Misplaced(0)));
    }
}
