//! A deterministic, packet-level simulator.
#![forbid(unsafe_code)]
