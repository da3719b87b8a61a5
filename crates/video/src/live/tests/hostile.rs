//! Peers that do what no release of ours does.

use super::*;

pub(super) fn manifest(gops: u32) -> Vec<u8> {
    let manifest = Manifest {
        frame: FrameSize::new(256, 128).unwrap(),
        grid: Grid::new(4, 2).unwrap(),
        gop: GOP,
        gop_frames: 15,
        gops,
        concealment: Concealment::Grey,
        scheme: "ows".to_owned(),
        qps: RUNGS.map(|(qp, ..)| qp).to_vec(),
        sound: None,
    };
    Message::Manifest(manifest).to_bytes()
}

/// A tile without what its decoder is set up from was taken for whole, and its quality claimed.
#[test]
fn a_tile_that_no_decoder_was_set_up_for_is_as_good_as_lost() {
    let (mut client, now) = (Client::new(ClientSettings::default()), Instant::from_millis(1_000));
    client.handle_message(&manifest(2), now).unwrap();
    let mut arrives = |gop, init: &[u8]| {
        let id = TileId { gop, tile: 3, qp: 22 };
        let tile =
            Tile { id, init, segment: b"segment", digests: TileDigests::of(b"init", b"segment") };
        match client.handle_message(&Message::Tile(tile).to_bytes(), now).unwrap() {
            Handled::Tile { is_genuine, .. } => is_genuine,
            Handled::Control => panic!("it is a tile"),
        }
    };
    assert!(!arrives(0, b"") && !arrives(0, b"other"));
    // Once it has come it need not come again.
    assert!(arrives(0, b"init") && arrives(1, b""));
}

/// A server that sends and does not read had a player keep ten reports a second for it.
#[test]
fn reports_that_do_not_go_out_do_not_pile_up() {
    let (mut client, mut now) =
        (Client::new(ClientSettings::default()), Instant::from_millis(1_000));
    assert!(client.poll_transmit().is_some(), "its greeting");
    client.handle_message(&manifest(0), now).unwrap();
    for _ in 0..6_000 {
        now += 100 * MS;
        client.handle_pose(Orientation::default(), now);
        client.handle_timeout(now);
    }
    assert!(client.poll_transmit().is_some());
    assert_eq!(client.poll_transmit(), None);
    // It goes on when it can.
    client.handle_timeout(now + 100 * MS);
    assert!(client.poll_transmit().is_some());
}
