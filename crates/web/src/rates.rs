//! What two looks at counters make: rates.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::source::{ConnectionLook, Look, PathLook, PathState};

/// What is known of a path at a moment, in this order: megabits per second sent and received, the
/// smoothed round-trip time and the queueing delay in ms, the share of segments that were sent
/// again, and the congestion windows in bytes.
pub(crate) const FIGURES: [&str; 6] =
    ["send", "receive", "srtt", "queueing", "retransmitted", "cwnd"];
pub(crate) const SEND: usize = 0;
pub(crate) const RECEIVE: usize = 1;
const RETRANSMITTED: usize = 4;
pub(crate) const CWND: usize = 5;

/// Connections of a sample: those that moved the most.
pub(crate) const BUSIEST: usize = 4;

/// The payload of a segment on Ethernet with timestamps (RFC 7323): the kernel counts segments that
/// it sends again, and bytes are known of what it sends.
const SEGMENT_BYTES: f64 = 1448.0;

/// A program over the time since the last look.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Seconds since the dashboard was opened.
    pub(crate) t: f64,
    pub(crate) state: String,
    pub(crate) open: u32,
    pub(crate) used: u32,
    pub(crate) paths: Vec<PathSample>,
    /// Those that moved anything; where there are fewer, the rest moved nothing.
    pub(crate) busiest: [ConnectionSample; BUSIEST],
}

/// A path over that time.
#[derive(Clone, Debug)]
pub(crate) struct PathSample {
    pub(crate) name: Arc<str>,
    pub(crate) state: PathState,
    /// NaN where it is not known.
    pub(crate) figures: [f32; FIGURES.len()],
}

impl PathSample {
    /// What it carries in both directions, Mb/s.
    pub(crate) fn busy(&self) -> f32 {
        self.figures[SEND] + self.figures[RECEIVE]
    }
}

/// A connection over that time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ConnectionSample {
    /// Its number, modulo 2³².
    pub(crate) number: u32,
    /// Mb/s.
    pub(crate) send: f32,
    pub(crate) receive: f32,
}

impl ConnectionSample {
    /// What it carries in both directions, Mb/s.
    pub(crate) fn busy(&self) -> f32 {
        self.send + self.receive
    }
}

/// Makes samples of looks.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    last: Option<(f64, Counters)>,
    /// What the sample before said of rates.
    rates: BTreeMap<Arc<str>, [f32; FIGURES.len()]>,
}

/// What the last look has counted.
#[derive(Debug, Default)]
struct Counters {
    paths: BTreeMap<Arc<str>, [u64; 3]>,
    connections: BTreeMap<u64, [u64; 2]>,
}

impl Rates {
    /// The sample of a look at `t` seconds: the time from the look before to it. The first look has
    /// nothing before it, and so no rates.
    pub(crate) fn sample(&mut self, look: &Look, t: f64) -> Sample {
        let (seconds, before) = match self.last.take() {
            Some((then, before)) => (t - then, before),
            None => (0.0, Counters::default()),
        };
        let is_first = before.paths.is_empty() && before.connections.is_empty();
        let paths = look.paths.iter().map(|path| {
            let mut sample = of_path(path, before.paths.get(&path.name), seconds);
            // Two looks at the same time: nothing can have moved, and the rates are as they were.
            if let Some(rates) = self.rates.get(&path.name).filter(|_| seconds <= 0.0 && !is_first)
            {
                for figure in [SEND, RECEIVE, RETRANSMITTED] {
                    sample.figures[figure] = rates[figure];
                }
            }
            sample
        });
        let sample = Sample {
            t,
            state: look.state.clone(),
            open: look.open,
            used: look.used,
            paths: paths.collect(),
            busiest: busiest(&look.connections, &before.connections, seconds),
        };
        self.rates =
            sample.paths.iter().map(|path| (Arc::clone(&path.name), path.figures)).collect();
        let path = |one: &PathLook| {
            let counted =
                [one.sent_bytes, one.received_bytes, one.retransmitted_segments.unwrap_or(0)];
            (Arc::clone(&one.name), counted)
        };
        let connection = |one: &ConnectionLook| (one.number, [one.sent_bytes, one.received_bytes]);
        self.last = Some((
            t,
            Counters {
                paths: look.paths.iter().map(path).collect(),
                connections: look.connections.iter().map(connection).collect(),
            },
        ));
        sample
    }
}

/// Megabits per second; zero where there is nothing to compare with.
fn mbps(now: u64, before: u64, seconds: f64) -> f32 {
    if seconds <= 0.0 {
        return 0.0;
    }
    (now.saturating_sub(before) as f64 * 8.0 / seconds / 1e6) as f32
}

fn of_path(now: &PathLook, before: Option<&[u64; 3]>, seconds: f64) -> PathSample {
    // A path that is new has carried what it has since the last look.
    let [sent, received, retransmitted] = before.copied().unwrap_or_default();
    let again = now.retransmitted_segments.unwrap_or(0).saturating_sub(retransmitted) as f64;
    let first = now.sent_bytes.saturating_sub(sent) as f64 / SEGMENT_BYTES;
    let share = if again > 0.0 { again / (first + again) } else { 0.0 };
    let is_known = seconds > 0.0 && now.retransmitted_segments.is_some();
    let share = if is_known { share as f32 } else { f32::NAN };
    PathSample {
        name: Arc::clone(&now.name),
        state: now.state,
        figures: [
            mbps(now.sent_bytes, sent, seconds),
            mbps(now.received_bytes, received, seconds),
            now.srtt_ms.unwrap_or(f32::NAN),
            now.queueing_ms.unwrap_or(f32::NAN),
            share,
            now.cwnd_bytes.map_or(f32::NAN, |bytes| bytes as f32),
        ],
    }
}

/// The connections that moved the most since the last look; those that moved nothing are none.
fn busiest(
    now: &[ConnectionLook],
    before: &BTreeMap<u64, [u64; 2]>,
    seconds: f64,
) -> [ConnectionSample; BUSIEST] {
    let sample = |one: &ConnectionLook| {
        let [sent, received] = before.get(&one.number).copied().unwrap_or_default();
        ConnectionSample {
            number: one.number as u32,
            send: mbps(one.sent_bytes, sent, seconds),
            receive: mbps(one.received_bytes, received, seconds),
        }
    };
    let mut all: Vec<_> = now.iter().map(sample).filter(|one| one.busy() > 0.0).collect();
    all.sort_by(|a, b| b.busy().total_cmp(&a.busy()).then(a.number.cmp(&b.number)));
    std::array::from_fn(|place| all.get(place).copied().unwrap_or_default())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A path with these counters.
    pub(crate) fn path(name: &str, sent_bytes: u64, retransmitted_segments: u64) -> PathLook {
        PathLook {
            name: name.into(),
            state: PathState::Up,
            sent_bytes,
            received_bytes: 0,
            retransmitted_segments: Some(retransmitted_segments),
            srtt_ms: Some(6.0),
            queueing_ms: None,
            cwnd_bytes: Some(1000),
        }
    }

    fn connection(number: u64, sent_bytes: u64, received_bytes: u64) -> ConnectionLook {
        ConnectionLook { number, sent_bytes, received_bytes }
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let mut rates = Rates::default();
        let look = Look { paths: vec![path("a", 1_000_000, 5)], ..Look::default() };
        let first = rates.sample(&look, 10.0);
        assert_eq!(first.paths[0].figures[SEND], 0.0, "there is nothing to compare with");
        assert!(first.paths[0].figures[4].is_nan());
        // 99 segments and one again, in half a second; and a path that was not there before.
        let sent = 1_000_000 + 99 * 1448;
        let paths = vec![path("a", sent, 6), path("b", 500_000, 0)];
        let second = rates.sample(&Look { paths, ..Look::default() }, 10.5);
        let [send, receive, srtt, queueing, again, cwnd] = second.paths[0].figures;
        assert!((send - 2.293_632).abs() < 1e-5, "{send}");
        assert_eq!((receive, srtt, cwnd), (0.0, 6.0, 1000.0));
        assert!(queueing.is_nan() && (again - 0.01).abs() < 1e-6, "{again}");
        assert!((second.paths[1].figures[SEND] - 8.0).abs() < 1e-5);
    }

    #[test]
    fn counters_that_fall_are_no_negative_rates() {
        let mut rates = Rates::default();
        let look = |sent, again| Look { paths: vec![path("a", sent, again)], ..Look::default() };
        rates.sample(&look(1000, 50), 1.0);
        let sample = rates.sample(&look(900, 3), 2.0);
        assert_eq!(sample.paths[0].figures[SEND], 0.0);
        assert_eq!(sample.paths[0].figures[4], 0.0);
        // Nor is a clock that stands still a rate without end.
        let sample = rates.sample(&look(2000, 3), 2.0);
        assert_eq!(sample.paths[0].figures[SEND], 0.0);
    }

    #[test]
    fn the_busiest_connections_come_first_and_idle_ones_not_at_all() {
        let mut rates = Rates::default();
        let all = |step: u64| Look {
            connections: (0..10).map(|n| connection(n, n * step, 2 * n * step)).collect(),
            ..Look::default()
        };
        rates.sample(&all(0), 0.0);
        let sample = rates.sample(&all(1_000_000), 1.0);
        let numbers: Vec<_> = sample.busiest.iter().map(|one| one.number).collect();
        assert_eq!(numbers, [9, 8, 7, 6]);
        assert_eq!(sample.busiest[0].send, 72.0);
        assert_eq!(sample.busiest[0].receive, 144.0);
        assert_eq!(
            rates.sample(&all(1_000_000), 2.0).busiest,
            [ConnectionSample::default(); BUSIEST]
        );
    }

    #[test]
    fn what_no_kernel_counts_is_not_taken_for_nothing() {
        let look = || Look {
            paths: vec![PathLook { retransmitted_segments: None, ..path("radio", 1_000_000, 0) }],
            ..Look::default()
        };
        let mut rates = Rates::default();
        rates.sample(&look(), 0.0);
        let figures = rates.sample(&look(), 1.0).paths[0].figures;
        assert!(figures[SEND] == 0.0 && figures[RETRANSMITTED].is_nan(), "{figures:?}");
    }
}
