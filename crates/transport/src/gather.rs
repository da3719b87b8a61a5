//! Reading a socket without being woken for every packet.
//!
//! At 100 Mb/s a packet comes every 120 µs, and to be woken for it costs more than all that is done
//! with it. So a reader takes the packets of a busy millisecond together, as a network card does with
//! its interrupts: it asks the kernel not to be woken for less than a large read (`SO_RCVLOWAT`), and
//! looks at the socket by itself once a millisecond. While few bytes come it is woken for each, so that
//! a question and its answer wait for nothing.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::Interest;
use tokio::net::TcpStream;
use weftline_core::Instant;

use crate::{clock, sys};

/// How often a reader that gathers looks at its socket.
const INTERVAL: Duration = Duration::from_millis(1);
/// So many reads, of so many bytes together, in an interval make it busy.
const BUSY_READS: u32 = 3;
const BUSY_BYTES: usize = 4 << 10;
/// An interval that brings less is not busy any more: one packet.
const QUIET_BYTES: usize = 1500;
/// So many bytes are little.
pub(crate) const LITTLE: usize = 4 << 10;
/// A reader that gathers is woken for so many bytes at once.
const LARGE_READ: i32 = 128 << 10;

/// How a socket is being read.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// When the present interval began, and what has been read in it.
    since: Instant,
    reads: u32,
    bytes: usize,
    /// When to look next, while bytes gather.
    look_at: Option<Instant>,
}

impl Gather {
    /// Appends what comes next to `into`, for which room for `room` bytes is made. Zero when the peer
    /// has closed.
    pub(crate) async fn read(
        &mut self,
        stream: &TcpStream,
        into: &mut BytesMut,
        room: usize,
    ) -> io::Result<usize> {
        loop {
            match self.look_at {
                None => stream.readable().await?,
                Some(at) => tokio::select! {
                    ready = stream.readable() => ready?,
                    () = tokio::time::sleep_until(clock::to_tokio(at)) => {}
                },
            }
            let read = match take(stream, into, room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                read => Some(read?),
            };
            if let Some(low_water) = self.note(read.unwrap_or(0), clock::now()) {
                // The kernel tells of what has come by now.
                sys::set_receive_low_water(stream, low_water)?;
            }
            if let Some(read) = read {
                return Ok(read);
            }
        }
    }

    /// Notes a read of so many bytes. Returns for how many the kernel is to wake the reader from now on,
    /// if that changes.
    fn note(&mut self, read: usize, now: Instant) -> Option<i32> {
        if self.look_at.is_some() {
            self.look_at = (read > QUIET_BYTES).then(|| now + INTERVAL);
            (self.since, self.reads, self.bytes) = (now, 0, 0);
            return self.look_at.is_none().then_some(1);
        }
        if now.since(self.since) >= INTERVAL {
            (self.since, self.reads, self.bytes) = (now, 0, 0);
        }
        self.reads += 1;
        self.bytes += read;
        let is_busy = self.reads >= BUSY_READS && self.bytes >= BUSY_BYTES;
        self.look_at = is_busy.then(|| self.since + INTERVAL);
        is_busy.then_some(LARGE_READ)
    }
}

thread_local! {
    /// Where little is read first.
    static SMALL: RefCell<BytesMut> = RefCell::new(BytesMut::with_capacity(LITTLE));
}

/// Reads what the socket has, whether the runtime knows of it or not. Of a reader that has never had much
/// nothing waits in a buffer of its own, of which many would be idle.
fn take(stream: &TcpStream, into: &mut BytesMut, room: usize) -> io::Result<usize> {
    if room > LITTLE {
        into.reserve(room);
        return receive(stream, into);
    }
    SMALL.with_borrow_mut(|small| {
        small.clear();
        let read = receive(stream, small)?;
        into.extend_from_slice(small);
        Ok(read)
    })
}

fn receive(stream: &TcpStream, into: &mut BytesMut) -> io::Result<usize> {
    let space = into.capacity() - into.len();
    let mut taken = None;
    // If the runtime takes the socket for readable, a short read tells that it is empty now: the next
    // one need not find that out.
    let _ = stream.try_io(Interest::READABLE, || {
        let read = sys::receive(stream, into);
        let emptied = !matches!(read, Ok(read) if read == 0 || read == space);
        taken = Some(read);
        if emptied { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    taken.unwrap_or_else(|| sys::receive(stream, into))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    fn us(us: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + us * 1000)
    }

    #[test]
    fn a_busy_millisecond_begins_it_and_a_quiet_one_ends_it() {
        let mut gather = Gather::default();
        // A packet each 600 us, and questions and answers of any frequency, are read as they come.
        assert!((0..100).all(|n| gather.note(1448, us(600 * n)).is_none()));
        assert!((0..100).all(|n| gather.note(40, us(70_000 + 10 * n)).is_none()));
        let changes = [0, 100, 200].map(|at| gather.note(1448, us(100_000 + at)));
        assert_eq!(changes, [None, None, Some(LARGE_READ)]);
        assert_eq!(gather.look_at, Some(us(101_000)));
        assert_eq!(gather.note(14_480, us(101_050)), None);
        assert_eq!(gather.look_at, Some(us(102_050)));
        assert_eq!(gather.note(1448, us(102_100)), Some(1));
        assert_eq!(gather.look_at, None);
    }

    /// Whatever fits, and in whichever buffer, bytes come behind those that are there.
    #[tokio::test]
    async fn all_is_read_in_its_order_into_any_room() {
        for room in [LITTLE, LITTLE + 1, 64 << 10] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let sent: Vec<u8> = (0..100_000_u32).map(|n| (n / 7) as u8).collect();
            let parts = [LITTLE, 1, LITTLE - 1, LITTLE + 1, 3 * LITTLE];
            let mut into = BytesMut::from(&b"before"[..]);
            let mut gather = Gather::default();
            let (mut from, mut turn) = (0, 0);
            while from < sent.len() {
                let until = sent.len().min(from + parts[turn % parts.len()]);
                peer.write_all(&sent[from..until]).await.unwrap();
                (from, turn) = (until, turn + 1);
                while into.len() < from + 6 {
                    assert!(gather.read(&stream, &mut into, room).await.unwrap() > 0);
                }
            }
            assert!(into[..6] == *b"before" && into[6..] == sent[..], "{room}");
        }
    }

    #[tokio::test]
    async fn nothing_stays_in_the_socket_in_either_way_of_reading() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut gather = Gather::default();
        for round in 0..20_u8 {
            let room = if round % 2 == 0 { LITTLE } else { LITTLE + 1 };
            // As if it had been busy: the kernel will not wake the reader for one byte.
            gather.look_at = Some(clock::now());
            sys::set_receive_low_water(&stream, LARGE_READ).unwrap();
            for byte in [round, round + 100] {
                let mut into = BytesMut::new();
                peer.write_all(&[byte]).await.unwrap();
                assert_eq!(gather.read(&stream, &mut into, room).await.unwrap(), 1);
                assert_eq!(into[..], [byte]);
            }
            assert_eq!(gather.look_at, None, "few bytes come");
        }
        gather.look_at = Some(clock::now());
        sys::set_receive_low_water(&stream, LARGE_READ).unwrap();
        peer.write_all(&[7; 10]).await.unwrap();
        drop(peer);
        let mut into = BytesMut::new();
        while gather.read(&stream, &mut into, 4096).await.unwrap() > 0 {}
        assert_eq!(into[..], [7; 10]);
    }
}
