//! The paper's examples as snapshots of the order of assignment (FBDT §3.1 and §3.2).

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::{Entry, Kind, Scheduler, SchedulerConfig, SendView};
use super::{ENTRY, STRICT_ENTRY};
use crate::Instant;
use crate::path::{PathId, PathInfo, SubflowId};
use crate::ranges::RangeSet;
use crate::subflow::Subflow;

const PACKET: u64 = 1000;
const RTT: Duration = Duration::from_millis(10);
const FWD: usize = 0;
const BWD: usize = 1;
const THIRD: usize = 2;
const NAMES: [&str; 3] = ["fwd", "bwd", "third"];

/// A stream of numbered packets, a window of some of them, and paths asked by hand.
struct Example {
    scheduler: Box<dyn Scheduler>,
    una: u64,
    acked: RangeSet,
    unassigned: RangeSet,
    end: u64,
    subflows: Vec<Subflow>,
    received: [u64; 3],
    now: Instant,
    log: String,
}

impl Example {
    fn new(entry: &Entry, window: u64, packets: u64) -> Self {
        Self::over(2, entry, window, packets)
    }

    fn over(paths: u64, entry: &Entry, window: u64, packets: u64) -> Self {
        Self::without("", paths, entry, window, packets)
    }

    /// With those rules switched off.
    fn without(rules: &str, paths: u64, entry: &Entry, window: u64, packets: u64) -> Self {
        let config = SchedulerConfig {
            window: Some(window * PACKET),
            without: rules.parse().expect("known rules"),
            ..SchedulerConfig::default()
        };
        let subflow = |n| {
            let mut subflow =
                Subflow::new(SubflowId(n), PathId(n), (PACKET, PACKET), Instant::ZERO);
            subflow.set_info(PathInfo { srtt: RTT, min_rtt: RTT, ..PathInfo::default() }, 0);
            subflow
        };
        let mut unassigned = RangeSet::new();
        unassigned.insert(0..packets * PACKET);
        Self {
            scheduler: entry.make(&config),
            una: 0,
            acked: RangeSet::new(),
            unassigned,
            end: packets * PACKET,
            subflows: (0..paths).map(subflow).collect(),
            received: [0; 3],
            now: Instant::from_millis(1),
            log: String::new(),
        }
    }

    /// The path asks for one packet.
    fn ask(&mut self, path: usize) {
        let mut rooms = [0; 3];
        rooms[path] = PACKET;
        let view = SendView {
            now: self.now,
            una: self.una,
            acked: &self.acked,
            unassigned: &self.unassigned,
            limit: self.end,
            credit_window: self.end,
            memory_left: None,
            memory: 256 << 20,
            expected: 0,
            subflows: &self.subflows,
            rooms: &rooms,
            meters: &BTreeMap::new(),
            messages: None,
        };
        let name = NAMES[path];
        match self.scheduler.pick(&view) {
            None => self.note(&format!("{name} waits")),
            Some(next) => {
                let is_new = self.unassigned.remove(next.range.clone()) > 0;
                let (kind, again) = if is_new { (Kind::New, "") } else { (Kind::Copy, " again") };
                self.subflows[path].assign(next.range.clone(), kind, self.now);
                self.note(&format!("{name} sends {}{again}", next.range.start / PACKET + 1));
            }
        }
    }

    /// The receiver confirms that `packet` came on `path`.
    fn ack(&mut self, path: usize, packet: u64) {
        self.note(&format!("{packet} acknowledged"));
        self.received[path] += PACKET;
        let start = (packet - 1) * PACKET;
        self.acked.insert(start..start + PACKET);
        self.subflows[path].acknowledge(self.received[path], self.now).expect("was sent");
        if let Some(first) = self.acked.first()
            && first.start == self.una
        {
            self.una = first.end;
            self.acked.remove_below(self.una);
            self.subflows.iter_mut().for_each(|subflow| subflow.release_below(first.end));
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.note(&format!("{time:?} later"));
    }

    fn note(&mut self, line: &str) {
        self.log.push_str(line);
        self.log.push('\n');
    }
}

#[test]
fn six_packets_meet_in_the_middle() {
    let mut example = Example::new(&ENTRY, 6, 6);
    for _ in 0..4 {
        example.ask(FWD);
        example.ask(BWD);
    }
    insta::assert_snapshot!(example.log);
}

#[test]
fn six_packets_with_a_stalled_forward_path() {
    // Packet 2 is delayed on the forward path: the backward path goes on up to it and, as the
    // paper says, includes it once its own part is done and packet 2 is late.
    let mut example = Example::new(&ENTRY, 6, 6);
    example.ask(FWD);
    example.ask(BWD);
    example.ack(FWD, 1);
    example.ask(FWD);
    for packet in [6, 5, 4] {
        example.ask(BWD);
        example.ack(BWD, packet);
    }
    example.ask(BWD);
    example.ack(BWD, 3);
    example.wait(RTT);
    example.ask(BWD);
    example.ask(BWD);
    insta::assert_snapshot!(example.log);
}

#[test]
fn ten_packets_strictly_as_printed() {
    // Forward has finished packet 3; backward has 5 and 4 outstanding. Forward waits one RTT of
    // the backward path, sends 4 and 5, and the next ten packets are loaded.
    let mut example = Example::new(&STRICT_ENTRY, 10, 20);
    for _ in 0..3 {
        example.ask(FWD);
    }
    for _ in 0..7 {
        example.ask(BWD);
    }
    for packet in [1, 2, 3] {
        example.ack(FWD, packet);
    }
    for packet in [10, 9, 8, 7, 6] {
        example.ack(BWD, packet);
    }
    example.ask(FWD);
    example.wait(RTT);
    for _ in 0..4 {
        example.ask(FWD);
    }
    example.ask(BWD);
    insta::assert_snapshot!(example.log);
}

/// Forward has sent 1 to 3 and backward 10 to 4; then forward asks: at once, when 1 to 3 have been
/// acknowledged, and a round trip after that. What it gets each time, with those rules off.
fn at_a_windows_end(rules: &str) -> [String; 3] {
    let mut example = Example::without(rules, 2, &STRICT_ENTRY, 10, 20);
    (0..3).for_each(|_| example.ask(FWD));
    (0..7).for_each(|_| example.ask(BWD));
    let answer = |example: &mut Example| {
        example.ask(FWD);
        example.log.lines().last().expect("an answer").to_owned()
    };
    let first = answer(&mut example);
    (1..=3).for_each(|packet| example.ack(FWD, packet));
    let second = answer(&mut example);
    example.wait(RTT);
    [first, second, answer(&mut example)]
}

#[test]
fn each_wait_of_the_printed_algorithm_can_be_switched_off() {
    let (waits, again, next) = ("fwd waits", "fwd sends 4 again", "fwd sends 11");
    assert_eq!(at_a_windows_end(""), [waits, waits, again]);
    // A round trip is waited for all the same, from the first question on.
    assert_eq!(at_a_windows_end("wait-acks"), [waits, waits, again]);
    assert_eq!(at_a_windows_end("wait-round-trip")[..2], [waits, again]);
    assert_eq!(at_a_windows_end("wait-acks,wait-round-trip")[0], again);
    assert_eq!(at_a_windows_end("send-again"), [waits, waits, next]);
}

/// Without the wait for acknowledgements the round trip begins when the window is sent.
#[test]
fn without_the_wait_for_acknowledgements_the_round_trip_begins_earlier() {
    let after_a_round_trip = |rules| {
        let mut example = Example::without(rules, 2, &STRICT_ENTRY, 10, 20);
        (0..3).for_each(|_| example.ask(FWD));
        (0..7).for_each(|_| example.ask(BWD));
        example.ask(FWD);
        example.wait(RTT);
        example.ask(FWD);
        example.log.lines().last().expect("an answer").to_owned()
    };
    assert_eq!(after_a_round_trip(""), "fwd waits");
    assert_eq!(after_a_round_trip("wait-acks"), "fwd sends 4 again");
}

#[test]
fn ten_packets_pipelined() {
    // The same situation without idling: forward goes on with the next window at once.
    let mut example = Example::new(&ENTRY, 10, 20);
    for _ in 0..3 {
        example.ask(FWD);
    }
    for _ in 0..7 {
        example.ask(BWD);
    }
    for packet in [1, 2, 3] {
        example.ack(FWD, packet);
    }
    example.ask(FWD);
    example.ask(BWD);
    example.ask(FWD);
    insta::assert_snapshot!(example.log);
}

#[test]
fn three_paths_meet() {
    // The low end is the forward path's, the high end that of both others.
    let mut example = Example::over(3, &ENTRY, 9, 9);
    for _ in 0..3 {
        for path in [FWD, BWD, THIRD] {
            example.ask(path);
        }
    }
    example.ask(FWD);
    insta::assert_snapshot!(example.log);
}
