//! A lane over TCP, as the thread of a bond's end sees it: a pair of sockets within this machine. The other one is
//! held by whoever passes datagrams on as messages of a connection.
//!
//! Each has its own room in the kernel, so that what nobody takes is dropped, as at a link that is full, and costs
//! no other lane anything.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

/// This thread's end.
pub(super) struct Pipe {
    socket: OwnedFd,
    has_ended: AtomicBool,
}

impl Pipe {
    /// Both ends. They keep the bounds of datagrams, and say when the other one is closed.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self { socket: own, has_ended: AtomicBool::new(false) }, other))
    }

    /// The length of the next datagram, which is read into `bytes`; `None` if there is none.
    pub(super) fn read(&self, bytes: &mut [u8]) -> Option<usize> {
        match recv(&self.socket, &mut *bytes, RecvFlags::DONTWAIT) {
            // None is empty: the other end is closed.
            Ok((_, 0)) => self.note_end(),
            Ok((_, length)) => return Some(length.min(bytes.len())),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.note_end(),
        }
        None
    }

    /// Sends a datagram.
    pub(super) fn send(&self, datagram: &[u8]) -> io::Result<()> {
        send(&self.socket, datagram, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn note_end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Whether the other end has been seen to be closed.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn datagrams_keep_their_bounds_what_has_no_room_is_refused_and_the_end_is_seen() {
        let (pipe, other) = Pipe::pair().expect("there are descriptors");
        let other = UnixDatagram::from(other);
        let mut bytes = [0; 2048];
        assert_eq!((pipe.read(&mut bytes), pipe.has_ended()), (None, false));
        for datagram in [&b"one"[..], b"another"] {
            pipe.send(datagram).expect("there is room");
            assert_eq!(other.send(datagram).expect("there is room"), datagram.len());
        }
        for datagram in [&b"one"[..], b"another"] {
            assert_eq!(pipe.read(&mut bytes).map(|length| &bytes[..length]), Some(datagram));
            let length = other.recv(&mut bytes).expect("it was sent");
            assert_eq!(&bytes[..length], datagram);
        }
        let full = (0..10_000).find_map(|_| pipe.send(&[0; 1400]).err());
        assert_eq!(full.map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
        drop(other);
        assert_eq!((pipe.read(&mut bytes), pipe.has_ended()), (None, true));
        assert!(pipe.send(b"late").is_err());
    }
}
