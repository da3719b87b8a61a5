//! Runs of the simulator that are watched.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use weftline::WEAVE_STRETCHES;
use weftline_core::Role;
use weftline_scenario::{Congestion, Scenario, Scheme};
use weftline_sim::{
    Outcome, PathState, PathView, Plan, Simulation, View, Woven, simulate_plan_seen,
};

use super::Watch;
use super::pace::{Pace, Pacer};
use super::show::{Show, Weave};
use crate::failure::Failure;
use crate::ops::snapshot::{Connection, Path};

/// How often a weave that somebody looks at is told.
const WEAVE_EVERY: Duration = Duration::from_millis(200);

/// Runs a plan of `scheme` over `scenario` at a pace, and shows it.
///
/// # Errors
/// When the simulator cannot run that.
pub(crate) fn run(
    watch: &Watch,
    pace: Pace,
    plan: Plan,
    (scenario, scheme, congestion): (&Scenario, &Scheme, Congestion),
) -> Result<Outcome, Failure> {
    let show = watch.show();
    let label = format!("{scheme} over {}, {congestion}, seed {}", scenario.name, plan.seed);
    let has_weave = plan.flows.first().is_some_and(|flow| flow.scheduler.is_some());
    let number = show.begin(&label, plan.measured as u64, has_weave);
    let mut pacer = Pacer::new(pace, Duration::ZERO);
    let step = pacer.step();
    let plan = Plan { weave: Some(WEAVE_STRETCHES), ..plan };
    let of_run = Run { show, number, scheme: scheme.to_string() };
    let mut told: Option<Instant> = None;
    let see = |simulation: &Simulation| {
        let time = simulation.time();
        thread::sleep(pacer.until(time));
        let connections = (number..).zip(simulation.views());
        let connections = connections.map(|(number, view)| of_run.connection(number, view));
        show.see(time, connections.collect(), None);
        let is_due = told.is_none_or(|told| told.elapsed() >= WEAVE_EVERY);
        if is_due && show.wants_weave(number) {
            told = Some(Instant::now());
            of_run.tell_weave(simulation.weave());
        }
    };
    let of_what = (scenario, scheme, congestion);
    let ran = simulate_plan_seen(&AtomicBool::new(false), plan, of_what, step, see);
    let outcome = ran.map_err(Failure::failed)?;
    show.over(number, outcome.record.error.as_deref());
    // A page that is opened later shows it, too.
    of_run.tell_weave(outcome.weave.clone());
    Ok(outcome)
}

/// A run, as it is told.
struct Run<'a> {
    show: &'a Arc<Show>,
    number: u64,
    scheme: String,
}

impl Run<'_> {
    /// A flow of the run as a connection.
    fn connection(&self, number: u64, view: View) -> Connection {
        let forward = view.forward.and_then(|place| view.paths.get(place));
        Connection {
            number,
            peer: "simulated".to_owned(),
            label: Some(self.scheme.clone()),
            scheduler: self.scheme.clone(),
            age_s: view.time.as_secs_f64(),
            sent_bytes: view.delivered,
            duplicate_bytes: view.duplicates,
            send_held_bytes: view.written.saturating_sub(view.delivered),
            window_bytes: view.window.map(weftline_core::ByteCount::as_u64),
            forward: forward.map(|path| path.name.clone()),
            paths: view.paths.into_iter().map(path).collect(),
            ..Connection::default()
        }
    }

    fn tell_weave(&self, woven: Option<Woven>) {
        let Some(Woven { paths, sent, received, end }) = woven else { return };
        let names: BTreeMap<u64, Arc<str>> =
            (0..).zip(&paths).map(|(path, name)| (path, name.as_str().into())).collect();
        self.show.set_weave(self.number, Weave { now: end, sent, received, names });
    }
}

fn path(view: PathView) -> Path {
    let info = view.info;
    let ms = |time: Duration| (!time.is_zero()).then_some(time.as_secs_f64() * 1e3);
    Path {
        name: view.name,
        role: Role::Active.name().to_owned(),
        state: match view.state {
            PathState::Up => "up",
            PathState::Standby => "standby",
            PathState::Stalled => "silent",
            PathState::Down => "down",
        }
        .to_owned(),
        srtt_ms: info.and_then(|info| ms(info.srtt)),
        min_rtt_ms: info.and_then(|info| ms(info.min_rtt)),
        cwnd_bytes: info.map(|info| info.cwnd.as_u64()),
        outstanding_bytes: Some(view.outstanding),
        retransmitted_segments: Some(view.resent),
        rate_mbps: info.map(|info| info.delivery_rate.as_bps() as f64 / 1e6),
        sent_bytes: view.sent,
        delivered_bytes: view.delivered,
        rescued_bytes: view.reinjected,
        ..Path::default()
    }
}
