//! The wire format: what the two ends of a subflow say to each other (docs/protocol.md).
//!
//! A subflow begins with a [`Preamble`]; records follow, each a type, a length and a body, numbers
//! as the variable-length integers of RFC 9000 §16. Decoding is total: any input gives a record,
//! "incomplete" or an error, never a panic, and never an allocation larger than the input.

mod handshake;
mod join_address;
mod message;
mod policy;
mod preface;
mod record;
pub(crate) mod varint;

#[cfg(test)]
mod tests;

pub use handshake::{
    Hello, HelloNonce, HelloReply, Join, JoinReply, PREAMBLE_LEN, Preamble, Refusal,
};
pub use join_address::{JoinAddressError, MAX_JOIN_ADDRESSES, check_join_address};
pub use message::{Cancel, DeliveryStatus, MessageHeader};
pub use policy::{PolicyChange, PolicyNote};
pub use preface::Preface;
pub use record::{Ack, Data, Record, SubflowAck, data_header};
pub use varint::VARINT_MAX;

/// The version of the protocol spoken here: peers of another major version are refused, a higher
/// minor version only adds records and fields that may be ignored.
pub const VERSION: (u8, u8) = (2, 0);

/// The longest record body: a data record's largest payload and its offset.
pub const MAX_BODY: u64 = MAX_PAYLOAD + 16;
/// The most stream bytes in one data record.
pub const MAX_PAYLOAD: u64 = 64 << 10;
/// The longest record body before a connection exists (hello, join and their answers).
pub const MAX_HANDSHAKE_BODY: u64 = 2 << 10;
/// The most ranges reported in one acknowledgement: the lowest of those held.
pub const MAX_ACK_RANGES: usize = 256;
/// The most subflows that one acknowledgement has counts of: the newest.
pub const MAX_SUBFLOW_ACKS: usize = 64;
/// How far a peer may send before the first acknowledgement tells it the credit: what TCP lets two paths
/// send in the first round trip (ten segments each, RFC 6928). Each connection of a server has memory for
/// that, however many there are.
pub const INITIAL_CREDIT: u64 = 32 << 10;

/// What is wrong with bytes that came from a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The peer speaks something else.
    #[error("the peer does not speak weftline (it began with {0}); check address and port")]
    NotWeftline(String),
    /// The peer is of another major version.
    #[error("the peer speaks weftline protocol {0}.{1}, this side {major}.x; use matching versions", major = VERSION.0)]
    Version(u8, u8),
    /// A record longer than its type may be.
    #[error("a record of type {kind:#x} has {len} bytes, more than the {max} allowed")]
    TooLong {
        /// The record's type.
        kind: u64,
        /// Its announced body length in bytes.
        len: u64,
        /// The longest body allowed in bytes.
        max: u64,
    },
    /// A record whose body does not follow its type's form.
    #[error("a malformed {0} record")]
    Malformed(&'static str),
    /// A record type that must be understood and is not.
    #[error("an unknown record of critical type {0:#x}")]
    UnknownCritical(u64),
    /// An address for joins that no server may announce.
    #[error(transparent)]
    JoinAddress(#[from] JoinAddressError),
    /// A record where another was due.
    #[error("a record where {0} was due")]
    Unexpected(&'static str),
}
