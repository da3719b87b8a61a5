//! What an access point tells the gateway that its link carries: the rate that was measured, less what
//! still waits here; nothing, if the device is not there.
//!
//! The rate is what packet trains measure (COTAG §IV-A.2), bytes by the time that the link took for
//! them; or the queue's own measurement, which is the same of the packets that there are to send.

use std::time::Duration;

use weftline_core::{Bitrate, ByteCount, Instant};

/// From one measurement to the next (COTAG §IV-A.2).
pub const MEASURE_EVERY: Duration = Duration::from_millis(10);
/// What waits is to be gone within this time.
const DRAIN: Duration = Duration::from_millis(10);
/// What is told at least, so that there is something to measure by.
const LEAST: Bitrate = Bitrate::mbps(2);

/// What a gateway should send by to an access point whose link carries `rate`, and where so many
/// bytes wait for that link.
pub fn admissible(rate: Bitrate, waiting: ByteCount) -> Bitrate {
    let drain = Bitrate::bps(waiting.as_u64() * 8 * 1000 / DRAIN.as_millis() as u64);
    Bitrate::bps(rate.as_bps().saturating_sub(drain.as_bps())).max(LEAST)
}

/// The interval at which neighbours send each other keepalives.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_millis(100);
/// A neighbour may have gone elsewhere if three keepalives in a row are missing, of either.
const NEAR: Duration = Duration::from_millis(350);

/// Whether a neighbour is there: it was heard lately, and says that it hears what is sent to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Presence {
    heard: Option<Instant>,
    /// For how long it had heard nothing when it said so last.
    quiet: Duration,
}

impl Presence {
    /// Something came from it.
    pub fn hear(&mut self, now: Instant) {
        self.heard = Some(now);
    }

    /// It says that it has heard nothing for so long.
    pub fn answer(&mut self, quiet: Duration) {
        self.quiet = quiet;
    }

    /// For how long nothing has come from it, which is what it is told; `None` if nothing ever has.
    pub fn quiet(&self, now: Instant) -> Option<Duration> {
        self.heard.map(|heard| now.since(heard))
    }

    /// Whether it is there. Without, nothing should be sent to it but keepalives.
    pub fn is_there(&self, now: Instant) -> bool {
        self.quiet < NEAR && self.heard.is_some_and(|heard| now < heard + NEAR)
    }
}

/// What an access point tells the gateway of its link to a device: `carries`, if the device is there;
/// `None` if the link takes what comes.
pub fn told(is_there: bool, carries: Option<Bitrate>) -> Option<Bitrate> {
    if is_there { carries } else { Some(Bitrate::ZERO) }
}

/// Measures a link by what is sent on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RadioMeter {
    bytes: u64,
    busy: Duration,
    rate: Option<Bitrate>,
}

impl RadioMeter {
    /// The link took `busy` for so many bytes; no bytes, if it has not finished one in that time.
    pub fn served(&mut self, bytes: u64, busy: Duration) {
        self.bytes += bytes;
        self.busy += busy;
    }

    /// Ends a measurement, every [`MEASURE_EVERY`]: the rate, as before if nothing was sent; `None`
    /// until something is known.
    pub fn measure(&mut self) -> Option<Bitrate> {
        let bits = u128::from(self.bytes) * 8 * 1_000_000_000;
        if let Some(bps) = bits.checked_div(self.busy.as_nanos()) {
            self.rate = Some(Bitrate::bps(u64::try_from(bps).unwrap_or(u64::MAX)));
            (self.bytes, self.busy) = (0, Duration::ZERO);
        }
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_of_the_time_that_the_link_was_busy() {
        let mut meter = RadioMeter::default();
        assert_eq!(meter.measure(), None);
        meter.served(1500, Duration::from_micros(12));
        assert_eq!(meter.measure(), Some(Bitrate::mbps(1000)));
        assert_eq!(meter.measure(), Some(Bitrate::mbps(1000)), "nothing was sent");
        meter.served(0, Duration::from_millis(10));
        assert_eq!(meter.measure(), Some(Bitrate::ZERO), "it stands still");
    }

    #[test]
    fn a_neighbour_is_there_while_both_hear_each_other() {
        let mut presence = Presence::default();
        let at = Instant::from_millis;
        assert!(!presence.is_there(at(1000)), "it was never heard");
        presence.hear(at(1000));
        assert!(presence.is_there(at(1340)) && !presence.is_there(at(1360)));
        presence.hear(at(1400));
        presence.answer(Duration::from_millis(299));
        assert!(presence.is_there(at(1400)), "two keepalives were lost");
        presence.answer(Duration::from_millis(399));
        assert!(!presence.is_there(at(1400)), "it says that it hears nothing");
        presence.answer(Duration::from_millis(99));
        assert!(presence.is_there(at(1400)));
        let rate = Some(Bitrate::mbps(3));
        assert_eq!((told(true, rate), told(true, None)), (rate, None));
        assert_eq!(told(false, rate), Some(Bitrate::ZERO));
    }

    #[test]
    fn what_waits_is_taken_off_and_something_always_goes() {
        let rate = Bitrate::mbps(1000);
        assert_eq!(admissible(rate, ByteCount::ZERO), rate);
        // 125 kB take 1 ms of 1 Gb/s, a tenth of the time in which they are to be gone.
        assert_eq!(admissible(rate, ByteCount::new(125_000)), Bitrate::mbps(900));
        assert_eq!(admissible(Bitrate::ZERO, ByteCount::new(1 << 40)), LEAST);
    }
}
