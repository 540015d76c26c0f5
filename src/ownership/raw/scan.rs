//! Finding where a JSON value ends, without looking at what is in it.
//!
//! In: the bytes of a text that is known to be valid JSON, and a position. Out:
//! the position after the value there. `None` means that the text ends too early,
//! which valid JSON never does; no input makes this module panic. It must not
//! judge values: numbers, escapes and literals are only stepped over.
//!
//! The difference of two objects is mostly the work of skipping what did not
//! change, so this is the hot loop. Containers are read in blocks of 64 bytes that
//! become bit masks (quotes, backslashes, brackets).

use wide::u8x16;

/// Every second bit, from the lowest on.
const EVEN: u64 = 0x5555_5555_5555_5555;
/// `[` and `{`, `]` and `}` differ in this bit, and no other byte becomes either by setting it.
const FOLD: u8 = 0x20;
/// Bytes of one block.
const BLOCK: usize = 64;
/// Bytes that one vector instruction looks at.
pub(super) const LANE: usize = 16;
/// Most containers are shorter than this: below it, building masks costs more than it saves.
const SHORT: usize = 48;

/// The first position at or after `at` that is not JSON white space.
pub(super) fn space_end(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(at) {
        at += 1;
    }
    at
}

/// The position after the value that begins at `at`.
pub(super) fn value_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string_end(text, at + 1).map(|(end, _)| end),
        b'{' | b'[' => container_end(text, at),
        _ => Some(word_end(text, at)),
    }
}

/// The position after the closing quote of a string whose opening quote is before `at`, and whether it has escapes.
pub(super) fn string_end(text: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let [quote, slash] = [b'"', b'\\'].map(u8x16::splat);
    let mut escapes = false;
    loop {
        while let Some(bytes) = text.get(at..)?.first_chunk::<LANE>() {
            let bytes = u8x16::new(*bytes);
            let found = (bytes.simd_eq(quote) | bytes.simd_eq(slash)).to_bitmask();
            if found != 0 {
                at += found.trailing_zeros() as usize;
                break;
            }
            at += LANE;
        }
        match text.get(at)? {
            b'"' => return Some((at + 1, escapes)),
            b'\\' => {
                escapes = true;
                at += 2;
            }
            _ => at += 1,
        }
    }
}

/// The end of a number, `true`, `false` or `null`.
fn word_end(text: &[u8], mut at: usize) -> usize {
    while let Some(byte) = text.get(at) {
        if matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') {
            break;
        }
        at += 1;
    }
    at
}

/// The position after the bracket that closes the container opened at `at`.
fn container_end(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_u32;
    let short = at.saturating_add(SHORT);
    while at < short {
        match text.get(at)? {
            b'"' => (at, _) = string_end(text, at + 1)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth -= 1;
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
    long_container_end(text, at, depth)
}

/// As [`container_end`], from inside: `at` is outside a string, `depth` containers are open.
fn long_container_end(text: &[u8], mut at: usize, mut depth: u32) -> Option<usize> {
    let mut carry = Carry::default();
    loop {
        let rest = text.get(at..)?;
        let Some(block) = rest.first_chunk::<BLOCK>() else {
            // The tail, padded with spaces, which mean nothing here.
            let mut tail = [b' '; BLOCK];
            tail.get_mut(..rest.len())?.copy_from_slice(rest);
            return block_end(&tail, &mut carry, &mut depth).map(|end| at + end);
        };
        if let Some(end) = block_end(block, &mut carry, &mut depth) {
            return Some(at + end);
        }
        at += BLOCK;
    }
}

/// What one block passes on to the next.
#[derive(Default)]
struct Carry {
    /// All ones inside a string, else zero.
    in_string: u64,
    /// One if the next byte is escaped.
    escaped: u64,
}

/// The position after the last closing bracket, if it is in this block; otherwise updates `depth`.
fn block_end(block: &[u8; BLOCK], carry: &mut Carry, depth: &mut u32) -> Option<usize> {
    let (opens, closes) = brackets(block, carry);
    if closes.count_ones() < *depth {
        *depth = *depth + opens.count_ones() - closes.count_ones();
        return None;
    }
    let mut both = opens | closes;
    while both != 0 {
        let lowest = both & both.wrapping_neg();
        both ^= lowest;
        if opens & lowest != 0 {
            *depth += 1;
        } else {
            *depth -= 1;
            if *depth == 0 {
                return Some(lowest.trailing_zeros() as usize + 1);
            }
        }
    }
    None
}

/// Calls `visit` for each bracket outside strings: its position, and whether it opens.
/// Stops when `visit` says false.
pub(super) fn each_bracket(text: &[u8], mut visit: impl FnMut(usize, bool) -> bool) {
    let mut carry = Carry::default();
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    let mut tail = [b' '; BLOCK];
    if let Some(start) = tail.get_mut(..rest.len()) {
        start.copy_from_slice(rest);
    }
    for (index, block) in blocks.iter().chain(std::iter::once(&tail)).enumerate() {
        let (opens, closes) = brackets(block, &mut carry);
        let mut both = opens | closes;
        while both != 0 {
            let lowest = both & both.wrapping_neg();
            both ^= lowest;
            if !visit(index * BLOCK + lowest.trailing_zeros() as usize, opens & lowest != 0) {
                return;
            }
        }
    }
}

/// The opening and the closing brackets of a block that are outside strings.
fn brackets(block: &[u8; BLOCK], carry: &mut Carry) -> (u64, u64) {
    let Marks { quotes, slashes, opens, closes } = marks(block);
    let quotes = quotes & !escaped_bytes(slashes, &mut carry.escaped);
    let strings = running_parity(quotes) ^ carry.in_string;
    carry.in_string = if strings >> 63 == 1 { u64::MAX } else { 0 };
    (opens & !strings, closes & !strings)
}

/// Where the bytes that matter are in a block: one bit for each byte, the first is the lowest.
#[derive(Debug, Default, PartialEq, Eq)]
struct Marks {
    quotes: u64,
    slashes: u64,
    opens: u64,
    closes: u64,
}

fn marks(block: &[u8; BLOCK]) -> Marks {
    let [quote, slash, fold, open, close] = [b'"', b'\\', FOLD, b'{', b'}'].map(u8x16::splat);
    let bits = |bytes: u8x16, wanted: u8x16| u64::from(bytes.simd_eq(wanted).to_bitmask());
    let mut marks = Marks::default();
    let (lanes, _) = block.as_chunks::<LANE>();
    for (index, bytes) in lanes.iter().enumerate() {
        let bytes = u8x16::new(*bytes);
        let folded = bytes | fold;
        let shift = index * LANE;
        marks.quotes |= bits(bytes, quote) << shift;
        marks.slashes |= bits(bytes, slash) << shift;
        marks.opens |= bits(folded, open) << shift;
        marks.closes |= bits(folded, close) << shift;
    }
    marks
}

/// The bytes that a backslash before them escapes. Runs of backslashes pair up from their start.
fn escaped_bytes(slashes: u64, carry: &mut u64) -> u64 {
    if slashes == 0 {
        return std::mem::take(carry);
    }
    let slashes = slashes & !*carry;
    let follows = slashes << 1 | *carry;
    let odd_starts = slashes & !EVEN & !follows;
    let (even_runs, overflow) = odd_starts.overflowing_add(slashes);
    *carry = u64::from(overflow);
    (EVEN ^ (even_runs << 1)) & follows
}

/// Bit n is the parity of bits 0 to n.
fn running_parity(mut bits: u64) -> u64 {
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    bits ^ (bits << 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample;

    /// The obvious scanner, one byte at a time.
    fn naive_end(text: &[u8]) -> Option<usize> {
        let (mut depth, mut quoted, mut escaped) = (0, false, false);
        for (at, byte) in text.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    proptest! {
        #[test]
        fn any_text_of_brackets_quotes_and_backslashes_ends_where_the_obvious_scanner_says(
            body in r#"([\[\]{}a]|"([a{}\[\]]|\\["\\a]){0,40}"){0,80}"#,
            tail in r"[\]}, a]{0,9}",
        ) {
            let text = format!("{{{body}}}{tail}");
            prop_assert_eq!(container_end(text.as_bytes(), 0), naive_end(text.as_bytes()));
        }

        #[test]
        fn marks_are_where_the_bytes_are(
            random in proptest::collection::vec(any::<u8>(), BLOCK),
            telling in proptest::collection::vec(sample::select(b"{}[]\"\\;\xfb\xdb\xdda2z".to_vec()), BLOCK),
        ) {
            for bytes in [random, telling] {
                let bits = |wanted: &[u8]| {
                    let set = |(at, byte): (usize, &u8)| u64::from(wanted.contains(byte)) << at;
                    bytes.iter().enumerate().map(set).sum::<u64>()
                };
                prop_assert_eq!(
                    marks(bytes.as_array().unwrap()),
                    Marks { quotes: bits(b"\""), slashes: bits(b"\\"), opens: bits(b"{["), closes: bits(b"}]") }
                );
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0..310_usize) {
            let _ = value_end(&bytes, at);
            let _ = string_end(&bytes, at);
        }
    }

    #[test]
    fn a_string_ends_at_its_first_unescaped_quote() {
        let far = r#"0123456789\"0123456789\\" b"#;
        let plain = r#"0123456789 0123456789 0123456789" b"#;
        let texts =
            [(r#"a" b"#, false), (r#"\"" b"#, true), (r#"\\\\" b"#, true), (far, true), (plain, false)];
        for (text, escapes) in texts {
            assert_eq!(string_end(text.as_bytes(), 0), Some((text.len() - 2, escapes)), "{text}");
        }
        assert_eq!(string_end(b"no end", 0), None);
        assert_eq!(string_end(b"no end\\", 0), None);
    }
}
