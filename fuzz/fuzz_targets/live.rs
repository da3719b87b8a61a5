//! `cargo +nightly fuzz run live`
#![no_main]

#[path = "../live.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::live(bytes));
