//! Packet loss: the models, and the state that draws from them.

use std::time::Duration;

use weftline_core::Instant;
use weftline_core::rng::{Rng, probability};
use weftline_core::time::nanos;

/// Which packets a link loses, apart from those its queue has no room for.
///
/// Probabilities outside 0 to 1 count as the nearer end. A lost packet takes no room in the queue
/// and no service, as with the kernel's netem.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LossModel {
    /// Every packet with this probability, independently.
    Bernoulli(f64),
    /// A Markov chain of a good and a bad state that steps once a packet (Gilbert 1960,
    /// Elliott 1963); it begins in the good state.
    GilbertElliott {
        /// Probability of going from the good state to the bad one, per packet.
        good_to_bad: f64,
        /// Probability of going from the bad state to the good one, per packet.
        bad_to_good: f64,
        /// Loss probability in the good state.
        loss_good: f64,
        /// Loss probability in the bad state.
        loss_bad: f64,
    },
    /// No packet.
    #[default]
    None,
    /// The packets of these numbers, counted from 1 over all that are offered to the link.
    Nth(Vec<u64>),
    /// Each probability from its time on (since the link's epoch, by the time of the offer); none
    /// before the first.
    Schedule(Vec<(Duration, f64)>),
}

impl LossModel {
    /// The share of packets lost at `time` since the link's epoch; in the long run, where that is drawn by
    /// states.
    pub fn share_at(&self, time: Duration) -> f64 {
        let share = match self {
            Self::None | Self::Nth(_) => 0.0,
            Self::Bernoulli(share) => *share,
            Self::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => {
                let turns = good_to_bad + bad_to_good;
                match turns > 0.0 {
                    true => (loss_good * bad_to_good + loss_bad * good_to_bad) / turns,
                    false => *loss_good,
                }
            }
            Self::Schedule(changes) => {
                let begun = changes.iter().filter(|(at, _)| *at <= time);
                // Of several at one time the last one holds.
                begun.max_by_key(|(at, _)| *at).map_or(0.0, |(_, share)| *share)
            }
        };
        share.clamp(0.0, 1.0)
    }

    /// The times since the link's epoch at which [`share_at`](Self::share_at) may change.
    pub fn changes(&self) -> impl Iterator<Item = Duration> + '_ {
        let changes = match self {
            Self::Schedule(changes) => &changes[..],
            _ => &[],
        };
        changes.iter().map(|(at, _)| *at)
    }
}

/// A loss model at work.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    model: LossModel,
    epoch: Option<Instant>,
    rng: Rng,
    state: State,
}

/// Probabilities are thresholds for [`Rng::happens`].
#[derive(Clone, Debug)]
enum State {
    Bernoulli { loss: u64 },
    GilbertElliott { leave: [u64; 2], loss: [u64; 2], bad: bool },
    None,
    Nth { numbers: Vec<u64>, next: usize, offered: u64 },
    Schedule { changes: Vec<(u64, u64)>, next: usize, loss: u64 },
}

impl Loss {
    /// The model with its random stream `"{name}/loss"`.
    pub(crate) fn new(model: LossModel, seed: u64, name: &str) -> Self {
        let state = match &model {
            &LossModel::Bernoulli(p) => State::Bernoulli { loss: probability(p) },
            &LossModel::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => {
                State::GilbertElliott {
                    leave: [probability(good_to_bad), probability(bad_to_good)],
                    loss: [probability(loss_good), probability(loss_bad)],
                    bad: false,
                }
            }
            LossModel::None => State::None,
            LossModel::Nth(numbers) => {
                let mut numbers = numbers.clone();
                numbers.sort_unstable();
                State::Nth { numbers, next: 0, offered: 0 }
            }
            LossModel::Schedule(changes) => {
                let mut changes: Vec<_> =
                    changes.iter().map(|&(at, p)| (nanos(at), probability(p))).collect();
                changes.sort_by_key(|&(at, _)| at);
                State::Schedule { changes, next: 0, loss: 0 }
            }
        };
        let rng = Rng::stream(seed, &format!("{name}/loss"));
        let mut loss = Self { model, epoch: None, rng, state };
        loss.follow_schedule(Instant::ZERO);
        loss
    }

    /// Starts the schedule at `epoch`, anew if it ran before.
    pub(crate) fn start(&mut self, epoch: Instant) {
        self.epoch = Some(epoch);
        if let State::Schedule { next, loss, .. } = &mut self.state {
            (*next, *loss) = (0, 0);
        }
        self.follow_schedule(epoch);
    }

    /// The share of packets that is lost at `now`.
    pub(crate) fn share(&self, now: Instant) -> f64 {
        self.model.share_at(self.since_epoch(now))
    }

    /// The time of the schedule: before the epoch, t = 0.
    fn since_epoch(&self, now: Instant) -> Duration {
        self.epoch.map_or(Duration::ZERO, |epoch| now.since(epoch))
    }

    /// Whether the packet offered at `now` is lost.
    pub(crate) fn loses(&mut self, now: Instant) -> bool {
        self.follow_schedule(now);
        match &mut self.state {
            State::Bernoulli { loss } | State::Schedule { loss, .. } => self.rng.happens(*loss),
            State::GilbertElliott { leave, loss, bad } => {
                *bad ^= self.rng.happens(leave[usize::from(*bad)]);
                self.rng.happens(loss[usize::from(*bad)])
            }
            State::None => false,
            State::Nth { numbers, next, offered } => {
                *offered += 1;
                let before = *next;
                while numbers.get(*next).is_some_and(|number| number <= offered) {
                    *next += 1;
                }
                *next > before && numbers[*next - 1] == *offered
            }
        }
    }

    /// Takes up the probability that holds at `now`; before the epoch, that of t = 0.
    fn follow_schedule(&mut self, now: Instant) {
        let time = nanos(self.since_epoch(now));
        if let State::Schedule { changes, next, loss } = &mut self.state {
            while let Some(&(_, then)) = changes.get(*next).filter(|(at, _)| *at <= time) {
                *loss = then;
                *next += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers (from 1) of the packets lost among `count` offered a microsecond apart.
    fn lost(model: LossModel, seed: u64, count: u64) -> Vec<u64> {
        let mut loss = Loss::new(model, seed, "test");
        loss.start(Instant::ZERO);
        (1..=count).filter(|n| loss.loses(Instant::from_nanos(n * 1000))).collect()
    }

    /// Whether `hits` of `n` fits probability `p` within five standard deviations.
    fn fits(hits: usize, n: u64, p: f64) -> bool {
        let n = n as f64;
        (hits as f64 - n * p).abs() <= 5.0 * (n * p * (1.0 - p)).sqrt()
    }

    #[test]
    fn bernoulli_loses_its_share() {
        for p in [0.0, 0.000_01, 0.01, 0.05, 0.5, 1.0] {
            let lost = lost(LossModel::Bernoulli(p), 3, 200_000);
            assert!(fits(lost.len(), 200_000, p), "{p}: {}", lost.len());
        }
    }

    #[test]
    fn gilbert_elliott_has_its_share_and_its_bursts() {
        let model = LossModel::GilbertElliott {
            good_to_bad: 0.01,
            bad_to_good: 0.25,
            loss_good: 0.0,
            loss_bad: 1.0,
        };
        let lost = lost(model, 5, 400_000);
        // Stationary share of the bad state 0.01 ÷ 0.26; bursts of mean length 1 ÷ 0.25.
        let share = lost.len() as f64 / 400_000.0;
        assert!((share / (0.01 / 0.26) - 1.0).abs() < 0.1, "{share}");
        let bursts = 1 + lost.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        let length = lost.len() as f64 / bursts as f64;
        assert!((length - 4.0).abs() < 0.3, "{length}");
    }

    #[test]
    fn nth_loses_exactly_those() {
        assert_eq!(lost(LossModel::Nth(vec![5, 2, 2, 9, 40, 0]), 1, 30), [2, 5, 9]);
        assert_eq!(lost(LossModel::Nth(vec![]), 1, 30), []);
    }

    #[test]
    fn a_schedule_changes_at_its_times() {
        let us = Duration::from_micros;
        let model = LossModel::Schedule(vec![(us(10), 1.0), (us(20), 0.0), (us(25), 1.0)]);
        let mut loss = Loss::new(model, 1, "test");
        let at = |us: u64| Instant::from_nanos(us * 1000);
        // Before the start, the state of t = 0 holds, however late it is.
        assert!(!loss.loses(at(500)));
        loss.start(at(1000));
        assert!(!loss.loses(at(999)));
        assert!(!loss.loses(Instant::from_nanos(1_009_999)));
        assert!(loss.loses(at(1010)));
        assert!(loss.loses(Instant::from_nanos(1_019_999)));
        assert!(!loss.loses(at(1020)));
        assert!(loss.loses(at(1025)));
        assert!(loss.loses(at(9999)));
        loss.start(at(10_000));
        assert!(!loss.loses(at(10_009)));
        assert!(loss.loses(at(10_010)));
    }

    #[test]
    fn the_share_is_that_of_the_time() {
        let second = Duration::from_secs;
        let model = LossModel::Schedule(vec![(second(9), 0.5), (second(1), 0.02)]);
        let shares = [0, 1, 8, 9, 99].map(|s| model.share_at(second(s)));
        assert_eq!(shares, [0.0, 0.02, 0.02, 0.5, 0.5]);
        let mut loss = Loss::new(model, 1, "test");
        assert_eq!(loss.share(Instant::from_millis(50_000)), 0.0, "it has not begun");
        loss.start(Instant::from_millis(10_000));
        let shares = [9, 11, 19].map(|s| loss.share(Instant::from_millis(s * 1000)));
        assert_eq!(shares, [0.0, 0.02, 0.5]);
        let bursts = LossModel::GilbertElliott {
            good_to_bad: 0.01,
            bad_to_good: 0.25,
            loss_good: 0.0,
            loss_bad: 1.0,
        };
        assert!((bursts.share_at(second(7)) - 0.01 / 0.26).abs() < 1e-12);
    }

    #[test]
    fn a_schedule_draws_its_share() {
        let half = Duration::from_millis(100);
        let model = LossModel::Schedule(vec![(Duration::ZERO, 0.05), (half, 0.2)]);
        let lost = lost(model, 9, 200_000);
        let first = lost.partition_point(|&n| n < 100_000);
        assert!(fits(first, 100_000, 0.05), "{first}");
        assert!(fits(lost.len() - first, 100_000, 0.2), "{}", lost.len() - first);
    }

    #[test]
    fn one_seed_gives_the_same_losses() {
        let model = LossModel::Bernoulli(0.1);
        assert_eq!(lost(model.clone(), 7, 5000), lost(model.clone(), 7, 5000));
        assert_ne!(lost(model.clone(), 7, 5000), lost(model.clone(), 8, 5000));
        insta::assert_debug_snapshot!(lost(model, 7, 120));
    }
}
