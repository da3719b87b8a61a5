//! `cargo +nightly fuzz run wire`
#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::wire(bytes));
