//! Fuzzes `bodies/decide.rs`.

#![no_main]

#[path = "../bodies/mod.rs"]
#[allow(dead_code, reason = "one of the checks")]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::decide::check(data));
