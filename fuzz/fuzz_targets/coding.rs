//! `cargo +nightly fuzz run coding`
#![no_main]

#[path = "../coding.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::coding(bytes));
