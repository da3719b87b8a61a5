//! From a scenario to the plan of a run.

use std::sync::Arc;
use std::time::Duration;

use weftline_core::scheduler;
use weftline_link::LinkConfig;
use weftline_scenario::{Congestion, Flow, Scenario, Scheme, Workload};
use weftline_video::Clip;

use crate::SimError;
use crate::flow::{FlowPlan, Traffic};

/// Both directions of a path.
#[derive(Clone, Debug)]
pub struct PathPlan {
    /// Its name.
    pub name: String,
    /// Server to client.
    pub down: LinkConfig,
    /// Client to server.
    pub up: LinkConfig,
    /// The number of the path whose links it uses in place of its own.
    pub shares: Option<usize>,
}

/// What a run is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The paths.
    pub paths: Vec<PathPlan>,
    /// The flows; the first is the one that is measured.
    pub flows: Vec<FlowPlan>,
    /// How long the workload runs.
    pub duration: Duration,
    /// How much of that the goodput leaves out.
    pub warmup: Duration,
    /// Seed of every random stream.
    pub seed: u64,
    /// Whether time series are kept.
    pub series: bool,
}

impl Plan {
    /// The plan of a run of `scheme` over `scenario`.
    ///
    /// # Errors
    /// If the simulator cannot run that, or the scheme does not go with the scenario's paths.
    pub fn new(
        scenario: &Scenario,
        scheme: &Scheme,
        congestion: Congestion,
        seed: u64,
    ) -> Result<Self, SimError> {
        let connections = scenario.connections(scheme, congestion)?;
        let flows: Result<Vec<_>, _> = connections.iter().map(flow_plan).collect();
        let place = |name: &str| scenario.paths.iter().position(|path| path.name == name);
        let paths = scenario.paths.iter().map(|path| PathPlan {
            name: path.name.clone(),
            down: path.down_link(seed, scenario.duration),
            up: path.up_link(seed, scenario.duration),
            shares: path.shares.as_deref().and_then(place),
        });
        Ok(Self {
            paths: paths.collect(),
            flows: flows?,
            duration: scenario.duration,
            warmup: scenario.warmup,
            seed,
            series: false,
        })
    }
}

fn flow_plan(flow: &Flow) -> Result<FlowPlan, SimError> {
    let scheduler = match (&flow.scheme, flow.scheme.scheduler()) {
        (Scheme::LinuxMptcp, _) => Some(find("linux")?),
        (_, Some(name)) => Some(find(name)?),
        (_, None) => None,
    };
    if let Some(entry) = scheduler {
        entry.check_paths(flow.paths.len()).map_err(SimError::wrong_use)?;
    }
    let name = flow.congestion.name();
    let congestion = weftline_congestion::Entry::find(name);
    Ok(FlowPlan {
        name: flow.name.clone(),
        scheduler,
        congestion: congestion.expect("the scenario's controls are the registry's"),
        paths: flow.paths.clone(),
        traffic: traffic(flow.workload)?,
        start: flow.start,
        stop: Some(flow.stop),
    })
}

fn find(name: &str) -> Result<&'static scheduler::Entry, SimError> {
    scheduler::Entry::find(name).map_err(SimError::wrong_use)
}

fn traffic(workload: Workload) -> Result<Traffic, SimError> {
    match workload {
        Workload::Bulk => Ok(Traffic::Bulk),
        Workload::Cbr(rate) => Ok(Traffic::Cbr(rate)),
        Workload::Burst(size) => Ok(Traffic::Burst(size)),
        Workload::Transfer(size) => Ok(Traffic::Transfer(size)),
        Workload::Video(video) => {
            let clip = Clip::generate(&video.clip).map_err(SimError::wrong_use)?;
            Ok(Traffic::Video(Arc::new(clip), video.rules))
        }
        other => Err(SimError::WrongUse(format!(
            "the simulator has no workload '{other}'; run it in the lab, or choose another"
        ))),
    }
}
