//! `cargo +nightly fuzz run probe`
#![no_main]

#[path = "../probe.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::probe(bytes));
