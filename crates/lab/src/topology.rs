//! Who is where: each path is one prefix, the client at .1 and the server at .2.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Most paths a testbed has: the path's index is one byte of its addresses, and kernel MPTCP takes
/// at most eight subflows.
pub const PATHS_MAX: usize = 8;

/// The two ends of every path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The downloading side.
    Client,
    /// The side the data comes from.
    Server,
}

/// The addresses of one end of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// In 10.77.PATH.0/24.
    pub v4: Ipv4Addr,
    /// In fd77:PATH::/64.
    pub v6: Ipv6Addr,
}

/// The addresses of `end` on the path of index `path`.
///
/// # Panics
/// When `path` is not below [`PATHS_MAX`].
pub fn address(path: usize, end: End) -> Address {
    assert!(path < PATHS_MAX, "the number of paths is checked when a testbed is made");
    let host = match end {
        End::Client => 1,
        End::Server => 2,
    };
    Address {
        v4: Ipv4Addr::new(10, 77, path as u8, host),
        v6: Ipv6Addr::new(0xfd77, path as u16, 0, 0, 0, 0, 0, host.into()),
    }
}
