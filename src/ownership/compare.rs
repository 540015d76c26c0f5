//! When two values are the same although their text differs.
//!
//! The API server keeps `1000m` and `1` apart in custom resources, and so do we
//! unless a claim says how to compare. What cannot be read in the named way
//! differs: a comparison never makes two values the same by accident.

use super::raw::{Kind, Raw};

/// How a claim compares the old and the new value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compare {
    /// As the server does.
    #[default]
    Exact,
    /// As resource quantities: `1000m` is `1`, `1Gi` is `1024Mi`.
    Quantity,
    /// As durations: `90m` is `1h30m`.
    Duration,
    /// An empty value is the same as none.
    EmptyIsAbsent,
}

impl Compare {
    /// Whether a change of the text is none in this way of comparing.
    #[must_use]
    pub fn same(self, old: Option<Raw<'_>>, new: Option<Raw<'_>>) -> bool {
        match self {
            Self::Exact => false,
            Self::Quantity => both(old, new, quantity),
            Self::Duration => both(old, new, duration),
            Self::EmptyIsAbsent => is_empty(old) && is_empty(new),
        }
    }
}

fn both<T: PartialEq>(old: Option<Raw<'_>>, new: Option<Raw<'_>>, read: fn(&str) -> Option<T>) -> bool {
    let value = |raw: Option<Raw<'_>>| {
        let raw = raw?;
        match raw.kind() {
            Kind::Number => read(raw.text()),
            Kind::String => read(&raw.string().ok()?),
            _ => None,
        }
    };
    matches!((value(old), value(new)), (Some(old), Some(new)) if old == new)
}

fn is_empty(value: Option<Raw<'_>>) -> bool {
    value.is_none_or(|value| {
        value.kind() == Kind::Null || value.text() == "\"\"" || value.is_empty_container()
    })
}

/// Binary and decimal suffixes of quantities, as factors of the unit in thousand millionths.
const QUANTITY_SUFFIXES: [(&str, i128); 16] = [
    ("", 1_000_000_000),
    ("n", 1),
    ("u", 1_000),
    ("m", 1_000_000),
    ("k", 1_000_000_000_000),
    ("M", 1_000_000_000_000_000),
    ("G", 1_000_000_000_000_000_000),
    ("T", 1_000_000_000_000_000_000_000),
    ("P", 1_000_000_000_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000_000_000_000),
    ("Ki", 1_000_000_000 << 10),
    ("Mi", 1_000_000_000 << 20),
    ("Gi", 1_000_000_000 << 30),
    ("Ti", 1_000_000_000 << 40),
    ("Pi", 1_000_000_000 << 50),
    ("Ei", 1_000_000_000 << 60),
];

/// The largest power of ten that an exponent may name: beyond it nothing fits.
const MAX_EXPONENT: u32 = 27;

/// A quantity as a fraction: numerator in thousand millionths, and the power of ten below it.
fn quantity(text: &str) -> Option<(i128, u32)> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (digits, places) = decimal(number)?;
    let factor = QUANTITY_SUFFIXES.iter().find(|(name, _)| *name == suffix).map(|(_, factor)| *factor);
    let (value, places) = if let Some(factor) = factor {
        (digits.checked_mul(factor)?, places)
    } else {
        let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        if exponent.unsigned_abs() > MAX_EXPONENT {
            return None;
        }
        let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
        let unit = digits.checked_mul(1_000_000_000)?;
        if exponent < 0 {
            (unit, places + exponent.unsigned_abs())
        } else {
            (unit.checked_mul(power)?, places)
        }
    };
    Some(reduce(value, places))
}

/// Digits without their point, and how many of them stood behind it.
fn decimal(text: &str) -> Option<(i128, u32)> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value: i128 = 0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value.checked_mul(10)?.checked_add(i128::from(digit.to_digit(10)?))?;
    }
    let places = u32::try_from(fraction.len()).ok()?;
    Some((if negative { -value } else { value }, places))
}

/// The same fraction with as few places as it needs.
fn reduce(mut value: i128, mut places: u32) -> (i128, u32) {
    while places > 0 && value % 10 == 0 {
        value /= 10;
        places -= 1;
    }
    (value, places)
}

/// Units of a duration in nanoseconds; the longer names first.
const DURATION_UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
];

/// A duration in nanoseconds, as Go writes them: `1h30m`, `1.5h`, `0`.
fn duration(text: &str) -> Option<i128> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    while !rest.is_empty() || total == 0 {
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | '.'))?;
        let (number, behind) = rest.split_at_checked(end)?;
        let (digits, places) = decimal(number)?;
        let (unit, factor) = DURATION_UNITS.iter().find(|(unit, _)| behind.starts_with(unit))?;
        total = total.checked_add(digits.checked_mul(*factor)? / 10_i128.checked_pow(places)?)?;
        rest = behind.strip_prefix(unit)?;
        if rest.is_empty() {
            break;
        }
    }
    Some(if negative { -total } else { total })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(compare: Compare, old: &str, new: &str) -> bool {
        compare.same(Some(Raw::parse(old).unwrap()), Some(Raw::parse(new).unwrap()))
    }

    #[test]
    fn quantities_are_the_same_in_whatever_unit_they_are_written() {
        for (old, new) in [
            (r#""1000m""#, "1"),
            (r#""1Gi""#, r#""1024Mi""#),
            (r#""1e3""#, r#""1k""#),
            ("0.5", r#""500m""#),
            (r#""1.50""#, r#""1.5""#),
            (r#""-1""#, r#""-1000m""#),
            (r#""1e-3""#, r#""1m""#),
            ("1.0", "1"),
        ] {
            assert!(same(Compare::Quantity, old, new), "{old} {new}");
        }
        for (old, new) in
            [(r#""1G""#, r#""1Gi""#), ("1", "2"), (r#""x""#, r#""y""#), (r#""""#, r#""""#), ("true", "true")]
        {
            assert!(!same(Compare::Quantity, old, new), "{old} {new}");
        }
    }

    #[test]
    fn durations_are_the_same_in_whatever_unit_they_are_written() {
        for (old, new) in [
            (r#""1h30m""#, r#""90m""#),
            (r#""1.5h""#, r#""90m0s""#),
            (r#""0""#, r#""0s""#),
            (r#""1000ms""#, r#""1s""#),
        ] {
            assert!(same(Compare::Duration, old, new), "{old} {new}");
        }
        for (old, new) in
            [(r#""1h""#, r#""1m""#), (r#""1""#, r#""1""#), (r#""h""#, r#""h""#), (r#""""#, r#""""#)]
        {
            assert!(!same(Compare::Duration, old, new), "{old} {new}");
        }
    }

    #[test]
    fn nothing_and_empty_are_the_same_only_where_the_claim_says_so() {
        let empty = ["null", "{}", "[]", r#""""#, "{ }"];
        for value in empty {
            let value = Some(Raw::parse(value).unwrap());
            assert!(Compare::EmptyIsAbsent.same(value, None) && Compare::EmptyIsAbsent.same(None, value));
            assert!(!Compare::Exact.same(value, None));
        }
        assert!(!Compare::EmptyIsAbsent.same(Some(Raw::parse("0").unwrap()), None));
    }

    #[test]
    fn no_text_makes_a_comparison_panic() {
        for text in [
            r#""9999999999999999999999999999999999999999""#,
            r#""1e99999999999""#,
            r#""-""#,
            r#"".""#,
            r#""1.1.1""#,
            r#""+-1""#,
            r#""1Ei9""#,
            r#""5µ""#,
        ] {
            for compare in [Compare::Quantity, Compare::Duration, Compare::EmptyIsAbsent] {
                let _ = same(compare, text, text);
            }
        }
    }
}
