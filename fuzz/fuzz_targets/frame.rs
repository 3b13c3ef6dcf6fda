//! Bytes of libFuzzer for `fuzzed::frame`, which says what is checked.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::frame::check(data));
