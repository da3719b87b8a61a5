//! Whether an access point and its device hear each other, as the tunnel's nodes judge it: by all that comes,
//! and by what the other says of its own hearing in keepalives.
//!
//! Keepalives go over links of their own that are as the radio's two directions, so that they take nothing
//! from packets and wait for none. What is sent is looked at when somebody asks, in the order of time.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_coding::node::{KEEPALIVE_INTERVAL, Presence};
use weftline_core::time::nanos;
use weftline_core::{ByteCount, Instant};
use weftline_link::{Link, LinkConfig, LossModel, Verdict};

/// Bytes of a keepalive on the wire, about.
const KEEPALIVE: ByteCount = ByteCount::new(120);

/// An access point's contact with its device.
#[derive(Debug)]
pub(crate) struct Contact {
    access_point: End,
    device: End,
    /// When both send their next keepalives.
    next_ns: u64,
}

/// What one of both knows of the other.
#[derive(Debug)]
struct End {
    presence: Presence,
    /// The way to it.
    link: Link,
    /// When keepalives come to it, and for how long, as they say, nothing had come to the other.
    coming: VecDeque<(u64, Duration)>,
}

impl End {
    /// Sends a keepalive to it, from one that has heard nothing of it for so long.
    fn send_keepalive(&mut self, quiet: Option<Duration>, at_ns: u64) {
        if let Verdict::Arrives(comes) = self.link.offer(Instant::from_nanos(at_ns), KEEPALIVE) {
            self.coming.push_back((comes.as_nanos(), quiet.unwrap_or(Duration::MAX)));
        }
    }

    /// Takes the keepalives that have come.
    fn take(&mut self, now_ns: u64) {
        while let Some(&(at_ns, quiet)) = self.coming.front()
            && at_ns <= now_ns
        {
            self.coming.pop_front();
            self.presence.hear(Instant::from_nanos(at_ns));
            self.presence.answer(quiet);
        }
    }

    /// A packet has come.
    fn hear(&mut self, now_ns: u64) {
        self.presence.hear(Instant::from_nanos(now_ns));
    }

    fn is_there(&self, now_ns: u64) -> bool {
        self.presence.is_there(Instant::from_nanos(now_ns))
    }
}

impl Contact {
    /// The contact over a radio with these directions, which is there from the beginning.
    pub(crate) fn new(down: &LinkConfig, up: &LinkConfig, seed: u64, name: &str) -> Self {
        let first = Instant::ZERO + down.delay + up.delay;
        let end = |config: &LinkConfig, way: &str| {
            let config = LinkConfig { loss: rare(&config.loss), ..config.clone() };
            let link = Link::new(config, seed, &format!("{name}/greetings/{way}"));
            let mut presence = Presence::default();
            presence.hear(first);
            End { presence, link, coming: VecDeque::new() }
        };
        Self { access_point: end(up, "up"), device: end(down, "down"), next_ns: 0 }
    }

    /// Begins traces and schedules.
    pub(crate) fn start(&mut self, now_ns: u64) {
        self.catch_up(now_ns);
        let now = Instant::from_nanos(now_ns);
        self.device.link.start(now);
        self.access_point.link.start(now);
    }

    /// A packet has come to the device.
    pub(crate) fn came_down(&mut self, now_ns: u64) {
        self.catch_up(now_ns);
        self.device.hear(now_ns);
    }

    /// A packet has come to the access point.
    pub(crate) fn came_up(&mut self, now_ns: u64) {
        self.catch_up(now_ns);
        self.access_point.hear(now_ns);
    }

    /// Whether the device is there, as the access point knows it.
    pub(crate) fn is_there(&mut self, now_ns: u64) -> bool {
        self.catch_up(now_ns);
        self.access_point.is_there(now_ns)
    }

    /// Whether the access point is there, as the device knows it.
    pub(crate) fn is_there_for_device(&mut self, now_ns: u64) -> bool {
        self.catch_up(now_ns);
        self.device.is_there(now_ns)
    }

    /// When something may have changed.
    pub(crate) fn next_ns(&self) -> u64 {
        let coming = self.access_point.coming.front().map(|(at_ns, _)| *at_ns);
        coming.into_iter().fold(self.next_ns, u64::min)
    }

    /// Sends and takes what was to be sent and taken by now.
    fn catch_up(&mut self, now_ns: u64) {
        let Self { access_point, device, next_ns } = self;
        while *next_ns <= now_ns {
            let at_ns = *next_ns;
            *next_ns += nanos(KEEPALIVE_INTERVAL);
            access_point.take(at_ns);
            device.take(at_ns);
            let at = Instant::from_nanos(at_ns);
            let quiet = [access_point.presence.quiet(at), device.presence.quiet(at)];
            device.send_keepalive(quiet[0], at_ns);
            access_point.send_keepalive(quiet[1], at_ns);
        }
        access_point.take(now_ns);
        device.take(now_ns);
    }
}

/// Losses of packets that are far apart: states that last for some packets are over, and numbered ones
/// are others.
fn rare(loss: &LossModel) -> LossModel {
    match loss {
        LossModel::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => {
            let bad = good_to_bad / (good_to_bad + bad_to_good).max(f64::MIN_POSITIVE);
            LossModel::Bernoulli(loss_good + (loss_bad - loss_good) * bad)
        }
        LossModel::Nth(_) => LossModel::None,
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use weftline_core::Bitrate;
    use weftline_link::{QueueLimit, RateTrace};

    use super::*;

    const MS: u64 = 1_000_000;

    fn radio(loss: LossModel) -> LinkConfig {
        LinkConfig {
            rate: RateTrace::constant(Bitrate::mbps(100)),
            delay: Duration::from_millis(30),
            jitter: Duration::ZERO,
            queue: QueueLimit::Packets(100),
            loss,
        }
    }

    /// Nothing comes from 3 to 6 s.
    fn dead() -> LossModel {
        let at = Duration::from_secs;
        LossModel::Schedule(vec![(at(3), 1.0), (at(6), 0.0)])
    }

    /// When it is not there, in ms since the workload began.
    fn away(down: LossModel, up: LossModel) -> Vec<u64> {
        let mut contact = Contact::new(&radio(down), &radio(up), 1, "radio");
        assert!((0..500).all(|ms| contact.is_there(ms * MS)));
        contact.start(500 * MS);
        (0..10_000).filter(|ms| !contact.is_there((500 + ms) * MS)).collect()
    }

    #[test]
    fn a_radio_that_is_dead_in_either_direction_is_noticed_and_its_return_is() {
        for (down, up) in [(dead(), dead()), (dead(), LossModel::None), (LossModel::None, dead())] {
            let away = away(down, up);
            let (first, last) = (away[0], away[away.len() - 1]);
            assert_eq!(away.len() as u64, last - first + 1, "once");
            // Three keepalives, and the way.
            assert!(
                (3230..=3440).contains(&first) && (6000..=6270).contains(&last),
                "{first} {last}"
            );
        }
        assert_eq!(away(LossModel::None, LossModel::None), [0; 0]);
        let bursts = LossModel::GilbertElliott {
            good_to_bad: 0.001,
            bad_to_good: 0.1,
            loss_good: 0.0,
            loss_bad: 1.0,
        };
        assert_eq!(away(bursts, LossModel::Nth((1..50).collect())), [0; 0]);
    }

    /// As the tunnel's nodes: four keepalives in a row that are lost say nothing while data come.
    #[test]
    fn what_comes_is_heard_whatever_becomes_of_keepalives() {
        let lossy = || LossModel::Bernoulli(0.5);
        let away = |data: bool| {
            let mut contact = Contact::new(&radio(lossy()), &radio(lossy()), 1, "radio");
            contact.start(0);
            let there = |ms: u64| {
                if data {
                    contact.came_down(ms * MS);
                    contact.came_up(ms * MS);
                }
                contact.is_there(ms * MS) && contact.is_there_for_device(ms * MS)
            };
            (0..20_000).map(there).filter(|there| !there).count()
        };
        assert!(away(false) > 1000, "half of the keepalives are lost: {}", away(false));
        assert_eq!(away(true), 0);
    }

    #[test]
    fn each_end_knows_by_itself_and_by_the_other() {
        for (down, up) in [(dead(), LossModel::None), (LossModel::None, dead())] {
            let mut contact = Contact::new(&radio(down), &radio(up), 1, "radio");
            contact.start(0);
            let gone =
                |ms: u64| [!contact.is_there(ms * MS), !contact.is_there_for_device(ms * MS)];
            let all = (0..10_000).map(gone).collect::<Vec<_>>();
            for end in 0..2 {
                let first = all.iter().position(|gone| gone[end]);
                let last = all.iter().rposition(|gone| gone[end]);
                assert!(first.is_some_and(|ms| (3230..=3440).contains(&ms)), "{first:?}");
                assert!(last.is_some_and(|ms| (6000..=6270).contains(&ms)), "{last:?}");
            }
        }
    }
}
