//! A netlink socket: requests, and the kernel's answers to them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::message::{Builder, CHANGED, DUMP, Message, messages, u32_at};

/// The kernel answers at once; a request that is not answered is a fault.
const PATIENCE: Duration = Duration::from_secs(5);
/// The kernel's messages have 32 KiB at most.
const BUFFER: usize = 64 << 10;
/// How often a list is asked for that changes while it is read. Each time takes less than a millisecond, so
/// this much is a machine whose lists never stand still; there the last is as good as any.
const LISTS: usize = 20;
/// Types of messages of every family.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// A socket for one request at a time: of several threads, each waits for its turn.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    /// Held from a request to the last of its answers: another thread would read these, find that they
    /// are not its own, and drop them.
    turn: Mutex<()>,
    /// The number of the last request. What is left of its answers, or comes late, has it too, and is
    /// not taken for an answer to the next.
    last: AtomicU32,
}

impl Netlink {
    /// Opens one; `None` is rtnetlink's protocol.
    pub(crate) fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let kind = SocketType::RAW;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, protocol)?;
        // The kernel chooses the port; it is what an nf_tables table belongs to.
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Self { socket, turn: Mutex::default(), last: AtomicU32::new(0) })
    }

    /// Sends requests; their number, and how many answers there will be.
    fn send(&self, requests: Builder) -> io::Result<(u32, usize)> {
        let number = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let (bytes, wanted) = requests.finish(number);
        rustix::net::send(&self.socket, &bytes, SendFlags::empty())?;
        Ok((number, wanted))
    }

    /// Sends requests and waits for the answer of each.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) fn request(&self, requests: Builder) -> io::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, mut wanted) = self.send(requests)?;
        let mut buffer = vec![0; BUFFER];
        let mut first = Ok(());
        while wanted > 0 {
            for message in answers(self.receive(&mut buffer)?, number) {
                if message.kind == ERROR {
                    wanted = wanted.saturating_sub(1);
                    first = first.and(code(message.payload));
                }
            }
            // A batch that is refused as a whole is answered by less than an answer for each.
            if first.is_err() {
                break;
            }
        }
        first
    }

    /// Asks for a list, and keeps of it what `parse` takes. Where it changed while it was read an entry may
    /// be missing, or there twice, so it is asked for again.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn list<T>(
        &self,
        kind: u16,
        header: &[u8],
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tries = 1;
        loop {
            let (found, changed) = self.list_once(kind, header, &parse)?;
            if !changed || tries == LISTS {
                return Ok(found);
            }
            tries += 1;
        }
    }

    /// A list as it comes, and whether it changed meanwhile.
    fn list_once<T>(
        &self,
        kind: u16,
        header: &[u8],
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<(Vec<T>, bool)> {
        let mut request = Builder::default();
        request.message(kind, DUMP, header);
        let (number, _) = self.send(request)?;
        let mut buffer = vec![0; BUFFER];
        let (mut found, mut changed) = (Vec::new(), false);
        loop {
            for message in answers(self.receive(&mut buffer)?, number) {
                changed |= message.flags & CHANGED != 0;
                match message.kind {
                    // A list that fails in its middle says so at its end.
                    DONE | ERROR => return code(message.payload).map(|()| (found, changed)),
                    _ => found.extend(parse(message.payload)),
                }
            }
        }
    }

    fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        loop {
            match rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
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
        self.socket.as_fd()
    }
}

/// Those of the messages that answer the request of this number.
fn answers(bytes: &[u8], number: u32) -> impl Iterator<Item = Message<'_>> {
    messages(bytes).filter(move |message| message.sequence == number)
}

/// The kernel's answer: nothing wrong, or a number of errno(3).
fn code(payload: &[u8]) -> io::Result<()> {
    let code = u32_at(payload, 0).map_or(0, u32::cast_signed);
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code.saturating_neg())) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::message::ACK;

    /// An answer to the request of this number: a number of errno(3), or 0.
    fn answer(number: u32, code: i32) -> Vec<u8> {
        let mut answer = Builder::default();
        answer.message(ERROR, 0, &code.wrapping_neg().to_ne_bytes());
        answer.finish(number).0
    }

    /// A socket that is answered, so many times, by what `answers` makes of a request's place among them and
    /// of its number.
    fn in_the_kernels_place(
        requests: u8,
        answers: impl Fn(u8, u32) -> Vec<Vec<u8>> + Send + 'static,
    ) -> (Netlink, thread::JoinHandle<()>) {
        let pair = rustix::net::socketpair;
        let (near, far) =
            pair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        for end in [&near, &far] {
            set_socket_timeout(end, Timeout::Recv, Some(Duration::from_secs(400))).unwrap();
        }
        let kernel = thread::spawn(move || {
            let mut buffer = [0; 256];
            for request in 0..requests {
                let (length, _) = rustix::net::recv(&far, &mut buffer, RecvFlags::empty()).unwrap();
                let number = messages(&buffer[..length]).next().unwrap().sequence;
                for answer in answers(request, number) {
                    rustix::net::send(&far, &answer, SendFlags::empty()).unwrap();
                }
            }
        });
        (Netlink { socket: near, turn: Mutex::default(), last: AtomicU32::new(0) }, kernel)
    }

    #[test]
    fn a_list_that_changes_while_it_is_read_is_read_again() {
        // The second and the third entry come while the first list is read.
        let (netlink, kernel) = in_the_kernels_place(2, |request, number| {
            let (flags, entries) = [(CHANGED, 1..=1), (0, 1..=3)][usize::from(request)].clone();
            let mut answer = Builder::default();
            for entry in entries {
                answer.message(16, 0, &[entry; 4]);
            }
            answer.message(DONE, flags, &[0; 4]);
            vec![answer.finish(number).0]
        });
        let found = netlink.list(18, &[0; 16], |payload| payload.first().copied()).unwrap();
        assert_eq!(found, [1, 2, 3]);
        kernel.join().unwrap();
    }

    #[test]
    fn what_is_left_of_an_earlier_answer_is_none() {
        let (netlink, kernel) = in_the_kernels_place(3, |request, number| match request {
            0 => vec![answer(0, 17), answer(number, 0)],
            1 => vec![answer(1, 0), answer(number, 28)],
            _ => vec![answer(number, 0)],
        });
        let request = || {
            let mut request = Builder::default();
            request.message(16, ACK, &[]);
            netlink.request(request)
        };
        request().unwrap();
        assert_eq!(request().unwrap_err().raw_os_error(), Some(28));
        request().unwrap();
        kernel.join().unwrap();
    }

    #[test]
    fn threads_wait_for_their_turn() {
        // Of links, which the kernel lists to everybody.
        const GET_LINK: u16 = 18;
        let netlink = Netlink::open(None).unwrap();
        let look = || {
            for _ in 0..500 {
                let found = netlink.list(GET_LINK, &[0; 16], |_| Some(())).unwrap();
                assert!(!found.is_empty(), "loopback is always there");
            }
        };
        thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(look)));
    }
}
