//! `cargo +nightly fuzz run nodes`
#![no_main]

#[path = "../nodes.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::nodes(bytes));
