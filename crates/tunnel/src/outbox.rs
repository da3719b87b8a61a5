//! Datagrams to one address that wait to leave, many in a system call. What the kernel has no room
//! for stays and goes first when it has some; what is dropped is counted.

use std::collections::VecDeque;
use std::io;

use crate::class::Class;
use crate::way::Way;

/// Most bytes that leave in one system call: the kernel's 64 KiB with all headers.
const BATCH_BYTES: usize = 60_000;

/// Bytes that may wait before no more are taken: twice what one read of a TUN device gives, so that
/// what was read before the kernel said that it has no room is kept. The last datagram may exceed
/// it.
pub(crate) const OUTBOX_BYTES: usize = 2 * 65_536;
/// Bytes that may wait besides of what goes first.
const FIRST_BYTES: usize = 16 * 1024;

/// What datagrams are handed to.
pub(crate) trait Kernel {
    /// Takes datagrams, each of `segment` bytes but the last, or one if that is `None`, with `class`
    /// in their IP headers.
    fn transmit(
        &self,
        to: Way,
        contents: &[u8],
        segment: Option<usize>,
        class: Class,
    ) -> io::Result<()>;

    /// The most datagrams of one length that it takes in a call.
    fn most_segments(&self) -> usize;
}

/// What became of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The kernel took so many, of so many bytes.
    pub(crate) taken: u64,
    pub(crate) bytes: u64,
    /// Of these, those longer than [`Outbox::bar`], and the longest of all.
    pub(crate) longer: u64,
    pub(crate) longest: usize,
    /// Dropped: too long for the interface.
    pub(crate) too_long: u64,
    /// Dropped: refused for another reason, such as no route.
    pub(crate) refused: u64,
    /// The kernel has no room; the others wait.
    pub(crate) blocked: bool,
}

/// What waits.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Several only while the kernel has no room.
    batches: VecDeque<Batch>,
    /// How many of these go before the others.
    first: usize,
    bytes: usize,
    spare: Option<Batch>,
    /// Datagrams of more bytes are counted when the kernel takes them.
    pub(crate) bar: usize,
}

/// Datagrams that leave in one call.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    /// The length of each but the last.
    segment: usize,
    count: usize,
    class: Class,
    /// Whether the last is shorter, or the only one: nothing can follow it in the same call.
    closed: bool,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Whether another datagram may be pushed.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes < OUTBOX_BYTES
    }

    /// The same of one that goes first.
    pub(crate) fn has_room_first(&self) -> bool {
        self.bytes < OUTBOX_BYTES + FIRST_BYTES
    }

    /// As [`Self::push`], a datagram that goes before those which the kernel has no room for, after others
    /// of its kind: it leaves by itself, so that these stay in order.
    pub(crate) fn push_first(
        &mut self,
        kernel: &impl Kernel,
        to: Way,
        class: Class,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Sent {
        // With several, the kernel has had no room for the first.
        let blocked = self.batches.len() > 1;
        let sent = if blocked { Sent::default() } else { self.flush(kernel, to) };
        let mut batch = self.new_batch();
        write(&mut batch.bytes);
        if batch.bytes.is_empty() {
            self.spare = Some(batch);
            return sent;
        }
        self.bytes += batch.bytes.len();
        batch.note(batch.bytes.len(), class);
        batch.closed = true;
        self.batches.insert(self.first, batch);
        self.first += 1;
        sent
    }

    /// Lets `write` append a datagram of a class, or nothing; if it does not fit to those that wait,
    /// these leave first.
    pub(crate) fn push(
        &mut self,
        kernel: &impl Kernel,
        to: Way,
        class: Class,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Sent {
        if self.batches.is_empty() {
            let batch = self.new_batch();
            self.batches.push_back(batch);
        }
        let batch = self.batches.back_mut().expect("there is one");
        let start = batch.bytes.len();
        write(&mut batch.bytes);
        let length = batch.bytes.len() - start;
        self.bytes += length;
        if length == 0 {
            if start == 0 {
                self.spare = self.batches.pop_back();
            }
            return Sent::default();
        }
        if batch.fits(start, length, class, kernel.most_segments()) {
            batch.note(length, class);
            return Sent::default();
        }
        let mut next = self.new_batch();
        let batch = self.batches.back_mut().expect("there is one");
        next.bytes.extend_from_slice(&batch.bytes[start..]);
        next.note(length, class);
        batch.bytes.truncate(start);
        // With several, the kernel has had no room for the first.
        let blocked = self.batches.len() > 1;
        let sent = if blocked { Sent::default() } else { self.flush(kernel, to) };
        self.batches.push_back(next);
        sent
    }

    /// Hands the kernel what waits, in order, until it has no room.
    pub(crate) fn flush(&mut self, kernel: &impl Kernel, to: Way) -> Sent {
        let mut all = Sent::default();
        while let Some(batch) = self.batches.front_mut() {
            let done = batch.send(kernel, to, self.bar, &mut all);
            self.bytes -= done;
            if all.blocked {
                break;
            }
            self.spare = self.batches.pop_front();
            self.first = self.first.saturating_sub(1);
        }
        all
    }

    fn new_batch(&mut self) -> Batch {
        let mut batch = self.spare.take().unwrap_or_default();
        batch.bytes.clear();
        Batch { bytes: batch.bytes, ..Batch::default() }
    }
}

impl Batch {
    /// Whether a datagram of `length` bytes, appended after `start`, can leave with the others.
    fn fits(&self, start: usize, length: usize, class: Class, most: usize) -> bool {
        start == 0
            || (!self.closed
                && class == self.class
                && length <= self.segment
                && self.bytes.len() <= BATCH_BYTES
                && self.count < most)
    }

    fn note(&mut self, length: usize, class: Class) {
        if self.count == 0 {
            (self.segment, self.class) = (length, class);
        }
        self.count += 1;
        self.closed = length < self.segment;
    }

    /// Hands it to the kernel; bytes that need not be kept.
    fn send(&mut self, kernel: &impl Kernel, to: Way, bar: usize, all: &mut Sent) -> usize {
        let several = self.bytes.len() > self.segment;
        let sent = kernel.transmit(to, &self.bytes, several.then_some(self.segment), self.class);
        let mut done = 0;
        match sent {
            // The driver has no segmentation after all: one by one.
            Err(error) if several && is_unsupported(&error) => {
                for datagram in self.bytes.chunks(self.segment) {
                    let sent = kernel.transmit(to, datagram, None, self.class);
                    all.count(sent, datagram.len(), self.segment, bar);
                    if all.blocked {
                        break;
                    }
                    done += datagram.len();
                }
            }
            sent => {
                all.count(sent, self.bytes.len(), self.segment, bar);
                done = if all.blocked { 0 } else { self.bytes.len() };
            }
        }
        self.bytes.drain(..done);
        self.count = self.bytes.len().div_ceil(self.segment);
        done
    }
}

impl Sent {
    /// Counts so many bytes in datagrams of `segment` bytes, of which the last may be shorter.
    fn count(&mut self, sent: io::Result<()>, bytes: usize, segment: usize, bar: usize) {
        let datagrams = bytes.div_ceil(segment) as u64;
        match sent {
            Ok(()) => {
                self.taken += datagrams;
                self.bytes += bytes as u64;
                let last = bytes - (datagrams - 1) as usize * segment;
                let before = if segment > bar { datagrams - 1 } else { 0 };
                self.longer += before + u64::from(last > bar);
                self.longest = self.longest.max(segment.min(bytes));
            }
            Err(error) if is_full(&error) => self.blocked = true,
            Err(error) if quinn_udp::is_msg_size_err(&error) => self.too_long += datagrams,
            Err(error) => {
                tracing::trace!(%error, "a datagram was refused");
                self.refused += datagrams;
            }
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use proptest::prelude::*;

    use super::*;

    /// A kernel with room for some calls, then for none until it is given more.
    #[derive(Default)]
    struct Fake {
        room: Cell<usize>,
        segments: bool,
        got: RefCell<Vec<Vec<u8>>>,
        classes: RefCell<Vec<Class>>,
    }

    impl Kernel for Fake {
        fn transmit(
            &self,
            _: Way,
            contents: &[u8],
            segment: Option<usize>,
            class: Class,
        ) -> io::Result<()> {
            if segment.is_some() && !self.segments {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            if contents.first() == Some(&0xff) {
                return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
            }
            let room = self.room.get().checked_sub(1);
            self.room.set(room.ok_or(io::Error::from_raw_os_error(libc::EAGAIN))?);
            let datagrams = contents.chunks(segment.unwrap_or(contents.len()));
            self.got.borrow_mut().extend(datagrams.map(<[u8]>::to_vec));
            self.classes.borrow_mut().resize(self.got.borrow().len(), class);
            Ok(())
        }

        fn most_segments(&self) -> usize {
            if self.segments { 8 } else { 1 << 16 }
        }
    }

    fn to() -> Way {
        Way::to(([127, 0, 0, 1], 1).into())
    }

    #[test]
    fn what_the_kernel_has_no_room_for_waits_and_goes_first() {
        let (kernel, mut outbox) = (Fake { segments: true, ..Fake::default() }, Outbox::default());
        let push = |outbox: &mut Outbox, bytes: &[u8]| {
            outbox.push(&kernel, to(), Class::NONE, |out| out.extend_from_slice(bytes))
        };
        assert!(!push(&mut outbox, &[1; 100]).blocked);
        assert!(push(&mut outbox, &[2; 200]).blocked, "the first has to leave before");
        push(&mut outbox, &[3; 50]);
        assert_eq!((outbox.bytes, kernel.got.borrow().len()), (350, 0));
        kernel.room.set(1);
        let sent = outbox.flush(&kernel, to());
        assert_eq!((sent.taken, sent.bytes, sent.blocked), (1, 100, true));
        kernel.room.set(9);
        let sent = outbox.flush(&kernel, to());
        assert_eq!((sent.taken, sent.bytes, sent.blocked), (2, 250, false));
        assert!(outbox.is_empty() && outbox.bytes == 0);
        assert_eq!(*kernel.got.borrow(), [vec![1; 100], vec![2; 200], vec![3; 50]]);
        assert_eq!(push(&mut outbox, &[]), Sent::default(), "nothing is nothing");
        assert!(outbox.is_empty());
    }

    #[test]
    fn what_goes_first_passes_what_waits_and_has_room_where_nothing_else_has() {
        let (kernel, mut outbox) = (Fake { segments: true, ..Fake::default() }, Outbox::default());
        let mut number = 0_u8;
        // Nothing else waits yet, and what comes later goes after it nevertheless.
        outbox.push_first(&kernel, to(), Class::NONE, |out| out.extend_from_slice(&[199; 9]));
        while outbox.has_room() {
            number += 1;
            let datagram = vec![number; 4000 + usize::from(number)];
            outbox.push(&kernel, to(), Class::NONE, |out| out.extend_from_slice(&datagram));
        }
        for first in [200, 201] {
            assert!(outbox.has_room_first());
            outbox.push_first(&kernel, to(), Class::NONE, |out| out.extend_from_slice(&[first; 9]));
        }
        outbox.push_first(&kernel, to(), Class::NONE, |_| {});
        kernel.room.set(2);
        assert!(outbox.flush(&kernel, to()).blocked);
        outbox.push_first(&kernel, to(), Class::NONE, |out| out.extend_from_slice(&[202; 9]));
        while outbox.has_room_first() {
            outbox.push_first(&kernel, to(), Class::NONE, |out| out.resize(out.len() + 999, 203));
        }
        assert!(outbox.bytes < OUTBOX_BYTES + FIRST_BYTES + 999);
        kernel.room.set(usize::MAX);
        outbox.flush(&kernel, to());
        assert!(outbox.is_empty() && (outbox.bytes, outbox.first) == (0, 0));
        let mut order: Vec<_> = kernel.got.borrow().iter().map(|datagram| datagram[0]).collect();
        order.dedup();
        assert!(order.into_iter().eq((199..=203).chain(1..=number)));
    }

    #[test]
    fn what_can_never_leave_is_counted() {
        let (kernel, mut outbox) = (Fake { segments: true, ..Fake::default() }, Outbox::default());
        kernel.room.set(9);
        for _ in 0..3 {
            outbox.push(&kernel, to(), Class::NONE, |out| out.extend_from_slice(&[0xff; 10]));
        }
        let sent = outbox.flush(&kernel, to());
        assert_eq!((sent.too_long, sent.taken, outbox.is_empty()), (3, 0, true));
        assert_eq!((sent.longer, sent.longest), (0, 0), "the kernel took none");
        for segments in [true, false] {
            let kernel = Fake { segments, room: Cell::new(9), ..Fake::default() };
            let mut outbox = Outbox { bar: 99, ..Outbox::default() };
            for length in [100, 100, 99] {
                outbox.push(&kernel, to(), Class::NONE, |out| out.resize(out.len() + length, 1));
            }
            let sent = outbox.flush(&kernel, to());
            assert_eq!((sent.taken, sent.longer, sent.longest), (3, 2, 100));
        }
    }

    #[test]
    fn each_datagram_leaves_with_its_class_and_in_order() {
        let kernel = Fake { segments: true, room: Cell::new(99), ..Fake::default() };
        let mut outbox = Outbox::default();
        let classes = [0, 0, 2, 2, 0xb8, 0, 3].map(Class);
        for (number, class) in (0_u8..).zip(classes) {
            outbox.push(&kernel, to(), class, |out| out.extend_from_slice(&[number; 10]));
        }
        outbox.flush(&kernel, to());
        assert_eq!(*kernel.classes.borrow(), classes);
        assert!(kernel.got.borrow().iter().map(|datagram| datagram[0]).eq(0..7));
        assert_eq!(kernel.room.get(), 99 - 5, "those of one class together");
    }

    proptest! {
        /// Whatever room there is, each datagram comes out once and in order, is dropped and
        /// counted, or waits; and no more wait than the bound.
        #[test]
        fn nothing_is_lost_silently(
            steps in prop::collection::vec((1_usize..2000, 0_u8..4, 0_usize..3), 1..400),
            segments: bool,
        ) {
            let (kernel, mut outbox) = (Fake { segments, ..Fake::default() }, Outbox::default());
            let (mut pushed, mut all) = (Vec::new(), Sent::default());
            let mut add = |sent: Sent| {
                all.taken += sent.taken;
                all.bytes += sent.bytes;
                all.too_long += sent.too_long;
                all.refused += sent.refused;
            };
            for (number, (length, action, room)) in steps.into_iter().enumerate() {
                kernel.room.set(kernel.room.get().min(3) + room);
                if action == 0 {
                    add(outbox.flush(&kernel, to()));
                } else if outbox.has_room() {
                    let datagram = vec![(number % 251) as u8; length];
                    add(outbox.push(&kernel, to(), Class::NONE, |out| out.extend_from_slice(&datagram)));
                    pushed.push(datagram);
                }
                prop_assert!(outbox.bytes < OUTBOX_BYTES + 2000);
            }
            kernel.room.set(usize::MAX);
            add(outbox.flush(&kernel, to()));
            prop_assert!(outbox.is_empty());
            prop_assert_eq!(all.taken, pushed.len() as u64);
            prop_assert_eq!(&*kernel.got.borrow(), &pushed);
            prop_assert_eq!(all.bytes as usize, pushed.iter().map(Vec::len).sum::<usize>());
        }
    }
}
