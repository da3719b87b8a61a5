//! What is sent now: retransmissions, new data, probes; pacing and bursts.

use super::*;

/// A paced burst lasts this long at the pacing rate (Linux, `sk_pacing_shift` of 10).
const BURST_NS: u64 = MS;
/// The most a paced burst holds, in bytes (Linux, `GSO_LEGACY_MAX_SIZE`).
const BURST_MAX: u64 = 64 << 10;
/// The least a paced burst holds, in segments (Linux, `tcp_min_tso_segs`).
const BURST_MIN_SEGMENTS: u64 = 2;
/// New data wait for at most this part of the window (Linux, `tcp_tso_win_divisor`).
const DEFER_DIVISOR: u64 = 3;

impl Sender {
    /// The next segment to send now, without its acknowledgement part.
    pub(in crate::tcp) fn poll_transmit(&mut self, now_ns: u64) -> Option<Segment> {
        if let Some(forced) = self.forced.take() {
            return self.send_forced(forced, now_ns);
        }
        self.consider_idle(now_ns);
        if self.board.pipe() >= self.window() {
            self.note_limited(true);
            return None;
        }
        let lost = self.board.next_lost();
        let new = self.has_new();
        if lost.is_none() && !new {
            self.note_limited(false);
            return None;
        }
        if !self.paced(now_ns) || (lost.is_none() && self.defers(now_ns)) {
            return None;
        }
        match lost {
            Some(seq) => Some(self.resend(seq, now_ns)),
            None => Some(self.send_new(now_ns)),
        }
    }

    /// Whether new data wait for a larger burst: the kernel hands bursts to the interface, of what
    /// a millisecond at the pacing rate takes, rather than single segments, while acknowledgements
    /// come quickly (Linux, `tcp_tso_should_defer`).
    pub(super) fn defers(&self, now_ns: u64) -> bool {
        self.waits_for_burst((self.end - self.nxt).div_ceil(self.mss), now_ns)
    }

    /// As [`defers`](Self::defers), with `waiting` segments to send.
    pub(in crate::tcp) fn waits_for_burst(&self, waiting: u64, now_ns: u64) -> bool {
        if self.phase != Phase::Open || self.own_pace().is_some() {
            return false;
        }
        let Some(head) = self.board.head() else { return false };
        let srtt = self.rtt.srtt_ns();
        let recent = now_ns - self.last_send_ns <= MS;
        let answer_soon = head.xmit_ns + srtt <= now_ns + MS.min(srtt / 2);
        // A burst under way goes on.
        if !recent || !answer_soon || self.last_send_ns == now_ns {
            return false;
        }
        let window = self.window();
        let open = window.saturating_sub(self.board.pipe());
        let open = open.min((self.limit - self.nxt) / self.mss);
        open < self.burst(self.pacing_rate()).min(waiting).min(window / DEFER_DIVISOR)
    }

    /// Segments of a burst at a pacing rate.
    pub(super) fn burst(&self, rate: Bitrate) -> u64 {
        let bytes = rate.bytes_in(Duration::from_nanos(BURST_NS)).as_u64();
        (bytes.min(BURST_MAX) / self.mss).max(BURST_MIN_SEGMENTS)
    }

    /// Whether there is a new segment that the peer's window lets go.
    pub(super) fn has_new(&self) -> bool {
        self.nxt < self.end && self.next_len() > 0
    }

    pub(super) fn next_len(&self) -> u64 {
        let len = self.mss.min(self.end - self.nxt);
        if self.nxt + len > self.limit { 0 } else { len }
    }

    pub(super) fn send_forced(&mut self, forced: Forced, now_ns: u64) -> Option<Segment> {
        match forced {
            Forced::Window => Some(self.ask_window(now_ns)),
            Forced::Head => {
                let seq = self.board.head()?.seq;
                Some(self.resend(seq, now_ns))
            }
            Forced::Probe => {
                self.stats.probes += 1;
                let new = self.has_new();
                let segment = match new {
                    true => self.send_new(now_ns),
                    false => {
                        let seq = self.board.last()?;
                        self.resend(seq, now_ns)
                    }
                };
                self.probe = Some(Probe { end: self.nxt, resent: !new });
                // One probe at a time: what comes next is the retransmission timer.
                self.probe_at_ns = None;
                Some(segment)
            }
        }
    }

    /// A segment that the peer answers with its window, and that carries nothing (RFC 9293
    /// §3.8.6.1; Linux, `tcp_xmit_probe_skb`).
    fn ask_window(&mut self, now_ns: u64) -> Segment {
        self.last_send_ns = now_ns;
        Segment { seq: self.nxt, wants_answer: true, sent_ns: now_ns, ..Segment::default() }
    }

    /// Whether pacing lets a segment go now; takes it from the burst.
    pub(super) fn paced(&mut self, now_ns: u64) -> bool {
        let Some(rate) = self.own_pace() else { return true };
        if self.burst_left == 0 {
            if now_ns < self.pace_at_ns {
                return false;
            }
            self.burst_left = self.burst(rate);
        }
        self.burst_left -= 1;
        true
    }

    /// Moves the time of the next burst on by what a segment of `len` bytes takes.
    pub(super) fn pace(&mut self, len: u64, now_ns: u64) {
        let Some(rate) = self.own_pace() else { return };
        let bps = u128::from(rate.as_bps().max(1));
        let took = u128::from(len) * 8 * u128::from(SECOND) / bps;
        let took = u64::try_from(took).unwrap_or(u64::MAX / 4);
        // A timer that fired late is made up for by at most half of the segment's time (Linux,
        // `tcp_update_skb_after_send`).
        let late = now_ns.saturating_sub(self.pace_at_ns).min(took / 2);
        self.pace_at_ns = self.pace_at_ns.max(now_ns) + took - late;
    }

    pub(super) fn send_new(&mut self, now_ns: u64) -> Segment {
        let len = self.next_len();
        let seq = self.nxt;
        if self.board.outstanding() == 0 {
            self.rto_from_ns = now_ns;
            self.control.on_restart(Instant::from_nanos(now_ns));
        }
        let stamp = self.stamp(now_ns);
        let len32 = u32::try_from(len).expect("a segment is short");
        self.board.push(Sent::new(seq, len32, now_ns, stamp));
        self.nxt += len;
        self.sent(seq, len32, now_ns)
    }

    pub(super) fn resend(&mut self, seq: u64, now_ns: u64) -> Segment {
        let stamp = self.stamp(now_ns);
        let len = self.board.resend(seq, now_ns, stamp);
        self.stats.resent += 1;
        if self.board.head().is_some_and(|head| head.seq == seq) {
            self.rto_from_ns = now_ns;
        }
        if self.phase == Phase::Loss && self.resent_since_ns.is_none() {
            self.resent_since_ns = Some(now_ns);
        }
        self.sent(seq, len, now_ns)
    }

    /// State of the rate estimator for a segment sent now.
    pub(super) fn stamp(&mut self, now_ns: u64) -> RateStamp {
        if self.board.outstanding() == 0 {
            self.first_ns = now_ns;
            self.delivered_ns = now_ns;
        }
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        RateStamp {
            delivered: self.delivered,
            delivered_ns: self.delivered_ns,
            first_ns: self.first_ns,
            app_limited: self.app_limited_until > 0,
        }
    }

    pub(super) fn sent(&mut self, seq: u64, len: u32, now_ns: u64) -> Segment {
        self.stats.segments += 1;
        self.stats.bytes += u64::from(len);
        self.last_send_ns = now_ns;
        self.pace(u64::from(len), now_ns);
        if let Some(prr) = &mut self.prr {
            prr.on_sent();
        }
        self.arm_probe(now_ns);
        Segment { seq, len, sent_ns: now_ns, ..Segment::default() }
    }
}
