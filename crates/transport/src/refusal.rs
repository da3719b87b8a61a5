//! Why a server refuses a hello or a join, as the numbers that go over the wire
//! (docs/protocol.md).

/// The server is at one of its limits; trying again later may help.
pub const BUSY: u64 = 1;
/// The server has no such congestion control.
pub const CONGESTION: u64 = 2;
/// The connection is unknown or the proof is wrong; the two are not told apart.
pub const JOIN: u64 = 3;
/// The client sent something else than a hello or a join.
pub const PROTOCOL: u64 = 4;
/// The server has no such scheduler.
pub const SCHEDULER: u64 = 5;
/// The number of the new subflow has been used before in the connection.
pub const SUBFLOW: u64 = 6;
/// The server wants TLS and the client came without.
pub const TLS_WANTED: u64 = 7;
/// The server wants a token and the client's is missing or wrong.
pub const TOKEN: u64 = 8;

/// `text` from a peer, made fit for one line of a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
