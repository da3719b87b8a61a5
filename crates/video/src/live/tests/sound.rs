//! Sound beside the tiles.

use super::*;

/// Half a second of AAC at 16 kb/s, a little more in each second GoP.
const SOUND: [u64; 3] = [1_000, 1_021, 1_000];

fn with_sound(gops: u32) -> Arc<Content> {
    let format = SoundFormat { rate_hz: 48_000, channels: 2 };
    let segments = SOUND.map(ByteCount::new).to_vec();
    let sound = Sound { format, init: ByteCount::new(4), segments };
    Arc::new(Content::clone(&content(gops)).with_sound(sound).unwrap())
}

#[test]
fn sound_is_sent_before_all_tiles_and_its_bytes_are_no_tiles() {
    let mut world = World::new(8, Concealment::LastReceived);
    world.server = Server::new(with_sound(8), settings(Concealment::LastReceived));
    let mut order = Vec::new();
    world.run_with(&mut || MS, &mut |id| {
        order.push(id);
        Fate::Arrives(20 * MS)
    });
    whole(&world.reports, 8);
    for gop in 0..8 {
        let of_gop: Vec<&TileId> = order.iter().filter(|id| id.gop == gop).collect();
        assert_eq!(*of_gop[0], TileId::sound(gop));
        assert_eq!(of_gop.iter().filter(|id| id.is_sound()).count(), 1);
    }
    for (gop, (report, planned)) in world.reports.iter().zip(&world.planned).enumerate() {
        let bytes = ByteCount::new(SOUND[gop % SOUND.len()]);
        assert_eq!((report.sound, report.sound_bytes, planned.sound), (Some(true), bytes, bytes));
        assert!(planned.bytes + planned.sound <= planned.expected, "{planned:?}");
        assert_eq!((report.arrived + report.dropped, report.late), (TILES, 0));
    }
    // Without sound nothing is said of any.
    let mut silent = World::new(2, Concealment::Grey);
    silent.run(&mut || MS, &mut || Fate::Arrives(MS));
    assert!(silent.reports.iter().all(|report| report.sound.is_none()));
}

/// The sound of a GoP belongs to its first picture: it is there by then or it is not heard at all, and a
/// picture that waits waits for its sound.
#[test]
fn sound_keeps_with_its_pictures() {
    let player = ClientSettings { rebuffer: 400 * MS, ..ClientSettings::default() };
    let mut world = World::with(6, Concealment::Grey, player);
    world.server = Server::new(with_sound(6), settings(Concealment::Grey));
    world.run_with(&mut || MS, &mut |id| match (id.is_sound(), id.gop) {
        // After all tiles, and 100 ms after its GoP's time.
        (true, 2) => Fate::Arrives(600 * MS),
        (true, 3) => Fate::Lost,
        (true, 4) => Fate::CalledBack,
        (true, 5) => Fate::Spoiled(20 * MS),
        _ => Fate::Arrives(20 * MS),
    });
    whole(&world.reports, 6);
    let there: Vec<Option<bool>> = world.reports.iter().map(|report| report.sound).collect();
    assert_eq!(there, [true, true, true, false, false, false].map(Some));
    let stood: Vec<u128> = world.reports.iter().map(|r| r.stalled.as_millis()).collect();
    assert!(stood[2] > 0 && stood[2] <= 110, "it waits until the sound is there: {stood:?}");
    assert_eq!(stood[3], 400, "and for what never comes as long as it may");
    assert_eq!(
        [stood[0], stood[1], stood[4], stood[5]],
        [0; 4],
        "what will not come is not waited for"
    );
    assert!(world.reports.iter().all(|report| report.late == 0), "tiles are none the worse");

    // Concealed at once, it is silent, and its pictures are not.
    let mut world = World::new(3, Concealment::Grey);
    world.server = Server::new(with_sound(3), settings(Concealment::Grey));
    let late = |id: TileId| Fate::Arrives(if id.is_sound() { 700 * MS } else { 20 * MS });
    world.run_with(&mut || MS, &mut { late });
    assert!(world.reports.iter().all(|report| report.sound == Some(false) && report.late == 0));
    assert!(world.reports.iter().all(|report| report.sound_bytes == ByteCount::ZERO));
}

#[test]
fn sound_that_does_not_fit_its_content_is_refused() {
    let format = SoundFormat { rate_hz: 48_000, channels: 2 };
    let refusal = |format, segments: &[u64]| {
        let segments = segments.iter().map(|bytes| ByteCount::new(*bytes)).collect();
        let sound = Sound { format, init: ByteCount::new(4), segments };
        Content::clone(&content(3)).with_sound(sound).unwrap_err().to_string()
    };
    assert!(refusal(format, &[9, 9]).contains("2 segments for 3 GoPs"));
    assert!(refusal(format, &[9, 0, 9]).contains("1 to"));
    assert!(refusal(format, &[9, 17 << 20, 9]).contains("shorter GoPs"));
    assert!(refusal(SoundFormat { channels: 0, ..format }, &[9; 3]).contains("0 channels"));
    // A player cannot say to have what there is not.
    let mut server = Server::new(content(3), settings(Concealment::Grey));
    let mut client = Client::new(ClientSettings::default());
    let hello = client.poll_transmit().unwrap();
    server.handle_message(&hello, Instant::ZERO).unwrap();
    let report = Report { arrived: vec![(TileId::sound(0), true)], ..Report::default() };
    let bytes = Message::Report(report).to_bytes();
    assert!(server.handle_message(&bytes, Instant::ZERO).is_err());
}
