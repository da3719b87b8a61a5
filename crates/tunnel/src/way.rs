//! The way of a datagram.

use std::net::{IpAddr, SocketAddr};

/// Where a datagram goes, and from which address of this machine, if that matters: firewalls and NAT on the
/// way let an answer through only from the address that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) peer: SocketAddr,
    pub(crate) own: Option<IpAddr>,
}

impl Way {
    /// To `peer`, from the address that the system takes.
    pub(crate) fn to(peer: SocketAddr) -> Self {
        Self { peer, own: None }
    }
}
