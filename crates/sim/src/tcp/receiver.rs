//! The receiving half: what has arrived, and when to acknowledge it (RFC 5681 §4.2 with Linux's
//! quick and delayed acknowledgements, RFC 2018, RFC 2883).

use std::ops::Range;

use weftline_core::ranges::RangeSet;

use super::MS;
use super::segment::{MAX_SACKS, Segment};

/// Segments acknowledged at once at the beginning of a connection (Linux, `TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// How long an acknowledgement waits for a second segment (Linux, `TCP_ATO_MIN`).
const DELAY_NS: u64 = 40 * MS;

/// The receiving half of an endpoint.
#[derive(Debug)]
pub(super) struct Receiver {
    mss: u64,
    /// Everything below has arrived (RCV.NXT).
    in_order: u64,
    above: RangeSet,
    /// Where the most recent arrivals above the in-order point were, youngest first.
    recent: [u64; MAX_SACKS],
    duplicate: Option<Range<u64>>,
    quick_acks: u32,
    /// Payload bytes arrived and not acknowledged.
    pending: u64,
    ack_now: bool,
    ack_at_ns: Option<u64>,
    echo_ns: u64,
    /// The application has read below this.
    read: u64,
    buffer: u64,
    /// The end of the window that the peer knows.
    advertised: u64,
}

impl Receiver {
    pub(super) const fn new(mss: u64, buffer: u64) -> Self {
        Self {
            mss,
            in_order: 0,
            above: RangeSet::new(),
            recent: [0; MAX_SACKS],
            duplicate: None,
            quick_acks: QUICK_ACKS,
            pending: 0,
            ack_now: false,
            ack_at_ns: None,
            echo_ns: 0,
            read: 0,
            buffer,
            advertised: buffer,
        }
    }

    /// Everything below has arrived.
    pub(super) const fn in_order(&self) -> u64 {
        self.in_order
    }

    /// Takes a segment with payload.
    pub(super) fn handle(&mut self, segment: &Segment, now_ns: u64) {
        let range = segment.seq..segment.seq + u64::from(segment.len);
        // TSecr answers the segment that advances the window, or the earliest unacknowledged one
        // (RFC 7323 §4.3).
        if range.start <= self.in_order && self.pending == 0 {
            self.echo_ns = segment.sent_ns;
        }
        if range.end > self.advertised {
            // Beyond the window: an honest sender does not do this; it is acknowledged, not kept.
            self.ack_now = true;
            return;
        }
        let had = range.end <= self.in_order || self.above.contains(&range);
        if had {
            self.duplicate = Some(range);
            self.ack_now = true;
            return;
        }
        self.pending += u64::from(segment.len);
        if range.start > self.in_order {
            self.above.insert(range.clone());
            self.note_recent(range.start);
            self.ack_now = true;
            return;
        }
        self.in_order = range.end;
        if let Some(held) = self.above.range_at(range.end) {
            self.in_order = held.end;
        }
        if !self.above.is_empty() {
            // A hole is filled, or partly.
            self.ack_now = true;
            self.above.remove_below(self.in_order);
        }
        self.schedule_ack(now_ns);
    }

    fn schedule_ack(&mut self, now_ns: u64) {
        if self.quick_acks > 0 {
            self.quick_acks -= 1;
            self.ack_now = true;
        } else if self.pending > self.mss {
            self.ack_now = true;
        } else if self.ack_at_ns.is_none() {
            self.ack_at_ns = Some(now_ns + DELAY_NS);
        }
    }

    fn note_recent(&mut self, start: u64) {
        let known = self.recent.iter().position(|&offset| offset == start);
        let last = known.unwrap_or(MAX_SACKS - 1);
        self.recent.copy_within(0..last, 1);
        self.recent[0] = start;
    }

    /// The application has read below `offset`. A window that has opened by half is told at once.
    pub(super) fn set_read(&mut self, offset: u64) {
        debug_assert!(offset <= self.in_order && offset >= self.read, "reading goes on in order");
        self.read = offset;
        let limit = self.read + self.buffer;
        let closed = self.advertised.saturating_sub(self.in_order) < 2 * self.mss;
        if limit >= self.advertised + self.buffer / 2 || (closed && limit > self.advertised) {
            self.ack_now = true;
        }
    }

    /// Makes an acknowledgement due, whatever has arrived.
    pub(super) const fn force_ack(&mut self) {
        self.ack_now = true;
    }

    /// Whether an acknowledgement must go out now.
    pub(super) fn ack_due(&self, now_ns: u64) -> bool {
        self.ack_now || self.ack_at_ns.is_some_and(|at| at <= now_ns)
    }

    /// When one must go out.
    pub(super) const fn deadline_ns(&self) -> Option<u64> {
        self.ack_at_ns
    }

    /// Fills in the acknowledgement of a segment that goes out.
    pub(super) fn acknowledge(&mut self, segment: &mut Segment) {
        self.pending = 0;
        self.ack_now = false;
        self.ack_at_ns = None;
        self.advertised = self.advertised.max(self.read + self.buffer);
        segment.has_ack = true;
        segment.ack = self.in_order;
        segment.limit = self.advertised;
        segment.echo_ns = self.echo_ns;
        if self.above.is_empty() && self.duplicate.is_none() {
            return;
        }
        self.fill_sacks(segment);
    }

    fn fill_sacks(&mut self, segment: &mut Segment) {
        let mut add = |block: Range<u64>| {
            let count = usize::from(segment.sack_count);
            let new = !segment.sacks[..count].contains(&(block.start, block.end));
            if count < MAX_SACKS && new {
                segment.sacks[count] = (block.start, block.end);
                segment.sack_count += 1;
            }
        };
        if let Some(duplicate) = self.duplicate.take() {
            add(duplicate);
            segment.dsack = true;
        }
        for start in self.recent {
            if let Some(block) = self.above.range_at(start) {
                add(block);
            }
        }
    }
}
