//! A netlink socket: requests, and the kernel's answers to them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::message::{Builder, DUMP, messages, u32_at};

/// The kernel answers at once; a request that is not answered is a fault.
const PATIENCE: Duration = Duration::from_secs(5);
/// The kernel's messages have 32 KiB at most.
const BUFFER: usize = 64 << 10;
/// Types of messages of every family.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// A socket for one request at a time.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    /// Opens one; `None` is rtnetlink's protocol.
    pub(crate) fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let kind = SocketType::RAW;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, protocol)?;
        // The kernel chooses the port; it is what an nf_tables table belongs to.
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Self(socket))
    }

    /// Sends requests and waits for the answer of each.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) fn request(&self, requests: Builder) -> io::Result<()> {
        let (bytes, mut wanted) = requests.finish();
        rustix::net::send(&self.0, &bytes, SendFlags::empty())?;
        let mut buffer = vec![0; BUFFER];
        let mut first = Ok(());
        while wanted > 0 {
            for (kind, payload) in messages(self.receive(&mut buffer)?) {
                if kind == ERROR {
                    wanted = wanted.saturating_sub(1);
                    first = first.and(code(payload));
                }
            }
            // A batch that is refused as a whole is answered by less than an answer for each.
            if first.is_err() {
                break;
            }
        }
        first
    }

    /// Asks for a list and hands each entry to `each`.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn list(
        &self,
        kind: u16,
        header: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let mut request = Builder::default();
        request.message(kind, DUMP, header);
        rustix::net::send(&self.0, &request.finish().0, SendFlags::empty())?;
        let mut buffer = vec![0; BUFFER];
        loop {
            for (kind, payload) in messages(self.receive(&mut buffer)?) {
                match kind {
                    DONE => return Ok(()),
                    ERROR => return code(payload),
                    _ => each(payload),
                }
            }
        }
    }

    fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        loop {
            match rustix::net::recv(&self.0, &mut *buffer, RecvFlags::empty()) {
                Ok((length, _)) => return Ok(&buffer[..length]),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let message = "the kernel does not answer a request by netlink";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The kernel's answer: nothing wrong, or a number of errno(3).
fn code(payload: &[u8]) -> io::Result<()> {
    let code = u32_at(payload, 0).map_or(0, u32::cast_signed);
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code.saturating_neg())) }
}
