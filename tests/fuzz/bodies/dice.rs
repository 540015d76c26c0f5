//! Choices made from the bytes that a fuzzer changes.
//!
//! In: bytes. Out: numbers and picks; the first of everything once the bytes are used up, so that each
//! input ends.

use arbitrary::Unstructured;

/// Bytes as choices.
pub struct Dice<'a>(Unstructured<'a>);

impl<'a> Dice<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Self(Unstructured::new(data))
    }

    /// A number from 0 to below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        self.0.int_in_range(0..=count.saturating_sub(1)).unwrap_or_default()
    }

    /// True so many times in a hundred, and false at the end of the bytes.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }

    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }
}
