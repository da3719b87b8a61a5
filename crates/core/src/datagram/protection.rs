//! What a lane shares its path with, and how that makes way for calls ([`calls`](super::calls)).

use std::collections::VecDeque;
use std::time::Duration;

use super::calls::{CallRules, Carried, Hold, HoldStatus, Sample};
use crate::limiter::PathLimiter;
use crate::{Bitrate, Instant};

/// Datagrams without data that are remembered: those of a round trip of half a second and more, as there is one
/// each 10 ms at most.
const CONTROLS: usize = 64;
/// How long a lane that had bulk packets counts as having some.
const BULK: Duration = Duration::from_millis(200);
/// How often the delay of a lane is measured at least, while there are calls on another one; and for how many
/// bytes of TCP meanwhile, as less fills no queue.
const MEASURED: Duration = Duration::from_millis(100);
const MEASURED_FOR: u64 = 5_000;

/// Of one lane, whose path TCP has in common with it.
#[derive(Debug)]
pub(super) struct Protection {
    /// What TCP that this end sends over the path goes through.
    limiter: PathLimiter,
    hold: Hold,
    /// Datagrams without data of late: its sequence number, and when it was sent.
    controls: VecDeque<(u64, Instant, Carried)>,
    /// Whether the path was held back when that was asked last.
    was_held: bool,
    /// Until when the lane counts as having bulk; and what it has sent, and the bulk of that.
    bulk_to: Option<Instant>,
    lane: u64,
    bulk: u64,
    /// When a copy was sent last to measure its delay, and what TCP had sent by then.
    measured: (Instant, u64),
}

impl Drop for Protection {
    fn drop(&mut self) {
        self.limiter.lift();
    }
}

impl Protection {
    pub(super) fn new(limiter: PathLimiter, rules: CallRules) -> Self {
        Self {
            limiter,
            hold: Hold::new(rules),
            controls: VecDeque::new(),
            was_held: false,
            bulk_to: None,
            lane: 0,
            bulk: 0,
            measured: (Instant::ZERO, 0),
        }
    }

    pub(super) fn has_limiter(&self, limiter: &PathLimiter) -> bool {
        self.limiter.is(limiter)
    }

    /// A packet is sent, over this lane or another one, of a flow of this rate in bytes a second that may be a
    /// call, or is.
    pub(super) fn note_call(&mut self, rate: u64, is_call: bool, now: Instant) {
        self.limiter.count();
        self.hold.note_call(rate, is_call, now);
    }

    /// Whether a flow of this rate is a small part of what the path has carried of late.
    pub(super) fn is_small_part(&self, rate: u64) -> bool {
        self.hold.is_small_part(rate)
    }

    /// Bulk packets are given to the lane.
    pub(super) fn note_bulk(&mut self, now: Instant) {
        self.bulk_to = Some(now + BULK);
    }

    /// Whether what is not urgent is taken to be bulk: a lane that has bulk has it all in one queue.
    pub(super) fn has_bulk(&self, now: Instant) -> bool {
        self.bulk_to.is_some_and(|until| now <= until)
    }

    /// Data are sent over the lane.
    pub(super) fn note_sent(&mut self, bytes: u64, is_bulk: bool) {
        self.lane += bytes;
        self.bulk += if is_bulk { bytes } else { 0 };
    }

    /// A datagram without data is sent over the lane.
    pub(super) fn note_control(&mut self, sequence: u64, now: Instant) {
        if self.controls.len() >= CONTROLS {
            self.controls.pop_front();
        }
        self.controls.push_back((sequence, now, self.carried()));
    }

    /// What has been sent over the path so far.
    pub(super) fn carried(&self) -> Carried {
        Carried { tcp: self.limiter.spent(), lane: self.lane, bulk: self.bulk }
    }

    /// When a datagram without data was sent, and what had been then, if that is known.
    pub(super) fn control(&self, sequence: u64) -> Option<(Instant, Carried)> {
        let found = self.controls.iter().find(|(one, ..)| *one == sequence);
        found.map(|&(_, at, carried)| (at, carried))
    }

    /// Whether there is a call, TCP loads the path, and no packet has gone over it for a while, by which its delay
    /// would show.
    pub(super) fn is_unmeasured(&self, sent: Option<Instant>, now: Instant) -> bool {
        self.hold.has_call(now)
            && sent.is_none_or(|at| at + MEASURED <= now)
            && self.measured.0 + MEASURED <= now
            && self.carried().tcp >= self.measured.1 + MEASURED_FOR
    }

    /// A copy goes over the lane, to measure its delay.
    pub(super) fn note_measured(&mut self, now: Instant) {
        self.measured = (now, self.carried().tcp);
    }

    /// A packet is told to have come.
    pub(super) fn handle_sample(&mut self, sample: &Sample, now: Instant) {
        if self.hold.handle_sample(sample, now) {
            self.apply();
        }
    }

    /// Nobody knows what the path does.
    pub(super) fn handle_silence(&mut self) {
        self.hold.handle_silence();
        self.apply();
    }

    /// When the path may be let go.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.hold.poll_timeout()
    }

    /// Lets the path go when there has been no call for a while.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.hold.handle_timeout(now);
            self.apply();
            if self.poll_timeout().is_none() {
                self.limiter.lift();
            }
        }
    }

    /// Whether the path is held back now, if that has changed since this was asked.
    pub(super) fn take_held(&mut self) -> Option<bool> {
        let is_held = self.hold.is_held();
        let was_held = std::mem::replace(&mut self.was_held, is_held);
        (is_held != was_held).then_some(is_held)
    }

    fn apply(&self) {
        let limit = self.hold.tcp_limit();
        if limit.is_some() || self.limiter.is_limited() {
            self.limiter.set_limit(limit);
        }
    }

    /// How fast packets go that are not urgent: bulk no faster than calls allow, and calls no slower than the
    /// path is known to carry, though their lane may have had no occasion to find that out.
    pub(super) fn pacing(&self, own: Bitrate, is_bulk: bool) -> Bitrate {
        match is_bulk {
            true => self.hold.lane_limit().map_or(own, |limit| limit.min(own)),
            false => self.hold.call_rate().map_or(own, |least| least.max(own)),
        }
    }

    /// What a call may have of the path at least.
    pub(super) fn call_rate(&self) -> Option<Bitrate> {
        self.hold.call_rate()
    }

    pub(super) fn status(&self) -> HoldStatus {
        self.hold.status()
    }
}
