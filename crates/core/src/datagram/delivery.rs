//! How fast a lane delivers, packet by packet: samples for its congestion control
//! (draft-cheng-iccrg-delivery-rate-estimation-02).

use std::time::Duration;

use super::congestion::LaneRate;
use crate::Instant;

/// What a packet takes along when it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamp {
    delivered: u64,
    delivered_at: Instant,
    first_at: Instant,
    is_limited: bool,
}

/// What a lane has delivered.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Bytes that have come, and that were lost.
    pub(super) delivered: u64,
    pub(super) lost: u64,
    /// When the newest of them came, as far as this end's clock can tell.
    delivered_at: Instant,
    /// When the first packet of the flight under way was sent.
    first_at: Instant,
    /// What was sent before so much had been delivered was sent for want of more.
    limited_to: u64,
}

impl Delivery {
    /// A packet is sent now, while so much is on its way.
    pub(super) fn stamp(&mut self, in_flight: u64, now: Instant) -> Stamp {
        if in_flight == 0 {
            (self.first_at, self.delivered_at) = (now, now);
        }
        Stamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_at: self.first_at,
            is_limited: self.limited_to > self.delivered,
        }
    }

    /// There is nothing more to send, though there would be room.
    pub(super) fn note_limited(&mut self, in_flight: u64) {
        self.limited_to = (self.delivered + in_flight).max(1);
    }

    /// So many bytes have come by `arrived`, the newest of which was sent at `sent`.
    pub(super) fn note_delivered(
        &mut self,
        bytes: u64,
        (stamp, sent): (Stamp, Instant),
        arrived: Instant,
        least_rtt: Duration,
    ) -> Option<LaneRate> {
        self.delivered += bytes;
        self.delivered_at = self.delivered_at.max(arrived);
        let sending = sent.since(stamp.first_at);
        let interval = sending.max(self.delivered_at.since(stamp.delivered_at));
        // The next flight begins with what was sent last of this one.
        self.first_at = sent;
        // A shorter time than a round trip is one of bytes that came all at once.
        (interval >= least_rtt && !interval.is_zero()).then_some(LaneRate {
            delivered: self.delivered - stamp.delivered,
            interval,
            prior_delivered: stamp.delivered,
            is_limited: stamp.is_limited,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_flight_s_rate_is_that_of_the_slower_of_sending_and_arriving() {
        let mut delivery = Delivery::default();
        let rtt = Duration::from_millis(20);
        // Ten packets at once, which arrive one a millisecond.
        let first: Vec<_> = (0..10).map(|n| delivery.stamp(n * 1000, at(0))).collect();
        let mut next = Vec::new();
        for (n, stamp) in (0..10).zip(first) {
            let rate = delivery.note_delivered(1000, (stamp, at(0)), at(20 + n), rtt).unwrap();
            assert_eq!(rate.delivered, 1000 * (n + 1));
            assert_eq!((rate.interval, rate.is_limited), (Duration::from_millis(20 + n), false));
            next.push((delivery.stamp(9000, at(20 + n)), at(20 + n)));
        }
        let rates = (0..10).zip(next).map(|(n, (stamp, sent))| {
            delivery.note_delivered(1000, (stamp, sent), at(40 + n), rtt).unwrap()
        });
        // What was sent before them went at once, at 0 ms.
        let last = rates.last().unwrap();
        assert_eq!((last.delivered, last.interval), (10_000, Duration::from_millis(29)));
    }

    #[test]
    fn what_is_sent_for_want_of_more_says_so() {
        let mut delivery = Delivery::default();
        let rtt = Duration::from_millis(10);
        let one = delivery.stamp(0, at(0));
        delivery.note_limited(1000);
        let two = delivery.stamp(1000, at(5));
        let rate = delivery.note_delivered(1000, (one, at(0)), at(10), rtt).unwrap();
        assert!(!rate.is_limited);
        let three = delivery.stamp(1000, at(10));
        let rate = delivery.note_delivered(1000, (two, at(5)), at(15), rtt).unwrap();
        assert!(rate.is_limited);
        let rate = delivery.note_delivered(1000, (three, at(10)), at(20), rtt).unwrap();
        assert!(!rate.is_limited, "all that was limited has come");
        // What comes sooner than a round trip is no sample.
        let four = delivery.stamp(0, at(21));
        assert_eq!(delivery.note_delivered(1000, (four, at(21)), at(22), rtt), None);
    }
}
