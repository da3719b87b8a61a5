//! Which bytes of a GoP are there at the deadline, by what the paths carried: the transports.
//!
//! A transport receives a prefix of the bytes, in the order they were given to it, and perhaps an
//! island behind a hole. [`InOrder`] is any transport that fills in order at the sum of the
//! paths' rates; it stands for kernel MPTCP when the rates are those that MPTCP reached. FBDT
//! sends each window of the stream from both ends at once (FBDT §3.1), so what is missing at a
//! deadline lies in the *middle* of the window that was not finished: [`FbdtStream`] releases
//! nothing behind the hole, [`FbdtMessages`] hands over every tile that is whole.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use weftline_core::{Bitrate, ByteCount};

use super::throughput::Throughput;

/// The paper's transmission window (FBDT §3.2).
pub const PAPER_WINDOW: ByteCount = ByteCount::mib(1);
/// The transport's adaptive window covers this much time of all paths together.
const WINDOW_TIME: Duration = Duration::from_millis(5);
const WINDOW_LIMITS: [u64; 2] = [64 << 10, 4 << 20];

/// How far a transport got with data that do not end, at the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes carried. Data no longer than that are there whole.
    pub carried: u64,
    /// Everything before this offset is there; at most `carried`.
    pub prefix: u64,
    /// The end of the window that is open. Where the data end before, the window ends there.
    pub end: u64,
    /// So many bytes are there just before the window's end, and are handed over.
    pub back: u64,
}

/// What of a GoP's bytes is there at the deadline, as offsets in the order of sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Everything before this offset.
    pub prefix: u64,
    /// And these, behind a hole; empty if there are none.
    pub island: Range<u64>,
}

impl Progress {
    /// What is there of data of `total` bytes.
    pub fn received(&self, total: u64) -> Received {
        if self.carried >= total {
            return Received { prefix: total, island: total..total };
        }
        let end = self.end.min(total);
        Received { prefix: self.prefix, island: end.saturating_sub(self.back)..end }
    }
}

/// A transport, as far as deadlines are concerned.
pub trait Delivery: fmt::Debug {
    /// How far it got if the paths carried `paths` bytes until the deadline. If all paths carry
    /// more in the same proportion, nothing that was there may be missing.
    fn progress(&self, paths: &[ByteCount]) -> Progress;
}

/// A transport that fills in order at the sum of its paths' rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InOrder;

/// FBDT as a byte stream: nothing behind the hole of an unfinished window is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FbdtStream(pub TwoEnded);

/// FBDT with messages: each tile is handed over as soon as it is whole, at either end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FbdtMessages(pub TwoEnded);

/// Windows that are sent from both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoEnded {
    /// The path that works forward, as an index into a sample's paths. All others together work
    /// backward: with more than two paths the real windows have several gaps, and the model's one
    /// hole is their worst case.
    pub forward: usize,
    /// The window. [`TwoEnded::adaptive_window`] is what the transport chooses by itself.
    pub window: ByteCount,
}

impl Delivery for InOrder {
    fn progress(&self, paths: &[ByteCount]) -> Progress {
        let carried = sum(paths);
        Progress { carried, prefix: carried, end: carried, back: 0 }
    }
}

impl Delivery for FbdtStream {
    fn progress(&self, paths: &[ByteCount]) -> Progress {
        Progress { back: 0, ..self.0.progress(paths) }
    }
}

impl Delivery for FbdtMessages {
    fn progress(&self, paths: &[ByteCount]) -> Progress {
        self.0.progress(paths)
    }
}

impl TwoEnded {
    /// The window that the transport opens when the paths carry what they carry on average: 5 ms
    /// of all of them, 64 KiB at least and 4 MiB at most. `horizon` is the time that the samples
    /// of `throughput` are for.
    pub fn adaptive_window(throughput: &Throughput, horizon: Duration) -> ByteCount {
        let rate = Bitrate::from_transfer(throughput.mean(), horizon);
        let [least, most] = WINDOW_LIMITS;
        ByteCount::new(rate.bytes_in(WINDOW_TIME).as_u64().clamp(least, most))
    }

    fn progress(self, paths: &[ByteCount]) -> Progress {
        let carried = sum(paths);
        let window = self.window.as_u64().max(1);
        let start = carried - carried % window;
        // Both ends of the open window grow as the paths' rates are to each other.
        let forward = paths.get(self.forward).map_or(0, |bytes| bytes.as_u64());
        let part = u128::from(carried - start) * u128::from(forward) / u128::from(carried.max(1));
        let prefix = start + u64::try_from(part).unwrap_or(u64::MAX);
        Progress { carried, prefix, end: start.saturating_add(window), back: carried - prefix }
    }
}

fn sum(paths: &[ByteCount]) -> u64 {
    paths.iter().fold(0, |sum, bytes| sum.saturating_add(bytes.as_u64()))
}

/// The deadline model: the probability that a range of a GoP's bytes has arrived at the deadline.
#[derive(Clone, Debug)]
pub(super) struct DeadlineModel {
    /// Weight and progress of each sample, by ascending prefix.
    samples: Vec<(f64, Progress)>,
    /// Whether any sample has an island.
    has_islands: bool,
    /// For the bytes that [`DeadlineModel::set_total`] was told: the ends of the prefixes, ascending,
    prefixes: Vec<f64>,
    /// the probability of a prefix at least as long as the one of the same index (then 0),
    reached: Vec<f64>,
    /// the weight and bounds of the islands, in the same order,
    islands: Vec<[f64; 3]>,
    /// and the most by which an island ends behind its prefix.
    span: f64,
}

impl DeadlineModel {
    /// A model of delivery under `throughput`. Before the first question, set a total.
    pub(super) fn new(delivery: &dyn Delivery, throughput: &Throughput) -> Self {
        let samples = throughput.samples().iter();
        let mut samples: Vec<(f64, Progress)> =
            samples.map(|(weight, paths)| (*weight, delivery.progress(paths))).collect();
        samples.sort_by_key(|(_, progress)| progress.prefix);
        let has_islands = samples.iter().any(|(_, progress)| progress.back > 0);
        let (prefixes, reached, islands) = (Vec::new(), Vec::new(), Vec::new());
        Self { samples, has_islands, prefixes, reached, islands, span: 0.0 }
    }

    /// The number of samples.
    pub(super) fn samples(&self) -> usize {
        self.samples.len()
    }

    /// There are `total` bytes.
    pub(super) fn set_total(&mut self, total: u64) {
        let Self { samples, prefixes, reached, islands, .. } = self;
        prefixes.clear();
        islands.clear();
        reached.clear();
        let mut chance = 1.0_f64;
        // First the samples that do not bring everything; those that do have the longest prefix.
        for (weight, progress) in samples.iter().filter(|(_, sample)| sample.carried < total) {
            reached.push(chance.max(0.0));
            chance -= weight;
            prefixes.push(progress.prefix as f64);
            if self.has_islands {
                let island = progress.received(total).island;
                islands.push([*weight, island.start as f64, island.end as f64]);
            }
        }
        // What is left is the weight of the samples that bring everything, or rounding.
        let whole = prefixes.len() < samples.len();
        reached.push(if whole { chance.clamp(0.0, 1.0) } else { 0.0 });
        let spans = islands.iter().zip(prefixes).map(|([.., end], prefix)| end - *prefix);
        self.span = spans.fold(0.0, f64::max);
    }

    /// The probability that the bytes from `start` to `end` are there; `end` is at most the total.
    /// Offsets are whole numbers below 2^53, which an `f64` holds exactly.
    pub(super) fn on_time(&self, start: f64, end: f64) -> f64 {
        let short = self.prefixes.partition_point(|&prefix| prefix < end);
        let chance = self.reached[short];
        if !self.has_islands {
            return chance;
        }
        // An island that ends at `end` or later belongs to a prefix that is not much shorter.
        let near = self.prefixes[..short].partition_point(|&prefix| prefix < end - self.span);
        let inside = self.islands[near..short]
            .iter()
            .map(|&[weight, from, to]| if from <= start && end <= to { weight } else { 0.0 });
        (chance + inside.sum::<f64>()).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(paths: &[u64]) -> Vec<ByteCount> {
        paths.iter().map(|&bytes| ByteCount::new(bytes)).collect()
    }

    fn two_ended(window: u64) -> TwoEnded {
        TwoEnded { forward: 0, window: ByteCount::new(window) }
    }

    #[test]
    fn what_fbdt_misses_lies_in_the_middle_of_the_open_window() {
        // 250 of 400 bytes at 2:3; windows of 100: two are done, of the third 20 from the front
        // and 30 from the back.
        let got = FbdtMessages(two_ended(100)).progress(&bytes(&[100, 150])).received(400);
        assert_eq!(got, Received { prefix: 220, island: 270..300 });
        let got = FbdtStream(two_ended(100)).progress(&bytes(&[100, 150])).received(400);
        assert_eq!((got.prefix, got.island.is_empty()), (220, true));
        assert_eq!(InOrder.progress(&bytes(&[100, 150])).received(400).prefix, 250);
    }

    #[test]
    fn one_window_for_the_whole_gop_brings_both_its_ends() {
        let got = FbdtMessages(two_ended(1 << 30)).progress(&bytes(&[100, 150])).received(400);
        assert_eq!(got, Received { prefix: 100, island: 250..400 });
    }

    #[test]
    fn nothing_carried_and_unknown_paths_are_no_special_case() {
        let got = FbdtMessages(two_ended(0)).progress(&bytes(&[0, 0])).received(10);
        assert_eq!((got.prefix, got.island.is_empty()), (0, true));
        let missing = FbdtMessages(TwoEnded { forward: 7, window: ByteCount::new(100) });
        assert_eq!(
            missing.progress(&bytes(&[5])).received(10),
            Received { prefix: 0, island: 5..10 }
        );
        assert_eq!(InOrder.progress(&bytes(&[u64::MAX, u64::MAX])).received(10).prefix, 10);
    }

    #[test]
    fn the_adaptive_window_is_five_milliseconds_of_all_paths() {
        let window = |mbps: u64| {
            let second = Bitrate::mbps(mbps).bytes_in(Duration::from_secs(1));
            let certain = Throughput::certain(&[second]).unwrap();
            TwoEnded::adaptive_window(&certain, Duration::from_secs(1)).as_u64()
        };
        assert_eq!(window(1_600), 1_000_000);
        assert_eq!((window(1), window(100_000)), (64 << 10, 4 << 20));
    }

    #[test]
    fn probabilities_count_the_samples_that_bring_the_range() {
        let samples = vec![(1.0, bytes(&[10, 10])), (3.0, bytes(&[40, 40]))];
        let throughput = Throughput::from_samples(samples).unwrap();
        let mut deadlines = DeadlineModel::new(&InOrder, &throughput);
        deadlines.set_total(100);
        assert_eq!(deadlines.on_time(0.0, 20.0), 1.0);
        assert_eq!(deadlines.on_time(0.0, 21.0), 0.75);
        assert_eq!(deadlines.on_time(80.0, 81.0), 0.0);
        let mut deadlines = DeadlineModel::new(&FbdtMessages(two_ended(100)), &throughput);
        deadlines.set_total(100);
        assert_eq!(deadlines.on_time(10.0, 12.0), 0.75);
        assert_eq!(deadlines.on_time(95.0, 100.0), 1.0);
        assert_eq!(deadlines.on_time(45.0, 55.0), 0.0);
    }

    proptest! {
        /// More on all paths, in proportion (the ratio moves the hole), never takes a byte away.
        #[test]
        fn received_grows_with_what_is_carried(
            paths in proptest::collection::vec(0_u64..200, 1..4),
            times in 2_u64..5,
            window in 1_u64..300,
            total in 1_u64..800,
        ) {
            let transports: [&dyn Delivery; 3] =
                [&InOrder, &FbdtStream(two_ended(window)), &FbdtMessages(two_ended(window))];
            let richer: Vec<u64> = paths.iter().map(|path| path * times).collect();
            for transport in transports {
                let less = transport.progress(&bytes(&paths)).received(total);
                let most = transport.progress(&bytes(&richer)).received(total);
                for offset in 0..total {
                    let has = |r: &Received| offset < r.prefix || r.island.contains(&offset);
                    prop_assert!(!has(&less) || has(&most), "{transport:?}: byte {offset}");
                }
                prop_assert!(most.prefix <= total && most.island.end <= total);
            }
        }
    }
}
