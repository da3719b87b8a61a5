//! What is planned of what the paths bring.

use weftline_core::PathId;
use weftline_core::session::{PathStats, SessionStats, SubflowStats};
use weftline_core::{PathInfo, SubflowId};

use super::*;

/// A server whose player has greeted and looks straight ahead.
fn begun(settings: ServerSettings, now: Instant) -> Server {
    let mut server = Server::new(content(20), settings);
    let hello = Client::new(ClientSettings::default()).poll_transmit().unwrap();
    server.handle_message(&hello, now).unwrap();
    let ahead = PoseNotice { at: Duration::ZERO, degrees: [0.0; 3] };
    let report = Report { poses: vec![ahead], ..Report::default() };
    server.handle_message(&Message::Report(report).to_bytes(), now).unwrap();
    server
}

/// Where messages have deadlines, each is whole before the paths take bytes of the next, in
/// whichever direction the paths send: so no plan hangs on that.
#[test]
fn a_plan_does_not_hang_on_which_path_sends_forward() {
    let plans = |forward: Option<PathId>| {
        let mut now = Instant::from_millis(1_000);
        let mut server = begun(settings(Concealment::Grey), now);
        let path = |id| {
            let (id, info) = (SubflowId(id), PathInfo::default());
            let (outstanding, delivery_time) = (0, Duration::ZERO);
            let (stalled, standby) = (false, false);
            let subflow = SubflowStats { id, info, outstanding, delivery_time, stalled, standby };
            PathStats { subflow: Some(subflow), ..PathStats::default() }
        };
        let paths = BTreeMap::from([0, 1].map(|id| (PathId(id), path(id))));
        let mut stats = SessionStats { forward, paths, ..SessionStats::default() };
        let mut orders = Vec::new();
        for tick in 0..160 {
            now += 50 * MS;
            // Every other second little comes over the first one.
            let bytes = [if tick / 20 % 2 == 0 { 1_500 } else { 150 }, 600];
            for (path, bytes) in stats.paths.values_mut().zip(bytes) {
                path.delivered += bytes;
            }
            server.handle_stats(&stats, ByteCount::new(1), now);
            server.handle_timeout(now).unwrap();
            orders.extend(std::iter::from_fn(|| server.poll_transmit()));
        }
        orders
    };
    let without = plans(None);
    assert!(without.len() > 100);
    assert_eq!(without, plans(Some(PathId(0))));
    assert_eq!(without, plans(Some(PathId(1))));
}

/// A base layer that the paths do not carry began at the pole, and what is looked at was late.
#[test]
fn a_base_layer_over_thin_paths_is_of_what_is_looked_at() {
    let mut settings = settings(Concealment::BaseLayer);
    settings.start = Bitrate::kbps(25);
    let mut server = begun(settings, Instant::from_millis(1_000));
    let planned = server.poll_event().unwrap();
    // As many tiles as without a base layer: see
    // `below_the_lowest_rungs_tiles_are_dropped_and_said`.
    assert_eq!((planned.expected.as_u64(), planned.bytes.as_u64()), (1_562, 1_000));
    let outgoing: Vec<Outgoing> = std::iter::from_fn(|| server.poll_transmit()).collect();
    let tiles = outgoing.iter().filter_map(|outgoing| match outgoing {
        Outgoing::Tile(order) => Some(order.id.tile),
        Outgoing::Message(_) => None,
    });
    let mut tiles: Vec<u16> = tiles.collect();
    tiles.sort_unstable();
    assert_eq!(tiles, [1, 2, 5, 6], "those in front");
    let notice = outgoing.iter().find_map(|outgoing| match outgoing {
        Outgoing::Message(bytes) => match Message::decode(bytes) {
            Ok(Message::Gop(notice)) => Some(notice),
            _ => None,
        },
        Outgoing::Tile(_) => None,
    });
    // The player is told of no base layer where there is none.
    let notice = notice.unwrap();
    let told = (0_u16..).zip(&notice.tiles).filter(|(_, tile)| tile.base.is_some());
    assert_eq!(told.map(|(tile, _)| tile).collect::<Vec<_>>(), tiles);
}
