//! A maximum over the last rounds.

/// The greatest of the samples of the last `N` rounds and the current one, exactly (Linux keeps
/// three candidates: win_minmax.c). Rounds count from 0 and never go back; a sample is forgotten
/// only when another arrives, as in Linux, so that a silent filter keeps its value.
#[derive(Clone, Debug)]
pub(crate) struct MaxFilter<const N: usize> {
    /// The greatest sample of each round, the round in front.
    rounds: [(u64, f64); N],
    newest: usize,
    max: f64,
}

impl<const N: usize> Default for MaxFilter<N> {
    fn default() -> Self {
        Self { rounds: [(0, 0.0); N], newest: 0, max: 0.0 }
    }
}

impl<const N: usize> MaxFilter<N> {
    /// Takes a sample of `round`; those of round − N and before are forgotten.
    pub(crate) fn update(&mut self, round: u64, sample: f64) {
        let (last, greatest) = &mut self.rounds[self.newest];
        if *last == round {
            *greatest = greatest.max(sample);
            self.max = self.max.max(sample);
            return;
        }
        self.newest = (self.newest + 1) % N;
        self.rounds[self.newest] = (round, sample);
        let live = self.rounds.iter().filter(|(at, _)| at + (N as u64) > round);
        self.max = live.fold(0.0, |max, (_, sample)| max.max(*sample));
    }

    /// The greatest; 0 before the first sample.
    pub(crate) fn max(&self) -> f64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_lives_for_n_rounds() {
        let mut filter = MaxFilter::<3>::default();
        filter.update(0, 5.0);
        filter.update(0, 4.0);
        filter.update(1, 3.0);
        filter.update(2, 2.0);
        assert_eq!(filter.max(), 5.0);
        filter.update(3, 1.0);
        assert_eq!(filter.max(), 3.0);
        filter.update(9, 0.5);
        assert_eq!(filter.max(), 0.5);
    }
}
