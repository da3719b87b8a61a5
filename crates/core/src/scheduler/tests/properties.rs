//! What holds of every scheduler, whatever happens around it.

use std::time::Duration;

use proptest::prelude::*;

use super::builder::{Bench, Metrics};
use crate::path::PathInfo;
use crate::ranges::RangeSet;
use crate::scheduler::choice::SEGMENT;
use crate::scheduler::{Kind, REGISTRY, SchedulerConfig};
use crate::subflow::Subflow;
use crate::{Bitrate, ByteCount};

/// What may happen. Indices are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Write(u64),
    /// What each socket has room for, and how often the scheduler is asked then.
    Ask {
        rooms: [u64; 4],
        times: usize,
    },
    /// A share of what is outstanding arrives, and what arrived is acknowledged.
    Arrive {
        index: usize,
        percent: u64,
    },
    /// Part of what is on its way anywhere is acknowledged, as through another subflow.
    Ack {
        index: usize,
        percent: u64,
    },
    Info {
        index: usize,
        info: PathInfo,
    },
    Up,
    Down(usize),
    Wait(u64),
    Credit(u64),
    Memory(Option<u64>),
    /// How much more the application seems to have.
    Expect(u64),
}

fn any_info() -> impl Strategy<Value = PathInfo> {
    let metrics = (0u64..200, 0u64..200, 0u64..300).prop_map(|(c, f, s)| Metrics::new(c, f, s));
    let rest = (prop::option::of(0u64..300), 0u64..200, any::<bool>(), 0u64..50);
    (metrics, rest).prop_map(|(metrics, (ssthresh, mbps, timed_out, unsent))| PathInfo {
        ssthresh: ssthresh.map(|n| ByteCount::new(n * SEGMENT)),
        pacing_rate: Bitrate::mbps(mbps),
        timed_out,
        unsent: ByteCount::new(unsent * 100),
        ..metrics.info()
    })
}

fn any_rooms() -> impl Strategy<Value = [u64; 4]> {
    // Often only one has room, as with real sockets.
    let one = (0usize..4, 1u64..70_000).prop_map(|(index, room)| {
        let mut rooms = [0; 4];
        rooms[index] = room;
        rooms
    });
    prop_oneof![one, [0u64..70_000, 0u64..70_000, 0u64..70_000, 0u64..70_000]]
}

fn any_step() -> impl Strategy<Value = Step> {
    let index = 0usize..4;
    prop_oneof![
        3 => (1u64..200_000).prop_map(Step::Write),
        12 => (any_rooms(), 1usize..10).prop_map(|(rooms, times)| Step::Ask { rooms, times }),
        4 => (index.clone(), 0u64..101).prop_map(|(index, percent)| Step::Arrive { index, percent }),
        2 => (index.clone(), 0u64..101).prop_map(|(index, percent)| Step::Ack { index, percent }),
        4 => (index.clone(), any_info()).prop_map(|(index, info)| Step::Info { index, info }),
        1 => Just(Step::Up),
        1 => index.prop_map(Step::Down),
        3 => (0u64..400).prop_map(Step::Wait),
        2 => (0u64..300_000).prop_map(Step::Credit),
        1 => prop::option::of(0u64..10_000).prop_map(Step::Memory),
        1 => (0u64..2).prop_map(|more| Step::Expect(more << 20)),
    ]
}

/// What waits, and for which subflows, when nothing else is going on.
#[derive(Clone, Copy, Debug)]
struct Idle {
    bytes: u64,
    windows: u64,
    slow_start: bool,
    mbps: Option<[u64; 4]>,
}

fn any_idle() -> impl Strategy<Value = Idle> {
    let rate = || prop_oneof![0u64..10, 0u64..100_000];
    let rates = prop::option::of([rate(), rate(), rate(), rate()]);
    let all = (1u64..=SEGMENT, 1u64..12, any::<bool>(), rates);
    all.prop_map(|(bytes, windows, slow_start, mbps)| Idle { bytes, windows, slow_start, mbps })
}

/// A bench under random steps.
struct World {
    bench: Bench,
    next_id: u64,
    /// Everything that was ever given to a subflow.
    sent: RangeSet,
    /// Bytes given as new ones and as copies.
    new: u64,
    copied: u64,
}

impl World {
    fn new(scheduler: &str, latency: Option<Duration>, chunk: (u64, u64)) -> Self {
        let two = [Metrics::new(20, 0, 30), Metrics::new(20, 0, 80)];
        let config = SchedulerConfig { latency, ..SchedulerConfig::default() };
        let mut bench = Bench::with(scheduler, &config, 0, &[]);
        bench.chunk = chunk;
        for (n, metrics) in (0..).zip(two) {
            bench.up(n);
            bench.set_metrics(n as usize, metrics);
        }
        bench.credit = 200_000;
        Self { bench, next_id: 2, sent: RangeSet::new(), new: 0, copied: 0 }
    }

    fn index(&self, index: usize) -> Option<usize> {
        index.checked_rem(self.bench.subflows.len())
    }

    fn apply(&mut self, step: Step) {
        let bench = &mut self.bench;
        match step {
            Step::Write(bytes) => bench.write(bytes),
            Step::Wait(ms) => {
                bench.now += Duration::from_millis(ms);
                let now = bench.now;
                bench.subflows.iter_mut().for_each(|subflow| {
                    subflow.evaluate(false, now);
                });
            }
            Step::Credit(bytes) => bench.credit += bytes,
            Step::Memory(left) => bench.memory_left = left,
            Step::Expect(bytes) => bench.expected = bytes,
            Step::Up if bench.subflows.len() < 4 => {
                bench.up(self.next_id);
                self.next_id += 1;
            }
            Step::Up => {}
            Step::Down(index) => {
                if let Some(index) = self.index(index) {
                    self.bench.down(index);
                }
            }
            Step::Info { index, info } => {
                if let Some(index) = self.index(index) {
                    self.bench.subflows[index].set_info(info, 0);
                }
            }
            Step::Arrive { index, percent } => self.arrive(index, percent),
            Step::Ack { index, percent } => self.ack(index, percent),
            Step::Ask { rooms, times } => {
                self.set_rooms(|index| rooms[index]);
                let _ = (0..times).take_while(|_| self.ask()).count();
            }
        }
    }

    fn arrive(&mut self, index: usize, percent: u64) {
        let Some(index) = self.index(index) else { return };
        let subflow = &mut self.bench.subflows[index];
        let received = subflow.delivered() + subflow.outstanding() * percent / 100;
        subflow.acknowledge(received, self.bench.now).expect("no more than was sent");
        self.ack(index, percent);
    }

    /// Acknowledges the lower share of what the subflow carries.
    fn ack(&mut self, index: usize, percent: u64) {
        let Some(index) = self.index(index) else { return };
        let carried: Vec<_> = self.bench.subflows[index].on().iter().collect();
        for range in carried {
            let end = range.start + (range.end - range.start) * percent / 100;
            self.bench.ack(range.start..end);
        }
    }

    /// Sets what each subflow may be given; a stalled one nothing, as in a session.
    fn set_rooms(&mut self, room: impl Fn(usize) -> u64) {
        let all = self.bench.subflows.iter().enumerate();
        let room = |(index, subflow): (usize, &Subflow)| match subflow.is_stalled() {
            true => 0,
            false => room(index),
        };
        self.bench.rooms = all.map(room).collect();
    }

    /// Asks, and checks what a driver relies on. Returns whether anything was given.
    fn ask(&mut self) -> bool {
        let (una, limit) = (self.bench.una, self.bench.end.min(self.bench.credit));
        let (unassigned, rooms) = (self.bench.unassigned.clone(), self.bench.rooms.clone());
        if rooms.iter().all(|&room| room == 0) {
            return false;
        }
        let next = self.bench.pick();
        for id in self.bench.penalties.try_iter() {
            assert!(self.bench.subflows.iter().any(|subflow| subflow.id() == id), "{id:?}");
        }
        let Some(next) = next else { return false };
        let range = next.range.clone();
        let room = rooms[next.subflow];
        assert!(range.start < range.end && range.end - range.start <= room, "{range:?}");
        assert!(una <= range.start && range.end <= limit, "{range:?} beyond {una}..{limit}");
        assert_eq!(self.bench.acked.first_in(&range), None, "{range:?} has arrived");
        if next.is_again() {
            assert_eq!(unassigned.first_in(&range), None, "{range:?} is new");
            assert!(self.sent.contains(&range), "{range:?} was never sent");
        } else {
            assert!(unassigned.contains(&range), "{range:?} is not new");
        }
        match next.kind {
            Kind::New => self.new += range.end - range.start,
            Kind::Copy => self.copied += range.end - range.start,
            Kind::Reinjection => {}
        }
        self.sent.insert(range);
        true
    }

    /// With everything delivered and acknowledged, and all subflows idle with room, one of them
    /// takes new data: a byte or a segment, with windows of `windows` segments and more.
    fn check_liveness(&mut self, idle: Idle) {
        let Idle { bytes, windows, slow_start, mbps } = idle;
        for index in 0..self.bench.subflows.len() {
            self.arrive(index, 100);
        }
        if slow_start {
            // It is over for good once it was: these have just come up.
            let subflows = self.bench.subflows.len();
            (0..subflows).for_each(|_| self.bench.down(0));
            for _ in 0..subflows {
                self.bench.up(self.next_id);
                self.next_id += 1;
            }
        }
        let bench = &mut self.bench;
        if bench.subflows.is_empty() {
            bench.up(self.next_id);
            self.next_id += 1;
        }
        bench.write(bytes);
        bench.credit = bench.credit.max(bench.end);
        let now = bench.now;
        for (n, subflow) in (1..).zip(&mut bench.subflows) {
            subflow.evaluate(false, now);
            let info = Metrics::new(windows * n, 0, 20 * n).info();
            let ssthresh = info.ssthresh.filter(|_| !slow_start);
            let delivery_rate = match mbps {
                // The nearer, the slower: an aim leaves out others than what is spared.
                None => Bitrate::mbps(n * n),
                Some(rates) => Bitrate::mbps(rates[n as usize - 1]),
            };
            subflow.set_info(PathInfo { ssthresh, delivery_rate, ..info }, 0);
        }
        self.set_rooms(|_| 50_000);
        assert!(self.ask(), "{:?}: nobody takes what waits", self.bench.scheduler);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_scheduler_keeps_its_promises(
        steps in prop::collection::vec(any_step(), 1..120),
        latency in prop::option::of(1u64..100),
        idle in any_idle(),
        chunk in prop_oneof![Just((SEGMENT, SEGMENT)), Just((4 << 10, 64 << 10))],
    ) {
        for entry in REGISTRY {
            let mut world = World::new(entry.name, latency.map(Duration::from_millis), chunk);
            for (n, step) in steps.iter().enumerate() {
                world.apply(step.clone());
                if n % 40 == 39 {
                    world.check_liveness(idle);
                }
            }
            world.check_liveness(idle);
            if ["earliest", "fbdt"].contains(&entry.name) {
                // 2 % of the new bytes, and what the budget begins with.
                let most = world.new / 50 + (64 << 10);
                prop_assert!(world.copied <= most, "{} of {}", world.copied, world.new);
            }
        }
    }
}
