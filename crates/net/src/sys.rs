//! What no crate wraps safely: waiting for a descriptor of our own.
#![expect(unsafe_code, reason = "tokio's AsyncFd cannot know that a descriptor stays the same")]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has tokio's reactor watch when there is something to read.
///
/// # Errors
/// When the reactor does not take it.
///
/// # Panics
/// Outside a runtime of tokio.
pub(crate) fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open and the same descriptor for as long as it lives, which is as long
    // as the `AsyncFd` that owns it: nothing here takes it out or puts another one in.
    let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    registered.map_err(io::Error::from)
}
