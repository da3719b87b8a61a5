//! Registers a descriptor of our own with tokio.
#![expect(unsafe_code, reason = "tokio cannot check that a type keeps its descriptor")]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Lets tokio tell when `fd` becomes readable.
pub(crate) fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open and names the same descriptor until it is dropped, which the
    // `AsyncFd` that owns it does last.
    let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    registered.map_err(Into::into)
}
