//! Hearing of changes of links, addresses, routes and rules.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use tokio::io::unix::AsyncFd;

use crate::sys;

/// The groups of messages wanted, as bits (linux/rtnetlink.h, `RTNLGRP_*` less one): links, IPv4
/// addresses, routes and rules, IPv6 addresses, routes and rules.
const GROUPS: u32 = 1 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 18;

/// Hears that something has changed. What that is must be asked anew: a message that is lost for want
/// of buffer space costs nothing so.
#[derive(Debug)]
pub struct Watch(AsyncFd<OwnedFd>);

impl Watch {
    /// Starts watching.
    ///
    /// # Errors
    /// When the system does not let us.
    ///
    /// # Panics
    /// Outside a runtime of tokio.
    pub fn start() -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Protocol 0 is `NETLINK_ROUTE`.
        let kind = SocketType::RAW;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        sys::readable(socket).map(Self)
    }

    /// Waits until something has changed since the last call. Cancel safe.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn changed(&self) -> io::Result<()> {
        let mut guard = self.0.readable().await?;
        drain(self.0.get_ref())?;
        guard.clear_ready();
        Ok(())
    }
}

/// Reads all that waits. What it says is of no matter.
fn drain(socket: &OwnedFd) -> io::Result<()> {
    let mut scratch = [0; 8 << 10];
    loop {
        match rustix::net::recv(socket, &mut scratch, RecvFlags::TRUNC) {
            Ok(_) | Err(rustix::io::Errno::NOBUFS | rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
