//! `fix-margin` and its like: `fix` that keeps a part of what it expects in hand, as players do.

use super::{Draft, Entry, PlanError, Problem, SearchBudget, paper_rates, raster};

/// The part of the budget that is planned for is the fraction of the estimated bandwidth that
/// ExoPlayer's adaptive selection takes (`DEFAULT_BANDWIDTH_FRACTION`, 0.7).
pub(super) const ENTRY: Entry = Entry {
    name: "fix-margin",
    about: "fix within 70 % of the budget, as players keep a margin",
    make: within_percent::<70>,
};

/// No player's: how much of what `fix-margin` gains and loses is that part's own.
pub(super) const NARROW: Entry = Entry {
    name: "fix-margin-80",
    about: "fix within 80 % of the budget",
    make: within_percent::<80>,
};

/// The same with less in hand.
pub(super) const NARROWER: Entry = Entry {
    name: "fix-margin-90",
    about: "fix within 90 % of the budget",
    make: within_percent::<90>,
};

fn within_percent<const PERCENT: u64>(
    problem: &Problem<'_>,
    _: &mut SearchBudget<'_>,
) -> Result<Draft, PlanError> {
    let part = u128::from(problem.budget().as_u64()) * u128::from(PERCENT) / 100;
    // Less than the budget, which was a `u64`.
    Ok(raster(paper_rates(&problem.within(part as u64))))
}
