//! The schemes by name. A scheme is one file here and one line in [`REGISTRY`].

mod fix;
mod margin;
mod oracle;
mod order;
mod ows;
mod paper;
mod uniform;
mod viewport;

use super::operating_points::{OperatingPoints, rungs};
use super::problem::{Draft, Plan, PlanError, Problem, raster};
use super::rates::allocate;
use super::search_budget::SearchBudget;

/// A scheme's entry in the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    make: fn(&Problem<'_>, &mut SearchBudget<'_>) -> Result<Draft, PlanError>,
}

/// Every scheme, by name.
pub const REGISTRY: &[Entry] = &[
    ows::ENTRY,
    order::ENTRY,
    fix::ENTRY,
    margin::ENTRY,
    margin::NARROW,
    margin::NARROWER,
    uniform::ENTRY,
    viewport::ENTRY,
    paper::ASCENDING,
    paper::DESCENDING,
    oracle::ENTRY,
];

/// A scheme that is not in the registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown tile scheme '{name}'; known are {known}")]
pub struct UnknownScheme {
    name: String,
    known: String,
}

impl Entry {
    /// The entry called `name`.
    ///
    /// # Errors
    /// If there is none: the message names those there are.
    pub fn find(name: &str) -> Result<&'static Self, UnknownScheme> {
        REGISTRY.iter().find(|entry| entry.name == name).ok_or_else(|| UnknownScheme {
            name: name.chars().take(64).collect(),
            known: REGISTRY.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
        })
    }

    /// What is sent of the GoP, in what order. Never more than the problem's budget; the expected
    /// loss is that under the problem's throughput and delivery.
    ///
    /// # Errors
    /// [`PlanError::NoTruth`] if the scheme must know the true throughput and it was not given.
    pub fn plan(
        &self,
        problem: &Problem<'_>,
        search_budget: &mut SearchBudget<'_>,
    ) -> Result<Plan, PlanError> {
        (self.make)(problem, search_budget).map(|draft| problem.plan(&draft))
    }
}

/// The paper's rates (Algorithm 1, line 5): min Σ P·D within the budget, all tiles sent. If the
/// budget is below the lowest rungs, tiles are left out where that loses least.
fn paper_rates(problem: &Problem<'_>) -> Vec<Option<usize>> {
    let tiles = problem.inputs().gop.tiles();
    let all: Vec<OperatingPoints> =
        tiles.iter().map(|tile| OperatingPoints::new(tile, None)).collect();
    let (weights, budget) = (problem.visibility(), problem.budget().as_u64());
    let (point_sets, allocation) = match allocate(&all, weights, budget) {
        Some(allocation) => (&all[..], allocation),
        None => {
            let allocation = allocate(problem.operating_points(), weights, budget);
            (problem.operating_points(), allocation.expect("sending nothing fits every budget"))
        }
    };
    rungs(point_sets, &allocation.chosen)
}
