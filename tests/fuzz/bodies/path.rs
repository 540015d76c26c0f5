//! The paths of policies, as text.
//!
//! In: any text. Out: a panic where one that is read does not print and read back as the same pattern,
//! where it does not name the path that it is, or where an error points outside the text.

use fieldkeeper::ownership::pattern::{MAX_LENGTH, MAX_STEPS, Pattern, Step};
use std::cmp::Ordering;

/// Checks one input.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Pattern::parse(text) {
        Ok(pattern) => is_what_it_says(text, &pattern),
        Err(error) => {
            assert!(text.is_char_boundary(error.position), "{text:?}: {error} points into nothing");
            assert!(!error.message.is_empty());
        }
    }
}

fn is_what_it_says(text: &str, pattern: &Pattern) {
    assert!(text.len() <= MAX_LENGTH && (1..=MAX_STEPS).contains(&pattern.steps().len()));
    let printed = pattern.to_string();
    if printed.len() <= MAX_LENGTH {
        let again = Pattern::parse(&printed)
            .unwrap_or_else(|error| panic!("{text:?} prints as {printed:?}, which is not read: {error}"));
        assert_eq!(again, *pattern, "{text:?} prints as {printed:?}, which is another pattern");
        assert_eq!(again.to_string(), printed);
    }
    assert_eq!(pattern.cmp_specificity(pattern), Ordering::Equal);
    assert_eq!(Pattern::from_steps(pattern.steps().to_vec()).as_ref(), Some(pattern));
    let path = pattern.literal_path();
    assert_eq!(path.is_none(), pattern.steps().contains(&Step::Any));
    let Some(path) = path else { return };
    assert_eq!(path.to_string(), printed, "path and pattern have one spelling");
    assert!(pattern.ends_at(&path) && pattern.covers(&path) && !pattern.reaches_below(&path));
    if let Some(parent) = path.parent() {
        assert!(pattern.reaches_below(&parent) && !pattern.covers(&parent));
    }
    // The same with any step left open covers as much, and is less specific.
    for at in 0..pattern.steps().len() {
        let mut steps = pattern.steps().to_vec();
        steps[at] = Step::Any;
        let open = Pattern::from_steps(steps).expect("as many steps as before");
        assert!(open.ends_at(&path));
        assert_eq!(pattern.cmp_specificity(&open), Ordering::Less);
        assert_eq!(open.cmp_specificity(pattern), Ordering::Greater);
    }
}
