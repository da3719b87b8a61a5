//! `cargo +nightly fuzz run tunnel`
#![no_main]

#[path = "../tunnel.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::tunnel(bytes));
