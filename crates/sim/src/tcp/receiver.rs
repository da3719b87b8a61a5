//! The receiving half: what has arrived, and when to acknowledge it (RFC 5681 §4.2 with Linux's
//! quick and delayed acknowledgements, RFC 2018, RFC 2883), and how large the window is.

use std::ops::Range;

use weftline_core::ranges::RangeSet;

use super::MS;
use super::buffer::ReceiveBuffer;
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
    /// Whether it is due because something came out of order or twice.
    is_urgent: bool,
    ack_at_ns: Option<u64>,
    echo_ns: u64,
    /// The round trip by the time stamps that come back with data, smoothed.
    rtt_ns: u64,
    /// The last of these time stamps.
    rtt_of_ns: u64,
    /// The application has read below this.
    read: u64,
    buffer: ReceiveBuffer,
    /// The end of the window that the peer knows.
    advertised: u64,
}

impl Receiver {
    pub(super) const fn new(mss: u64, buffer: ReceiveBuffer) -> Self {
        Self {
            mss,
            in_order: 0,
            above: RangeSet::new(),
            recent: [0; MAX_SACKS],
            duplicate: None,
            quick_acks: QUICK_ACKS,
            pending: 0,
            ack_now: false,
            is_urgent: false,
            ack_at_ns: None,
            echo_ns: 0,
            rtt_ns: 0,
            rtt_of_ns: 0,
            read: 0,
            buffer,
            advertised: buffer.window(),
        }
    }

    /// Everything below has arrived.
    pub(super) const fn in_order(&self) -> u64 {
        self.in_order
    }

    /// Notes the time stamp of a segment, with payload or without: TSecr answers the one that advances
    /// the window, or the earliest unacknowledged one (RFC 7323 §4.3).
    pub(super) const fn note_time(&mut self, segment: &Segment) {
        if segment.seq <= self.in_order && self.pending == 0 {
            self.echo_ns = segment.sent_ns;
        }
    }

    /// Takes a segment with payload.
    pub(super) fn handle(&mut self, segment: &Segment, now_ns: u64) {
        let range = segment.seq..segment.seq + u64::from(segment.len);
        self.note_time(segment);
        self.take_rtt(segment, now_ns);
        if range.end > self.advertised {
            // Beyond the window: an honest sender does not do this; it is acknowledged, not kept.
            return self.hurry();
        }
        let had = range.end <= self.in_order || self.above.contains(&range);
        if had {
            self.duplicate = Some(range);
            return self.hurry();
        }
        self.pending += u64::from(segment.len);
        if range.start > self.in_order {
            self.above.insert(range.clone());
            self.note_recent(range.start);
            return self.hurry();
        }
        self.in_order = range.end;
        if let Some(held) = self.above.range_at(range.end) {
            self.in_order = held.end;
        }
        if !self.above.is_empty() {
            // A hole is filled, or partly.
            self.hurry();
            self.above.remove_below(self.in_order);
        }
        self.schedule_ack(now_ns);
    }

    /// Samples the round trip of this end (Linux, `tcp_rcv_rtt_measure_ts`).
    const fn take_rtt(&mut self, segment: &Segment, now_ns: u64) {
        if segment.echo_ns == 0 || segment.echo_ns == self.rtt_of_ns {
            return;
        }
        self.rtt_of_ns = segment.echo_ns;
        let sample = now_ns - segment.echo_ns;
        self.rtt_ns =
            if self.rtt_ns == 0 { sample } else { self.rtt_ns - self.rtt_ns / 8 + sample / 8 };
    }

    /// A run of segments that came closely one after the other has ended. Its last one came while the
    /// application was at work on those before, and is acknowledged when that is done (Linux,
    /// `TCPF_ACK_DEFERRED` in `tcp_release_cb`).
    pub(super) const fn end_run(&mut self) {
        self.ack_now |= self.pending >= self.mss;
    }

    /// Something came that the sender must know of at once.
    const fn hurry(&mut self) {
        self.ack_now = true;
        self.is_urgent = true;
    }

    /// Whether an acknowledgement is due that does not wait for what follows closely.
    pub(super) const fn is_urgent(&self) -> bool {
        self.is_urgent
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

    /// The application has read below `offset`. A window that is twice what the sender knows is told at
    /// once (Linux, `tcp_cleanup_rbuf`).
    pub(super) fn set_read(&mut self, offset: u64, now_ns: u64) {
        debug_assert!(offset <= self.in_order && offset >= self.read, "reading goes on in order");
        self.read = offset;
        self.buffer.adjust(offset, self.rtt_ns, now_ns);
        let known = self.advertised.saturating_sub(self.in_order);
        let open = self.limit().saturating_sub(self.in_order);
        self.ack_now |= 2 * known <= self.buffer.window() && open > 0 && open >= 2 * known;
    }

    /// Where the window ends that there is room for; what was told stays.
    fn limit(&self) -> u64 {
        let held = self.in_order - self.read + self.above.bytes();
        self.advertised.max(self.in_order + self.buffer.window().saturating_sub(held))
    }

    /// The round trip of this end; 0 before it is known.
    pub(super) const fn rtt_ns(&self) -> u64 {
        self.rtt_ns
    }

    /// Whether one will go out, now or in time.
    pub(super) const fn is_ack_scheduled(&self) -> bool {
        self.ack_now || self.ack_at_ns.is_some()
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
        (self.ack_now, self.is_urgent) = (false, false);
        self.ack_at_ns = None;
        self.advertised = self.limit();
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
