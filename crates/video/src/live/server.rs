//! A server, for one player.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use weftline_core::session::SessionStats;
use weftline_core::{Bitrate, ByteCount, Instant, PathId};

use super::content::GopView;
use super::unseen::Unseen;
use super::wire::{
    GopNotice, Hello, MAX_AGES, Manifest, Message, Report, RungNotice, TileId, TileNotice,
};
use super::{Content, LiveError, LiveGop, MAX_OPEN_GOPS};
use crate::forecast::{Forecast, PathReading, PlanTime};
use crate::geometry::{FieldOfView, Orientation, Viewport};
use crate::head::{Pose, Predictor, PredictorSettings};
use crate::ows::{Entry, InOrder, Piece, Recency, Throughput};
use crate::rd::{GopTable, MAX_GOPS, Rung};
use crate::sending::{BESIDE, Chances, Planner, Sending, on_the_way, without};
use crate::shown::{Concealment, Concealments, Encoding, Held};

/// How long a player may have stood still altogether: more is no live stream any more.
const MOST_STALLED: Duration = Duration::from_secs(60);
/// The most GoPs of a stream: one of a live source ends then.
const MOST_GOPS: u32 = MAX_GOPS as u32;

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
    pub search_units: u64,
}

/// What is known of the connection.
#[derive(Clone, Copy, Debug)]
pub struct Traffic<'a> {
    /// What its counters say.
    pub counters: Counters<'a>,
    /// The bytes that wait for a path.
    pub waiting: ByteCount,
}

/// What the counters of a connection say.
#[derive(Clone, Copy, Debug)]
pub enum Counters<'a> {
    /// Each path, new ones last.
    Paths(&'a [PathReading]),
    /// Of a connection that nobody can look into: the bytes of messages that it has taken. What has
    /// arrived of them is what the player reports, for all paths together.
    Taken {
        /// So many.
        bytes: ByteCount,
        /// When it took the last of them.
        at: Instant,
    },
}

/// What a server wants sent, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Outgoing {
    /// A message that must arrive.
    Message(Vec<u8>),
    /// A tile, which the driver makes a message of.
    Tile(TileOrder),
}

impl Outgoing {
    /// How many bytes it has, without what goes around a tile.
    pub fn bytes(&self) -> ByteCount {
        match self {
            Self::Message(bytes) => ByteCount::new(bytes.len() as u64),
            Self::Tile(order) => order.bytes,
        }
    }
}

/// A tile to be sent, or a GoP's sound ([`TileId::is_sound`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileOrder {
    /// Which.
    pub id: TileId,
    /// The GoP of the package, or of the live source, that it is from.
    pub packaged: u32,
    /// The length of its segment.
    pub bytes: ByteCount,
    /// Whether the player still needs what its decoder is set up from.
    pub with_init: bool,
    /// When it is of no use any more.
    pub deadline: Instant,
}

/// More time for tiles that have not gone: the player has stood still, and shows them later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutOff {
    /// Of tiles whose deadline is later than this.
    pub after: Instant,
    /// How much more.
    pub by: Duration,
}

impl PutOff {
    /// What becomes of a tile's deadline.
    pub fn of(self, deadline: Instant) -> Instant {
        if deadline > self.after { deadline + self.by } else { deadline }
    }

    /// The same for a tile that waits; nothing to another message.
    pub fn apply(self, outgoing: &mut Outgoing) {
        if let Outgoing::Tile(order) = outgoing {
            order.deadline = self.of(order.deadline);
        }
    }
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
    /// The segment of sound that is sent before it; zero if there is none.
    pub sound: ByteCount,
    /// What the paths are expected to bring in its time, beyond what is on its way already.
    pub expected: ByteCount,
    /// What all tiles take at least.
    pub least: ByteCount,
}

/// What a player has said to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// Tiles, and segments of sound, that came whole.
    pub tiles: u64,
    /// Of these, those that were there before their GoP was shown.
    pub in_time: u64,
    /// Bytes of their segments.
    pub bytes: ByteCount,
}

impl Reported {
    fn add(&mut self, bytes: ByteCount, in_time: bool) {
        self.tiles = self.tiles.saturating_add(1);
        self.in_time = self.in_time.saturating_add(in_time.into());
        self.bytes = ByteCount::new(self.bytes.as_u64().saturating_add(bytes.as_u64()));
    }
}

#[derive(Debug)]
struct Player {
    viewport: Viewport,
    predictor: Predictor,
    /// Whether it has reported: then it has the manifest.
    is_ready: bool,
    /// When the stream began, with the first report: GoP `n` is sent from `epoch + n·G` on.
    epoch: Option<Instant>,
    /// How long after that the first notice is there, as far as is known.
    way: Duration,
    /// What decoders it has said to have set up: tile and QP.
    known: BTreeSet<(u16, u8)>,
    /// What it has said to hold.
    held: Held,
    /// How long after it was announced it shows a GoP, if it never stood still.
    buffer: Duration,
    /// How long it stops for what is late of a GoP.
    rebuffer: Duration,
    /// How long it has stood still.
    stalled: Duration,
    reported: Reported,
}

/// The GoPs of a live source that a server may plan, or is told of.
#[derive(Debug, Default)]
struct Window {
    /// The GoP of the source that is the stream's first.
    first: Option<u32>,
    /// By their numbers in the stream.
    gops: BTreeMap<u32, Arc<LiveGop>>,
    /// How many the stream has, once that is known.
    total: Option<u32>,
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
    waiting: ByteCount,
    /// Of a connection that nobody can look into.
    unseen: Option<Unseen>,
    live: Window,
    next_gop: u32,
    /// Whether the end, or a refusal, has been said.
    is_done: bool,
    outgoing: VecDeque<Outgoing>,
    put_off: VecDeque<PutOff>,
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
            waiting: ByteCount::ZERO,
            unseen: None,
            live: Window::default(),
            next_gop: 0,
            is_done: false,
            outgoing,
            put_off: VecDeque::new(),
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
        self.is_done = true;
        let reason = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.outgoing.push_back(Outgoing::Message(Message::Refusal { reason }.to_bytes()));
    }

    /// Takes the next GoP of a live source; of a package there is none to take. The stream begins with the
    /// newest one that is whole when the player's first report comes, or else with the next one that is.
    ///
    /// # Errors
    /// [`LiveError::Content`] if it is not of this stream, or not the next; [`LiveError::Plan`] if the
    /// scheme cannot plan it.
    pub fn handle_gop(&mut self, gop: Arc<LiveGop>, now: Instant) -> Result<(), LiveError> {
        gop.check(&self.content)?;
        if !self.has_begun() {
            self.live.gops.clear();
            self.live.first = gop.tiles.as_ref().map(|_| gop.number);
        }
        let Some(first) = self.live.first else { return Ok(()) };
        let number = gop.number.wrapping_sub(first);
        let next = self.live.gops.last_key_value().map_or(0, |(last, _)| last + 1);
        if number != next || next.saturating_sub(self.next_gop) >= MAX_OPEN_GOPS {
            let number = gop.number;
            return Err(LiveError::Content(format!("GoP {number} is not the next of the source")));
        }
        self.live.gops.insert(number, gop);
        while self.live.gops.first_key_value().is_some_and(|(old, _)| {
            // A player says no more of what is so old.
            old + MAX_OPEN_GOPS < self.next_gop
        }) {
            self.live.gops.pop_first();
        }
        self.begin(now);
        self.handle_timeout(now)
    }

    /// A live source has had so many GoPs, and no more come.
    pub fn handle_end(&mut self, gops: u32) {
        match self.live.first {
            Some(first) => {
                self.live.total = Some(gops.saturating_sub(first));
                self.conclude();
            }
            None => self.refuse("the source has ended"),
        }
    }

    /// Takes the counters of a connection that sends its messages by several paths, and the bytes that
    /// wait for it; twenty times a second will do.
    pub fn handle_stats(&mut self, stats: &SessionStats, waiting: ByteCount, now: Instant) {
        for path in stats.paths.keys() {
            if !self.paths.contains(path) {
                self.paths.push(*path);
            }
        }
        let reading = |path| stats.paths.get(path).map(PathReading::from).unwrap_or_default();
        let paths: Vec<PathReading> = self.paths.iter().map(reading).collect();
        self.handle_traffic(Traffic { counters: Counters::Paths(&paths), waiting }, now);
    }

    /// Takes a reading of the connection's counters; twenty a second will do.
    pub fn handle_traffic(&mut self, traffic: Traffic<'_>, now: Instant) {
        self.waiting = traffic.waiting;
        match traffic.counters {
            Counters::Paths(paths) => {
                self.forecast.handle_reading(paths, self.has_backlog(), now);
            }
            Counters::Taken { bytes, at } => {
                self.unseen.get_or_insert_default().handle_taken(bytes.as_u64(), at);
            }
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
            self.conclude();
        }
        Ok(())
    }

    /// Says that no more GoPs come, once that is so.
    fn conclude(&mut self) {
        if self.total() == self.next_gop && self.has_begun() && !self.is_done {
            let end = Message::End { gops: self.next_gop };
            self.outgoing.push_back(Outgoing::Message(end.to_bytes()));
            self.is_done = true;
        }
    }

    /// Begins the stream, if the player has reported and there is something to begin with.
    fn begin(&mut self, now: Instant) {
        let has_gop = self.gop(0).is_some();
        let begins = |player: &&mut Player| player.is_ready && has_gop && player.epoch.is_none();
        if let Some(player) = self.player.as_mut().filter(begins) {
            player.epoch = Some(now);
            // The player counts from the arrival of the first GoP's notice.
            player.way = self.forecast.way();
            self.forecast.count_from(player.way);
        }
    }

    /// A GoP of the stream, if it is there.
    fn gop(&self, gop: u32) -> Option<GopView<'_>> {
        let live = self.live.gops.get(&gop).map(|gop| GopView::from(&**gop));
        live.or_else(|| self.content.gop(gop))
    }

    /// How many GoPs the stream has, or has at most.
    fn total(&self) -> u32 {
        self.content.gops().or(self.live.total).map_or(MOST_GOPS, |gops| gops.min(MOST_GOPS))
    }

    /// When [`Self::handle_timeout`] is to be called; `None` before the player's first report, with
    /// which the stream begins, after the last GoP, and while the next one of a live source is not there.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let epoch = self.player.as_ref()?.epoch?;
        let goes_on = !self.is_done && self.next_gop < self.total();
        let is_there = goes_on && self.gop(self.next_gop).is_some();
        is_there.then(|| self.start_of(epoch, self.next_gop))
    }

    /// What is to be sent next.
    pub fn poll_transmit(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    /// More time for what [`Self::poll_transmit`] has handed out before: to be asked for ahead of
    /// it, after each message of the player.
    pub fn poll_put_off(&mut self) -> Option<PutOff> {
        self.put_off.pop_front()
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
        self.is_done
    }

    /// Whether the stream has begun, with the player's first report.
    pub fn has_begun(&self) -> bool {
        self.player.as_ref().is_some_and(|player| player.epoch.is_some())
    }

    /// What the player has said to have: not what was sent to it.
    pub fn reported(&self) -> Reported {
        self.player.as_ref().map_or_else(Reported::default, |player| player.reported)
    }

    /// Which GoP of a live source is the stream's first, once it has begun.
    pub fn begins_with(&self) -> Option<u32> {
        self.live.first.filter(|_| self.has_begun())
    }

    /// When the player has shown the last GoP at the earliest; `None` before the stream has begun.
    pub fn shown_by(&self) -> Option<Instant> {
        let player = self.player.as_ref()?;
        let end = self.start_of(player.epoch?, self.total());
        Some(end + player.buffer + player.stalled)
    }

    /// What the paths are known to carry.
    pub fn forecast(&self) -> &Forecast {
        &self.forecast
    }

    /// How long after it was announced the player is done with a GoP at the latest.
    pub fn most_behind(&self) -> Duration {
        let gop = self.content.gop_duration();
        self.player.as_ref().map_or(gop, |player| {
            let stalls = if player.rebuffer.is_zero() { Duration::ZERO } else { MOST_STALLED };
            player.buffer + stalls + gop
        })
    }

    fn has_backlog(&self) -> bool {
        self.waiting > ByteCount::ZERO
    }

    fn start_of(&self, epoch: Instant, gop: u32) -> Instant {
        epoch + self.content.gop_duration() * gop
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
            is_ready: false,
            epoch: None,
            way: Duration::ZERO,
            known: BTreeSet::new(),
            held: Held::new(content.grid().tiles()),
            buffer: hello.buffer.unwrap_or_else(|| content.gop_duration()),
            rebuffer: hello.rebuffer,
            stalled: Duration::ZERO,
            reported: Reported::default(),
        });
        let manifest = Manifest {
            frame: content.frame(),
            grid: content.grid(),
            gop: content.gop_duration(),
            gop_frames: content.gop_frames(),
            gops: content.gops().unwrap_or(0),
            concealment: self.settings.concealment,
            scheme: self.settings.scheme.name.to_owned(),
            qps: content.qps().to_vec(),
            sound: content.sound(),
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
        for (id, on_time) in &report.arrived {
            let live = self.live.gops.get(&id.gop).map(|gop| GopView::from(&**gop));
            let view = live.or_else(|| self.content.gop(id.gop));
            if id.is_sound() {
                let bytes = check_sound(&self.content, view, *id, self.next_gop)?;
                player.known.insert((id.tile, id.qp));
                player.reported.add(bytes, *on_time);
                continue;
            }
            let Some(rung) = rung_of(&self.content, view, *id, self.next_gop)? else { continue };
            player.known.insert((id.tile, id.qp));
            player.reported.add(rung.bytes, *on_time);
            // What was late is not shown later either.
            if *on_time {
                let encoding = Encoding { qp: id.qp, loss: rung.ws_mse };
                player.held.note(usize::from(id.tile), id.gop as usize, encoding);
            }
        }
        // Messages may overtake each other.
        let longer = report.stalled.saturating_sub(player.stalled);
        player.stalled += longer;
        if player.stalled > MOST_STALLED {
            return Err(LiveError::Behind { by: player.stalled });
        }
        // The player has the manifest.
        player.is_ready = true;
        if !longer.is_zero() {
            // What is to be shown later than now is shown so much later. What is waited for has all
            // its time.
            let put_off = PutOff { after: now + player.rebuffer - longer, by: longer };
            self.outgoing.iter_mut().for_each(|outgoing| put_off.apply(outgoing));
            self.put_off.push_back(put_off);
        }
        if let Some(unseen) = &mut self.unseen {
            let all = unseen.handle_received(report.received, now);
            self.forecast.handle_reading(&[all], self.has_backlog(), now);
        }
        self.begin(now);
        self.handle_timeout(now)
    }

    /// Plans a GoP, and queues its notice and its tiles.
    fn plan(&mut self, gop: u32, now: Instant) -> Result<(), LiveError> {
        let Some((player, epoch)) = self.player.as_ref().and_then(|p| Some((p, p.epoch?))) else {
            return Ok(());
        };
        let behind = player.buffer + player.stalled;
        let shown = self.start_of(epoch, gop) + behind;
        let deadline = shown + player.way + player.rebuffer;
        let left = shown.since(now);
        // Of the GoP before nothing is of use any more, where it is shown by now and not waited for.
        let next = self.content.gop_duration();
        let is_of_use = behind + player.rebuffer > next;
        let waiting = if is_of_use { self.waiting } else { ByteCount::ZERO };
        let Some(view) = self.gop(gop) else { return Ok(()) };
        let wrong = |reason: String| LiveError::Plan { gop, reason };
        let time = PlanTime { left, next, waiting };
        let expected = self.forecast.expected_for(time, &self.settings.recency);
        let expected = expected.map_err(|error| wrong(error.to_string()))?;
        // Its time may be over before it began: the player is told of it, and that is all.
        let sound = sound_order(&view, player, gop, deadline).filter(|_| !left.is_zero());
        let count = self.content.grid().tiles();
        let plan = if let Some(tiles) = view.tiles.filter(|_| !left.is_zero()) {
            let cost = sound.map_or(ByteCount::ZERO, |order| sound_cost(&view, &order));
            let rest = without(&expected, cost).map_err(|error| wrong(error.to_string()))?;
            let carried = self.forecast.carried(left.min(next), &self.settings.recency);
            let carried = carried.map_err(|error| wrong(error.to_string()))?.saturating_sub(cost);
            self.scheme_plan(player, gop, (&view, tiles), (&rest, carried)).map_err(wrong)?
        } else {
            Sending::nothing(count)
        };
        let order = |piece: &Piece| {
            let id = TileId { gop, tile: piece.tile as u16, qp: piece.rung.qp };
            let with_init = !player.known.contains(&(id.tile, id.qp));
            let (packaged, bytes) = (view.packaged, piece.rung.bytes);
            Outgoing::Tile(TileOrder { id, packaged, bytes, with_init, deadline })
        };
        let orders: Vec<Outgoing> = plan.plan.sent.iter().map(order).collect();
        let sound_bytes = sound.map_or(ByteCount::ZERO, |order| order.bytes);
        let notice = self.notice(gop, &view, &plan, (expected.mean(), sound_bytes));
        let tiles = view.tiles.map_or(&[][..], GopTable::tiles).iter();
        let least = tiles.map(|tile| {
            tile.rungs().iter().map(|rung| rung.bytes).min().unwrap_or(ByteCount::ZERO)
        });
        let dropped = plan.plan.dropped.len();
        let sent = count - dropped;
        let late: f64 = plan.plan.sent[plan.base..].iter().map(|piece| piece.late_chance).sum();
        self.planned.push_back(PlannedGop {
            gop,
            sent,
            on_time: sent as f64 - late,
            dropped,
            bytes: plan.plan.bytes,
            sound: sound_bytes,
            expected: expected.mean(),
            least: least.sum(),
        });
        self.outgoing.push_back(Outgoing::Message(Message::Gop(notice).to_bytes()));
        // The first that is sent is the last that is late: a gap in the sound is noticed at once.
        self.outgoing.extend(sound.map(Outgoing::Tile));
        self.outgoing.extend(orders);
        Ok(())
    }

    /// What the scheme sends, with the lengths of the package's segments, of what the paths may bring that
    /// is new, and what they carry.
    fn scheme_plan(
        &self,
        player: &Player,
        gop: u32,
        (view, tiles): (&GopView<'_>, &GopTable),
        (expected, carried): (&Throughput, ByteCount),
    ) -> Result<Sending, String> {
        let concealed: Vec<f64> =
            (0..tiles.tiles().len()).map(|tile| self.concealed(player, gop, view, tile)).collect();
        let chances = Chances {
            visibility: &self.visibility(player, gop),
            concealed: &concealed,
            expected,
            carried,
            // Whatever the scheduler, paths take bytes of one message with a deadline at a time, in
            // the plan's order (core/src/scheduler/bond/deadlines.rs): FBDT's windows go no further
            // than its bounds.
            delivery: &InOrder,
            truth: None,
        };
        let init = |tile: usize, qp| match player.known.contains(&(tile as u16, qp)) {
            true => ByteCount::ZERO,
            false => view.init,
        };
        let ServerSettings { scheme, concealment, search_units, .. } = self.settings;
        let planner = Planner { scheme, concealment, search_units };
        Ok(planner.plan(&on_the_way(tiles, init), &chances)?.with_package_sizes(tiles))
    }

    /// What each tile of a GoP weighs in the player's viewport, as far as can be foreseen.
    fn visibility(&self, player: &Player, gop: u32) -> Vec<f64> {
        let (content, viewport) = (&self.content, &player.viewport);
        let grid = content.grid();
        // Where nobody has watched before, all directions are alike.
        let prior = content.weights(gop).unwrap_or_else(|| vec![1.0; grid.tiles()]);
        player.predictor.weights(grid, viewport, content.gop_duration(), gop, &prior)
    }

    /// What a tile loses if nothing of it is there, as far as the server knows what the player has.
    fn concealed(&self, player: &Player, gop: u32, view: &GopView<'_>, tile: usize) -> f64 {
        let (grey, changes) = view.concealments(tile);
        let concealment = self.settings.concealment;
        player.held.conceal(concealment, gop as usize, tile, Concealments { grey, changes }).1
    }

    #[cfg(test)]
    pub(super) fn concealed_of(&self, gop: u32, tile: usize) -> f64 {
        let view = self.gop(gop).expect("it is there");
        self.concealed(self.player.as_ref().expect("it has greeted"), gop, &view, tile)
    }

    /// What the player is told of a GoP.
    fn notice(
        &self,
        gop: u32,
        view: &GopView<'_>,
        sending: &Sending,
        (expected, sound): (ByteCount, ByteCount),
    ) -> GopNotice {
        let told = |rung: Rung| RungNotice {
            qp: rung.qp,
            bytes: rung.bytes.as_u64() as u32,
            ws_mse: rung.ws_mse as f32,
        };
        let rungs = sending.rungs(self.content.grid().tiles());
        let tile = |(tile, [planned, base]): (usize, [Option<Rung>; 2])| {
            let (grey, changes) = view.concealments(tile);
            let changes = changes.iter().take(MAX_AGES).map(|change| *change as f32).collect();
            let (planned, base) = (planned.map(told), base.map(told));
            TileNotice { planned, base, grey: grey as f32, changes }
        };
        let tiles = rungs.into_iter().enumerate().map(tile).collect();
        GopNotice { gop, expected, sound: sound.as_u64() as u32, tiles }
    }
}

/// The sound of a GoP, if it has any.
fn sound_order(
    view: &GopView<'_>,
    player: &Player,
    gop: u32,
    deadline: Instant,
) -> Option<TileOrder> {
    let [_, bytes] = view.sound?;
    let id = TileId::sound(gop);
    let with_init = !player.known.contains(&(id.tile, id.qp));
    Some(TileOrder { id, packaged: view.packaged, bytes, with_init, deadline })
}

/// What a segment of sound takes of the paths.
fn sound_cost(view: &GopView<'_>, order: &TileOrder) -> ByteCount {
    let init = view.sound.filter(|_| order.with_init).map(|[init, _]| init);
    order.bytes + BESIDE + init.unwrap_or(ByteCount::ZERO)
}

/// The length of the sound that a player says to have, if it can.
fn check_sound(
    content: &Content,
    view: Option<GopView<'_>>,
    id: TileId,
    begun: u32,
) -> Result<ByteCount, LiveError> {
    if content.sound().is_none() {
        let (number, count) = (id.tile.into(), content.grid().tiles() as u32);
        return Err(LiveError::Number { what: "tile", number, count });
    }
    if id.gop >= begun {
        return Err(LiveError::Number { what: "GoP", number: id.gop, count: begun });
    }
    Ok(view.and_then(|view| view.sound).map_or(ByteCount::ZERO, |[_, bytes]| bytes))
}

/// The encoding that a player says to have; `None` of a GoP that is known no more, or of which nothing was
/// sent.
fn rung_of(
    content: &Content,
    view: Option<GopView<'_>>,
    id: TileId,
    begun: u32,
) -> Result<Option<Rung>, LiveError> {
    let wrong = |what, number, count| Err(LiveError::Number { what, number, count });
    if id.gop >= begun {
        return wrong("GoP", id.gop, begun);
    }
    let tiles = content.grid().tiles();
    if usize::from(id.tile) >= tiles {
        return wrong("tile", id.tile.into(), tiles as u32);
    }
    if !content.qps().contains(&id.qp) {
        return wrong("QP", id.qp.into(), content.qps().len() as u32);
    }
    let tile = view.and_then(|view| view.tiles?.tiles().get(usize::from(id.tile)));
    Ok(tile.and_then(|tile| tile.at_qp(id.qp)).copied())
}
