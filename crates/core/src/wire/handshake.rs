//! What is said before a subflow carries data: the preamble, hello and join with their answers.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::join_address;
use super::policy::PolicyNote;
use super::varint::{self, Reader, VARINT_MAX};
use super::{VERSION, WireError};
use crate::PathId;
use crate::scheduler::{RulesOff, SchedulerConfig};

const MAGIC: &[u8; 4] = b"WEFT";

/// Bytes of a [`Preamble`] on the wire.
pub const PREAMBLE_LEN: usize = 6;

/// Longest names and texts in a handshake, in bytes.
const MAX_NAME: usize = 64;
const MAX_TOKEN: usize = 512;
const MAX_REASON: usize = 256;

/// The first bytes each side sends on a subflow: who it is and which protocol version it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// Incompatible changes.
    pub major: u8,
    /// Compatible additions.
    pub minor: u8,
}

impl Preamble {
    /// This side's preamble.
    pub const OURS: Self = Self { major: VERSION.0, minor: VERSION.1 };

    /// The bytes to send.
    pub const fn encode(self) -> [u8; PREAMBLE_LEN] {
        let [a, b, c, d] = *MAGIC;
        [a, b, c, d, self.major, self.minor]
    }

    /// Reads the peer's preamble off the front of what it sent so far.
    ///
    /// `Ok(None)` while more bytes are needed.
    ///
    /// # Errors
    /// As soon as the bytes cannot become a preamble of our major version.
    pub fn decode(input: &mut BytesMut) -> Result<Option<Self>, WireError> {
        let seen = &input[..input.len().min(MAGIC.len())];
        if !MAGIC.starts_with(seen) {
            let start = input[..input.len().min(16)].escape_ascii().to_string();
            return Err(WireError::NotWeftline(format!("\"{start}\"")));
        }
        if input.len() < PREAMBLE_LEN {
            return Ok(None);
        }
        let theirs = Self { major: input[4], minor: input[5] };
        if theirs.major != VERSION.0 {
            return Err(WireError::Version(theirs.major, theirs.minor));
        }
        let _ = input.split_to(PREAMBLE_LEN);
        Ok(Some(theirs))
    }
}

/// The number by which a hello that is said again is known: whoever has it, and is accepted as the
/// same client, adds a subflow to the connection. Zeros for none.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct HelloNonce(pub [u8; 16]);

impl HelloNonce {
    /// Whether there is one.
    pub fn is_some(&self) -> bool {
        self.0 != [0; 16]
    }
}

impl std::fmt::Debug for HelloNonce {
    /// Without the number, which is nobody's business in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HelloNonce")
    }
}

/// Opens a connection on its first subflow (client to server).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The subflow's number, chosen by the client and never used again in the connection.
    pub subflow: u64,
    /// The client's number of the path.
    pub path: u64,
    /// The client's name of the path, for statistics.
    pub path_name: String,
    /// The scheduler both directions use.
    pub scheduler: String,
    /// The congestion control the server's subflow sockets use; empty for its own default.
    pub congestion: String,
    /// The transmission window in bytes; 0 for the usual one.
    pub window: u64,
    /// The path pinned to the forward direction, as path number + 1; 0 for none.
    pub forward_pin: u64,
    /// Proof of who the client is; empty for none.
    pub token: Bytes,
    /// What the path is for.
    pub policy: PolicyNote,
    /// A random number that the client's connections have in common, whose caps hold for all of
    /// them together; zeros for none.
    pub group: [u8; 16],
    /// The longest message that the client takes, in bytes, for a connection of messages; 0 for a
    /// byte stream.
    pub messages: u64,
    /// The time within which a path must deliver to be given new data, in microseconds; 0 for the
    /// aim `throughput`.
    pub latency_us: u64,
    /// The same in every hello of one connection, and in no other's.
    pub nonce: HelloNonce,
    /// Rules of the scheduler that are switched off.
    pub without: RulesOff,
}

/// Accepts a [`Hello`] (server to client).
#[derive(Clone, PartialEq, Eq)]
pub struct HelloReply {
    /// The connection's public number.
    pub session: [u8; 16],
    /// The secret from which later subflows prove that they belong to the connection.
    pub join_secret: [u8; 32],
    /// The longest message that the server takes, in bytes, as [`Hello::messages`].
    pub messages: u64,
    /// Where this server takes joins, at most [`MAX_JOIN_ADDRESSES`](super::MAX_JOIN_ADDRESSES);
    /// without any, where it was told hello.
    pub join_addresses: Vec<SocketAddr>,
}

impl std::fmt::Debug for HelloReply {
    /// Without the secret, which is nobody's business in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HelloReply")
            .field("messages", &self.messages)
            .field("join_addresses", &self.join_addresses)
            .finish_non_exhaustive()
    }
}

/// Adds a subflow to a connection (client to server).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Join {
    /// The connection's number from [`HelloReply`].
    pub session: [u8; 16],
    /// The new subflow's number.
    pub subflow: u64,
    /// The client's number of the path.
    pub path: u64,
    /// The client's name of the path.
    pub path_name: String,
    /// Keyed hash over channel, connection and subflow.
    pub proof: [u8; 32],
    /// What the path is for.
    pub policy: PolicyNote,
    /// The congestion control the server's socket uses, empty for its own default; that of the
    /// hello if it is not said.
    pub congestion: Option<String>,
}

/// Accepts a [`Join`] (server to client).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinReply {}

/// Refuses a hello or a join (server to client); the subflow closes after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// Why, as a number for programs.
    pub code: u64,
    /// Why, for people.
    pub reason: String,
}

impl Hello {
    /// What it asks of its scheduler.
    pub fn scheduler_config(&self) -> SchedulerConfig {
        SchedulerConfig {
            window: (self.window > 0).then_some(self.window),
            forward_pin: self.forward_pin.checked_sub(1).map(PathId),
            latency: (self.latency_us > 0).then(|| Duration::from_micros(self.latency_us)),
            without: self.without,
            ..SchedulerConfig::default()
        }
    }

    pub(super) fn put(&self, out: &mut impl BufMut) {
        varint::put(out, self.subflow);
        varint::put(out, self.path);
        varint::put_bytes(out, self.path_name.as_bytes());
        varint::put_bytes(out, self.scheduler.as_bytes());
        varint::put_bytes(out, self.congestion.as_bytes());
        varint::put(out, self.window.min(VARINT_MAX));
        varint::put(out, self.forward_pin);
        varint::put_bytes(out, &self.token);
        self.policy.put(out);
        out.put_slice(&self.group);
        // What is at the end and has its usual value is left out.
        let without = self.without.bits();
        if self.latency_us > 0 || self.nonce.is_some() || without > 0 {
            varint::put(out, self.messages);
            varint::put(out, self.latency_us);
        } else {
            put_messages(out, self.messages);
        }
        if self.nonce.is_some() || without > 0 {
            out.put_slice(&self.nonce.0);
        }
        if without > 0 {
            varint::put(out, without);
        }
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            subflow: body.varint()?,
            path: body.varint()?,
            path_name: body.text(MAX_NAME)?,
            scheduler: body.text(MAX_NAME)?,
            congestion: body.text(MAX_NAME)?,
            window: body.varint()?,
            forward_pin: body.varint()?,
            token: Bytes::copy_from_slice(body.bytes(MAX_TOKEN)?),
            policy: PolicyNote::read_if_any(body)?,
            group: if body.0.is_empty() { [0; 16] } else { body.array()? },
            messages: read_messages(body)?,
            latency_us: if body.0.is_empty() { 0 } else { body.varint()? },
            nonce: HelloNonce(if body.0.is_empty() { [0; 16] } else { body.array()? }),
            without: RulesOff::from_bits(if body.0.is_empty() { 0 } else { body.varint()? }),
        })
    }
}

impl HelloReply {
    pub(super) fn put(&self, out: &mut impl BufMut) {
        out.put_slice(&self.session);
        out.put_slice(&self.join_secret);
        if self.join_addresses.is_empty() {
            put_messages(out, self.messages);
        } else {
            varint::put(out, self.messages);
            join_address::put(out, &self.join_addresses);
        }
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            session: body.array()?,
            join_secret: body.array()?,
            messages: read_messages(body)?,
            join_addresses: join_address::read(body)?,
        })
    }
}

/// The longest message is said in connections of messages only.
fn put_messages(out: &mut impl BufMut, longest: u64) {
    if longest > 0 {
        varint::put(out, longest);
    }
}

fn read_messages(body: &mut Reader<'_>) -> Option<u64> {
    if body.0.is_empty() { Some(0) } else { body.varint() }
}

impl Join {
    pub(super) fn put(&self, out: &mut impl BufMut) {
        out.put_slice(&self.session);
        varint::put(out, self.subflow);
        varint::put(out, self.path);
        varint::put_bytes(out, self.path_name.as_bytes());
        out.put_slice(&self.proof);
        self.policy.put(out);
        if let Some(congestion) = &self.congestion {
            varint::put_bytes(out, congestion.as_bytes());
        }
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            session: body.array()?,
            subflow: body.varint()?,
            path: body.varint()?,
            path_name: body.text(MAX_NAME)?,
            proof: body.array()?,
            policy: PolicyNote::read_if_any(body)?,
            congestion: if body.0.is_empty() { None } else { Some(body.text(MAX_NAME)?) },
        })
    }
}

impl Refusal {
    pub(super) fn put(&self, out: &mut impl BufMut) {
        // An application's code may be any.
        varint::put(out, self.code.min(VARINT_MAX));
        varint::put_bytes(out, truncated(&self.reason).as_bytes());
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Option<Self> {
        Some(Self { code: body.varint()?, reason: body.text(MAX_REASON)? })
    }
}

/// The longest prefix of `reason` that fits a record.
fn truncated(reason: &str) -> &str {
    let cut = (0..=MAX_REASON.min(reason.len())).rev().find(|&at| reason.is_char_boundary(at));
    &reason[..cut.unwrap_or(0)]
}
