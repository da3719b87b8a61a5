//! `cargo +nightly fuzz run scenario`
#![no_main]

#[path = "../scenario.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::scenario(bytes));
