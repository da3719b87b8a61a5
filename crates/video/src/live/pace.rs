//! How a player's clock goes against its server's: by when GoPs are announced.
//!
//! Each announcement takes as long as the network makes it take, but the fastest of many takes
//! about as long as the fastest of many others. What that is later each time, or sooner, is the
//! clocks' doing: 50 millionths are 1.8 s in ten hours. A buffer would be gone by then, or that
//! much longer.

use std::time::Duration;

use weftline_core::Instant;

/// Announcements are compared by the fastest of so long a time, and of so many.
const LOOKED_AT: Duration = Duration::from_secs(60);
const LEAST_LOOKED_AT: u32 = 16;
/// With each GoP what follows is moved by at most this part of one: 250 millionths. The clocks of
/// two machines differ by 100 at most, and nobody sees a quarter of a millisecond in a second.
const PART: i64 = 4_000;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Pace {
    /// The length of a GoP, in ns.
    gop: i64,
    /// When GoP 0 was announced, or would have been, in ns.
    announced: i64,
    /// Since when announcements are compared, how many have come, and how much later than expected
    /// the fastest was, in ns.
    since: Instant,
    count: u32,
    least: i64,
    /// By how much what follows is still to be moved, in ns.
    owed: i64,
}

impl Pace {
    /// The first announcement to come, of this GoP.
    pub(super) fn new(gop: u32, length: Duration, now: Instant) -> Self {
        let length = i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
        let announced = nanos(now).saturating_sub(length.saturating_mul(gop.into()));
        Self { gop: length, announced, since: now, count: 0, least: i64::MAX, owed: 0 }
    }

    /// Another announcement.
    pub(super) fn handle_notice(&mut self, gop: u32, now: Instant) {
        let expected = self.announced.saturating_add(self.gop.saturating_mul(gop.into()));
        self.least = self.least.min(nanos(now).saturating_sub(expected));
        self.count += 1;
        if self.count >= LEAST_LOOKED_AT && now.since(self.since) >= LOOKED_AT {
            self.owed = self.least;
            (self.since, self.count, self.least) = (now, 0, i64::MAX);
        }
    }

    /// A GoP begins: by how many ns what follows it is to be shown later, or sooner if negative.
    pub(super) fn step(&mut self) -> i64 {
        let most = self.gop / PART;
        let step = self.owed.clamp(-most, most);
        self.owed -= step;
        self.announced += step;
        // It was compared with what was expected before.
        if self.count > 0 {
            self.least -= step;
        }
        step
    }
}

fn nanos(at: Instant) -> i64 {
    i64::try_from(at.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOP: Duration = Duration::from_millis(500);

    /// Of a player whose clock gains so many millionths on the server's, and a network: how much
    /// later GoPs are shown in the end, and how much later they would have to be, in ms.
    fn follow(millionths: i64, gops: u32, way_ms: impl Fn(u32) -> u64) -> (f64, f64) {
        let theirs = |gop: u32| 1_000_000_000 + 500_000_000 * u64::from(gop);
        let ours = |at: u64| at.saturating_add_signed(at as i64 / 1_000_000 * millionths);
        let at = |gop| Instant::from_nanos(ours(theirs(gop)) + way_ms(gop) * 1_000_000);
        let mut pace = Pace::new(0, GOP, at(0));
        let mut moved = 0;
        for gop in 1..gops {
            pace.handle_notice(gop, at(gop));
            moved += pace.step();
        }
        let gained = |at: u64| ours(at) as f64 - at as f64;
        (moved as f64 / 1e6, (gained(theirs(gops)) - gained(theirs(0))) / 1e6)
    }

    #[test]
    fn a_clock_that_goes_wrong_is_followed_either_way() {
        for millionths in [-100, -50, 50, 100] {
            // An hour over a network that makes nine of ten wait.
            let way = |gop: u32| if gop % 10 == 3 { 20 } else { 20 + u64::from(gop * 7 % 90) };
            let (moved, off) =
                follow(millionths, 7_200, |gop| if gop == 0 { 20 } else { way(gop) });
            // What comes within two times that are compared is not known yet.
            let unknown = 120.0 * millionths.abs() as f64 / 1e3 + 1.0;
            assert!((moved - off).abs() < unknown, "{millionths}: {moved} ms for {off}");
        }
    }

    #[test]
    fn clocks_that_go_alike_move_nothing() {
        // Ten seconds without any path: all of that comes late, and at once.
        let outage = |gop| if (300..320).contains(&gop) { u64::from(320 - gop) * 500 } else { 0 };
        let (moved, _) = follow(0, 2_000, |gop| 20 + u64::from(gop * 7 % 90) + outage(gop));
        assert!(moved.abs() < 1.0, "{moved} ms");
        // But a first word that was slow is made up for.
        let (moved, _) = follow(0, 4_000, |gop| if gop == 0 { 220 } else { 20 });
        assert!((moved + 200.0).abs() < 1.0, "{moved} ms");
    }
}
