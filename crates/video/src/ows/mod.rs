//! Which rung each tile of a GoP is sent at, and in what order: observation-weighted sorting.
//!
//! FBDT §4 minimises Σ ε·P·D: the distortion of each tile, weighted by how likely it is seen and by
//! how likely it is *late*. Taken as printed that gives no loss to a tile that is on time and none
//! to what is shown in place of a late one. Here the expected loss of a GoP is
//!
//! ```text
//! F(π, R) = Σ P(t)·[(1 − ε_π(t))·D(R(t)) + ε_π(t)·D_concealed(t)]
//! ```
//!
//! with `D_concealed` the distortion of the concealment (grey, the tile's last picture, a base layer)
//! and `ε_π(t)` the probability that tile `t` is not whole at the deadline, which follows from the
//! bytes sent before it, the [`Throughput`] to be expected and the transport's [`Delivery`]. A
//! tile that is not sent has ε = 1.
//!
//! A [`Problem`] holds one GoP; a scheme of the [`REGISTRY`] makes a [`Plan`] of it. No scheme uses
//! a clock: a [`SearchBudget`] counts work, and a driver may stop it early.

mod delivery;
mod operating_points;
mod order;
mod problem;
mod rates;
mod schemes;
mod search;
mod search_budget;
mod throughput;

pub use delivery::{
    Delivery, FbdtMessages, FbdtStream, InOrder, PAPER_WINDOW, Progress, Received, TwoEnded,
};
pub use operating_points::{OperatingPoint, OperatingPoints};
pub use problem::{Inputs, Piece, Plan, PlanError, Problem, ProblemError};
pub use rates::{Allocation, MAX_STATES, TOLERANCE, allocate};
pub use schemes::{Entry, REGISTRY, UnknownScheme};
pub use search_budget::SearchBudget;
pub use throughput::{History, MAX_PATHS, MAX_SECONDS, Recency, Throughput, ThroughputError};
