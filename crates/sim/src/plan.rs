//! From a scenario to the plan of a run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weftline_congestion::{Config, CongestionControl};
use weftline_core::datagram::CallRules;
use weftline_core::scheduler::{self, Rule, RulesOff, SchedulerConfig};
use weftline_core::{Bitrate, ByteCount};
use weftline_link::LinkConfig;
use weftline_scenario::{Congestion, CotagSpec, Flow, PlayerProgram, Scenario, Scheme, Workload};
use weftline_video::head::Trace;
use weftline_video::live::{ClientSettings, Content, GopReport, PlannedGop, ServerSettings};
use weftline_video::{Clip, PlayerRules};

use crate::SimError;

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
    /// The congestion control of every connection over it, in place of its flow's.
    pub congestion: Option<&'static weftline_congestion::Entry>,
    /// When the client's interface is not there, from one time of the workload to another, in order.
    /// At the end of each it has a new address.
    pub unplugged: Vec<[Duration; 2]>,
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
    /// Keeps which path carries which part of what the first flow's server sends, so many stretches at
    /// most.
    pub weave: Option<usize>,
    /// So many of the first flows are what is measured, together.
    pub measured: usize,
    /// The size of a full packet in bytes, IP header included.
    pub packet_bytes: u64,
    /// Whether the server's host paces every connection, whatever its control.
    pub sender_pacing: bool,
    /// The most that the receive buffer of a socket grows to, in bytes.
    pub receive_buffer: u64,
    /// The ratio that `musher` begins with, in percent; half and half unless given.
    pub ratio: Option<u8>,
    /// A link before all paths, the same in both directions.
    pub backend: Option<LinkConfig>,
    /// A gateway and access points, where the paths are such.
    pub gateway: Option<GatewayPlan>,
    /// A call beside the flows, over lanes on all paths; not behind a gateway.
    pub calls: Option<CallPlan>,
}

/// A call during a run: packets at a constant rate in both directions, over lanes on all paths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallPlan {
    /// The time from one packet to the next, and bytes of each.
    pub every: Duration,
    /// See `every`.
    pub bytes: usize,
    /// When it begins and ends, from the beginning of the workload on.
    pub from: Duration,
    /// See `from`.
    pub until: Duration,
    /// What it is protected by; by nothing if `None`.
    pub rules: Option<CallRules>,
}

/// What a flow sends.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// As much as goes.
    Bulk,
    /// A constant rate.
    Cbr(Bitrate),
    /// So many bytes, on connections that stand.
    Burst(ByteCount),
    /// So many bytes on a new connection.
    Transfer(ByteCount),
    /// Messages with deadlines at that mean rate. They are handed over `whole`, each as soon as all
    /// of it is there, by a connection of messages, and in order by one of a byte stream.
    Messages {
        /// What they are.
        pattern: Pattern,
        /// The mean rate.
        rate: Bitrate,
        /// Whether the connection carries messages.
        whole: bool,
    },
    /// A clip, downloaded by a player as it plays.
    Video(Arc<Clip>, PlayerRules),
    /// 360° video, planned and sent GoP by GoP as its viewer looks around.
    Live(Arc<LivePlan>),
}

/// What messages are, and when they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One whenever the rate has produced those before it, sizes and deadlines drawn.
    Steady,
    /// The tiles of a GoP at once, each GoP's time.
    Tiles,
}

/// A live stream of tiles, from a server to one player.
#[derive(Clone, Debug)]
pub struct LivePlan {
    /// What is streamed.
    pub content: Arc<Content>,
    /// How the server plans.
    pub settings: ServerSettings,
    /// How the player plays.
    pub player: ClientSettings,
    /// How its head turns.
    pub head: Trace,
    /// The length of what a tile's decoder is set up from, bytes.
    pub init: usize,
    /// When the player's program is stopped, from one time of the run to another: it neither reads
    /// nor acknowledges, while its kernel does.
    pub stops: Vec<[Duration; 2]>,
}

/// What came of a live stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveOutcome {
    /// What the server planned, GoP by GoP.
    pub planned: Vec<PlannedGop>,
    /// What the player showed.
    pub gops: Vec<GopReport>,
}

/// What a flow is.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Its name; empty for the one flow of a plain scenario.
    pub name: String,
    /// How its data are spread over its paths; plain TCP on its only path if `None`.
    pub scheduler: Option<&'static scheduler::Entry>,
    /// Its settings, and the rules of it that are switched off.
    pub settings: SchedulerConfig,
    /// Whether an oracle decides who asks.
    pub oracle: bool,
    /// Its congestion control.
    pub congestion: &'static weftline_congestion::Entry,
    /// What makes its controls instead, where a program decides that as it runs.
    pub own_control: Option<OwnControl>,
    /// The paths it uses, by their numbers.
    pub paths: Vec<usize>,
    /// Whether it is one TCP connection whose packets a gateway spreads over them.
    pub is_spread: bool,
    /// What it sends.
    pub traffic: Traffic,
    /// When it begins, from the start of the workload.
    pub start: Duration,
    /// When it stops sending, from there.
    pub stop: Option<Duration>,
}

/// Which end of which path a congestion control is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlPlace {
    /// The path's number in the plan.
    pub path: usize,
    /// Whether it is the server's, which sends the workload.
    pub is_server: bool,
}

/// Makes congestion controls.
type MakeControl = dyn Fn(&Config, ControlPlace) -> Box<dyn CongestionControl> + Send + Sync;

/// What makes congestion controls that are in no registry, such as from a script. They are not
/// coupled.
#[derive(Clone)]
pub struct OwnControl(Arc<MakeControl>);

impl OwnControl {
    /// Controls that `make` makes.
    pub fn new(
        make: impl Fn(&Config, ControlPlace) -> Box<dyn CongestionControl> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(make))
    }

    pub(crate) fn make(&self, config: &Config, place: ControlPlace) -> Box<dyn CongestionControl> {
        (self.0)(config, place)
    }
}

impl fmt::Debug for OwnControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnControl")
    }
}

impl FlowPlan {
    /// How many TCP connections it is.
    pub(crate) fn subflows(&self) -> usize {
        if self.is_spread { 1 } else { self.paths.len() }
    }
}

/// A gateway and access points: what the paths' links are the radios of.
#[derive(Clone, Debug)]
pub struct GatewayPlan {
    /// Between the gateway and each access point, the same in both directions.
    pub link: LinkConfig,
    /// How packets are spread over the access points.
    pub spread: Spread,
    /// The path of the return direction of flows that are spread.
    pub uplink: usize,
}

/// How a gateway spreads the packets of plain TCP over the access points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spread {
    /// It does not: each flow, or subflow, has its path.
    None,
    /// In turns.
    RoundRobin,
    /// Coded (COTAG §III).
    Coded {
        /// The settings.
        cotag: CotagSpec,
        /// Whether all packets are combinations.
        dense: bool,
    },
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
        let flows: Result<Vec<_>, _> =
            connections.iter().map(|flow| flow_plan(scenario, flow, seed)).collect();
        let place = |name: &str| scenario.paths.iter().position(|path| path.name == name);
        let paths = scenario.paths.iter().map(|path| {
            let [down, up] = scenario.links(path, seed);
            let shares = path.shares.as_deref().and_then(place);
            let congestion = path.congestion.map(control);
            let unplugged = path.unplugged.iter().map(|one| [one.at, one.until()]).collect();
            PathPlan { name: path.name.clone(), down, up, shares, congestion, unplugged }
        });
        Ok(Self {
            paths: paths.collect(),
            flows: flows?,
            duration: scenario.duration,
            warmup: scenario.warmup,
            seed,
            series: false,
            weave: None,
            measured: scenario.parallel,
            packet_bytes: scenario.packet_bytes,
            sender_pacing: scenario.sender_pacing,
            receive_buffer: scenario.receive_buffer.as_u64(),
            ratio: scenario.ratio,
            backend: scenario.backend.map(|link| link.config()),
            gateway: gateway_plan(scenario, &connections)?,
            calls: None,
        })
    }
}

/// The gateway of a run with those connections, which agree on how it spreads packets.
fn gateway_plan(scenario: &Scenario, flows: &[Flow]) -> Result<Option<GatewayPlan>, SimError> {
    let odd = flows.iter().find(|flow| flow.scheme.needs_gateway());
    let Some(aps) = &scenario.gateway_aps else {
        return odd.map_or(Ok(None), |flow| {
            let (scheme, name) = (&flow.scheme, &scenario.name);
            Err(SimError::WrongUse(format!(
                "scheme '{scheme}' wants a gateway and access points, which scenario '{name}' does \
                 not have; take cotag-fig5 or cotag-fig6, or add topology = \"gateway-aps\""
            )))
        });
    };
    if let Some(one) = odd
        && let Some(other) = flows.iter().find(|flow| flow.scheme != one.scheme)
    {
        return Err(SimError::WrongUse(format!(
            "flows of schemes '{}' and '{}' cannot share a gateway; give all flows one scheme",
            one.scheme, other.scheme
        )));
    }
    let spread = match odd.map(|flow| &flow.scheme) {
        Some(Scheme::PacketRoundRobin) => Spread::RoundRobin,
        Some(Scheme::Cotag { dense }) => Spread::Coded { cotag: aps.cotag.clone(), dense: *dense },
        _ => Spread::None,
    };
    if let Some(path) = scenario.paths.iter().find(|path| !path.unplugged.is_empty()) {
        return Err(SimError::WrongUse(format!(
            "scenario '{}': path '{}' is unplugged at times, which is not simulated behind a \
             gateway; leave out 'unplugged' or the gateway",
            scenario.name, path.name
        )));
    }
    let place = |name: &String| scenario.paths.iter().position(|path| path.name == *name);
    let uplink = aps.cotag.uplink.as_ref().and_then(place).unwrap_or(0);
    Ok(Some(GatewayPlan { link: aps.link.config(), spread, uplink }))
}

fn flow_plan(scenario: &Scenario, flow: &Flow, seed: u64) -> Result<FlowPlan, SimError> {
    if let Some(scheduler) = flow.scheme.guest_scheduler() {
        return Err(SimError::WrongUse(format!(
            "the simulator has no scheme '{}': it is the scheduler {scheduler} of a real, patched \
             kernel; use 'weftline lab run'",
            flow.scheme
        )));
    }
    let workload = scenario.offered(flow.workload, seed);
    let is_oracle = matches!(flow.scheme, Scheme::Oracle);
    let mut settings = scenario.scheduler.clone();
    if is_oracle {
        settings.without = ORACLE_WITHOUT;
    }
    let scheduler = match (&flow.scheme, flow.scheme.scheduler()) {
        (Scheme::LinuxMptcp, _) => Some(find("linux")?),
        // The next bytes to whom the oracle lets ask.
        (Scheme::Oracle, _) => Some(find("earliest")?),
        (_, Some(name)) => Some(find(name)?),
        (_, None) => None,
    };
    if let Some(entry) = scheduler {
        entry.check_paths(flow.paths.len()).map_err(SimError::wrong_use)?;
    }
    Ok(FlowPlan {
        name: flow.name.clone(),
        scheduler,
        settings,
        oracle: is_oracle,
        congestion: control(flow.congestion),
        own_control: None,
        paths: flow.paths.clone(),
        is_spread: flow.scheme.needs_gateway(),
        traffic: traffic(workload, is_oracle || flow.scheme.scheduler().is_some())?,
        start: flow.start,
        stop: Some(flow.stop),
    })
}

/// An oracle does not choose by estimates.
const ORACLE_WITHOUT: RulesOff = RulesOff::from_bits(0).and(Rule::SpareFar).and(Rule::Deadlines);

fn control(congestion: Congestion) -> &'static weftline_congestion::Entry {
    let entry = weftline_congestion::Entry::find(congestion.name());
    entry.expect("the scenario's controls are the registry's")
}

fn find(name: &str) -> Result<&'static scheduler::Entry, SimError> {
    scheduler::Entry::find(name).map_err(SimError::wrong_use)
}

/// `ours`: our transport carries it, which has messages.
fn traffic(workload: Workload, ours: bool) -> Result<Traffic, SimError> {
    match workload {
        Workload::Bulk => Ok(Traffic::Bulk),
        Workload::Cbr(rate) => Ok(Traffic::Cbr(rate)),
        Workload::Messages(rate) => {
            Ok(Traffic::Messages { pattern: Pattern::Steady, rate, whole: ours })
        }
        Workload::Tiles(rate) => {
            Ok(Traffic::Messages { pattern: Pattern::Tiles, rate, whole: ours })
        }
        Workload::Burst(size) => Ok(Traffic::Burst(size)),
        Workload::Transfer(size) => Ok(Traffic::Transfer(size)),
        // The model's rules are VLC's.
        Workload::Video(video) | Workload::Player(PlayerProgram::Vlc, video) => {
            let clip = Clip::generate(&video.clip).map_err(SimError::wrong_use)?;
            Ok(Traffic::Video(Arc::new(clip), video.rules))
        }
        other => Err(SimError::WrongUse(format!(
            "the simulator has no workload '{other}'; run it in the lab, or choose another"
        ))),
    }
}
