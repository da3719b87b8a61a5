//! `oracle`: `ows` that knows what the paths will carry. An upper bound for plots.

use super::super::problem::{Draft, PlanError, Problem};
use super::super::search;
use super::super::search_budget::SearchBudget;
use super::{Entry, paper_rates, raster};

pub(super) const ENTRY: Entry =
    Entry { name: "oracle", about: "ows with the true throughput known: an upper bound", make };

fn make(problem: &Problem<'_>, search_budget: &mut SearchBudget<'_>) -> Result<Draft, PlanError> {
    let truth = problem.inputs().truth.ok_or(PlanError::NoTruth { scheme: ENTRY.name })?;
    let known = problem.expecting(truth);
    Ok(search::run(&known, raster(paper_rates(&known)), search_budget))
}
