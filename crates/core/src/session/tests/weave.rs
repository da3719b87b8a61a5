//! What is recorded of what was sent.

use super::*;

#[test]
fn what_a_subflow_that_is_gone_had_is_woven_as_sent_again() {
    let mut session = session();
    session.record_weave(Some(100));
    session.write(&[7; 5000], Instant::ZERO).unwrap();
    let _ = sent(&mut session, Instant::ZERO);
    session.subflow_down(PEER, Instant::from_millis(1));
    // What is new follows it, in the same record.
    session.write(&[7; 500], Instant::from_millis(2)).unwrap();
    session.subflow_up(PEER, PathId(1), Instant::from_millis(2)).unwrap();
    let _ = sent(&mut session, Instant::from_millis(2));
    let woven = session.weave_sent(Instant::from_millis(3)).unwrap();
    let seen: Vec<_> =
        woven.stretches.iter().map(|one| (one.path.0, one.kind, one.range.clone())).collect();
    let new =
        [(0, Kind::New, 0..5000), (1, Kind::Reinjection, 0..5000), (1, Kind::New, 5000..5500)];
    assert_eq!(seen, new);
}
