//! A player.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use weftline_core::{ByteCount, Instant};

use super::playback::Playback;
use super::wire::{
    GopNotice, Hello, MAX_POSES, MAX_REPORTED, Manifest, Message, PoseNotice, Report, RungNotice,
    Tile, TileId,
};
use super::{LiveError, MAX_OPEN_GOPS};
use crate::geometry::{FieldOfView, Orientation, Viewport};
use crate::rd::MAX_GOPS;
use crate::shown::{
    Concealments, Encoding, Fate, Held, Shown, Wanted, capped_psnr_db, viewport_error,
};

/// The first word on a GoP may have been on its way so much longer than those that follow, or a GoP.
const UNEVEN: Duration = Duration::from_secs(1);
/// How often a player reports.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Poses of a GoP that are kept; more than a headset's 120 a second over 60 s are not of use.
const MAX_KEPT_POSES: usize = 8_192;

/// How a player plays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClientSettings {
    /// What its viewport spans.
    pub fov: FieldOfView,
    /// How long after the server has announced it a GoP is shown, within
    /// [`BUFFERS`](super::wire::BUFFERS): its jitter buffer. `None`: as long as a GoP is.
    pub buffer: Option<Duration>,
    /// The picture stands still for at most so long where what is looked at of the next GoP is not there,
    /// before it is concealed (rebuffering: a stall of ITU-T P.1203). Zero: it is concealed at once.
    pub rebuffer: Duration,
}

/// What a message was to the player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled<'a> {
    /// Something between the two state machines.
    Control,
    /// A tile that is whole, or a GoP's sound ([`TileId::is_sound`]), on time or late.
    Tile {
        /// It.
        tile: Tile<'a>,
        /// Whether it arrived before its GoP was shown.
        on_time: bool,
        /// Whether its bytes are those that were packaged, and what its decoder is set up from has come;
        /// others are never shown.
        is_genuine: bool,
    },
}

/// Where somebody looked, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pose {
    /// Time in the video since the GoP's first picture.
    pub at: Duration,
    /// How the head was turned.
    pub orientation: Orientation,
}

/// What became of a GoP: each of its tiles is counted once, as arrived, late or dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GopReport {
    /// Its number, from 0.
    pub gop: u32,
    /// Tiles that arrived as the server planned them, before their time.
    pub arrived: usize,
    /// Tiles that the server planned and that were not whole when their time came. If the server's
    /// word on the GoP never came, all that did not arrive.
    pub late: usize,
    /// Of these, tiles that the server has called back.
    pub called_back: usize,
    /// Of those late, tiles that came with other bytes than were packaged.
    pub damaged: usize,
    /// Tiles that the server left out.
    pub dropped: usize,
    /// Of those late and left out, tiles of which nothing else was there either, so that they were
    /// concealed; 0 if the server's word on the GoP never came.
    pub concealed: usize,
    /// Tiles of a base layer that arrived in time.
    pub base_arrived: usize,
    /// What the server wanted to send, a base layer included.
    pub planned: ByteCount,
    /// What the server expected the paths to carry.
    pub expected: ByteCount,
    /// Segments that arrived in time.
    pub bytes: ByteCount,
    /// Segments that arrived too late, before the end of the GoP.
    pub late_bytes: ByteCount,
    /// How long the picture stood still before it.
    pub stalled: Duration,
    /// Whether its sound was there, whole and as packaged, when it was shown; `None` if it has none.
    pub sound: Option<bool>,
    /// The segment of sound that was there in time.
    pub sound_bytes: ByteCount,
    /// The viewport's MSE, the mean over the poses; `None` if the server's word never came.
    pub mse: Option<f64>,
    /// The mean over the poses of the viewport's PSNR in dB.
    pub mean_psnr_db: Option<f64>,
    /// What was shown of each tile: an older GoP by its number in the stream. Nothing if the server's word
    /// never came.
    pub shown: Vec<Shown>,
    /// Where it was looked at: of the poses it was judged by the first of each 100 ms.
    pub poses: Vec<Pose>,
}

impl GopReport {
    /// The PSNR in dB of the GoP's mean MSE.
    pub fn psnr_db(&self) -> Option<f64> {
        self.mse.map(capped_psnr_db)
    }
}

/// A GoP that is not over.
#[derive(Debug, Default)]
struct OpenGop {
    notice: Option<GopNotice>,
    /// Per tile, the QPs that arrived in time.
    arrived: BTreeMap<u16, Vec<u8>>,
    /// What arrived too late, so that it counts once.
    late: BTreeSet<TileId>,
    called_back: BTreeSet<TileId>,
    /// What came with other bytes than were packaged.
    damaged: BTreeSet<TileId>,
    bytes: u64,
    late_bytes: u64,
    /// The sound that was there in time.
    sound_bytes: u64,
    poses: Vec<Pose>,
    /// How long the picture stood still before it.
    stalled: Duration,
}

impl OpenGop {
    /// Whether the sound is not worth waiting for: it is there, none is sent, or it will not come.
    fn is_sound_settled(&self) -> bool {
        let Some(notice) = &self.notice else { return false };
        let id = TileId::sound(notice.gop);
        let is_gone = self.called_back.contains(&id) || self.damaged.contains(&id);
        notice.sound == 0 || self.sound_bytes > 0 || is_gone
    }

    /// What is counted of it whatever was planned.
    fn report(&self, gop: u32) -> GopReport {
        GopReport {
            gop,
            bytes: ByteCount::new(self.bytes),
            late_bytes: ByteCount::new(self.late_bytes),
            sound_bytes: ByteCount::new(self.sound_bytes),
            stalled: self.stalled,
            poses: self.some_poses(),
            ..GopReport::default()
        }
    }

    /// As many of its poses as a player reports.
    fn some_poses(&self) -> Vec<Pose> {
        let mut some: Vec<Pose> = Vec::new();
        for pose in &self.poses {
            let slot = |pose: &Pose| pose.at.as_millis() / REPORT_EVERY.as_millis();
            if some.last().is_none_or(|last| slot(pose) != slot(last)) {
                some.push(*pose);
            }
        }
        some
    }

    /// Whether nothing of a tile is worth waiting for: it is there, nothing of it is sent, or it will not
    /// come.
    fn is_settled(&self, tile: usize) -> bool {
        let Some(notice) = &self.notice else { return false };
        let Some(told) = notice.tiles.get(tile) else { return true };
        // The base layer is what is looked at where there is nothing better.
        for rung in [told.planned, told.base].into_iter().flatten() {
            let id = TileId { gop: notice.gop, tile: tile as u16, qp: rung.qp };
            if self.arrived.get(&id.tile).is_some_and(|qps| qps.contains(&id.qp)) {
                return true;
            }
            if !self.called_back.contains(&id) && !self.damaged.contains(&id) {
                return false;
            }
        }
        true
    }
}

/// A player; see the module's documentation.
#[derive(Debug)]
pub struct Client {
    fov: FieldOfView,
    viewport: Viewport,
    manifest: Option<Manifest>,
    playback: Playback,
    /// GoPs that are over but for the server's word on them, and those to come.
    open: BTreeMap<u32, OpenGop>,
    /// What is there of each tile to fall back on.
    held: Held,
    received: u64,
    next_report: Option<Instant>,
    poses: Vec<PoseNotice>,
    last_pose: Orientation,
    /// The time in the video of the pose before.
    last_pose_at: Option<Duration>,
    /// What decoders it has been sent what they are set up from: tile and QP.
    set_up: BTreeSet<(u16, u8)>,
    /// What is to be reported: tiles, and whether they were on time.
    arrived: VecDeque<(TileId, bool)>,
    has_end: bool,
    is_closed: bool,
    /// GoPs that were judged.
    judged: u32,
    outgoing: VecDeque<Vec<u8>>,
    reports: VecDeque<GopReport>,
}

impl Client {
    /// A player that greets the server.
    pub fn new(settings: ClientSettings) -> Self {
        let (horizontal, vertical) = settings.fov.degrees();
        let ClientSettings { buffer, rebuffer, .. } = settings;
        let hello = Hello { fov_deg: [horizontal as f32, vertical as f32], buffer, rebuffer };
        Self {
            fov: settings.fov,
            viewport: Viewport::new(settings.fov),
            manifest: None,
            playback: Playback::new(buffer, rebuffer),
            open: BTreeMap::new(),
            held: Held::new(0),
            received: 0,
            next_report: None,
            poses: Vec::new(),
            last_pose: Orientation::default(),
            last_pose_at: None,
            set_up: BTreeSet::new(),
            arrived: VecDeque::new(),
            has_end: false,
            is_closed: false,
            judged: 0,
            outgoing: VecDeque::from([Message::Hello(hello).to_bytes()]),
            reports: VecDeque::new(),
        }
    }

    /// Takes a message of the server.
    ///
    /// # Errors
    /// If it is none or makes no sense, or if it is a refusal.
    pub fn handle_message<'a>(
        &mut self,
        bytes: &'a [u8],
        now: Instant,
    ) -> Result<Handled<'a>, LiveError> {
        self.received = self.received.saturating_add(bytes.len() as u64);
        let message = Message::decode(bytes)?;
        // A GoP's time may have come before the timer says so: the picture stands still for it already.
        self.play(now);
        let handled = self.take(message, now)?;
        // The picture may have waited for it.
        self.play(now);
        Ok(handled)
    }

    fn take<'a>(&mut self, message: Message<'a>, now: Instant) -> Result<Handled<'a>, LiveError> {
        match (message, &self.manifest) {
            (Message::Refusal { reason }, _) => Err(LiveError::Refused(reason)),
            (Message::Manifest(manifest), None) => self.take_manifest(manifest, now),
            (Message::Manifest(_), Some(_)) => {
                Err(LiveError::Order { what: "a manifest", when: "a second time" })
            }
            (Message::Hello(_) | Message::Report(_), _) => {
                Err(LiveError::Order { what: "a player's message", when: "to a player" })
            }
            (_, None) => Err(LiveError::Order { what: "a GoP", when: "before the manifest" }),
            (Message::Gop(notice), Some(_)) => self.take_notice(notice, now),
            (Message::Tile(tile), Some(_)) => self.take_tile(tile, now),
            (Message::End { gops }, Some(manifest)) if gops == manifest.gops => {
                self.has_end = true;
                Ok(Handled::Control)
            }
            // A live source has ended.
            (Message::End { gops }, Some(manifest)) if manifest.gops == 0 => self.take_end(gops),
            (Message::End { gops: number }, Some(manifest)) => {
                let count = manifest.gops;
                Err(LiveError::Number { what: "an end after GoP", number, count })
            }
        }
    }

    fn take_manifest<'a>(
        &mut self,
        manifest: Manifest,
        now: Instant,
    ) -> Result<Handled<'a>, LiveError> {
        self.held = Held::new(manifest.grid.tiles());
        let known = Some(manifest.gops).filter(|gops| *gops > 0);
        let (gop, most) = (manifest.gop, most_behind(manifest.gop, known));
        if !self.playback.handle_stream(gop, known, most) {
            let (gop_s, most_ms) = (gop.as_secs_f64(), most.as_millis());
            return Err(LiveError::Content(format!(
                "of GoPs of {gop_s} s {MAX_OPEN_GOPS} are kept at most: give --buffer {most_ms}ms or \
                 less, or have longer GoPs served"
            )));
        }
        self.manifest = Some(manifest);
        self.next_report = Some(now);
        Ok(Handled::Control)
    }

    /// Takes the number of GoPs of a stream that did not say it before.
    fn take_end<'a>(&mut self, gops: u32) -> Result<Handled<'a>, LiveError> {
        let announced = self.open.iter().rev().find(|(_, open)| open.notice.is_some());
        let least = announced.map_or(1, |(gop, _)| gop + 1).max(self.judged);
        if !(least..=MAX_GOPS as u32).contains(&gops) {
            return Err(LiveError::Number { what: "an end after GoP", number: gops, count: least });
        }
        if let Some(manifest) = &mut self.manifest {
            manifest.gops = gops;
        }
        // What would have been next may have begun meanwhile.
        self.open.retain(|gop, _| *gop < gops);
        self.playback.handle_end(gops);
        self.has_end = true;
        Ok(Handled::Control)
    }

    /// The transport says that the message of this tag will not come.
    pub fn handle_dropped(&mut self, tag: u64) {
        let id = TileId::from_tag(tag);
        let Some(id) = id.filter(|id| self.check_tile(*id).is_ok()) else { return };
        // What is over is counted.
        if let Some(open) = self.open.get_mut(&id.gop) {
            open.called_back.insert(id);
        }
    }

    /// The head is turned like this now. Returns the GoP that is judged by it, if one is shown.
    pub fn handle_pose(&mut self, orientation: Orientation, now: Instant) -> Option<u32> {
        self.tell(orientation, self.position(now), now);
        self.turn(orientation, now)
    }

    /// The head was turned like this when the picture of the time `at` in the video was seen, which is
    /// earlier than the player's own where that is shown elsewhere. One that is not after the pose before
    /// is not told to the server. The GoP that the player shows now is judged by it, and returned.
    pub fn handle_pose_at(
        &mut self,
        orientation: Orientation,
        at: Duration,
        now: Instant,
    ) -> Option<u32> {
        let at = self.position(now).map(|position| position.min(at));
        if self.last_pose_at.is_none_or(|last| at.is_some_and(|at| at > last)) {
            self.tell(orientation, at, now);
        }
        self.turn(orientation, now)
    }

    /// The head is not known to have moved: the GoP that is shown now is judged by how it was turned last, and
    /// returned. The server is told nothing.
    pub fn handle_still(&mut self, now: Instant) -> Option<u32> {
        self.turn(self.last_pose, now)
    }

    /// Notes a pose for the next report.
    fn tell(&mut self, orientation: Orientation, at: Option<Duration>, now: Instant) {
        // While the picture stands still, so does what is predicted of the head.
        let moves = self.playback.moves(now);
        let Some(at) = at.filter(|at| moves || at.is_zero()) else { return };
        self.last_pose_at = Some(at);
        let (yaw, pitch, roll) = orientation.degrees();
        // Between two reports the newest count.
        if self.poses.len() == MAX_POSES {
            self.poses.remove(0);
        }
        let degrees = [yaw as f32, pitch as f32, roll as f32];
        self.poses.push(PoseNotice { at, degrees });
    }

    /// Notes a pose for the judgement of the GoP that is shown now.
    fn turn(&mut self, orientation: Orientation, now: Instant) -> Option<u32> {
        self.last_pose = orientation;
        let at = self.position(now).filter(|_| self.playback.moves(now))?;
        let length = self.manifest.as_ref()?.gop;
        let gop = (at.as_nanos() / length.as_nanos()) as u32;
        let open = self.open.get_mut(&gop)?;
        if open.poses.len() == MAX_KEPT_POSES {
            return None;
        }
        open.poses.push(Pose { at: at.saturating_sub(length * gop), orientation });
        Some(gop)
    }

    /// How the head is turned.
    pub fn orientation(&self) -> Orientation {
        self.last_pose
    }

    /// Ends GoPs whose time is over, and reports.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.play(now);
        if self.next_report.is_some_and(|at| at <= now) {
            self.report(now);
            self.next_report = (!self.is_done()).then(|| now + REPORT_EVERY);
        }
    }

    /// Nothing more comes: GoPs are judged by what is there.
    pub fn handle_closed(&mut self) {
        self.is_closed = true;
        self.judge();
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.playback.poll_timeout(), self.next_report].into_iter().flatten().min()
    }

    /// What is to be sent next.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.outgoing.pop_front()
    }

    /// A GoP that is over.
    pub fn poll_event(&mut self) -> Option<GopReport> {
        self.reports.pop_front()
    }

    /// What the stream is, once the server has said so.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// The time in the video: that of its beginning until it plays, `None` before the first GoP has
    /// been announced.
    pub fn position(&self, now: Instant) -> Option<Duration> {
        self.playback.position(now)
    }

    /// How many GoPs have begun to be shown.
    pub fn begun(&self) -> u32 {
        self.playback.begun().min(self.gops())
    }

    /// Whether the picture moves: it has begun, and does not stand still.
    pub fn moves(&self, now: Instant) -> bool {
        self.playback.moves(now)
    }

    /// How long the picture has stood still since it began, what is under way included.
    pub fn stalled(&self, now: Instant) -> Duration {
        self.playback.stalled(now)
    }

    /// When the first GoP was shown: the end of the start-up (ITU-T P.1203's initial loading).
    pub fn first_shown(&self) -> Option<Instant> {
        self.playback.first_shown()
    }

    /// Whether the last GoP has been shown and judged.
    pub fn is_done(&self) -> bool {
        self.all_shown() && self.open.is_empty()
    }

    /// Whether the last GoP has been shown: what is still to be judged waits for the server's word.
    pub fn has_shown_all(&self) -> bool {
        self.all_shown()
    }

    /// Whether the server has said that no more GoPs come.
    pub fn has_end(&self) -> bool {
        self.has_end
    }

    /// What its viewport spans.
    pub fn fov(&self) -> FieldOfView {
        self.fov
    }

    /// How many GoPs there are, or may be.
    fn gops(&self) -> u32 {
        self.manifest.as_ref().map_or(0, |manifest| match manifest.gops {
            0 => MAX_GOPS as u32,
            gops => gops,
        })
    }

    fn all_shown(&self) -> bool {
        self.playback.is_over()
    }

    /// Shows what is due, and judges what is over.
    fn play(&mut self, now: Instant) {
        let Some(grid) = self.manifest.as_ref().map(|manifest| manifest.grid) else { return };
        loop {
            let (open, viewport, pose) = (&self.open, &self.viewport, self.last_pose);
            let is_ready = |gop: u32| {
                let seen = viewport.visibility(grid, pose).share;
                let mut looked_at = (0..grid.tiles()).filter(|tile| seen[*tile] > 0.0);
                open.get(&gop).is_some_and(|open| {
                    open.is_sound_settled() && looked_at.all(|tile| open.is_settled(tile))
                })
            };
            let Some(stood) = self.playback.go_on(now, is_ready) else { break };
            let next = self.playback.current();
            if let Some(open) = self.open_gop(next) {
                open.stalled += stood;
            }
        }
        self.judge();
    }

    /// The place of a GoP, made if it is not over.
    fn open_gop(&mut self, gop: u32) -> Option<&mut OpenGop> {
        let is_over = gop < self.playback.current();
        if gop >= self.gops() || (is_over && !self.open.contains_key(&gop)) {
            return None;
        }
        Some(self.open.entry(gop).or_default())
    }

    fn check_gop(&self, gop: u32) -> Result<(), LiveError> {
        let most = self.gops().min(self.playback.current().saturating_add(MAX_OPEN_GOPS));
        if gop < most {
            return Ok(());
        }
        Err(LiveError::Number { what: "GoP", number: gop, count: most })
    }

    /// Whether there is such a tile, in any GoP.
    fn check_tile(&self, id: TileId) -> Result<(), LiveError> {
        let (number, count) = (u32::from(id.tile), self.held.tiles() as u32);
        let has_sound = self.manifest.as_ref().is_some_and(|manifest| manifest.sound.is_some());
        if has_sound && id == TileId::sound(id.gop) {
            return Ok(());
        }
        if number >= count {
            return Err(LiveError::Number { what: "tile", number, count });
        }
        let qps = self.manifest.as_ref().map_or(&[][..], |manifest| &manifest.qps);
        if qps.contains(&id.qp) {
            return Ok(());
        }
        Err(LiveError::Number { what: "QP", number: id.qp.into(), count: qps.len() as u32 })
    }

    fn take_notice<'a>(
        &mut self,
        notice: GopNotice,
        now: Instant,
    ) -> Result<Handled<'a>, LiveError> {
        let (number, count) = (notice.tiles.len() as u32, self.held.tiles() as u32);
        if number != count {
            return Err(LiveError::Number { what: "a number of tiles", number, count });
        }
        self.check_gop(notice.gop)?;
        if self.playback.handle_notice(notice.gop, now) {
            self.open_gop(0);
        }
        if let Some(open) = self.open_gop(notice.gop) {
            if open.notice.is_some() {
                return Err(LiveError::Order { what: "a GoP's plan", when: "a second time" });
            }
            open.notice = Some(notice);
        }
        Ok(Handled::Control)
    }

    fn take_tile<'a>(&mut self, tile: Tile<'a>, now: Instant) -> Result<Handled<'a>, LiveError> {
        let id = tile.id;
        self.check_tile(id)?;
        self.check_gop(id.gop)?;
        let on_time = self.playback.is_in_time(id.gop, now);
        let is_set_up = !tile.init.is_empty() || self.set_up.contains(&(id.tile, id.qp));
        if !is_set_up || !tile.is_genuine() {
            // It is as good as lost. The server is not told that it is there.
            if let Some(open) = self.open_gop(id.gop) {
                open.damaged.insert(id);
            }
            return Ok(Handled::Tile { tile, on_time, is_genuine: false });
        }
        self.set_up.insert((id.tile, id.qp));
        let bytes = tile.segment.len() as u64;
        let mut is_new = true;
        if let Some(open) = self.open_gop(id.gop) {
            let qps = open.arrived.get(&id.tile);
            is_new = !qps.is_some_and(|qps| qps.contains(&id.qp)) && !open.late.contains(&id);
            match (is_new, on_time) {
                (false, _) => {}
                (true, true) => {
                    open.arrived.entry(id.tile).or_default().push(id.qp);
                    let sum = if id.is_sound() { &mut open.sound_bytes } else { &mut open.bytes };
                    *sum += bytes;
                }
                (true, false) => {
                    open.late.insert(id);
                    open.late_bytes += bytes;
                }
            }
        }
        // The oldest that were not reported are given up: nothing depends on them.
        if is_new {
            if self.arrived.len() == 4 * MAX_REPORTED {
                self.arrived.pop_front();
            }
            self.arrived.push_back((id, on_time));
        }
        Ok(Handled::Tile { tile, on_time, is_genuine: true })
    }

    fn report(&mut self, now: Instant) {
        // One that does not go out waits, and the next has what both would say.
        if !self.outgoing.is_empty() {
            return;
        }
        let count = self.arrived.len().min(MAX_REPORTED);
        let report = Report {
            received: self.received,
            stalled: self.playback.stalled(now),
            poses: std::mem::take(&mut self.poses),
            arrived: self.arrived.drain(..count).collect(),
        };
        self.outgoing.push_back(Message::Report(report).to_bytes());
    }

    /// Judges the GoPs that are over, in their order: those on which the server's word is there,
    /// and those that are waited for no longer.
    fn judge(&mut self) {
        while let Some((&gop, open)) = self.open.first_key_value() {
            let current = self.playback.current();
            let is_over = gop < current;
            let is_young = current.saturating_sub(gop) < MAX_OPEN_GOPS;
            if !is_over || (open.notice.is_none() && is_young && !self.is_closed) {
                return;
            }
            let Some(open) = self.open.remove(&gop) else { return };
            self.judged = gop + 1;
            let report = self.judge_gop(gop, &open);
            self.reports.push_back(report);
        }
    }

    /// Whether the sound of a GoP was there in time, if it has any.
    fn sound_of(&self, open: &OpenGop) -> Option<bool> {
        let has_sound = self.manifest.as_ref()?.sound.is_some();
        has_sound.then_some(open.sound_bytes > 0)
    }

    fn judge_gop(&mut self, gop: u32, open: &OpenGop) -> GopReport {
        let mut report = GopReport { sound: self.sound_of(open), ..open.report(gop) };
        let Some(notice) = &open.notice else {
            report.arrived = open.arrived.keys().filter(|tile| **tile != TileId::SOUND).count();
            report.late = self.held.tiles() - report.arrived;
            return report;
        };
        report.expected = notice.expected;
        let mut losses = Vec::with_capacity(notice.tiles.len());
        let concealment = self.manifest.as_ref().map(|manifest| manifest.concealment);
        for (tile, told) in (0_u16..).zip(&notice.tiles) {
            let qps = open.arrived.get(&tile).map_or(&[][..], Vec::as_slice);
            let has = |qp: u8| qps.contains(&qp);
            let base = told.base.filter(|base| told.planned.is_none_or(|p| p.qp != base.qp));
            report.planned += [told.planned, base].iter().flatten().map(|r| bytes_of(*r)).sum();
            report.base_arrived += usize::from(told.base.is_some_and(|base| has(base.qp)));
            let (planned, base) = (told.planned.map(encoding), told.base.map(encoding));
            let (fate, best) = Wanted { planned, base }.outcome(has);
            match fate {
                Fate::Dropped => report.dropped += 1,
                Fate::Arrived => report.arrived += 1,
                Fate::Late => {
                    report.late += 1;
                    let is_it =
                        |id: &&TileId| (id.tile, Some(id.qp)) == (tile, planned.map(|p| p.qp));
                    report.called_back += open.called_back.iter().filter(is_it).count();
                    report.damaged += open.damaged.iter().filter(is_it).count();
                }
            }
            let (tile, gop) = (usize::from(tile), gop as usize);
            let changes: Vec<f64> = told.changes.iter().map(|change| f64::from(*change)).collect();
            let grey = f64::from(told.grey);
            let concealments = Concealments { grey, changes: &changes };
            report.concealed += usize::from(best.is_none());
            let (shown, loss) = match (best, concealment) {
                (Some(best), _) => (Shown::Rung(best.qp), best.loss),
                (None, None) => (Shown::Grey, grey),
                (None, Some(concealment)) => {
                    self.held.conceal(concealment, gop, tile, concealments)
                }
            };
            report.shown.push(shown);
            losses.push(loss);
            if let Some(best) = best {
                self.held.note(tile, gop, best);
            }
        }
        if let Some(manifest) = &self.manifest {
            // One that was never looked at is judged by how the head was turned last.
            if open.poses.is_empty() {
                let orientation = self.last_pose;
                report.poses.push(Pose { at: Duration::ZERO, orientation });
            }
            let poses = if open.poses.is_empty() { &report.poses } else { &open.poses };
            let grid = manifest.grid;
            let share = |pose: &Pose| self.viewport.visibility(grid, pose.orientation).share;
            let shares = poses.iter().map(share);
            let (mse, psnr) = viewport_error(grid, shares, &losses);
            (report.mse, report.mean_psnr_db) = (Some(mse), Some(psnr));
        }
        report
    }
}

/// How long after it was announced a GoP may be shown, so that none is announced before there is room for it.
fn most_behind(gop: Duration, gops: Option<u32>) -> Duration {
    if gops.is_some_and(|gops| gops <= MAX_OPEN_GOPS) {
        return Duration::MAX;
    }
    // The one that is shown is open, too.
    (gop * (MAX_OPEN_GOPS - 1)).saturating_sub(UNEVEN.max(gop))
}

fn bytes_of(rung: RungNotice) -> ByteCount {
    ByteCount::new(rung.bytes.into())
}

fn encoding(rung: RungNotice) -> Encoding {
    Encoding { qp: rung.qp, loss: rung.ws_mse.into() }
}
