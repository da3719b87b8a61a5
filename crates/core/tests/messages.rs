//! Messages between two sessions whatever happens to the subflows between them: each ends in one
//! way that both ends agree on, and what is delivered is what was sent.
//!
//! A subflow is a queue of bytes in each direction that delivers as much as an operation says, or
//! dies with what is in it. Writers run only when the session wakes them or their queue has room,
//! so that a wake-up the session forgets shows as a stall.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use weftline_core::path::{PathId, SubflowId};
use weftline_core::scheduler::{Entry, REGISTRY};
use weftline_core::session::{
    Event, Incoming, MessageId, MessageLimits, MessageOptions, MessageOutcome, Outcome, SendError,
};
use weftline_core::{ByteCount, Instant, Session, SessionConfig};

/// Paths there may be.
const PATHS: usize = 3;
const LONGEST: u64 = 200_000;
const MEMORY: u64 = 512 << 10;
/// What a queue takes before its writer has to wait.
const QUEUE: usize = 48 << 10;

#[derive(Clone, Debug)]
enum Step {
    /// The node sends a message of so many bytes that expires after so many milliseconds.
    Send(usize, usize, Option<u64>),
    /// It cancels one of its messages.
    Cancel(usize, prop::sample::Index),
    /// So many bytes of a path arrive at the node.
    Arrive(usize, usize, usize),
    /// The application of the node takes so many entries.
    Take(usize, usize),
    /// The subflow on a path dies, or a new one comes up.
    Toggle(usize),
    /// Milliseconds pass.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![1usize..2000, 1usize..=LONGEST as usize];
    let deadline = prop_oneof![2 => Just(None), 1 => (0u64..300).prop_map(Some)];
    prop_oneof![
        6 => (0usize..2, len, deadline).prop_map(|(node, len, after)| Step::Send(node, len, after)),
        2 => (0usize..2, any::<prop::sample::Index>()).prop_map(|(node, at)| Step::Cancel(node, at)),
        9 => (0usize..2, 0..PATHS, 1usize..60_000).prop_map(|(to, path, n)| Step::Arrive(to, path, n)),
        3 => (0usize..2, 1usize..5).prop_map(|(node, n)| Step::Take(node, n)),
        1 => (0..PATHS).prop_map(Step::Toggle),
        4 => prop_oneof![1u64..10, 1u64..1000].prop_map(Step::Wait),
    ]
}

struct Node {
    session: Session,
    input: BTreeMap<SubflowId, BytesMut>,
    /// What was accepted for sending.
    sent: BTreeMap<MessageId, (u64, Bytes)>,
    outcomes: BTreeMap<MessageId, MessageOutcome>,
    /// What came from the other node: `None` for a notice.
    got: BTreeMap<MessageId, Result<Bytes, Outcome>>,
    closed: bool,
    count: u64,
}

struct World {
    now: Instant,
    nodes: [Node; 2],
    /// The live subflow of each path.
    paths: [Option<SubflowId>; PATHS],
    /// (subflow, receiving node) → bytes on their way.
    queues: BTreeMap<(SubflowId, usize), VecDeque<u8>>,
    /// Writers that wait for room in their queue, or were woken.
    ready: BTreeSet<(SubflowId, usize)>,
    next: u64,
}

fn payload(node: usize, count: u64, len: usize) -> Bytes {
    let seed = count.wrapping_mul(31).wrapping_add(node as u64 * 7);
    (0..len as u64).map(|n| (n.wrapping_mul(0x9e37_79b9).wrapping_add(seed) >> 3) as u8).collect()
}

impl World {
    fn new(scheduler: &'static Entry) -> Self {
        let config = SessionConfig {
            scheduler,
            max_memory: ByteCount::new(MEMORY),
            first_window: ByteCount::kib(256),
            messages: Some(MessageLimits { longest_sent: LONGEST, longest_received: LONGEST }),
            ..SessionConfig::default()
        };
        let node = || Node {
            session: Session::new(&config, Instant::ZERO),
            input: BTreeMap::new(),
            sent: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            got: BTreeMap::new(),
            closed: false,
            count: 0,
        };
        let mut world = Self {
            now: Instant::ZERO,
            nodes: [node(), node()],
            paths: [None; PATHS],
            queues: BTreeMap::new(),
            ready: BTreeSet::new(),
            next: 0,
        };
        world.toggle(0);
        world.toggle(1);
        world
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Send(node, len, after) => self.nodes[node].send(node, len, after, self.now),
            Step::Cancel(node, at) => {
                let node = &mut self.nodes[node];
                let ids: Vec<_> = node.sent.keys().copied().collect();
                if !ids.is_empty() {
                    node.session.cancel_message(*at.get(&ids), self.now);
                }
            }
            Step::Arrive(to, path, bytes) => {
                self.arrive(to, path, bytes);
            }
            Step::Take(node, entries) => {
                (0..entries).for_each(|_| _ = self.nodes[node].take(self.now));
            }
            Step::Toggle(path) => self.toggle(path),
            Step::Wait(ms) => self.wait(self.now + Duration::from_millis(ms)),
        }
        self.settle();
    }

    /// Time passes, and timers are served as they fall due.
    fn wait(&mut self, until: Instant) {
        let mut turns = 0;
        while let Some(at) = self.next_timeout().filter(|at| *at <= until) {
            self.now = at.max(self.now);
            self.serve_timers();
            self.settle();
            turns += 1;
            assert!(turns < 20_000, "timers spin at {}", self.now);
        }
        self.now = until;
        self.serve_timers();
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.nodes.iter().filter_map(|node| node.session.poll_timeout(self.now)).min()
    }

    fn serve_timers(&mut self) {
        for node in &mut self.nodes {
            if node.session.poll_timeout(self.now).is_some_and(|at| at <= self.now) {
                node.session.handle_timeout(self.now);
            }
        }
    }

    fn arrive(&mut self, to: usize, path: usize, bytes: usize) -> bool {
        let Some(id) = self.paths[path] else { return false };
        let Some(queue) = self.queues.get_mut(&(id, to)) else { return false };
        let n = bytes.min(queue.len());
        let node = &mut self.nodes[to];
        let input = node.input.get_mut(&id).expect("the subflow is up");
        input.extend(queue.drain(..n));
        node.session.handle_input(id, input, self.now).expect("an honest peer");
        n > 0
    }

    fn toggle(&mut self, path: usize) {
        if let Some(id) = self.paths[path].take() {
            for (to, node) in self.nodes.iter_mut().enumerate() {
                self.queues.remove(&(id, to));
                self.ready.remove(&(id, to));
                node.input.remove(&id);
                node.session.subflow_down(id, self.now);
            }
            return;
        }
        let id = SubflowId(self.next);
        self.next += 1;
        self.paths[path] = Some(id);
        for (to, node) in self.nodes.iter_mut().enumerate() {
            self.queues.insert((id, to), VecDeque::new());
            node.input.insert(id, BytesMut::new());
            node.session.subflow_up(id, PathId(path as u64), self.now).expect("called in turn");
        }
    }

    /// Writers run until nothing more happens at this instant.
    fn settle(&mut self) {
        for turn in 0.. {
            assert!(turn < 10_000, "the world spins at {}", self.now);
            for (from, node) in self.nodes.iter_mut().enumerate() {
                while let Some(id) = node.session.poll_wake() {
                    self.ready.insert((id, 1 - from));
                }
                while let Some(event) = node.session.poll_event() {
                    node.closed |= event == Event::Closed;
                    assert!(!matches!(event, Event::Reset(..)), "{event:?}");
                }
                while let Some(ended) = node.session.poll_outcome() {
                    assert!(
                        node.outcomes.insert(ended.id, ended).is_none(),
                        "{ended:?} is told twice"
                    );
                }
                let held = node.session.stats().receive_memory.as_u64();
                assert!(held <= MEMORY + LONGEST, "{held} bytes held");
            }
            // Until a turn in which nobody was woken and nobody wrote.
            let mut moved = false;
            for key in self.ready.clone() {
                moved |= self.write(key);
            }
            if !moved {
                return;
            }
        }
    }

    /// Runs a writer that is woken or has found room. Returns whether it did anything.
    fn write(&mut self, key: (SubflowId, usize)) -> bool {
        let Some(queue) = self.queues.get_mut(&key) else { return self.ready.remove(&key) };
        let room = QUEUE.saturating_sub(queue.len()) as u64;
        if room == 0 {
            return false;
        }
        let mut out = VecDeque::new();
        let session = &mut self.nodes[1 - key.1].session;
        session.handle_room(key.0, room);
        let sent = session.poll_transmit(key.0, &mut out, self.now);
        out.iter().for_each(|bytes| queue.extend(bytes));
        if sent == 0 {
            self.ready.remove(&key);
        }
        true
    }

    /// Every path is mended, everybody takes and finishes: all must come to its end.
    fn finish(&mut self) {
        for path in 0..PATHS {
            if self.paths[path].is_none() {
                self.toggle(path);
            }
        }
        for node in &mut self.nodes {
            node.session.finish(self.now);
        }
        for turn in 0.. {
            self.settle();
            if self.nodes.iter().all(|node| node.closed) {
                return;
            }
            assert!(turn < 20_000, "stalled at {}: {}", self.now, self.report());
            let mut moved = false;
            for to in 0..2 {
                for path in 0..PATHS {
                    moved |= self.arrive(to, path, usize::MAX);
                }
                while self.nodes[to].take(self.now) {
                    moved = true;
                }
            }
            if !moved {
                let next = self.next_timeout().unwrap_or(self.now);
                self.now = next.max(self.now + Duration::from_micros(1));
                self.serve_timers();
            }
        }
    }

    fn report(&self) -> String {
        let node = |node: &Node| {
            let stats = node.session.stats();
            format!(
                "sent {} with {} outcomes, got {}, acknowledged {}, closed {}",
                node.sent.len(),
                node.outcomes.len(),
                node.got.len(),
                stats.acknowledged,
                node.closed
            )
        };
        self.nodes.iter().map(node).collect::<Vec<_>>().join("; ")
    }

    /// Both ends agree on every message.
    fn check(&self) {
        for (from, to) in [(&self.nodes[0], &self.nodes[1]), (&self.nodes[1], &self.nodes[0])] {
            assert_eq!(from.outcomes.len(), from.sent.len(), "every message has an outcome");
            assert_eq!(to.got.len(), from.sent.len(), "every message is told of");
            let mut total = 0;
            for (id, (tag, payload)) in &from.sent {
                let ended = from.outcomes[id];
                assert_eq!(ended.tag, *tag);
                match &to.got[id] {
                    Ok(got) => {
                        assert_eq!(ended.outcome, Outcome::Delivered);
                        assert!(got == payload, "message {id} differs");
                    }
                    Err(outcome) => assert_eq!(ended.outcome, *outcome),
                }
                total += payload.len() as u64;
            }
            assert_eq!(from.session.stats().acknowledged, total);
            assert_eq!(to.session.stats().delivered, total);
            assert_eq!(to.session.stats().receive_memory, ByteCount::ZERO);
        }
    }
}

impl Node {
    fn send(&mut self, node: usize, len: usize, after: Option<u64>, now: Instant) {
        let payload = payload(node, self.count, len);
        let deadline = after.map(|ms| now + Duration::from_millis(ms));
        let options = MessageOptions { deadline, tag: self.count };
        match self.session.send_message(payload.clone(), options, now) {
            Ok(id) => {
                assert!(self.sent.insert(id, (self.count, payload)).is_none(), "a new number");
                self.count += 1;
            }
            Err(SendError::Full) => {}
            Err(SendError::Expired) => assert_eq!(after, Some(0)),
            Err(error) => panic!("{error}"),
        }
    }

    /// Takes the next entry, if there is one.
    fn take(&mut self, now: Instant) -> bool {
        let (id, got) = match self.session.poll_message(now) {
            None => return false,
            Some(Incoming::Message(message)) => (message.id, Ok(message.payload)),
            Some(Incoming::Dropped(ended)) => (ended.id, Err(ended.outcome)),
        };
        assert!(self.got.insert(id, got).is_none(), "message {id} comes twice");
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever happens: every message is delivered once and byte by byte, or both ends know that
    /// it was dropped; memory is bounded; the stream gets to its end.
    #[test]
    fn both_ends_agree_on_every_message(
        scheduler in prop::sample::select(REGISTRY.iter().collect::<Vec<_>>()),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(scheduler);
        for step in &steps {
            world.step(step);
        }
        world.finish();
        world.check();
    }
}

/// A message is delivered once it is whole, whatever earlier ones still wait for.
#[test]
fn a_message_overtakes_what_waits_on_another_path() {
    let mut world = World::new(Entry::find("earliest").expect("registered"));
    // With the answer to something comes the credit for all that follows.
    world.step(&Step::Send(0, 1, None));
    for to in [1, 0] {
        world.step(&Step::Wait(100));
        (0..PATHS).for_each(|path| world.step(&Step::Arrive(to, path, usize::MAX)));
    }
    let before = world.nodes[0].sent.len();
    for _ in 0..12 {
        world.nodes[0].send(0, 10_000, None, world.now);
    }
    world.settle();
    // The first message went by the first path, whose bytes have not arrived.
    world.arrive(1, 1, usize::MAX);
    while world.nodes[1].take(world.now) {}
    let first = *world.nodes[0].sent.keys().nth(before).expect("sent");
    let got = &world.nodes[1].got;
    assert!(!got.is_empty() && !got.contains_key(&first), "got {:?}", got.keys());
    world.finish();
    world.check();
}
