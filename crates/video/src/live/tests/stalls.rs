//! Pictures that stand still, and what comes meanwhile.

use super::*;

/// Whether a tile is looked at with the head straight ahead.
fn is_looked_at(tile: u16) -> bool {
    let viewport = crate::geometry::Viewport::new(ClientSettings::default().fov);
    let seen = viewport.visibility(Grid::new(4, 2).unwrap(), Orientation::default());
    seen.share[usize::from(tile)] > 0.0
}

/// What a server says of its only GoP to a player, and when: the notice, and then the tiles.
fn only_gop(player: &mut Client, now: Instant) -> (Vec<u8>, Vec<(TileId, Vec<u8>)>) {
    let mut world = World::new(1, Concealment::Grey);
    std::mem::swap(&mut world.client, player);
    world.now = now;
    while !world.server.is_done() {
        world.flush(&mut || Duration::ZERO, &mut || Fate::Arrives(MS));
        for what in std::mem::take(&mut world.in_flight).into_values() {
            world.arrive(what);
        }
        world.client.handle_timeout(now);
    }
    std::mem::swap(&mut world.client, player);
    let (mut notice, mut tiles) = (None, Vec::new());
    while let Some(outgoing) = world.server.poll_transmit() {
        match outgoing {
            Outgoing::Message(bytes) => notice = notice.or(Some(bytes)),
            Outgoing::Tile(order) => {
                let segment = vec![0; order.bytes.as_u64() as usize];
                let digests = TileDigests::of(b"init", &segment);
                let tile = Tile { id: order.id, init: b"init", segment: &segment, digests };
                tiles.push((order.id, Message::Tile(tile).to_bytes()));
            }
        }
    }
    (notice.expect("the GoP is announced"), tiles)
}

/// A timer comes up to a millisecond late, and a tile may come in between: the player waits for it,
/// so it is not late, and the wait is over with it.
#[test]
fn a_tile_that_comes_before_the_timer_is_what_is_waited_for() {
    let settings = ClientSettings { rebuffer: GOP * 4, ..ClientSettings::default() };
    let (mut player, announced) = (Client::new(settings), Instant::from_millis(1_000));
    let (notice, tiles) = only_gop(&mut player, announced);
    player.handle_message(&notice, announced).unwrap();
    let waited = tiles.iter().position(|(id, _)| is_looked_at(id.tile)).unwrap();
    for (_, tile) in tiles.iter().enumerate().filter(|(place, _)| *place != waited) {
        player.handle_message(&tile.1, announced + MS).unwrap();
    }
    let comes = announced + GOP + Duration::from_nanos(1);
    let handled = player.handle_message(&tiles[waited].1, comes).unwrap();
    assert!(matches!(handled, Handled::Tile { on_time: true, .. }), "{handled:?}");
    assert!(player.moves(comes), "it goes on");
    player.handle_timeout(comes + GOP);
    let report = player.poll_event().expect("the GoP is over");
    assert_eq!((report.late, report.stalled), (0, Duration::from_nanos(1)), "{report:?}");
}

/// A stream of many GoPs with a buffer.
fn with_buffer(buffer: Duration) -> World {
    let player = ClientSettings { buffer: Some(buffer), ..ClientSettings::default() };
    World::with(150, Concealment::Grey, player)
}

/// So many GoPs as a long buffer holds are kept: it is refused before the stream begins, and says
/// which buffer is not.
#[test]
fn a_buffer_of_more_gops_than_are_kept_is_refused_before_the_stream_begins() {
    let mut world = with_buffer(MS * 30_600);
    world.flush(&mut || MS, &mut || Fate::Lost);
    let Some((_, InFlight::ToServer(hello))) = world.in_flight.pop_first() else { panic!() };
    world.server.handle_message(&hello, world.now).unwrap();
    let Some(Outgoing::Message(manifest)) = world.server.poll_transmit() else { panic!() };
    let error = world.client.handle_message(&manifest, world.now).unwrap_err().to_string();
    assert!(error.contains("GoPs of 0.5 s") && error.contains("--buffer 30500ms"), "{error}");
    // A stream that is no longer than what is kept has room for any.
    let player = ClientSettings { buffer: Some(GOP * 100), ..ClientSettings::default() };
    let mut short = World::with(MAX_OPEN_GOPS, Concealment::Grey, player);
    short.run(&mut || MS, &mut || Fate::Arrives(GOP * 90));
    assert!(short.reports.iter().all(|report| report.late == 0));
}

/// The longest buffer that is allowed works, though the first word on a GoP be slow.
#[test]
fn the_longest_buffer_holds_all_that_is_announced_meanwhile() {
    let mut world = with_buffer(MS * 30_500);
    let mut sent = 0;
    // The greeting, the manifest, the first report, and the first GoP's notice.
    let mut control = || {
        sent += 1;
        MS * if sent == 4 { 490 } else { 1 }
    };
    world.run(&mut control, &mut || Fate::Arrives(MS * 30_000));
    whole(&world.reports, 150);
    assert!(world.reports.iter().all(|report| report.late == 0));
    assert!(world.reports.iter().any(|report| report.arrived > 0));
}

/// Stalls put off all that follows, and the server goes on: they end when there is room for no
/// more, and the stream does not.
#[test]
fn stalls_end_where_no_more_gops_can_be_kept() {
    let rebuffer = Duration::from_secs(60);
    let player = ClientSettings { rebuffer, ..ClientSettings::default() };
    let mut world = World::with(150, Concealment::Grey, player);
    // Forty seconds of nothing, and nobody says that it will not come.
    world.run_with(&mut || MS, &mut |id| match id.gop {
        10..90 => Fate::Lost,
        _ => Fate::Arrives(MS),
    });
    whole(&world.reports, 150);
    let stalled: Duration = world.reports.iter().map(|report| report.stalled).sum();
    assert_eq!(stalled, MS * 30_500 - GOP, "all that a buffer of a GoP leaves");
    let late = || world.reports.iter().filter(|report| report.late > 0);
    assert!(late().count() > 1 && late().all(|report| (10..90).contains(&report.gop)));
}

/// Tiles that were planned before the player stood still have the time that it stood still, but for
/// those that it waits for, which have all of it, wherever they wait.
#[test]
fn what_is_shown_later_has_more_time() {
    let mut server = Server::new(content(9), settings(Concealment::Grey));
    let began = Instant::from_millis(1_000);
    let (buffer, rebuffer) = (Some(GOP * 2), GOP * 3);
    let player = ClientSettings { buffer, rebuffer, ..ClientSettings::default() };
    let hello = Client::new(player).poll_transmit().unwrap();
    server.handle_message(&hello, began).unwrap();
    let report = |stalled| Message::Report(Report { stalled, ..Report::default() }).to_bytes();
    server.handle_message(&report(Duration::ZERO), began).unwrap();
    server.handle_timeout(began + GOP).unwrap();
    // Two GoPs were handed out, and two were not.
    let mut waiting: Vec<Outgoing> = std::iter::from_fn(|| server.poll_transmit()).collect();
    server.handle_timeout(began + GOP * 3).unwrap();
    assert_eq!(server.poll_put_off(), None);
    // GoP 1 is due after 1.5 s, and is waited for until 3 s; then GoP 2 is due, after 3.5 s.
    let stalls = [(MS * 100, MS * 1_610), (MS * 400, MS * 1_910), (MS * 1_500, MS * 3_010)];
    for (stalled, at) in stalls.into_iter().chain([(MS * 1_600, MS * 3_610)]) {
        server.handle_message(&report(stalled), began + at).unwrap();
        while let Some(put_off) = server.poll_put_off() {
            waiting.iter_mut().for_each(|outgoing| put_off.apply(outgoing));
        }
        waiting.extend(std::iter::from_fn(|| server.poll_transmit()));
    }
    // Reports overtake each other.
    server.handle_message(&report(MS * 400), began + MS * 3_620).unwrap();
    assert_eq!(server.poll_put_off(), None);
    let mut deadlines = BTreeMap::new();
    for outgoing in waiting {
        if let Outgoing::Tile(order) = outgoing {
            let known = *deadlines.entry(order.id.gop).or_insert(order.deadline);
            assert_eq!(known, order.deadline, "GoP {}", order.id.gop);
        }
    }
    let limit = |gop: u32, stalled| began + GOP * gop + GOP * 5 + stalled;
    let stalled = [0, 0, 1_500, 1_600, 1_600].map(|ms| MS * ms);
    for (gop, stalled) in (0_u32..).zip(stalled) {
        assert_eq!(deadlines[&gop], limit(gop, stalled), "GoP {gop}");
    }
}
