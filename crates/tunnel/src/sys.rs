//! What is asked of the system without a safe wrapper for it in the crates that are used.
//!
//! `quinn-udp` asks the kernel for more than it has room for: of datagrams that are read together, with the
//! time when they came and the address that they came to, the ECN field would not fit in any more.
#![expect(unsafe_code, reason = "no crate that is used here sets these options of a socket")]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// Has the kernel say nothing of when datagrams came.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn stop_timestamps(socket: impl AsFd) -> io::Result<()> {
    switch_off(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)
}

/// Has the kernel say nothing of which of this machine's addresses datagrams came to.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn stop_addresses(socket: impl AsFd, is_ipv4: bool) -> io::Result<()> {
    match is_ipv4 {
        true => switch_off(socket, libc::IPPROTO_IP, libc::IP_PKTINFO),
        false => switch_off(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    }
}

fn switch_off(socket: impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let (socket, off): (_, libc::c_int) = (socket.as_fd(), 0);
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel reads an integer of this
    // length, which lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const off).cast(),
            size_of_val(&off) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
