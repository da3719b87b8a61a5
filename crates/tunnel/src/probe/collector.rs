//! The receiver's half: packets to trains, trains to samples.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_core::Instant;

use super::dispersion::{Arrival, Dispersion, Unusable};
use super::wire::{RESULTS_MAX, Report, TrainHeader};
use super::{Sample, TRAIN_MAX};

/// A train of which no packet has come for so long is over: at 1500 bytes in this time a link has
/// 120 kb/s.
const PATIENCE: Duration = Duration::from_millis(100);
/// Where the spacing of a train is known, it is over after so many times that, but not before
/// [`PATIENCE_MIN`], which bridges what receivers and radios do to packets.
const PATIENCE_GAPS: u32 = 8;
const PATIENCE_MIN: Duration = Duration::from_millis(5);
/// Trains that may be open at once, as packets of one may overtake those of another.
const OPEN_MAX: usize = 3;
/// Samples that wait to be taken, at most.
const WAITING_MAX: usize = 64;
/// Least time between two reports that say no more than that the link lives.
const QUIET: Duration = Duration::from_millis(5);

/// When the kernel got a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// By the monotonic clock.
    pub at: Instant,
    /// How often the clock behind the stamps had been set; stamps of different counts cannot be
    /// compared, nor can those without.
    pub steps: Option<u32>,
}

/// A train that is coming.
#[derive(Debug)]
struct Open {
    header: TrainHeader,
    arrivals: Vec<Arrival>,
    seen: [u64; 4],
    first: Stamp,
    comparable: bool,
    /// When the last packet came, as far as the state machine knows.
    heard: Instant,
}

/// Puts trains together and measures them. Its memory is bounded whatever comes.
#[derive(Debug, Default)]
pub struct Collector {
    open: VecDeque<Open>,
    /// Trains below this number are over.
    over: u32,
    waiting: VecDeque<Sample>,
    recent: VecDeque<Sample>,
    /// When the newest train or sign of life was sent, and when its first packet came.
    newest: Option<(Instant, Instant)>,
    /// The numbers of reports, and when the last was made.
    reports: u32,
    reported: Option<Instant>,
    wants_report: bool,
}

impl Collector {
    /// Takes a packet of `bytes` on the wire.
    pub fn on_packet(&mut self, header: &TrainHeader, bytes: u32, stamp: Stamp, now: Instant) {
        // Of a train the first packet counts, which did not wait for the others.
        if self.newest.is_none_or(|(sent, _)| header.sent > sent) {
            self.newest = Some((header.sent, stamp.at.min(now)));
        }
        if header.packets == 0 {
            self.wants_report |= self.reported.is_none_or(|last| now.since(last) >= QUIET);
            return;
        }
        if header.train < self.over {
            return;
        }
        let at = match self.open.iter().position(|open| open.header.train == header.train) {
            Some(at) => at,
            None => self.begin(*header, stamp, now),
        };
        let open = &mut self.open[at];
        let same = (open.header.packets, open.header.sent) == (header.packets, header.sent);
        if !same || header.packets > TRAIN_MAX || !open.is_new(header.index) {
            return;
        }
        open.comparable &= stamp.steps.is_some() && stamp.steps == open.first.steps;
        open.arrivals.push(Arrival { at: stamp.at, bytes });
        open.heard = now;
        if open.arrivals.len() == usize::from(header.packets) {
            let train = header.train;
            self.close_through(train);
        }
    }

    /// Opens a train, in the order of the numbers; where it is.
    fn begin(&mut self, header: TrainHeader, stamp: Stamp, now: Instant) -> usize {
        // Trains do not overtake each other by more than their neighbours.
        while self.open.len() >= OPEN_MAX {
            let oldest = self.open[0].header.train;
            self.close_through(oldest);
        }
        let at = self.open.iter().filter(|open| open.header.train < header.train).count();
        let arrivals = Vec::with_capacity(usize::from(header.packets.min(TRAIN_MAX)));
        let seen = [0; 4];
        let open = Open { header, arrivals, seen, first: stamp, comparable: true, heard: now };
        self.open.insert(at, open);
        at
    }

    /// When [`Collector::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.open.iter().map(Open::over_at).min()
    }

    /// Ends trains of which nothing comes any more.
    pub fn handle_timeout(&mut self, now: Instant) {
        let silent = self.open.iter().rev().find(|open| open.over_at() <= now);
        if let Some(train) = silent.map(|open| open.header.train) {
            self.close_through(train);
        }
    }

    /// Ends all trains up to the number `train`.
    fn close_through(&mut self, train: u32) {
        while self.open.front().is_some_and(|open| open.header.train <= train) {
            let Some(open) = self.open.pop_front() else { return };
            self.over = self.over.max(open.header.train.saturating_add(1));
            if open.arrivals.is_empty() {
                continue;
            }
            let sample = open.measure();
            if self.waiting.len() == WAITING_MAX {
                self.waiting.pop_front();
            }
            self.waiting.push_back(sample);
            if self.recent.len() == RESULTS_MAX {
                self.recent.pop_front();
            }
            self.recent.push_back(sample);
            self.wants_report = true;
        }
    }

    /// The next sample, in the order of the trains.
    pub fn poll_sample(&mut self) -> Option<Sample> {
        self.waiting.pop_front()
    }

    /// What the sender should be told, where there is something.
    pub fn poll_report(&mut self, now: Instant) -> Option<Report> {
        let (echo, at) = self.newest.filter(|_| self.wants_report)?;
        self.wants_report = false;
        self.reported = Some(now);
        self.reports = self.reports.wrapping_add(1);
        let results = self.recent.iter().copied().collect();
        Some(Report { number: self.reports, echo, held: now.since(at), results })
    }
}

impl Open {
    /// When it is over if nothing more comes.
    fn over_at(&self) -> Instant {
        let stamps = || self.arrivals.iter().map(|arrival| arrival.at);
        let gaps = u32::try_from(self.arrivals.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let patience = match (gaps, stamps().min(), stamps().max()) {
            (1.., Some(first), Some(last)) => {
                let usual = (last.since(first) / gaps).saturating_mul(PATIENCE_GAPS);
                usual.clamp(PATIENCE_MIN, PATIENCE)
            }
            _ => PATIENCE,
        };
        self.heard + patience
    }

    /// Whether the packet has not come before; it has from now on.
    fn is_new(&mut self, index: u8) -> bool {
        let (word, bit) = (usize::from(index / 64), 1 << (index % 64));
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        new
    }

    fn measure(mut self) -> Sample {
        let outcome = match self.comparable {
            true => Dispersion::of(&mut self.arrivals),
            false => Err(Unusable::ClockStep),
        };
        let times = || self.arrivals.iter().map(|arrival| arrival.at);
        let TrainHeader { train, packets, sent, interval, .. } = self.header;
        Sample {
            train,
            packets,
            received: u8::try_from(self.arrivals.len()).unwrap_or(u8::MAX),
            sent,
            first: times().min().unwrap_or(self.first.at),
            last: times().max().unwrap_or(self.first.at),
            interval,
            outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(train: u32, index: u8) -> TrainHeader {
        let sent = Instant::from_millis(u64::from(train) * 10);
        let (interval, rtt) = (Duration::from_millis(10), Duration::ZERO);
        TrainHeader { train, index, packets: 10, sent, interval, rtt }
    }

    /// Packet `index` of `train`, 120 µs after the one before it: 100 Mb/s.
    fn arrive(collector: &mut Collector, train: u32, index: u8) -> Instant {
        let sent = header(train, index).sent;
        let at = sent + Duration::from_micros(5000 + u64::from(index) * 120);
        collector.on_packet(&header(train, index), 1500, Stamp { at, steps: Some(0) }, at);
        at
    }

    #[test]
    fn a_train_is_measured_when_it_is_whole() {
        let mut collector = Collector::default();
        let mut at = Instant::ZERO;
        for index in 0..10 {
            assert!(collector.poll_sample().is_none() && collector.poll_report(at).is_none());
            at = arrive(&mut collector, 0, index);
        }
        let sample = collector.poll_sample().unwrap();
        assert_eq!((sample.received, sample.first), (10, Instant::from_millis(5)));
        assert_eq!(sample.rate().unwrap().as_mbps_f64(), 100.0);
        let report = collector.poll_report(at + Duration::from_millis(1)).unwrap();
        assert_eq!((report.echo, report.held), (Instant::ZERO, Duration::from_micros(2080)));
        assert_eq!(report.results, [sample]);
        assert!(collector.poll_report(at).is_none(), "said once");
        arrive(&mut collector, 0, 3);
        assert!(collector.poll_timeout().is_none(), "an old packet opens nothing");
    }

    #[test]
    fn what_is_lost_is_waited_for_in_vain_and_not_for_ever() {
        let mut collector = Collector::default();
        let mut at = Instant::ZERO;
        for index in (0..10).filter(|index| index % 5 != 1) {
            at = arrive(&mut collector, 0, index);
            // Twice the same is once.
            arrive(&mut collector, 0, index);
        }
        let due = collector.poll_timeout().unwrap();
        // The packets were 120 µs apart, or 240 where one is lost.
        assert_eq!(due, at + PATIENCE_MIN);
        collector.handle_timeout(due - Duration::from_nanos(1));
        assert!(collector.poll_sample().is_none());
        collector.handle_timeout(due);
        let sample = collector.poll_sample().unwrap();
        assert_eq!((sample.packets, sample.received), (10, 8));
    }

    #[test]
    fn trains_that_overtake_each_other_are_told_apart() {
        let mut collector = Collector::default();
        for index in 0..9 {
            arrive(&mut collector, 0, index);
            arrive(&mut collector, 1, index);
        }
        arrive(&mut collector, 0, 9);
        arrive(&mut collector, 1, 9);
        let trains: Vec<_> = std::iter::from_fn(|| collector.poll_sample()).collect();
        assert_eq!(
            trains.iter().map(|s| (s.train, s.received)).collect::<Vec<_>>(),
            [(0, 10), (1, 10)]
        );
        assert!(trains.iter().all(|sample| sample.rate().is_some()));
    }

    #[test]
    fn a_train_during_which_the_clock_was_set_is_no_measurement() {
        let mut collector = Collector::default();
        for index in 0..10 {
            let at = Instant::from_millis(u64::from(index));
            let stamp = Stamp { at, steps: Some(u32::from(index > 6)) };
            collector.on_packet(&header(0, index), 1500, stamp, at);
        }
        assert_eq!(collector.poll_sample().unwrap().outcome, Err(Unusable::ClockStep));
    }

    #[test]
    fn signs_of_life_are_reported_and_not_each() {
        let mut collector = Collector::default();
        let sound = TrainHeader { packets: 0, ..header(4, 0) };
        let mut reports = 0;
        for ms in 0..50 {
            let at = Instant::from_millis(ms);
            collector.on_packet(&sound, 70, Stamp { at, steps: Some(0) }, at);
            reports += usize::from(collector.poll_report(at).is_some());
        }
        assert_eq!(reports, 10);
    }

    proptest! {
        #[test]
        fn any_packets_in_any_order_keep_it_small(
            packets in proptest::collection::vec(
                (0_u32..12, any::<u8>(), any::<u8>(), any::<u64>(), any::<u64>(), 0_u32..3), 0..600),
        ) {
            let mut collector = Collector::default();
            for (train, index, packets, sent, at, steps) in packets {
                let header = TrainHeader {
                    train: if train == 11 { u32::MAX } else { train },
                    index,
                    packets,
                    sent: Instant::from_nanos(sent),
                    interval: Duration::ZERO,
                    rtt: Duration::ZERO,
                };
                let at = Instant::from_nanos(at);
                collector.on_packet(&header, 1500, Stamp { at, steps: steps.checked_sub(1) }, at);
                collector.handle_timeout(at);
                let _ = collector.poll_report(at);
                prop_assert!(collector.open.len() <= OPEN_MAX);
                prop_assert!(collector.waiting.len() <= WAITING_MAX);
                prop_assert!(collector.open.iter().all(|open| open.arrivals.len() <= 256));
            }
            while let Some(sample) = collector.poll_sample() {
                prop_assert!(sample.received <= sample.packets && sample.first <= sample.last);
            }
        }
    }
}
