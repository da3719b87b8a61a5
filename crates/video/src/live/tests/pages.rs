//! Where a page looks that shows the stream, and by which poses a GoP is judged.

use super::*;

/// A player that knows the stream.
fn greeted() -> Client {
    let mut server = Server::new(content(3), settings(Concealment::Grey));
    let mut client = Client::new(ClientSettings::default());
    server.handle_message(&client.poll_transmit().unwrap(), Instant::ZERO).unwrap();
    let Some(Outgoing::Message(manifest)) = server.poll_transmit() else { panic!("it greets") };
    client.handle_message(&manifest, Instant::ZERO).unwrap();
    client
}

/// A page that shows the stream is behind the player: its poses are of what was seen, in order of time, and
/// none counts twice.
#[test]
fn where_a_page_looks_is_of_the_picture_that_it_shows() {
    let at = Instant::from_millis;
    let mut client = greeted();
    let tiles = vec![TileNotice::default(); TILES];
    let notice = GopNotice { gop: 0, expected: ByteCount::ZERO, sound: 0, tiles };
    client.handle_message(&Message::Gop(notice).to_bytes(), at(0)).unwrap();
    assert_eq!((client.begun(), client.moves(at(499))), (0, false));
    client.handle_timeout(at(500));
    assert_eq!((client.begun(), client.moves(at(500))), (1, true));
    while client.poll_transmit().is_some() {}
    for (yaw, seen) in [(10.0, 50), (20.0, 50), (30.0, 20), (40.0, 100), (50.0, 900), (60.0, 950)] {
        let orientation = Orientation::from_degrees(yaw, 0.0, 0.0);
        client.handle_pose_at(orientation, MS * seen, at(700));
    }
    client.handle_timeout(at(700));
    let report = client.poll_transmit().unwrap();
    let Ok(Message::Report(report)) = Message::decode(&report) else { panic!("it reports") };
    let said: Vec<_> = report.poses.iter().map(|pose| (pose.at, pose.degrees[0].round())).collect();
    // Nothing is seen that the player has not come to.
    assert_eq!(said, [(MS * 50, 10.0), (MS * 100, 40.0), (MS * 200, 50.0)]);
}

/// A GoP is judged by where the head was while the player showed it, however far behind the page is on which
/// the viewer looks.
#[test]
fn a_gop_is_judged_by_all_poses_of_its_time() {
    let at = Instant::from_millis;
    let mut client = greeted();
    // What is ahead is grey, and behind nothing is lost.
    let tile = |tile: usize| TileNotice {
        grey: if tile % 4 == 1 || tile % 4 == 2 { 100.0 } else { 0.0 },
        ..TileNotice::default()
    };
    let tiles = (0..TILES).map(tile).collect();
    let notice = GopNotice { gop: 0, expected: ByteCount::ZERO, sound: 0, tiles };
    client.handle_message(&Message::Gop(notice).to_bytes(), at(0)).unwrap();
    client.handle_timeout(at(500));
    let mut looks = |yaw: f64, now: u32| {
        // The page shows what the player has shown half a second before.
        let orientation = Orientation::from_degrees(yaw, 0.0, 0.0);
        client.handle_pose_at(orientation, MS * now.saturating_sub(1_000), at(now.into()));
    };
    looks(180.0, 500);
    (1..10).for_each(|turn| looks(0.0, 500 + 50 * turn));
    looks(180.0, 999);
    assert_eq!(client.handle_still(at(999)), Some(0));
    client.handle_timeout(at(1_000));
    let report = client.poll_event().unwrap();
    assert!(report.mse.unwrap() > 0.0, "nine poses of twelve looked ahead: {report:?}");
}

/// Of GoPs that are longer than a second a video lasts longer than a day.
#[test]
fn a_pose_may_be_as_late_as_a_video_is_long() {
    let report = |at| {
        let poses = vec![PoseNotice { at, degrees: [0.0; 3] }];
        Message::decode(&Message::Report(Report { poses, ..Report::default() }).to_bytes()).is_ok()
    };
    let longest = 60 * Duration::from_secs(86_400);
    assert!(report(longest) && !report(longest + Duration::from_nanos(1)));
}
