//! Authentication and encryption of a link: Noise IK (`Noise_IK_25519_AESGCM_SHA256`) over datagrams
//! (docs/protocol.md, "COTAG datagrams").
//!
//! Each node has one static key and knows those of its neighbours, so one round trip authenticates both
//! sides and hides their keys; there are no certificates and there is nothing to negotiate. The node
//! further from the gateway is the initiator ([`Role::Initiator`]): it knows the other node's address,
//! and may move. Each datagram has an explicit counter: datagrams may be lost or reordered, and a node
//! accepts none twice.

mod channel;
mod datagram;
mod handshakes;
mod rising;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use channel::Role;
pub(crate) use datagram::MAC;
pub(crate) use handshakes::{HandshakeTable, Link, Local, Taken, is_mac, seal_mac};
pub(crate) use session::{DATA_OVERHEAD, Nonce, PACKET_OVERHEAD};

use crate::key::PublicKey;

/// Why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// It has not the form of one of ours.
    #[error("no datagram of ours")]
    Malformed,
    /// It was changed, or made by somebody without the key.
    #[error("forged or corrupted")]
    Forged,
    /// It came before, or is too old to tell.
    #[error("replayed")]
    Replayed,
    /// Of a session that is not, or no longer, or of a handshake that is over.
    #[error("of no session")]
    Unknown,
    /// A handshake for another node's key, or corrupted.
    #[error("a handshake for another key than this node's")]
    OtherKey,
    /// A handshake from a node whose key is not expected here.
    #[error("a handshake from a node with the unknown key {0}")]
    Stranger(PublicKey),
    /// A handshake whose answer has been given, or that is older than one that was answered.
    #[error("a handshake that came before")]
    Old,
    /// More handshakes than are answered in this time.
    #[error("more handshakes than are answered")]
    Flood,
}
