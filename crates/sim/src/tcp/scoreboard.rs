//! What is outstanding: segments in order of sequence, those selectively acknowledged, those lost.
//!
//! Acknowledged and lost ranges are interval sets and segments are looked up by bisection, so that
//! an acknowledgement costs what it changes, not what is in flight.

use std::collections::VecDeque;
use std::ops::Range;

use weftline_core::ranges::RangeSet;

use super::rtt::RttEstimator;

/// A segment that has been sent and is not below SND.UNA.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) seq: u64,
    pub(super) len: u32,
    flags: u8,
    /// When it was last sent.
    pub(super) xmit_ns: u64,
    /// State of the delivery rate estimator when it was last sent.
    pub(super) stamp: RateStamp,
}

const SACKED: u8 = 1;
const LOST: u8 = 2;
/// Sent again since it was marked lost, and not known to be lost again.
const RESENT: u8 = 4;
/// Sent again at least once.
const EVER_RESENT: u8 = 8;

impl Sent {
    pub(super) const fn new(seq: u64, len: u32, xmit_ns: u64, stamp: RateStamp) -> Self {
        Self { seq, len, flags: 0, xmit_ns, stamp }
    }

    const fn end(&self) -> u64 {
        self.seq + self.len as u64
    }

    const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What the delivery rate estimator notes with each segment sent
/// (draft-cheng-iccrg-delivery-rate-estimation-02 §3.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateStamp {
    /// Segments delivered so far.
    pub(super) delivered: u64,
    /// When the last of them was.
    pub(super) delivered_ns: u64,
    /// When the first segment of the flight was sent.
    pub(super) first_ns: u64,
    /// Whether the application was the limit.
    pub(super) app_limited: bool,
}

/// What one acknowledgement delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    /// Segments newly acknowledged or selectively acknowledged.
    pub(super) segments: u64,
    /// Of them, those selectively acknowledged.
    pub(super) newly_sacked: u64,
    /// When the first segment newly acknowledged was sent, if it was sent once.
    pub(super) oldest_ns: Option<u64>,
    /// When the last one was.
    pub(super) newest_ns: Option<u64>,
    /// When the first segment newly and selectively acknowledged was sent, if it was sent once.
    pub(super) sacked_ns: Option<u64>,
    /// The youngest segment delivered: what the rate is measured by, and when it was sent.
    pub(super) rate: Option<(RateStamp, u64)>,
    /// Whether a segment arrived before one sent earlier.
    reordered: bool,
    /// The highest end acknowledged in any way before this acknowledgement: what it tells of both
    /// below and above a new hole is no reordering (Linux, `prior_fack` in `tcp_ack`).
    prior_fack: u64,
    /// `sent_ns` of the segment that moved SND.UNA (TSecr); 0 if none did.
    echo_ns: u64,
}

impl Delivery {
    fn take_rate(&mut self, sent: &Sent) {
        let newer = self.rate.is_none_or(|(stamp, xmit)| {
            (sent.stamp.delivered, sent.xmit_ns) >= (stamp.delivered, xmit)
        });
        if newer {
            self.rate = Some((sent.stamp, sent.xmit_ns));
        }
    }
}

/// The most recently sent segment that is known to be delivered (RFC 8985 §5.2).
#[derive(Clone, Copy, Debug, Default)]
struct Rack {
    xmit_ns: u64,
    end: u64,
    rtt_ns: u64,
    /// The highest end selectively or cumulatively acknowledged.
    fack: u64,
    reordering_seen: bool,
    /// Multiplies the reordering window; grows with duplicates reported.
    steps: u64,
    /// Recoveries left until `steps` is 1 again.
    persist: u32,
}

/// Segments that count as evidence of loss without any reordering seen (RFC 8985 §6.2).
const DUP_THRESH: u64 = 3;
/// Recoveries without a duplicate after which the reordering window is small again.
const STEPS_PERSIST: u32 = 16;

/// The segments outstanding on a connection.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    segs: VecDeque<Sent>,
    sacked: RangeSet,
    /// Lost and not sent again.
    lost: RangeSet,
    /// (when sent, sequence) in order of sending; entries whose segment has been delivered, lost or
    /// sent again since are skipped.
    order: VecDeque<(u64, u64)>,
    sacked_out: u64,
    lost_out: u64,
    resent_out: u64,
    /// Segments ever marked lost.
    lost_total: u64,
    rack: Rack,
}

impl Scoreboard {
    /// Segments in flight: sent, and neither delivered nor lost.
    pub(super) fn pipe(&self) -> u64 {
        self.segs.len() as u64 + self.resent_out - self.sacked_out - self.lost_out
    }

    /// Segments between SND.UNA and SND.NXT.
    pub(super) fn outstanding(&self) -> u64 {
        self.segs.len() as u64
    }

    /// Segments selectively acknowledged.
    pub(super) const fn sacked(&self) -> u64 {
        self.sacked_out
    }

    /// Segments lost, those sent again included.
    pub(super) const fn lost(&self) -> u64 {
        self.lost_out
    }

    /// Segments ever marked lost.
    pub(super) const fn lost_total(&self) -> u64 {
        self.lost_total
    }

    /// The first segment that has not been acknowledged.
    pub(super) fn head(&self) -> Option<&Sent> {
        self.segs.front()
    }

    // ---- sending ----

    /// Notes a new segment, sent for the first time.
    pub(super) fn push(&mut self, sent: Sent) {
        self.order.push_back((sent.xmit_ns, sent.seq));
        self.segs.push_back(sent);
    }

    /// The sequence of the lowest segment that is lost and not sent again.
    pub(super) fn next_lost(&self) -> Option<u64> {
        self.lost.first().map(|range| range.start)
    }

    /// The sequence of the highest segment.
    pub(super) fn last(&self) -> Option<u64> {
        self.segs.back().map(|sent| sent.seq)
    }

    /// Notes that the segment at `seq` is sent again, and gives its length.
    pub(super) fn resend(&mut self, seq: u64, now_ns: u64, stamp: RateStamp) -> u32 {
        let index = self.index(seq).expect("only outstanding segments are sent again");
        let sent = &mut self.segs[index];
        if sent.is(LOST) && !sent.is(RESENT) {
            self.lost.remove(sent.seq..sent.end());
        }
        if !sent.is(RESENT) && sent.is(LOST) {
            sent.flags |= RESENT;
            self.resent_out += 1;
        }
        sent.flags |= EVER_RESENT;
        sent.xmit_ns = now_ns;
        sent.stamp = stamp;
        self.order.push_back((now_ns, seq));
        sent.len
    }

    fn index(&self, seq: u64) -> Option<usize> {
        let index = self.segs.partition_point(|sent| sent.seq < seq);
        (self.segs.get(index)?.seq == seq).then_some(index)
    }

    // ---- acknowledgements ----

    /// Begins to take an acknowledgement; `echo_ns` is its time stamp if it moves SND.UNA.
    pub(super) fn begin_ack(&self, echo_ns: Option<u64>) -> Delivery {
        let prior_fack = self.rack.fack;
        Delivery { prior_fack, echo_ns: echo_ns.unwrap_or(0), ..Delivery::default() }
    }

    /// Takes a SACK block that lies within what is outstanding.
    pub(super) fn take_sack(
        &mut self,
        block: Range<u64>,
        now_ns: u64,
        rtt: &RttEstimator,
        delivery: &mut Delivery,
    ) {
        let mut at = block.start;
        while let Some(part) = self.sacked.first_missing(&(at..block.end)) {
            at = part.end;
            let mut index = self.segs.partition_point(|sent| sent.seq < part.start);
            while let Some(&sent) = self.segs.get(index)
                && sent.end() <= part.end
            {
                self.take_sacked(index, now_ns, rtt, delivery);
                index += 1;
            }
            self.sacked.insert(part);
        }
    }

    fn take_sacked(
        &mut self,
        index: usize,
        now_ns: u64,
        rtt: &RttEstimator,
        delivery: &mut Delivery,
    ) {
        let sent = self.segs[index];
        self.forget_loss(&sent);
        self.sacked_out += 1;
        self.segs[index].flags = SACKED | (sent.flags & EVER_RESENT);
        if !sent.is(EVER_RESENT) {
            delivery.reordered |= sent.end() < delivery.prior_fack;
            delivery.sacked_ns = delivery.sacked_ns.or(Some(sent.xmit_ns));
        }
        delivery.newly_sacked += 1;
        self.deliver(&sent, now_ns, rtt, delivery);
    }

    /// Takes a cumulative acknowledgement up to `ack`.
    pub(super) fn take_ack(
        &mut self,
        ack: u64,
        now_ns: u64,
        rtt: &RttEstimator,
        delivery: &mut Delivery,
    ) {
        while let Some(&sent) = self.segs.front()
            && sent.end() <= ack
        {
            self.segs.pop_front();
            if sent.is(SACKED) {
                self.sacked_out -= 1;
                continue;
            }
            self.forget_loss(&sent);
            if !sent.is(EVER_RESENT) {
                delivery.reordered |= sent.end() < delivery.prior_fack;
                delivery.oldest_ns = delivery.oldest_ns.or(Some(sent.xmit_ns));
                delivery.newest_ns = Some(sent.xmit_ns);
            }
            self.deliver(&sent, now_ns, rtt, delivery);
        }
        if !self.sacked.is_empty() {
            self.sacked.remove_below(ack);
        }
        if delivery.reordered {
            self.rack.reordering_seen = true;
        }
        debug_assert!(self.segs.front().is_none_or(|sent| sent.seq >= ack), "whole segments");
    }

    /// A segment that arrived counts no longer as lost or sent again.
    fn forget_loss(&mut self, sent: &Sent) {
        if sent.is(RESENT) {
            self.resent_out -= 1;
        }
        if sent.is(LOST) {
            self.lost_out -= 1;
            if !sent.is(RESENT) {
                self.lost.remove(sent.seq..sent.end());
            }
        }
    }

    fn deliver(&mut self, sent: &Sent, now_ns: u64, rtt: &RttEstimator, delivery: &mut Delivery) {
        delivery.segments += 1;
        delivery.take_rate(sent);
        let rack = &mut self.rack;
        rack.fack = rack.fack.max(sent.end());
        let elapsed = now_ns - sent.xmit_ns;
        let soon = rtt.min_ns().is_some_and(|least| elapsed < least);
        let to_earlier = delivery.echo_ns > 0 && delivery.echo_ns < sent.xmit_ns;
        if sent.is(EVER_RESENT) && (soon || to_earlier) {
            // The answer may be, or is, to the first transmission (RFC 8985 §6.2, step 2).
            return;
        }
        rack.rtt_ns = elapsed;
        if (sent.xmit_ns, sent.end()) > (rack.xmit_ns, rack.end) {
            rack.xmit_ns = sent.xmit_ns;
            rack.end = sent.end();
        }
    }

    // ---- losses ----

    /// Marks lost what was sent long enough before something that arrived (RFC 8985 §6.2). Gives
    /// how many segments, and when to look again.
    pub(super) fn detect(
        &mut self,
        in_recovery: bool,
        now_ns: u64,
        rtt: &RttEstimator,
    ) -> (u64, Option<u64>) {
        let window = self.reordering_window(in_recovery, rtt);
        let mut marked = 0;
        while let Some(&(xmit_ns, seq)) = self.order.front() {
            let Some(index) = self.current(xmit_ns, seq) else {
                self.order.pop_front();
                continue;
            };
            if (xmit_ns, self.segs[index].end()) >= (self.rack.xmit_ns, self.rack.end) {
                break;
            }
            let due_ns = xmit_ns + self.rack.rtt_ns + window;
            if due_ns > now_ns {
                return (marked, Some(due_ns));
            }
            self.order.pop_front();
            self.mark_lost(index);
            marked += 1;
        }
        (marked, None)
    }

    /// The segment of an entry of `order`, if the entry still stands for it.
    fn current(&self, xmit_ns: u64, seq: u64) -> Option<usize> {
        let head = self.segs.front()?;
        let index = match seq {
            _ if seq < head.seq => return None,
            _ if seq == head.seq => 0,
            _ => self.index(seq)?,
        };
        let sent = &self.segs[index];
        let waits = !sent.is(SACKED) && (!sent.is(LOST) || sent.is(RESENT));
        (waits && sent.xmit_ns == xmit_ns).then_some(index)
    }

    fn reordering_window(&self, in_recovery: bool, rtt: &RttEstimator) -> u64 {
        if !self.rack.reordering_seen && (in_recovery || self.sacked_out >= DUP_THRESH) {
            return 0;
        }
        let least = rtt.min_ns().unwrap_or(0);
        (self.rack.steps.max(1) * least / 4).min(rtt.srtt_ns())
    }

    fn mark_lost(&mut self, index: usize) {
        let sent = &mut self.segs[index];
        if sent.is(RESENT) {
            sent.flags &= !RESENT;
            self.resent_out -= 1;
        } else if !sent.is(LOST) {
            self.lost_out += 1;
        }
        sent.flags |= LOST;
        self.lost.insert(sent.seq..sent.end());
        self.lost_total += 1;
    }

    /// The retransmission timer has expired: marks the first segment lost, and all others but those
    /// sent within the last round trip (RFC 8985 §6.3). Gives how many.
    pub(super) fn mark_timeout(&mut self, now_ns: u64, rtt: &RttEstimator) -> u64 {
        let window = self.reordering_window(true, rtt);
        let mut marked = 0;
        for index in 0..self.segs.len() {
            let sent = &self.segs[index];
            let known = sent.is(SACKED) || (sent.is(LOST) && !sent.is(RESENT));
            let recent = sent.xmit_ns + self.rack.rtt_ns + window > now_ns;
            if !known && (index == 0 || !recent) {
                self.mark_lost(index);
                marked += 1;
            }
        }
        marked
    }

    /// Nothing was lost after all: what is marked lost counts as in flight again.
    pub(super) fn unmark_lost(&mut self) {
        for sent in &mut self.segs {
            if sent.is(RESENT) {
                self.resent_out -= 1;
            }
            if sent.is(LOST) {
                self.lost_out -= 1;
                if !sent.is(RESENT) {
                    self.order.push_back((sent.xmit_ns, sent.seq));
                }
            }
            sent.flags &= !(LOST | RESENT);
        }
        self.lost = RangeSet::new();
        self.order.make_contiguous().sort_unstable();
    }

    /// The receiver reported a duplicate: the reordering window grows (RFC 8985 §6.2, step 4).
    pub(super) fn widen_reordering(&mut self) {
        self.rack.steps = (self.rack.steps.max(1) + 1).min(255);
        self.rack.persist = STEPS_PERSIST;
    }

    /// A recovery has ended.
    pub(super) const fn recovery_ended(&mut self) {
        self.rack.persist = self.rack.persist.saturating_sub(1);
        if self.rack.persist == 0 {
            self.rack.steps = 1;
        }
    }

    /// The counts agree with the segments; costs a look at each of them.
    #[cfg(debug_assertions)]
    pub(super) fn check(&self) {
        let count = |flag| self.segs.iter().filter(|sent| sent.is(flag)).count() as u64;
        assert_eq!(self.sacked_out, count(SACKED));
        assert_eq!(self.lost_out, count(LOST));
        assert_eq!(self.resent_out, count(RESENT));
        let waiting = self.segs.iter().filter(|sent| sent.is(LOST) && !sent.is(RESENT));
        assert_eq!(self.lost.bytes(), waiting.map(|sent| u64::from(sent.len)).sum::<u64>());
    }
}
