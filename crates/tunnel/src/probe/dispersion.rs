//! What a train's arrival times say about the rate of the slowest link on its way.
//!
//! A train of packets sent back to back leaves the slowest link with the spacing that this link
//! gives it. COTAG (§IV-A.2, after Dovrolis, Ramanathan and Moore 2004) takes L packets of S bytes
//! and writes BW = L·S / t_dispersion. Between the arrivals of the first and the last packet, L − 1
//! packets are served: the first is over when the clock starts. So what counts here are the packets
//! after the stamp from which the time counts; with L the rate of 30 packets would be 3.4 % too
//! high.
//!
//! Receivers stamp late and together: an interface's interrupt covers several packets, which then
//! have the same stamp or almost. A stamp that several packets share says when the *last* of them
//! had come, so whole groups are counted, from a group's stamp on. The last group of a train that
//! came so is left out: its stamp waited for a timer, not for its last packet. The first stamp is
//! late, too, by what it takes a receiver to wake up, so time counts from the second, where there
//! are enough: over the lab's emulator this is 6 µs, 2 % of a train at 1 Gb/s.

use std::time::Duration;

use weftline_core::time::nanos;
use weftline_core::{Bitrate, ByteCount, Instant};

/// Packets after the first stamp without which there is no rate.
const COUNTED_MIN: usize = 4;
/// Groups with which the first is left out.
const GROUPS: usize = 6;
/// Gaps below this part of the mean gap are no gaps: the packets were taken up together.
const TOGETHER: u64 = 4;

/// One packet of a train, as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The kernel's receive stamp.
    pub at: Instant,
    /// Its size on the wire (the IP packet's), in bytes.
    pub bytes: u32,
}

/// What one train measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispersion {
    /// Bytes of the packets that were served in `time`.
    pub bytes: ByteCount,
    /// From the first stamp used to the last.
    pub time: Duration,
    /// Distinct stamps of the train; at most 255.
    pub stamps: u8,
}

/// Why a train says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The receiver's clock was set while it came.
    #[error("clock set")]
    ClockStep,
    /// Too many packets were taken up together: so many stamps are distinct.
    #[error("coalesced")]
    Coalesced {
        /// Distinct stamps; at most 255.
        stamps: u8,
    },
    /// Too few packets came.
    #[error("lost")]
    TooFew,
}

impl Dispersion {
    /// Measures a train. The order of `arrivals` does not matter; they are sorted.
    ///
    /// # Errors
    /// When they say nothing.
    pub fn of(arrivals: &mut [Arrival]) -> Result<Self, Unusable> {
        if arrivals.len() <= COUNTED_MIN {
            return Err(Unusable::TooFew);
        }
        arrivals.sort_by_key(|arrival| arrival.at);
        let points = Points::of(arrivals);
        let stamps = u8::try_from(points.groups).unwrap_or(u8::MAX);
        // Alone or in few pairs, the last packet's stamp is its own.
        let coalesced = points.groups * 4 < arrivals.len() * 3;
        let last = if coalesced { points.last_but_one } else { Some(points.last) };
        let (Some(last), true) = (last, points.groups >= 3) else {
            return Err(Unusable::Coalesced { stamps });
        };
        let first = if points.groups >= GROUPS { points.second } else { points.first };
        let time = last.at.since(first.at);
        if last.packets - first.packets < COUNTED_MIN || time.is_zero() {
            return Err(Unusable::Coalesced { stamps });
        }
        Ok(Self { bytes: ByteCount::new(last.bytes - first.bytes), time, stamps })
    }

    /// The rate, of IP packets.
    pub fn rate(&self) -> Bitrate {
        Bitrate::from_transfer(self.bytes, self.time)
    }
}

/// Until when how much of a train had come.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    at: Instant,
    packets: usize,
    bytes: u64,
}

/// The ends of a train's groups.
struct Points {
    groups: usize,
    first: Point,
    second: Point,
    last_but_one: Option<Point>,
    last: Point,
}

impl Points {
    /// Groups `arrivals`, which are sorted and not empty.
    fn of(arrivals: &[Arrival]) -> Self {
        let span = nanos(arrivals[arrivals.len() - 1].at.since(arrivals[0].at));
        let gap_min = span / arrivals.len() as u64 / TOGETHER;
        let mut point = Point::default();
        let mut points =
            Self { groups: 0, first: point, second: point, last_but_one: None, last: point };
        for (index, arrival) in arrivals.iter().enumerate() {
            point = Point {
                at: arrival.at,
                packets: point.packets + 1,
                bytes: point.bytes + u64::from(arrival.bytes),
            };
            let next = arrivals.get(index + 1);
            if next.is_some_and(|next| nanos(next.at.since(arrival.at)) <= gap_min) {
                continue;
            }
            points.groups += 1;
            match points.groups {
                1 => points.first = point,
                2 => points.second = point,
                _ => points.last_but_one = Some(points.last),
            }
            points.last = point;
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u32 = 1500;

    /// Packets that leave a link of `mbps` back to back, the first at 1 s.
    fn train(packets: u64, mbps: u64) -> Vec<Arrival> {
        let service = u64::from(SIZE) * 8 * 1000 / mbps;
        let at = |index| Instant::from_nanos(1_000_000_000 + index * service);
        (0..packets).map(|index| Arrival { at: at(index), bytes: SIZE }).collect()
    }

    fn mbps(arrivals: &mut [Arrival]) -> Result<f64, Unusable> {
        Dispersion::of(arrivals).map(|dispersion| dispersion.rate().as_mbps_f64())
    }

    /// L intervals would give 30/29 of it.
    #[test]
    fn l_packets_have_l_minus_one_intervals() {
        for rate in [1, 10, 100, 1000, 10_000] {
            let measured = mbps(&mut train(30, rate)).unwrap();
            assert!((measured / rate as f64 - 1.0).abs() < 1e-3, "{measured} of {rate}");
        }
    }

    #[test]
    fn a_receiver_that_wakes_up_late_changes_nothing() {
        let mut late = train(30, 1000);
        late[0].at += Duration::from_micros(11);
        assert!((mbps(&mut late).unwrap() - 1000.0).abs() < 0.1);
    }

    #[test]
    fn lost_packets_do_not_change_the_rate_of_those_that_queued() {
        // Dropped before the link: the others are served back to back.
        assert!((mbps(&mut train(17, 200)).unwrap() - 200.0).abs() < 0.2);
        // A few are no train.
        assert_eq!(mbps(&mut train(4, 200)), Err(Unusable::TooFew));
        assert_eq!(mbps(&mut []), Err(Unusable::TooFew));
    }

    /// Packets stamped when a timer fires that looks every `poll_us`.
    fn polled(packets: u64, rate: u64, poll_us: u64, phase_ns: u64) -> Vec<Arrival> {
        let poll = poll_us * 1000;
        let mut arrivals = train(packets, rate);
        for arrival in &mut arrivals {
            let late = (arrival.at.as_nanos() + phase_ns).next_multiple_of(poll) - phase_ns;
            arrival.at = Instant::from_nanos(late);
        }
        arrivals
    }

    #[test]
    fn stamps_of_a_timer_are_right_on_average() {
        for rate in [100, 500, 1000, 2000] {
            let rates: Vec<f64> =
                (0..100).map(|i| mbps(&mut polled(30, rate, 50, i * 977)).unwrap()).collect();
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            assert!((mean / rate as f64 - 1.0).abs() < 0.01, "{mean} of {rate}");
        }
    }

    #[test]
    fn packets_taken_up_together_with_stamps_of_their_own_are_one_group() {
        // Ten at a time, stamped 0.3 µs after each other by the processor that takes them up.
        let mut arrivals = polled(60, 1000, 120, 0);
        let mut previous = Instant::ZERO;
        let mut group = Instant::ZERO;
        for arrival in &mut arrivals {
            if arrival.at != group {
                group = arrival.at;
            } else {
                arrival.at = previous + Duration::from_nanos(300);
            }
            previous = arrival.at;
        }
        let measured = mbps(&mut arrivals).unwrap();
        assert!((measured / 1000.0 - 1.0).abs() < 0.03, "{measured}");
    }

    #[test]
    fn too_few_stamps_are_no_measurement() {
        let all_at_once = vec![Arrival { at: Instant::from_millis(5), bytes: SIZE }; 30];
        assert_eq!(mbps(&mut all_at_once.clone()), Err(Unusable::Coalesced { stamps: 1 }));
        let mut two = all_at_once;
        two[20..].iter_mut().for_each(|arrival| arrival.at = Instant::from_millis(6));
        assert_eq!(mbps(&mut two), Err(Unusable::Coalesced { stamps: 2 }));
    }

    proptest! {
        #[test]
        fn any_stamps_in_any_order(
            stamps in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..260),
        ) {
            let mut arrivals: Vec<Arrival> = stamps
                .into_iter()
                .map(|(ns, bytes)| Arrival { at: Instant::from_nanos(ns), bytes })
                .collect();
            if let Ok(found) = Dispersion::of(&mut arrivals) {
                prop_assert!(!found.time.is_zero() && found.stamps >= 3);
            }
        }

        /// Order of arrival is nothing; only the stamps are.
        #[test]
        fn a_shuffled_train_has_the_same_rate(
            rate in 1_u64..5000,
            packets in 6_u64..200,
            swaps in proptest::collection::vec((0_usize..200, 0_usize..200), 0..50),
        ) {
            let mut arrivals = train(packets, rate);
            for (a, b) in swaps {
                let length = arrivals.len();
                arrivals.swap(a % length, b % length);
            }
            let measured = mbps(&mut arrivals).unwrap();
            prop_assert!((measured / rate as f64 - 1.0).abs() < 2e-3, "{measured} of {rate}");
        }
    }
}
