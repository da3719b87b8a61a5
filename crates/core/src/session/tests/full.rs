//! A subflow whose socket takes nothing though none of its data are on their way.

use super::*;
use crate::{ByteCount, PathInfo};

const NEAR: SubflowId = SubflowId(0);
const FAR: SubflowId = SubflowId(1);

fn info(rtt_ms: u64) -> PathInfo {
    PathInfo {
        cwnd: ByteCount::kib(100),
        srtt: ms(rtt_ms),
        rttvar: ms(rtt_ms / 8),
        min_rtt: ms(rtt_ms),
        ..PathInfo::default()
    }
}

/// The bytes that a subflow's writer gets, whose socket has so much room.
fn written(session: &mut Session, id: SubflowId, room: u64, now: Instant) -> u64 {
    let mut out = VecDeque::new();
    session.handle_room(id, room);
    let _ = session.poll_transmit(id, &mut out, now);
    let mut bytes: BytesMut = out.iter().flatten().copied().collect();
    let records = std::iter::from_fn(|| Record::decode(&mut bytes).expect("our own records"));
    let data = records.filter_map(|record| match record {
        Record::Data(data) => Some(data.payload.len() as u64),
        _ => None,
    });
    data.sum()
}

fn stalls(session: &mut Session) -> usize {
    let events = std::iter::from_fn(|| session.poll_event());
    events.filter(|event| matches!(event, Event::SubflowStalled(_))).count()
}

/// The near path is cut while only acknowledgements go over it, which fill its socket.
#[test]
fn nothing_waits_for_a_path_that_takes_nothing() {
    let config = |name: &str| SessionConfig {
        scheduler: Entry::find(name).unwrap(),
        ..SessionConfig::default()
    };
    for name in ["earliest", "fbdt", "min-rtt"] {
        let mut session = Session::new(&config(name), Instant::ZERO);
        for (id, rtt) in [(NEAR, 10), (FAR, 50)] {
            session.subflow_up(id, PathId(id.0), Instant::ZERO).unwrap();
            session.handle_path_info(id, info(rtt));
        }
        let begin = Instant::from_millis(100);
        assert_eq!(written(&mut session, NEAR, 0, begin), 0, "{name}");
        assert_eq!(written(&mut session, FAR, 64 << 10, begin), 0, "{name}");
        session.write(&[7; 2000], begin).unwrap();
        let mut at = begin;
        while written(&mut session, FAR, 64 << 10, at) == 0 {
            at = session.poll_timeout(at).expect("something changes by itself").max(at + ms(1));
            session.handle_timeout(at);
        }
        assert!(at <= begin + ms(100), "{name}: after {:?}", at.since(begin));
        assert_eq!(stalls(&mut session), 0, "{name}: slow paths are like that");
        // The first path is of use again.
        session.write(&[7; 1000], at).unwrap();
        assert!(written(&mut session, NEAR, 64 << 10, at) >= 1000, "{name}");
    }
}
