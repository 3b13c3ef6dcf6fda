//! Bytes of libFuzzer for `fuzzed::constraint`, which says what is checked.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::constraint::check(data));
