//! A server, for one player.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use weftline_core::session::SessionStats;
use weftline_core::{Bitrate, ByteCount, Instant, PathId};

use super::wire::{
    GopNotice, Hello, MAX_AGES, Manifest, Message, Report, RungNotice, TileId, TileNotice,
};
use super::{Content, Forecast, LiveError, PathReading};
use crate::evaluate::{Concealment, base_layer, with_base, without};
use crate::geometry::{FieldOfView, Orientation, Viewport};
use crate::head::{Pose, Predictor, PredictorSettings};
use crate::ows::{
    Delivery, Effort, Entry, FbdtMessages, InOrder, Inputs, Piece, Plan, Problem, Recency,
    Throughput, TwoEnded,
};
use crate::rd::{GopTable, Rung, TileTable};

/// What goes with a segment: the message's head, the tile's part of the GoP's notice, and the heads
/// of the records that carry it, a record of at least 4 KiB each (docs/protocol.md).
const BESIDE: ByteCount = ByteCount::new(96);

/// How a server plans.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The tile scheme.
    pub scheme: &'static Entry,
    /// What the player shows in place of late tiles.
    pub concealment: Concealment,
    /// What all paths together are taken to carry before anything is known.
    pub start: Bitrate,
    /// How the rates to be expected follow from the past.
    pub recency: Recency,
    /// The work a scheme may do for a GoP.
    pub effort_units: u64,
}

/// What is known of the connection.
#[derive(Clone, Copy, Debug)]
pub struct Traffic<'a> {
    /// Each path, new ones last; `None` where nobody can know: then what the player reports is
    /// taken, for all paths together.
    pub paths: Option<&'a [PathReading]>,
    /// The path that sends forward, as an index into these, where FBDT carries messages; `None`
    /// where everything arrives in order.
    pub forward: Option<usize>,
    /// Whether anything waits for a path.
    pub backlog: bool,
}

/// What a server wants sent, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Outgoing {
    /// A message that must arrive.
    Message(Vec<u8>),
    /// A tile, which the driver makes a message of.
    Tile(TileOrder),
}

/// A tile to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileOrder {
    /// Which.
    pub id: TileId,
    /// The GoP of the package that it is from.
    pub packaged: u32,
    /// The length of its segment.
    pub bytes: ByteCount,
    /// Whether the player still needs what its decoder is set up from.
    pub with_init: bool,
    /// When it is of no use any more.
    pub deadline: Instant,
}

/// What became of planning a GoP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedGop {
    /// Its number.
    pub gop: u32,
    /// Tiles that are sent, a base layer not counted.
    pub sent: usize,
    /// Of these, how many are expected to be on time: the sum of their probabilities.
    pub on_time: f64,
    /// Tiles that are left out.
    pub dropped: usize,
    /// What is sent, a base layer included.
    pub bytes: ByteCount,
    /// What the paths are expected to bring in its time, beyond what is on its way already.
    pub expected: ByteCount,
    /// What all tiles take at least.
    pub least: ByteCount,
}

#[derive(Debug)]
struct Player {
    viewport: Viewport,
    predictor: Predictor,
    /// When the stream began, with the first report: GoP `n` is sent from `epoch + n·G` on.
    epoch: Option<Instant>,
    /// What decoders it has said to have set up: tile and QP.
    known: BTreeSet<(u16, u8)>,
    /// The last of each tile that it has said to have: in which GoP, and what its encoding loses.
    held: Vec<Option<(u32, f64)>>,
}

/// What a server does for one player; see the module's documentation.
#[derive(Debug)]
pub struct Server {
    content: Arc<Content>,
    settings: ServerSettings,
    player: Option<Player>,
    forecast: Forecast,
    /// The paths of the connection in the order in which they came up.
    paths: Vec<PathId>,
    forward: Option<usize>,
    backlog: bool,
    by_reports: bool,
    next_gop: u32,
    outgoing: VecDeque<Outgoing>,
    planned: VecDeque<PlannedGop>,
}

impl Server {
    /// A server that waits for its player's greeting.
    pub fn new(content: Arc<Content>, settings: ServerSettings) -> Self {
        let forecast = Forecast::new(settings.start);
        let (outgoing, planned) = (VecDeque::new(), VecDeque::new());
        Self {
            content,
            settings,
            player: None,
            forecast,
            paths: Vec::new(),
            forward: None,
            backlog: false,
            by_reports: true,
            next_gop: 0,
            outgoing,
            planned,
        }
    }

    /// Takes a message of the player.
    ///
    /// # Errors
    /// If it is none, or makes no sense; then the connection is to be closed, after what
    /// [`Self::poll_transmit`] still has.
    pub fn handle_message(&mut self, bytes: &[u8], now: Instant) -> Result<(), LiveError> {
        let handled = match Message::decode(bytes) {
            Ok(Message::Hello(hello)) => self.greet(hello),
            Ok(Message::Report(report)) => self.take_report(&report, now),
            Ok(Message::Refusal { reason }) => return Err(LiveError::Refused(reason)),
            Ok(_) => Err(LiveError::Order { what: "a server's message", when: "to a server" }),
            Err(error) => Err(error.into()),
        };
        handled.inspect_err(|error| self.refuse(&error.to_string()))
    }

    /// Tells the player that the stream does not go on, and why. Nothing else follows.
    pub fn refuse(&mut self, reason: &str) {
        self.outgoing.clear();
        self.next_gop = self.content.gops();
        let reason = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.outgoing.push_back(Outgoing::Message(Message::Refusal { reason }.to_bytes()));
    }

    /// Takes the counters of a connection that sends its messages by several paths, and whether
    /// anything waits for it; twenty times a second will do.
    pub fn handle_stats(&mut self, stats: &SessionStats, backlog: bool, now: Instant) {
        for path in stats.paths.keys() {
            if !self.paths.contains(path) {
                self.paths.push(*path);
            }
        }
        let reading = |path| stats.paths.get(path).map(PathReading::from).unwrap_or_default();
        let paths: Vec<PathReading> = self.paths.iter().map(reading).collect();
        let forward = self.paths.iter().position(|path| Some(*path) == stats.forward);
        self.handle_traffic(Traffic { paths: Some(&paths), forward, backlog }, now);
    }

    /// Takes a reading of the connection's counters; twenty a second will do.
    pub fn handle_traffic(&mut self, traffic: Traffic<'_>, now: Instant) {
        self.by_reports = traffic.paths.is_none();
        self.forward = traffic.forward;
        self.backlog = traffic.backlog;
        if let Some(paths) = traffic.paths {
            self.forecast.handle_reading(paths, traffic.backlog, now);
        }
    }

    /// Plans the GoPs whose time has come.
    ///
    /// # Errors
    /// [`LiveError::Plan`] if the scheme cannot.
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), LiveError> {
        while self.poll_timeout().is_some_and(|at| at <= now) {
            let gop = self.next_gop;
            self.next_gop += 1;
            let planned = self.plan(gop, now);
            planned.inspect_err(|error| self.refuse(&error.to_string()))?;
            if self.next_gop == self.content.gops() {
                let end = Message::End { gops: self.next_gop };
                self.outgoing.push_back(Outgoing::Message(end.to_bytes()));
            }
        }
        Ok(())
    }

    /// When [`Self::handle_timeout`] is to be called; `None` before the player's first report, with
    /// which the stream begins, and after the last GoP.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let epoch = self.player.as_ref()?.epoch?;
        (self.next_gop < self.content.gops()).then(|| self.start_of(epoch, self.next_gop))
    }

    /// What is to be sent next.
    pub fn poll_transmit(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    /// A GoP that has been planned.
    pub fn poll_event(&mut self) -> Option<PlannedGop> {
        self.planned.pop_front()
    }

    /// Whether the player has greeted.
    pub fn has_player(&self) -> bool {
        self.player.is_some()
    }

    /// Whether all GoPs have been planned, or the player was refused.
    pub fn is_done(&self) -> bool {
        self.next_gop == self.content.gops()
    }

    /// What the paths are known to carry.
    pub fn forecast(&self) -> &Forecast {
        &self.forecast
    }

    fn start_of(&self, epoch: Instant, gop: u32) -> Instant {
        epoch + self.content.table().gop_duration() * gop
    }

    fn greet(&mut self, hello: Hello) -> Result<(), LiveError> {
        if self.player.is_some() {
            return Err(LiveError::Order { what: "a greeting", when: "a second time" });
        }
        let [horizontal, vertical] = hello.fov_deg.map(f64::from);
        let fov = FieldOfView::new(horizontal, vertical)
            .map_err(|error| LiveError::Content(error.to_string()))?;
        let content = &self.content;
        self.player = Some(Player {
            viewport: Viewport::new(fov),
            predictor: Predictor::new(PredictorSettings::default()),
            epoch: None,
            known: BTreeSet::new(),
            held: vec![None; content.grid().tiles()],
        });
        let rungs = content.table().gops()[0].tiles()[0].rungs();
        let manifest = Manifest {
            frame: content.frame(),
            grid: content.grid(),
            gop: content.table().gop_duration(),
            gop_frames: content.gop_frames(),
            gops: content.gops(),
            concealment: self.settings.concealment,
            scheme: self.settings.scheme.name.to_owned(),
            qps: rungs.iter().map(|rung| rung.qp).collect(),
        };
        let manifest = Message::Manifest(manifest).to_bytes();
        self.outgoing.push_back(Outgoing::Message(manifest));
        Ok(())
    }

    fn take_report(&mut self, report: &Report, now: Instant) -> Result<(), LiveError> {
        let Some(player) = &mut self.player else {
            return Err(LiveError::Order { what: "a report", when: "before its greeting" });
        };
        for pose in &report.poses {
            let [yaw, pitch, roll] = pose.degrees.map(f64::from);
            let orientation = Orientation::from_degrees(yaw, pitch, roll);
            player.predictor.handle_pose(Pose { at: pose.at, orientation });
        }
        for id in &report.arrived {
            let rung = rung_of(&self.content, *id, self.next_gop)?;
            player.known.insert((id.tile, id.qp));
            let held = &mut player.held[usize::from(id.tile)];
            let newer = |(gop, loss): (u32, f64)| (id.gop, -rung.ws_mse) > (gop, -loss);
            if held.is_none_or(newer) {
                *held = Some((id.gop, rung.ws_mse));
            }
        }
        // The player has the manifest: messages may overtake each other.
        player.epoch.get_or_insert(now);
        if self.by_reports {
            let delivered = report.received;
            let all = PathReading { delivered, is_up: true, ..PathReading::default() };
            self.forecast.handle_reading(&[all], self.backlog, now);
        }
        self.handle_timeout(now)
    }

    /// Plans a GoP, and queues its notice and its tiles.
    fn plan(&mut self, gop: u32, now: Instant) -> Result<(), LiveError> {
        let Some((player, epoch)) = self.player.as_ref().and_then(|p| Some((p, p.epoch?))) else {
            return Ok(());
        };
        let deadline = self.start_of(epoch, gop + 1);
        let left = deadline.since(now);
        let tiles = self.on_the_way(player, gop);
        let wrong = |reason: String| LiveError::Plan { gop, reason };
        let expected = self.forecast.expected(left, &self.settings.recency);
        let expected = expected.map_err(|error| wrong(error.to_string()))?;
        let plan = if left.is_zero() {
            // Its time was over before it began: the player is told of it, and that is all.
            let dropped = (0..tiles.tiles().len()).collect();
            let (bytes, expected_loss) = (ByteCount::ZERO, 0.0);
            let plan = Plan { sent: Vec::new(), dropped, bytes, expected_loss };
            Sending { plan, base: 0 }
        } else {
            self.scheme_plan(player, gop, &tiles, &expected, left).map_err(wrong)?
        };
        let plan = self.as_packaged(gop, plan);
        let tiles = &self.content.table().gops()[self.content.packaged(gop) as usize];
        let order = |piece: &Piece| {
            let id = TileId { gop, tile: piece.tile as u16, qp: piece.rung.qp };
            let with_init = !player.known.contains(&(id.tile, id.qp));
            let (packaged, bytes) = (self.content.packaged(gop), piece.rung.bytes);
            Outgoing::Tile(TileOrder { id, packaged, bytes, with_init, deadline })
        };
        let orders: Vec<Outgoing> = plan.plan.sent.iter().map(order).collect();
        let notice = self.notice(gop, &plan, expected.mean());
        let least = tiles.tiles().iter().map(|tile| {
            tile.rungs().iter().map(|rung| rung.bytes).min().unwrap_or(ByteCount::ZERO)
        });
        let dropped = plan.plan.dropped.len();
        let sent = tiles.tiles().len() - dropped;
        let late: f64 = plan.plan.sent[plan.base..].iter().map(|piece| piece.miss_chance).sum();
        self.planned.push_back(PlannedGop {
            gop,
            sent,
            on_time: sent as f64 - late,
            dropped,
            bytes: plan.plan.bytes,
            expected: expected.mean(),
            least: least.sum(),
        });
        self.outgoing.push_back(Outgoing::Message(Message::Gop(notice).to_bytes()));
        self.outgoing.extend(orders);
        Ok(())
    }

    /// What each encoding of a GoP takes of the paths: the segment, and what goes with it.
    fn on_the_way(&self, player: &Player, gop: u32) -> GopTable {
        let gop = &self.content.table().gops()[self.content.packaged(gop) as usize];
        let tiles = gop.tiles().iter().enumerate().map(|(tile, table)| {
            let cost = |rung: &Rung| {
                let is_known = player.known.contains(&(tile as u16, rung.qp));
                let init = if is_known { ByteCount::ZERO } else { self.content.init() };
                Rung { bytes: rung.bytes + BESIDE + init, ..*rung }
            };
            let rungs = table.rungs().iter().map(cost).collect();
            TileTable::new(rungs).expect("a tile fits a message with all that goes with it")
        });
        GopTable::new(tiles.collect()).expect("as many tiles as the package has")
    }

    /// A plan with the lengths of its segments, in place of what they take of the paths.
    fn as_packaged(&self, gop: u32, mut sending: Sending) -> Sending {
        let tiles = self.content.table().gops()[self.content.packaged(gop) as usize].tiles();
        for piece in &mut sending.plan.sent {
            let rung = tiles[piece.tile].at_qp(piece.rung.qp);
            piece.rung = *rung.expect("it was planned with the package's rungs");
        }
        sending.plan.bytes = sending.plan.sent.iter().map(|piece| piece.rung.bytes).sum();
        sending
    }

    /// What the scheme sends, behind its base layer if there is one.
    fn scheme_plan(
        &self,
        player: &Player,
        gop: u32,
        tiles: &GopTable,
        expected: &Throughput,
        left: Duration,
    ) -> Result<Sending, String> {
        let base = match self.settings.concealment {
            Concealment::BaseLayer => base_layer(tiles),
            Concealment::Grey | Concealment::LastReceived => Vec::new(),
        };
        let base_bytes: ByteCount = base.iter().map(|piece| piece.rung.bytes).sum();
        let miss: Vec<f64> = (0..tiles.tiles().len())
            .map(|tile| {
                base.get(tile).map_or_else(|| self.miss(player, gop, tile), |p| p.rung.ws_mse)
            })
            .collect();
        let expected = without(expected, base_bytes).map_err(|error| error.to_string())?;
        let delivery: Box<dyn Delivery> = match self.forward {
            None => Box::new(InOrder),
            Some(forward) => {
                let window = TwoEnded::adaptive_window(&expected, left);
                Box::new(FbdtMessages(TwoEnded { forward, window }))
            }
        };
        let visibility = self.visibility(player, gop);
        let problem = Problem::new(Inputs {
            gop: tiles,
            visibility: &visibility,
            miss: &miss,
            throughput: &expected,
            delivery: &*delivery,
            budget: None,
            truth: None,
        })
        .map_err(|error| error.to_string())?;
        let mut effort = Effort::units(self.settings.effort_units);
        let plan = self.settings.scheme.plan(&problem, &mut effort);
        let plan = plan.map_err(|error| error.to_string())?;
        let count = base.len();
        Ok(Sending { plan: with_base(plan, base, base_bytes), base: count })
    }

    /// How likely each tile is seen in a GoP.
    fn visibility(&self, player: &Player, gop: u32) -> Vec<f64> {
        let (content, viewport) = (&self.content, &player.viewport);
        let grid = content.grid();
        // Where nobody has watched before, all directions are alike.
        let anywhere = viewport.fov().solid_angle() / (4.0 * std::f64::consts::PI);
        let prior = content.prior().map_or_else(
            || vec![anywhere; grid.tiles()],
            |prior| prior.seen(content.packaged(gop) as usize).to_vec(),
        );
        player.predictor.tiles(grid, viewport, content.table().gop_duration(), gop, &prior)
    }

    /// What a tile loses if it is late, as far as the server knows what the player has.
    fn miss(&self, player: &Player, gop: u32, tile: usize) -> f64 {
        let (grey, changes) = self.content.misses().of(self.content.packaged(gop) as usize, tile);
        if self.settings.concealment != Concealment::LastReceived {
            return grey;
        }
        let old = player.held[tile].and_then(|(of, coding)| {
            let age = gop.checked_sub(of)?.checked_sub(1)?;
            changes.get(age as usize).map(|change| change + coding)
        });
        old.unwrap_or(grey)
    }

    /// What the player is told of a GoP.
    fn notice(&self, gop: u32, sending: &Sending, expected: ByteCount) -> GopNotice {
        let packaged = self.content.packaged(gop) as usize;
        let told = |rung: Rung| RungNotice {
            qp: rung.qp,
            bytes: rung.bytes.as_u64() as u32,
            ws_mse: rung.ws_mse as f32,
        };
        let tile = |tile: usize| {
            let (grey, changes) = self.content.misses().of(packaged, tile);
            let changes = changes.iter().take(MAX_AGES).map(|change| *change as f32).collect();
            TileNotice { planned: None, base: None, grey: grey as f32, changes }
        };
        let mut tiles: Vec<TileNotice> = (0..self.content.grid().tiles()).map(tile).collect();
        for (index, piece) in sending.plan.sent.iter().enumerate() {
            let notice = &mut tiles[piece.tile];
            let place = if index < sending.base { &mut notice.base } else { &mut notice.planned };
            *place = Some(told(piece.rung));
        }
        for (tile, notice) in tiles.iter_mut().enumerate() {
            // What the plan wants at the base layer's rung is sent once.
            if notice.planned.is_none() && sending.plan.dropped.binary_search(&tile).is_err() {
                notice.planned = notice.base;
            }
        }
        GopNotice { gop, expected, tiles }
    }
}

/// A plan, the first pieces of which are a base layer.
struct Sending {
    plan: Plan,
    base: usize,
}

/// The encoding that a player says to have.
fn rung_of(content: &Content, id: TileId, begun: u32) -> Result<Rung, LiveError> {
    let wrong = |what, number, count| Err(LiveError::Number { what, number, count });
    if id.gop >= begun {
        return wrong("GoP", id.gop, begun);
    }
    let tiles = content.table().gops()[content.packaged(id.gop) as usize].tiles();
    let Some(tile) = tiles.get(usize::from(id.tile)) else {
        return wrong("tile", id.tile.into(), tiles.len() as u32);
    };
    match tile.at_qp(id.qp) {
        Some(rung) => Ok(*rung),
        None => wrong("QP", id.qp.into(), tile.rungs().len() as u32),
    }
}
