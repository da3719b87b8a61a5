//! Two sides and whoever is between them.

use proptest::prelude::*;
use weftline_coding::node::Place;
use weftline_coding::{Arrival, Label};
use weftline_core::Instant;

use super::channel::SILENCE;
use super::datagram::{Datagram, MAC};
use super::handshakes::{HandshakeTable, Link, Local, Taken, seal_mac};
use super::{DATA_OVERHEAD, Nonce, PACKET_OVERHEAD, Refused, Role};
use crate::key::SecretKey;

fn secret(byte: u8) -> SecretKey {
    SecretKey::from_bytes([byte; 32])
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(1_000_000 + ms)
}

struct Pair {
    initiator: HandshakeTable,
    responder: HandshakeTable,
}

fn table(own: u8, peers: &[u8], role: Role, plaintext: bool) -> HandshakeTable {
    let peers: Vec<_> = peers.iter().map(|&byte| secret(byte).public()).collect();
    HandshakeTable::new(Local::new(secret(own), plaintext), Link::Access, role, &peers)
}

fn pair() -> Pair {
    let initiator = table(1, &[2], Role::Initiator, false);
    Pair { initiator, responder: table(2, &[9, 1], Role::Responder, false) }
}

fn initiation(table: &mut HandshakeTable, now: Instant) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(table.poll_initiation(0, now, &mut out), "an initiation is due");
    out
}

fn take(
    table: &mut HandshakeTable,
    bytes: &[u8],
    now: Instant,
) -> Result<(Taken, Vec<u8>), Refused> {
    let (mut frame, mut response) = ([0; 2048], Vec::new());
    let taken = table.take(bytes, now, &mut frame, &mut response)?;
    if let Taken::Frame(_, opened) = taken {
        response = frame[..opened.length].to_vec();
    }
    Ok((taken, response))
}

impl Pair {
    /// A session of both sides.
    fn joined() -> Self {
        let mut pair = pair();
        assert!(!pair.responder.channel(1).is_up(at(0)));
        pair.join(at(0));
        pair
    }

    fn join(&mut self, now: Instant) {
        let first = initiation(&mut self.initiator, now);
        let (taken, response) = take(&mut self.responder, &first, now).unwrap();
        assert_eq!(taken, Taken::Response);
        assert_eq!(take(&mut self.initiator, &response, now).unwrap().0, Taken::Begun(0));
        let hello = self.up(b"hello");
        let (taken, frame) = take(&mut self.responder, &hello, now).unwrap();
        let Taken::Frame(1, opened) = taken else { panic!("{taken:?}") };
        assert!(opened.begun && opened.current && frame == b"hello");
        assert!(self.responder.channel(1).is_up(now) && self.initiator.channel(0).is_up(now));
    }

    fn up(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.initiator.channel(0).seal(frame, &mut out).expect("there is a session");
        out
    }

    fn down(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.responder.channel(1).seal(frame, &mut out).expect("there is a session");
        out
    }
}

#[test]
fn frames_pass_both_ways_and_cost_what_is_said() {
    let mut pair = Pair::joined();
    let down = pair.down(b"a frame");
    assert_eq!(down.len(), b"a frame".len() + DATA_OVERHEAD);
    assert!(!down.windows(7).any(|part| part == b"a frame"), "encrypted");
    assert_eq!(take(&mut pair.initiator, &down, at(1)).unwrap().1, b"a frame");
    assert_eq!(take(&mut pair.initiator, &down, at(1)), Err(Refused::Replayed));
    let later = [pair.down(b"1"), pair.down(b"2"), pair.down(b"3")];
    for index in [2, 0, 1] {
        assert!(
            take(&mut pair.initiator, &later[index], at(1)).is_ok(),
            "overtaken is not replayed"
        );
    }
}

#[test]
fn a_side_that_was_started_anew_is_heard_at_once() {
    let mut pair = Pair::joined();
    let old = pair.down(b"on its way");
    // The initiator again, with the same key and nothing remembered.
    pair.initiator = table(1, &[2], Role::Initiator, false);
    pair.join(at(10));
    assert_eq!(take(&mut pair.initiator, &old, at(11)), Err(Refused::Unknown));
    // The responder: its silence is heard, and then a handshake is due.
    pair.responder = table(2, &[9, 1], Role::Responder, false);
    let lost = pair.up(b"lost");
    assert_eq!(take(&mut pair.responder, &lost, at(12)), Err(Refused::Unknown));
    assert!(!pair.initiator.poll_initiation(0, at(12), &mut Vec::new()));
    let due = pair.initiator.poll_timeout().unwrap();
    assert!(due <= at(10) + SILENCE);
    pair.join(due);
}

#[test]
fn keys_are_made_anew_while_frames_pass() {
    let mut pair = Pair::joined();
    for step in 1..300 {
        let (up, down) = (pair.up(b"up"), pair.down(b"down"));
        let now = at(400 * step);
        take(&mut pair.responder, &up, now).unwrap();
        take(&mut pair.initiator, &down, now).unwrap();
    }
    let now = pair.initiator.poll_timeout().unwrap();
    assert_eq!(now, at(120_000));
    let old = pair.down(b"before");
    pair.join(now);
    assert_eq!(take(&mut pair.initiator, &old, now).unwrap().1, b"before", "the session before");
}

/// The other side goes on in the session that it knows, and it is heard.
#[test]
fn sessions_that_were_never_used_do_not_push_out_the_one_that_is() {
    let mut pair = Pair::joined();
    for step in 1..4 {
        let now = at(step * 2_000);
        let first = initiation(&mut pair.initiator, now);
        let (_, response) = take(&mut pair.responder, &first, now).unwrap();
        assert_eq!(take(&mut pair.initiator, &response, now).unwrap().0, Taken::Begun(0));
        // What is said in the new session is lost.
        pair.up(b"lost");
        let down = pair.down(b"down");
        assert_eq!(take(&mut pair.initiator, &down, now).unwrap().1, b"down");
    }
}

/// A packet opens in its place only, and beside datagrams.
#[test]
fn packets_are_sealed_for_their_places() {
    let mut pair = Pair::joined();
    let place_in = |label, flow, arrival| {
        Nonce::of_place(Place { flow, arrival: Arrival(arrival), label: Label(label) })
    };
    let place = |flow, arrival| place_in(u32::MAX, flow, arrival);
    let mut sealed = Vec::new();
    assert!(pair.responder.channel(1).seal_packet(place(3, 7), b"packet", &mut sealed));
    assert_eq!(sealed.len(), b"packet".len() + PACKET_OVERHEAD);
    let mut out = [0; 100];
    let device = pair.initiator.channel(0);
    let of_other_cohorts = [place_in(0, 3, 7), place_in(u32::MAX - 1, 3, 7)];
    let others = [place(3, 6), place(2, 7), place(7, 3), Nonce::of_number(7)];
    for wrong in others.into_iter().chain(of_other_cohorts) {
        assert_eq!(device.open_packet(wrong, &sealed, &mut out), Err(Refused::Forged));
    }
    assert_eq!(device.open_packet(place(3, 7), &sealed, &mut out), Ok(6));
    let down = pair.down(b"a frame");
    assert_eq!(take(&mut pair.initiator, &down, at(1)).unwrap().1, b"a frame");
}

#[test]
fn a_forged_response_does_not_keep_the_right_one_out() {
    let mut pair = pair();
    let first = initiation(&mut pair.initiator, at(0));
    let (_, response) = take(&mut pair.responder, &first, at(0)).unwrap();
    let mut forged = response[..response.len() - MAC].to_vec();
    *forged.last_mut().unwrap() ^= 1;
    seal_mac(&secret(1).public(), &mut forged);
    for _ in 0..3 {
        assert_eq!(take(&mut pair.initiator, &forged, at(1)), Err(Refused::Forged));
    }
    assert_eq!(take(&mut pair.initiator, &response, at(1)).unwrap().0, Taken::Begun(0));
}

#[test]
fn an_initiation_that_comes_again_changes_nothing() {
    let mut pair = pair();
    let first = initiation(&mut pair.initiator, at(0));
    let (_, response) = take(&mut pair.responder, &first, at(0)).unwrap();
    let again = take(&mut pair.responder, &first, at(0)).unwrap();
    assert_eq!(again, (Taken::Response, response.clone()), "should the response have been lost");
    take(&mut pair.initiator, &response, at(0)).unwrap();
    let hello = pair.up(b"hello");
    take(&mut pair.responder, &hello, at(0)).unwrap();
    for again in 0..1000 {
        let (taken, response) = take(&mut pair.responder, &first, at(again)).unwrap();
        assert_eq!(taken, Taken::Response);
        assert_eq!(take(&mut pair.initiator, &response, at(again)), Err(Refused::Unknown));
    }
    let (up, down) = (pair.up(b"up"), pair.down(b"down"));
    assert!(take(&mut pair.responder, &up, at(11)).is_ok());
    assert!(take(&mut pair.initiator, &down, at(11)).is_ok());
}

#[test]
fn what_was_recorded_is_refused_once_something_newer_came() {
    let mut pair = pair();
    let recorded = initiation(&mut pair.initiator, at(0));
    // The initiator is started anew, and its initiation is newer.
    pair.initiator = table(1, &[2], Role::Initiator, false);
    pair.join(at(10));
    for again in 0..100 {
        assert_eq!(take(&mut pair.responder, &recorded, at(20 + again)), Err(Refused::Old));
    }
    let (up, down) = (pair.up(b"up"), pair.down(b"down"));
    assert!(take(&mut pair.responder, &up, at(200)).is_ok());
    assert!(take(&mut pair.initiator, &down, at(200)).is_ok());
}

#[test]
fn after_the_responder_s_new_start_a_recorded_initiation_gives_nothing() {
    let mut pair = Pair::joined();
    let recorded = initiation(&mut table(1, &[2], Role::Initiator, false), at(0));
    // It remembers nothing, and answers for a session; nobody can use it.
    pair.responder = table(2, &[9, 1], Role::Responder, false);
    let (_, response) = take(&mut pair.responder, &recorded, at(1)).unwrap();
    assert!(!pair.responder.channel(1).is_up(at(1)));
    assert_eq!(pair.responder.channel(1).seal(b"down", &mut Vec::new()), None, "no data for it");
    assert_eq!(take(&mut pair.initiator, &response, at(1)), Err(Refused::Unknown));
    // The one that is meant is newer, and in.
    let due = pair.initiator.poll_timeout().unwrap();
    pair.join(due);
    assert_eq!(take(&mut pair.responder, &recorded, due), Err(Refused::Old));
}

thread_local! {
    static CLOCK: std::cell::Cell<u64> = const { std::cell::Cell::new(1_000) };
}

#[test]
fn the_clock_is_read_at_each_initiation_and_may_be_set_back() {
    let local = Local::new(secret(1), false).with_clock(|| CLOCK.get());
    let peers = [secret(2).public()];
    let initiator = HandshakeTable::new(local.clone(), Link::Access, Role::Initiator, &peers);
    let mut pair = Pair { initiator, responder: table(2, &[9, 1], Role::Responder, false) };
    for (n, clock) in [1_000, 5_000, 3_000, 3_000].into_iter().enumerate() {
        CLOCK.set(clock);
        pair.join(at(130_000 * n as u64));
    }
    // Started anew with a clock that was put right: later than what was said before.
    CLOCK.set(6_000);
    pair.initiator = HandshakeTable::new(local.clone(), Link::Access, Role::Initiator, &peers);
    pair.join(at(600_000));
    // With one that was set back it is refused, as a recorded initiation is.
    CLOCK.set(10);
    pair.initiator = HandshakeTable::new(local, Link::Access, Role::Initiator, &peers);
    let first = initiation(&mut pair.initiator, at(700_000));
    assert_eq!(take(&mut pair.responder, &first, at(700_000)), Err(Refused::Old));
}

#[test]
fn openings_are_repeated_as_they_are_and_then_made_anew() {
    let mut initiator = table(1, &[2], Role::Initiator, false);
    let first = initiation(&mut initiator, at(0));
    let mut now = at(0);
    let mut same = 1;
    while now < at(4_900) {
        now = initiator.poll_timeout().unwrap();
        let again = initiation(&mut initiator, now);
        if now < at(5_000) {
            assert_eq!(again, first);
            same += 1;
        }
    }
    assert!((5..10).contains(&same), "{same}");
    let mut responder = table(2, &[1], Role::Responder, false);
    let (_, response) = take(&mut responder, &initiation(&mut initiator, at(10_000)), now).unwrap();
    assert_eq!(take(&mut initiator, &response, at(10_001)).unwrap().0, Taken::Begun(0));
}

#[test]
fn wrong_keys_are_told_apart() {
    let mut responder = table(2, &[1], Role::Responder, false);
    let mut aims_at_other = table(1, &[3], Role::Initiator, false);
    let bytes = initiation(&mut aims_at_other, at(0));
    assert_eq!(take(&mut responder, &bytes, at(0)), Err(Refused::OtherKey));
    let mut stranger = table(4, &[2], Role::Initiator, false);
    let bytes = initiation(&mut stranger, at(0));
    let unknown = Refused::Stranger(secret(4).public());
    assert_eq!(take(&mut responder, &bytes, at(0)), Err(unknown));
    let mut plain = table(1, &[2], Role::Initiator, true);
    let bytes = initiation(&mut plain, at(0));
    assert_eq!(take(&mut responder, &bytes, at(0)), Err(Refused::Forged), "plaintext on one side");
}

#[test]
fn plaintext_is_what_it_says() {
    let initiator = table(1, &[2], Role::Initiator, true);
    let mut pair = Pair { initiator, responder: table(2, &[9, 1], Role::Responder, true) };
    pair.join(at(0));
    let down = pair.down(b"a frame");
    assert!(down.ends_with(b"a frame"));
    assert_eq!(take(&mut pair.initiator, &down, at(1)).unwrap().1, b"a frame");
    assert_eq!(take(&mut pair.initiator, &down, at(1)), Err(Refused::Replayed));
}

/// Initiations of strangers who know the responder's public key, each another one.
fn strangers(n: usize) -> Vec<Vec<u8>> {
    let good = initiation(&mut table(4, &[2], Role::Initiator, false), at(0));
    let other = |n: usize| {
        let mut bytes = good[..good.len() - 2 * MAC].to_vec();
        bytes[1..5].copy_from_slice(&(n as u32).to_be_bytes());
        seal_mac(&secret(2).public(), &mut bytes);
        bytes.extend_from_slice(&[n as u8; MAC]);
        bytes
    };
    (0..n).map(other).collect()
}

/// A flood, from one address or from ten thousand, which the table does not tell apart.
#[test]
fn a_flood_of_strangers_keeps_nobody_out() {
    let mut responder = table(2, &[9, 1], Role::Responder, false);
    let (mut told, mut dropped) = (0, 0);
    for flood in strangers(10_000) {
        match take(&mut responder, &flood, at(1)) {
            Err(Refused::Stranger(_)) => told += 1,
            Err(Refused::Flood) => dropped += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((told, dropped), (8, 9_992), "what costs something is bounded");
    // In the middle of it.
    let initiator = table(1, &[2], Role::Initiator, false);
    let mut pair = Pair { initiator, responder };
    pair.join(at(1));
}

/// A neighbour that floods is answered in part, and the others do not notice.
#[test]
fn a_flood_of_a_neighbour_is_answered_in_part() {
    let mut pair = Pair::joined();
    let mut answered = 0;
    for _ in 0..200 {
        let flood = initiation(&mut table(9, &[2], Role::Initiator, false), at(0));
        answered += usize::from(take(&mut pair.responder, &flood, at(1)).is_ok());
    }
    assert_eq!(answered, 16);
    let up = pair.up(b"up");
    assert!(take(&mut pair.responder, &up, at(1)).is_ok());
    pair.initiator = table(1, &[2], Role::Initiator, false);
    pair.join(at(2));
}

proptest! {
    /// Whatever is changed in a datagram, it is refused and everything goes on.
    #[test]
    fn what_is_changed_is_refused(at_byte in 0_usize..200, bit in 0_u8..8, cut in 0_usize..200) {
        let mut pair = Pair::joined();
        let first = initiation(&mut table(1, &[2], Role::Initiator, false), at(0));
        for good in [pair.up(&[7; 100]), first] {
            let mut bad = good.clone();
            if at_byte < bad.len() {
                bad[at_byte] ^= 1 << bit;
                prop_assert!(take(&mut pair.responder, &bad, at(1)).is_err());
            }
            if cut < good.len() {
                prop_assert!(take(&mut pair.responder, &good[..cut], at(1)).is_err());
            }
        }
        let up = pair.up(b"up");
        prop_assert!(take(&mut pair.responder, &up, at(1)).is_ok());
    }

    /// Any bytes at all.
    #[test]
    fn noise_is_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0_u8..5) {
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        let mut pair = Pair::joined();
        let form = Datagram::decode(&bytes).is_ok();
        prop_assert!(form || bytes.len() < 13 || kind != 3);
        prop_assert!(take(&mut pair.responder, &bytes, at(1)).is_err());
        prop_assert!(take(&mut pair.initiator, &bytes, at(1)).is_err());
    }
}
