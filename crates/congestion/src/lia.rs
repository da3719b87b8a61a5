//! LIA, the linked increases of RFC 6356.

use crate::Coupling;
use crate::coupled::{Relative, Rule};

/// LIA's rule: per segment acknowledged a window grows by the least of `alpha / total` and
/// `1 / cwnd` (RFC 6356 §3).
#[derive(Debug, Default)]
pub(crate) struct Lia;

impl Rule for Lia {
    /// `alpha / total`, where `alpha = total × max(wᵢ/rᵢ²) / (Σ wᵢ/rᵢ)²`, times the window: the
    /// total cancels.
    fn increase(coupling: &Coupling<'_>) -> f64 {
        let relative = Relative::to_own(coupling);
        (relative.best_growth / (relative.rates * relative.rates)).min(1.0)
    }
}
