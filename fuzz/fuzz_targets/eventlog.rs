//! Bytes of libFuzzer for `fuzzed::eventlog`, which says what is checked.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::eventlog::check(data));
