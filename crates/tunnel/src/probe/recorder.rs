//! Samples to a rate trace: rows of time and rate, each rate from its time on, as a scenario's
//! `trace = { file = …, format = "csv" }` reads them.
//!
//! Between trains that come in time, the rate is the last one measured. A train that comes late
//! though nothing was before it in the queue has waited for a link that stood still: from when it
//! was due until it came, the rate was 0. So was it while whole trains were lost. What is late is
//! judged by the time from sending to arrival, less the least of them, so that the clocks of the
//! two ends need not agree; they may drift by 50 ppm.

use std::fmt;
use std::time::Duration;

use weftline_core::time::nanos;
use weftline_core::{Bitrate, ByteCount, Instant};

use super::Sample;

/// The header of a trace.
pub const CSV_HEADER: &str = "time_s,rate_mbps";

/// A link that stood still for less than this, and less than twice the time of a packet, is not
/// told from a machine that had something else to do.
const STILL: Duration = Duration::from_millis(5);
/// How long a least delay counts, at least: with 50 ppm the clocks drift by 0.25 ms in it.
const WINDOW: Duration = Duration::from_secs(5);

/// From `time` on the rate is `rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Since the first packet of the first train that was measured was begun, in whole microseconds.
    pub time: Duration,
    /// The rate of IP packets.
    pub rate: Bitrate,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.time.as_micros();
        let kbps = (self.rate.as_bps() + 500) / 1000;
        write!(f, "{}.{:06},{}.{:03}", us / 1_000_000, us % 1_000_000, kbps / 1000, kbps % 1000)
    }
}

/// What a sample adds to the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When the train's first packet was begun, as rows count time.
    pub time: Duration,
    /// Trains lost whole since the sample before.
    pub lost_trains: u32,
    /// The rows that are known now.
    pub rows: Vec<Row>,
}

/// Makes the trace of one direction.
#[derive(Debug, Default)]
pub struct Recorder {
    /// When the first packet of the first train that was measured was begun.
    start: Option<Instant>,
    last: Option<Sample>,
    last_row: Option<Row>,
    /// Least receiver's less sender's time of this window and the one before, in ns.
    delay: [Option<i64>; 2],
    window: Instant,
    rows: Vec<Row>,
}

impl Recorder {
    /// Takes the next train's sample.
    pub fn on_sample(&mut self, sample: &Sample) -> Recorded {
        // Numbers do not repeat; a gap is what was lost.
        let lost_trains = match &self.last {
            Some(last) => sample.train.saturating_sub(last.train).saturating_sub(1),
            None => sample.train,
        };
        let service = self.service(sample);
        let begun = sample.first - service;
        let expected = self.expected(sample.sent, begun);
        if sample.rate().is_some() {
            self.start.get_or_insert(begun);
        }
        if let Some(last) = self.last {
            let tolerance = STILL.max(2 * service);
            let due = match lost_trains {
                0 => expected,
                // The lost ones were sent evenly between their neighbours.
                n => expected - sample.sent.since(last.sent) / n.saturating_add(1) * n,
            };
            let still_from = due.max(last.last);
            if begun > still_from + tolerance {
                self.push(still_from, Bitrate::ZERO);
            }
        }
        if let Some(rate) = sample.rate() {
            self.push(begun, rate);
        }
        self.last = Some(*sample);
        let rows = std::mem::take(&mut self.rows);
        Recorded { time: self.time(begun), lost_trains, rows }
    }

    /// Ends the trace at `silence` after the last sample; its length. Where nothing has come for
    /// long, the rate has been 0 since it should have.
    pub fn finish(&mut self, silence: Duration) -> (Duration, Vec<Row>) {
        let Some(last) = self.last else { return (Duration::ZERO, Vec::new()) };
        let end = last.first + silence;
        let due = (last.first + last.interval).max(last.last);
        if end > due + 2 * last.interval + 4 * STILL {
            self.push(due, Bitrate::ZERO);
        }
        (self.time(end), std::mem::take(&mut self.rows))
    }

    /// `at`, by the receiver's clock, as rows count time; 0 before the first row.
    fn time(&self, at: Instant) -> Duration {
        self.start.map_or(Duration::ZERO, |start| at.since(start))
    }

    /// The time in which the first packet was served.
    fn service(&self, sample: &Sample) -> Duration {
        let measured = match (sample.outcome, self.last) {
            (Ok(measured), _) => Some(measured),
            (Err(_), Some(last)) => last.outcome.ok(),
            (Err(_), None) => None,
        };
        let size = measured.map_or(0, |m| m.bytes.as_u64() / u64::from(sample.received.max(2) - 1));
        let time = measured.and_then(|m| m.rate().time_for(ByteCount::new(size)));
        // No packet takes longer than a train's interval.
        time.unwrap_or_default().min(sample.interval)
    }

    /// When a train sent at `sent` begins to be served if nothing is in its way. `begun` is when it
    /// did.
    fn expected(&mut self, sent: Instant, begun: Instant) -> Instant {
        // Clocks count from wherever they like; differences wrap as they do.
        let delay = begun.as_nanos().wrapping_sub(sent.as_nanos()).cast_signed();
        if begun.since(self.window) > WINDOW {
            self.delay = [None, self.delay[0]];
            self.window = begun;
        }
        let least = self.delay[0].map_or(delay, |least| least.min(delay));
        self.delay[0] = Some(least);
        let least = self.delay[1].map_or(least, |before| least.min(before));
        Instant::from_nanos(sent.as_nanos().wrapping_add_signed(least))
    }

    fn push(&mut self, at: Instant, rate: Bitrate) {
        // A trace begins with a rate: before it nothing is known.
        let Some(start) = self.start else { return };
        let time = Duration::from_micros(nanos(at.since(start)) / 1000);
        let row = Row { time, rate };
        let later = self.last_row.is_none_or(|last| row.time > last.time);
        let differs =
            self.last_row.is_none_or(|last| last.rate > Bitrate::ZERO || rate > Bitrate::ZERO);
        if later && differs {
            self.last_row = Some(row);
            self.rows.push(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::probe::{Dispersion, Unusable};

    const MS: Duration = Duration::from_millis(1);
    /// The sender's clock is an hour ahead.
    const AHEAD: Duration = Duration::from_secs(3600);

    /// A train sent at `sent_ms` whose first packet came `delay` later, over a link of `mbps`.
    fn sample(train: u32, sent_ms: u64, delay: Duration, mbps: u64) -> Sample {
        let sent = Instant::from_millis(sent_ms);
        let first = sent + delay;
        let time = Duration::from_nanos(29 * 12_000_000 / mbps);
        let measured = Dispersion { bytes: ByteCount::new(29 * 1500), time, stamps: 30 };
        Sample {
            train,
            packets: 30,
            received: 30,
            sent: sent + AHEAD,
            first,
            last: first + time,
            interval: 10 * MS,
            outcome: Ok(measured),
        }
    }

    /// The rows of samples, as text.
    fn rows(samples: &[Sample], end_ms: u64) -> Vec<String> {
        let mut recorder = Recorder::default();
        let mut rows: Vec<Row> = Vec::new();
        for sample in samples {
            rows.extend(recorder.on_sample(sample).rows);
        }
        let last = samples[samples.len() - 1].first;
        rows.extend(recorder.finish(Instant::from_millis(end_ms).since(last)).1);
        rows.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_train_is_a_row() {
        let samples = [
            sample(0, 0, 2012 * MS / 1000, 1000),
            sample(1, 10, 2012 * MS / 1000, 1000),
            sample(2, 20, 2120 * MS / 1000, 100),
        ];
        let wanted = ["0.000000,1000.000", "0.010000,1000.000", "0.020000,100.000"];
        assert_eq!(rows(&samples, 30), wanted);
    }

    #[test]
    fn a_train_that_waited_says_that_the_link_stood_still() {
        let samples = [
            sample(0, 0, 2 * MS, 1000),
            sample(1, 10, 2 * MS, 1000),
            sample(2, 20, 52 * MS, 1000),
            sample(3, 80, 2 * MS, 1000),
        ];
        let wanted = [
            "0.000000,1000.000",
            "0.010000,1000.000",
            "0.020000,0.000",
            "0.070000,1000.000",
            "0.080000,1000.000",
        ];
        assert_eq!(rows(&samples, 90), wanted);
    }

    #[test]
    fn lost_trains_are_zero_and_so_is_the_end_without_any() {
        let samples = [sample(0, 0, 2 * MS, 500), sample(3, 30, 2 * MS, 500)];
        let wanted = ["0.000000,500.000", "0.010000,0.000", "0.030000,500.000"];
        assert_eq!(rows(&samples, 40), wanted);
        let ended = rows(&samples, 1000);
        assert_eq!(ended[..3], wanted);
        assert_eq!(ended[3..], ["0.040024,0.000"]);
        let mut recorder = Recorder::default();
        assert_eq!(recorder.on_sample(&samples[0]).lost_trains, 0);
        assert_eq!(recorder.on_sample(&samples[1]).lost_trains, 2);
    }

    #[test]
    fn a_sender_that_is_late_is_no_link_that_stands_still() {
        let samples = [sample(0, 0, 2 * MS, 500), sample(1, 60, 2 * MS, 500)];
        assert_eq!(rows(&samples, 70), ["0.000000,500.000", "0.060000,500.000"]);
    }

    #[test]
    fn a_train_that_says_nothing_changes_nothing() {
        let unusable = |outcome| Sample { outcome: Err(outcome), ..sample(1, 10, 2 * MS, 500) };
        for outcome in [Unusable::ClockStep, Unusable::Coalesced { stamps: 2 }, Unusable::TooFew] {
            let samples =
                [sample(0, 0, 2 * MS, 500), unusable(outcome), sample(2, 20, 2 * MS, 400)];
            assert_eq!(rows(&samples, 30).len(), 2, "{outcome:?}");
            // A trace begins at 0 with what is known.
            assert_eq!(rows(&samples[1..], 30), ["0.000000,400.000"]);
        }
    }

    proptest! {
        #[test]
        fn times_rise_whatever_is_said(
            samples in proptest::collection::vec(
                (any::<u32>(), any::<[u64; 3]>(), any::<u32>(), 1_u32.., 1_u64..), 0..50),
        ) {
            let mut recorder = Recorder::default();
            let mut last: Option<Row> = None;
            for (train, [sent, first, last_ns], interval, bytes, ns) in samples {
                let time = Duration::from_nanos(ns);
                let bytes = ByteCount::new(bytes.into());
                let sample = Sample {
                    train,
                    packets: 30,
                    received: (train % 31) as u8,
                    sent: Instant::from_nanos(sent),
                    first: Instant::from_nanos(first),
                    last: Instant::from_nanos(last_ns.max(first)),
                    interval: Duration::from_micros(interval.into()),
                    outcome: Ok(Dispersion { bytes, time, stamps: 9 }),
                };
                let rows = recorder.on_sample(&sample).rows;
                prop_assert!(rows.len() <= 2);
                for row in rows {
                    prop_assert!(last.is_none_or(|last| last.time < row.time));
                    last = Some(row);
                }
            }
        }
    }
}
