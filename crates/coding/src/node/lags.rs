//! How far links lie behind each other: a device learns it from labels, and a gateway keeps to the
//! near ones while they suffice (not the paper's).
//!
//! A label is shown on every link in its interval. How much later it comes than its number says is the
//! way's own delay and that of queues; the least of late is the way's own.
//!
//! Packets come out in the order in which they came in, so that a single one on a far link holds up
//! what comes on the near ones. A congestion control that takes the shortest round trip for that of
//! the connection, as BBR does, then gets along with no window. So a far link carries only what would
//! wait as long for the nearer ones.

use std::time::Duration;

use weftline_core::fq_codel::FqCodel;
use weftline_core::time::nanos;
use weftline_core::{Bitrate, ByteCount, Instant};

use crate::serial::Label;

/// What is least of late is that of one to two of these.
const WINDOW: Duration = Duration::from_secs(1);

/// Links that lag by no more are alike: packets wait that long anyhow.
const ALIKE: Duration = Duration::from_millis(1);

/// When labels would come if every way took the same time: labels count intervals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nominal {
    newest: Option<(Label, i64)>,
}

impl Nominal {
    /// How much later than that a label comes, in nanoseconds; the first one comes in time.
    pub(super) fn offset(&mut self, label: Label, interval: Duration, now: Instant) -> i64 {
        let (now, interval) = (now.as_nanos() as i64, nanos(interval) as i64);
        let (newest, due) = *self.newest.get_or_insert((label, now));
        if label.is_before(newest) {
            return now - (due - i64::from(newest.since(label)) * interval);
        }
        let due = due + i64::from(label.since(newest)) * interval;
        self.newest = Some((label, due));
        now - due
    }
}

/// The least offset of a link's labels of late, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Least {
    /// Of the window that began so, and of the one before.
    window: Option<(Instant, i64)>,
    before: Option<i64>,
}

impl Least {
    /// A label came with this offset.
    pub(super) fn learn(&mut self, offset: i64, now: Instant) {
        match &mut self.window {
            Some((begun, least)) if now < *begun + WINDOW => *least = offset.min(*least),
            window => {
                self.before = window.replace((now, offset)).map(|(_, least)| least);
            }
        }
    }

    /// The offset; `None` if no label has come.
    pub(super) fn get(&self) -> Option<i64> {
        let (_, least) = self.window?;
        Some(self.before.map_or(least, |before| before.min(least)))
    }
}

/// What a gateway knows of a link's lag and rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) lag: Option<Duration>,
    pub(super) rate: Option<Bitrate>,
}

impl Way {
    /// Its lag, while it carries anything: of a dead way the device says nothing new.
    fn lag(&self) -> Option<Duration> {
        self.lag.filter(|_| self.rate != Some(Bitrate::ZERO))
    }
}

/// How much farther a link is than the nearest one, and what the nearer ones carry together; `None` if
/// it is as near as any, or that is not known: it takes what comes.
fn farther(ways: &[Way], link: usize) -> Option<(Duration, Bitrate)> {
    let lag = ways[link].lag()?;
    let nearest = ways.iter().filter_map(Way::lag).min()?;
    let nearer = ways.iter().filter(|way| way.lag().is_some_and(|other| other < lag));
    let bps = nearer
        .map(|way| way.rate.map(Bitrate::as_bps))
        .try_fold(0_u64, |sum, bps| Some(sum.saturating_add(bps?)))?;
    let lag = lag - nearest;
    (lag > ALIKE && bps > 0).then_some((lag, Bitrate::bps(bps)))
}

/// Whether `link` may take what is next in a queue of so many bytes, all headers included: it is as
/// near as any, or the last of these would wait as long for the nearer ones.
pub(super) fn may_take(ways: &[Way], link: usize, queued: u64) -> bool {
    let Some((lag, rate)) = farther(ways, link) else { return true };
    rate.time_for(ByteCount::new(queued)).is_none_or(|wait| wait >= lag)
}

/// How much longer packets may wait where a farther link is to be used: by as much as the farthest
/// one lags behind.
pub(super) fn allowance(ways: &[Way]) -> Duration {
    let farther = (0..ways.len()).filter_map(|link| farther(ways, link));
    farther.map(|(lag, _)| lag).max().unwrap_or_default()
}

/// Bytes that a queue brings onto links.
pub(super) fn queued_bytes(queue: &FqCodel, overhead: u32) -> u64 {
    queue.bytes() + queue.len() as u64 * u64::from(overhead)
}
