//! A deterministic, packet-level, discrete-event simulator of multipath transport.
//!
//! It has TCP endpoints with any congestion control of `weftline-congestion`, the sessions and
//! schedulers of `weftline-core` above them, links with rate traces, and a video player. Time is in
//! whole nanoseconds, events have a total order, and every random draw has its own named stream, so the
//! same plan gives the same run, event by event.
//!
//! [`simulate`] runs a scheme over a scenario; [`run`] runs a [`Plan`] of your own; [`run_all`] does
//! many runs on several threads and gives them back in order.
//!
//! ```
//! use std::time::Duration;
//!
//! use weftline_scenario::{Congestion, Scenario};
//! use weftline_sim::simulate;
//!
//! let mut scenario = Scenario::find("bond")?;
//! scenario.set_duration(Duration::from_secs(2), Duration::from_millis(500))?;
//! let mut goodput = |scheme: &str| -> Result<f64, Box<dyn std::error::Error>> {
//!     let outcome = simulate(&scenario, &scheme.parse()?, "bbr".parse::<Congestion>()?, 1, false)?;
//!     Ok(outcome.record.goodput_mbps.unwrap_or_default())
//! };
//! let (alone, both) = (goodput("single:dsl")?, goodput("earliest")?);
//! assert!(both > 1.3 * alone, "DSL alone {alone} Mb/s, with LTE {both} Mb/s");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod batch;
mod build;
mod calls;
mod coded;
mod contact;
mod flow;
mod net;
mod plan;
mod queue;
mod record;
mod stepping;
mod tcp;
mod view;
mod wire;
mod world;

pub use batch::{Job, run_all, run_all_unless, run_each_unless};
pub use calls::CallReport;
pub use plan::{
    CallPlan, ControlPlace, FlowPlan, GatewayPlan, LiveOutcome, LivePlan, OwnControl, PathPlan,
    Pattern, Plan, Spread, Traffic,
};
pub use record::{Outcome, Woven, run, simulate, simulate_plan_unless, simulate_unless};
pub use stepping::{Observation, PathObservation, Simulation, simulate_plan_seen};
pub use view::{PathState, PathView, View};

use std::time::Duration;

/// Why a run could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A connection could not be set up.
    #[error(
        "no connection within {limit:?} over {}: lower its loss or delay, or raise its rate",
        paths.join(", ")
    )]
    NotConnected {
        /// How long was tried.
        limit: Duration,
        /// The names of the paths that carry nothing yet.
        paths: Vec<String>,
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
