//! One direction of a link: queue, server, loss, delay, jitter, and their counters.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_core::rng::Rng;
use weftline_core::time::nanos;
use weftline_core::{ByteCount, Instant};

use crate::loss::{Loss, LossModel};
use crate::server::Server;
use crate::trace::RateTrace;

/// How much a link's queue holds, the packet in service included. What does not fit is dropped at
/// the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// So many bytes.
    Bytes(ByteCount),
    /// So many packets.
    Packets(u64),
}

/// What a link is like.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// The rate at which packets are served.
    pub rate: RateTrace,
    /// From the end of service to the arrival.
    pub delay: Duration,
    /// Standard deviation of a normal variation of the delay, drawn for each packet and cut where
    /// the delay would be negative. A packet that would overtake arrives with the one before it.
    pub jitter: Duration,
    /// The room for packets waiting or in service.
    pub queue: QueueLimit,
    /// The packets lost on the way.
    pub loss: LossModel,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It arrives at the far end then.
    Arrives(Instant),
    /// It is lost by the loss model.
    Lost,
    /// The queue had no room for it.
    QueueFull,
    /// It would never be served: the rate stays zero for ever.
    Unserved,
}

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of packets.
    pub packets: u64,
    /// Their wire sizes together.
    pub bytes: ByteCount,
}

/// What a link has done since it was made. `offered` is always the sum of the others, in packets
/// and in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// All packets that came.
    pub offered: Tally,
    /// Those that have arrived or will.
    pub scheduled: Tally,
    /// Those lost by the loss model.
    pub lost: Tally,
    /// Those the queue had no room for.
    pub queue_full: Tally,
    /// Those that would never be served.
    pub unserved: Tally,
}

/// One direction of a link. The packet itself stays with the caller: the link gets its wire size
/// and answers when it arrives.
///
/// Time must not run backwards from call to call; an earlier `now` counts as the latest one seen.
/// Arrival times never decrease.
#[derive(Clone, Debug)]
pub struct Link {
    rate: RateTrace,
    delay: u64,
    jitter: u64,
    queue: QueueLimit,
    loss: Loss,
    jitter_rng: Rng,
    server: Server,
    /// Finish time and size of each packet waiting or in service, oldest first.
    waiting: VecDeque<(u64, u64)>,
    waiting_bytes: u64,
    now: Instant,
    last_arrival: u64,
    stats: LinkStats,
}

impl Link {
    /// A link in the state of t = 0 of its trace and schedules, which begin with
    /// [`Link::start`]. `name` names the random streams (`"wigig/down"`): links of different
    /// names draw independently under one `seed`.
    pub fn new(config: LinkConfig, seed: u64, name: &str) -> Self {
        Self {
            server: Server::waiting(&config.rate),
            rate: config.rate,
            delay: nanos(config.delay),
            jitter: nanos(config.jitter),
            queue: config.queue,
            loss: Loss::new(config.loss, seed, name),
            jitter_rng: Rng::stream(seed, &format!("{name}/jitter")),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            now: Instant::ZERO,
            last_arrival: 0,
            stats: LinkStats::default(),
        }
    }

    /// Begins trace and schedules at `epoch` (t = 0 of the workload's first byte); before it, the
    /// state of t = 0 holds, or the mean rate where the trace begins with zero, so that
    /// connections can be made. Packets already accepted keep their times. A second call begins
    /// them anew.
    pub fn start(&mut self, epoch: Instant) {
        self.server.start(&self.rate, epoch.as_nanos());
        self.loss.start(epoch);
    }

    /// Offers a packet of `size` bytes at `now`, and says what becomes of it. While the rate is
    /// zero, packets wait: they are served when capacity returns.
    ///
    /// Costs O(1) amortised over packets and trace steps, and allocates only while the queue grows
    /// longer than it has ever been.
    pub fn offer(&mut self, now: Instant, size: ByteCount) -> Verdict {
        self.advance(now);
        self.stats.offered.add(size);
        if self.loss.loses(self.now) {
            self.stats.lost.add(size);
            return Verdict::Lost;
        }
        if !self.has_room(size) {
            self.stats.queue_full.add(size);
            return Verdict::QueueFull;
        }
        let Some(finish) = self.server.serve(&self.rate, self.now.as_nanos(), size) else {
            self.stats.unserved.add(size);
            return Verdict::Unserved;
        };
        self.waiting.push_back((finish, size.as_u64()));
        self.waiting_bytes += size.as_u64();
        self.stats.scheduled.add(size);
        self.last_arrival = finish.saturating_add(self.draw_delay()).max(self.last_arrival);
        Verdict::Arrives(Instant::from_nanos(self.last_arrival))
    }

    /// The packets waiting or in service at `now`: their bytes and their number.
    pub fn backlog(&mut self, now: Instant) -> (ByteCount, u64) {
        self.advance(now);
        (ByteCount::new(self.waiting_bytes), self.waiting.len() as u64)
    }

    /// When everything accepted so far will have been served: `now`, if it has been.
    pub fn idle_at(&mut self, now: Instant) -> Instant {
        self.advance(now);
        let last = self.waiting.back();
        last.map_or(self.now, |&(finish, _)| Instant::from_nanos(finish))
    }

    /// When a packet of `size` bytes that came at `at`, after everything accepted so far, would
    /// arrive but for jitter, loss and a full queue; `None` if it would never be served. Changes
    /// nothing: for those who may know a link from within.
    pub fn would_arrive(&self, at: Instant, size: ByteCount) -> Option<Instant> {
        let at = at.max(self.now).as_nanos();
        let finish = self.server.clone().serve(&self.rate, at, size)?;
        Some(Instant::from_nanos(finish.saturating_add(self.delay)))
    }

    /// The share of packets that the loss model takes at `now`; in the long run, where that is drawn by
    /// states. For those who may know a link from within.
    pub fn loss_share(&self, now: Instant) -> f64 {
        self.loss.share(now)
    }

    /// What the link has done so far.
    pub fn stats(&self) -> LinkStats {
        self.stats
    }

    /// Forgets the packets served by `now`.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some(&(finish, size)) = self.waiting.front() {
            if finish > self.now.as_nanos() {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= size;
        }
    }

    fn has_room(&self, size: ByteCount) -> bool {
        match self.queue {
            QueueLimit::Bytes(limit) => {
                let after = self.waiting_bytes.checked_add(size.as_u64());
                after.is_some_and(|after| after <= limit.as_u64())
            }
            QueueLimit::Packets(limit) => (self.waiting.len() as u64) < limit,
        }
    }

    fn draw_delay(&mut self) -> u64 {
        if self.jitter == 0 {
            return self.delay;
        }
        // Casting saturates: a negative delay becomes 0.
        (self.delay as f64 + self.jitter_rng.normal_f64() * self.jitter as f64) as u64
    }
}

impl Tally {
    fn add(&mut self, size: ByteCount) {
        self.packets += 1;
        self.bytes = ByteCount::new(self.bytes.as_u64().saturating_add(size.as_u64()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftline_core::Bitrate;

    const PACKET: ByteCount = ByteCount::new(1500);
    const MS: Duration = Duration::from_millis(1);

    /// 12 Mb/s, where a packet of 1500 bytes takes 1 ms; no delay, no loss.
    fn config(queue: QueueLimit) -> LinkConfig {
        LinkConfig {
            rate: RateTrace::constant(Bitrate::mbps(12)),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            queue,
            loss: LossModel::None,
        }
    }

    fn arrives(ms: u64) -> Verdict {
        Verdict::Arrives(Instant::from_millis(ms))
    }

    #[test]
    fn what_would_be_is_what_comes() {
        let config = LinkConfig { delay: 20 * MS, ..config(QueueLimit::Packets(10)) };
        let mut link = Link::new(config, 1, "test");
        link.offer(Instant::ZERO, PACKET);
        let would = link.would_arrive(Instant::ZERO, PACKET);
        assert_eq!(would.map(Verdict::Arrives), Some(link.offer(Instant::ZERO, PACKET)));
        assert_eq!(
            link.would_arrive(Instant::from_millis(10), PACKET),
            Some(Instant::from_millis(31))
        );
    }

    #[test]
    fn packets_queue_behind_each_other() {
        let config = LinkConfig { delay: 20 * MS, ..config(QueueLimit::Packets(10)) };
        let mut link = Link::new(config, 1, "test");
        for k in 1..=3 {
            assert_eq!(link.offer(Instant::ZERO, PACKET), arrives(20 + k));
        }
        assert_eq!(link.backlog(Instant::ZERO), (ByteCount::new(4500), 3));
        assert_eq!(link.idle_at(Instant::ZERO), Instant::from_millis(3));
        assert_eq!(link.backlog(Instant::from_millis(1)), (ByteCount::new(3000), 2));
        assert_eq!(link.backlog(Instant::from_millis(3)), (ByteCount::ZERO, 0));
        assert_eq!(link.idle_at(Instant::from_millis(4)), Instant::from_millis(4));
        assert_eq!(link.offer(Instant::from_millis(50), PACKET), arrives(71));
    }

    #[test]
    fn the_queue_drops_at_its_tail_in_packets() {
        let mut link = Link::new(config(QueueLimit::Packets(2)), 1, "test");
        assert_eq!(link.offer(Instant::ZERO, PACKET), arrives(1));
        assert_eq!(link.offer(Instant::ZERO, PACKET), arrives(2));
        assert_eq!(link.offer(Instant::ZERO, PACKET), Verdict::QueueFull);
        assert_eq!(link.offer(Instant::from_nanos(999_999), PACKET), Verdict::QueueFull);
        assert_eq!(link.offer(Instant::from_millis(1), PACKET), arrives(3));
        let stats = link.stats();
        assert_eq!((stats.offered.packets, stats.scheduled.packets), (5, 3));
        assert_eq!(stats.queue_full, Tally { packets: 2, bytes: ByteCount::new(3000) });
    }

    #[test]
    fn the_queue_drops_at_its_tail_in_bytes() {
        let limit = QueueLimit::Bytes(ByteCount::new(3100));
        let mut link = Link::new(config(limit), 1, "test");
        assert_eq!(link.offer(Instant::ZERO, PACKET), arrives(1));
        assert_eq!(link.offer(Instant::ZERO, PACKET), arrives(2));
        assert_eq!(link.offer(Instant::ZERO, ByteCount::new(101)), Verdict::QueueFull);
        assert!(matches!(link.offer(Instant::ZERO, ByteCount::new(100)), Verdict::Arrives(_)));
        assert_eq!(link.offer(Instant::ZERO, ByteCount::new(u64::MAX)), Verdict::QueueFull);
        assert_eq!(link.backlog(Instant::ZERO), (ByteCount::new(3100), 3));
    }

    #[test]
    fn a_blackout_stalls_service_and_drops_nothing() {
        // 12 Mb/s for 10 ms, then an hour of nothing.
        let steps = vec![(Duration::ZERO, Bitrate::mbps(12)), (10 * MS, Bitrate::ZERO)];
        let rate = RateTrace::from_steps(steps, 3_600_000 * MS).unwrap();
        let mut link = Link::new(LinkConfig { rate, ..config(QueueLimit::Packets(50)) }, 1, "test");
        // Before the start, t = 0's rate holds: half a second later the link still works.
        assert_eq!(link.offer(Instant::from_millis(500), PACKET), arrives(501));
        link.start(Instant::from_millis(1000));
        assert_eq!(link.offer(Instant::from_millis(1009), PACKET), arrives(1010));
        assert_eq!(link.offer(Instant::from_millis(1009), PACKET), arrives(3_601_001));
        assert_eq!(link.offer(Instant::from_millis(2_000_000), PACKET), arrives(3_601_002));
        assert_eq!(link.backlog(Instant::from_millis(3_600_999)).1, 2);
    }

    #[test]
    fn a_link_that_begins_dark_carries_handshakes_before() {
        // Nothing for 1 s, then 24 Mb/s for 1 s: 12 Mb/s in the mean.
        let s = Duration::from_secs(1);
        let steps = vec![(Duration::ZERO, Bitrate::ZERO), (s, Bitrate::mbps(24))];
        let rate = RateTrace::from_steps(steps, 2 * s).unwrap();
        let mut link = Link::new(LinkConfig { rate, ..config(QueueLimit::Packets(9)) }, 1, "test");
        assert_eq!(link.offer(Instant::from_millis(100), PACKET), arrives(101));
        link.start(Instant::from_millis(500));
        assert_eq!(link.offer(Instant::from_millis(499), PACKET), arrives(500));
        let after = Instant::from_nanos(1_500_500_000);
        assert_eq!(link.offer(Instant::from_millis(500), PACKET), Verdict::Arrives(after));
    }

    #[test]
    fn a_packet_under_way_feels_the_rate_change() {
        // 12 Mb/s, from 1.5 ms on 6 Mb/s: the second packet's second half takes 1 ms.
        let steps = vec![(Duration::ZERO, Bitrate::mbps(12)), (3 * MS / 2, Bitrate::mbps(6))];
        let rate = RateTrace::from_steps(steps, 1000 * MS).unwrap();
        let mut link = Link::new(LinkConfig { rate, ..config(QueueLimit::Packets(9)) }, 1, "test");
        link.start(Instant::ZERO);
        assert_eq!(link.offer(Instant::ZERO, PACKET), arrives(1));
        let second = Instant::from_nanos(2_500_000);
        assert_eq!(link.offer(Instant::ZERO, PACKET), Verdict::Arrives(second));
    }

    #[test]
    fn a_dead_link_says_so() {
        let rate = RateTrace::constant(Bitrate::ZERO);
        let mut link = Link::new(LinkConfig { rate, ..config(QueueLimit::Packets(9)) }, 1, "test");
        assert_eq!(link.offer(Instant::ZERO, PACKET), Verdict::Unserved);
        link.start(Instant::ZERO);
        assert_eq!(link.offer(Instant::ZERO, PACKET), Verdict::Unserved);
        assert_eq!(link.backlog(Instant::ZERO), (ByteCount::ZERO, 0));
        assert_eq!(link.stats().unserved.packets, 2);
    }

    #[test]
    fn lost_packets_take_no_service() {
        let config = LinkConfig { loss: LossModel::Nth(vec![1]), ..config(QueueLimit::Packets(1)) };
        let mut link = Link::new(config, 1, "test");
        assert_eq!(link.offer(Instant::ZERO, PACKET), Verdict::Lost);
        assert_eq!(link.offer(Instant::ZERO, PACKET), arrives(1));
    }

    #[test]
    fn jitter_has_its_deviation() {
        // Packets far apart, so that keeping the order changes nothing.
        let config =
            LinkConfig { delay: 50 * MS, jitter: 5 * MS, ..config(QueueLimit::Packets(9)) };
        let mut link = Link::new(config, 1, "test");
        let n = 20_000_u64;
        let delays: Vec<f64> = (0..n)
            .map(|k| {
                let now = Instant::from_millis(k * 200);
                let Verdict::Arrives(at) = link.offer(now, PACKET) else { panic!("dropped") };
                at.since(now).as_secs_f64() * 1e3
            })
            .collect();
        let mean = delays.iter().sum::<f64>() / n as f64;
        let variance = delays.iter().map(|d| (d - mean) * (d - mean)).sum::<f64>() / n as f64;
        assert!((mean - 51.0).abs() < 0.15, "{mean}");
        assert!((variance.sqrt() - 5.0).abs() < 0.15, "{variance}");
    }
}
