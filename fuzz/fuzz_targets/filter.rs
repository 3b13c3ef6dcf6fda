//! Bytes of libFuzzer for `fuzzed::filter`, which says what is checked.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::filter::check(data));
