//! `cargo +nightly fuzz run ows`
#![no_main]

#[path = "../ows.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::ows(bytes));
