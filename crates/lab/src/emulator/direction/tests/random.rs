//! Random links, packets, cuts and drivers: what a direction does is what its link said.

use proptest::prelude::*;

use super::*;

/// One thing that happens, so many nanoseconds after the one before.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A packet of so many bytes on the wire.
    Whole(usize),
    /// A super-packet: its payload and its segments' length.
    Parts(usize, usize),
    /// The driver wakes up.
    Wake,
    /// The direction is cut or restored.
    Cut(bool),
    /// The far end takes nothing, or takes packets again.
    Refuse(bool),
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        4 => (HEADERS..9000).prop_map(Event::Whole),
        4 => (1_usize..20_000, 1_usize..2000).prop_map(|(len, segment)| Event::Parts(len, segment)),
        8 => Just(Event::Wake),
        1 => any::<bool>().prop_map(Event::Cut),
        1 => any::<bool>().prop_map(Event::Refuse),
    ];
    let gap = prop_oneof![2 => Just(0), 4 => 0_u64..2_000_000, 1 => 0_u64..100_000_000];
    prop::collection::vec((gap, event), 1..120)
}

fn config() -> impl Strategy<Value = LinkConfig> {
    let rate = prop_oneof![1 => Just(0), 4 => 1_000_000_u64..1_000_000_000];
    let trace = prop::collection::vec((1_u64..50_000_000, rate), 1..5).prop_map(|parts| {
        let (mut start, mut steps) = (0, Vec::new());
        for (length, rate) in parts {
            steps.push((Duration::from_nanos(start), Bitrate::bps(rate)));
            start += length;
        }
        RateTrace::from_steps(steps, Duration::from_nanos(start)).unwrap()
    });
    let time = || (0_u64..50_000_000).prop_map(Duration::from_nanos);
    let jitter = prop_oneof![Just(Duration::ZERO), time()];
    let queue = prop_oneof![
        (0_u64..100_000).prop_map(bytes),
        (0_u64..100).prop_map(weftline_link::QueueLimit::Packets),
    ];
    let loss = prop_oneof![Just(LossModel::None), (0.0..0.5).prop_map(LossModel::Bernoulli)];
    (trace, time(), jitter, queue, loss).prop_map(|(rate, delay, jitter, queue, loss)| LinkConfig {
        rate,
        delay,
        jitter,
        queue,
        loss,
    })
}

/// A segment that is to come: its packet's number, its place in the payload, its length, when it
/// came and when it is due.
#[derive(Clone, Copy, Debug)]
struct Expected {
    number: u32,
    at: usize,
    len: usize,
    came: Instant,
    due: Instant,
}

/// A direction beside a link of its own that says what is to become of each segment.
struct Model {
    bench: Bench,
    link: Link,
    expected: VecDeque<Expected>,
    /// Segments that came.
    offered: u64,
    /// What became of those that did not reach the link or left it.
    delivered: u64,
    refused: u64,
    cut: u64,
    /// The far end takes nothing.
    refuses: bool,
    /// What a segment takes at least.
    least: Duration,
}

impl Model {
    fn new(config: LinkConfig, seed: u64) -> Self {
        let least = if config.jitter.is_zero() { config.delay } else { Duration::ZERO };
        let mut link = Link::new(config.clone(), seed, "a/down");
        link.start(Instant::ZERO);
        let bench = Bench::with_seed(config, seed);
        let expected = VecDeque::new();
        let (offered, delivered, refused, cut) = (0, 0, 0, 0);
        Self { bench, link, expected, offered, delivered, refused, cut, refuses: false, least }
    }

    /// A packet of segments of these lengths (payload and bytes on the wire) comes.
    fn offer(&mut self, now: Duration, packet: &[u8], segments: &[(usize, usize)]) {
        let (mut place, came) = (0, at(now));
        for &(len, size) in segments {
            self.offered += 1;
            if self.bench.direction.cut {
                self.cut += 1;
            } else if let Verdict::Arrives(due) = self.link.offer(came, ByteCount::new(size as u64))
            {
                let number = number(packet);
                self.expected.push_back(Expected { number, at: place, len, came, due });
            }
            place += len;
        }
        self.bench.offer(now, packet);
    }

    /// The driver wakes up: exactly what is due leaves, in order.
    fn wake(&mut self, now: Instant) {
        while let Some(run) = self.bench.direction.poll_transmit(now) {
            let Bench { direction, lateness, .. } = &mut self.bench;
            let bytes = direction.store.packet(run.slot);
            let (mut place, end) = (run.at, run.at + run.len);
            for _ in 0..run.segments {
                let next = self.expected.pop_front().expect("nothing is invented");
                assert_eq!((next.number, next.at), (number(bytes), place), "the order is kept");
                assert!(next.due <= now, "{next:?} left at {now}");
                assert!(now >= next.came + self.least, "{next:?} left at {now}");
                place += next.len;
            }
            assert_eq!(place, end);
            assert_eq!(direction.packet(&run).is_none(), direction.cut);
            let (sent, count) = match (direction.cut, self.refuses) {
                (true, _) => (Sent::Cut, &mut self.cut),
                (false, true) => (Sent::Refused, &mut self.refused),
                (false, false) => (Sent::Written, &mut self.delivered),
            };
            *count += run.segments as u64;
            direction.handle_transmit(&run, sent, now, lateness);
        }
        let due = self.expected.front().map(|next| next.due);
        assert!(due.is_none_or(|due| due > now), "what is due leaves");
    }

    fn check(&self) {
        let counters = self.bench.counters();
        let on_its_way = self.expected.len() as u64;
        assert_eq!(counters.offered.packets, self.offered);
        assert_eq!(settled(&counters).packets + on_its_way, self.offered);
        let stats = self.link.stats();
        let dropped = (counters.lost, counters.queue_full, counters.unserved);
        let of = |sum: weftline_link::Tally| tally(sum.packets, sum.bytes.as_u64());
        let said = (of(stats.lost), of(stats.queue_full), of(stats.unserved));
        assert_eq!(dropped, said);
        let left = [counters.delivered, counters.write_failed, counters.cut];
        assert_eq!(left.map(|tally| tally.packets), [self.delivered, self.refused, self.cut]);
        let due = self.expected.front().map(|next| next.due);
        assert_eq!(self.bench.direction.poll_timeout(), due);
    }
}

fn lengths(payload: usize, segment: usize) -> Vec<(usize, usize)> {
    let starts = (0..payload).step_by(segment);
    starts.map(|start| segment.min(payload - start)).map(|len| (len, HEADERS + len)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn packets_leave_in_order_when_they_are_due_and_none_is_invented(
        config in config(),
        seed in 0_u64..4,
        events in events(),
    ) {
        let mut model = Model::new(config, seed);
        let mut now = Duration::ZERO;
        for (number, (gap, event)) in (0..).zip(events) {
            now += Duration::from_nanos(gap);
            match event {
                Event::Whole(size) => {
                    let packet = made::whole(number, size);
                    model.offer(now, &packet, &[(packet.len(), size)]);
                }
                Event::Parts(payload, segment) => {
                    let packet = made::parts(number, payload, segment);
                    model.offer(now, &packet, &lengths(payload, segment));
                }
                Event::Wake => model.wake(at(now)),
                Event::Cut(cut) => model.bench.direction.cut = cut,
                Event::Refuse(refuses) => model.refuses = refuses,
            }
            model.check();
        }
        model.wake(at(now));
        while let Some(due) = model.bench.direction.poll_timeout() {
            model.wake(due - Duration::from_nanos(1));
            prop_assert_eq!(model.bench.direction.poll_timeout(), Some(due), "none leaves early");
            model.wake(due);
            model.check();
        }
        prop_assert_eq!(model.expected.len(), 0);
        let counters = model.bench.counters();
        prop_assert_eq!(settled(&counters), counters.offered);
        prop_assert_eq!(model.bench.direction.packets.len(), 0);
    }
}
