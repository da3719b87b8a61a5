//! A run that is taken step by step, for whoever wants to look and act between.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weftline_core::time::nanos;
use weftline_scenario::{Congestion, Scenario, Scheme};

use crate::SimError;
use crate::build::mss;
use crate::plan::Plan;
use crate::record::{Outcome, check_live, of_run, outcome};
use crate::world::World;

/// A run that is taken step by step. Taken to its end, in whatever steps, it has the digest of
/// [`run`](crate::run).
#[derive(Debug)]
pub struct Simulation {
    world: World,
    began_ns: u64,
    at_ns: u64,
    end_ns: u64,
    is_over: bool,
}

/// What can be seen of a run at a moment: of the first of its flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Since the workload began.
    pub time: Duration,
    /// Bytes that the application has written.
    pub written: u64,
    /// Bytes that the other application has been handed, in order.
    pub delivered: u64,
    /// How long ago the oldest byte was written that has not been handed over.
    pub oldest: Duration,
    /// Its paths, in the order of the plan.
    pub paths: Vec<PathObservation>,
}

/// What the sender knows of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathObservation {
    /// The congestion window in segments.
    pub cwnd: f64,
    /// Smoothed round-trip time; zero before it is known.
    pub srtt: Duration,
    /// Bytes sent, repetitions included, on all connections that there were.
    pub sent: u64,
    /// Of these, those that are known to have arrived.
    pub delivered: u64,
    /// Segments sent again.
    pub resent: u64,
}

impl Simulation {
    /// Makes the connections and begins the workload.
    ///
    /// # Errors
    /// If the connections cannot be made, or the plan has what the simulator cannot run.
    pub fn start(plan: Plan) -> Result<Self, SimError> {
        check_live(&plan)?;
        let mut world = World::new(plan);
        let end_ns = world.start()?;
        let at_ns = world.net.now_ns();
        Ok(Self { world, began_ns: at_ns, at_ns, end_ns, is_over: false })
    }

    /// Lets that much time pass. Returns whether the workload goes on after it.
    ///
    /// # Errors
    /// If `stop` was set meanwhile, by another thread or by what the plan has of the caller's.
    pub fn advance(&mut self, by: Duration, stop: &AtomicBool) -> Result<bool, SimError> {
        self.at_ns = self.at_ns.saturating_add(nanos(by)).min(self.end_ns);
        let goes_on = !self.is_over && self.world.advance(self.at_ns, stop)?;
        self.is_over = !goes_on || self.at_ns == self.end_ns;
        Ok(!self.is_over)
    }

    /// The time since the workload began.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.at_ns - self.began_ns)
    }

    /// The payload of a full segment in bytes, in which windows are counted.
    pub const fn segment_bytes(&self) -> u64 {
        mss(&self.world.plan)
    }

    pub(crate) const fn world(&self) -> &World {
        &self.world
    }

    /// What can be seen now.
    pub fn observe(&self) -> Observation {
        let flow = &self.world.flows[0];
        let oldest = flow.source.oldest_ns().map(|at| self.at_ns.saturating_sub(at));
        let paths = (0..flow.plan.subflows()).map(|k| {
            let ends = || flow.ends_of(k).map(|[_, server]| self.world.net.endpoint(server));
            let mut path = PathObservation::default();
            for end in ends() {
                let stats = end.stats();
                path.sent += stats.bytes;
                path.delivered += stats.delivered_bytes;
                path.resent += stats.resent;
            }
            if let Some(end) = ends().last() {
                path.cwnd = end.cwnd();
                path.srtt = Duration::from_nanos(end.srtt_ns());
            }
            path
        });
        Observation {
            time: self.time(),
            written: flow.source.written(),
            delivered: flow.sink.read(),
            oldest: Duration::from_nanos(oldest.unwrap_or(0)),
            paths: paths.collect(),
        }
    }

    /// What has come of it so far, as a record.
    pub fn outcome(&self) -> Outcome {
        outcome(&self.world)
    }
}

/// Runs a plan of `scheme` over `scenario`, seen on its way: `see` is called when its workload begins
/// and after each `step` of it. The run is the same, whatever that takes.
///
/// # Errors
/// As [`simulate_plan_unless`](crate::simulate_plan_unless).
pub fn simulate_plan_seen(
    stop: &AtomicBool,
    plan: Plan,
    (scenario, scheme, congestion): (&Scenario, &Scheme, Congestion),
    step: Duration,
    mut see: impl FnMut(&Simulation),
) -> Result<Outcome, SimError> {
    let seed = plan.seed;
    let run = || {
        let mut simulation = Simulation::start(plan)?;
        see(&simulation);
        while simulation.advance(step, stop)? {
            see(&simulation);
        }
        see(&simulation);
        Ok(simulation.outcome())
    };
    of_run(run(), seed, scenario, scheme, congestion)
}
