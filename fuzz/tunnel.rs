//! What the fuzz target of the tunnel's nodes does with its input. `cargo test` replays the corpus
//! through the same function (crates/tunnel/tests/fuzz_tunnel.rs).

/// The first byte says what the rest is: datagrams from anybody, or frames of a neighbour.
pub fn tunnel(bytes: &[u8]) {
    match bytes.split_first() {
        Some((&kind, rest)) if kind % 2 == 0 => weftline_tunnel::fuzz::datagrams(rest),
        Some((_, rest)) => weftline_tunnel::fuzz::frames(rest),
        None => {}
    }
}
