//! Bytes of libFuzzer for `fuzzed::query`, which says what is checked.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::query::check(data));
