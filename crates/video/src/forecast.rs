//! What the paths of a live connection can bring until a deadline, from what they did.
//!
//! A sender that plans by its own throughput must not take what it *sent* for what it *could have*
//! sent: it would never send more. So only the time counts during which a path had more to do than
//! it could, up to the last of it, and where there was too little of that, half as much again is tried.
//!
//! Of a path's rate only that part can bring something new which is not taken by what waits in sockets
//! and queues; what a round trip holds anyhow waits nowhere. A path that is down brings nothing, from the moment at which that is known
//! until it is up again; the time in between says nothing about its rate, nor does what comes at
//! once when it ends.

use std::time::Duration;

use weftline_core::session::PathStats;
use weftline_core::{Bitrate, ByteCount, Instant};

use crate::ows::{History, MAX_PATHS, Recency, Throughput, ThroughputError};

/// How long a sample is.
const SECOND: Duration = Duration::from_secs(1);
/// With less time under load a second says nothing about what a path can carry.
const LEAST_LOADED: Duration = Duration::from_millis(100);
/// How much more is tried after a second that was not filled: half as much again,
const GROWTH: f64 = 1.5;
/// but no more than so many times what was carried in it: what is never asked for need not be
/// known.
const MOST_AHEAD: f64 = 4.0;
/// So much of what was measured is left free, in percent: rates are measured to some per cent, and what is
/// planned beyond them is late. With 2 %, over constant links (the example `live`, three seeds), the mean
/// quality is 0.1 to 0.2 dB better and more tiles are late: at 8 + 4 Mb/s under CUBIC 2.3 % in place of
/// 1.4 %.
const MARGIN_PERCENT: u64 = 5;
/// A reading in which a path has come up again, and the next one, may have what waited in buffers
/// meanwhile.
const STEADY: u8 = 2;

/// What is known of a path at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathReading {
    /// The bytes that it has delivered so far.
    pub delivered: u64,
    /// The bytes given to it that are not known to have arrived.
    pub outstanding: u64,
    /// Its least round-trip time; zero if that is not known.
    pub min_rtt: Duration,
    /// Whether it makes progress, as far as is known, and is there for new data.
    pub is_up: bool,
}

impl From<&PathStats> for PathReading {
    fn from(path: &PathStats) -> Self {
        let delivered = path.delivered;
        let Some(subflow) = &path.subflow else {
            return Self { delivered, ..Self::default() };
        };
        Self {
            delivered,
            outstanding: subflow.outstanding,
            min_rtt: subflow.info.min_rtt,
            is_up: !subflow.stalled && !subflow.standby,
        }
    }
}

/// What time a plan has, and what is before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanTime {
    /// Until its deadline.
    pub left: Duration,
    /// Until the next plan is made: what comes after it is for that one.
    pub next: Duration,
    /// Bytes of earlier plans that wait for a path and are of use still.
    pub waiting: ByteCount,
}

/// Turns readings of the paths' counters into what they may bring.
#[derive(Clone, Debug)]
pub struct Forecast {
    history: History,
    paths: Vec<Path>,
    /// What all paths together are taken to carry before anything is known.
    start: Bitrate,
    last: Option<Instant>,
    /// Whether something waited for a path at the last reading.
    had_backlog: bool,
    second_began: Instant,
    /// How much later than here times count.
    counted_from: Duration,
}

/// One path, and what it has done in the second under way.
#[derive(Clone, Copy, Debug, Default)]
struct Path {
    last: PathReading,
    /// The rate of the second before; at first, that which the start is planned with.
    rate: Bitrate,
    /// Readings at which it was up, without a break, up to [`STEADY`].
    steady: u8,
    /// Seconds since it had a rate first, if it came when others had some already.
    joined: Option<usize>,
    /// Whether something has arrived since it had nothing to do.
    flows: bool,
    carried: u64,
    loaded: u64,
    loaded_for: Duration,
}

impl Forecast {
    /// Nothing has been carried; all paths together are taken to carry `start` at first.
    pub fn new(start: Bitrate) -> Self {
        let (history, paths) = (History::new(), Vec::new());
        let second_began = Instant::ZERO;
        let (last, counted_from) = (None, Duration::ZERO);
        Self { history, paths, start, last, had_backlog: false, second_began, counted_from }
    }

    /// The rate at which paths must have been measured so that `rate` of it is planned for.
    pub fn measured_for(rate: Bitrate) -> Bitrate {
        let bps = u128::from(rate.as_bps()) * 100 / u128::from(100 - MARGIN_PERCENT);
        Bitrate::bps(u64::try_from(bps).unwrap_or(u64::MAX))
    }

    /// The seconds so far: what the paths could carry.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What may be given to the paths within `left` and arrives so much after that at the latest as
    /// [`Self::count_from`] says, beyond what waits in sockets and queues.
    ///
    /// # Errors
    /// [`ThroughputError::Recency`].
    pub fn expected(
        &self,
        left: Duration,
        recency: &Recency,
    ) -> Result<Throughput, ThroughputError> {
        self.free(left, recency, |path| path.taken(self.counted_from))
    }

    /// Has times count from `way` later on: from when what was sent first has arrived.
    pub fn count_from(&mut self, way: Duration) {
        self.counted_from = way;
    }

    /// The one-way delay of the nearest path that is up, half of its least round trip; zero if none is
    /// known.
    pub fn way(&self) -> Duration {
        let up = self.paths.iter().filter(|path| path.last.is_up);
        let known = up.map(|path| path.last.min_rtt).filter(|rtt| !rtt.is_zero());
        known.min().unwrap_or_default() / 2
    }

    /// What the paths carry within `left`, what is on its way already included; a path that is down nothing,
    /// if another one is up.
    ///
    /// # Errors
    /// [`ThroughputError::Recency`].
    pub fn carried(&self, left: Duration, recency: &Recency) -> Result<ByteCount, ThroughputError> {
        Ok(self.free(left, recency, |_| 0)?.mean())
    }

    /// What a plan may have of what the paths bring: no more than they carry on average until the next
    /// plan is made, and where they carry less, what may come after that and is in time.
    ///
    /// # Errors
    /// [`ThroughputError::Recency`].
    pub fn expected_for(
        &self,
        time: PlanTime,
        recency: &Recency,
    ) -> Result<Throughput, ThroughputError> {
        let free = self.expected(time.left, recency)?;
        let most = match time.left <= time.next {
            true => None,
            false => Some(self.free(time.next, recency, |_| 0)?.means()),
        };
        let sample = |(weight, bytes): &(f64, Vec<ByteCount>)| {
            let all = bytes.iter().copied().sum::<ByteCount>().as_u64();
            let left = u128::from(all.saturating_sub(time.waiting.as_u64()));
            let path = |(path, bytes): (usize, &ByteCount)| {
                let part = u128::from(bytes.as_u64()) * left / u128::from(all.max(1));
                let part = ByteCount::new(part as u64);
                most.as_ref().map_or(part, |most| part.min(most[path]))
            };
            (*weight, bytes.iter().enumerate().map(path).collect())
        };
        Throughput::from_samples(free.samples().iter().map(sample).collect())
    }

    /// What the paths may bring within `left`, each less what is `taken` of it.
    fn free(
        &self,
        left: Duration,
        recency: &Recency,
        taken: impl Fn(&Path) -> u64,
    ) -> Result<Throughput, ThroughputError> {
        let (all, margin) = if self.history.is_empty() {
            let rates = self.paths.iter().map(|path| path.rate.bytes_in(left));
            let start = || vec![self.start.bytes_in(left)];
            let start = if self.paths.is_empty() { start() } else { rates.collect() };
            (Throughput::certain(&start)?, 0)
        } else {
            (Throughput::forecast(&self.history, left, recency)?, MARGIN_PERCENT)
        };
        // When none is up, nothing can be sent before one is: what is planned then is for that time.
        let any_up = self.paths.iter().any(|path| path.last.is_up);
        if self.paths.is_empty() {
            return Ok(all);
        }
        let new = |(path, bytes): (&Path, &ByteCount)| {
            let sure = bytes.as_u64() - bytes.as_u64() / 100 * margin;
            ByteCount::new(match (path.last.is_up, any_up) {
                (true, _) => sure.saturating_sub(taken(path)),
                (false, true) => 0,
                (false, false) => sure,
            })
        };
        let samples = all.samples().iter();
        let samples = samples
            .map(|(weight, bytes)| (*weight, self.paths.iter().zip(bytes).map(new).collect()));
        Throughput::from_samples(samples.collect())
    }

    /// Takes a reading of the paths, in an order that does not change, new ones last; and whether
    /// anything waits for a path. Readings that are older than one before are ignored, and so are
    /// paths beyond [`MAX_PATHS`].
    pub fn handle_reading(&mut self, paths: &[PathReading], backlog: bool, now: Instant) {
        let paths = &paths[..paths.len().min(MAX_PATHS)];
        if self.last.is_some_and(|last| now <= last) || paths.len() < self.paths.len() {
            return;
        }
        let since = self.last.map_or(Duration::ZERO, |last| now.since(last));
        if self.last.is_none() {
            self.second_began = now;
        }
        let known = self.paths.len();
        self.paths.resize(paths.len(), Path::default());
        let was_kept = self.had_backlog && backlog;
        for (path, reading) in self.paths[..known].iter_mut().zip(paths) {
            path.note(reading, was_kept, since);
        }
        for (path, reading) in self.paths[known..].iter_mut().zip(&paths[known..]) {
            path.last = *reading;
            path.joined = (!self.history.is_empty()).then_some(0);
        }
        if self.history.is_empty() && known < paths.len() {
            // The rate of the start is that of all paths together.
            let each = self.start.as_bps() / paths.len() as u64;
            self.paths.iter_mut().for_each(|path| path.rate = Bitrate::bps(each));
        }
        (self.last, self.had_backlog) = (Some(now), backlog);
        let took = now.since(self.second_began);
        if took >= SECOND {
            self.second_began = now;
            self.finish_second(took);
        }
    }

    fn finish_second(&mut self, took: Duration) {
        let carried = self.paths.iter().fold(0_u64, |sum, path| sum.saturating_add(path.carried));
        let most = Bitrate::from_transfer(ByteCount::new(carried), took).as_bps() as f64;
        let mut any = false;
        for path in &mut self.paths {
            any |= path.finish_second(took, most);
        }
        // A second without any news is none.
        if any {
            let rates: Vec<Bitrate> = self.paths.iter().map(|path| path.rate).collect();
            self.history.push(&rates).expect("1 to MAX_PATHS paths, never fewer than before");
            // A path that came later is not known to have carried nothing before: it counts for what it
            // has carried since.
            for (index, path) in self.paths.iter_mut().enumerate() {
                let Some(known) = &mut path.joined else { continue };
                *known += usize::from(*known > 0 || path.rate > Bitrate::ZERO);
                if *known > 0 {
                    self.history.assume_before(index, *known);
                }
            }
        }
    }
}

impl Path {
    /// What of its rate brings nothing new by the time at which the path with the one-way delay `way`
    /// can: what waits in sockets and queues, and what would come later than on that one.
    fn taken(&self, way: Duration) -> u64 {
        let Self { rate, last: PathReading { outstanding, min_rtt, .. }, .. } = *self;
        let waits = outstanding.saturating_sub(rate.bytes_in(min_rtt).as_u64());
        waits.saturating_add(rate.bytes_in((min_rtt / 2).saturating_sub(way)).as_u64())
    }

    /// Counts what has arrived since the reading before, `since` ago.
    fn note(&mut self, reading: &PathReading, was_kept: bool, since: Duration) {
        let bytes = reading.delivered.saturating_sub(self.last.delivered);
        self.carried = self.carried.saturating_add(bytes);
        // Beyond what is under way anyhow, something waits in a queue. The rate of this reading alone
        // says little: bytes come in records, and where two of them came it would be twice as high,
        // and the reading would not count just because of that.
        let under_way = self.rate.bytes_in(reading.min_rtt).as_u64();
        let is_loaded = was_kept || (!reading.min_rtt.is_zero() && reading.outstanding > under_way);
        let is_steady = self.steady == STEADY && reading.is_up;
        // After a pause nothing arrives for a round trip.
        if is_loaded && is_steady && self.flows {
            self.loaded = self.loaded.saturating_add(bytes);
            self.loaded_for += since;
        } else if self.flows && is_steady {
            // It ran dry in between. What came until then may be a lot that waited for a packet to be
            // sent again, and counts for the time that it takes at the rate before, or for all of it.
            let rate = Bitrate::from_transfer(ByteCount::new(self.loaded), self.loaded_for);
            let took = rate.time_for(ByteCount::new(bytes)).unwrap_or(since);
            self.loaded = self.loaded.saturating_add(bytes);
            self.loaded_for += took.min(since);
        }
        self.flows = is_loaded && (self.flows || bytes > 0);
        self.steady = if reading.is_up { (self.steady + 1).min(STEADY) } else { 0 };
        self.last = *reading;
    }

    /// Draws the conclusions of a second, in which all paths carried `most` together. Returns whether
    /// there were any.
    fn finish_second(&mut self, took: Duration, most: f64) -> bool {
        let (loaded, loaded_for, carried) = (self.loaded, self.loaded_for, self.carried);
        (self.loaded, self.loaded_for, self.carried) = (0, Duration::ZERO, 0);
        if loaded_for >= LEAST_LOADED {
            self.rate = Bitrate::from_transfer(ByteCount::new(loaded), loaded_for);
            return true;
        }
        if carried == 0 || self.steady < STEADY {
            return false;
        }
        let had = Bitrate::from_transfer(ByteCount::new(carried), took).as_bps() as f64;
        let known = self.rate.as_bps() as f64;
        // What was known before stays known.
        let tried = (known * GROWTH).min(most * MOST_AHEAD);
        self.rate = Bitrate::bps(known.max(tried).max(had) as u64);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    /// Paths at their rates, read every 50 ms.
    struct Paths {
        forecast: Forecast,
        now_ms: u64,
        readings: Vec<PathReading>,
        backlog: bool,
    }

    impl Paths {
        fn new(count: usize, start: Bitrate) -> Self {
            let up = PathReading { is_up: true, min_rtt: RTT, ..PathReading::default() };
            let (forecast, readings) = (Forecast::new(start), vec![up; count]);
            let mut paths = Self { forecast, now_ms: 0, readings, backlog: true };
            // As a server does whose player has begun.
            paths.forecast.count_from(RTT / 2);
            paths.read();
            paths
        }

        fn read(&mut self) {
            let now = Instant::from_millis(self.now_ms);
            self.forecast.handle_reading(&self.readings, self.backlog, now);
        }

        /// For so long the paths carry these rates.
        fn run(&mut self, ms: u64, mbps: &[u64]) {
            for _ in 0..ms / 50 {
                self.now_ms += 50;
                // 1 Mb/s are 6,250 bytes in 50 ms.
                let paths = self.readings.iter_mut().zip(mbps);
                paths.for_each(|(path, mbps)| path.delivered += mbps * 6_250);
                self.read();
            }
        }

        /// What is expected in a second, in Mb/s.
        fn mbps(&self) -> f64 {
            let expected = self.forecast.expected(SECOND, &Recency::default()).unwrap();
            expected.mean().as_u64() as f64 * 8e-6
        }
    }

    #[test]
    fn under_load_the_rates_are_those_while_something_waits() {
        let mut paths = Paths::new(2, Bitrate::mbps(10));
        assert_eq!(paths.mbps(), 10.0);
        paths.run(550, &[20, 40]);
        paths.backlog = false;
        paths.run(500, &[0, 0]);
        assert!((paths.mbps() - 57.0).abs() < 0.1, "{}", paths.mbps());
    }

    #[test]
    fn a_queue_of_its_own_is_load_without_a_backlog() {
        let mut paths = Paths::new(1, Bitrate::mbps(2));
        paths.backlog = false;
        // Much more than a round trip's worth is on its way; what is left of it is not.
        paths.readings[0].outstanding = 100_000;
        paths.run(1_000, &[2]);
        paths.readings[0].outstanding = 0;
        paths.run(50, &[2]);
        assert!((paths.mbps() - 1.9).abs() < 0.01, "{}", paths.mbps());
    }

    /// TCP hands on in order: behind a lost packet nothing arrives, and then all at once, which may be
    /// the last of it.
    #[test]
    fn what_a_lost_packet_held_up_counts_though_it_is_the_last() {
        let mut paths = Paths::new(1, Bitrate::kbps(800));
        paths.backlog = false;
        let mut reads = |bytes: u64, outstanding: u64, times: u32| {
            for _ in 0..times {
                paths.now_ms += 50;
                paths.readings[0].delivered += bytes;
                paths.readings[0].outstanding = outstanding;
                paths.read();
            }
        };
        reads(5_000, 20_000, 10);
        reads(0, 30_000, 6);
        reads(30_000, 0, 1);
        reads(0, 0, 3);
        // The first two readings of a path do not count. 70,000 bytes in 0.75 s are 746 kb/s; without
        // the last they would be 457.
        let kbps = paths.forecast.paths[0].rate.as_bps() / 1_000;
        assert_eq!(kbps, 746);
    }

    /// Records come whole. A reading in which two of them came is not less under load than others.
    #[test]
    fn what_comes_in_records_is_as_fast_as_the_path() {
        let mut paths = Paths::new(1, Bitrate::kbps(800));
        paths.backlog = false;
        paths.readings[0].outstanding = 9_000;
        for step in 0..20 {
            paths.now_ms += 50;
            paths.readings[0].delivered += if step % 2 == 0 { 10_000 } else { 0 };
            paths.read();
        }
        // 100 kB/s, of which 4,000 bytes are under way in a round trip of 40 ms.
        let kbps = paths.forecast.paths[0].rate.as_bps() / 1_000;
        assert!((750..=850).contains(&kbps), "{kbps}");
    }

    #[test]
    fn seconds_that_are_not_filled_try_more_and_empty_ones_say_nothing() {
        let mut paths = Paths::new(1, Bitrate::mbps(8));
        paths.backlog = false;
        paths.run(1_000, &[5]);
        assert_eq!(paths.mbps(), 11.4);
        paths.run(1_000, &[5]);
        let seconds = paths.forecast.history().len();
        paths.run(5_000, &[0]);
        assert_eq!(paths.forecast.history().len(), seconds);
        // At most four times what is carried.
        paths.run(9_000, &[5]);
        assert_eq!(paths.forecast.paths[0].rate, Bitrate::mbps(20));
    }

    #[test]
    fn what_is_still_on_its_way_takes_its_part() {
        let mut paths = Paths::new(2, Bitrate::mbps(8));
        paths.run(1_000, &[8, 8]);
        paths.readings[0].outstanding = 600_000;
        paths.run(50, &[8, 8]);
        // A megabyte each but for the margin, less that but for the 40,000 bytes of a round trip.
        assert!((paths.mbps() - (15.2 - 4.8 + 0.32)).abs() < 0.01, "{}", paths.mbps());
        paths.readings[0].outstanding = 6_000_000;
        paths.run(50, &[8, 8]);
        assert!((paths.mbps() - 7.6).abs() < 0.1, "{}", paths.mbps());
    }

    /// A path of 600 ms beside one of 40 ms: what it is given in the last 280 ms comes too late.
    #[test]
    fn a_long_path_has_less_time_than_a_short_one_and_its_round_trip_does_not_wait() {
        let mut paths = Paths::new(2, Bitrate::mbps(8));
        paths.readings[1].min_rtt = Duration::from_millis(600);
        // Full, and nothing waits: a round trip's worth each.
        (paths.readings[0].outstanding, paths.readings[1].outstanding) = (40_000, 600_000);
        paths.run(2_000, &[8, 8]);
        assert_eq!(paths.forecast.way(), RTT / 2);
        // As long as times count from here, what is under way at the end of each is late.
        paths.forecast.count_from(Duration::ZERO);
        let late = 8.0 * (0.02 + 0.3);
        assert!((paths.mbps() - (15.2 - late)).abs() < 0.01, "{}", paths.mbps());
        paths.forecast.count_from(RTT / 2);
        let late = 8.0 * 0.28;
        assert!((paths.mbps() - (15.2 - late)).abs() < 0.01, "{}", paths.mbps());
        // Alone it is no nearer than before.
        paths.readings[0].is_up = false;
        paths.run(50, &[0, 8]);
        assert!((paths.mbps() - (7.6 - late)).abs() < 0.01, "{}", paths.mbps());
    }

    /// With time beyond the next plan each plan has what is carried until that one, and what of it is not
    /// carried then may still be in time.
    #[test]
    fn a_plan_with_more_time_takes_no_more_and_makes_up_for_what_waits() {
        let mut paths = Paths::new(2, Bitrate::mbps(10));
        paths.run(3_000, &[8, 4]);
        let expected = |paths: &Paths, left, waiting: u64| {
            let time =
                PlanTime { left: SECOND * left, next: SECOND, waiting: ByteCount::new(waiting) };
            let expected = paths.forecast.expected_for(time, &Recency::default()).unwrap();
            expected.mean().as_u64() as f64 * 8e-6
        };
        assert!((expected(&paths, 1, 0) - 11.4).abs() < 0.01);
        assert!((expected(&paths, 3, 0) - 11.4).abs() < 0.01, "no more than a second's");
        // What waits is before what is new, however much time that has.
        assert!((expected(&paths, 1, 712_500) - 5.7).abs() < 0.01);
        // Two seconds' worth of the plans before: the third is free.
        assert!((expected(&paths, 3, 2_850_000) - 11.4).abs() < 0.01);
        assert!((expected(&paths, 3, 3_562_500) - 5.7).abs() < 0.01);
        assert_eq!(expected(&paths, 3, u64::MAX), 0.0);
        // What is in sockets and queues is not free either.
        paths.readings[0].outstanding = 2_850_000;
        paths.run(50, &[8, 4]);
        assert!((expected(&paths, 3, 0) - (3.8 + 0.32)).abs() < 0.01, "{}", expected(&paths, 3, 0));
    }

    #[test]
    fn a_path_that_is_down_counts_at_once_for_nothing_and_then_for_what_it_was() {
        let mut paths = Paths::new(2, Bitrate::mbps(10));
        paths.run(3_000, &[8, 4]);
        paths.readings[1].is_up = false;
        paths.run(50, &[8, 0]);
        assert!((paths.mbps() - 7.6).abs() < 0.1, "{}", paths.mbps());
        paths.run(10_000, &[8, 0]);
        assert!((paths.mbps() - 7.6).abs() < 0.1, "{}", paths.mbps());
        paths.readings[1].is_up = true;
        paths.run(50, &[8, 4]);
        assert!((paths.mbps() - 11.4).abs() < 0.1, "{}", paths.mbps());
    }

    /// Who walks into the range of a radio has it at once.
    #[test]
    fn a_path_that_comes_later_counts_for_what_it_carries_and_not_for_the_time_before() {
        let mut paths = Paths::new(1, Bitrate::mbps(10));
        paths.run(60_000, &[10]);
        paths.readings.push(PathReading { is_up: true, min_rtt: RTT, ..PathReading::default() });
        paths.run(2_000, &[10, 5]);
        assert!((paths.mbps() - 14.25).abs() < 0.1, "{}", paths.mbps());
        // One second does not speak for all others.
        paths.run(28_000, &[10, 5]);
        paths.run(1_000, &[10, 1]);
        assert!((13.0..14.2).contains(&paths.mbps()), "{}", paths.mbps());
        // What it has carried since counts as it does of others: half of it all at a fifth.
        paths.run(29_000, &[10, 1]);
        assert!((10.5..13.0).contains(&paths.mbps()), "{}", paths.mbps());
    }

    #[test]
    fn an_outage_of_all_says_nothing_and_neither_does_what_comes_at_its_end() {
        let mut paths = Paths::new(2, Bitrate::mbps(10));
        paths.run(3_000, &[8, 4]);
        paths.readings.iter_mut().for_each(|path| path.is_up = false);
        paths.run(4_000, &[0, 0]);
        assert!((paths.mbps() - 11.4).abs() < 0.1, "{}", paths.mbps());
        // What waited in buffers comes at once.
        paths.readings.iter_mut().for_each(|path| path.is_up = true);
        paths.run(100, &[400, 400]);
        paths.run(2_000, &[8, 4]);
        assert!((paths.mbps() - 11.4).abs() < 0.1, "{}", paths.mbps());
    }

    #[test]
    fn readings_that_cannot_be_are_ignored() {
        let mut forecast = Forecast::new(Bitrate::mbps(8));
        let path = |delivered| PathReading { delivered, is_up: true, ..PathReading::default() };
        let readings = [
            (10, vec![path(5), path(5)]),
            (5, vec![path(9), path(9)]),
            (20, vec![path(1)]),
            (1_500, vec![]),
        ];
        for (at, paths) in readings {
            forecast.handle_reading(&paths, true, Instant::from_millis(at));
        }
        forecast.handle_reading(&[path(u64::MAX); 40], true, Instant::from_millis(3_000));
        assert!(forecast.history().len() <= 1);
        let expected = forecast.expected(SECOND, &Recency::default()).unwrap();
        assert!(expected.mean() > ByteCount::ZERO);
    }
}
