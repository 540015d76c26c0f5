//! Conditions, as text, and what they say of an object.
//!
//! In: a condition and an object, apart by the first NUL; without one the object is empty. Out: a panic
//! where a condition that is read does not print and read back as the same, reads something that is no
//! path, says two things of one object, or where an error points outside the text.

use fieldkeeper::ownership::condition::{Expr, Objects, Root};
use fieldkeeper::ownership::raw::Raw;
use fieldkeeper::policy::when::{self, MAX_LENGTH, ParseError};
use serde_json::value::RawValue;

/// Checks one input.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (text, object) = text.split_once('\0').unwrap_or((text, "{}"));
    let object = serde_json::from_str::<&RawValue>(object).ok().map(Raw::from);
    let claim = when::parse(text);
    let mutator = when::parse_mutator(text);
    for error in [&claim, &mutator].into_iter().filter_map(|parsed| parsed.as_ref().err()) {
        points_into(text, error);
    }
    if let Ok(condition) = &claim {
        assert_eq!(mutator.as_ref(), Ok(condition), "what a claim may say, a mutator may say");
        assert!(condition.accesses().iter().all(|access| access.root == Root::OldObject));
        is_read_as_printed(condition, when::parse);
        assert_eq!(condition.eval(object), condition.eval_on(&Objects { old_object: object, object: None }));
    }
    if let Ok(condition) = &mutator {
        is_read_as_printed(condition, when::parse_mutator);
        reads_paths(condition);
        says_one_thing(condition, object);
    }
}

fn points_into(text: &str, error: &ParseError) {
    assert!(text.is_char_boundary(error.position), "{text:?}: {error} points into nothing");
    assert!(!error.message.is_empty() && !error.message.ends_with('.'), "{error}");
}

fn is_read_as_printed(condition: &Expr, parse: fn(&str) -> Result<Expr, ParseError>) {
    let printed = condition.to_string();
    if printed.len() > MAX_LENGTH {
        return;
    }
    let again = parse(&printed).unwrap_or_else(|error| panic!("{printed:?} is not read: {error}"));
    assert_eq!(again, *condition, "{printed:?} is another condition");
}

fn reads_paths(condition: &Expr) {
    let accesses = condition.accesses();
    assert!(accesses.is_sorted_by(|a, b| a < b), "each once, in order");
    assert_eq!(accesses.len(), condition.reads().len());
    for access in accesses {
        assert!(!access.path.is_empty(), "a variable alone is no path");
        // Each of them is a condition of its own, about the same value.
        let Ok(Expr::Has(same)) = when::parse_mutator(&format!("has({access})")) else {
            assert!(access.to_string().len() + 5 > MAX_LENGTH, "{access} is not read");
            continue;
        };
        assert_eq!(same, *access);
    }
}

fn says_one_thing(condition: &Expr, object: Option<Raw<'_>>) {
    for objects in [
        Objects { old_object: object, object: None },
        Objects { old_object: None, object },
        Objects { old_object: object, object },
    ] {
        let said = condition.eval_on(&objects);
        assert_eq!(condition.eval_on(&objects), said);
        assert_eq!(condition.eval_with(&mut |access| objects.get(access)), said);
        let negated = Expr::Not(Box::new(condition.clone())).eval_on(&objects);
        assert_eq!(negated, said.clone().map(|holds| !holds));
        if let Err(error) = said {
            assert!(!error.to_string().is_empty());
        }
    }
}
