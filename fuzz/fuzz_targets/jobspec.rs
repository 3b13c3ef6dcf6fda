//! Bytes of libFuzzer for `fuzzed::jobspec`, which says what is checked.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::jobspec::check(data));
