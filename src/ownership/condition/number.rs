//! Numbers of JSON and of conditions, compared by value and without loss.
//!
//! CEL compares int, uint and double with each other as points on one line. Turning both into `f64` would make
//! `9007199254740993 == 9007199254740992.0` true, so integers and doubles are compared exactly.

use std::cmp::Ordering;
use std::fmt;

/// A number. One value may have two forms (`1` and `1.0`), which are equal.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// Any integer from `i64::MIN` to `u64::MAX`, wider than either so that both fit.
    Integer(i128),
    /// A finite double.
    Double(f64),
}

impl Number {
    /// The number that a JSON text is; `None` if it is none, or too large for any `f64`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let integer = text.parse::<i64>().map(i128::from).or_else(|_| text.parse::<u64>().map(i128::from));
        integer
            .ok()
            .map(Self::Integer)
            .or_else(|| text.parse().ok().filter(|d: &f64| d.is_finite()).map(Self::Double))
    }

    /// Which one is larger.
    #[must_use]
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(&b),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Self::Integer(a), Self::Double(b)) => compare_mixed(a, b),
            (Self::Double(a), Self::Integer(b)) => compare_mixed(b, a).reverse(),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.compare(*other) == Ordering::Equal
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Beyond int, CEL wants the suffix of uint.
            Self::Integer(value) if *value > i128::from(i64::MAX) => write!(f, "{value}u"),
            Self::Integer(value) => value.fmt(f),
            // The debug form always has a point or an exponent, so that it stays a double.
            Self::Double(value) => write!(f, "{value:?}"),
        }
    }
}

/// Compares an integer, at most 65 bits wide, with a finite double.
fn compare_mixed(integer: i128, double: f64) -> Ordering {
    let whole = double.trunc();
    // `as` saturates, which keeps the order: no integer here comes near the ends of i128.
    #[allow(clippy::cast_possible_truncation)]
    let nearest = whole as i128;
    integer.cmp(&nearest).then_with(|| whole.partial_cmp(&double).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_doubles_of_the_same_value_are_equal() {
        assert_eq!(Number::Integer(1), Number::Double(1.0));
        assert_eq!(Number::Integer(0), Number::Double(-0.0));
        assert_ne!(Number::Integer(1), Number::Double(1.5));
    }

    #[test]
    fn no_digit_of_a_large_integer_is_lost() {
        let (even, odd) = (9_007_199_254_740_992_i128, 9_007_199_254_740_993_i128);
        assert_eq!(Number::Integer(even), Number::Double(9_007_199_254_740_992.0));
        assert_eq!(Number::Integer(odd).compare(Number::Double(9_007_199_254_740_992.0)), Ordering::Greater);
        assert_ne!(Number::Integer(i128::from(u64::MAX)), Number::Double(18_446_744_073_709_551_616.0));
        assert_eq!(Number::Integer(i128::from(u64::MAX)).compare(Number::Double(1e300)), Ordering::Less);
        assert_eq!(Number::Integer(i128::from(i64::MIN)), Number::Double(-9_223_372_036_854_775_808.0));
    }

    #[test]
    fn fractions_order_between_their_neighbours_on_both_sides_of_zero() {
        assert_eq!(Number::Integer(1).compare(Number::Double(1.5)), Ordering::Less);
        assert_eq!(Number::Integer(2).compare(Number::Double(1.5)), Ordering::Greater);
        assert_eq!(Number::Integer(-1).compare(Number::Double(-1.5)), Ordering::Greater);
        assert_eq!(Number::Double(-1.5).compare(Number::Integer(-2)), Ordering::Greater);
    }
}
