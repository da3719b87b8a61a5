//! `cargo +nightly fuzz run pages`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weftline_web::fuzz::pages(bytes));
