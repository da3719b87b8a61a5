//! From a world that has run to the record and the series that both backends write.

use std::sync::atomic::AtomicBool;

use weftline_core::Instant;
use weftline_core::session::WeaveRecord;
use weftline_measure::{Delays, FlowMeasurement, PathFigures, PathMeasurement, STEP, mbps};
use weftline_scenario::{
    Congestion, FlowRecord, MessagesRecord, PathRecord, RunRecord, SCHEMA_VERSION, Sample,
    Scenario, Scheme, VideoRecord,
};
use weftline_video::Player;

use crate::SimError;
use crate::build::mss;
use crate::calls::CallReport;
use crate::flow::bound::{self, Carrying};
use crate::flow::{Flow, Tally};
use crate::net::Spreading;
use crate::plan::{FlowPlan, LiveOutcome, Plan, Traffic};
use crate::tcp::SenderStats;
use crate::world::World;

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The record; of a bare plan without the names that a plan does not have.
    pub record: RunRecord,
    /// Data segments sent, repetitions included.
    pub packets: u64,
    /// What came of each flow that is a live stream, in the plan's order.
    pub live: Vec<LiveOutcome>,
    /// What was recorded of where the first flow's server sent what, if the plan asked for it.
    pub weave: Option<Woven>,
    /// What came of the call, if the plan had one: of what the client sent, and of what the server did.
    pub calls: Option<[CallReport; 2]>,
    series: Vec<Series>,
}

/// Which path carried which part of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Woven {
    /// The names of the paths, by their numbers.
    pub paths: Vec<String>,
    /// What the server sent. Times are from the beginning of the workload on; what was before is left
    /// out.
    pub sent: WeaveRecord,
    /// The same as the client saw it arrive.
    pub received: WeaveRecord,
    /// When the run ended, from the beginning of the workload on.
    pub end: Instant,
}

/// Values of one metric over time.
#[derive(Debug)]
struct Series {
    path: String,
    metric: &'static str,
    values: Vec<f64>,
}

impl Outcome {
    /// The outcome of a run that did not take place.
    pub(crate) const fn without_run(record: RunRecord) -> Self {
        Self { record, packets: 0, live: Vec::new(), weave: None, calls: None, series: Vec::new() }
    }

    /// With the names that a bare plan does not have.
    ///
    /// # Errors
    /// If the scheme does not go with the scenario's paths.
    pub fn named(
        mut self,
        scenario: &Scenario,
        scheme: &Scheme,
        congestion: Congestion,
    ) -> Result<Self, SimError> {
        let flows = scenario.connections(scheme, congestion)?;
        for (record, flow) in self.record.flows.iter_mut().zip(&flows) {
            record.scheme = flow.scheme.to_string();
            record.workload = flow.workload.to_string();
        }
        self.record.scenario.clone_from(&scenario.name);
        self.record.scheme = scheme.to_string();
        self.record.congestion = congestion.to_string();
        self.record.workload = scenario.workload.to_string();
        Ok(self)
    }

    /// Events that happened.
    pub fn events(&self) -> u64 {
        self.record.events.unwrap_or(0)
    }

    /// The run's time series: goodput of the whole (path ""), what each link delivered and what it
    /// could, windows and round-trip times. Empty unless the plan asked for series.
    pub fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        self.series.iter().flat_map(|series| {
            series.values.iter().enumerate().map(|(step, &value)| Sample {
                time_s: (STEP * (step as u32 + 1)).as_secs_f64(),
                path: &series.path,
                metric: series.metric,
                value,
            })
        })
    }
}

/// Runs `scheme` over `scenario`, with time series if `series`.
///
/// # Errors
/// If the simulator cannot run that.
pub fn simulate(
    scenario: &Scenario,
    scheme: &Scheme,
    congestion: Congestion,
    seed: u64,
    series: bool,
) -> Result<Outcome, SimError> {
    simulate_unless(&AtomicBool::new(false), scenario, scheme, congestion, seed, series)
}

/// The same, unless `stop` is set meanwhile, by a signal or another thread.
///
/// # Errors
/// If the simulator cannot run that, or was stopped.
pub fn simulate_unless(
    stop: &AtomicBool,
    scenario: &Scenario,
    scheme: &Scheme,
    congestion: Congestion,
    seed: u64,
    series: bool,
) -> Result<Outcome, SimError> {
    let plan = Plan { series, ..Plan::new(scenario, scheme, congestion, seed)? };
    simulate_plan_unless(stop, plan, scenario, scheme, congestion)
}

/// The same with a plan of `scheme` over `scenario`, in which other things may have been changed.
///
/// # Errors
/// As [`simulate_unless`].
pub fn simulate_plan_unless(
    stop: &AtomicBool,
    plan: Plan,
    scenario: &Scenario,
    scheme: &Scheme,
    congestion: Congestion,
) -> Result<Outcome, SimError> {
    let seed = plan.seed;
    of_run(run_unless(stop, plan), seed, scenario, scheme, congestion)
}

/// What came of a run of `scheme` over `scenario`, with their names.
pub(crate) fn of_run(
    ran: Result<Outcome, SimError>,
    seed: u64,
    scenario: &Scenario,
    scheme: &Scheme,
    congestion: Congestion,
) -> Result<Outcome, SimError> {
    match ran {
        Ok(outcome) => outcome.named(scenario, scheme, congestion),
        // A scheme that fails is a result.
        Err(error @ SimError::NotConnected { .. }) => {
            let record = RunRecord {
                schema: SCHEMA_VERSION,
                backend: "sim".to_owned(),
                scenario: scenario.name.clone(),
                scheme: scheme.to_string(),
                congestion: congestion.to_string(),
                workload: scenario.workload.to_string(),
                seed,
                duration_s: scenario.duration.as_secs_f64(),
                warmup_s: scenario.warmup.as_secs_f64(),
                error: Some(error.to_string()),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..RunRecord::default()
            };
            Ok(Outcome::without_run(record))
        }
        Err(error) => Err(error),
    }
}

/// Runs a plan.
///
/// # Errors
/// If its connections cannot be made.
pub fn run(plan: Plan) -> Result<Outcome, SimError> {
    run_unless(&AtomicBool::new(false), plan)
}

fn run_unless(stop: &AtomicBool, plan: Plan) -> Result<Outcome, SimError> {
    check_live(&plan)?;
    let mut world = World::new(plan);
    world.run(stop)?;
    Ok(outcome(&world))
}

/// Live streams need our own transport: messages, and a player that sends.
pub(crate) fn check_live(plan: &Plan) -> Result<(), SimError> {
    let is_live = |flow: &&FlowPlan| matches!(flow.traffic, Traffic::Live(_));
    match plan.flows.iter().filter(is_live).all(|f| f.scheduler.is_some() && !f.oracle) {
        true => Ok(()),
        false => Err(SimError::WrongUse(
            "a live stream is carried by a scheduler of ours, not by plain TCP or the oracle; \
             choose fbdt or another of `weftline list`"
                .to_owned(),
        )),
    }
}

pub(crate) fn outcome(world: &World) -> Outcome {
    let plan = &world.plan;
    let fault = world.flows.iter().find_map(Flow::fault);
    let told = match fault {
        // What was measured is the fallback's, and would be taken for this scheduler's.
        Some(fault) => RunRecord { error: Some(fault.to_string()), ..RunRecord::default() },
        None => measured(world),
    };
    let record = RunRecord {
        schema: SCHEMA_VERSION,
        backend: "sim".to_owned(),
        seed: plan.seed,
        duration_s: plan.duration.as_secs_f64(),
        warmup_s: plan.warmup.as_secs_f64(),
        events: Some(world.net.queue.popped()),
        digest: Some(format!("{:016x}", world.digest())),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..told
    };
    let packets = world.flows.iter().flat_map(Flow::ends);
    let packets = packets.map(|[_, server]| world.net.endpoint(server).stats().segments).sum();
    let live = world.flows.iter().filter_map(Flow::live).cloned().collect();
    let calls = world.calls.as_ref().map(|calls| calls.reports());
    let series = if fault.is_none() { series(world) } else { Vec::new() };
    Outcome { record, packets, live, weave: woven(world), calls, series }
}

/// What was measured of a run, and whether its workload ended as it should.
fn measured(world: &World) -> RunRecord {
    let plan = &world.plan;
    let now = Instant::from_nanos(world.net.now_ns());
    let flows: Vec<FlowRecord> = world.flows.iter().map(|flow| flow_record(world, flow)).collect();
    let parts = &world.flows[..plan.measured];
    let measured: Vec<&FlowMeasurement> =
        parts.iter().map(|flow| flow.sink.measurement()).collect();
    let figures = FlowMeasurement::figures_of(&measured, now);
    let whole = whole(world, &flows[..plan.measured]);
    let error = if is_sized(&world.flows[0]) && figures.completion_s.is_none() {
        Some(format!("the transfer was not finished after {:?}", plan.duration))
    } else {
        // A clip that began and did not end is a result, as in the lab: its viewer missed the rest.
        let stalled = whole.video.is_some_and(|video| video.startup_s.is_none());
        stalled.then(|| "stalled: not a picture was shown".to_owned())
    };
    RunRecord {
        completed: error.is_none(),
        error,
        messages: whole.messages,
        packet_delay_ms: world.packet_delays.as_deref().and_then(Delays::figures),
        duplicate_bytes: whole.duplicate_bytes,
        copied_bytes: whole.copied_bytes,
        paths: whole.paths,
        cotag: match &world.net.spreading {
            Spreading::Coded(network) => Some(network.record()),
            _ => None,
        },
        video: whole.video,
        flows: if world.flows.len() > 1 { flows } else { Vec::new() },
        ..figures.of_run()
    }
}

pub(crate) fn woven(world: &World) -> Option<Woven> {
    let now = Instant::from_nanos(world.net.now_ns());
    let [sent, received] = world.flows.first()?.weave(now)?;
    let epoch = Instant::from_nanos(world.epoch_ns?);
    let from_epoch = |at: Instant| Instant::ZERO + at.since(epoch);
    let placed = |mut record: WeaveRecord| {
        record.stretches.retain(|stretch| stretch.first >= epoch);
        for stretch in &mut record.stretches {
            (stretch.first, stretch.last) = (from_epoch(stretch.first), from_epoch(stretch.last));
        }
        for wait in &mut record.waits {
            (wait.since, wait.until) = (from_epoch(wait.since), from_epoch(wait.until));
        }
        record
    };
    Some(Woven {
        paths: world.plan.paths.iter().map(|path| path.name.clone()).collect(),
        sent: placed(sent),
        received: placed(received),
        end: from_epoch(now),
    })
}

/// The counters of what is measured, as one flow.
fn whole(world: &World, parts: &[FlowRecord]) -> FlowRecord {
    let [first, rest @ ..] = parts else { unreachable!("a run has a flow") };
    let mut whole = first.clone();
    if rest.is_empty() {
        return whole;
    }
    let sum = |of: fn(&FlowRecord) -> Option<u64>| parts.iter().map(of).sum::<Option<u64>>();
    whole.duplicate_bytes = sum(|part| part.duplicate_bytes);
    whole.copied_bytes = sum(|part| part.copied_bytes);
    // Several connections have no shares in common.
    whole.messages = None;
    // A flow that is spread reports what its links did, which is everybody's.
    if !world.flows[0].plan.is_spread {
        for part in rest {
            for path in &part.paths {
                match whole.paths.iter_mut().find(|other| other.name == path.name) {
                    Some(other) => add_path(other, path),
                    None => whole.paths.push(path.clone()),
                }
            }
        }
        for path in &mut whole.paths {
            let PathFigures { goodput_mbps, rtt_ms } = together(world, parts.len(), &path.name);
            *path = PathRecord { goodput_mbps, rtt_ms, ..path.clone() };
        }
    }
    whole
}

/// What the first `count` flows did together on a path.
fn together(world: &World, count: usize, name: &str) -> PathFigures {
    let now = Instant::from_nanos(world.net.now_ns());
    let paths = &world.plan.paths;
    let on = |flow: &Flow, &path: &usize| {
        let measured = flow.path(path).filter(|_| paths[path].name == name)?;
        Some((measured.clone(), flow.sink.measurement().end(now)))
    };
    let flows = world.flows[..count].iter();
    PathMeasurement::figures_of(
        flows.flat_map(|flow| flow.plan.paths.iter().filter_map(move |path| on(flow, path))),
    )
}

/// Adds what another flow counted on the same path; what the path's link did is in both.
fn add_path(whole: &mut PathRecord, part: &PathRecord) {
    let add = |one: &mut Option<u64>, other: Option<u64>| *one = one.zip(other).map(|(a, b)| a + b);
    add(&mut whole.bytes_sent, part.bytes_sent);
    add(&mut whole.packets, part.packets);
    add(&mut whole.retransmitted_packets, part.retransmitted_packets);
    whole.starved_s = whole.starved_s.zip(part.starved_s).map(|(a, b)| a + b);
}

/// Whether the flow has a size and a time that it takes.
const fn is_sized(flow: &Flow) -> bool {
    matches!(flow.plan.traffic, Traffic::Burst(_) | Traffic::Transfer(_))
}

fn flow_record(world: &World, flow: &Flow) -> FlowRecord {
    let now = Instant::from_nanos(world.net.now_ns());
    let figures = flow.sink.measurement().figures(now);
    FlowRecord {
        name: flow.plan.name.clone(),
        congestion: flow.plan.congestion.name.to_owned(),
        messages: flow.tally().map(|tally| messages(world, flow, tally)),
        duplicate_bytes: flow.sessions().map(|[client, _]| client.duplicates),
        copied_bytes: flow
            .sessions()
            .map(|[_, server]| server.paths.values().map(|path| path.copied).sum()),
        paths: paths(world, flow),
        video: flow.sink.player().map(|player| video(player, now)),
        ..figures.of_flow()
    }
}

fn video(player: &Player, now: Instant) -> VideoRecord {
    let stats = player.stats(now);
    VideoRecord {
        picture_discards: stats.picture_discards,
        buffer_underflows: stats.buffer_underflows,
        underflow_s: stats.underflow.as_secs_f64(),
        startup_s: stats.startup.map(|startup| startup.as_secs_f64()),
        pictures_played: Some(stats.played),
        pictures_missed: Some(player.missed(now)).filter(|&pictures| pictures > 0),
        ..VideoRecord::default()
    }
}

/// The bound for the share of the weights of tiles that is on time, on links that began at `epoch`.
fn most_on_time(world: &World, flow: &Flow, tally: &Tally, epoch: Instant) -> f64 {
    let plan = &world.plan;
    let payload = mss(plan) as f64 / plan.packet_bytes as f64;
    let links = flow.plan.paths.iter().map(|&path| {
        let link = &plan.paths[plan.paths[path].shares.unwrap_or(path)].down;
        Carrying { link, payload }
    });
    let links: Vec<_> = links.collect();
    let gops = tally.gops.iter();
    let most =
        gops.map(|gop| bound::most_weight(&gop.tiles, bound::capacity(&links, epoch, &gop.time)));
    most.sum::<u64>() as f64 / tally.made[2].max(1) as f64
}

fn messages(world: &World, flow: &Flow, tally: &Tally) -> MessagesRecord {
    let [share, bytes_share, weight_share] =
        [0, 1, 2].map(|at| tally.on_time[at] as f64 / tally.made[at].max(1) as f64);
    let has_weights = !tally.gops.is_empty();
    let bound = |epoch_ns| most_on_time(world, flow, tally, Instant::from_nanos(epoch_ns));
    MessagesRecord {
        made: tally.made[0],
        made_bytes: tally.made[1],
        on_time_share: share,
        on_time_bytes_share: bytes_share,
        on_time_weight_share: has_weights.then_some(weight_share),
        bound_weight_share: world.epoch_ns.filter(|_| has_weights).map(bound),
        delay_ms: tally.delays.figures(),
    }
}

fn paths(world: &World, flow: &Flow) -> Vec<PathRecord> {
    let plan = &world.plan;
    if flow.plan.is_spread {
        return flow.plan.paths.iter().map(|&path| radio(world, flow, path)).collect();
    }
    let mut records = Vec::new();
    let starved = flow.starved_ns();
    let end = flow.sink.measurement().end(Instant::from_nanos(world.net.now_ns()));
    for (at, &path) in flow.plan.paths.iter().enumerate() {
        let [down, _] = world.link_stats(path);
        let ends: Vec<_> = flow.ends_of(at).map(|[_, end]| world.net.endpoint(end)).collect();
        let sum = |of: fn(&SenderStats) -> u64| ends.iter().map(|end| of(end.stats())).sum();
        let figures = flow.path(path).map(|path| path.clone().figures(end));
        records.push(PathRecord {
            name: plan.paths[path].name.clone(),
            goodput_mbps: figures.and_then(|figures| figures.goodput_mbps),
            bytes_sent: Some(sum(|of| of.bytes)),
            packets: Some(sum(|of| of.segments)),
            retransmitted_packets: Some(sum(|of| of.resent)),
            lost: Some(down.lost.packets),
            queue_drops: Some(down.queue_full.packets),
            starved_s: starved.get(at).map(|&ns| ns as f64 / 1e9),
            rtt_ms: figures.and_then(|figures| figures.rtt_ms),
        });
    }
    records
}

/// What the radio of a path did, for flows whose packets are spread over the paths.
fn radio(world: &World, flow: &Flow, path: usize) -> PathRecord {
    let [down, _] = world.link_stats(path);
    let end = flow.sink.measurement().end(Instant::from_nanos(world.net.now_ns()));
    PathRecord {
        name: world.plan.paths[path].name.clone(),
        goodput_mbps: flow.path(path).and_then(|path| path.clone().figures(end).goodput_mbps),
        bytes_sent: Some(down.offered.bytes.as_u64()),
        packets: Some(down.offered.packets),
        lost: Some(down.lost.packets),
        queue_drops: Some(down.queue_full.packets),
        ..PathRecord::default()
    }
}

fn series(world: &World) -> Vec<Series> {
    let plan = &world.plan;
    if !plan.series {
        return Vec::new();
    }
    let now = Instant::from_nanos(world.net.now_ns());
    let rates = |bytes: &[u64]| bytes.iter().map(|&bytes| mbps(bytes, STEP)).collect();
    let mut all = Vec::new();
    let mut add = |path: &str, metric, values| {
        all.push(Series { path: path.to_owned(), metric, values });
    };
    for flow in &world.flows {
        let figures = flow.sink.measurement().figures(now);
        add(&flow.plan.name, "goodput_mbps", rates(&figures.series));
    }
    let first = &world.flows[0];
    if let (true, [windows, ..]) = (first.plan.is_spread, &world.series.windows[0][..]) {
        add(&first.plan.name, "cwnd_segments", windows.iter().map(|(cwnd, _)| *cwnd).collect());
        add(&first.plan.name, "srtt_ms", windows.iter().map(|(_, srtt)| *srtt).collect());
    }
    for (&path, windows) in first.plan.paths.iter().zip(&world.series.windows[0]) {
        let PathPlanView { name, bytes, capacity } = path_view(world, path);
        add(name, "goodput_mbps", rates(bytes));
        add(name, "capacity_mbps", capacity);
        if first.plan.is_spread {
            continue;
        }
        add(name, "cwnd_segments", windows.iter().map(|(cwnd, _)| *cwnd).collect());
        add(name, "srtt_ms", windows.iter().map(|(_, srtt)| *srtt).collect());
    }
    all
}

/// What a path delivered and could have.
struct PathPlanView<'a> {
    name: &'a str,
    bytes: &'a [u64],
    capacity: Vec<f64>,
}

fn path_view(world: &World, path: usize) -> PathPlanView<'_> {
    let plan = &world.plan.paths[path];
    let links = plan.shares.unwrap_or(path);
    let bytes = &world.series.paths[links];
    let trace = &world.plan.paths[links].down.rate;
    let capacity = (0..bytes.len() as u32).map(|step| {
        let bytes = trace.bytes_between(STEP * step, STEP * (step + 1)).as_u64();
        mbps(bytes, STEP)
    });
    PathPlanView { name: &plan.name, bytes, capacity: capacity.collect() }
}
