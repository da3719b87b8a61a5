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

/// A loss model at work.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
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
    Schedule { changes: Vec<(u64, u64)>, next: usize, epoch: Option<Instant>, loss: u64 },
}

impl Loss {
    /// The model with its random stream `"{name}/loss"`.
    pub(crate) fn new(model: LossModel, seed: u64, name: &str) -> Self {
        let state = match model {
            LossModel::Bernoulli(p) => State::Bernoulli { loss: probability(p) },
            LossModel::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => {
                State::GilbertElliott {
                    leave: [probability(good_to_bad), probability(bad_to_good)],
                    loss: [probability(loss_good), probability(loss_bad)],
                    bad: false,
                }
            }
            LossModel::None => State::None,
            LossModel::Nth(mut numbers) => {
                numbers.sort_unstable();
                State::Nth { numbers, next: 0, offered: 0 }
            }
            LossModel::Schedule(changes) => {
                let mut changes: Vec<_> =
                    changes.iter().map(|&(at, p)| (nanos(at), probability(p))).collect();
                changes.sort_by_key(|&(at, _)| at);
                State::Schedule { changes, next: 0, epoch: None, loss: 0 }
            }
        };
        let mut loss = Self { rng: Rng::stream(seed, &format!("{name}/loss")), state };
        loss.follow_schedule(Instant::ZERO);
        loss
    }

    /// Starts the schedule at `epoch`, anew if it ran before.
    pub(crate) fn start(&mut self, epoch: Instant) {
        if let State::Schedule { next, epoch: current, loss, .. } = &mut self.state {
            (*next, *current, *loss) = (0, Some(epoch), 0);
        }
        self.follow_schedule(epoch);
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
        if let State::Schedule { changes, next, epoch, loss } = &mut self.state {
            let time = epoch.map_or(0, |epoch| nanos(now.since(epoch)));
            while let Some(&(_, then)) = changes.get(*next).filter(|(at, _)| *at <= time) {
                *loss = then;
                *next += 1;
            }
        }
    }
}
