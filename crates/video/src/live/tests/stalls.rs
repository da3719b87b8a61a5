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

/// A timer comes up to a millisecond late, and a tile may come in between: the player waits for it, so it
/// is not late, and the wait is over with it.
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
