//! Whether an access point and its device hear each other: the greetings of the tunnel's nodes, of which
//! the simulator keeps only when they come.
//!
//! They go over links of their own that are as the radio's two directions, so that they take nothing
//! from packets and wait for none. What is sent is looked at when somebody asks, in the order of time.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_coding::node::{GREETING_INTERVAL, Presence};
use weftline_core::time::nanos;
use weftline_core::{ByteCount, Instant};
use weftline_link::{Link, LinkConfig, LossModel, Verdict};

/// Bytes of a greeting on the wire, about.
const GREETING: ByteCount = ByteCount::new(120);

/// An access point's contact with its device.
#[derive(Debug)]
pub(crate) struct Contact {
    presence: Presence,
    down: Link,
    up: Link,
    /// When both greet each other next.
    next_ns: u64,
    /// When the device last heard a greeting.
    heard_ns: u64,
    /// When greetings come to the device, and to the access point with the age that they tell.
    to_device: VecDeque<u64>,
    to_access_point: VecDeque<(u64, Duration)>,
}

impl Contact {
    /// The contact over a radio with these directions, which is there from the beginning.
    pub(crate) fn new(down: &LinkConfig, up: &LinkConfig, seed: u64, name: &str) -> Self {
        let link = |config: &LinkConfig, way: &str| {
            let config = LinkConfig { loss: rare(&config.loss), ..config.clone() };
            Link::new(config, seed, &format!("{name}/greetings/{way}"))
        };
        let (mut presence, first) = (Presence::default(), down.delay + up.delay);
        presence.hear(Instant::ZERO + first);
        Self {
            presence,
            down: link(down, "down"),
            up: link(up, "up"),
            next_ns: 0,
            heard_ns: nanos(first),
            to_device: VecDeque::new(),
            to_access_point: VecDeque::new(),
        }
    }

    /// Begins traces and schedules.
    pub(crate) fn start(&mut self, now_ns: u64) {
        self.greet(now_ns);
        let now = Instant::from_nanos(now_ns);
        self.down.start(now);
        self.up.start(now);
    }

    /// Whether the device is there, as the access point knows it.
    pub(crate) fn is_there(&mut self, now_ns: u64) -> bool {
        self.greet(now_ns);
        while let Some(&(at_ns, age)) = self.to_access_point.front()
            && at_ns <= now_ns
        {
            self.to_access_point.pop_front();
            self.presence.hear(Instant::from_nanos(at_ns));
            self.presence.answer(age);
        }
        self.presence.is_there(Instant::from_nanos(now_ns))
    }

    /// When something may have changed.
    pub(crate) fn next_ns(&self) -> u64 {
        let coming = self.to_access_point.front().map(|(at_ns, _)| *at_ns);
        coming.into_iter().fold(self.next_ns, u64::min)
    }

    /// Sends what was to be sent by now.
    fn greet(&mut self, now_ns: u64) {
        while self.next_ns <= now_ns {
            let at_ns = self.next_ns;
            let at = Instant::from_nanos(at_ns);
            self.next_ns += nanos(GREETING_INTERVAL);
            while let Some(&heard_ns) =
                self.to_device.front().filter(|heard_ns| **heard_ns <= at_ns)
            {
                self.to_device.pop_front();
                self.heard_ns = heard_ns;
            }
            if let Verdict::Arrives(comes) = self.down.offer(at, GREETING) {
                self.to_device.push_back(comes.as_nanos());
            }
            let age = Duration::from_nanos(at_ns.saturating_sub(self.heard_ns));
            if let Verdict::Arrives(comes) = self.up.offer(at, GREETING) {
                self.to_access_point.push_back((comes.as_nanos(), age));
            }
        }
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
            // Three greetings, and the way.
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
}
