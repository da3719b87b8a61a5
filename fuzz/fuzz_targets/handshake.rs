//! `cargo +nightly fuzz run handshake`
#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::handshake(bytes));
