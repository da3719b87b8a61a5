//! Hearing of changes of links, addresses, routes and rules.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

/// The groups of messages wanted, as bits (linux/rtnetlink.h, `RTNLGRP_*` less one): links, IPv4
/// addresses, routes and rules, IPv6 addresses, routes and rules.
const GROUPS: u32 = 1 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 18;

/// A socket that is readable when something has changed. What that is must be asked anew: a message
/// that is lost for want of buffer space costs nothing so.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Starts watching.
    ///
    /// # Errors
    /// When the system does not let us.
    pub fn start() -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Protocol 0 is `NETLINK_ROUTE`.
        let kind = SocketType::RAW;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Self(socket))
    }

    /// Reads all that waits.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn drain(&self) -> io::Result<()> {
        let mut scratch = [0; 8 << 10];
        loop {
            match rustix::net::recv(&self.0, &mut scratch, RecvFlags::TRUNC) {
                Ok(_) | Err(rustix::io::Errno::NOBUFS | rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Watch {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
