//! A link with a queue, TCP that fills it as far as it may, and a call.

use std::collections::VecDeque;

use super::super::*;

/// One millisecond, in seconds.
pub(super) const STEP: f64 = 1e-3;
/// What TCP has in any case, in bytes a second.
pub(super) const LEAST_RATE: f64 = 62_500.0;

/// A link, and what there is on it.
pub(super) struct World {
    pub(super) hold: Hold,
    pub(super) now_ms: u64,
    /// Bytes a second, and the time of an empty packet from end to end and back, in milliseconds.
    pub(super) rate: f64,
    pub(super) way_ms: u64,
    /// Bytes in the queue, those of TCP that came through, and the longest queue, in seconds.
    pub(super) queue: f64,
    pub(super) came: f64,
    pub(super) longest: f64,
    /// What TCP sends at most, and what others do, in bytes a second.
    pub(super) wants: f64,
    pub(super) others: f64,
    /// TCP has something to send each so many milliseconds, in parts of what the link carries in this time, and
    /// sends it so many times as fast as the link; and what is left of that, in bytes.
    pub(super) bursts: Option<(u64, f64, f64)>,
    pub(super) left: f64,
    /// What packets wait besides, whatever is sent, and what their answers do, in milliseconds.
    pub(super) extra_ms: u64,
    pub(super) back_ms: u64,
    pub(super) carried: Carried,
    /// Whether there is a call, and the time from one packet of it to the next.
    pub(super) is_called: bool,
    pub(super) every_ms: u64,
    /// Whether packets of it go over this lane.
    pub(super) is_here: bool,
    /// By how much the other end's clock is ahead, and runs faster, and how much delays differ.
    pub(super) ahead_us: i64,
    pub(super) ppm: i64,
    pub(super) noise_us: u64,
    /// Packets that are told of later: when, and what of them.
    pub(super) told: VecDeque<(u64, Sample)>,
    /// Of each packet: when it was sent, and how long it waited, in milliseconds.
    pub(super) waits: Vec<(u64, f64)>,
    pub(super) limits: Vec<f64>,
}

impl World {
    pub(super) fn new(mbps: f64, way_ms: u64) -> Self {
        Self {
            hold: Hold::new(CallRules::default()),
            now_ms: 1_000,
            rate: mbps * 125_000.0,
            way_ms,
            queue: 0.0,
            came: 0.0,
            longest: 0.2,
            wants: f64::INFINITY,
            others: 0.0,
            bursts: None,
            left: 0.0,
            extra_ms: 0,
            back_ms: 0,
            carried: Carried::default(),
            is_called: true,
            every_ms: 20,
            is_here: true,
            ahead_us: 5_000_000,
            ppm: 0,
            noise_us: 0,
            told: VecDeque::new(),
            waits: Vec::new(),
            limits: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::from_millis(self.now_ms)
    }

    pub(super) fn limit(&self) -> Option<f64> {
        self.hold.tcp_limit().map(|limit| limit.as_bps() as f64 / 8.0)
    }

    pub(super) fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            let now = self.now();
            self.hold.handle_timeout(now);
            // TCP grows until something is lost, and gives up a third then.
            let most = self.wants.min(self.rate * self.bursts.map_or(1.15, |(.., fast)| fast));
            let wants = if self.queue >= self.longest * self.rate { 0.6 * most } else { most };
            let sends = self.limit().map_or(wants, |limit| limit.min(wants)) * STEP;
            let sends = self.of_burst(sends);
            let room = (self.longest * self.rate - self.queue).max(0.0) + self.rate * STEP;
            // What does not fit in is lost, of both alike.
            let others = self.others * STEP;
            let fits = (room / (sends + others).max(1.0)).min(1.0);
            let (tcp, others) = (sends * fits, others * fits);
            self.carried.tcp += sends as u64;
            self.left -= tcp;
            let served = (self.queue + tcp + others).min(self.rate * STEP);
            self.queue = self.queue + tcp + others - served;
            let part = if others > 0.0 { tcp / (tcp + others).max(1.0) } else { 1.0 };
            self.came += served * part;
            self.limits.extend(self.limit());
            if self.now_ms.is_multiple_of(self.every_ms) {
                self.send(now);
            }
            while self.told.front().is_some_and(|(at, _)| *at <= self.now_ms) {
                let (_, sample) = self.told.pop_front().unwrap();
                self.hold.handle_sample(&sample, now);
            }
        }
    }

    /// What is sent of so many bytes: no more than there is of a burst, if there are any.
    fn of_burst(&mut self, sends: f64) -> f64 {
        let Some((every_ms, part, _)) = self.bursts else { return sends };
        if self.now_ms.is_multiple_of(every_ms) {
            self.left += part * self.rate * every_ms as f64 * STEP;
        }
        sends.min(self.left)
    }

    fn send(&mut self, now: Instant) {
        if self.is_called {
            self.hold.note_call(10_000, true, now);
        }
        if !self.is_here {
            return;
        }
        self.carried.lane += 200;
        let wait_us = (self.queue / self.rate * 1e6) as u64;
        self.waits.push((self.now_ms, wait_us as f64 / 1e3));
        // The same numbers each time, as good as any.
        let noise = self.now_ms.wrapping_mul(2_654_435_761) % (self.noise_us + 1);
        let took_us = 1000 * (self.way_ms / 2 + self.extra_ms) + wait_us + noise;
        let sent_us = (1000 * self.now_ms).cast_signed();
        let drift = sent_us * self.ppm / 1_000_000;
        let arrived_us = (sent_us + took_us.cast_signed() + drift + self.ahead_us).cast_unsigned();
        let rtt = Duration::from_micros(took_us + 500 * self.way_ms + 1000 * self.back_ms);
        let at = self.now_ms + rtt.as_millis() as u64 + 10;
        let at = self.told.back().map_or(at, |(last, _)| at.max(*last));
        let sample = Sample { sent: now, carried: self.carried, arrived_us, rtt };
        self.told.push_back((at, sample));
    }

    /// Runs for so long while all packets are late, by so many milliseconds for so long, in turn: the part of the
    /// link that TCP has had.
    pub(super) fn jump(&mut self, steps: &[(u64, u64)], ms: u64) -> f64 {
        let from_ms = self.now_ms;
        self.came = 0.0;
        self.waits.clear();
        while self.now_ms < from_ms + ms {
            for (extra_ms, ms) in steps {
                self.extra_ms = *extra_ms;
                self.run(*ms);
            }
        }
        self.came / (self.rate * (self.now_ms - from_ms) as f64 * STEP)
    }

    /// Runs for a while; the 95th percentile of the waits, in milliseconds, and the part of the link that
    /// TCP has had.
    pub(super) fn measure(&mut self, ms: u64) -> (f64, f64) {
        self.came = 0.0;
        self.waits.clear();
        self.limits.clear();
        self.run(ms);
        (self.late_ms(), self.came / (self.rate * ms as f64 * STEP))
    }

    /// The 95th percentile of the waits in the queue.
    pub(super) fn late_ms(&self) -> f64 {
        let mut waits: Vec<f64> = self.waits.iter().map(|(_, wait)| *wait).collect();
        waits.sort_by(f64::total_cmp);
        waits.get(waits.len() * 95 / 100).copied().unwrap_or(0.0)
    }
}
