//! When a link has room at a known rate: a token bucket in bytes. Both worlds pace with it.

use std::time::Duration;

use weftline_core::{Bitrate, ByteCount, Instant};

/// Time at the rate that may be sent in one go: so often the sender has to wake up. Below the
/// interval of cohorts, and above what a sleep costs.
const QUANTUM: Duration = Duration::from_micros(250);

/// What may be sent in one go at least: two full packets.
const LEAST_BURST: u64 = 3000;

/// Counts what a link may send. A packet goes when there is credit at all, and may leave a debt, so
/// that the rate holds exactly whatever the packets' lengths.
#[derive(Clone, Debug)]
pub struct Pacer {
    rate: Bitrate,
    /// When all that was sent is through.
    through: Instant,
    burst: Duration,
}

impl Pacer {
    /// Nothing was sent yet.
    pub fn new(rate: Bitrate) -> Self {
        let burst = burst_of(rate);
        Self { rate, through: Instant::ZERO, burst }
    }

    /// What may be sent from now on; a debt is paid at the rate at which it was made.
    pub fn set_rate(&mut self, rate: Bitrate) {
        (self.rate, self.burst) = (rate, burst_of(rate));
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
        self.through = self.through.max(earliest) + time_of(self.rate, bytes as u64);
    }

    /// When to look again, if there is no room now: when a quantum's worth may go.
    pub fn next_room(&self) -> Instant {
        self.through + self.burst / 2
    }
}

fn burst_of(rate: Bitrate) -> Duration {
    time_of(rate, LEAST_BURST).max(QUANTUM)
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
