//! A deterministic, packet-level, discrete-event simulator of multipath transport.
//!
//! TCP endpoints with pluggable congestion control, the sessions and schedulers of the core on top
//! of them, trace-driven links, a video player. Time is in whole nanoseconds, events have a total
//! order, every random draw has its own named stream: a run is a function of its plan.

#![forbid(unsafe_code)]

mod batch;
mod build;
mod coded;
mod flow;
mod net;
mod plan;
mod queue;
mod record;
mod tcp;
mod wire;
mod world;

pub use batch::{Job, run_all, run_all_unless};
pub use plan::{FlowPlan, GatewayPlan, LiveOutcome, LivePlan, PathPlan, Plan, Spread, Traffic};
pub use record::{Outcome, run, simulate, simulate_unless};

use std::time::Duration;

/// Why a run could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A connection could not be set up.
    #[error(
        "no connection within {limit:?}: a path loses or delays too much; lower its loss or delay"
    )]
    NotConnected {
        /// How long was tried.
        limit: Duration,
    },
    /// It was ended early.
    #[error("the run was ended early")]
    Stopped,
    /// What was asked for makes no sense, or not here.
    #[error("{0}")]
    WrongUse(String),
}

impl SimError {
    fn wrong_use(error: impl std::fmt::Display) -> Self {
        Self::WrongUse(error.to_string())
    }
}

impl From<weftline_scenario::UnknownName> for SimError {
    fn from(error: weftline_scenario::UnknownName) -> Self {
        Self::wrong_use(error)
    }
}
