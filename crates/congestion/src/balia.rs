//! BALIA, the balanced linked adaptation of draft-walid-mptcp-congestion-control-04.

use crate::Coupling;
use crate::coupled::{Relative, Rule};

/// The least a window shrinks by is half of itself, the most so many times that.
const MAX_DECREASE: f64 = 1.5;

/// BALIA's rule, in which `A` is the rate of the fastest subflow over the own one.
#[derive(Debug, Default)]
pub(crate) struct Balia;

impl Rule for Balia {
    /// Per segment acknowledged, `(x/r) / (Σ xᵢ)² × (1 + A)/2 × (4 + A)/5` with `x = w/r`, times
    /// the window.
    fn increase(coupling: &Coupling<'_>) -> f64 {
        let Relative { rates, best_rate: a, .. } = Relative::to_own(coupling);
        1.0 / (rates * rates) * ((1.0 + a) / 2.0) * ((4.0 + a) / 5.0)
    }

    fn decrease(coupling: &Coupling<'_>) -> f64 {
        Relative::to_own(coupling).best_rate.min(MAX_DECREASE) / 2.0
    }
}
