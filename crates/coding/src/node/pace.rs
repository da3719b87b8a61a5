//! When a link has room at a known rate: a token bucket in bytes. Both worlds pace with it.

use std::time::Duration;

use weftline_core::time::nanos;
use weftline_core::{Bitrate, ByteCount, Instant};

/// Time at the rate that may be sent in one go, unless another is given: so often the sender has to
/// wake up. Below the interval of cohorts, and above what a sleep costs.
const QUANTUM: Duration = Duration::from_micros(250);

/// What may be sent in one go at least: two full packets.
const LEAST_BURST: u64 = 3000;

/// Counts what a link may send. A packet goes when there is credit at all, and may leave a debt, so
/// that the rate holds exactly whatever the packets' lengths.
#[derive(Clone, Debug)]
pub struct Pacer {
    rate: Bitrate,
    /// When something was sent last, and when all that was sent is through.
    sent: Instant,
    through: Instant,
    quantum: Duration,
    burst: Duration,
}

impl Pacer {
    /// Nothing was sent yet.
    pub fn new(rate: Bitrate) -> Self {
        let (quantum, burst) = (QUANTUM, burst_of(rate, QUANTUM));
        Self { rate, sent: Instant::ZERO, through: Instant::ZERO, quantum, burst }
    }

    /// The same, for a sender that wakes up less often: so much time at the rate may be sent in one go.
    #[must_use]
    pub fn in_bursts_of(self, quantum: Duration) -> Self {
        Self { quantum, burst: burst_of(self.rate, quantum), ..self }
    }

    /// What may be sent from now on. A debt is paid at the higher of the two rates: what was sent at a
    /// very low one must not hold up what goes at the next.
    pub fn set_rate(&mut self, rate: Bitrate) {
        let debt = nanos(self.through.since(self.sent));
        if rate > self.rate && debt > 0 {
            let part =
                u128::from(debt) * u128::from(self.rate.as_bps()) / u128::from(rate.as_bps());
            self.through = self.sent + Duration::from_nanos(part as u64);
        }
        (self.rate, self.burst) = (rate, burst_of(rate, self.quantum));
    }

    /// The rate.
    pub fn rate(&self) -> Bitrate {
        self.rate
    }

    /// Whether a packet may go now.
    pub fn has_room(&self, now: Instant) -> bool {
        self.through <= now
    }

    /// Counts bytes that are sent now, all headers included.
    pub fn send(&mut self, bytes: usize, now: Instant) {
        let earliest =
            Instant::from_nanos(now.as_nanos().saturating_sub(self.burst.as_nanos() as u64));
        self.sent = now;
        self.through = self.through.max(earliest) + time_of(self.rate, bytes as u64);
    }

    /// When to look again, if there is no room now: when a quantum's worth may go.
    pub fn next_room(&self) -> Instant {
        self.through + self.burst / 2
    }
}

fn burst_of(rate: Bitrate, quantum: Duration) -> Duration {
    time_of(rate, LEAST_BURST).max(quantum)
}

fn time_of(rate: Bitrate, bytes: u64) -> Duration {
    rate.time_for(ByteCount::new(bytes)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender that looks when it is told to.
    fn sent_in(rate: Bitrate, length: usize, time: Duration) -> u64 {
        let mut pacer = Pacer::new(rate);
        let start = Instant::from_millis(1000);
        let (mut now, mut sent) = (start, 0);
        while now < start + time {
            while pacer.has_room(now) {
                pacer.send(length, now);
                sent += length as u64;
            }
            now = now.max(pacer.next_room());
        }
        sent
    }

    #[test]
    fn the_rate_holds_whatever_the_packets() {
        for (mbps, length) in [(1, 1500), (300, 1500), (1000, 60), (2000, 1428)] {
            let second = Duration::from_secs(1);
            let bits = sent_in(Bitrate::mbps(mbps), length, second) as f64 * 8.0;
            let wanted = mbps as f64 * 1e6;
            assert!((bits / wanted - 1.0).abs() < 0.03, "{bits} of {wanted}");
        }
    }

    #[test]
    fn larger_bursts_have_the_same_rate_and_fewer_wake_ups() {
        let wakes = |quantum: Duration| {
            let mut pacer = Pacer::new(Bitrate::mbps(300)).in_bursts_of(quantum);
            let start = Instant::from_millis(1000);
            let (mut now, mut wakes, mut sent) = (start, 0, 0_u64);
            while now < start + Duration::from_secs(1) {
                while pacer.has_room(now) {
                    pacer.send(1500, now);
                    sent += 1500;
                }
                (now, wakes) = (now.max(pacer.next_room()), wakes + 1);
            }
            assert!((sent as f64 * 8.0 / 300e6 - 1.0).abs() < 0.01, "{sent}");
            wakes
        };
        let (small, large) = (wakes(QUANTUM), wakes(4 * QUANTUM));
        assert!(small > 3 * large, "{small} {large}");
    }

    #[test]
    fn a_very_low_rate_holds_nothing_up_once_it_has_passed() {
        let mut pacer = Pacer::new(Bitrate::bps(1));
        let now = Instant::from_millis(60_000);
        pacer.send(1500, now);
        pacer.set_rate(Bitrate::mbps(12));
        assert!(!pacer.has_room(now) && pacer.has_room(now + Duration::from_millis(1)));
        pacer.send(1500, now);
        pacer.set_rate(Bitrate::bps(1));
        assert!(pacer.has_room(now + Duration::from_millis(2)), "it was sent at 12 Mb/s");
    }

    #[test]
    fn silence_gives_one_burst_of_credit() {
        let mut pacer = Pacer::new(Bitrate::mbps(100));
        let now = Instant::from_millis(60_000);
        let mut sent = 0;
        while pacer.has_room(now) {
            pacer.send(1500, now);
            sent += 1500;
        }
        assert!((3000..=6000).contains(&sent), "{sent}");
    }
}
