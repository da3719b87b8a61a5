//! Live streams of generated content over thin links.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test code; each binary that includes it uses its own part"
)]

use std::f64::consts::PI;
use std::sync::Arc;
use std::time::Duration;

use weftline_core::rng::Rng;
use weftline_core::scheduler::{Entry, SchedulerConfig};
use weftline_core::{Bitrate, ByteCount};
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};
use weftline_sim::{FlowPlan, LiveOutcome, LivePlan, PathPlan, Plan, Traffic};
use weftline_video::evaluate::{Concealment, ConcealmentTable, Session, SessionOutcome};
use weftline_video::geometry::{FieldOfView, FrameSize, Grid, Orientation, Viewport};
use weftline_video::head::{Pose, SyntheticViewers, TileProbabilities, Trace};
use weftline_video::live::{ClientSettings, Content, ServerSettings};
use weftline_video::ows::{InOrder, Recency, SearchBudget};
use weftline_video::rd::{GopTable, RdTable, Rung, TileTable};

pub const TILES: usize = 24;
const QPS: [u8; 7] = [12, 17, 22, 27, 32, 37, 42];
/// GoPs of the package; a longer stream begins again.
const PACKAGED: usize = 8;
/// What a decoder is set up from.
const INIT: ByteCount = ByteCount::new(700);
/// What the first GoPs find out counts for nothing.
pub const START: usize = 2;

/// How long a queue is.
#[derive(Clone, Copy, Debug)]
pub enum Queue {
    Packets(u64),
    /// In bandwidth-delay products, two packets at least.
    Bdps(f64),
}

/// A package that is streamed in place of generated content, and who watches it.
#[derive(Clone, Debug)]
pub struct Packaged {
    pub table: RdTable,
    pub concealments: ConcealmentTable,
    /// What a decoder is set up from.
    pub init: ByteCount,
    /// How others looked at it.
    pub prior: TileProbabilities,
    pub head: Trace,
}

/// A stream over links, and what happens to them.
#[derive(Clone, Debug)]
pub struct Case {
    /// The rate of each link.
    pub kbps: Vec<u64>,
    /// Without queues.
    pub rtt_ms: u64,
    /// Before each link.
    pub queue: Queue,
    /// Of each packet, on the way to the player.
    pub loss: f64,
    /// What the links carry in each second, kb/s, in place of the first rates; after the last the
    /// first again.
    pub recorded: Vec<Vec<u64>>,
    /// Whether the head keeps still, and the server knows where it looks.
    pub still: bool,
    /// Links that are gone from one second to another.
    pub cuts: Vec<(usize, u64, u64)>,
    /// How long the player buffers, ms; a GoP if it is zero.
    pub buffer_ms: u64,
    /// How long it stops for what is late.
    pub rebuffer_ms: u64,
    /// The player's program is stopped from one second to another.
    pub stops: Vec<[u64; 2]>,
    pub scheduler: String,
    pub congestion: String,
    pub gops: u32,
    /// What a GoP of all tiles takes at QP 32, bytes.
    pub bytes_at_32: u64,
    /// Streamed in place of generated content.
    pub packaged: Option<Arc<Packaged>>,
    pub seed: u64,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            kbps: vec![1_200, 800],
            rtt_ms: 40,
            queue: Queue::Packets(100),
            loss: 0.0,
            recorded: Vec::new(),
            still: false,
            cuts: Vec::new(),
            buffer_ms: 0,
            rebuffer_ms: 0,
            stops: Vec::new(),
            scheduler: "fbdt".to_owned(),
            congestion: "cubic".to_owned(),
            gops: 22,
            bytes_at_32: 100_000,
            packaged: None,
            seed: 1,
        }
    }
}

impl Case {
    pub fn run(&self) -> LiveOutcome {
        weftline_sim::run(self.plan()).unwrap().live.remove(0)
    }

    pub fn plan(&self) -> Plan {
        let length = Duration::from_secs(u64::from(self.gops));
        let content = self.content();
        let settings = ServerSettings {
            scheme: weftline_video::ows::Entry::find("ows").unwrap(),
            concealment: Concealment::LastReceived,
            start: Bitrate::mbps(10),
            recency: Recency::default(),
            search_units: SearchBudget::DEFAULT_UNITS,
        };
        let buffer = (self.buffer_ms > 0).then(|| Duration::from_millis(self.buffer_ms));
        let rebuffer = Duration::from_millis(self.rebuffer_ms);
        let live = LivePlan {
            content: Arc::new(content),
            settings,
            player: ClientSettings { buffer, rebuffer, ..ClientSettings::default() },
            head: self.head(),
            init: self.init().as_u64() as usize,
            stops: self.stops.iter().map(|stop| stop.map(Duration::from_secs)).collect(),
        };
        let flow = FlowPlan {
            own_control: None,
            name: String::new(),
            scheduler: Some(Entry::find(&self.scheduler).unwrap()),
            settings: SchedulerConfig::default(),
            oracle: false,
            congestion: weftline_congestion::Entry::find(&self.congestion).unwrap(),
            paths: (0..self.kbps.len()).collect(),
            is_spread: false,
            traffic: Traffic::Live(Arc::new(live)),
            start: Duration::ZERO,
            stop: None,
        };
        Plan {
            paths: (0..self.kbps.len()).map(|index| self.path(index)).collect(),
            flows: vec![flow],
            duration: length + Duration::from_secs(20),
            warmup: Duration::ZERO,
            seed: self.seed,
            series: false,
            weave: None,
            measured: 1,
            packet_bytes: 1500,
            sender_pacing: false,
            receive_buffer: 32 << 20,
            ratio: None,
            backend: None,
            gateway: None,
            calls: None,
        }
    }

    fn path(&self, index: usize) -> PathPlan {
        let rate = Bitrate::kbps(self.kbps[index]);
        let bdp = rate.bytes_in(Duration::from_millis(self.rtt_ms)).as_u64() as f64 / 1500.0;
        let packets = match self.queue {
            Queue::Packets(packets) => packets,
            Queue::Bdps(bdps) => ((bdp * bdps).ceil() as u64).max(2),
        };
        let queue = QueueLimit::Packets(packets);
        let second = Duration::from_secs(1);
        let mut steps = vec![(Duration::ZERO, rate)];
        if let Some(recorded) = self.recorded.get(index) {
            let seconds = (0_u32..).zip(recorded.iter().cycle()).take(self.gops as usize + 20);
            steps = seconds.map(|(at, kbps)| (second * at, Bitrate::kbps(*kbps))).collect();
        }
        for &(_, from, until) in self.cuts.iter().filter(|(cut, ..)| *cut == index) {
            steps.push((second * from as u32, Bitrate::ZERO));
            steps.push((second * until as u32, rate));
        }
        let link = |rate, loss| LinkConfig {
            rate,
            delay: Duration::from_micros(self.rtt_ms * 500),
            jitter: Duration::ZERO,
            queue,
            loss,
        };
        let trace = RateTrace::from_steps(steps, Duration::from_secs(3_600)).unwrap();
        let loss = if self.loss > 0.0 { LossModel::Bernoulli(self.loss) } else { LossModel::None };
        PathPlan {
            name: format!("path{index}"),
            down: link(trace.clone(), loss),
            up: link(trace, LossModel::None),
            shares: None,
            congestion: None,
            unplugged: Vec::new(),
        }
    }
}

/// After what encoders do: bytes halve about every six QPs and distortion doubles about every four;
/// tiles differ by an order of magnitude.
fn table(seed: u64, bytes_at_32: u64) -> Vec<GopTable> {
    let rng = &mut Rng::stream(seed, "live/content");
    let grid = Grid::new(6, 4).unwrap();
    let busy: Vec<f64> = (0..TILES).map(|_| (0.7 * rng.normal_f64()).exp()).collect();
    let all: f64 = busy.iter().sum();
    let mut tile = |tile: usize| {
        let part = grid.solid_angle(tile) / (4.0 * PI);
        let moves = (0.2 * rng.normal_f64()).exp();
        let rungs = QPS.map(|qp| {
            let steps = f64::from(qp) - 32.0;
            let bytes = bytes_at_32 as f64 * busy[tile] / all * moves * (-steps / 6.0).exp2();
            let mse = 25.0 * busy[tile].sqrt() * (steps / 4.0).exp2();
            let bytes = ByteCount::new(bytes as u64 + 700);
            Rung { qp, bytes, ws_mse: part * mse, mixed_mse: None }
        });
        TileTable::new(rungs.to_vec()).unwrap()
    };
    let gop = |_| GopTable::new((0..TILES).map(&mut tile).collect()).unwrap();
    (0..PACKAGED).map(gop).collect()
}

/// What concealments usually lose: grey, and the last picture of one to four GoPs before.
fn concealments(gops: usize) -> ConcealmentTable {
    let grid = Grid::new(6, 4).unwrap();
    let part = |tile: usize, mse: f64| mse * grid.solid_angle(tile) / (4.0 * PI);
    let grey = (0..TILES).map(|tile| part(tile, 3_000.0)).collect();
    let stale = |tile: usize| [200.0, 300.0, 400.0, 500.0].map(|mse| part(tile, mse)).to_vec();
    let stale = (0..TILES).map(stale).collect();
    ConcealmentTable::new(vec![grey; gops], vec![stale; gops]).unwrap()
}

impl Case {
    fn head(&self) -> Trace {
        if let Some(packaged) = &self.packaged {
            return packaged.head.clone();
        }
        let length = Duration::from_secs(u64::from(self.gops));
        if !self.still {
            return SyntheticViewers::new(self.seed, "live").trace(0, length).unwrap();
        }
        let poses = (0..=self.gops * 2).map(|half| {
            let orientation = Orientation::from_degrees(20.0, 10.0, 0.0);
            Pose { at: Duration::from_millis(500) * half, orientation }
        });
        Trace::new("still", "live", poses.collect()).unwrap()
    }

    /// The same stream evaluated from tables: over what the scheduler and the congestion control
    /// carry of bulk data over the same links, to a viewer who keeps still or by how others looked.
    /// Before it come two seconds like its first.
    pub fn evaluate(&self) -> SessionOutcome {
        self.evaluate_as("ows")
    }

    /// The same with another tile scheme.
    pub fn evaluate_as(&self, scheme: &str) -> SessionOutcome {
        const WARM_UP: usize = 2;
        assert!(self.still || self.packaged.is_some(), "an evaluation predicts no heads");
        let gops = self.gops as usize;
        let packaged = match &self.packaged {
            Some(packaged) => packaged.table.gops().to_vec(),
            None => table(self.seed, self.bytes_at_32),
        };
        let tables = packaged.iter().cycle().take(gops).cloned().collect();
        let table = RdTable::new(6, 4, Duration::from_secs(1), tables).unwrap();
        let grid = Grid::new(6, 4).unwrap();
        let (probabilities, trace) = (self.prior(grid), self.head());
        let concealments = match &self.packaged {
            Some(packaged) => packaged.concealments.clone(),
            None => concealments(gops),
        };
        let viewport = Viewport::new(FieldOfView::default());
        let mut seconds = self.carried();
        seconds.splice(0..0, vec![seconds[0].clone(); WARM_UP]);
        let session = Session {
            table: &table,
            concealments: &concealments,
            parts: None,
            init: self.init(),
            probabilities: &probabilities,
            viewport: &viewport,
            trace: &trace,
            seconds: &seconds,
            warm_up: WARM_UP,
            // As the server plans: paths take bytes of one message at a time.
            delivery: &InOrder,
            recency: Recency::default(),
            scheme: weftline_video::ows::Entry::find(scheme).unwrap(),
            concealment: Concealment::LastReceived,
            search_units: SearchBudget::DEFAULT_UNITS,
        };
        session.run().unwrap()
    }

    /// What each link carries of bulk data in each second of the stream, which begins when the
    /// connection is up. Links count headers and what comes twice, so they are made to add up to what
    /// arrived in order, as `vr evaluate` does with rates from the simulator and the lab.
    fn carried(&self) -> Vec<Vec<Bitrate>> {
        const STEPS: usize = 10;
        // The connection is made, the player greets and reports: 0.39 s at 40 ms.
        const BEGAN: usize = 4;
        let mut plan = self.plan();
        plan.flows[0].traffic = Traffic::Bulk;
        plan.series = true;
        plan.duration = Duration::from_secs(u64::from(self.gops) + 2);
        let names: Vec<String> = plan.paths.iter().map(|path| path.name.clone()).collect();
        let outcome = weftline_sim::run(plan).unwrap();
        let series = |name: &str| -> Vec<f64> {
            let samples =
                outcome.samples().filter(|s| s.path == name && s.metric == "goodput_mbps");
            samples.map(|sample| sample.value).skip(BEGAN).collect()
        };
        let paths: Vec<Vec<f64>> = names.iter().map(|name| series(name)).collect();
        let whole = series("").iter().sum::<f64>() / paths.iter().flatten().sum::<f64>();
        let second = |second: usize| {
            let mean = |path: &Vec<f64>| {
                let steps = &path[second * STEPS..(second + 1) * STEPS];
                Bitrate::bps((steps.iter().sum::<f64>() / STEPS as f64 * whole * 1e6) as u64)
            };
            paths.iter().map(mean).collect()
        };
        (0..self.gops as usize).map(second).collect()
    }

    fn content(&self) -> Content {
        let grid = Grid::new(6, 4).unwrap();
        let frame = FrameSize::new(1440, 720).unwrap();
        let (table, concealments, prior) = match &self.packaged {
            Some(packaged) => {
                let Packaged { table, concealments, prior, .. } = &**packaged;
                (table.clone(), concealments.clone(), Some(prior.clone()))
            }
            None => {
                let table = table(self.seed, self.bytes_at_32);
                let table = RdTable::new(6, 4, Duration::from_secs(1), table).unwrap();
                (table, concealments(PACKAGED), self.still.then(|| self.seen(grid)))
            }
        };
        let content =
            Content::new(frame, 25, table, Some(concealments), prior, Some(self.gops)).unwrap();
        content.with_init(self.init())
    }

    fn init(&self) -> ByteCount {
        self.packaged.as_ref().map_or(INIT, |packaged| packaged.init)
    }

    fn prior(&self, grid: Grid) -> TileProbabilities {
        match &self.packaged {
            Some(packaged) => packaged.prior.clone(),
            None => self.seen(grid),
        }
    }

    fn seen(&self, grid: Grid) -> TileProbabilities {
        let viewport = Viewport::new(FieldOfView::default());
        let trace = self.head();
        TileProbabilities::measure([&trace], grid, &viewport, Duration::from_secs(1)).unwrap()
    }
}

/// Late tiles after the start, and all that there were.
pub fn late(outcome: &LiveOutcome) -> (usize, usize) {
    let counted = || outcome.gops.iter().skip(START);
    (counted().map(|gop| gop.late).sum(), counted().count() * TILES)
}

/// Whether each GoP was shown in its turn, and each of its tiles counted once.
pub fn check(outcome: &LiveOutcome, gops: u32) {
    assert_eq!(
        outcome.gops.iter().map(|gop| gop.gop).collect::<Vec<_>>(),
        (0..gops).collect::<Vec<_>>()
    );
    for gop in &outcome.gops {
        assert_eq!(gop.arrived + gop.late + gop.dropped, TILES, "{gop:?}");
    }
}

const LINKS: [[u64; 2]; 4] = [[1_200, 800], [2_500, 2_000], [8_000, 4_000], [30_000, 20_000]];

/// The cases that a forecast or a scheduler is judged by, with their names.
pub fn cases() -> Vec<(String, Case)> {
    let queues = [
        ("100 packets", Queue::Packets(100)),
        ("0.5 BDP", Queue::Bdps(0.5)),
        ("1 BDP", Queue::Bdps(1.0)),
        ("2 BDP", Queue::Bdps(2.0)),
        ("4 BDP", Queue::Bdps(4.0)),
    ];
    let events = [
        ("steady", vec![]),
        ("one cut", vec![(0, 8, 3_000)]),
        ("both cut 3 s", vec![(0, 8, 11), (1, 8, 11)]),
    ];
    let mut cases = Vec::new();
    for kbps in LINKS {
        for (queue_name, queue) in queues {
            for loss in [0.0, 0.01] {
                for (event, cuts) in &events {
                    let [one, two] = kbps.map(|kbps| kbps as f64 / 1e3);
                    let name = format!("{one}+{two} Mb/s, {queue_name}, loss {loss}, {event}");
                    let case = Case {
                        kbps: kbps.to_vec(),
                        queue,
                        loss,
                        cuts: cuts.clone(),
                        // Content that the links do not carry at its finest.
                        bytes_at_32: 50 * kbps.iter().sum::<u64>(),
                        ..Case::default()
                    };
                    cases.push((name, case));
                }
            }
        }
    }
    cases
}
