//! A queue of packets, fair between flows: FQ-CoDel (RFC 8290), deficit round robin over the flows with
//! CoDel (RFC 8289) for each. Packets that understand ECN are marked where others are dropped.
//!
//! It stands before the cohorts of COTAG's gateway, and before each lane of a bond
//! ([`datagram`](crate::datagram)).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::Instant;

/// What a flow may send in its turn, in bytes: a full packet of Ethernet.
const QUANTUM: i64 = 1514;
/// A flow with no more than this is not slowed down (RFC 8289 §5.4), in bytes.
const ONE_PACKET: u64 = 1514;
/// Queues that flows are spread over (RFC 8290 §5.2): whatever the flows are, no more are looked through.
/// Flows that share one share its turn.
const BUCKETS: u16 = 1024;
/// The most packets that make way at once where there is no room (RFC 8290 §4.1.2 and Linux have as many).
const BATCH: usize = 64;

/// What a packet counts for at least where there is room for so many bytes: it takes no less memory.
const LEAST: u64 = 128;

/// The settings of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// CoDel's target: the time for which packets may wait for long.
    pub target: Duration,
    /// CoDel's interval: the time for which they must have waited longer before one is dropped; about
    /// the longest round-trip time of flows.
    pub interval: Duration,
    /// The most bytes of packets that wait. A packet counts for 128 at least.
    pub limit_bytes: u64,
}

impl QueueConfig {
    /// The bytes of so many full packets. A limit in packets would be a hundredth of the time where they
    /// are small.
    #[must_use]
    pub const fn full_packets(packets: usize) -> u64 {
        (packets as u64).saturating_mul(1500)
    }
}

impl Default for QueueConfig {
    /// A target of 10 ms, an interval of 300 ms, which is 100 ms beyond the longest round-trip time of
    /// the paper's networks with a full queue, and 10,240 packets (RFC 8290 §5.2) of 1500 bytes.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(10),
            interval: Duration::from_millis(300),
            limit_bytes: Self::full_packets(10_240),
        }
    }
}

/// A packet that waits.
#[derive(Debug)]
pub struct Waiting {
    /// The packet.
    pub packet: Vec<u8>,
    /// Bytes that count for shares and rates.
    pub bytes: u32,
    flow: u16,
    came: Instant,
}

/// CoDel's state of a flow (RFC 8289 §5.5).
#[derive(Clone, Copy, Debug, Default)]
struct Codel {
    /// When packets will have waited for too long for an interval.
    first_above: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    count: u32,
    last_count: u32,
}

/// What waits of the flows of a bucket.
#[derive(Debug, Default)]
struct Flow {
    packets: VecDeque<Waiting>,
    bytes: u64,
    /// What they count for where there is room for so many bytes.
    room: u64,
    credit: i64,
    codel: Codel,
}

/// Packets of all flows that wait.
#[derive(Debug)]
pub struct FqCodel {
    config: QueueConfig,
    /// What is added to the target.
    longer: Duration,
    /// What has waited for longer is dropped.
    longest: Duration,
    /// By bucket, at most [`BUCKETS`].
    flows: BTreeMap<u16, Flow>,
    /// Those that have packets, or had some until their next turn: new ones, and those that had a turn.
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    packets: usize,
    bytes: u64,
    /// What they count for where there is room for so many bytes.
    room: u64,
    spare: Vec<Vec<u8>>,
    most_spare: usize,
    /// Packets that CoDel dropped.
    pub dropped: u64,
    /// Packets that were marked instead.
    pub marked: u64,
    /// Packets that were dropped because the queue was full.
    pub full: u64,
    /// Flows that were looked at for the longest one.
    #[cfg(test)]
    looked: usize,
}

impl FqCodel {
    /// An empty queue.
    pub fn new(config: QueueConfig) -> Self {
        Self {
            config,
            longer: Duration::ZERO,
            longest: Duration::MAX,
            flows: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
            room: 0,
            spare: Vec::new(),
            most_spare: (config.limit_bytes / 1500) as usize,
            dropped: 0,
            marked: 0,
            full: 0,
            #[cfg(test)]
            looked: 0,
        }
    }

    /// The same, which keeps the memory of so many packets at most for others to come.
    pub fn with_spare(config: QueueConfig, most_spare: usize) -> Self {
        Self { most_spare, ..Self::new(config) }
    }

    /// Lets packets wait by so much longer than the target from now on, and for no longer than the
    /// interval: waiting is measured by it.
    pub fn allow_longer(&mut self, longer: Duration) {
        let QueueConfig { target, interval, .. } = self.config;
        self.longer = longer.min(interval.saturating_sub(target));
    }

    /// Drops what has waited for longer from now on. CoDel drops ever more of a flow that takes no notice, but not
    /// sooner than that has filled the queue.
    pub fn drop_older(&mut self, longest: Duration) {
        self.longest = longest;
    }

    /// Whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.packets
    }

    /// Takes a packet that counts as `bytes`. If the queue is full, the older half of the longest flow's
    /// packets makes way, 64 at most: a flood of flows has not all of them looked at for each packet
    /// (RFC 8290 §4.1.2).
    pub fn push(&mut self, flow: u16, packet: &[u8], bytes: u32, now: Instant) {
        while self.packets > 0 && self.room + room_of(bytes) > self.config.limit_bytes {
            self.drop_of_longest(BATCH);
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(packet);
        let bucket = flow % BUCKETS;
        let entry = self.flows.entry(bucket).or_insert_with(|| {
            self.new.push_back(bucket);
            Flow { credit: QUANTUM, ..Flow::default() }
        });
        entry.packets.push_back(Waiting { packet: copy, bytes, flow, came: now });
        entry.bytes += u64::from(bytes);
        entry.room += room_of(bytes);
        self.packets += 1;
        self.bytes += u64::from(bytes);
        self.room += room_of(bytes);
    }

    /// Drops packets of the longest flow, as if there was no room for another.
    pub fn drop_longest(&mut self) {
        self.drop_of_longest(BATCH);
    }

    /// Drops the older half of the longest flow's packets, so many at most. One that is empty then stays
    /// until its turn: it would be taken for a new one with its next packet, which goes before others.
    fn drop_of_longest(&mut self, most: usize) {
        #[cfg(test)]
        {
            self.looked += self.flows.len();
        }
        let longest = self.flows.iter().max_by_key(|(_, flow)| flow.room);
        let Some((&bucket, flow)) = longest else { return };
        for _ in 0..flow.packets.len().div_ceil(2).min(most) {
            let flow = self.flows.get_mut(&bucket).expect("it was found above");
            let dropped = flow.take().expect("it has twice as many, or one");
            self.full += 1;
            self.forget(dropped);
        }
    }

    /// Counts a packet as gone, and keeps its memory.
    fn forget(&mut self, packet: Waiting) {
        self.release(&packet);
        self.recycle(packet.packet);
    }

    /// A packet waits no more.
    fn release(&mut self, packet: &Waiting) {
        self.packets -= 1;
        self.bytes -= u64::from(packet.bytes);
        self.room -= room_of(packet.bytes);
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes all that waits out, each with its flow, a flow after another.
    pub fn drain(&mut self) -> Vec<(u16, Waiting)> {
        let all = std::mem::take(&mut self.flows).into_values();
        let all = all.flat_map(|flow| flow.packets).map(|one| (one.flow, one)).collect();
        self.clear();
        all
    }

    /// Drops all that waits; how many packets that were.
    pub fn clear(&mut self) -> usize {
        let dropped = self.packets;
        self.flows.clear();
        self.new.clear();
        self.old.clear();
        (self.packets, self.bytes, self.room) = (0, 0, 0);
        dropped
    }

    /// Keeps memory that [`Self::pop`] gave away.
    pub fn recycle(&mut self, packet: Vec<u8>) {
        if self.spare.len() < self.most_spare {
            self.spare.push(packet);
        }
    }

    /// The packet whose turn it is, and its flow. `mark` marks a packet that would be dropped; whether
    /// it could.
    pub fn pop(&mut self, now: Instant, mark: Mark<'_>) -> Option<(u16, Waiting)> {
        let config = QueueConfig { target: self.config.target + self.longer, ..self.config };
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let bucket = *list.front()?;
            let flow = self.flows.get_mut(&bucket).expect("listed flows are known");
            if flow.credit <= 0 {
                flow.credit += QUANTUM;
                list.pop_front();
                self.old.push_back(bucket);
                continue;
            }
            let mut popped = flow.dequeue(&config, now, mark);
            while let Some(old) = popped.packet.take_if(|one| now.since(one.came) > self.longest) {
                popped.dropped.push(old);
                popped.packet = flow.take();
            }
            self.marked += u64::from(popped.marked);
            for dropped in popped.dropped {
                self.dropped += 1;
                self.forget(dropped);
            }
            if let Some(packet) = popped.packet {
                let flow = self.flows.get_mut(&bucket).expect("it was there above");
                flow.credit -= i64::from(packet.bytes);
                self.release(&packet);
                return Some((packet.flow, packet));
            }
            // A new flow without packets has another turn as an old one, so that it does not
            // come first again at once (RFC 8290 §4.2).
            let list = if is_new { &mut self.new } else { &mut self.old };
            list.pop_front();
            if is_new {
                self.old.push_back(bucket);
            } else {
                self.flows.remove(&bucket);
            }
        }
    }
}

/// What a packet counts for where there is room for so many bytes.
fn room_of(bytes: u32) -> u64 {
    u64::from(bytes).max(LEAST)
}

/// Marks a packet instead of dropping it; whether that is possible.
pub type Mark<'a> = &'a mut dyn FnMut(&mut [u8]) -> bool;

/// What a flow's turn gave.
#[derive(Default)]
struct Popped {
    packet: Option<Waiting>,
    /// Whether that one was marked.
    marked: bool,
    dropped: Vec<Waiting>,
}

impl Flow {
    fn take(&mut self) -> Option<Waiting> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        self.room -= room_of(packet.bytes);
        Some(packet)
    }

    /// The oldest packet, and whether packets have waited for too long for an interval.
    fn oldest(&mut self, config: &QueueConfig, now: Instant) -> (Option<Waiting>, bool) {
        let Some(packet) = self.take() else {
            self.codel.first_above = None;
            return (None, false);
        };
        if now.since(packet.came) < config.target || self.bytes <= ONE_PACKET {
            self.codel.first_above = None;
            return (Some(packet), false);
        }
        let above = *self.codel.first_above.get_or_insert(now + config.interval);
        (Some(packet), now >= above)
    }

    /// CoDel's dequeue (RFC 8289 §5.5): packets are dropped, or marked (RFC 8290 §4.2), at growing
    /// rate while they have waited for too long.
    fn dequeue(&mut self, config: &QueueConfig, now: Instant, mark: Mark<'_>) -> Popped {
        let mut popped = Popped::default();
        let (mut packet, mut late) = self.oldest(config, now);
        let mut marks = |packet: &mut Option<Waiting>| {
            packet.as_mut().is_some_and(|waiting| mark(&mut waiting.packet))
        };
        if self.codel.dropping {
            self.codel.dropping = late;
            while self.codel.dropping && now >= self.codel.drop_next {
                self.codel.count += 1;
                if marks(&mut packet) {
                    popped.marked = true;
                    self.codel.drop_next =
                        next_drop(self.codel.drop_next, self.codel.count, config);
                    break;
                }
                popped.dropped.extend(packet.take());
                (packet, late) = self.oldest(config, now);
                self.codel.dropping = late;
                if late {
                    self.codel.drop_next =
                        next_drop(self.codel.drop_next, self.codel.count, config);
                }
            }
        } else if late {
            popped.marked = marks(&mut packet);
            if !popped.marked {
                popped.dropped.extend(packet.take());
                (packet, _) = self.oldest(config, now);
            }
            self.codel.begin(config, now);
        }
        popped.packet = packet;
        popped
    }
}

impl Codel {
    /// Begins to drop, at the rate of the last time if that is not long ago.
    fn begin(&mut self, config: &QueueConfig, now: Instant) {
        let recent = now < self.drop_next + config.interval * 16;
        let before = self.count - self.last_count;
        self.dropping = true;
        self.count = if recent && before > 1 { before } else { 1 };
        self.last_count = self.count;
        self.drop_next = next_drop(now, self.count, config);
    }
}

/// CoDel's control law.
fn next_drop(at: Instant, count: u32, config: &QueueConfig) -> Instant {
    at + config.interval.div_f64(f64::from(count.max(1)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: QueueConfig = QueueConfig {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        limit_bytes: QueueConfig::full_packets(1000),
    };

    fn never(_: &mut [u8]) -> bool {
        false
    }

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    #[test]
    fn what_is_too_old_is_dropped_whatever_codel_says() {
        let mut queue = FqCodel::new(CONFIG);
        for ms in 0..300 {
            queue.push(1, &[0], 100, at(ms * 1000));
        }
        queue.push(2, b"other", 100, at(0));
        queue.drop_older(Duration::from_millis(100));
        let (_, waiting) = queue.pop(at(300_000), &mut never).unwrap();
        assert!(waiting.came >= at(200_000), "{:?}", waiting.came);
        let dropped = queue.dropped;
        assert!(dropped >= 200, "{dropped}");
        // Of the other flow nothing is left; of all what waits is counted.
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop(at(300_000), &mut never)).collect();
        assert!(rest.iter().all(|(flow, one)| *flow == 1 && one.came >= at(200_000)));
        assert_eq!(1 + rest.len() as u64 + queue.dropped, 301);
        assert_eq!((queue.len(), queue.bytes(), queue.room), (0, 0, 0));
    }

    #[test]
    fn flows_take_turns_by_bytes_and_a_new_one_comes_first() {
        let mut queue = FqCodel::new(CONFIG);
        for n in 0..40 {
            queue.push(1, &[n], 1500, at(0));
            queue.push(2, &[n], 500, at(0));
        }
        let mut bytes = [0; 3];
        for _ in 0..40 {
            let (flow, waiting) = queue.pop(at(1), &mut never).unwrap();
            bytes[usize::from(flow)] += i64::from(waiting.bytes);
        }
        assert!((bytes[1] - bytes[2]).abs() <= 2 * QUANTUM, "{bytes:?}");
        queue.push(7, b"new", 100, at(2));
        assert_eq!(queue.pop(at(2), &mut never).unwrap().0, 7);
    }

    #[test]
    fn each_flow_keeps_its_order_and_everything_comes_out_or_is_counted() {
        let mut queue = FqCodel::new(CONFIG);
        let (mut next, mut out, mut last) = (0_u32, 0, [None; 5]);
        for us in 0..400_000 {
            if us % 10 == 0 {
                queue.push((next % 5) as u16, &next.to_be_bytes(), 1000, at(us));
                next += 1;
            }
            // It drains at 0.8 of what comes.
            if us % 25 < 2
                && let Some((flow, waiting)) = queue.pop(at(us), &mut never)
            {
                let number = u32::from_be_bytes(waiting.packet[..].try_into().unwrap());
                let last = &mut last[usize::from(flow)];
                assert!(last.is_none_or(|last| last < number));
                *last = Some(number);
                out += 1;
                queue.recycle(waiting.packet);
            }
            assert!(queue.bytes() <= CONFIG.limit_bytes);
        }
        assert!(queue.dropped > 0 && queue.full > 0);
        assert_eq!(u64::from(next), out + queue.dropped + queue.full + queue.len() as u64);
    }

    #[test]
    fn a_flood_of_flows_takes_neither_memory_nor_time_without_end() {
        const PACKETS: u32 = 200_000;
        let mut queue = FqCodel::new(QueueConfig::default());
        let mut out = 0;
        for n in 0..PACKETS {
            // Another flow with each of 65,536 packets.
            queue.push(n as u16, &n.to_be_bytes(), 1500, at(n.into()));
            if n % 3 == 0
                && let Some((flow, waiting)) = queue.pop(at(n.into()), &mut never)
            {
                let number = u32::from_be_bytes(waiting.packet[..].try_into().unwrap());
                assert_eq!(flow, number as u16, "its own number, not its queue's");
                out += 1;
                queue.recycle(waiting.packet);
            }
            assert!(queue.flows.len() <= 1024 && queue.len() <= 10_240);
        }
        assert!(queue.full > u64::from(PACKETS) / 2, "{}", queue.full);
        assert_eq!(u64::from(PACKETS), out + queue.dropped + queue.full + queue.len() as u64);
        let each = queue.looked / PACKETS as usize;
        assert!(each <= 300, "{each} flows are looked at for a packet");
    }

    #[test]
    fn small_packets_may_wait_as_long_as_large_ones_and_do_not_take_all_memory() {
        for (bytes, most) in
            [(1500, 1000), (300, 5000), (128, 11_718), (20, 11_718), (0, 11_718), (9000, 166)]
        {
            let mut queue = FqCodel::new(CONFIG);
            (0..20_000_u32).for_each(|n| queue.push((n % 7) as u16, &[0], bytes, at(0)));
            // A batch may have made way for the last one.
            assert!((most - BATCH.min(most / 7)..=most).contains(&queue.len()), "{}", queue.len());
            while queue.pop(at(0), &mut never).is_some() {}
            assert_eq!((queue.bytes(), queue.room), (0, 0));
        }
    }

    #[test]
    fn what_is_drained_has_its_own_flow() {
        let mut queue = FqCodel::new(CONFIG);
        // Two that share a queue.
        for flow in [3, 3 + BUCKETS] {
            queue.push(flow, &flow.to_be_bytes(), 100, at(0));
        }
        let flows: Vec<_> = queue.drain().into_iter().map(|(flow, _)| flow).collect();
        assert_eq!((flows, queue.len()), (vec![3, 3 + BUCKETS], 0));
    }

    #[test]
    fn a_standing_queue_is_cut_to_the_target_and_a_burst_is_not() {
        let mut queue = FqCodel::new(CONFIG);
        // A burst that is gone within 50 ms.
        (0..500).for_each(|_| queue.push(0, &[0], 1500, at(0)));
        (0..500).for_each(|n| assert!(queue.pop(at(100 * n), &mut never).is_some()));
        assert_eq!((queue.dropped, queue.len()), (0, 0));
        // A sender that, like TCP, halves its window when it sees a loss and grows it else: the queue
        // drains a packet in 100 us.
        let (mut window, mut flight, mut waits) = (400.0_f64, 0_u64, Vec::new());
        for n in 0..200_000_u64 {
            let now = at(100_000 + 100 * n);
            while (flight as f64) < window {
                queue.push(0, &[0], 1500, now);
                flight += 1;
            }
            let before = queue.dropped;
            if let Some((_, waiting)) = queue.pop(now, &mut never) {
                flight -= 1;
                waits.push(now.since(waiting.came));
                window += 1.0 / window;
            }
            let dropped = queue.dropped - before;
            flight -= dropped;
            if dropped > 0 {
                window /= 2.0;
            }
        }
        waits.sort();
        assert!(waits[waits.len() / 2] < Duration::from_millis(20), "{:?}", waits[waits.len() / 2]);
    }

    #[test]
    fn what_understands_ecn_is_marked_as_often_as_others_are_dropped() {
        // Packets come half as fast again as they go, of one flow whose packets all understand, or
        // none do.
        let run = |understands: bool| {
            let mut queue = FqCodel::new(QueueConfig { limit_bytes: u64::MAX, ..CONFIG });
            let mut marked = 0;
            for n in 0..20_000_u64 {
                let now = at(100 * n);
                (0..1 + n % 2).for_each(|_| queue.push(0, &[0], 1500, now));
                let popped = queue.pop(now, &mut |packet| {
                    packet[0] = u8::from(understands);
                    understands
                });
                marked += u64::from(popped.is_some_and(|(_, waiting)| waiting.packet[0] == 1));
            }
            assert_eq!(marked, queue.marked, "what is marked goes on");
            (queue.dropped, queue.marked)
        };
        let ((dropped, none), (nothing, marked)) = (run(false), run(true));
        assert_eq!((none, nothing), (0, 0));
        assert!(dropped > 50 && marked > 50, "{dropped} dropped, {marked} marked");
        assert!(dropped.abs_diff(marked) * 4 <= dropped, "{dropped} dropped, {marked} marked");
    }
}
