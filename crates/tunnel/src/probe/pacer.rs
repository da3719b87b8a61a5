//! The sender's half: when the next train goes, and how long it is.
//!
//! Probing must not be what fills the queue that it measures. A train goes only when the one before
//! is through, as far as can be known: a sender hears what has come a round trip later. So a train
//! that should have been reported and was not stops the next; instead small packets go, which tell
//! when the link is back. Trains are shortened, and then made rarer, until they take at most their
//! share of the link's time: half of it, unless there is other use for it.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_core::{Bitrate, ByteCount, Instant};

use super::dispersion::Unusable;
use super::wire::Report;
use super::{Ask, TRAIN_MIN};

/// A report may be late by so much, besides the round trip and the train's own time: receivers
/// wait for what was lost, and machines have other things to do. Less where it would be due before
/// the next train otherwise: then one train at most waits in a link that collapses.
const SLACK: Duration = Duration::from_millis(8);
const SLACK_MIN: Duration = Duration::from_millis(2);
/// How much before the next train a report must have come then.
const BEFORE: Duration = Duration::from_millis(1);
/// Signs of life that go with the trains' own pace: together less than a train's bytes. Then they
/// go every [`RARELY`].
const SIGNS: u32 = 400;
const RARELY: Duration = Duration::from_millis(100);
/// The longest time between trains of a slow link.
const INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Trains that may be unreported at once, whatever the round-trip time.
const UNREPORTED_MAX: usize = 512;
/// Trains in a row of which all packets had one stamp, after which packets are sent one by one:
/// some loopbacks and interfaces never take super-packets apart.
const COALESCED_MAX: u32 = 3;
/// How long a shortest round-trip time counts, at least.
const RTT_WINDOW: Duration = Duration::from_secs(5);

/// Something to send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The train's number.
    pub train: u32,
    /// Its packets; 0: a sign of life.
    pub packets: u8,
    /// When it goes.
    pub sent: Instant,
    /// When the next one is meant to go after it.
    pub interval: Duration,
    /// Whether the packets may go as one super-packet.
    pub together: bool,
}

/// Decides when trains go. Its memory is bounded whatever is reported.
#[derive(Debug)]
pub struct Pacer {
    train: u8,
    size: u16,
    every: Duration,
    /// The part of the link's time that trains may take: one of so many.
    share: u32,
    /// What the latest train measured.
    rate: Option<Bitrate>,
    next_train: u32,
    next_due: Instant,
    last_train: Option<Instant>,
    /// Number and time of trains of which nothing has been reported, the oldest first.
    unreported: VecDeque<(u32, Instant)>,
    /// The latest report's number.
    heard: u32,
    /// When anything of the peer's came last.
    alive: Option<Instant>,
    rtt: Option<Duration>,
    /// Shortest round-trip times of this window and the one before.
    rtt_min: [Option<Duration>; 2],
    rtt_since: Instant,
    /// Signs of life sent instead of trains, since the last report.
    signs: u32,
    /// The newest train whose result has been taken, and how many before it had one stamp.
    judged: Option<u32>,
    coalesced: u32,
}

impl Pacer {
    /// Paces trains as `ask` says, the first one now. They take at most half of the link's time.
    pub fn new(ask: &Ask, now: Instant) -> Self {
        Self::with_share(ask, 2, now)
    }

    /// As [`Pacer::new`], for trains that take at most one of `share` parts of the link's time.
    pub fn with_share(ask: &Ask, share: u32, now: Instant) -> Self {
        Self {
            train: ask.train,
            size: ask.size,
            every: ask.every,
            share: share.max(1),
            rate: None,
            next_train: 0,
            next_due: now,
            last_train: None,
            unreported: VecDeque::new(),
            heard: 0,
            alive: None,
            rtt: None,
            rtt_min: [None; 2],
            rtt_since: now,
            signs: 0,
            judged: None,
            coalesced: 0,
        }
    }

    /// When [`Pacer::poll`] may have something.
    pub fn poll_timeout(&self) -> Instant {
        self.next_due
    }

    /// The latest round-trip time, of small packets and what they found queued.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Trains sent.
    pub fn trains(&self) -> u32 {
        self.next_train
    }

    /// Something of the peer's has come, whatever it is: reports may wait behind it.
    pub fn hear(&mut self, now: Instant) {
        self.alive = Some(now);
    }

    /// What is to be sent now.
    pub fn poll(&mut self, now: Instant) -> Option<Burst> {
        if now < self.next_due {
            return None;
        }
        let (packets, interval) = self.plan();
        let holds = self.holds(now);
        let wait = match holds {
            false => interval,
            true if self.signs < SIGNS => self.every.max(Duration::from_millis(5)),
            true => self.every.max(RARELY),
        };
        // On the beat, unless it was missed.
        let beat = self.next_due + wait;
        self.next_due = if beat > now { beat } else { now + wait };
        let together = self.coalesced < COALESCED_MAX;
        if holds {
            self.signs = self.signs.saturating_add(1);
            let train = self.next_train.saturating_sub(1);
            return Some(Burst { train, packets: 0, sent: now, interval, together });
        }
        let train = self.next_train;
        self.next_train = self.next_train.saturating_add(1);
        self.last_train = Some(now);
        self.unreported.push_back((train, now));
        Some(Burst { train, packets, sent: now, interval, together })
    }

    /// The next train's packets, and the time until the one after it.
    fn plan(&self) -> (u8, Duration) {
        let Some(rate) = self.rate else { return (self.train, self.every) };
        let size = u64::from(self.size);
        let fit = rate.bytes_in(self.every / self.share).as_u64() / size;
        let packets = fit.clamp(TRAIN_MIN.into(), self.train.into());
        let time = rate.time_for(ByteCount::new(packets * size)).unwrap_or(INTERVAL_MAX);
        let interval =
            (self.share * time.min(INTERVAL_MAX)).clamp(self.every, INTERVAL_MAX.max(self.every));
        (packets as u8, interval)
    }

    /// Whether a train should have been reported by now.
    fn holds(&self, now: Instant) -> bool {
        let Some((_, oldest)) = self.unreported.front() else { return false };
        if self.unreported.len() >= UNREPORTED_MAX {
            return true;
        }
        let Some(&rtt) = self.rtt_min.iter().flatten().min() else {
            // Nothing is known yet: one train, and wait for what comes of it.
            return true;
        };
        let (packets, interval) = self.plan();
        let bytes = ByteCount::new(u64::from(packets) * u64::from(self.size));
        let time = self.rate.and_then(|rate| rate.time_for(bytes)).unwrap_or(self.every);
        let usual = rtt + time + time / 2;
        let slack = interval.saturating_sub(usual + BEFORE).clamp(SLACK_MIN, SLACK);
        now.since(*oldest) > usual + slack + self.queued(rtt, interval, now)
    }

    /// How much later than after the shortest round-trip time a report may come while the peer is heard: the
    /// newest one did. What the peer sends itself may fill a queue, in which reports wait; the link that is
    /// measured need not stand still for that.
    fn queued(&self, least: Duration, interval: Duration, now: Instant) -> Duration {
        let is_heard = self.alive.is_some_and(|alive| now.since(alive) <= interval + SLACK);
        let latest = self.rtt.filter(|_| is_heard).unwrap_or(least);
        latest.saturating_sub(least)
    }

    /// Takes the peer's report. One that is not newer than the last changes nothing.
    pub fn on_report(&mut self, report: &Report, now: Instant) {
        if report.number.wrapping_sub(self.heard).cast_signed() <= 0 || report.echo > now {
            return;
        }
        self.heard = report.number;
        self.hear(now);
        self.see_rtt(now.since(report.echo).saturating_sub(report.held), now);
        let was_held = self.signs > 0;
        self.signs = 0;
        let done = |train: u32| report.results.iter().any(|result| result.train == train);
        // What was sent before the newest packet that came has come too, or is lost.
        self.unreported.retain(|&(train, sent)| sent >= report.echo && !done(train));
        for result in &report.results {
            if self.judged.is_some_and(|judged| result.train <= judged) {
                continue;
            }
            self.judged = Some(result.train);
            self.judge(result.outcome.map(|measured| measured.rate()));
        }
        if was_held && self.unreported.is_empty() {
            let (_, interval) = self.plan();
            self.next_due = self.last_train.map_or(now, |last| now.max(last + interval));
        }
    }

    fn judge(&mut self, outcome: Result<Bitrate, Unusable>) {
        match outcome {
            Ok(rate) => {
                self.rate = Some(rate);
                // Sent one by one they stay: the super-packets were the trouble.
                if self.coalesced < COALESCED_MAX {
                    self.coalesced = 0;
                }
            }
            Err(Unusable::Coalesced { stamps }) => {
                // Too quick for so short a train.
                self.rate = self.rate.map(|rate| Bitrate::bps(rate.as_bps().saturating_mul(2)));
                if stamps < 3 {
                    self.coalesced = self.coalesced.saturating_add(1);
                }
            }
            Err(Unusable::ClockStep | Unusable::TooFew) => {}
        }
    }

    fn see_rtt(&mut self, rtt: Duration, now: Instant) {
        self.rtt = Some(rtt);
        if now.since(self.rtt_since) > RTT_WINDOW {
            self.rtt_min = [None, self.rtt_min[0]];
            self.rtt_since = now;
        }
        let least = self.rtt_min[0].map_or(rtt, |least| least.min(rtt));
        self.rtt_min[0] = Some(least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Dispersion, Sample};

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// What a link of `rate` makes of a burst: a report that comes 2 ms after its last packet.
    fn report(number: u32, burst: &Burst, rate: Bitrate) -> (Instant, Report) {
        let bytes = ByteCount::new(u64::from(burst.packets) * 1500);
        let time = rate.time_for(bytes).unwrap();
        let end = burst.sent + time + MS;
        let measured = Dispersion { bytes, time: time.max(Duration::from_nanos(1)), stamps: 30 };
        let sample = Sample {
            train: burst.train,
            packets: burst.packets,
            received: burst.packets,
            sent: burst.sent,
            first: burst.sent + MS,
            last: end,
            interval: burst.interval,
            outcome: Ok(measured),
        };
        let results = if burst.packets == 0 { vec![] } else { vec![sample] };
        (end + MS, Report { number, echo: burst.sent, held: Duration::ZERO, results })
    }

    /// Runs over a link of `rate` for a second; the trains, none of which met another.
    fn second(pacer: &mut Pacer, from: u64, rate: Bitrate) -> Vec<Burst> {
        let mut trains: Vec<Burst> = Vec::new();
        let mut reports = VecDeque::new();
        let mut free = Instant::ZERO;
        for ms in from..from + 1000 {
            while reports.front().is_some_and(|(due, _)| *due <= at(ms)) {
                let (due, report) = reports.pop_front().unwrap();
                pacer.on_report(&report, due);
            }
            if let Some(burst) = pacer.poll(at(ms)) {
                let number = pacer.heard + reports.len() as u32 + 1;
                let (due, report) = report(number, &burst, rate);
                if burst.packets > 0 {
                    assert!(burst.sent >= free || trains.is_empty(), "{burst:?} met one");
                    free = due - 2 * MS;
                    trains.push(burst);
                }
                reports.push_back((due, report));
            }
        }
        trains
    }

    #[test]
    fn a_fast_link_gets_whole_trains_on_the_beat() {
        let mut pacer = Pacer::new(&Ask::default(), at(0));
        let trains = second(&mut pacer, 0, Bitrate::mbps(1000));
        assert_eq!(trains.len(), 100);
        assert!(
            trains
                .iter()
                .all(|train| train.packets == 30 && train.sent.as_nanos() % 10_000_000 == 0)
        );
    }

    #[test]
    fn a_slow_link_gets_short_trains_and_then_rare_ones() {
        for (mbps, packets, every) in
            [(100, 30, 10), (48, 20, 10), (20, 8, 10), (4, 8, 48), (1, 8, 192)]
        {
            let mut pacer = Pacer::new(&Ask::default(), at(0));
            second(&mut pacer, 0, Bitrate::mbps(mbps));
            let trains = second(&mut pacer, 1000, Bitrate::mbps(mbps));
            let last = trains.last().unwrap();
            assert_eq!((last.packets, last.interval), (packets, every * MS), "{mbps} Mb/s");
            assert!(trains.len() as u32 <= 1000 / every + 1, "{}", trains.len());
        }
    }

    #[test]
    fn a_link_that_stops_holds_one_train_and_small_packets() {
        let mut pacer = Pacer::new(&Ask::default(), at(0));
        second(&mut pacer, 0, Bitrate::mbps(500));
        let bursts: Vec<Burst> = (1000..4000).filter_map(|ms| pacer.poll(at(ms))).collect();
        assert_eq!(bursts.iter().filter(|burst| burst.packets > 0).count(), 1);
        let signs = bursts.iter().filter(|burst| burst.packets == 0).count();
        assert!((250..310).contains(&signs), "{signs}");
        // The first one that comes through starts the trains again.
        let (due, report) = report(pacer.heard + 1, bursts.last().unwrap(), Bitrate::mbps(500));
        pacer.on_report(&report, due);
        assert!(pacer.poll(due).is_some_and(|burst| burst.packets == 30));
    }

    #[test]
    fn without_any_report_one_train_goes() {
        let mut pacer = Pacer::new(&Ask::default(), at(0));
        let bursts: Vec<Burst> = (0..20_000).filter_map(|ms| pacer.poll(at(ms))).collect();
        assert_eq!(bursts.iter().filter(|burst| burst.packets > 0).count(), 1);
        assert!(bursts.len() < 600, "{} small packets in 20 s", bursts.len());
    }

    #[test]
    fn an_old_report_changes_nothing() {
        let mut pacer = Pacer::new(&Ask::default(), at(0));
        let burst = pacer.poll(at(0)).unwrap();
        let (due, fresh) = report(2, &burst, Bitrate::mbps(500));
        pacer.on_report(&fresh, due);
        let rtt = pacer.rtt();
        let (_, old) = report(1, &burst, Bitrate::mbps(1));
        pacer.on_report(&old, at(500));
        assert_eq!((pacer.rtt(), pacer.rate), (rtt, Some(Bitrate::mbps(500))));
    }

    #[test]
    fn packets_go_one_by_one_where_super_packets_stay_whole() {
        let mut pacer = Pacer::new(&Ask::default(), at(0));
        for number in 1..=4 {
            let burst = pacer.poll(at(u64::from(number) * 10)).unwrap();
            assert_eq!(burst.together, number <= 3);
            let (due, mut report) = report(number, &burst, Bitrate::mbps(1000));
            report.results[0].outcome = Err(Unusable::Coalesced { stamps: 1 });
            pacer.on_report(&report, due);
        }
    }
}
