//! Streams of a live source: its GoPs come one by one, some have nothing in them, and nobody knows how many
//! there are until it ends.

use super::*;

fn live() -> Arc<Content> {
    let format = LiveFormat {
        frame: FrameSize::new(256, 128).unwrap(),
        grid: Grid::new(4, 2).unwrap(),
        gop: GOP,
        gop_frames: 15,
        qps: RUNGS.map(|(qp, ..)| qp).to_vec(),
        sound: Some(SoundFormat { rate_hz: 48_000, channels: 2 }),
    };
    Arc::new(Content::live(format).unwrap())
}

/// A GoP; none of its tiles if it is a gap.
fn gop(number: u32, is_whole: bool) -> Arc<LiveGop> {
    let rung = |(qp, bytes, mse): (u8, u64, f64)| Rung {
        qp,
        bytes: ByteCount::new(bytes),
        ws_mse: mse / TILES as f64,
        mixed_mse: None,
    };
    let tile = || TileTable::new(RUNGS.map(rung).to_vec()).unwrap();
    let tiles = is_whole.then(|| GopTable::new((0..TILES).map(|_| tile()).collect()).unwrap());
    let concealments = vec![(400.0, vec![25.0, 50.0]); TILES];
    let sound = is_whole.then_some([ByteCount::new(4), ByteCount::new(1_000)]);
    Arc::new(LiveGop { number, tiles, concealments, init: ByteCount::new(4), sound })
}

/// Plays a source that sends a GoP every half second from number `from` on: `whole` says which are.
fn play(world: &mut World, from: u32, whole: &[bool]) {
    let began = world.now;
    let mut whole = whole.iter().zip(from..).peekable();
    for tick in 0..2_000_u32 {
        world.now = began + MS * 10 * tick;
        if tick.is_multiple_of(50) {
            match whole.next() {
                Some((is_whole, number)) => {
                    world.server.handle_gop(gop(number, *is_whole), world.now).unwrap();
                    if whole.peek().is_none() {
                        world.server.handle_end(number + 1);
                    }
                }
                None if world.client.is_done() => return,
                None => {}
            }
        }
        world.flush(&mut || MS, &mut || Fate::Arrives(MS * 5));
        while let Some(entry) = world.in_flight.first_entry()
            && entry.key().0 <= world.now
        {
            let what = entry.remove();
            world.arrive(what);
        }
        world.server.handle_timeout(world.now).unwrap();
        world.client.handle_timeout(world.now);
    }
    panic!("the stream does not end");
}

#[test]
fn a_live_source_is_played_to_its_end_with_its_gaps() {
    let mut world = World::of(live(), Concealment::LastReceived, ClientSettings::default());
    // It was long under way when the player came; what is not whole then is nothing to begin with.
    play(&mut world, 700, &[false, true, true, false, true]);
    assert_eq!(world.server.begins_with(), Some(701));
    assert_eq!(world.client.manifest().unwrap().gops, 4, "the end has told how many there were");
    assert!(world.client.has_end() && world.server.is_done());
    let counts: Vec<_> =
        world.reports.iter().map(|gop| (gop.gop, gop.arrived, gop.late, gop.dropped)).collect();
    assert_eq!(counts, [(0, TILES, 0, 0), (1, TILES, 0, 0), (2, 0, 0, TILES), (3, TILES, 0, 0)]);
    let sound: Vec<_> = world.reports.iter().map(|gop| gop.sound).collect();
    assert_eq!(sound, [Some(true), Some(true), Some(false), Some(true)]);
    // A gap is concealed by the pictures before it, of which it is told what they lose.
    let [first, gap] = [0, 2].map(|gop: usize| world.reports[gop].mse.unwrap());
    assert!(first < 3.0 && gap > 5.0 * first, "{first} {gap}");
    assert_eq!(world.server.reported().in_time, 3 * (TILES as u64 + 1));
}

#[test]
fn a_stream_begins_with_the_newest_gop_when_the_player_is_ready() {
    let mut server = Server::new(live(), settings(Concealment::Grey));
    let mut client = Client::new(ClientSettings::default());
    let at = Instant::from_millis;
    for number in 0..90 {
        server.handle_gop(gop(number, true), at(0)).unwrap();
    }
    server.handle_message(&client.poll_transmit().unwrap(), at(0)).unwrap();
    let Some(Outgoing::Message(manifest)) = server.poll_transmit() else { panic!("it greets") };
    client.handle_message(&manifest, at(0)).unwrap();
    assert_eq!((server.poll_timeout(), client.manifest().unwrap().gops), (None, 0));
    client.handle_timeout(at(0));
    let report = client.poll_transmit().unwrap();
    server.handle_message(&report, at(20)).unwrap();
    assert_eq!(server.begins_with(), Some(89));
    assert_eq!(server.poll_event().map(|planned| planned.gop), Some(0));
    // The next one is sent when its time has come at this player, and not before.
    server.handle_gop(gop(90, true), at(300)).unwrap();
    assert_eq!((server.poll_event(), server.poll_timeout()), (None, Some(at(520))));
    // One that comes late is sent when it comes.
    server.handle_timeout(at(520)).unwrap();
    assert_eq!(server.poll_event().map(|planned| planned.gop), Some(1));
    assert_eq!(server.poll_timeout(), None);
    server.handle_gop(gop(91, true), at(1_200)).unwrap();
    assert_eq!(server.poll_event().map(|planned| planned.gop), Some(2));
    // None is left out, and none is of another ladder.
    let error = server.handle_gop(gop(93, true), at(1_300)).unwrap_err().to_string();
    assert!(error.contains("GoP 93 is not the next"), "{error}");
    let other = LiveGop { concealments: Vec::new(), ..(*gop(92, true)).clone() };
    let error = server.handle_gop(Arc::new(other), at(1_300)).unwrap_err().to_string();
    assert!(error.contains("what was announced"), "{error}");
}

#[test]
fn an_end_before_the_beginning_is_said() {
    let mut server = Server::new(live(), settings(Concealment::Grey));
    server.handle_gop(gop(0, false), Instant::ZERO).unwrap();
    server.handle_end(1);
    let Some(Outgoing::Message(refusal)) = server.poll_transmit() else { panic!("it says so") };
    let Ok(Message::Refusal { reason }) = Message::decode(&refusal) else { panic!("why") };
    assert!(server.is_done() && reason.contains("the source has ended"), "{reason}");
}

/// The player's clock may have come to a GoP that never was, as a source that stalled has ended then.
#[test]
fn an_end_that_comes_late_ends_with_the_last_gop() {
    let mut world = World::of(live(), Concealment::Grey, ClientSettings::default());
    let at = Instant::from_millis;
    let exchange = |world: &mut World, now: u64| {
        world.now = at(now);
        world.client.handle_timeout(world.now);
        world.flush(&mut || Duration::ZERO, &mut || Fate::Arrives(Duration::ZERO));
        while let Some((_, what)) = world.in_flight.pop_first() {
            world.arrive(what);
            world.flush(&mut || Duration::ZERO, &mut || Fate::Arrives(Duration::ZERO));
        }
    };
    exchange(&mut world, 1_000);
    world.server.handle_gop(gop(0, true), at(1_000)).unwrap();
    for now in (1_000..2_300).step_by(100) {
        exchange(&mut world, now);
    }
    assert_eq!((world.client.begun(), world.client.is_done()), (2, false));
    world.server.handle_end(1);
    exchange(&mut world, 2_300);
    assert!(world.client.is_done());
    assert_eq!(world.reports.iter().map(|gop| gop.gop).collect::<Vec<_>>(), [0]);
    // What was said already is not taken back.
    let mut client = world.client;
    let end = Message::End { gops: 0 }.to_bytes();
    let error = client.handle_message(&end, at(2_400));
    assert!(error.is_err());
}
