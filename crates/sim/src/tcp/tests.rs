//! Endpoints under hand-written scripts: what goes out when. The vectors of RFC 8985 and RFC 9937
//! with a round trip of 20 ms, and Linux's timers.

mod harness;
mod random;

use harness::{CLIENT, Departure, MSS, Pair, SERVER, START, Setup, losing, steady};

use super::receiver::Receiver;
use super::{MS, ReceiveBuffer, SECOND, Segment};

/// A window that is never the limit.
fn wide() -> Setup {
    Setup { initial_cwnd: 100, ..Setup::default() }
}

/// Data with payload `k`, counted from 0, in its `copy`-th transmission.
fn is_copy(departure: &Departure, k: u64, copy: usize) -> bool {
    let segment = departure.segment;
    segment.len > 0 && segment.seq == k * MSS && departure.copy == copy
}

// ---- RACK and TLP (RFC 8985), one segment per millisecond ----

#[test]
fn the_third_sack_marks_the_loss() {
    let mut pair = Pair::new(wide(), losing(|departure| is_copy(departure, 5, 0)));
    pair.write_each_ms(0..=60);
    pair.run_to(SECOND);
    assert_eq!(pair.sent_ms(5), [5.0, 28.0]);
    assert!(pair.is_done() && pair.sent.len() == 62, "only the lost segment goes again");
    let stats = pair.ends[SERVER].stats();
    assert_eq!((stats.recoveries, stats.timeouts, stats.resent), (1, 0, 1));
}

#[test]
fn a_lone_sack_starts_the_reordering_timer() {
    let mut pair = Pair::new(wide(), losing(|departure| is_copy(departure, 5, 0)));
    pair.write_each_ms(0..=6);
    pair.run_to(SECOND);
    // Sent at 5, a round trip, a quarter of one.
    assert_eq!(pair.sent_ms(5), [5.0, 30.0]);
    assert_eq!(pair.ends[SERVER].stats().timeouts, 0);
}

#[test]
fn a_lost_tail_is_probed() {
    let tail = |departure: &Departure| {
        departure.segment.len > 0 && departure.copy == 0 && departure.nth >= 3
    };
    let mut pair = Pair::new(wide(), losing(tail));
    pair.write_each_ms(0..=5);
    pair.run_to(SECOND);
    // Number 2 is acknowledged at 22 ms; two round trips and Linux's 2 ms later the last segment
    // goes again. Its SACK shows the others lost, after the reordering window.
    assert_eq!(pair.sent_ms(5), [5.0, 64.0]);
    assert_eq!(pair.sent_ms(3), [3.0, 84.0]);
    // PRR sends no more than was delivered while losses are found.
    assert_eq!(pair.sent_ms(4), [4.0, 104.0]);
    let stats = pair.ends[SERVER].stats();
    assert_eq!((stats.probes, stats.timeouts, stats.resent), (1, 0, 3));
    assert!(pair.is_done());
}

#[test]
fn a_lone_segment_leaves_time_for_a_delayed_acknowledgement() {
    let mut pair = Pair::new(wide(), losing(|departure| is_copy(departure, 0, 0)));
    pair.write_at(0, 1);
    pair.run_to(SECOND);
    // 2 SRTT + 200 ms, but no later than the retransmission timer: SRTT + 200 ms.
    assert_eq!(pair.sent_ms(0), [0.0, 220.0]);
    let stats = pair.ends[SERVER].stats();
    assert_eq!((stats.probes, stats.timeouts), (1, 0));
}

#[test]
fn a_probe_that_repairs_the_only_loss_reduces_the_window_once() {
    let mut pair = Pair::new(wide(), losing(|departure| is_copy(departure, 5, 0)));
    pair.write_at(0, 6);
    pair.run_to(SECOND);
    assert_eq!(pair.ends[SERVER].stats().probes, 1);
    assert_eq!(pair.ends[SERVER].cwnd(), 50.0, "half of 100 and nothing since");
    // A probe answered with a duplicate report repaired nothing.
    let mut late = Pair::new(
        wide(),
        Box::new(|departure| match is_copy(departure, 5, 0) {
            true => Some(250 * MS),
            false => Some(10 * MS),
        }),
    );
    late.write_at(0, 6);
    late.run_to(SECOND);
    assert!(late.is_done());
    assert_eq!(late.ends[SERVER].stats().probes, 1);
}

#[test]
fn a_lost_retransmission_is_repaired_in_a_round_trip() {
    let lost = |departure: &Departure| is_copy(departure, 5, 0) || is_copy(departure, 5, 1);
    let mut pair = Pair::new(wide(), losing(lost));
    pair.write_each_ms(0..=80);
    pair.run_to(SECOND);
    // What was sent at 28 ms or later is acknowledged from 48 ms on.
    let [first, second, third] = pair.sent_ms(5)[..] else { panic!("{:?}", pair.sent_ms(5)) };
    assert_eq!((first, second), (5.0, 28.0));
    assert!((48.0..=50.0).contains(&third), "{third}");
    assert_eq!(pair.ends[SERVER].stats().timeouts, 0);
    assert!(pair.is_done());
}

#[test]
fn a_hole_behind_a_delayed_acknowledgement_is_no_reordering() {
    // Numbers 40 and 41 differ in whether the segment before them had been acknowledged when the
    // one after them arrived; where it had not, one acknowledgement tells of both.
    for first in [40, 41] {
        let lost =
            move |departure: &Departure| [first, 100].iter().any(|&k| is_copy(departure, k, 0));
        let mut pair = Pair::new(wide(), losing(lost));
        pair.write_each_ms(0..=160);
        pair.run_to(SECOND);
        let [_, again] = pair.sent_ms(100)[..] else { panic!("{:?}", pair.sent_ms(100)) };
        assert_eq!(again, 123.0, "the third SACK is enough while nothing was reordered");
    }
}

#[test]
fn reordering_within_the_window_is_no_loss() {
    // Number 5 takes 3 ms longer than the others and is overtaken by two.
    let mut pair = Pair::new(
        wide(),
        Box::new(|departure| match is_copy(departure, 5, 0) {
            true => Some(13 * MS),
            false => Some(10 * MS),
        }),
    );
    pair.write_each_ms(0..=7);
    pair.write_each_ms(8..=60);
    pair.run_to(SECOND);
    let before = pair.ends[SERVER].stats().resent;
    assert!(before <= 1, "the third SACK may be too soon once: {before}");
    // Reordering has been seen: overtaken by three, number 70 waits for a quarter of a round trip.
    let mut patient = Pair::new(
        wide(),
        Box::new(|departure| match [5, 40].iter().any(|&k| is_copy(departure, k, 0)) {
            true if departure.nth == 5 => Some(12 * MS + MS / 2),
            true => Some(14 * MS + MS / 2),
            false => Some(10 * MS),
        }),
    );
    patient.write_each_ms(0..=60);
    patient.run_to(SECOND);
    assert_eq!(patient.ends[SERVER].stats().resent, 0, "{:?}", patient.sent_ms(40));
}

// ---- PRR (RFC 9937) ----

/// A bottleneck that serves a segment in `service_ns`; what `lost` names it loses.
fn bottleneck(
    service_ns: u64,
    mut lost: impl FnMut(&Departure) -> bool + 'static,
) -> harness::Script {
    let mut free_ns = i64::MIN / 2;
    Box::new(move |departure| {
        if departure.from == CLIENT || departure.segment.len == 0 {
            return Some(10 * MS);
        }
        free_ns = free_ns.max(departure.at_ns) + service_ns as i64;
        (!lost(departure)).then(|| (free_ns - departure.at_ns) as u64 + 10 * MS)
    })
}

#[test]
fn recovery_sends_in_proportion_and_ends_at_the_threshold() {
    for (control, ssthresh, sent) in [("reno", 50, 50..=54), ("cubic", 70, 69..=73)] {
        let setup = Setup { control, ..wide() };
        let mut pair = Pair::new(setup, bottleneck(MS / 10, |departure| is_copy(departure, 0, 0)));
        pair.write_at(0, 1_000);
        // The first SACK comes at 20.2 ms, the third marks the loss; the repair is acknowledged
        // one round trip and the queue later. The first two let a new segment go each.
        while pair.ends[SERVER].acknowledged() == 0 {
            assert!(pair.step(START + SECOND));
        }
        let during = pair.sent.iter().filter(|departure| departure.at_ns > 20 * MS as i64);
        let during = during.filter(|departure| departure.at_ns < pair.now_ns as i64 - START as i64);
        let (during, flight) = (during.count() as u64, pair.ends[SERVER].info(MSS).in_flight);
        let stats = pair.ends[SERVER].stats();
        assert_eq!((stats.recoveries, stats.resent, stats.timeouts), (1, 1, 0), "{control}");
        assert!(sent.contains(&during), "{control}: {during} sent for 100 acknowledged");
        let flight = flight.as_u64() / MSS;
        assert!(flight.abs_diff(ssthresh) <= 1, "{control}: {flight} in flight at the end");
        let set = pair.ends[SERVER].info(MSS).ssthresh.unwrap().as_u64() / MSS;
        assert!(set.abs_diff(ssthresh) <= 1, "{control}: {set}");
    }
}

// ---- the retransmission timer (RFC 6298) ----

#[test]
fn expiries_double_and_the_answer_resets() {
    // Everything sent in the first four seconds is lost but the first segment.
    let dead = |departure: &Departure| {
        let data = departure.segment.len > 0 && departure.nth > 0;
        data && departure.at_ns < 4 * SECOND as i64
    };
    let mut pair = Pair::new(wide(), losing(dead));
    pair.write_at(0, 1);
    pair.write_at(100 * MS, 5);
    pair.run_to(3_500 * MS);
    let head = pair.sent_ms(1);
    // A probe by number 5, then the timer: 220 ms, 440 ms, 880 ms, 1760 ms after each other.
    assert_eq!(pair.sent_ms(5).len(), 2);
    let waits: Vec<f64> = head[1..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(head[1] - pair.sent_ms(5)[1], 220.0);
    assert_eq!(waits, [440.0, 880.0, 1_760.0][..waits.len()], "{head:?}");
    assert_eq!(pair.ends[SERVER].cwnd(), 1.0);
    let timeouts = pair.ends[SERVER].stats().timeouts;
    assert_eq!(timeouts as usize, head.len() - 1);
    pair.run_to(12 * SECOND);
    assert!(pair.is_done());
    // The time stamp, not the first transmission, tells the round-trip time.
    assert_eq!(pair.ends[SERVER].srtt_ns(), 20 * MS);
}

#[test]
fn a_timeout_for_nothing_is_undone() {
    for control in ["reno", "cubic", "bbr", "compound", "lia"] {
        // The receiver's window keeps 200 segments in flight: the path and no queue.
        let setup = Setup { control, receive_window: 200 * MSS, ..Setup::default() };
        // Between 200 and 700 ms nothing moves, and nothing is lost.
        let (from, to) = (200 * MS as i64, 700 * MS as i64);
        let mut free_ns = i64::MIN / 2;
        let mut pair = Pair::new(
            setup,
            Box::new(move |departure| {
                if departure.from == CLIENT {
                    return Some(10 * MS);
                }
                free_ns = free_ns.max(departure.at_ns) + MS as i64 / 10;
                if (from..to).contains(&free_ns) {
                    free_ns = to;
                }
                Some((free_ns - departure.at_ns) as u64 + 10 * MS)
            }),
        );
        pair.write_at(0, 20_000);
        pair.run_to(200 * MS);
        let before = pair.ends[SERVER].cwnd();
        assert_eq!(pair.ends[SERVER].stats().resent, 0, "{control}");
        pair.run_to(690 * MS);
        assert!(pair.ends[SERVER].stats().timeouts >= 1, "{control}");
        pair.run_to(SECOND);
        let stats = *pair.ends[SERVER].stats();
        assert_eq!(stats.spurious, 1, "{control}");
        let forced = stats.timeouts + stats.probes;
        assert_eq!(stats.resent, forced, "{control}: but the probe only the head goes again");
        let after = pair.ends[SERVER].cwnd();
        let least = if control == "bbr" { 4.0 } else { before };
        assert!(after >= least, "{control}: {before} before, {after} after");
        pair.run_to(30 * SECOND);
        assert!(pair.is_done(), "{control}");
    }
}

// ---- the receiver ----

fn data(k: u64) -> Segment {
    Segment { seq: k * MSS, len: MSS as u32, has_ack: true, ..Segment::default() }
}

fn answer(receiver: &mut Receiver) -> (u64, Vec<(u64, u64)>, bool) {
    let mut segment = Segment::default();
    receiver.acknowledge(&mut segment);
    let blocks = segment.blocks().map(|block| (block.start / MSS, block.end / MSS)).collect();
    (segment.ack / MSS, blocks, segment.dsack)
}

#[test]
fn the_most_recent_blocks_come_first_and_duplicates_before_them() {
    let mut receiver = Receiver::new(MSS, ReceiveBuffer::of_window(32 << 20, MSS));
    let mut arrive = |k: u64| {
        receiver.handle(&data(k), SECOND);
        assert!(receiver.ack_due(SECOND), "out of order is acknowledged at once");
        answer(&mut receiver)
    };
    assert_eq!(arrive(0), (1, vec![], false));
    assert_eq!(arrive(2), (1, vec![(2, 3)], false));
    assert_eq!(arrive(6), (1, vec![(6, 7), (2, 3)], false));
    assert_eq!(arrive(4), (1, vec![(4, 5), (6, 7), (2, 3)], false));
    // A fourth block pushes the oldest out (RFC 2018 §4).
    assert_eq!(arrive(9), (1, vec![(9, 10), (4, 5), (6, 7)], false));
    // A block that grows comes to the front whole.
    assert_eq!(arrive(7), (1, vec![(6, 8), (9, 10), (4, 5)], false));
    // A duplicate above, then one below (RFC 2883 §4).
    assert_eq!(arrive(4), (1, vec![(4, 5), (6, 8), (9, 10)], true));
    let (ack, blocks, dsack) = arrive(0);
    assert_eq!((ack, blocks[0], blocks.len(), dsack), (1, (0, 1), 3, true));
    // The hole is filled in part.
    let (ack, blocks, dsack) = arrive(1);
    assert_eq!((ack, blocks.len(), dsack), (3, 3, false));
    assert_eq!(arrive(3).0, 5);
}

#[test]
fn acknowledgements_are_quick_then_delayed() {
    let mut receiver = Receiver::new(MSS, ReceiveBuffer::of_window(32 << 20, MSS));
    for k in 0..16 {
        receiver.handle(&data(k), SECOND);
        assert!(receiver.ack_due(SECOND), "{k}");
        answer(&mut receiver);
    }
    receiver.handle(&data(16), SECOND);
    assert!(!receiver.ack_due(SECOND + 39 * MS));
    assert_eq!(receiver.deadline_ns(), Some(SECOND + 40 * MS));
    receiver.handle(&data(17), SECOND + MS);
    assert!(receiver.ack_due(SECOND + MS), "every second segment");
    assert_eq!(answer(&mut receiver), (18, vec![], false));
    assert!(!receiver.ack_due(SECOND + 10 * SECOND), "nothing is left to say");
}

#[test]
fn a_delayed_acknowledgement_echoes_the_earliest_segment() {
    let mut receiver = Receiver::new(MSS, ReceiveBuffer::of_window(32 << 20, MSS));
    for k in 0..18 {
        receiver.handle(&Segment { sent_ns: 100 + k, ..data(k) }, SECOND);
        if k < 16 {
            answer(&mut receiver);
        }
    }
    let mut segment = Segment::default();
    receiver.acknowledge(&mut segment);
    assert_eq!(segment.echo_ns, 116, "RFC 7323 §4.3");
}

// ---- windows ----

#[test]
fn the_receive_window_stops_the_sender_and_opens_again() {
    let setup = Setup { receive_window: 20 * MSS, ..wide() };
    let mut pair = Pair::new(setup, Box::new(steady));
    pair.reads = false;
    pair.write_at(0, 50);
    pair.run_to(SECOND);
    assert_eq!(pair.sent.len(), 20, "no more than there is room for");
    assert_eq!(pair.ends[CLIENT].in_order(), 20 * MSS);
    let acks = pair.acks.len();
    pair.read(MSS);
    pair.run_to(2 * SECOND);
    assert_eq!(pair.acks[acks].at_ns, SECOND as i64, "a closed window that opens is told at once");
    pair.read(20 * MSS);
    pair.reads = true;
    pair.run_to(3 * SECOND);
    assert!(pair.is_done());
    assert_eq!(pair.ends[SERVER].stats().resent, 0);
}

#[test]
fn a_paced_sender_waits_for_a_window_of_less_than_a_segment() {
    let setup = Setup { control: "bbr", receive_window: 20 * MSS + MSS / 2, ..wide() };
    let mut pair = Pair::new(setup, Box::new(steady));
    pair.reads = false;
    pair.write_at(0, 50);
    pair.run_to(SECOND);
    assert_eq!(pair.sent.len(), 20, "half a segment of room is none");
    pair.read(20 * MSS);
    pair.reads = true;
    pair.run_to(3 * SECOND);
    assert!(pair.is_done());
}

#[test]
fn a_window_whose_opening_was_lost_is_asked_for() {
    // Everything that the client sends between 1 s and 1.1 s is lost.
    let lost = |departure: &Departure| {
        departure.from == CLIENT && (SECOND..SECOND + 100 * MS).contains(&(departure.at_ns as u64))
    };
    let setup = Setup { receive_window: 20 * MSS, ..wide() };
    let mut pair = Pair::new(setup, losing(lost));
    pair.reads = false;
    pair.write_at(0, 50);
    pair.run_to(SECOND);
    pair.read(20 * MSS);
    pair.reads = true;
    pair.run_to(10 * SECOND);
    assert!(pair.is_done());
    assert_eq!(pair.ends[SERVER].stats().resent, 0);
}

#[test]
fn an_idle_connection_starts_again_with_a_smaller_window() {
    let mut pair = Pair::new(Setup::default(), Box::new(steady));
    pair.write_at(0, 300);
    pair.run_to(300 * MS);
    assert!(pair.is_done());
    let grown = pair.ends[SERVER].cwnd();
    assert!(grown > 100.0, "{grown}");
    // The timeout is 220 ms: after 550 ms of rest the window is halved twice.
    let idle_from = pair.sent.last().unwrap().at_ns as u64;
    let (before, at) = (pair.sent.len(), idle_from + 550 * MS);
    pair.write_at(at, 300);
    pair.run_to(at + MS);
    let first_flight = pair.sent.len() - before;
    assert_eq!(first_flight as f64, (grown / 4.0).floor(), "{grown}");
    // After a long rest it is the initial window.
    pair.run_to(at + SECOND);
    assert!(pair.is_done());
    let (before, at) = (pair.sent.len(), at + 60 * SECOND);
    pair.write_at(at, 300);
    pair.run_to(at + MS);
    assert_eq!(pair.sent.len() - before, 10);
}

// ---- the handshake ----

#[test]
fn a_lost_request_is_repeated_after_a_second() {
    let mut requests = 0;
    let mut pair = Pair::strangers(
        Setup::default(),
        losing(move |departure| {
            let request = departure.from == CLIENT && departure.segment.syn;
            requests += usize::from(request);
            request && requests <= 2
        }),
    );
    pair.ends[CLIENT].connect();
    // At 0, 1 and 3 s; a round trip of 20 ms, and half of one for the server.
    assert!(!{
        while pair.step(3 * SECOND + 19 * MS) {}
        pair.ends[CLIENT].is_established()
    });
    while pair.step(3 * SECOND + 30 * MS) {}
    assert!(pair.ends.iter().all(super::Endpoint::is_established));
    assert_eq!(pair.ends[CLIENT].srtt_ns(), 0, "an ambiguous answer is no sample (Karn)");
    assert_eq!(pair.ends[SERVER].srtt_ns(), 20 * MS);
}

#[test]
fn a_lost_answer_is_repeated() {
    let mut answers = 0;
    let mut pair = Pair::strangers(
        Setup::default(),
        losing(move |departure| {
            let answer = departure.from == SERVER && departure.segment.syn;
            answers += usize::from(answer);
            answer && answers <= 1
        }),
    );
    pair.ends[CLIENT].connect();
    while pair.step(SECOND + 40 * MS) {}
    assert!(pair.ends.iter().all(super::Endpoint::is_established));
}

#[test]
fn a_lost_last_step_of_the_handshake_does_no_harm() {
    let mut pair = Pair::strangers(
        Setup::default(),
        losing(|departure| {
            let early = departure.at_ns < -970 * MS as i64;
            departure.from == CLIENT && !departure.segment.syn && early
        }),
    );
    pair.ends[CLIENT].connect();
    while pair.step(900 * MS) {}
    assert!(pair.ends[CLIENT].is_established() && !pair.ends[SERVER].is_established());
    // The server repeats its answer, the client its acknowledgement.
    while pair.step(SECOND + 50 * MS) {}
    assert!(pair.ends[SERVER].is_established());
}

// ---- pacing and bursts ----

/// (when in ns, how many) of segments that went out together.
fn bursts(pair: &Pair, from_ns: u64) -> Vec<(i64, usize)> {
    let mut bursts: Vec<(i64, usize)> = Vec::new();
    for departure in pair.sent.iter().filter(|departure| departure.at_ns >= from_ns as i64) {
        match bursts.last_mut() {
            Some((at, count)) if *at == departure.at_ns => *count += 1,
            _ => bursts.push((departure.at_ns, 1)),
        }
    }
    bursts
}

#[test]
fn a_paced_sender_spaces_bursts_of_a_millisecond() {
    let setup = Setup { control: "bbr", ..Setup::default() };
    let mut pair = Pair::new(setup, bottleneck(MS / 10, |_| false));
    pair.write_at(0, 60_000);
    pair.run_to(5 * SECOND);
    let from = pair.sent.len();
    pair.run_to(5 * SECOND + 100 * MS);
    let sent = pair.sent.len() - from;
    // 10 segments per millisecond is the bottleneck; a probe sends a quarter more.
    assert!((900..=1_150).contains(&sent), "{sent} in 100 ms");
    let bursts = bursts(&pair, 5 * SECOND);
    for pair in bursts[1..bursts.len() - 1].windows(2) {
        let [(at, count), (next, _)] = pair else { continue };
        let per_segment = (next - at) / *count as i64;
        assert!((7..=13).contains(count), "{count} at once");
        // At the gains 1.25, 1 and 0.75 and the margin of a percent.
        assert!((75_000..=140_000).contains(&per_segment), "{per_segment} ns a segment");
    }
}

#[test]
fn new_data_wait_for_a_burst_while_acknowledgements_come_quickly() {
    let mut pair = Pair::new(wide(), bottleneck(MS / 5, |departure| is_copy(departure, 0, 0)));
    pair.write_at(0, 20_000);
    pair.run_to(3 * SECOND);
    let bursts = bursts(&pair, SECOND);
    let (count, sent) = (bursts.len(), bursts.iter().map(|(_, count)| count).sum::<usize>());
    let mean = sent as f64 / count as f64;
    // Acknowledgements come every 0.4 ms for two segments; a burst is what a millisecond takes.
    assert!((2.5..=8.0).contains(&mean), "{mean} segments at once");
    assert!((9_500..=10_500).contains(&sent), "the path stays full: {sent} in 2 s");
}

#[test]
fn deferral_never_waits_for_what_does_not_come() {
    let mut pair = Pair::new(Setup::default(), Box::new(steady));
    for k in 0..40 {
        pair.write_at(k * MS / 4, 1);
    }
    pair.run_to(SECOND);
    assert!(pair.is_done());
    assert_eq!(pair.ends[SERVER].stats().resent, 0);
    let last = pair.sent.last().unwrap();
    // The third round trip.
    assert!(last.at_ns <= 45 * MS as i64, "sent at {} ns", last.at_ns);
}
