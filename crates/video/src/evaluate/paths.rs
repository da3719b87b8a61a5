//! The paths of a session as fluids: what they carry of what is sent, and what a server sees of it.
//!
//! Each path carries at each moment what its second says, first what it has been given already, then
//! its part of what waits. What it has been given, [`UNSENT`] and as much as it carries in [`HELD`], is
//! in its socket and its queue, and cannot be called back. The counters are read as a live server reads them,
//! and feed the same [`Forecast`].

use std::time::Duration;

use weftline_core::{Bitrate, ByteCount, Instant};

use crate::forecast::{Forecast, PathReading};

/// How often counters are read.
const TICK: Duration = Duration::from_millis(50);
/// How much of a path's time is under way and in its queue while there is more to send: some tens of
/// milliseconds, and a queue of the usual length.
const HELD: Duration = Duration::from_millis(100);
/// What waits in a path's socket besides, as the transport has it (`TCP_NOTSENT_LOWAT`), bytes. On
/// links of 1 Mb/s that is the larger part.
const UNSENT: u64 = 16 << 10;
const SECOND: Duration = Duration::from_secs(1);

/// No path carries more, so that bytes can be counted over days.
const MOST: Bitrate = Bitrate::mbps(1_000_000);

/// The paths from the first second on.
#[derive(Debug)]
pub(super) struct Paths<'a> {
    /// What each path carries in each second; nothing after the last.
    seconds: &'a [Vec<Bitrate>],
    /// What each has carried before each second, and before the end of the last.
    before: Vec<Vec<u64>>,
    forecast: Forecast,
    now: Duration,
    paths: Vec<Path>,
    /// What no path has been given.
    waiting: u64,
    /// What waits in each socket: nothing before the first GoP.
    unsent: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Path {
    delivered: u64,
    /// Given to it, and not delivered.
    outstanding: u64,
    is_up: bool,
}

impl<'a> Paths<'a> {
    /// At the beginning of the first second, when nothing has been sent.
    pub(super) fn new(seconds: &'a [Vec<Bitrate>]) -> Self {
        let count = seconds.first().map_or(0, Vec::len);
        let path = Path { is_up: true, ..Path::default() };
        let mut before = vec![vec![0; count]];
        for second in seconds {
            let carried = before.last().into_iter().flatten().enumerate();
            let next =
                carried.map(|(path, bytes)| bytes + rate(second, path).bytes_in(SECOND).as_u64());
            let next = next.collect();
            before.push(next);
        }
        let mut paths = Self {
            seconds,
            before,
            forecast: Forecast::new(Bitrate::ZERO),
            now: Duration::ZERO,
            paths: vec![path; count],
            waiting: 0,
            unsent: 0,
        };
        paths.read();
        paths
    }

    /// What a server would expect of them.
    pub(super) const fn forecast(&self) -> &Forecast {
        &self.forecast
    }

    /// They have always more to do than they can, and at `until` nothing is left of it.
    pub(super) fn fill(&mut self, until: Duration) {
        self.waiting = u64::MAX / 2;
        self.run(until.saturating_sub(HELD));
        self.waiting = 0;
        self.run(until);
    }

    /// What each of them will carry until `until` of what is sent from now on.
    pub(super) fn room(&self, until: Duration) -> Vec<ByteCount> {
        let room = |(index, path): (usize, &Path)| {
            let carried = self.carried(index, until) - self.carried(index, self.now);
            ByteCount::new(carried.saturating_sub(path.outstanding))
        };
        self.paths.iter().enumerate().map(room).collect()
    }

    /// So much is sent; what no path has been given by `until` is called back.
    pub(super) fn send(&mut self, bytes: ByteCount, until: Duration) {
        (self.waiting, self.unsent) = (bytes.as_u64(), UNSENT);
        self.give();
        self.run(until);
        self.waiting = 0;
    }

    fn run(&mut self, until: Duration) {
        let length = until.saturating_sub(self.now);
        // Of one length: in one of some nanoseconds no path would carry anything.
        let ticks = length.as_nanos().div_ceil(TICK.as_nanos()) as u32;
        let began = self.now;
        for tick in 1..=ticks {
            let next = if tick == ticks { until } else { began + length / ticks * tick };
            self.step(next);
            self.now = next;
            self.read();
        }
    }

    /// What is carried until `next`.
    fn step(&mut self, next: Duration) {
        let mut free = Vec::with_capacity(self.paths.len());
        for index in 0..self.paths.len() {
            let could = self.carried(index, next) - self.carried(index, self.now);
            let path = &mut self.paths[index];
            path.is_up = could > 0;
            let given = could.min(path.outstanding);
            path.outstanding -= given;
            path.delivered = path.delivered.saturating_add(given);
            free.push(could - given);
        }
        for (index, bytes) in self.share(&free).into_iter().enumerate() {
            let path = &mut self.paths[index];
            path.delivered = path.delivered.saturating_add(bytes);
            self.waiting -= bytes;
        }
        self.give();
    }

    /// Gives the paths as much as they hold.
    fn give(&mut self) {
        let second = self.now.as_secs() as usize;
        let room = |(index, path): (usize, &Path)| {
            let holds = self.seconds.get(second).map_or(Bitrate::ZERO, |rates| rate(rates, index));
            let holds = holds.bytes_in(HELD).as_u64() + self.unsent;
            holds.saturating_sub(path.outstanding)
        };
        let room: Vec<u64> = self.paths.iter().enumerate().map(room).collect();
        for (index, bytes) in self.share(&room).into_iter().enumerate() {
            self.paths[index].outstanding += bytes;
            self.waiting -= bytes;
        }
    }

    /// What waits, shared out among paths with so much room in proportion to it.
    fn share(&self, room: &[u64]) -> Vec<u64> {
        let all: u64 = room.iter().sum();
        let mut left = self.waiting;
        let part = |room: &u64| {
            if all <= self.waiting {
                return *room;
            }
            // Rounded up, so that no rest stays behind.
            let part = (u128::from(self.waiting) * u128::from(*room)).div_ceil(u128::from(all));
            let part = (part as u64).min(left).min(*room);
            left -= part;
            part
        };
        room.iter().map(part).collect()
    }

    fn read(&mut self) {
        let reading = |path: &Path| PathReading {
            delivered: path.delivered,
            outstanding: path.outstanding,
            min_rtt: Duration::ZERO,
            is_up: path.is_up,
        };
        let readings: Vec<PathReading> = self.paths.iter().map(reading).collect();
        let backlog = self.waiting > 0 || self.paths.iter().any(|path| path.outstanding > 0);
        let now = Instant::ZERO + self.now;
        self.forecast.handle_reading(&readings, backlog, now);
    }

    /// What a path carries from the first second to `at`.
    fn carried(&self, path: usize, at: Duration) -> u64 {
        let whole = (at.as_secs() as usize).min(self.seconds.len());
        let part = Duration::from_nanos(at.subsec_nanos().into());
        let begun = self.seconds.get(at.as_secs() as usize);
        let begun = begun.map_or(ByteCount::ZERO, |second| rate(second, path).bytes_in(part));
        self.before[whole][path] + begun.as_u64()
    }
}

fn rate(second: &[Bitrate], path: usize) -> Bitrate {
    second.get(path).copied().unwrap_or(Bitrate::ZERO).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ows::Recency;

    fn expected(paths: &Paths<'_>) -> u64 {
        paths.forecast().expected(SECOND, &Recency::default()).unwrap().mean().as_u64()
    }

    fn bytes(room: &[ByteCount]) -> Vec<u64> {
        room.iter().map(|bytes| bytes.as_u64()).collect()
    }

    #[test]
    fn what_is_left_of_one_gop_takes_its_part_of_the_next() {
        let mbps = |rates: [u64; 2]| rates.map(Bitrate::mbps).to_vec();
        let seconds: Vec<Vec<Bitrate>> = vec![mbps([8, 4]), mbps([4, 0]), mbps([8, 4])];
        let mut paths = Paths::new(&seconds);
        paths.fill(SECOND);
        // A megabyte and a half, less the margin.
        assert_eq!(expected(&paths), 1_425_000);
        let room = paths.room(2 * SECOND);
        assert_eq!(bytes(&room), [500_000, 0]);
        paths.send(ByteCount::new(1_425_000), 2 * SECOND);
        // Of the bytes that are late the paths keep these, and a tenth of a second; the rest is called
        // back.
        let rest = [1_000_000 - 50_000 - UNSENT, 500_000 - UNSENT];
        assert_eq!(bytes(&paths.room(3 * SECOND)), rest);
        assert!(expected(&paths) < 1_425_000);
        paths.send(ByteCount::new(1_000), 3 * SECOND);
        assert_eq!(bytes(&paths.room(4 * SECOND)), [0, 0]);
    }

    #[test]
    fn seconds_are_cut_where_gops_end() {
        let seconds = vec![vec![Bitrate::mbps(8)], vec![Bitrate::mbps(16)]];
        let mut paths = Paths::new(&seconds);
        let half = SECOND * 3 / 2;
        assert_eq!(bytes(&paths.room(half)), [2_000_000]);
        paths.send(ByteCount::new(10_000), half);
        assert_eq!(bytes(&paths.room(2 * SECOND)), [1_000_000]);
    }
}
