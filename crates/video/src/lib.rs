//! Video workloads as state machines.
#![forbid(unsafe_code)]
