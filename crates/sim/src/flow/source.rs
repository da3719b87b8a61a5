//! What the server's application writes, and when.

use std::collections::VecDeque;
use std::ops::Range;

use weftline_core::time::nanos;
use weftline_core::{Bitrate, ByteCount};

use super::messages::{Made, Messages, Tally};
use crate::tcp::MS;

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
    /// Messages with deadlines.
    Messages(Box<Messages>),
}

/// How often a source of constant rate produces a block: as a camera's encoder hands over slices,
/// and as the lab's sender does.
const TICK_NS: u64 = MS;
/// The least that it produces at once.
const BLOCK_MIN: u64 = 16;

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

    pub(crate) fn messages(messages: Messages) -> Self {
        Self::of(Kind::Messages(Box::new(messages)))
    }

    const fn of(kind: Kind) -> Self {
        Self { kind, began_ns: None, stopped_ns: None, written: 0, marks: VecDeque::new() }
    }

    /// Begins to send; messages made and due within `counts` count.
    pub(crate) fn begin(&mut self, now_ns: u64, counts: Range<u64>) {
        self.began_ns = Some(now_ns);
        if let Kind::Messages(messages) = &mut self.kind {
            messages.begin(now_ns, counts);
        }
    }

    pub(crate) const fn stop(&mut self, now_ns: u64) {
        self.stopped_ns = Some(now_ns);
    }

    /// When the oldest byte was written that has not been released; `None` if all have been, and for
    /// sources that are always ahead.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        self.marks.front().map(|&(_, written_ns)| written_ns)
    }

    /// Bytes that the application would like to write now.
    pub(crate) fn ready(&mut self, now_ns: u64) -> u64 {
        let (Some(began), None) = (self.began_ns, self.stopped_ns) else { return 0 };
        match &mut self.kind {
            Kind::Bulk => u64::MAX,
            Kind::Size(size) => *size - self.written,
            Kind::Messages(messages) => messages.ready(now_ns),
            Kind::Cbr(rate) => {
                let due = bytes_at(*rate, (now_ns - began) / TICK_NS * TICK_NS) - self.written;
                if due < BLOCK_MIN { 0 } else { due }
            }
        }
    }

    /// Whether an application with times of its own has something to write now.
    pub(crate) fn is_due(&mut self, now_ns: u64) -> bool {
        matches!(self.kind, Kind::Cbr(_) | Kind::Messages(_)) && self.ready(now_ns) > 0
    }

    /// When there will be more after `now_ns`, if nothing else happens.
    pub(crate) fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let (Some(began), None) = (self.began_ns, self.stopped_ns) else { return None };
        match &self.kind {
            Kind::Messages(messages) => Some(messages.next_ns()),
            Kind::Cbr(rate) => {
                let more = tick_of(*rate, self.written + BLOCK_MIN)?;
                let next = ((now_ns - began) / TICK_NS + 1) * TICK_NS;
                Some(began + more.max(next))
            }
            Kind::Bulk | Kind::Size(_) => None,
        }
    }

    /// Notes that `n` bytes were written. Those of a constant rate count from when they were
    /// produced, even when the connection takes them later: a camera does not wait.
    pub(crate) fn wrote(&mut self, n: u64, now_ns: u64) {
        let start = self.written;
        self.written += n;
        if let Kind::Messages(messages) = &mut self.kind {
            let marks = &mut self.marks;
            messages.wrote(start, self.written, |end, made_ns| marks.push_back((end, made_ns)));
            return;
        }
        if let (Kind::Cbr(rate), Some(began)) = (&self.kind, self.began_ns) {
            let mut at = start;
            while at < self.written
                && let Some(tick) = tick_of(*rate, at + 1)
            {
                at = bytes_at(*rate, tick).min(self.written);
                self.marks.push_back((at, began + tick));
            }
            return;
        }
        match self.marks.back_mut() {
            Some((end, at)) if *at == now_ns && *end == start => *end = self.written,
            _ => self.marks.push_back((self.written, now_ns)),
        }
    }

    /// The message that a connection of messages is to take next.
    pub(crate) fn next_message(&mut self, now_ns: u64) -> Option<Made> {
        let (Some(_), None) = (self.began_ns, self.stopped_ns) else { return None };
        let Kind::Messages(messages) = &mut self.kind else { return None };
        messages.first(now_ns)
    }

    /// The connection has taken it.
    pub(crate) fn message_taken(&mut self, made: &Made) {
        let Kind::Messages(messages) = &mut self.kind else { return };
        messages.taken();
        self.written += made.bytes;
    }

    /// A message that the connection had taken is there, or was dropped.
    pub(crate) fn message_ended(&mut self, number: u64, there: bool, now_ns: u64) -> Option<Made> {
        let Kind::Messages(messages) = &mut self.kind else { return None };
        messages.ended(number, there, now_ns)
    }

    /// What has come of its messages.
    pub(crate) fn tally(&self) -> Option<&Tally> {
        let Kind::Messages(messages) = &self.kind else { return None };
        Some(messages.tally())
    }

    /// Bytes written.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// The bytes up to `to` have been released: calls `each` with bytes and their writing time.
    pub(crate) fn released(
        &mut self,
        from: u64,
        to: u64,
        now_ns: u64,
        mut each: impl FnMut(u64, u64),
    ) {
        if let Kind::Messages(messages) = &mut self.kind {
            messages.read(to, now_ns);
        }
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

/// The tick, in nanoseconds, at which a rate has produced `bytes`.
fn tick_of(rate: Bitrate, bytes: u64) -> Option<u64> {
    let time = rate.time_for(ByteCount::new(bytes))?;
    Some(nanos(time).div_ceil(TICK_NS) * TICK_NS)
}

/// Bytes of a rate in a time.
fn bytes_at(rate: Bitrate, ns: u64) -> u64 {
    (u128::from(rate.as_bps()) * u128::from(ns) / 8_000_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_comes_in_ticks_and_ages_from_its_making() {
        let mut source = Source::cbr(Bitrate::mbps(8));
        source.begin(0, 0..0);
        assert_eq!((source.ready(MS - 1), source.next_ns(0)), (0, Some(MS)));
        assert_eq!((source.ready(MS), source.is_due(MS)), (1000, true));
        // The connection takes half of it, late.
        source.wrote(500, 5 * MS);
        assert_eq!(source.ready(5 * MS), 4500);
        assert_eq!(source.next_ns(5 * MS), Some(6 * MS), "what waits needs no timer");
        source.wrote(1500, 6 * MS);
        let mut ages = Vec::new();
        source.released(0, 2000, 9 * MS, |bytes, at| ages.push((bytes, at / MS)));
        assert_eq!(ages, [(500, 1), (500, 1), (1000, 2)]);
    }

    #[test]
    fn slow_rates_wait_for_a_block() {
        let mut source = Source::cbr(Bitrate::bps(8_000));
        source.begin(0, 0..0);
        assert_eq!((source.ready(15 * MS), source.next_ns(0)), (0, Some(16 * MS)));
        assert_eq!(source.ready(16 * MS), 16);
    }
}
