//! Streams in memory: a server and a player in virtual time, with a network between them that does
//! what a test says.

mod clocks;
mod hostile;
mod messages;
mod pages;
mod plans;
mod sound;
mod source;
mod stalls;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use weftline_core::rng::Rng;
use weftline_core::{Bitrate, ByteCount, Instant};

use super::wire::*;
use super::*;
use crate::geometry::{FrameSize, Grid, Orientation};
use crate::ows::{Entry, Recency, SearchBudget};
use crate::rd::{GopTable, RdTable, Rung, TileTable};
use crate::shown::Concealment;

const GOP: Duration = Duration::from_millis(500);
const TILES: usize = 8;
/// QP, bytes, mean squared error of a pixel.
const RUNGS: [(u8, u64, f64); 3] = [(22, 4_000, 2.0), (32, 1_000, 10.0), (42, 250, 50.0)];

fn content(gops: u32) -> Arc<Content> {
    let grid = Grid::new(4, 2).unwrap();
    let part = |tile, mse| mse * grid.solid_angle(tile) / (4.0 * std::f64::consts::PI);
    let rung = |tile, (qp, bytes, mse)| Rung {
        qp,
        bytes: ByteCount::new(bytes),
        ws_mse: part(tile, mse),
        mixed_mse: None,
    };
    let tile = |tile| TileTable::new(RUNGS.map(|r| rung(tile, r)).to_vec()).unwrap();
    let gop = || GopTable::new((0..TILES).map(tile).collect()).unwrap();
    let table = RdTable::new(4, 2, GOP, vec![gop(), gop(), gop()]).unwrap();
    let frame = FrameSize::new(256, 128).unwrap();
    Arc::new(Content::new(frame, 15, table, None, None, Some(gops)).unwrap())
}

fn settings(concealment: Concealment) -> ServerSettings {
    ServerSettings {
        scheme: Entry::find("ows").unwrap(),
        concealment,
        start: Bitrate::mbps(10),
        recency: Recency::default(),
        search_units: SearchBudget::DEFAULT_UNITS,
    }
}

/// What becomes of a tile on its way.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives(Duration),
    /// Twice.
    Doubled(Duration),
    /// The transport drops it, and says so.
    CalledBack,
    /// Its bytes are not those of the package.
    Spoiled(Duration),
    /// It is never heard of again.
    Lost,
}

enum InFlight {
    ToClient(Vec<u8>),
    ToServer(Vec<u8>),
    CalledBack(u64),
}

struct World {
    /// By the server's clock.
    now: Instant,
    /// By so many millionths the player's clock goes faster.
    gains: u64,
    server: Server,
    client: Client,
    in_flight: BTreeMap<(Instant, u64), InFlight>,
    count: u64,
    carried: u64,
    reports: Vec<GopReport>,
    planned: Vec<PlannedGop>,
    arrived: Vec<(TileId, bool)>,
}

const MS: Duration = Duration::from_millis(1);

impl World {
    fn new(gops: u32, concealment: Concealment) -> Self {
        Self::with(gops, concealment, ClientSettings::default())
    }

    fn with(gops: u32, concealment: Concealment, player: ClientSettings) -> Self {
        Self::of(content(gops), concealment, player)
    }

    fn of(content: Arc<Content>, concealment: Concealment, player: ClientSettings) -> Self {
        Self {
            now: Instant::from_millis(1_000),
            gains: 0,
            server: Server::new(content, settings(concealment)),
            client: Client::new(player),
            in_flight: BTreeMap::new(),
            count: 0,
            carried: 0,
            reports: Vec::new(),
            planned: Vec::new(),
            arrived: Vec::new(),
        }
    }

    /// The time by the player's clock.
    fn players(&self) -> Instant {
        let now = self.now.as_nanos();
        Instant::from_nanos(now + now / 1_000_000 * self.gains)
    }

    /// When the player's clock shows that time, or soon after.
    fn by_server(&self, players: Instant) -> Instant {
        let at = players.as_nanos() / (1_000_000 + self.gains) * 1_000_000;
        let more = players.as_nanos().saturating_sub(at + at / 1_000_000 * self.gains);
        Instant::from_nanos(at + more)
    }

    fn put(&mut self, after: Duration, what: InFlight) {
        self.count += 1;
        self.in_flight.insert((self.now + after, self.count), what);
    }

    fn flush(&mut self, control: &mut dyn FnMut() -> Duration, fate: &mut dyn FnMut() -> Fate) {
        self.flush_with(control, &mut |_| fate());
    }

    fn flush_with(
        &mut self,
        control: &mut dyn FnMut() -> Duration,
        fate: &mut dyn FnMut(TileId) -> Fate,
    ) {
        while let Some(bytes) = self.client.poll_transmit() {
            let after = control();
            self.put(after, InFlight::ToServer(bytes));
        }
        while let Some(outgoing) = self.server.poll_transmit() {
            let order = match outgoing {
                Outgoing::Message(bytes) => {
                    let after = control();
                    self.put(after, InFlight::ToClient(bytes));
                    continue;
                }
                Outgoing::Tile(order) => order,
            };
            let segment = vec![order.id.tile as u8; order.bytes.as_u64() as usize];
            let init = if order.with_init { &b"init"[..] } else { b"" };
            let digests = TileDigests::of(b"init", &segment);
            let mut tile = Tile { id: order.id, init, segment: &segment, digests };
            let fate = fate(order.id);
            if let Fate::Spoiled(_) = fate {
                tile.digests.segment = Digest::of(b"other bytes");
            }
            let bytes = Message::Tile(tile).to_bytes();
            match fate {
                Fate::Arrives(after) | Fate::Spoiled(after) => {
                    self.put(after, InFlight::ToClient(bytes));
                }
                Fate::Doubled(after) => {
                    self.put(after, InFlight::ToClient(bytes.clone()));
                    self.put(after * 2, InFlight::ToClient(bytes));
                }
                Fate::CalledBack => self.put(MS, InFlight::CalledBack(order.id.tag())),
                Fate::Lost => {}
            }
        }
        self.reports.extend(std::iter::from_fn(|| self.client.poll_event()));
        self.planned.extend(std::iter::from_fn(|| self.server.poll_event()));
    }

    fn arrive(&mut self, what: InFlight) {
        match what {
            InFlight::ToServer(bytes) => self.server.handle_message(&bytes, self.now).unwrap(),
            InFlight::CalledBack(tag) => self.client.handle_dropped(tag),
            InFlight::ToClient(bytes) => {
                self.carried += bytes.len() as u64;
                match self.client.handle_message(&bytes, self.players()).unwrap() {
                    Handled::Tile { tile, on_time, is_genuine: true } => {
                        self.arrived.push((tile.id, on_time));
                    }
                    Handled::Tile { .. } | Handled::Control => {}
                }
            }
        }
    }

    /// Plays to the end.
    fn run(&mut self, control: &mut dyn FnMut() -> Duration, fate: &mut dyn FnMut() -> Fate) {
        self.run_with(control, &mut |_| fate());
    }

    /// The same, where what becomes of a tile may depend on which it is.
    fn run_with(
        &mut self,
        control: &mut dyn FnMut() -> Duration,
        fate: &mut dyn FnMut(TileId) -> Fate,
    ) {
        for _ in 0..100_000 {
            self.flush_with(control, fate);
            if self.client.is_done() {
                return;
            }
            let arrival = self.in_flight.keys().next().map(|(at, _)| *at);
            let player = self.client.poll_timeout().map(|at| self.by_server(at));
            let times = [self.server.poll_timeout(), player, arrival];
            let Some(next) = times.into_iter().flatten().min() else {
                // Everything is over and something never came.
                self.client.handle_closed();
                continue;
            };
            self.now = self.now.max(next);
            while let Some(entry) = self.in_flight.first_entry()
                && entry.key().0 <= self.now
            {
                let what = entry.remove();
                self.arrive(what);
            }
            let delivered = self.carried;
            let paths = [PathReading { delivered, is_up: true, ..PathReading::default() }];
            let traffic = Traffic { counters: Counters::Paths(&paths), waiting: ByteCount::ZERO };
            self.server.handle_traffic(traffic, self.now);
            self.server.handle_timeout(self.now).unwrap();
            self.client.handle_pose(Orientation::from_degrees(30.0, 10.0, 0.0), self.players());
            self.client.handle_timeout(self.players());
        }
        panic!("the stream does not end");
    }
}

/// Each tile of each GoP is counted once.
fn whole(reports: &[GopReport], gops: u32) {
    assert_eq!(reports.iter().map(|r| r.gop).collect::<Vec<_>>(), (0..gops).collect::<Vec<_>>());
    for report in reports {
        assert_eq!(report.arrived + report.late + report.dropped, TILES, "{report:?}");
        assert!(report.called_back <= report.late && report.damaged <= report.late, "{report:?}");
    }
}

#[test]
fn over_a_good_network_everything_arrives_and_more_is_asked_for() {
    let mut world = World::new(8, Concealment::LastReceived);
    world.run(&mut || MS, &mut || Fate::Arrives(20 * MS));
    whole(&world.reports, 8);
    assert!(world.reports.iter().all(|r| r.late == 0 && r.called_back == 0));
    assert!(world.planned.iter().all(|planned| planned.bytes <= planned.expected));
    // A deadline is a GoP after its GoP began to be sent.
    assert!(world.arrived.iter().all(|(_, on_time)| *on_time));
    let psnr: Vec<f64> = world.reports.iter().map(|r| r.psnr_db().unwrap()).collect();
    assert!(psnr.iter().all(|db| *db > 40.0), "{psnr:?}");
    assert!(world.server.is_done() && world.client.has_end());
}

#[test]
fn what_a_decoder_is_set_up_from_is_sent_until_it_is_known() {
    let mut world = World::new(6, Concealment::Grey);
    let mut inits = Vec::new();
    while !world.server.is_done() {
        world.flush(&mut || MS, &mut || Fate::Arrives(MS));
        let Some((&key, _)) = world.in_flight.first_key_value() else {
            world.now = world.server.poll_timeout().unwrap();
            world.server.handle_timeout(world.now).unwrap();
            world.client.handle_timeout(world.now);
            continue;
        };
        world.now = world.now.max(key.0);
        let what = world.in_flight.remove(&key).unwrap();
        if let InFlight::ToClient(bytes) = &what
            && let Ok(Message::Tile(tile)) = Message::decode(bytes)
        {
            inits.push((tile.id.gop, !tile.init.is_empty()));
        }
        world.arrive(what);
        world.client.handle_timeout(world.now);
    }
    assert!(inits.iter().all(|(gop, init)| *gop > 0 || *init), "none is known in the beginning");
    assert!(inits.iter().any(|(_, init)| !*init), "{inits:?}");
}

#[test]
fn below_the_lowest_rungs_tiles_are_dropped_and_said() {
    let mut settings = settings(Concealment::Grey);
    settings.start = Bitrate::kbps(25);
    let mut world = World::new(1, Concealment::Grey);
    world.server = Server::new(content(1), settings);
    world.run(&mut || MS, &mut || Fate::Arrives(20 * MS));
    // 25 kb/s for half a second are 1,562 bytes: four tiles of 250 and of what goes with each.
    whole(&world.reports, 1);
    let (planned, report) = (world.planned[0], &world.reports[0]);
    assert_eq!((planned.least.as_u64(), planned.expected.as_u64()), (2_000, 1_562));
    assert_eq!((planned.sent, planned.dropped), (4, 4));
    assert_eq!((report.arrived, report.dropped, report.late), (4, 4, 0));
}

#[test]
fn the_concealment_decides_what_a_lost_gop_loses() {
    let psnr = |concealment| {
        let mut world = World::new(3, concealment);
        let mut sent = 0;
        // GoP 0 arrives; of the others nothing does but a base layer.
        world.run(&mut || MS, &mut || {
            sent += 1;
            let base = concealment == Concealment::BaseLayer;
            let arrives = if base { (sent - 1) % 16 < 8 || sent <= 16 } else { sent <= TILES };
            if arrives { Fate::Arrives(MS) } else { Fate::Lost }
        });
        whole(&world.reports, 3);
        assert_eq!(world.reports[2].late, TILES, "{concealment:?}");
        world.reports[2].psnr_db().unwrap()
    };
    let [grey, last, base] = Concealment::ALL.map(|(_, concealment)| psnr(concealment));
    // 3000, 300 + 2 and 50 per pixel.
    let db = |mse: f64| 10.0 * (255.0 * 255.0 / mse).log10();
    assert!((grey - db(3_000.0)).abs() < 0.01, "{grey}");
    assert!((last - db(302.0)).abs() < 0.01, "{last}");
    assert!((base - db(50.0)).abs() < 0.01, "{base}");
}

#[test]
fn other_bytes_than_were_packaged_are_lost_and_never_shown() {
    let mut world = World::new(2, Concealment::LastReceived);
    let mut sent = 0;
    world.run(&mut || MS, &mut || {
        sent += 1;
        // Every second tile of GoP 1.
        let spoiled = sent > TILES && sent % 2 == 0;
        if spoiled { Fate::Spoiled(MS) } else { Fate::Arrives(MS) }
    });
    whole(&world.reports, 2);
    let [before, after] = &world.reports[..] else { panic!("two GoPs") };
    assert_eq!((before.late, before.damaged), (0, 0));
    assert_eq!((after.arrived, after.late, after.damaged), (TILES / 2, TILES / 2, TILES / 2));
    assert!(after.psnr_db().unwrap() + 3.0 < before.psnr_db().unwrap(), "{after:?}");
    // A decoder that is set up from other bytes shows nothing right either.
    let digests = TileDigests { init: Digest::of(b"init"), segment: Digest::of(b"x") };
    let id = TileId { gop: 0, tile: 0, qp: 22 };
    let tile = |init| Tile { id, init, segment: b"x", digests };
    assert!(tile(b"").is_genuine() && tile(b"init").is_genuine() && !tile(b"tini").is_genuine());
}

/// A jitter buffer of some GoPs: what takes longer than one is in time.
#[test]
fn a_longer_buffer_bridges_what_would_be_late() {
    let late = |buffer| {
        let player = ClientSettings { buffer, ..ClientSettings::default() };
        let mut world = World::with(4, Concealment::Grey, player);
        world.run(&mut || MS, &mut || Fate::Arrives(GOP * 2));
        whole(&world.reports, 4);
        let late: usize = world.reports.iter().map(|report| report.late).sum();
        (late, world.client.first_shown().unwrap().since(Instant::from_millis(1_000)).as_millis())
    };
    assert_eq!(late(None).0, 4 * TILES);
    let (late, startup_ms) = late(Some(GOP * 5 / 2));
    assert_eq!(late, 0);
    // The greeting, the manifest, the first report and the first notice take 1 ms each.
    assert_eq!(startup_ms, 1_254);
}

/// Until what is looked at is there, the picture stands still, and all that follows is shown later.
#[test]
fn a_player_that_rebuffers_waits_for_what_it_looks_at() {
    let play = |rebuffer| {
        let player = ClientSettings { rebuffer, ..ClientSettings::default() };
        let mut world = World::with(3, Concealment::Grey, player);
        let mut sent = 0;
        // All of GoP 1 comes 300 ms after its time.
        world.run(&mut || MS, &mut || {
            sent += 1;
            let is_second = (TILES + 1..=2 * TILES).contains(&sent);
            Fate::Arrives(if is_second { GOP + 300 * MS } else { MS })
        });
        whole(&world.reports, 3);
        world.reports
    };
    let reports = play(Duration::ZERO);
    assert_eq!((reports[1].late, reports[1].stalled), (TILES, Duration::ZERO));
    let reports = play(GOP);
    assert_eq!([reports[0].late, reports[2].late], [0; 2]);
    // It goes on as soon as what it looks at is there; the rest comes at the same moment, and too late.
    let viewport = crate::geometry::Viewport::new(ClientSettings::default().fov);
    let seen =
        viewport.visibility(Grid::new(4, 2).unwrap(), Orientation::from_degrees(30.0, 10.0, 0.0));
    let looked_at = seen.share.iter().filter(|share| **share > 0.0).count();
    assert!((2..=reports[1].arrived).contains(&looked_at), "{looked_at}: {:?}", reports[1]);
    // The tiles leave when the notice does, which takes 1 ms: they are 299 ms late.
    let stalled: Vec<_> = reports.iter().map(|report| report.stalled.as_millis()).collect();
    assert_eq!(stalled, [0, 299, 0]);
    // No longer than it may be.
    let reports = play(100 * MS);
    assert_eq!((reports[1].late, reports[1].stalled), (TILES, 100 * MS));
}

#[test]
fn the_server_gives_tiles_the_time_that_the_player_takes() {
    let mut server = Server::new(content(3), settings(Concealment::Grey));
    let now = Instant::from_millis(1);
    let (buffer, rebuffer) = (Some(GOP * 3), GOP);
    let player = ClientSettings { buffer, rebuffer, ..ClientSettings::default() };
    let hello = Client::new(player).poll_transmit().unwrap();
    server.handle_message(&hello, now).unwrap();
    let report = |stalled| Message::Report(Report { stalled, ..Report::default() }).to_bytes();
    server.handle_message(&report(Duration::ZERO), now).unwrap();
    let deadlines = |server: &mut Server| {
        let orders = std::iter::from_fn(|| server.poll_transmit());
        orders.fold(None, |found, outgoing| match outgoing {
            Outgoing::Tile(order) => Some(order.deadline),
            Outgoing::Message(_) => found,
        })
    };
    assert_eq!(deadlines(&mut server), Some(now + GOP * 4), "shown after 3, waited for 1 more");
    server.handle_message(&report(GOP * 2), now + GOP).unwrap();
    assert_eq!(deadlines(&mut server), Some(now + GOP * 7), "what it stood still comes on top");
    // Reports overtake each other.
    server.handle_message(&report(GOP), now + GOP * 2).unwrap();
    assert_eq!(deadlines(&mut server), Some(now + GOP * 8));
    let error = server.handle_message(&report(Duration::from_secs(61)), now + GOP * 2).unwrap_err();
    assert!(error.to_string().contains("has stood still for 61 s"), "{error}");
}

/// A late tile conceals nothing, and the server must not plan as if it did.
#[test]
fn what_comes_too_late_is_held_by_neither_end() {
    let plan_after = |after: Duration| {
        let mut world = World::new(3, Concealment::LastReceived);
        let mut sent = 0;
        world.run(&mut || MS, &mut || {
            sent += 1;
            // Of GoP 0 all comes, of GoP 1 after a while, and of GoP 2 nothing.
            let (gop, lost) = ((sent - 1) / TILES, Fate::Lost);
            [Fate::Arrives(MS), Fate::Arrives(after)].get(gop).copied().unwrap_or(lost)
        });
        whole(&world.reports, 3);
        world.reports[2].psnr_db().unwrap()
    };
    let db = |mse: f64| 10.0 * (255.0 * 255.0 / mse).log10();
    // 200 and 2 per pixel after one GoP, 300 and 2 after two.
    let (in_time, late) = (plan_after(MS), plan_after(GOP * 11 / 10));
    assert!((in_time - db(202.0)).abs() < 0.01, "{in_time}");
    assert!((late - db(302.0)).abs() < 0.01, "{late}");
    let mut server = Server::new(content(3), settings(Concealment::LastReceived));
    let now = Instant::from_millis(1);
    let hello = Client::new(ClientSettings::default()).poll_transmit().unwrap();
    server.handle_message(&hello, now).unwrap();
    server.handle_message(&Message::Report(Report::default()).to_bytes(), now).unwrap();
    let arrived = |tile: u16, on_time| (TileId { gop: 0, tile, qp: 22 }, on_time);
    let report = Report { arrived: vec![arrived(0, true), arrived(1, false)], ..Report::default() };
    server.handle_message(&Message::Report(report).to_bytes(), now).unwrap();
    let per_pixel = |tile: usize| {
        let part = content(3).grid().solid_angle(tile) / (4.0 * std::f64::consts::PI);
        server.concealed_of(1, tile) / part
    };
    assert!((per_pixel(0) - 202.0).abs() < 1e-9 && (per_pixel(1) - 3_000.0).abs() < 1e-9);
}

#[test]
fn a_server_that_wakes_up_late_leaves_out_what_is_over() {
    let mut world = World::new(5, Concealment::LastReceived);
    while world.planned.is_empty() {
        world.flush(&mut || MS, &mut || Fate::Arrives(MS));
        if let Some(((at, _), what)) = world.in_flight.pop_first() {
            world.now = world.now.max(at);
            world.arrive(what);
            world.client.handle_timeout(world.now);
        }
    }
    // Three and a half GoPs pass while it does not run.
    world.now += GOP * 7 / 2;
    world.server.handle_timeout(world.now).unwrap();
    world.run(&mut || MS, &mut || Fate::Arrives(MS));
    whole(&world.reports, 5);
    let dropped: Vec<usize> = world.planned.iter().map(|planned| planned.dropped).collect();
    assert_eq!(dropped, [0, TILES, TILES, 0, 0]);
}

#[test]
fn peers_that_lose_their_way_are_told_so() {
    let now = Instant::from_millis(1);
    let mut client = Client::new(ClientSettings::default());
    let hello = client.poll_transmit().unwrap();
    let id = TileId { gop: 0, tile: 0, qp: 22 };
    let digests = TileDigests::of(b"", b"x");
    let tile = |id| Message::Tile(Tile { id, init: b"", segment: b"x", digests }).to_bytes();
    let error = client.handle_message(&tile(id), now).unwrap_err().to_string();
    assert!(error.contains("before the manifest"), "{error}");
    let mut server = Server::new(content(200), settings(Concealment::Grey));
    let report = Message::Report(Report::default()).to_bytes();
    assert!(server.handle_message(&report, now).is_err());
    let Some(Outgoing::Message(refusal)) = server.poll_transmit() else { panic!("no refusal") };
    let error = client.handle_message(&refusal, now).unwrap_err().to_string();
    assert!(error.starts_with("the peer says: ") && error.contains("greeting"), "{error}");
    let mut server = Server::new(content(200), settings(Concealment::Grey));
    server.handle_message(&hello, now).unwrap();
    let Some(Outgoing::Message(manifest)) = server.poll_transmit() else { panic!("no manifest") };
    client.handle_message(&manifest, now).unwrap();
    for wrong in
        [TileId { gop: 64, ..id }, TileId { tile: TILES as u16, ..id }, TileId { qp: 23, ..id }]
    {
        let error = client.handle_message(&tile(wrong), now).unwrap_err().to_string();
        assert!(error.starts_with("the peer speaks of "), "{error}");
    }
    assert!(client.handle_message(&manifest, now).is_err());
    let first = Message::Report(Report::default()).to_bytes();
    server.handle_message(&first, now).unwrap();
    let early = Report { arrived: vec![(TileId { gop: 1, ..id }, true)], ..Report::default() };
    let error = server.handle_message(&Message::Report(early).to_bytes(), now).unwrap_err();
    assert_eq!(error.to_string(), "the peer speaks of GoP 1, and there are 1; is it damaged?");
}

/// What was sent over a connection that is dead was told as had.
#[test]
fn what_a_player_has_is_what_it_reports() {
    let mut world = World::new(4, Concealment::Grey);
    assert_eq!((world.server.has_begun(), world.server.shown_by()), (false, None));
    world.run_with(&mut || MS * 5, &mut |id| match id.tile {
        0 => Fate::Lost,
        1 => Fate::Arrives(GOP * 3 / 2),
        _ => Fate::Arrives(MS * 10),
    });
    let reported = world.server.reported();
    let in_time = world.arrived.iter().filter(|(_, on_time)| *on_time).count();
    assert_eq!(reported.in_time, in_time as u64);
    assert!(reported.tiles > reported.in_time && reported.bytes > ByteCount::ZERO, "{reported:?}");
    let sent: usize = world.planned.iter().map(|gop| gop.sent).sum();
    assert!(reported.tiles < sent as u64, "{reported:?} of {sent}");
    // It is done when the last GoP has been shown, a GoP after it was announced, and not before.
    let shown = world.server.shown_by().unwrap();
    assert!(shown <= world.now && world.now < shown + GOP, "{shown:?} {:?}", world.now);
}

/// One of two paths dies, and what it had waits for the other one: nothing new is expected in time, and
/// the tiles that are most likely seen are tried all the same.
#[test]
fn where_nothing_is_expected_the_background_is_tried() {
    let mut server = Server::new(content(20), settings(Concealment::LastReceived));
    let mut now = Instant::from_millis(1_000);
    let hello = Client::new(ClientSettings::default()).poll_transmit().unwrap();
    server.handle_message(&hello, now).unwrap();
    let path = PathReading { is_up: true, ..PathReading::default() };
    let mut paths = [path; 2];
    let mut read = |server: &mut Server, paths: &mut [PathReading; 2]| {
        now += MS * 50;
        // 24 kb/s each.
        for path in paths.iter_mut().filter(|path| path.is_up) {
            path.delivered += 150;
        }
        let waiting = ByteCount::new(1);
        server.handle_traffic(Traffic { counters: Counters::Paths(paths), waiting }, now);
        server.handle_timeout(now).unwrap();
        now
    };
    let at = read(&mut server, &mut paths);
    let yaw = PoseNotice { at: Duration::ZERO, degrees: [0.0; 3] };
    let report = Report { poses: vec![yaw], ..Report::default() };
    server.handle_message(&Message::Report(report).to_bytes(), at).unwrap();
    for _ in 0..60 {
        read(&mut server, &mut paths);
    }
    paths[0] = PathReading { is_up: false, ..paths[0] };
    paths[1].outstanding = 100_000;
    for _ in 0..10 {
        read(&mut server, &mut paths);
    }
    let planned = std::iter::from_fn(|| server.poll_event()).last().unwrap();
    let orders = std::iter::from_fn(|| server.poll_transmit());
    let tiles = orders.filter_map(|outgoing| match outgoing {
        Outgoing::Tile(order) if order.id.gop == planned.gop => Some(order.id),
        _ => None,
    });
    let tiles: Vec<TileId> = tiles.collect();
    assert_eq!((planned.expected, planned.on_time), (ByteCount::ZERO, 0.0), "{planned:?}");
    // In half a second a path brings 1,500 bytes, of which a tile takes 250 and what goes with it.
    assert_eq!((planned.sent, tiles.len()), (3, 3), "{planned:?}");
    assert!(tiles.iter().all(|id| id.qp == 42), "{tiles:?}");
    // Those in front, at both sides of the equator.
    assert!(tiles.iter().any(|id| [1, 2, 5, 6].contains(&id.tile)), "{tiles:?}");
}

proptest! {
    /// Whatever becomes of the tiles and however the rest is delayed: each tile is counted once,
    /// nothing that came too late counts as there, and nothing is kept for ever.
    #[test]
    fn every_tile_is_counted_once(
        seed in any::<u64>(),
        gops in 1_u32..7,
        which in 0_usize..3,
        buffer in prop::option::of(100_u64..3_000),
        rebuffer in prop_oneof![Just(0_u32), 1_u32..2_000],
    ) {
        let concealment = Concealment::ALL[which].1;
        let buffer = buffer.map(Duration::from_millis);
        let player = ClientSettings { buffer, rebuffer: MS * rebuffer, ..ClientSettings::default() };
        let mut world = World::with(gops, concealment, player);
        let mut rng = Rng::stream(seed, "live/network");
        let mut delays = Rng::stream(seed, "live/control");
        let mut control = || MS * delays.below(900) as u32;
        let mut fate = || {
            let after = MS * rng.below(1_200) as u32;
            match rng.below(9) {
                0..5 => Fate::Arrives(after),
                5 => Fate::Doubled(after),
                6 => Fate::CalledBack,
                7 => Fate::Spoiled(after),
                _ => Fate::Lost,
            }
        };
        world.run(&mut control, &mut fate);
        whole(&world.reports, gops);
        for report in &world.reports {
            let times = |on_time| {
                let of = world.arrived.iter().filter(|(id, _)| id.gop == report.gop);
                of.filter(|(_, time)| *time == on_time).count()
            };
            prop_assert!(report.arrived + report.base_arrived <= 2 * TILES);
            prop_assert!(report.arrived <= times(true));
            prop_assert!(report.psnr_db().is_some_and(|db| db > 0.0 && db <= 100.0));
        }
    }
}
