//! `cargo +nightly fuzz run lanes`
#![no_main]

#[path = "../lanes.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::lanes(bytes));
