//! Bytes of libFuzzer for `fuzzed::rpc_payload`, which says what is checked.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::rpc_payload::check(data));
