//! What is asked of the system without a safe wrapper for it in the crates that are used.
#![expect(unsafe_code, reason = "no crate that is used here sets this option of a socket")]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// Has the kernel say nothing of when datagrams came. `quinn-udp` asks for that, and has room for 96 bytes of
/// what is said: of datagrams that are read together, the ECN field would not fit in any more.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn stop_timestamps(socket: impl AsFd) -> io::Result<()> {
    let (socket, off): (_, libc::c_int) = (socket.as_fd(), 0);
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel reads an integer of this
    // length, which lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const off).cast(),
            size_of_val(&off) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
