//! One value out of a raw JSON document, without parsing the rest.
//!
//! - **Input**: JSON text and the names on the way to a value.
//! - **Output**: that value as text, borrowed; nothing if it is absent.
//! - **Must not**: build values for what is not on the way; objects are up to 1.5 MiB and conditions read a few bytes.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Why a path cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// A name on the way is asked of something that is no object. Holds how many names were followed.
    NotAnObject(usize),
    /// The text is not JSON.
    Malformed,
}

/// The value at `path`; `None` if a name on the way is absent or null.
///
/// Of two members with one name the last counts, as for every Kubernetes decoder.
pub fn lookup<'a>(raw: &'a RawValue, path: &[Box<str>]) -> Result<Option<&'a RawValue>, LookupError> {
    let mut current = raw;
    for (followed, name) in path.iter().enumerate() {
        match first_byte(current) {
            Some(b'{') => {}
            Some(b'n') => return Ok(None),
            Some(_) => return Err(LookupError::NotAnObject(followed)),
            None => return Err(LookupError::Malformed),
        }
        let mut text = serde_json::Deserializer::from_str(current.get());
        match text.deserialize_map(Member(name)).map_err(|_| LookupError::Malformed)? {
            Some(value) => current = value,
            None => return Ok(None),
        }
    }
    Ok(Some(current))
}

/// The byte that tells which kind of value the text is.
pub(super) fn first_byte(raw: &RawValue) -> Option<u8> {
    raw.get().trim_ascii_start().bytes().next()
}

/// Reads an object and keeps the one member of that name.
struct Member<'n>(&'n str);

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = members.next_key_seed(Is(self.0))? {
            if is_it {
                found = Some(members.next_value()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Compares a key without allocating it.
struct Is<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<bool, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'a>(raw: &'a RawValue, names: &[&str]) -> Result<Option<&'a str>, LookupError> {
        let path: Vec<Box<str>> = names.iter().map(|n| Box::from(*n)).collect();
        lookup(raw, &path).map(|found| found.map(RawValue::get))
    }

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_value_is_found_behind_others_and_borrowed_as_it_is_written() {
        let object = raw(r#"{"a": [1, {"b": 2}], "spec": {"x": 1.50, "y": {"b": [1 , 2]}}}"#);
        assert_eq!(at(&object, &["spec", "x"]), Ok(Some("1.50")));
        assert_eq!(at(&object, &["spec", "y", "b"]), Ok(Some("[1 , 2]")));
        assert_eq!(at(&object, &[]).map(|found| found.is_some()), Ok(true));
    }

    #[test]
    fn absent_and_null_parents_give_nothing_and_a_null_itself_is_something() {
        let object = raw(r#"{"spec": null, "x": {"y": null}}"#);
        assert_eq!(at(&object, &["status"]), Ok(None));
        assert_eq!(at(&object, &["spec", "mode", "deep"]), Ok(None));
        assert_eq!(at(&object, &["x", "y"]), Ok(Some("null")));
    }

    #[test]
    fn a_name_asked_of_a_list_or_a_scalar_is_an_error() {
        let object = raw(r#"{"list": [], "text": "x"}"#);
        assert_eq!(at(&object, &["list", "0"]), Err(LookupError::NotAnObject(1)));
        assert_eq!(at(&object, &["text", "a"]), Err(LookupError::NotAnObject(1)));
    }

    #[test]
    fn names_match_by_value_and_the_last_of_two_counts() {
        let object = raw(r#"{"a\u002db": 1, "é": 2, "é": 3}"#);
        assert_eq!(at(&object, &["a-b"]), Ok(Some("1")));
        assert_eq!(at(&object, &["é"]), Ok(Some("3")));
    }
}
