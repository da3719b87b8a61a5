//! `fix-margin`: `fix` that keeps a part of what it expects in hand, as players do.

use super::{Entry, paper_rates, raster};

/// The part of the budget that is planned for, in per cent: the fraction of the estimated bandwidth
/// that ExoPlayer's adaptive selection takes (`DEFAULT_BANDWIDTH_FRACTION`, 0.7).
const PART_PERCENT: u64 = 70;

pub(super) const ENTRY: Entry = Entry {
    name: "fix-margin",
    about: "fix within 70 % of the budget, as players keep a margin",
    make: |problem, _| {
        let part = problem.budget().as_u64() as u128 * u128::from(PART_PERCENT) / 100;
        // Less than the budget, which was a `u64`.
        Ok(raster(paper_rates(&problem.within(part as u64))))
    },
};
