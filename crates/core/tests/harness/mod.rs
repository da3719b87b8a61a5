//! Two sessions in memory, joined by subflows over modelled links, in virtual time.
//!
//! A subflow is a pipe that delivers everything in order, like the TCP connection it stands for: a
//! segment that the link loses comes again a round-trip time later and holds up what follows.
//! Writers run only when the session wakes them or their socket gets room, so that a wake-up the
//! session forgets shows as a stall.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use weftline_core::path::{PathId, PathInfo, SubflowId};
use weftline_core::policy::PathPolicy;
use weftline_core::scheduler::Entry;
use weftline_core::session::Event;
use weftline_core::wire::PolicyNote;
use weftline_core::{Bitrate, ByteCount, Instant, Session, SessionConfig};
use weftline_link::{Link, LinkConfig, LossModel, QueueLimit, RateTrace, Verdict};

/// Bytes handed to the link at once.
const SEGMENT: usize = 1448;

/// When the applications begin: the first acknowledgements have told the credit by then, as the
/// handshake does in the real world.
pub(crate) const START: Instant = Instant::from_millis(100);

/// One path: both directions alike.
#[derive(Clone, Debug)]
pub(crate) struct PathSpec {
    pub(crate) rate: RateTrace,
    pub(crate) delay: Duration,
    pub(crate) loss: f64,
    /// Bytes the socket holds unsent (`TCP_NOTSENT_LOWAT`).
    pub(crate) unsent_max: u64,
}

impl PathSpec {
    pub(crate) fn constant(rate: Bitrate, delay: Duration) -> Self {
        let unsent_max = rate.bytes_in(Duration::from_millis(5)).as_u64();
        Self {
            rate: RateTrace::constant(rate),
            delay,
            loss: 0.0,
            unsent_max: unsent_max.clamp(16 << 10, 256 << 10),
        }
    }

    pub(crate) fn lossy(self, loss: f64) -> Self {
        Self { loss, ..self }
    }
}

/// One direction of a subflow.
struct Pipe {
    link: Link,
    rtt: Duration,
    unsent_max: u64,
    /// What the path holds at its mean rate, and the socket's share: a window that fits.
    cwnd: u64,
    /// Bytes that have not arrived.
    in_flight: u64,
    arrivals: VecDeque<(Instant, Bytes)>,
    last_arrival: Instant,
    /// Whether the writer filled the socket and waits for room.
    full: bool,
    cut: bool,
}

impl Pipe {
    fn room(&mut self, now: Instant) -> u64 {
        self.unsent_max.saturating_sub(self.link.backlog(now).0.as_u64())
    }

    /// What the endpoint would tell of its connection.
    fn info(&self, exact: bool) -> PathInfo {
        PathInfo {
            exact,
            cwnd: ByteCount::new(self.cwnd),
            in_flight: ByteCount::new(self.in_flight),
            srtt: self.rtt,
            rttvar: self.rtt / 8,
            min_rtt: self.rtt,
            ssthresh: Some(ByteCount::new(self.cwnd / 2)),
            ..PathInfo::default()
        }
    }

    fn push(&mut self, bytes: Bytes, now: Instant) {
        for at in (0..bytes.len()).step_by(SEGMENT) {
            let part = bytes.slice(at..bytes.len().min(at + SEGMENT));
            let mut repair = Duration::ZERO;
            let arrives = loop {
                match self.link.offer(now, ByteCount::new(part.len() as u64)) {
                    Verdict::Arrives(at) => break at + repair,
                    Verdict::Lost => repair += self.rtt,
                    other => panic!("the harness links have no such drop: {other:?}"),
                }
            };
            self.last_arrival = self.last_arrival.max(arrives);
            self.in_flight += part.len() as u64;
            self.arrivals.push_back((self.last_arrival, part));
        }
    }
}

/// What the script does to a path at a time.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The subflow on the path dies at both ends; what was in it is lost.
    Kill(usize),
    /// A new subflow comes up on the path.
    Revive(usize),
    /// Nothing moves from `Client`/`Server` on the path in the direction away from node `.1`.
    Cut(usize, usize),
    /// It moves again.
    Mend(usize, usize),
    /// The client says anew what the path is for.
    Policy(usize, PolicyNote),
}

struct Node {
    session: Session,
    input: BTreeMap<SubflowId, BytesMut>,
    write_total: u64,
    written: u64,
    read: u64,
    finished: bool,
    closed: bool,
    /// When each byte count was reached, per event of reading.
    last_read_at: Instant,
}

/// The world: node 0 is the client, node 1 the server.
pub(crate) struct World {
    pub(crate) now: Instant,
    nodes: [Node; 2],
    paths: Vec<PathSpec>,
    pipes: BTreeMap<(SubflowId, usize), Pipe>,
    subflows: BTreeMap<usize, SubflowId>,
    next_subflow: u64,
    script: VecDeque<(Instant, Step)>,
    seed: u64,
    scheduler: &'static Entry,
    /// Whether the sessions know every window exactly and are asked for all subflows whenever
    /// anything has happened, a segment at a time, as a simulator does.
    pub(crate) exact: bool,
    pub(crate) silent_events: u32,
    /// At most this rate is written, in steps of a millisecond; as fast as possible if `None`.
    pub(crate) pace: Option<Bitrate>,
}

fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 11) as u8
}

impl World {
    /// All paths up at time 0; from `START` on node `i` will write `totals[i]` bytes and finish.
    pub(crate) fn new(
        config: &SessionConfig,
        paths: Vec<PathSpec>,
        totals: [u64; 2],
        seed: u64,
    ) -> Self {
        let node = |write_total| Node {
            session: Session::new(config, Instant::ZERO),
            input: BTreeMap::new(),
            write_total,
            written: 0,
            read: 0,
            finished: false,
            closed: false,
            last_read_at: Instant::ZERO,
        };
        let mut world = Self {
            now: Instant::ZERO,
            nodes: totals.map(node),
            paths,
            pipes: BTreeMap::new(),
            subflows: BTreeMap::new(),
            next_subflow: 0,
            script: VecDeque::new(),
            seed,
            scheduler: config.scheduler,
            exact: false,
            silent_events: 0,
            pace: None,
        };
        for path in 0..world.paths.len() {
            world.revive(path);
        }
        world
    }

    /// What the paths are for from the beginning; both ends know.
    pub(crate) fn policies(&mut self, policies: &[PathPolicy]) {
        for (path, &policy) in (0..).zip(policies) {
            for node in &mut self.nodes {
                let note = PolicyNote { revision: 0, policy };
                node.session.set_policy(PathId(path), note, None, self.now);
            }
        }
    }

    pub(crate) fn script(&mut self, mut steps: Vec<(Instant, Step)>) {
        steps.sort_by_key(|(at, _)| *at);
        self.script = steps.into();
    }

    pub(crate) fn session(&self, node: usize) -> &Session {
        &self.nodes[node].session
    }

    pub(crate) fn read(&self, node: usize) -> u64 {
        self.nodes[node].read
    }

    /// When the node read its last byte.
    pub(crate) fn last_read_at(&self, node: usize) -> Instant {
        self.nodes[node].last_read_at
    }

    /// Runs until both sides are closed, at most until `end`. Returns whether they are.
    pub(crate) fn run(&mut self, end: Instant) -> bool {
        let mut events = 0u64;
        loop {
            self.settle();
            if self.nodes.iter().all(|node| node.closed) {
                return true;
            }
            let Some(next) = self.next_time() else { return false };
            if next > end {
                self.now = end;
                return false;
            }
            assert!(next >= self.now, "time goes forward");
            events = if next == self.now { events + 1 } else { 0 };
            assert!(events < 10_000, "the world spins at {}", self.now);
            self.now = next;
            self.advance();
        }
    }

    fn next_time(&mut self) -> Option<Instant> {
        let now = self.now;
        let mut next = self.script.front().map(|(at, _)| *at);
        if now < START {
            next = Some(next.map_or(START, |at| at.min(START)));
        }
        let mut consider = |at: Instant| next = Some(next.map_or(at, |n| n.min(at)));
        for pipe in self.pipes.values_mut() {
            if let Some((at, _)) = pipe.arrivals.front()
                && !pipe.cut
            {
                consider((*at).max(now));
            }
            if pipe.full {
                // Room is looked for in steps of a segment's time at the present rate.
                consider(now + Duration::from_micros(200));
            }
        }
        if self.pace.is_some() && self.nodes.iter().any(|node| !node.finished) {
            consider(now + Duration::from_millis(1));
        }
        for node in &self.nodes {
            node.session.poll_timeout(now).into_iter().for_each(|at| consider(at.max(now)));
        }
        next
    }

    fn advance(&mut self) {
        let now = self.now;
        while self.script.front().is_some_and(|(at, _)| *at <= now) {
            let (_, step) = self.script.pop_front().expect("looked at");
            self.apply(step);
        }
        for (&(id, to), pipe) in &mut self.pipes {
            while !pipe.cut && pipe.arrivals.front().is_some_and(|(at, _)| *at <= now) {
                let (_, bytes) = pipe.arrivals.pop_front().expect("looked at");
                pipe.in_flight -= bytes.len() as u64;
                let node = &mut self.nodes[to];
                let input = node.input.get_mut(&id).expect("the subflow is up");
                input.extend_from_slice(&bytes);
                node.session.handle_input(id, input, now).expect("an honest peer");
            }
        }
        for node in &mut self.nodes {
            if node.session.poll_timeout(now).is_some_and(|at| at <= now) {
                node.session.handle_timeout(now);
            }
        }
        let freed: Vec<_> = self
            .pipes
            .iter_mut()
            .filter_map(|(key, pipe)| (pipe.full && pipe.room(now) > 4096).then_some(*key))
            .collect();
        for key in freed {
            self.pump(key);
        }
    }

    /// Applications and writers run until nothing more happens at this instant.
    fn settle(&mut self) {
        let mut turns = 0;
        loop {
            turns += 1;
            assert!(turns < 10_000, "{} spins at {}", self.scheduler.name, self.now);
            let mut moved = false;
            for node in &mut self.nodes {
                moved |= node.run_application(self.now, self.pace);
            }
            for (to, from) in [(1, 0), (0, 1)] {
                while let Some(id) = self.nodes[from].session.poll_wake() {
                    moved = true;
                    self.pump((id, to));
                }
                if self.exact {
                    moved |= self.offer_windows(to);
                }
                while let Some(event) = self.nodes[from].session.poll_event() {
                    moved = true;
                    match event {
                        Event::Closed => self.nodes[from].closed = true,
                        Event::Reset(code, reason) => panic!("reset {code}: {reason}"),
                        Event::SubflowSilent(_) => self.silent_events += 1,
                        _ => {}
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn pump(&mut self, key: (SubflowId, usize)) {
        let (id, to) = key;
        let now = self.now;
        let Some(pipe) = self.pipes.get_mut(&key) else { return };
        let mut out = VecDeque::new();
        let room = pipe.room(now);
        if room == 0 {
            pipe.full = true;
            return;
        }
        let session = &mut self.nodes[1 - to].session;
        // Of windows, only control records pass by themselves.
        let room = if self.exact { 0 } else { room };
        session.handle_path_info(id, pipe.info(self.exact));
        let sent = session.poll_transmit(id, room, &mut out, now);
        pipe.full = !self.exact && sent >= room;
        for bytes in out {
            pipe.push(bytes, now);
        }
    }

    /// Asks for all subflows toward node `to` that have room in their windows until none takes
    /// anything. Returns whether any did.
    fn offer_windows(&mut self, to: usize) -> bool {
        let now = self.now;
        let session = &mut self.nodes[1 - to].session;
        let mut moved = false;
        loop {
            let mut taken = false;
            for asked in self.subflows.values() {
                for id in self.subflows.values() {
                    let info = self.pipes[&(*id, to)].info(true);
                    session.handle_path_info(*id, info);
                }
                let pipe = self.pipes.get_mut(&(*asked, to)).expect("the subflow is up");
                let room = self.scheduler.room(&pipe.info(true)).as_u64();
                if room < SEGMENT as u64 {
                    continue;
                }
                let mut out = VecDeque::new();
                taken |= session.poll_transmit(*asked, SEGMENT as u64, &mut out, now) > 0;
                out.into_iter().for_each(|bytes| pipe.push(bytes, now));
            }
            if !taken {
                return moved;
            }
            moved = true;
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Kill(path) => {
                if let Some(id) = self.subflows.remove(&path) {
                    for node in 0..2 {
                        self.pipes.remove(&(id, node));
                        self.nodes[node].input.remove(&id);
                        self.nodes[node].session.subflow_down(id, self.now);
                    }
                }
            }
            Step::Revive(path) => {
                if !self.subflows.contains_key(&path) {
                    self.revive(path);
                }
            }
            Step::Cut(path, from) => self.set_cut(path, from, true),
            Step::Mend(path, from) => self.set_cut(path, from, false),
            Step::Policy(path, note) => {
                let client = &mut self.nodes[0].session;
                client.change_policy(PathId(path as u64), note, None, self.now);
            }
        }
    }

    fn set_cut(&mut self, path: usize, from: usize, cut: bool) {
        let Some(id) = self.subflows.get(&path) else { return };
        if let Some(pipe) = self.pipes.get_mut(&(*id, 1 - from)) {
            pipe.cut = cut;
            // What waited behind the cut arrives after it, in order.
            let now = self.now;
            pipe.arrivals.iter_mut().for_each(|(at, _)| *at = (*at).max(now));
            pipe.last_arrival = pipe.last_arrival.max(now);
        }
    }

    fn revive(&mut self, path: usize) {
        let id = SubflowId(self.next_subflow);
        self.next_subflow += 1;
        self.subflows.insert(path, id);
        let spec = &self.paths[path];
        for to in 0..2 {
            let config = LinkConfig {
                rate: spec.rate.clone(),
                delay: spec.delay,
                jitter: Duration::ZERO,
                queue: QueueLimit::Bytes(ByteCount::mib(1024)),
                loss: LossModel::Bernoulli(spec.loss),
            };
            let mut link =
                Link::new(config, self.seed, &format!("path {path} to {to} id {}", id.0));
            link.start(Instant::ZERO);
            let pipe = Pipe {
                link,
                rtt: 2 * spec.delay,
                unsent_max: spec.unsent_max,
                cwnd: spec.rate.mean().bytes_in(2 * spec.delay).as_u64() + spec.unsent_max,
                in_flight: 0,
                arrivals: VecDeque::new(),
                last_arrival: self.now,
                full: false,
                cut: false,
            };
            self.pipes.insert((id, to), pipe);
            self.nodes[to].input.insert(id, BytesMut::new());
            self.nodes[to].session.subflow_up(id, PathId(path as u64), self.now);
        }
    }
}

impl Node {
    /// Writes what there is room for and reads what there is; returns whether anything moved.
    fn run_application(&mut self, now: Instant, pace: Option<Bitrate>) -> bool {
        let mut moved = false;
        // Whole milliseconds: an application that writes at every event would write single bytes.
        let written_for = Duration::from_millis(now.since(START).as_millis() as u64);
        let paced = |rate: Bitrate| rate.bytes_in(written_for).as_u64();
        let allowed = self.write_total.min(pace.map_or(u64::MAX, paced));
        while now >= START && self.written < allowed {
            // A little more than there is room for, so that it is refused and waits.
            let end = allowed.min(self.written + (64 << 10).min(self.session.room() + 1));
            let data: Vec<u8> = (self.written..end).map(byte_at).collect();
            let n = self.session.write(&data, now) as u64;
            self.written += n;
            moved |= n > 0;
            if n < end - self.written + n {
                break;
            }
        }
        if now >= START && self.written == self.write_total && !self.finished {
            self.finished = true;
            self.session.finish(now);
            moved = true;
        }
        while !self.session.read_chunk().is_empty() {
            let chunk = self.session.read_chunk();
            assert!(
                chunk.iter().enumerate().all(|(i, &b)| b == byte_at(self.read + i as u64)),
                "bytes after {} are wrong",
                self.read
            );
            let n = chunk.len();
            self.read += n as u64;
            self.session.consume(n, now);
            self.last_read_at = now;
            moved = true;
        }
        moved
    }
}
