//! `vr play --web`: browsers show the stream, and the head of one of their viewers is the player's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weftline::Fingerprint;
use weftline_core::Instant;
use weftline_video::geometry::{FieldOfView, Orientation, Viewport};
use weftline_video::live::wire::{GopNotice, Manifest, Message, PoseNotice, Tile};
use weftline_video::live::{Client, GopReport, MAX_OPEN_GOPS};
use weftline_video::shown::{
    Concealment, Concealments, Encoding, Held, Wanted, capped_psnr_db, viewport_error,
};
use weftline_web::{OpenError, PlayerPage, Program, Settings, Shown, Stage, Tls};

use crate::failure::Failure;
use crate::ops::DashboardPlace;

/// GoPs of which it is known what the player counts as shown: those to come, as many as there may be, and as
/// many that have begun, of which pages tell within some.
const KEPT: usize = 2 * MAX_OPEN_GOPS as usize;
/// How long pages have for the last pictures.
const LAST: Duration = Duration::from_secs(3);
/// How long they have to leave.
const FAREWELL: Duration = Duration::from_secs(2);

/// The stream in browsers, as long as this lives.
pub(crate) struct Web {
    stage: Arc<Stage>,
    page: PlayerPage,
    fov: FieldOfView,
    viewport: Viewport,
    log: Option<ShownLog>,
    manifest: Option<Manifest>,
    /// How many GoPs have begun.
    begun: u32,
    /// How long the picture had stood still when the newest of them began.
    stalled: Duration,
    gops: BTreeMap<u32, Gop>,
    /// What the player holds of each tile of the GoPs before `noted`: all that have begun, or those before the
    /// first on which the server's word has not come yet.
    holds: Held,
    noted: u32,
    /// What each page holds.
    held: BTreeMap<u64, Held>,
}

/// What a page has shown of each tile, as [`Shown::tiles`].
type Tiles = Vec<(Option<u8>, u16)>;

/// What the player counts as shown of a GoP.
#[derive(Default)]
struct Gop {
    notice: Option<GopNotice>,
    /// Of each tile, the QPs that were there in time.
    there: BTreeMap<u16, BTreeSet<u8>>,
    /// By what the player judges it, until it has.
    poses: Vec<Orientation>,
    /// Then the mean over them of each tile's share of the viewport.
    seen: Option<Vec<f64>>,
    /// What the player holds of each tile of the GoPs before, once that is known.
    held: Option<Held>,
    /// What pages have told before the server's word came, by their numbers.
    told: Vec<(u64, Tiles)>,
    /// What the player says of it.
    psnr_db: Option<f64>,
}

impl Gop {
    /// The best of a tile that was there in time.
    fn best(&self, tile: u16) -> Option<Encoding> {
        let told = self.notice.as_ref()?.tiles.get(usize::from(tile))?;
        let encoding = |rung: weftline_video::live::wire::RungNotice| Encoding {
            qp: rung.qp,
            loss: rung.ws_mse.into(),
        };
        let wanted = Wanted { planned: told.planned.map(encoding), base: told.base.map(encoding) };
        wanted.outcome(|qp| self.there.get(&tile).is_some_and(|qps| qps.contains(&qp))).1
    }

    /// The QP of a tile that the player counts as shown. Without the server's word on the GoP a page shows the
    /// finest that is there.
    fn counts(&self, tile: u16) -> Option<u8> {
        match &self.notice {
            Some(_) => self.best(tile).map(|best| best.qp),
            None => self.there.get(&tile)?.first().copied(),
        }
    }

    /// What an encoding of a tile loses, if it is one that is sent.
    fn encoding(&self, tile: u16, qp: u8) -> Option<Encoding> {
        let told = self.notice.as_ref()?.tiles.get(usize::from(tile))?;
        let mut sent = told.planned.iter().chain(&told.base);
        let rung = sent.find(|rung| rung.qp == qp)?;
        Some(Encoding { qp, loss: rung.ws_mse.into() })
    }

    /// Notes what the player has of this GoP, which is the `number`th.
    fn note(&self, held: &mut Held, number: u32) {
        for tile in 0..held.tiles() {
            if let Some(best) = self.best(tile as u16) {
                held.note(tile, number as usize, best);
            }
        }
    }

    /// Notes what a page has shown of it.
    fn note_shown(&self, held: &mut Held, number: u32, tiles: &[(Option<u8>, u16)]) {
        for (tile, (qp, _)) in tiles.iter().enumerate() {
            if let Some(encoding) = qp.and_then(|qp| self.encoding(tile as u16, qp)) {
                held.note(tile, number as usize, encoding);
            }
        }
    }
}

impl Web {
    /// Opens the page, and the log of what pages show.
    ///
    /// # Errors
    /// When the address cannot be had, or the file cannot be written.
    pub(crate) async fn open(
        place: &DashboardPlace,
        secured: Option<&Secured>,
        shown: Option<&Path>,
        fov: FieldOfView,
    ) -> Result<Self, Failure> {
        let log = shown.map(ShownLog::new).transpose().map_err(Failure::failed)?;
        let stage = Arc::new(Stage::new());
        let page = PlayerPage::open(&settings(place, secured), Arc::clone(&stage))
            .await
            .map_err(failure)?;
        Ok(Self {
            stage,
            page,
            fov,
            viewport: Viewport::new(fov),
            log,
            manifest: None,
            begun: 0,
            stalled: Duration::ZERO,
            gops: BTreeMap::new(),
            holds: Held::new(0),
            noted: 0,
            held: BTreeMap::new(),
        })
    }

    /// The address of the page.
    pub(crate) fn url(&self) -> &str {
        self.page.url()
    }

    /// A message that is no tile has come and was understood.
    pub(crate) fn message(&mut self, bytes: &[u8]) {
        match Message::decode(bytes) {
            Ok(Message::Manifest(manifest)) => {
                self.stage.manifest(bytes, manifest.grid.tiles());
                self.holds = Held::new(manifest.grid.tiles());
                self.manifest = Some(manifest);
            }
            Ok(Message::Gop(notice)) => {
                self.stage.notice(notice.gop, bytes);
                let number = notice.gop;
                let gop = self.gop(number);
                gop.notice = Some(notice);
                let told = std::mem::take(&mut gop.told);
                for (page, tiles) in told {
                    if let (Some(gop), Some(held)) =
                        (self.gops.get(&number), self.held.get_mut(&page))
                    {
                        gop.note_shown(held, number, &tiles);
                    }
                }
            }
            _ => {}
        }
    }

    /// A tile has come, as it was packaged.
    pub(crate) fn tile(&mut self, tile: &Tile<'_>, on_time: bool) {
        self.stage.tile(tile, on_time);
        if on_time && !tile.id.is_sound() {
            self.gop(tile.id.gop).there.entry(tile.id.tile).or_default().insert(tile.id.qp);
        }
    }

    fn gop(&mut self, gop: u32) -> &mut Gop {
        while self.gops.len() >= KEPT && !self.gops.contains_key(&gop) {
            let Some((number, old)) = self.gops.pop_first() else { break };
            // What it brought is held all the same.
            if number >= self.noted {
                old.note(&mut self.holds, number);
                self.noted = number + 1;
            }
        }
        self.gops.entry(gop).or_default()
    }

    /// Tells pages what the player shows now.
    pub(crate) fn follow(&mut self, client: &Client, now: Instant) {
        let begun = client.begun();
        while self.begun < begun {
            let stalled = client.stalled(now);
            self.stage.begin(self.begun, stalled > self.stalled);
            self.stalled = stalled;
            self.hold();
            self.begun += 1;
        }
        if let Some(position) = client.position(now) {
            self.stage.clock(position, client.moves(now));
        }
    }

    /// Notes what the player holds of the GoPs that have begun, up to the first on which the server's word has
    /// not come.
    fn hold(&mut self) {
        while self.noted < self.begun {
            let gop = self.gops.entry(self.noted).or_default();
            if gop.notice.is_none() {
                return;
            }
            gop.held = Some(self.holds.clone());
            gop.note(&mut self.holds, self.noted);
            self.noted += 1;
        }
    }

    /// What the player holds of each tile when a GoP begins; `None` where that is not known any more.
    fn held_before(&self, number: u32) -> Option<Held> {
        let gop = self.gops.get(&number).filter(|_| number < self.begun)?;
        if let Some(held) = &gop.held {
            return Some(held.clone());
        }
        // Of those on which the server's word has not come it is not known yet.
        let mut held = self.holds.clone();
        for (before, gop) in self.gops.range(self.noted.min(number)..number) {
            gop.note(&mut held, *before);
        }
        Some(held)
    }

    /// Where the viewer of the page that steers looks; `None` when nobody watches.
    pub(crate) fn pose(&self) -> Option<PoseNotice> {
        self.stage.pose()
    }

    /// Whether a page watches.
    pub(crate) fn is_watched(&self) -> bool {
        self.stage.viewers() > 0
    }

    /// The player's head is turned so, and a GoP is judged by that.
    pub(crate) fn looked(&mut self, gop: u32, orientation: Orientation) {
        self.gop(gop).poses.push(orientation);
    }

    /// What each path brings: its name, its rate in Mb/s, and whether it is up. With it goes the angle that
    /// is planned for.
    pub(crate) fn sample(&self, paths: &[(String, f64, bool)]) {
        let fov = self.fov.degrees().0;
        self.stage.sample(&json!({ "paths": paths, "fov": fov }).to_string());
    }

    /// A GoP is over, and the head is turned so.
    pub(crate) fn report(&mut self, report: &GopReport, orientation: Orientation) {
        let psnr_db = report.psnr_db();
        let grid = self.manifest.as_ref().map(|manifest| manifest.grid);
        let poses = std::mem::take(&mut self.gop(report.gop).poses);
        if let Some(grid) = grid.filter(|_| self.log.is_some()) {
            let poses = if poses.is_empty() { vec![orientation] } else { poses };
            let mut seen = vec![0.0; grid.tiles()];
            for pose in &poses {
                let share = self.viewport.visibility(grid, *pose).share;
                seen.iter_mut().zip(&share).for_each(|(sum, share)| *sum += share);
            }
            seen.iter_mut().for_each(|sum| *sum /= poses.len() as f64);
            self.gop(report.gop).seen = Some(seen);
        }
        self.gop(report.gop).psnr_db = psnr_db;
        let line = json!({
            "gop": report.gop,
            "arrived": report.arrived,
            "late": report.late,
            "dropped": report.dropped,
            "psnr_db": psnr_db,
            "stalled_s": report.stalled.as_secs_f64(),
        });
        self.stage.report(&line.to_string());
    }

    /// Writes what pages have shown since.
    ///
    /// # Errors
    /// What cannot be written, and why.
    pub(crate) fn note_shown(&mut self) -> Result<(), String> {
        // One that leaves now may have told before.
        let pages = self.stage.pages();
        for (page, shown) in self.stage.take_shown() {
            if self.log.is_none() {
                continue;
            }
            let Some(line) = self.line(page, &shown) else {
                let gop = shown.gop;
                tracing::warn!(
                    "--shown: page {page} tells too late of GoP {gop}, which has no line"
                );
                continue;
            };
            if let Some(log) = &mut self.log {
                log.line(&line)?;
            }
        }
        self.held.retain(|page, _| pages.contains(page));
        Ok(())
    }

    /// What a page has shown, beside what the player counts as shown; `None` if that is not known any more.
    fn line(&mut self, page: u64, shown: &Shown) -> Option<String> {
        self.hold();
        let model = self.held_before(shown.gop)?;
        let (psnr_db, held_other) = self.judge(page, shown, &model).unzip();
        let gop = self.gops.get(&shown.gop)?;
        let model: Vec<Option<u8>> =
            (0..shown.tiles.len() as u16).map(|tile| gop.counts(tile)).collect();
        let (tiles, missed): (Vec<_>, Vec<_>) = shown.tiles.iter().copied().unzip();
        let line = json!({
            "schema": 1,
            "gop": shown.gop,
            "page": page,
            "pictures_shown": shown.shown,
            "pictures_dropped": shown.dropped,
            "late_network": shown.late_network,
            "late_decoding": shown.late_decoding,
            "lead_ms": shown.lead_ms,
            "model_psnr_db": gop.psnr_db,
            "shown_psnr_db": psnr_db,
            "model": model,
            "had": shown.had,
            "shown": tiles,
            "missed": missed,
            "unsent": shown.unsent,
            "held_other": held_other.unwrap_or(0),
        });
        Some(line.to_string())
    }

    /// The viewport's PSNR by what a page has shown, as the player judges what arrived; and how many tiles
    /// were concealed on it by something else than at the player.
    fn judge(&mut self, page: u64, shown: &Shown, model: &Held) -> Option<(f64, u32)> {
        let manifest = self.manifest.as_ref()?;
        let gop = self.gops.get_mut(&shown.gop)?;
        // A page that comes later is sent what the player holds.
        let held = self.held.entry(page).or_insert_with(|| model.clone());
        let Some(notice) = &gop.notice else {
            gop.told.push((page, shown.tiles.clone()));
            return None;
        };
        let (mut losses, mut other) = (Vec::with_capacity(shown.tiles.len()), 0);
        let number = shown.gop as usize;
        for (tile, (told, (qp, missed))) in notice.tiles.iter().zip(&shown.tiles).enumerate() {
            let changes: Vec<f64> = told.changes.iter().map(|change| f64::from(*change)).collect();
            let old = Concealments { grey: f64::from(told.grey), changes: &changes };
            let encoding = qp.and_then(|qp| gop.encoding(tile as u16, qp));
            losses.push(if let Some(encoding) = encoding {
                // Where a picture of it was not decoded in time, the one before it stays.
                let stale = held.conceal(Concealment::LastReceived, number, tile, old).1;
                let share = f64::from(*missed) / f64::from(shown.shown.max(1));
                encoding.loss * (1.0 - share) + stale * share
            } else {
                let (by, loss) = held.conceal(manifest.concealment, number, tile, old);
                other += u32::from(by != model.conceal(manifest.concealment, number, tile, old).0);
                loss
            });
        }
        gop.note_shown(held, shown.gop, &shown.tiles);
        // The mean of the errors is the error of the mean.
        let seen = [gop.seen.as_ref()?];
        Some((capped_psnr_db(viewport_error(manifest.grid, seen, &losses).0), other))
    }

    /// The stream is over, or broke off for a reason: pages show what they have, and are told.
    ///
    /// # Errors
    /// What of their last words cannot be written, and why.
    pub(crate) async fn finish(&mut self, reason: Option<&str>) -> Result<(), String> {
        let wait = async |most: Duration, done: &dyn Fn(&Stage) -> bool| {
            let end = tokio::time::Instant::now() + most;
            while !done(&self.stage) && tokio::time::Instant::now() < end {
                tokio::time::sleep(super::TICK).await;
            }
        };
        if reason.is_none() {
            wait(LAST, &|stage| stage.have_told(self.begun)).await;
        }
        self.stage.end(reason);
        wait(FAREWELL, &|stage| stage.viewers() == 0).await;
        self.note_shown()
    }
}

/// What the page shows over TLS, and the fingerprint of its certificate.
pub(crate) struct Secured {
    tls: Tls,
    pub(crate) fingerprint: Fingerprint,
}

/// A certificate and its key, which are read once each: either may be a pipe.
///
/// # Errors
/// When one cannot be read, or they cannot be used.
pub(crate) fn secured(cert: &Path, key: &Path) -> Result<Secured, Failure> {
    let failed = |file: &Path, error: &dyn std::fmt::Display| {
        Failure::failed(format!("--web-tls: {}: {error}", file.display()))
    };
    let read = |file: &Path| std::fs::read(file).map_err(|error| failed(file, &error));
    let chain = read(cert)?;
    let own = if key == cert { None } else { Some(read(key)?) };
    let tls = Tls::new(&chain, own.as_ref().unwrap_or(&chain));
    let tls = tls.map_err(|error| failed(cert, &error))?;
    let fingerprint = Fingerprint::of(tls.certificate());
    Ok(Secured { tls, fingerprint })
}

fn settings(place: &DashboardPlace, secured: Option<&Secured>) -> Settings {
    let tls = secured.map(|secured| secured.tls.clone());
    let (address, names) = (place.address, place.names.clone());
    Settings { address, names, program: Program::Player, tls }
}

/// Refuses a place where no page can be, on any machine.
///
/// # Errors
/// When the address is reached from other machines and there is neither TLS nor the name of a proxy, or a name
/// is none.
pub(crate) fn check(place: &DashboardPlace, has_tls: bool) -> Result<(), Failure> {
    settings(place, None).check(has_tls).map_err(failure)
}

fn failure(error: OpenError) -> Failure {
    match &error {
        OpenError::NotLoopback(address) => Failure::wrong_use(format!(
            "--web {address} is reached from other machines; add --web-tls, or choose an address of \
             127.0.0.1 and reach it by ssh -L, or put a proxy with TLS before it and name it: \
             --behind-proxy NAME"
        )),
        OpenError::Everywhere(_) => Failure::wrong_use(format!("--web {error}")),
        OpenError::Name(_) => Failure::wrong_use(error),
        OpenError::Bind { .. } | OpenError::Random => Failure::failed(format!("--web {error}")),
    }
}

/// A JSON object on a line for each GoP and page.
struct ShownLog {
    path: PathBuf,
    out: File,
}

impl ShownLog {
    fn new(path: &Path) -> Result<Self, String> {
        let out = File::create(path).map_err(|error| wrong(path, &error))?;
        Ok(Self { path: path.to_owned(), out })
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let written = self.out.write_all(format!("{line}\n").as_bytes());
        written.map_err(|error| wrong(&self.path, &error))
    }
}

fn wrong(path: &Path, error: &std::io::Error) -> String {
    format!("--shown: cannot write {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use weftline_core::ByteCount;
    use weftline_video::geometry::{FrameSize, Grid};
    use weftline_video::live::ClientSettings;
    use weftline_video::live::wire::{RungNotice, TileDigests, TileId, TileNotice};

    use super::*;

    const GOP_MS: u64 = 500;
    const TILES: u16 = 8;

    fn manifest() -> Vec<u8> {
        let manifest = Manifest {
            frame: FrameSize::new(384, 192).unwrap(),
            grid: Grid::new(4, 2).unwrap(),
            gop: Duration::from_millis(GOP_MS),
            gop_frames: 4,
            gops: 400,
            concealment: Concealment::LastReceived,
            scheme: "ows".to_owned(),
            qps: vec![22, 37],
            sound: None,
        };
        Message::Manifest(manifest).to_bytes()
    }

    fn notice(gop: u32) -> Vec<u8> {
        let rung = |tile: u16| Some(RungNotice { qp: 22, bytes: 5, ws_mse: 1.0 + f32::from(tile) });
        let tile = |tile| TileNotice {
            planned: rung(tile),
            grey: 900.0,
            changes: vec![40.0, 50.0],
            ..TileNotice::default()
        };
        let tiles = (0..TILES).map(tile).collect();
        Message::Gop(GopNotice { gop, expected: ByteCount::ZERO, sound: 0, tiles }).to_bytes()
    }

    fn tile(gop: u32, tile: u16) -> Vec<u8> {
        let (init, segment) = (&b"init"[..], &b"bytes"[..]);
        let (id, digests) = (TileId { gop, tile, qp: 22 }, TileDigests::of(init, segment));
        Message::Tile(Tile { id, init, segment, digests }).to_bytes()
    }

    async fn open(log: &Path) -> Web {
        let place = DashboardPlace { address: "127.0.0.1:0".parse().unwrap(), names: Vec::new() };
        Web::open(&place, None, Some(log), FieldOfView::default()).await.unwrap()
    }

    /// What a page tells that has shown all of a GoP that was there.
    fn all(web: &Web, gop: u32) -> Shown {
        let had: Vec<_> = (0..TILES).map(|tile| web.gops[&gop].counts(tile)).collect();
        let tiles = had.iter().map(|qp| (*qp, 0)).collect();
        Shown { gop, shown: 4, tiles, had, ..Shown::default() }
    }

    /// The player and the page judge a GoP by the same poses, however the head turns and however far behind the
    /// page is.
    #[tokio::test]
    async fn a_page_that_shows_all_is_judged_as_the_player() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut web = open(log.path()).await;
        let buffer = Some(Duration::from_millis(GOP_MS));
        let mut client = Client::new(ClientSettings { buffer, ..ClientSettings::default() });
        let at = Instant::from_millis;
        client.handle_message(&manifest(), at(0)).unwrap();
        web.message(&manifest());
        for ms in (0..5 * GOP_MS).step_by(50) {
            if ms % GOP_MS == 0 {
                let gop = (ms / GOP_MS) as u32;
                client.handle_message(&notice(gop), at(ms)).unwrap();
                web.message(&notice(gop));
                // One tile never comes, and one only once.
                for which in (1..TILES).filter(|which| *which != 2 || gop == 0) {
                    let bytes = tile(gop, which);
                    client.handle_message(&bytes, at(ms)).unwrap();
                    let Ok(Message::Tile(tile)) = Message::decode(&bytes) else { panic!() };
                    web.tile(&tile, true);
                }
            }
            let seen = Duration::from_millis(ms.saturating_sub(2 * GOP_MS));
            let orientation = Orientation::from_degrees(ms as f64 * 0.7 % 360.0 - 180.0, 10.0, 0.0);
            if let Some(gop) = client.handle_pose_at(orientation, seen, at(ms)) {
                web.looked(gop, orientation);
            }
            client.handle_timeout(at(ms));
            web.follow(&client, at(ms));
            while let Some(report) = client.poll_event() {
                web.report(&report, client.orientation());
            }
        }
        for gop in 0..3 {
            let shown = all(&web, gop);
            let line: serde_json::Value =
                serde_json::from_str(&web.line(0, &shown).unwrap()).unwrap();
            let [model, page] =
                ["model_psnr_db", "shown_psnr_db"].map(|key| line[key].as_f64().unwrap());
            assert!((model - page).abs() < 1e-6, "GoP {gop}: {line}");
            assert_eq!((&line["held_other"], &line["had"]), (&json!(0), &line["model"]), "{line}");
        }
    }

    /// The server's word on a GoP may come when the next ones have begun and a page has told of it: what the GoP
    /// brought conceals the next ones all the same.
    #[tokio::test]
    async fn what_a_gop_brought_is_held_though_its_notice_is_late() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut web = open(log.path()).await;
        web.message(&manifest());
        for (gop, tiles) in [(0, 4), (1, TILES), (2, 0)] {
            if gop != 1 {
                web.message(&notice(gop));
            }
            for which in 0..tiles {
                let bytes = tile(gop, which);
                let Ok(Message::Tile(tile)) = Message::decode(&bytes) else { panic!() };
                web.tile(&tile, true);
            }
            web.hold();
            web.begun += 1;
            web.gop(gop).seen = Some(vec![1.0 / f64::from(TILES); TILES.into()]);
        }
        assert!(web.line(0, &all(&web, 1)).is_some());
        web.message(&notice(1));
        let line: serde_json::Value =
            serde_json::from_str(&web.line(0, &all(&web, 2)).unwrap()).unwrap();
        assert_eq!(line["held_other"], 0, "{line}");
        let held = web.held_before(2).unwrap();
        for tile in 0..usize::from(TILES) {
            let old = Concealments { grey: 900.0, changes: &[40.0, 50.0] };
            let (_, loss) = held.conceal(Concealment::LastReceived, 2, tile, old);
            assert_eq!(loss, 41.0 + tile as f64, "tile {tile}");
        }
    }

    /// With a buffer of many GoPs a GoP is known until its pages tell of it; one that is not has no line.
    #[tokio::test]
    async fn a_gop_is_known_until_pages_tell_of_it() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut web = open(log.path()).await;
        web.message(&manifest());
        for gop in 0..MAX_OPEN_GOPS + 10 {
            web.message(&notice(gop));
            if let Some(begun) = gop.checked_sub(MAX_OPEN_GOPS) {
                web.hold();
                web.begun = begun + 1;
            }
        }
        assert!(web.line(0, &all(&web, 0)).is_some());
        for gop in MAX_OPEN_GOPS..3 * MAX_OPEN_GOPS {
            web.message(&notice(gop));
        }
        let shown = Shown { gop: 0, ..Shown::default() };
        assert_eq!(web.line(0, &shown), None);
    }
}
