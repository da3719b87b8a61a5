//! The paper's examples as snapshots of the order of assignment (FBDT §3.1 and §3.2).

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::{Entry, Scheduler, SchedulerConfig, SendView};
use super::forecast::{self, Collapsed};
use super::{ENTRY, STRICT_ENTRY};
use crate::path::{PathId, PathInfo, SubflowId};
use crate::ranges::RangeSet;
use crate::subflow::Subflow;
use crate::{Bitrate, ByteCount, Instant};

const PACKET: u64 = 1000;
const RTT: Duration = Duration::from_millis(10);
const FWD: usize = 0;
const BWD: usize = 1;
const THIRD: usize = 2;
const FOURTH: usize = 3;
const NAMES: [&str; 4] = ["fwd", "bwd", "third", "fourth"];

/// A stream of numbered packets, a window of some of them, and paths asked by hand.
struct Example {
    scheduler: Box<dyn Scheduler>,
    una: u64,
    acked: RangeSet,
    unassigned: RangeSet,
    end: u64,
    subflows: Vec<Subflow>,
    received: [u64; 4],
    now: Instant,
    log: String,
}

impl Example {
    fn new(entry: &Entry, window: u64, packets: u64) -> Self {
        Self::over(2, entry, window, packets)
    }

    fn over(paths: u64, entry: &Entry, window: u64, packets: u64) -> Self {
        let config =
            SchedulerConfig { window: Some(window * PACKET), ..SchedulerConfig::default() };
        let subflow = |n| {
            let mut subflow =
                Subflow::new(SubflowId(n), PathId(n), (PACKET, PACKET), Instant::ZERO);
            subflow.set_info(PathInfo { srtt: RTT, ..PathInfo::default() }, Instant::ZERO);
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
            received: [0; 4],
            now: Instant::from_millis(1),
            log: String::new(),
        }
    }

    /// As much may be sent again at the end as was sent: 2 % of a few packets is none.
    fn with_ample_budget(mut self, window: u64) -> Self {
        let window = Some(window * PACKET);
        let config =
            SchedulerConfig { window, rescue_budget_permille: 1000, ..SchedulerConfig::default() };
        self.scheduler = ENTRY.make(&config);
        self
    }

    /// The path asks for one packet.
    fn ask(&mut self, path: usize) {
        let view = SendView {
            now: self.now,
            una: self.una,
            acked: &self.acked,
            unassigned: &self.unassigned,
            limit: self.end,
            credit_window: self.end,
            credit_bound: false,
            memory_left: None,
            max_memory: 256 << 20,
            expected: 0,
            subflows: &self.subflows,
            meters: &BTreeMap::new(),
        };
        let name = NAMES[path];
        match self.scheduler.next(path, &view, PACKET) {
            None => self.note(&format!("{name} waits")),
            Some(next) => {
                self.unassigned.remove(next.range.clone());
                self.subflows[path].assign(next.range.clone(), next.rescue, self.now);
                let again = if next.rescue { " again" } else { "" };
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
        self.subflows[path].echo(self.received[path], self.now).expect("was sent");
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
fn three_paths_meet_in_two_gaps() {
    // The third begins at the low end of a gap of its own, a third of the window.
    let mut example = Example::over(3, &ENTRY, 9, 9);
    for _ in 0..3 {
        for path in [FWD, BWD, THIRD] {
            example.ask(path);
        }
    }
    example.ask(FWD);
    insta::assert_snapshot!(example.log);
}

#[test]
fn a_path_whose_gap_has_closed_meets_the_slow_third() {
    let mut example = Example::over(3, &ENTRY, 12, 24);
    example.ask(THIRD);
    for _ in 0..6 {
        example.ask(FWD);
        example.ask(BWD);
    }
    example.ask(THIRD);
    insta::assert_snapshot!(example.log);
}

#[test]
fn a_gap_without_a_free_end_is_split() {
    // Third and fourth have a gap and do not come: when the other gap has closed, theirs is
    // divided, twice.
    let mut example = Example::over(4, &ENTRY, 24, 24);
    example.ask(THIRD);
    example.ask(FOURTH);
    for _ in 0..9 {
        example.ask(FWD);
        example.ask(BWD);
    }
    for _ in 0..3 {
        example.ask(THIRD);
        example.ask(FOURTH);
    }
    insta::assert_snapshot!(example.log);
}

#[test]
fn late_packets_are_rescued_gap_by_gap() {
    // Bwd is late with its part of the lower gap and third with the upper one: fwd goes on from
    // its meeting point, then comes from the high end of the gap it had no part in.
    let mut example = Example::over(3, &ENTRY, 9, 9);
    for path in [FWD, BWD, THIRD].repeat(3) {
        example.ask(path);
    }
    for packet in [1, 2, 3] {
        example.ack(FWD, packet);
    }
    example.wait(RTT);
    for _ in 0..7 {
        example.ask(FWD);
    }
    insta::assert_snapshot!(example.log);
}

#[test]
fn the_end_of_all_data_is_rescued_from_a_far_path() {
    let mut example = Example::new(&ENTRY, 6, 6).with_ample_budget(6);
    for _ in 0..3 {
        example.ask(FWD);
        example.ask(BWD);
    }
    let far = PathInfo { srtt: 10 * RTT, ..PathInfo::default() };
    example.subflows[BWD].set_info(far, Instant::ZERO);
    example.ask(FWD);
    example.wait(RTT / 2);
    for _ in 0..4 {
        example.ask(FWD);
    }
    example.ask(BWD);
    insta::assert_snapshot!(example.log);
}

#[test]
fn the_end_of_all_data_is_rescued_from_a_queue_last_bytes_first() {
    // Bwd delivers a packet in a quarter of a round trip: the last of its three will be there in
    // three quarters of one, later than by the way of fwd; the others no later than that.
    let mut example = Example::new(&ENTRY, 6, 6).with_ample_budget(6);
    for _ in 0..3 {
        example.ask(FWD);
        example.ask(BWD);
    }
    let delivery_rate = Bitrate::from_transfer(ByteCount::new(PACKET), RTT / 4);
    let ssthresh = Some(ByteCount::new(PACKET));
    let info = PathInfo {
        delivery_rate,
        ssthresh,
        cwnd: ByteCount::new(PACKET),
        srtt: RTT,
        ..PathInfo::default()
    };
    example.subflows[BWD].set_info(info, Instant::ZERO);
    example.wait(RTT / 2);
    for _ in 0..3 {
        example.ask(FWD);
    }
    insta::assert_snapshot!(example.log);
}

#[test]
fn the_end_is_not_rescued_where_a_near_path_has_it() {
    let mut example = Example::over(3, &ENTRY, 2, 2).with_ample_budget(2);
    example.ask(BWD);
    example.ask(BWD);
    example.subflows[BWD]
        .set_info(PathInfo { srtt: 10 * RTT, ..PathInfo::default() }, Instant::ZERO);
    example.wait(RTT / 2);
    example.ask(FWD);
    for _ in 0..2 {
        example.ask(THIRD);
    }
    insta::assert_snapshot!(example.log);
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

/// What the forecasts are asked about, with figures as a simulator gives them.
struct Outlook {
    subflows: Vec<Subflow>,
    unassigned: RangeSet,
    expected: u64,
    max_memory: u64,
    now: Instant,
}

impl Outlook {
    /// A path for each round-trip time, cwnd and ssthresh, with nothing in flight.
    fn new(paths: &[(u64, u64, Option<u64>)]) -> Self {
        let subflow = |(number, &(rtt_ms, cwnd, ssthresh)): (usize, &(u64, u64, Option<u64>))| {
            let number = number as u64;
            let chunk = (PACKET, PACKET);
            let mut subflow = Subflow::new(SubflowId(number), PathId(number), chunk, Instant::ZERO);
            subflow.set_info(
                PathInfo {
                    exact: true,
                    cwnd: ByteCount::new(cwnd),
                    ssthresh: ssthresh.map(ByteCount::new),
                    srtt: Duration::from_millis(rtt_ms),
                    min_rtt: Duration::from_millis(rtt_ms),
                    delivery_rate: Bitrate::mbps(8),
                    ..PathInfo::default()
                },
                Instant::ZERO,
            );
            subflow
        };
        Self {
            subflows: paths.iter().enumerate().map(subflow).collect(),
            unassigned: RangeSet::new(),
            expected: 0,
            max_memory: 1 << 30,
            now: Instant::ZERO,
        }
    }

    fn with<R>(&self, ask: impl FnOnce(&SendView<'_>) -> R) -> R {
        ask(&SendView {
            now: self.now,
            una: 0,
            acked: &RangeSet::new(),
            unassigned: &self.unassigned,
            limit: u64::MAX,
            credit_window: self.max_memory,
            credit_bound: false,
            memory_left: None,
            max_memory: self.max_memory,
            expected: self.expected,
            subflows: &self.subflows,
            meters: &BTreeMap::new(),
        })
    }

    fn arrival(&self, bytes: u64) -> Duration {
        self.with(|view| forecast::arrival(view, &self.subflows[0], bytes))
    }

    fn helps(&self, me: usize) -> bool {
        self.with(|view| forecast::helps(me, view, PACKET, |_, _| true))
    }

    fn may_hold_more(&self, latency: Option<Duration>) -> bool {
        self.with(|view| forecast::may_hold_more(0, view, latency))
    }

    /// The first subflow is given `held` bytes and delivers `rate` for half a second.
    fn deliver(&mut self, held: u64, rate: Bitrate) {
        self.subflows[0].assign(0..held, false, self.now);
        let step = Duration::from_millis(50);
        for _ in 0..10 {
            self.now += step;
            let arrived = self.subflows[0].echoed() + rate.bytes_in(step).as_u64();
            self.subflows[0].echo(arrived, self.now).expect("was sent");
        }
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn arrival_is_by_the_window_by_slow_start_or_by_the_rate() {
    // Half a round-trip time while the window has room, a round trip more for each doubling.
    let doubling = Outlook::new(&[(40, 10_000, None)]);
    assert_eq!(doubling.arrival(10_000), ms(20));
    assert_eq!(doubling.arrival(30_000), ms(60));
    assert_eq!(doubling.arrival(30_001), ms(100));
    // 8 Mb/s: a byte each microsecond.
    let steady = Outlook::new(&[(40, 10_000, Some(5000))]);
    assert_eq!(steady.arrival(10_000), ms(20));
    assert_eq!(steady.arrival(60_000), ms(70));
}

#[test]
fn a_path_joins_only_if_it_brings_completion_forward() {
    let mut outlook = Outlook::new(&[(500, 10_000, None), (20, 10_000, None)]);
    outlook.unassigned.insert(0..100_000);
    assert!(!outlook.helps(0), "the near path alone is done before");
    assert!(outlook.helps(1));
    outlook.expected = 1 << 30;
    assert!(outlook.helps(0) && outlook.helps(1), "much more is to come");
    outlook.expected = 0;
    outlook.subflows.pop();
    assert!(outlook.helps(0), "there is no other");
}

#[test]
fn a_path_that_takes_nothing_new_is_no_alternative() {
    let mut outlook = Outlook::new(&[(500, 10_000, None), (20, 10_000, None)]);
    outlook.unassigned.insert(0..5000);
    assert!(!outlook.helps(0));
    assert!(outlook.with(|view| forecast::helps(0, view, PACKET, |_, _| false)));
    // Its oldest bytes are late: the other is there for new ones, unless much more is to come.
    outlook.subflows[1].assign(5000..6000, false, outlook.now);
    outlook.now += ms(100);
    assert!(outlook.helps(0) && !outlook.helps(1));
    // As long as the kernel hears of bytes that arrive, it is a loss that is being repaired.
    let repaired = PathInfo { in_flight: ByteCount::new(500), ..*outlook.subflows[1].info() };
    outlook.subflows[1].set_info(repaired, outlook.now);
    outlook.now += ms(9);
    assert!(!outlook.helps(0) && outlook.helps(1));
    outlook.now += ms(1);
    assert!(outlook.helps(0) && !outlook.helps(1), "nothing for half a round trip");
    outlook.expected = 1 << 30;
    assert!(outlook.helps(0) && outlook.helps(1));
    // Once it is known whether it has gone dark, the far one would need as long.
    outlook.expected = 0;
    let far = PathInfo { srtt: ms(3000), ..*outlook.subflows[0].info() };
    outlook.subflows[0].set_info(far, Instant::ZERO);
    assert!(!outlook.helps(0) && outlook.helps(1));
}

#[test]
fn what_a_path_holds_fits_its_time_the_memory_and_the_aim() {
    let outlook = |held: u64, memory| {
        let mut outlook = Outlook::new(&[(20, 10_000, None), (20, 10_000, None)]);
        let fast = PathInfo { delivery_rate: Bitrate::mbps(800), ..*outlook.subflows[1].info() };
        outlook.subflows[1].set_info(fast, Instant::ZERO);
        outlook.max_memory = memory;
        // A megabyte a second, half of it gone: the rest takes what is left of `held`.
        outlook.deliver(500_000 + held, Bitrate::mbps(8));
        outlook
    };
    assert!(outlook(200_000, 1 << 30).may_hold_more(None));
    assert!(!outlook(300_000, 1 << 30).may_hold_more(None), "more than a quarter of a second");
    assert!(!outlook(200_000, 10 << 20).may_hold_more(None), "the other sends 20 MB meanwhile");
    assert!(!outlook(200_000, 1 << 30).may_hold_more(Some(ms(100))), "not within the aim");
    assert!(outlook(50_000, 1 << 30).may_hold_more(Some(ms(100))));
}

#[test]
fn a_path_has_collapsed_until_what_it_held_has_drained() {
    let mut outlook = Outlook::new(&[(20, 10_000, None), (20, 10_000, None)]);
    let mut collapsed = Collapsed::default();
    let mut judge = |outlook: &Outlook| {
        outlook.with(|view| collapsed.judge(view));
        collapsed.contains(&outlook.subflows[0])
    };
    outlook.deliver(1_500_000, Bitrate::mbps(8));
    // The other path needs as long for it as this one: no use.
    assert!(!judge(&outlook));
    let fast = PathInfo { delivery_rate: Bitrate::mbps(80), ..*outlook.subflows[1].info() };
    outlook.subflows[1].set_info(fast, Instant::ZERO);
    assert!(judge(&outlook));
    outlook.now += ms(800);
    outlook.subflows[0].echo(1_300_000, outlook.now).expect("was sent");
    assert!(judge(&outlook), "a fifth of a second is left");
    outlook.now += ms(150);
    outlook.subflows[0].echo(1_450_000, outlook.now).expect("was sent");
    assert!(!judge(&outlook));
}

#[test]
fn when_every_path_has_collapsed_or_gone_the_last_carries_on() {
    let mut outlook = Outlook::new(&[(20, 10_000, None), (20, 10_000, None)]);
    let fast = PathInfo { delivery_rate: Bitrate::mbps(80), ..*outlook.subflows[1].info() };
    outlook.subflows[1].set_info(fast, Instant::ZERO);
    outlook.deliver(1_500_000, Bitrate::mbps(8));
    let mut collapsed = Collapsed::default();
    outlook.with(|view| collapsed.judge(view));
    assert!(collapsed.contains(&outlook.subflows[0]));
    outlook.subflows.pop();
    outlook.with(|view| collapsed.judge(view));
    assert!(!collapsed.contains(&outlook.subflows[0]), "there is no other");
}
