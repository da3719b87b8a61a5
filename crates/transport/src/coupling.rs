//! Telling a coupled congestion control of the kernel which sockets are one connection: Linux knows
//! it of the subflows of MPTCP, and of ours only if somebody says so.

use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::OnceLock;

use tokio::net::TcpStream;

type Tell = dyn Fn(BorrowedFd<'_>, u64) + Send + Sync;

/// Who is told.
static COUPLER: OnceLock<Coupler> = OnceLock::new();

struct Coupler(Box<Tell>);

impl fmt::Debug for Coupler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Coupler")
    }
}

/// From now on calls `tell` with the socket of each new subflow of this process, client's or
/// server's, and the number of its connection in this process. It is called from the runtime's
/// threads and must not block. The first call of this function counts; whether it is this one.
pub fn set_coupler(tell: impl Fn(BorrowedFd<'_>, u64) + Send + Sync + 'static) -> bool {
    COUPLER.set(Coupler(Box::new(tell))).is_ok()
}

/// A subflow of the connection comes up.
pub(crate) fn couple(stream: &TcpStream, connection: u64) {
    if let Some(Coupler(tell)) = COUPLER.get() {
        tell(stream.as_fd(), connection);
    }
}
