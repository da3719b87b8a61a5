//! What the fuzz target of lanes does with its input. `cargo test` replays the corpus through the same
//! function (crates/congestion/tests/fuzz_replay.rs).

use std::time::Duration;

use weftline_core::Instant;
use weftline_core::datagram::{
    Bond, BondConfig, CallRules, Carrier, Class, DATA_OVERHEAD, Frame, LaneId, MAX_WAITING,
};
use weftline_core::limiter::PathLimiter;
use weftline_core::policy::Role;

/// Frames of the other end of a bond with three lanes, and one over TCP that may come, one after the other: which lane, how much time goes
/// by and how long the frame is stand in two bytes before it. This end sends all the while.
pub fn lanes(bytes: &[u8]) {
    let mark = |_: &mut [u8]| false;
    let congestion = weftline_congestion::lane::bbr;
    let (is_initiator, calls) = (bytes.len().is_multiple_of(2), CallRules::default());
    let config = BondConfig { is_initiator, mtu: 1400, mark, congestion, calls };
    let mut now = Instant::ZERO;
    let mut bond = Bond::new(config, now);
    // What TCP sends over the same paths, which makes way for calls.
    let limiters: [PathLimiter; 3] = Default::default();
    for (lane, role) in (0..).zip([Role::Active, Role::Active, Role::Metered]) {
        assert!(bond.add_lane(LaneId(lane), (role, Carrier::Udp), now));
        bond.set_limiter(LaneId(lane), Some(limiters[usize::from(lane)].clone()));
    }
    let (mut rest, mut out, mut sequence) = (bytes, Vec::new(), 0);
    while let [how, length, after @ ..] = rest {
        let (frame, after) = after.split_at(after.len().min(usize::from(*length)));
        rest = after;
        now += Duration::from_millis(u64::from(how >> 4) * 5);
        let lane = LaneId(how & 3);
        if how & 4 != 0 {
            bond.remove_lane(lane, now);
            let carrier = if lane.0 == 3 { Carrier::Tcp } else { Carrier::Udp };
            bond.add_lane(lane, (Role::Active, carrier), now);
            bond.set_limiter(lane, limiters.get(usize::from(lane.0)).cloned());
        }
        limiters.iter().for_each(|limiter| limiter.spend(u64::from(*length) << 8, now));
        if let Ok(decoded) = Frame::decode(frame) {
            let mut again = Vec::new();
            decoded.encode(&mut again);
            assert_eq!(
                Frame::decode(&again).as_ref(),
                Ok(&decoded),
                "it is read as it was written"
            );
        }
        sequence += 1 + u64::from(how & 8);
        let _ = bond.handle_frame(lane, sequence, frame, now);
        // Of a fast flow, and a slow one.
        for (port, n) in (0..=*how).map(|n| (u8::from(n > 0), n)).take(40) {
            let mut packet = [n; 1200];
            (packet[0], packet[9], packet[21]) = (0x45, 17, port);
            bond.handle_packet(&packet, now);
        }
        bond.handle_timeout(now);
        let mut sent = 0;
        while bond.poll_transmit(now, &mut out).is_some() {
            let frame = Frame::decode(&out).expect("it sends frames");
            if let Frame::Data {
                packet, class: Class::Urgent | Class::Medium | Class::Bulk, ..
            } = frame
            {
                assert!(out.len() <= packet.len() + DATA_OVERHEAD);
            }
            out.clear();
            sent += 1;
            assert!(sent < 1 << 14, "it comes to an end");
        }
        let waiting: u64 = bond.lanes().iter().map(|lane| lane.waiting).sum();
        assert!(waiting * 1200 <= MAX_WAITING, "{waiting} packets wait");
    }
}
