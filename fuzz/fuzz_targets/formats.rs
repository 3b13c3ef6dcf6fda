//! Bytes of libFuzzer for `fuzzed::formats`, which says what is checked.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::formats::check(data));
