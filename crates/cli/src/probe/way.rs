//! What has been measured one way: its trace, its statistics, and how they are written.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::Histogram;
use weftline_core::{Bitrate, Instant};
use weftline_tunnel::probe::{CSV_HEADER, Estimator, Recorder, Row, Sample, Unusable};

use crate::failure::Failure;

/// The highest rate that is told apart, in kb/s: a terabit a second.
const MAX_KBPS: u64 = 1_000_000_000;

/// One direction of a measurement.
pub(super) struct Way {
    /// `down` or `up`.
    pub(super) name: &'static str,
    recorder: Recorder,
    pub(super) estimator: Estimator,
    file: Option<(PathBuf, BufWriter<File>)>,
    /// How long which rate held: kb/s by µs.
    rates: Histogram<u64>,
    /// Rate and time together, in bits.
    bits: f64,
    /// Their time, in seconds.
    seconds: f64,
    /// The row that holds now.
    pub(super) row: Option<Row>,
    pub(super) rows: u64,
    /// When the last train came.
    heard: Option<(Instant, Duration)>,
    pub(super) trains: u64,
    lost_trains: u64,
    /// Trains that said nothing, by why.
    clock_steps: u64,
    coalesced: u64,
    too_few: u64,
    packets: u64,
    lost_packets: u64,
}

/// One train or silence, as `--json` tells it.
#[derive(Debug, serde::Serialize)]
pub(super) struct Line {
    time_s: f64,
    direction: &'static str,
    /// The train's number; none: a time in which nothing came.
    train: Option<u32>,
    rate_mbps: Option<f64>,
    estimate_mbps: Option<f64>,
    packets: Option<u8>,
    received: Option<u8>,
    dispersion_ms: Option<f64>,
    stamps: Option<u8>,
    /// Why there is no rate.
    unusable: Option<String>,
    rtt_ms: Option<f64>,
}

impl Way {
    /// Nothing yet, to be written to `file` if that is given.
    pub(super) fn new(name: &'static str, file: Option<&Path>) -> Result<Self, Failure> {
        let create = |path: &Path| -> Result<_, Failure> {
            let wrong = |error| Failure::failed(format!("{}: {error}", path.display()));
            let mut file = BufWriter::new(File::create(path).map_err(wrong)?);
            writeln!(file, "{CSV_HEADER}").map_err(wrong)?;
            Ok((path.to_owned(), file))
        };
        Ok(Self {
            name,
            recorder: Recorder::default(),
            estimator: Estimator::default(),
            file: file.map(create).transpose()?,
            rates: Histogram::new_with_bounds(1, MAX_KBPS, 3)
                .expect("the bounds are in order and the precision is at most 5"),
            bits: 0.0,
            seconds: 0.0,
            row: None,
            rows: 0,
            heard: None,
            trains: 0,
            lost_trains: 0,
            clock_steps: 0,
            coalesced: 0,
            too_few: 0,
            packets: 0,
            lost_packets: 0,
        })
    }

    /// Takes the next sample; what to tell of it.
    pub(super) fn on_sample(
        &mut self,
        sample: &Sample,
        rtt: Option<Duration>,
        now: Instant,
    ) -> Result<Vec<Line>, Failure> {
        let recorded = self.recorder.on_sample(sample);
        self.heard = Some((now, sample.interval));
        let lost = u64::from(recorded.lost_trains);
        self.trains += 1 + lost;
        self.lost_trains += lost;
        // Of trains lost whole nobody knows the length: they had that of their neighbour.
        self.packets += (1 + lost) * u64::from(sample.packets);
        self.lost_packets += u64::from(sample.packets - sample.received);
        self.lost_packets += lost * u64::from(sample.packets);
        match sample.outcome {
            Ok(_) => {}
            Err(Unusable::ClockStep) => self.clock_steps += 1,
            Err(Unusable::Coalesced { .. }) => self.coalesced += 1,
            Err(Unusable::TooFew) => self.too_few += 1,
        }
        let mut lines = self.take(&recorded.rows)?;
        if let Some(rate) = sample.rate() {
            self.estimator.on_sample(rate);
        }
        lines.push(Line {
            time_s: recorded.time.as_secs_f64(),
            direction: self.name,
            train: Some(sample.train),
            rate_mbps: sample.rate().map(Bitrate::as_mbps_f64),
            estimate_mbps: self.estimator.rate().map(Bitrate::as_mbps_f64),
            packets: Some(sample.packets),
            received: Some(sample.received),
            dispersion_ms: sample.outcome.ok().map(|d| d.time.as_secs_f64() * 1e3),
            stamps: sample.outcome.ok().map(|d| d.stamps),
            unusable: sample.outcome.err().map(|why| why.to_string()),
            rtt_ms: rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
        });
        Ok(lines)
    }

    /// Ends the trace at `end`; what to tell of its end.
    pub(super) fn finish(&mut self, end: Instant) -> Result<Vec<Line>, Failure> {
        let silence = self.heard.map_or(Duration::ZERO, |(at, _)| end.since(at));
        let (end, rows) = self.recorder.finish(silence);
        let lines = self.take(&rows)?;
        self.weigh(end);
        self.flush()?;
        Ok(lines)
    }

    /// Whether nothing comes though it should.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let limit = |interval: Duration| 3 * interval + Duration::from_millis(50);
        self.heard.is_some_and(|(at, interval)| now.since(at) > limit(interval))
    }

    /// Writes rows; those of rate 0 have no sample to tell of them.
    fn take(&mut self, rows: &[Row]) -> Result<Vec<Line>, Failure> {
        let mut lines = Vec::new();
        for row in rows {
            self.weigh(row.time);
            self.row = Some(*row);
            self.rows += 1;
            if let Some((path, file)) = &mut self.file {
                writeln!(file, "{row}").map_err(|error| wrong(path, &error))?;
            }
            if row.rate == Bitrate::ZERO {
                self.estimator.on_silence();
                lines.push(self.silence(row));
            }
        }
        Ok(lines)
    }

    fn silence(&self, row: &Row) -> Line {
        Line {
            time_s: row.time.as_secs_f64(),
            direction: self.name,
            train: None,
            rate_mbps: Some(0.0),
            estimate_mbps: Some(0.0),
            packets: None,
            received: None,
            dispersion_ms: None,
            stamps: None,
            unusable: None,
            rtt_ms: None,
        }
    }

    /// The row that held until `until` counts for as long.
    fn weigh(&mut self, until: Duration) {
        let Some(row) = self.row else { return };
        let held = until.saturating_sub(row.time);
        let us = u64::try_from(held.as_micros()).unwrap_or(u64::MAX);
        self.rates.saturating_record_n(row.rate.as_bps() / 1000, us);
        self.bits += row.rate.as_bps() as f64 * held.as_secs_f64();
        self.seconds += held.as_secs_f64();
    }

    /// What is written is safe from here on, even if the program is killed.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        match &mut self.file {
            Some((path, file)) => file.flush().map_err(|error| wrong(path, &error)),
            None => Ok(()),
        }
    }

    /// The rates so far, each for as long as it held.
    pub(super) fn rates(&self) -> String {
        if self.seconds == 0.0 {
            return "no rate yet".to_owned();
        }
        let mbps = |kbps: u64| format!("{:.1}", kbps as f64 / 1e3);
        let quantile = |q| mbps(self.rates.value_at_quantile(q));
        format!(
            "mean {:.1} min {} p5 {} p50 {} p95 {} max {} Mb/s",
            self.bits / self.seconds / 1e6,
            mbps(self.rates.min()),
            quantile(0.05),
            quantile(0.5),
            quantile(0.95),
            mbps(self.rates.max()),
        )
    }

    /// What was lost, and how long the way is.
    pub(super) fn path(&self, rtt: Option<Duration>) -> String {
        let loss = self.lost_packets as f64 / self.packets.max(1) as f64 * 100.0;
        let rtt =
            rtt.map_or(String::new(), |rtt| format!(", rtt {:.1} ms", rtt.as_secs_f64() * 1e3));
        format!("loss {loss:.2} %{rtt}")
    }

    /// How many trains there were, and what became of those that say nothing.
    pub(super) fn tally(&self) -> String {
        let mut text = format!("{} trains", self.trains);
        for (count, what) in [
            (self.lost_trains, "lost"),
            (self.too_few, "with too few packets"),
            (self.coalesced, "taken up all at once"),
            (self.clock_steps, "during which the clock was set"),
        ] {
            if count > 0 {
                let _ = write!(text, ", {count} {what}");
            }
        }
        text
    }

    /// Where the trace is.
    pub(super) fn file(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }
}

fn wrong(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}
