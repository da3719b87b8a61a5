//! What the server's application writes, and when.

use std::collections::VecDeque;

use weftline_core::time::nanos;
use weftline_core::{Bitrate, ByteCount};

/// An application that sends. Times are nanoseconds from the start of the run.
#[derive(Debug)]
pub(crate) struct Source {
    kind: Kind,
    /// When it began to send.
    began_ns: Option<u64>,
    /// When it stopped.
    stopped_ns: Option<u64>,
    written: u64,
    /// (end offset, when) of what was written and not yet released at the other end.
    marks: VecDeque<(u64, u64)>,
}

#[derive(Debug)]
enum Kind {
    /// As much as goes.
    Bulk,
    /// So many bytes.
    Size(u64),
    /// A constant rate.
    Cbr(Bitrate),
}

/// A constant rate is written in pieces of this size: a full segment's payload.
const PIECE: u64 = 1448;

impl Source {
    pub(crate) const fn bulk() -> Self {
        Self::of(Kind::Bulk)
    }

    pub(crate) const fn size(size: ByteCount) -> Self {
        Self::of(Kind::Size(size.as_u64()))
    }

    pub(crate) const fn cbr(rate: Bitrate) -> Self {
        Self::of(Kind::Cbr(rate))
    }

    const fn of(kind: Kind) -> Self {
        Self { kind, began_ns: None, stopped_ns: None, written: 0, marks: VecDeque::new() }
    }

    pub(crate) const fn begin(&mut self, now_ns: u64) {
        self.began_ns = Some(now_ns);
    }

    /// When it began to send.
    pub(crate) const fn began_ns(&self) -> Option<u64> {
        self.began_ns
    }

    pub(crate) const fn stop(&mut self, now_ns: u64) {
        self.stopped_ns = Some(now_ns);
    }

    /// Bytes that the application would like to write now.
    pub(crate) fn ready(&self, now_ns: u64) -> u64 {
        let (Some(began), None) = (self.began_ns, self.stopped_ns) else { return 0 };
        match self.kind {
            Kind::Bulk => u64::MAX,
            Kind::Size(size) => size - self.written,
            Kind::Cbr(rate) => {
                let due = bytes_at(rate, now_ns - began) / PIECE * PIECE;
                due.saturating_sub(self.written)
            }
        }
    }

    /// When there will be more, if nothing else happens.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let (Some(began), None, Kind::Cbr(rate)) = (self.began_ns, self.stopped_ns, &self.kind)
        else {
            return None;
        };
        let next = ByteCount::new((self.written / PIECE + 1) * PIECE);
        rate.time_for(next).map(|time| began + nanos(time))
    }

    /// Notes that `n` bytes were written.
    pub(crate) fn wrote(&mut self, n: u64, now_ns: u64) {
        let start = self.written;
        self.written += n;
        match self.marks.back_mut() {
            Some((end, at)) if *at == now_ns && *end == start => *end = self.written,
            _ => self.marks.push_back((self.written, now_ns)),
        }
    }

    /// Bytes written.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// The bytes up to `offset` have been released: calls `each` with bytes and their writing time.
    pub(crate) fn released(&mut self, from: u64, to: u64, mut each: impl FnMut(u64, u64)) {
        let mut at = from;
        while at < to {
            let &(end, written_ns) = self.marks.front().expect("what is read was written");
            let upto = end.min(to);
            each(upto - at, written_ns);
            at = upto;
            if end <= to {
                self.marks.pop_front();
            }
        }
    }
}

/// Bytes of a rate in a time.
fn bytes_at(rate: Bitrate, ns: u64) -> u64 {
    (u128::from(rate.as_bps()) * u128::from(ns) / 8_000_000_000) as u64
}
