//! `cargo +nightly fuzz run config`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weftline_cli::fuzz::config(bytes));
