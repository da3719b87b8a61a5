//! The clock of a player: which GoP is shown when, and where the picture stands still.

use std::time::Duration;

use weftline_core::Instant;
use weftline_core::time::nanos;

use super::pace::Pace;

/// A picture that stands still.
#[derive(Clone, Copy, Debug)]
struct Stall {
    /// The GoP that is waited for.
    gop: u32,
    since: Instant,
}

/// What is shown when.
#[derive(Debug)]
pub(super) struct Playback {
    /// How long after it was announced a GoP is shown; `None`: as long as a GoP is.
    buffer: Option<Duration>,
    /// How long it stops for a GoP.
    rebuffer: Duration,
    /// How far behind the server buffer and stalls together may bring it.
    most_behind: Duration,
    /// The length of a GoP: nothing before it is known.
    gop: Option<Duration>,
    /// How many there are, once that is known.
    gops: Option<u32>,
    /// When GoP 0 would be shown, if the picture had already stood still for as long as it has.
    plays_from: Option<Instant>,
    pace: Option<Pace>,
    /// GoPs whose time has come, and one more once the last is over.
    begun: u32,
    /// When the first of them was shown.
    first_shown: Option<Instant>,
    stall: Option<Stall>,
    stalled: Duration,
}

impl Playback {
    pub(super) const fn new(buffer: Option<Duration>, rebuffer: Duration) -> Self {
        Self {
            buffer,
            rebuffer,
            most_behind: Duration::MAX,
            gop: None,
            gops: None,
            plays_from: None,
            pace: None,
            begun: 0,
            first_shown: None,
            stall: None,
            stalled: Duration::ZERO,
        }
    }

    /// GoPs are that long, and so many if that is known; nothing may be shown more than
    /// `most_behind` after it was announced. Whether the buffer is within that.
    pub(super) fn handle_stream(
        &mut self,
        gop: Duration,
        gops: Option<u32>,
        most_behind: Duration,
    ) -> bool {
        (self.gop, self.gops, self.most_behind) = (Some(gop), gops, most_behind);
        self.buffer.is_none_or(|buffer| buffer <= most_behind)
    }

    /// How long the picture may stand still for the next GoP.
    fn patience(&self) -> Duration {
        let buffer = self.buffer.or(self.gop).unwrap_or_default();
        let left = self.most_behind.saturating_sub(buffer).saturating_sub(self.stalled);
        self.rebuffer.min(left)
    }

    /// How long a picture has stood still that stands still since then: no longer than it may,
    /// however late that is noticed.
    fn stood(&self, stall: Stall, now: Instant) -> Duration {
        now.since(stall.since).min(self.patience())
    }

    /// There are so many, and nothing after them was shown.
    pub(super) fn handle_end(&mut self, gops: u32) {
        self.gops = Some(gops);
        // What is waited for does not come.
        self.stall = self.stall.filter(|stall| stall.gop < gops);
    }

    /// A GoP was announced; the first to come need not be the first GoP's. Whether it was the first to
    /// come.
    pub(super) fn handle_notice(&mut self, gop: u32, now: Instant) -> bool {
        if let Some(pace) = &mut self.pace {
            pace.handle_notice(gop, now);
        }
        let Some(length) = self.gop.filter(|_| self.plays_from.is_none()) else {
            return false;
        };
        self.pace = Some(Pace::new(gop, length, now));
        let shown = now + self.buffer.unwrap_or(length);
        let before = nanos(length * gop);
        self.plays_from = Some(Instant::from_nanos(shown.as_nanos().saturating_sub(before)));
        true
    }

    /// The next GoP is shown, or the last one is over, if its time has come and `is_ready` says of it
    /// that what is looked at is there, or nobody waits for it. Returns how long the picture stood still
    /// before.
    pub(super) fn go_on(
        &mut self,
        now: Instant,
        is_ready: impl FnOnce(u32) -> bool,
    ) -> Option<Duration> {
        let due = self.start_of(self.begun).filter(|due| *due <= now && !self.is_over())?;
        let is_end = self.gops == Some(self.begun);
        let since = self.stall.map_or(due, |stall| stall.since);
        if !is_end && now < since + self.patience() && !is_ready(self.begun) {
            self.stall = Some(Stall { gop: self.begun, since });
            return None;
        }
        let stood = self.stall.map_or(Duration::ZERO, |stall| self.stood(stall, now));
        self.stall = None;
        self.stalled += stood;
        let step = self.pace.as_mut().map_or(0, Pace::step);
        let later = |from: Instant| from.as_nanos().saturating_add_signed(step);
        self.plays_from = self.plays_from.map(|from| Instant::from_nanos(later(from + stood)));
        self.first_shown.get_or_insert(now);
        self.begun += 1;
        Some(stood)
    }

    /// When [`Self::go_on`] is to be called, whatever comes until then.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.stall {
            Some(stall) => Some(stall.since + self.patience()),
            None => self.start_of(self.begun).filter(|_| !self.is_over()),
        }
    }

    /// The first GoP that is not over.
    pub(super) const fn current(&self) -> u32 {
        self.begun.saturating_sub(1)
    }

    /// GoPs whose time has come, and one more once the last is over.
    pub(super) const fn begun(&self) -> u32 {
        self.begun
    }

    /// Whether the last GoP is over.
    pub(super) fn is_over(&self) -> bool {
        self.gops.is_some_and(|gops| self.begun > gops || gops == 0)
    }

    /// Whether what comes of a GoP now is there before it is shown.
    pub(super) fn is_in_time(&self, gop: u32, now: Instant) -> bool {
        // What follows the GoP that is shown may have been moved since it began.
        gop >= self.begun
            && (self.stall.is_some() || self.start_of(gop).is_none_or(|start| now < start))
    }

    /// Whether the picture moves.
    pub(super) fn moves(&self, now: Instant) -> bool {
        self.stall.is_none() && self.plays_from.is_some_and(|from| from <= now)
    }

    /// The time in the video: that of its beginning until it plays, `None` before a GoP was announced.
    pub(super) fn position(&self, now: Instant) -> Option<Duration> {
        let at = self.stall.map_or(now, |stall| stall.since);
        Some(at.since(self.plays_from?))
    }

    /// When the first GoP was shown.
    pub(super) const fn first_shown(&self) -> Option<Instant> {
        self.first_shown
    }

    /// How long the picture has stood still, what is under way included.
    pub(super) fn stalled(&self, now: Instant) -> Duration {
        self.stalled + self.stall.map_or(Duration::ZERO, |stall| self.stood(stall, now))
    }

    fn start_of(&self, gop: u32) -> Option<Instant> {
        Some(self.plays_from? + self.gop? * gop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOP: Duration = Duration::from_millis(500);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn playback(buffer_ms: u64, rebuffer_ms: u64) -> Playback {
        let buffer = Some(Duration::from_millis(buffer_ms));
        let mut playback = Playback::new(buffer, Duration::from_millis(rebuffer_ms));
        assert!(playback.handle_stream(GOP, Some(3), Duration::MAX));
        assert!(playback.handle_notice(1, at(1_500)), "GoP 0 was announced at 1000");
        assert!(!playback.handle_notice(0, at(1_501)));
        playback
    }

    #[test]
    fn a_buffer_says_when_gops_are_shown() {
        let mut playback = playback(800, 0);
        assert_eq!(playback.poll_timeout(), Some(at(1_800)));
        assert_eq!(playback.go_on(at(1_799), |_| panic!("nobody waits")), None);
        assert!(playback.is_in_time(0, at(1_799)) && !playback.moves(at(1_799)));
        assert_eq!(playback.go_on(at(1_800), |_| panic!("nobody waits")), Some(Duration::ZERO));
        assert!(!playback.is_in_time(0, at(1_800)) && playback.is_in_time(1, at(1_800)));
        assert_eq!(playback.position(at(2_000)), Some(Duration::from_millis(200)));
        for (gop, end) in [(1, 2_300), (2, 2_800)] {
            assert_eq!(playback.go_on(at(end), |_| false), Some(Duration::ZERO));
            assert_eq!(playback.current(), gop);
        }
        assert!(!playback.is_over());
        assert_eq!(playback.poll_timeout(), Some(at(3_300)));
        assert!(playback.go_on(at(3_300), |_| false).is_some() && playback.is_over());
        assert_eq!(playback.poll_timeout(), None);
    }

    #[test]
    fn what_is_waited_for_puts_off_all_that_follows() {
        let mut playback = playback(500, 1_000);
        assert_eq!(playback.go_on(at(1_500), |_| true), Some(Duration::ZERO));
        // GoP 1 is not there when its time comes.
        assert_eq!(playback.go_on(at(2_000), |gop| gop != 1), None);
        assert!(playback.is_in_time(1, at(2_100)) && !playback.moves(at(2_100)));
        assert_eq!(playback.position(at(2_100)), Some(GOP));
        assert_eq!(playback.poll_timeout(), Some(at(3_000)));
        assert_eq!(playback.stalled(at(2_100)), Duration::from_millis(100));
        assert_eq!(playback.go_on(at(2_200), |_| true), Some(Duration::from_millis(200)));
        // GoP 2 never comes, and is waited for no longer than it may be.
        assert_eq!(playback.go_on(at(2_700), |_| false), None);
        assert_eq!(playback.go_on(at(3_699), |_| false), None);
        assert_eq!(playback.go_on(at(3_700), |_| false), Some(Duration::from_secs(1)));
        assert_eq!(playback.stalled(at(9_000)), Duration::from_millis(1_200));
        assert_eq!(playback.position(at(3_900)), Some(GOP * 2 + Duration::from_millis(200)));
        assert!(playback.go_on(at(4_200), |_| panic!("nothing follows")).is_some());
        assert!(playback.is_over());
    }

    /// What stalls have used up of the time that a player may be behind is not used again, and one
    /// that is noticed late takes no more than it may.
    #[test]
    fn a_picture_stands_still_for_no_longer_than_there_is_room() {
        let mut playback = Playback::new(Some(GOP), Duration::from_secs(2));
        assert!(!playback.handle_stream(GOP, None, GOP / 2), "the buffer is too long");
        assert!(playback.handle_stream(GOP, None, GOP * 4));
        playback.handle_notice(0, at(1_000));
        assert_eq!(playback.go_on(at(1_500), |_| false), None);
        assert_eq!(playback.poll_timeout(), Some(at(3_000)), "3 GoPs are left");
        assert_eq!(playback.go_on(at(2_500), |_| true), Some(GOP * 2));
        assert_eq!(playback.go_on(at(3_000), |_| false), None);
        assert_eq!(playback.stalled(at(9_000)), GOP * 3);
        assert_eq!(playback.go_on(at(9_000), |_| false), Some(GOP));
        // All that was due meanwhile follows at once, and nothing is waited for any more.
        assert_eq!(playback.go_on(at(9_000), |_| false), Some(Duration::ZERO));
        assert_eq!(playback.position(at(9_000)), Some(Duration::from_millis(6_000)));
    }
}
