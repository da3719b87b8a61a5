//! `cargo +nightly fuzz run invite`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weftline_cli::fuzz::invite(bytes));
