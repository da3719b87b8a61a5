//! `cargo +nightly fuzz run netlink`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weftline_net::fuzz::netlink(bytes));
