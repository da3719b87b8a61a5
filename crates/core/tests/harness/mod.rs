//! Two sessions in memory, joined by subflows over modelled links, in virtual time.
//!
//! A subflow is a pipe that delivers everything in order, like the TCP connection it stands for: a
//! segment that the link loses comes again a round-trip time later and holds up what follows.
//! Writers run only when the session wakes them or their socket gets room, and applications only
//! when an event says so, so that a wake-up the session forgets shows as a stall.
//!
//! The world also does what a driver does around a session: it closes a subflow at one end before
//! the other, gives a connection up that has been without any path for the grace time, lets a
//! closed end drain on a new subflow, and turns away a peer that it does not know.
#![allow(dead_code, reason = "each test binary uses its own part")]

mod node;
mod pipe;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::BytesMut;
pub(crate) use node::End;
use node::Node;
pub(crate) use pipe::PathSpec;
use pipe::Pipe;
use weftline_core::limiter::PathLimiter;
use weftline_core::path::{PathId, SubflowId};
use weftline_core::policy::PathPolicy;
use weftline_core::scheduler::Entry;
use weftline_core::session::Event;
use weftline_core::wire::PolicyNote;
use weftline_core::{Bitrate, Instant, Session, SessionConfig};

/// When the applications begin: the first acknowledgements have told the credit by then, as the
/// handshake does in the real world.
pub(crate) const START: Instant = Instant::from_millis(100);
/// How long a closed end that lost its subflows takes another one, to drain.
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// How often paths that are down are tried after [`Step::Redial`].
const REDIAL: Duration = Duration::from_millis(100);

/// What the script does at a time. A node is 0 for the client and 1 for the server.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The subflow on the path dies at both ends; what was in it is lost.
    Kill(usize),
    /// A new subflow comes up on the path.
    Revive(usize),
    /// A new subflow comes up at the server, and at the client when the answer is there.
    Join(usize),
    /// The node `.1` closes the subflow on the path; the other end sees that later.
    Close(usize, usize),
    /// Nothing moves from `Client`/`Server` on the path in the direction away from node `.1`.
    Cut(usize, usize),
    /// It moves again.
    Mend(usize, usize),
    /// Everything moves again.
    MendAll,
    /// Everything sent on the path takes so much longer from now on, on later subflows, too.
    Slow(usize, Duration),
    /// The client says anew what the path is for.
    Policy(usize, PolicyNote),
    /// The application of the node reads so many bytes more, and then no more.
    Reads(usize, u64),
    /// The application of the node writes so many bytes more, and then no more.
    Writes(usize, u64),
    /// The driver of the node has memory for so many bytes received, and to send.
    Memory(usize, u64, u64),
    /// The application of the node ends the connection at once.
    Reset(usize),
    /// The node's process is killed: the kernel closes its sockets.
    Crash(usize),
    /// The node's machine is gone: nobody closes anything.
    Vanish(usize),
    /// The node closes all of its subflows.
    HangUp(usize),
    /// From here on paths that are down are tried again and again.
    Redial,
}

/// The world: node 0 is the client, node 1 the server.
pub(crate) struct World {
    pub(crate) now: Instant,
    nodes: [Node; 2],
    paths: Vec<PathSpec>,
    /// What each path takes longer than its link says.
    extra: Vec<Duration>,
    /// By subflow and receiving node.
    pipes: BTreeMap<(SubflowId, usize), Pipe>,
    /// The present subflow of each path.
    subflows: BTreeMap<usize, SubflowId>,
    /// Subflows that the client will know of at a time.
    joining: VecDeque<(Instant, usize, SubflowId)>,
    /// The path of every subflow there has been.
    path_of: Vec<usize>,
    script: VecDeque<(Instant, Step)>,
    redial_at: Option<Instant>,
    seed: u64,
    scheduler: &'static Entry,
    /// Whether room is what the congestion window has, told for all subflows whenever anything has
    /// happened, as a simulator does.
    pub(crate) exact: bool,
    pub(crate) stall_events: u32,
    /// At most this rate is written, in steps of a millisecond; as fast as possible if `None`.
    pub(crate) pace: Option<Bitrate>,
    /// How long a connection lives without any subflow; for ever if `None`.
    pub(crate) grace: Option<Duration>,
    /// All subflows die at the moment at which a node has this event for the first time.
    pub(crate) sever_at: Option<(usize, Event)>,
    /// The most memory a node may hold for received bytes, and to send.
    pub(crate) max_memory: Option<[u64; 2]>,
}

impl World {
    /// All paths up at time 0; from `START` on node `i` will write `totals[i]` bytes and finish.
    pub(crate) fn new(
        config: &SessionConfig,
        paths: Vec<PathSpec>,
        totals: [u64; 2],
        seed: u64,
    ) -> Self {
        Self::between([config, config], paths, totals, seed)
    }

    /// As [`new`](Self::new), with a configuration for each node.
    pub(crate) fn between(
        configs: [&SessionConfig; 2],
        paths: Vec<PathSpec>,
        totals: [u64; 2],
        seed: u64,
    ) -> Self {
        let mut world = Self {
            now: Instant::ZERO,
            nodes: [0, 1].map(|node| Node::new(configs[node], totals[node])),
            extra: vec![Duration::ZERO; paths.len()],
            paths,
            pipes: BTreeMap::new(),
            subflows: BTreeMap::new(),
            joining: VecDeque::new(),
            path_of: Vec::new(),
            script: VecDeque::new(),
            redial_at: None,
            seed,
            scheduler: configs[0].scheduler,
            exact: false,
            stall_events: 0,
            pace: None,
            grace: None,
            sever_at: None,
            max_memory: None,
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

    pub(crate) fn limiter(&mut self, node: usize, path: PathId, limiter: PathLimiter) {
        self.nodes[node].session.set_limiter(path, limiter);
    }

    pub(crate) fn session(&self, node: usize) -> &Session {
        &self.nodes[node].session
    }

    pub(crate) fn read(&self, node: usize) -> u64 {
        self.nodes[node].read
    }

    pub(crate) fn written(&self, node: usize) -> u64 {
        self.nodes[node].written()
    }

    /// How the node's part ended, if it has.
    pub(crate) fn end(&self, node: usize) -> Option<&End> {
        self.nodes[node].end.as_ref()
    }

    /// When it ended.
    pub(crate) fn ended_at(&self, node: usize) -> Instant {
        self.nodes[node].ended_at
    }

    /// Events, wake-ups and timeouts of the node's session so far.
    pub(crate) fn calls(&self, node: usize) -> u64 {
        self.nodes[node].calls
    }

    /// When the node read its last byte.
    pub(crate) fn last_read_at(&self, node: usize) -> Instant {
        self.nodes[node].last_read_at
    }

    /// Runs until both sides have ended, at most until `end`. Returns whether they are closed.
    pub(crate) fn run(&mut self, end: Instant) -> bool {
        let mut events = 0u64;
        loop {
            self.settle();
            if self.nodes.iter().all(|node| node.end.is_some()) {
                // Whoever paused reads the rest: it is here.
                for node in &mut self.nodes {
                    node.may_read = u64::MAX;
                    node.run_application(self.now, None);
                }
                return self.nodes.iter().all(|node| node.end == Some(End::Closed));
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
        for ((id, to), pipe) in &mut self.pipes {
            if self.nodes[*to].input.contains_key(id) {
                pipe.next_arrival(now).into_iter().for_each(&mut consider);
            }
            if pipe.full {
                // Room is looked for in steps of a segment's time at the present rate.
                consider(now + Duration::from_micros(200));
            }
        }
        if self.pace.is_some() && self.nodes.iter().any(|node| !node.is_finished()) {
            consider(now + Duration::from_millis(1));
        }
        for node in &self.nodes {
            if node.end.is_none() {
                node.session.poll_timeout(now).into_iter().for_each(|at| consider(at.max(now)));
            }
            let ends = node.gives_up_at(self.grace).into_iter().chain(node.hangs_up_at());
            ends.for_each(|at| consider(at.max(now)));
        }
        self.joining.front().into_iter().for_each(|(at, ..)| consider(*at));
        self.redial_at.into_iter().for_each(&mut consider);
        next
    }

    fn advance(&mut self) {
        let now = self.now;
        while self.script.front().is_some_and(|(at, _)| *at <= now) {
            let (_, step) = self.script.pop_front().expect("looked at");
            self.apply(step);
        }
        while self.joining.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, path, id) = self.joining.pop_front().expect("looked at");
            self.joined(path, id);
        }
        if self.redial_at.is_some_and(|at| at <= now) {
            self.redial_at = Some(now + REDIAL);
            (0..self.paths.len()).for_each(|path| self.revive(path));
        }
        self.deliver();
        for node in &mut self.nodes {
            if node.end.is_none() && node.session.poll_timeout(now).is_some_and(|at| at <= now) {
                node.calls += 1;
                node.session.handle_timeout(now);
            }
            if node.gives_up_at(self.grace).is_some_and(|at| at <= now) {
                let stats = node.session.stats();
                let (acknowledged, received) = (stats.acknowledged, stats.delivered);
                node.session.reset(0, "no path", now);
                node.end_with(End::NoPath { acknowledged, received }, now);
            }
        }
        for node in 0..2 {
            if self.nodes[node].hangs_up_at().is_some_and(|at| at <= now) {
                self.hang_up_all(node);
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

    /// What has arrived goes into the sessions, and ends of subflows take them down.
    fn deliver(&mut self) {
        let now = self.now;
        let mut ended = Vec::new();
        for (&(id, to), pipe) in &mut self.pipes {
            let node = &mut self.nodes[to];
            let Some(input) = node.input.get_mut(&id) else { continue };
            while let Some(bytes) = pipe.arrived(now) {
                if node.end.is_none() {
                    input.extend_from_slice(&bytes);
                    node.session.handle_input(id, input, now).expect("an honest peer");
                }
            }
            if pipe.ended(now) {
                ended.push((id, to, pipe.said_all));
            }
        }
        for (id, to, said_all) in ended {
            self.nodes[to].down(id, said_all, now);
            self.hang_up(id, to);
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
                if self.nodes[from].is_crashed() {
                    continue;
                }
                while let Some(id) = self.nodes[from].session.poll_wake() {
                    moved = true;
                    self.nodes[from].calls += 1;
                    self.pump((id, to));
                }
                if self.exact {
                    moved |= self.offer_windows(to);
                }
                moved |= self.drain_events(from);
            }
            self.check_memory();
            if !moved {
                return;
            }
        }
    }

    /// Passes on what a session has to tell. Returns whether there was anything.
    fn drain_events(&mut self, from: usize) -> bool {
        let was_open = self.nodes[from].end.is_none();
        let mut moved = false;
        while let Some(event) = self.nodes[from].session.poll_event() {
            moved = true;
            self.stall_events += u32::from(matches!(event, Event::SubflowStalled(_)));
            self.nodes[from].take(&event, self.now);
            if self.sever_at.take_if(|(node, fatal)| (*node, &*fatal) == (from, &event)).is_some() {
                let all = (0..self.path_of.len() as u64).map(SubflowId);
                all.for_each(|id| self.forget(id));
                self.redial_at = self.redial_at.or(Some(self.now + REDIAL));
            }
        }
        if was_open && self.nodes[from].end.is_some() {
            self.let_writers_close(from);
        }
        moved
    }

    /// Each writer of a node that has ended looks whether it has anything left to say.
    fn let_writers_close(&mut self, from: usize) {
        let ids: Vec<_> = self.nodes[from].input.keys().copied().collect();
        ids.into_iter().for_each(|id| self.pump((id, 1 - from)));
    }

    fn check_memory(&self) {
        let Some(max) = self.max_memory else { return };
        for (node, max) in self.nodes.iter().zip(max) {
            let received = node.session.stats().receive_memory.as_u64();
            // The first and the last block may be held for a byte each.
            assert!(received <= max + (128 << 10), "{received} bytes held of {max}");
            let held = node.session.send_held();
            assert!(held <= max, "{held} bytes to send held of {max}");
        }
    }

    fn pump(&mut self, key: (SubflowId, usize)) {
        let (id, to) = key;
        let now = self.now;
        let Some(pipe) = self.pipes.get_mut(&key).filter(|pipe| !pipe.closing) else { return };
        let node = &mut self.nodes[1 - to];
        if node.is_crashed() {
            pipe.full = false;
            return;
        }
        let mut out = VecDeque::new();
        let room = pipe.room(now);
        if room == 0 {
            pipe.full = true;
            return;
        }
        node.session.handle_path_info(id, pipe.info());
        node.session.handle_room(id, if self.exact { pipe.window_room() } else { room });
        let sent = node.session.poll_transmit(id, &mut out, now);
        pipe.full = !self.exact && sent >= room;
        for bytes in out {
            pipe.push(bytes, now);
        }
        // Everything has been said on this subflow.
        pipe.closing = sent == 0 && node.end.is_some();
        pipe.said_all = pipe.closing;
    }

    /// Tells what room all subflows toward node `to` have in their windows, and sends what it is used
    /// for. Returns whether there was anything.
    fn offer_windows(&mut self, to: usize) -> bool {
        let now = self.now;
        let session = &mut self.nodes[1 - to].session;
        let ids: Vec<_> = self.subflows.values().copied().collect();
        for &id in &ids {
            let pipe = &self.pipes[&(id, to)];
            session.handle_path_info(id, pipe.info());
            session.handle_room(id, if pipe.closing { 0 } else { pipe.window_room() });
        }
        let mut moved = false;
        for id in ids {
            let pipe = self.pipes.get_mut(&(id, to)).expect("the subflow is up");
            if pipe.closing {
                continue;
            }
            let mut out = VecDeque::new();
            moved |= session.poll_transmit(id, &mut out, now) > 0;
            out.into_iter().for_each(|bytes| pipe.push(bytes, now));
        }
        moved
    }

    fn apply(&mut self, step: Step) {
        let now = self.now;
        match step {
            Step::Kill(path) => {
                if let Some(id) = self.subflows.get(&path) {
                    self.forget(*id);
                }
            }
            Step::Revive(path) => self.revive(path),
            Step::Join(path) => self.join(path),
            Step::Close(path, node) => {
                if let Some(id) = self.subflows.get(&path) {
                    self.hang_up(*id, node);
                }
            }
            Step::Cut(path, from) => self.set_cut(path, from, true),
            Step::Mend(path, from) => self.set_cut(path, from, false),
            Step::MendAll => self.pipes.values_mut().for_each(|pipe| pipe.set_cut(false, now)),
            Step::HangUp(node) => self.hang_up_all(node),
            Step::Slow(path, extra) => {
                self.extra[path] = extra;
                for to in 0..2 {
                    let id = self.subflows.get(&path);
                    let pipe = id.and_then(|id| self.pipes.get_mut(&(*id, to)));
                    pipe.into_iter().for_each(|pipe| pipe.set_extra(extra));
                }
            }
            Step::Policy(path, note) => {
                let client = &mut self.nodes[0].session;
                client.change_policy(PathId(path as u64), note, None, now);
            }
            Step::Reads(node, bytes) => self.nodes[node].may_read = bytes,
            Step::Writes(node, bytes) => self.nodes[node].may_write = bytes,
            Step::Memory(node, receive, send) => {
                self.nodes[node].session.set_receive_limit(receive, now);
                self.nodes[node].session.set_send_limit(send, send, now);
            }
            Step::Reset(node) if self.nodes[node].end.is_none() => {
                self.nodes[node].session.reset(2, "given up", now);
                self.nodes[node].end_with(End::Reset, now);
                self.let_writers_close(node);
            }
            Step::Reset(_) => {}
            Step::Crash(node) | Step::Vanish(node) if self.nodes[node].end.is_some() => {}
            Step::Crash(node) => {
                self.nodes[node].end_with(End::Crashed, now);
                self.hang_up_all(node);
            }
            Step::Vanish(node) => {
                self.nodes[node].end_with(End::Crashed, now);
                self.nodes[node].input.clear();
                let dead = self.pipes.iter_mut().filter(|((_, to), _)| *to != node);
                dead.for_each(|(_, pipe)| pipe.set_cut(true, now));
            }
            Step::Redial => self.redial_at = Some(now),
        }
    }

    fn hang_up_all(&mut self, node: usize) {
        let all: Vec<_> = self.nodes[node].input.keys().copied().collect();
        all.into_iter().for_each(|id| self.hang_up(id, node));
    }

    /// The node closes the subflow: what it has said still arrives, what it is told does not.
    fn hang_up(&mut self, id: SubflowId, node: usize) {
        self.subflows.retain(|_, live| *live != id);
        self.nodes[node].down(id, false, self.now);
        let other_is_up = self.nodes[1 - node].input.contains_key(&id)
            || self.joining.iter().any(|(_, _, joining)| *joining == id);
        if !other_is_up {
            return self.forget(id);
        }
        if let Some(pipe) = self.pipes.get_mut(&(id, 1 - node)) {
            pipe.closing = true;
            pipe.full = false;
        }
        let spec = &self.paths[self.path_of[id.0 as usize]];
        let mut sink = Pipe::new(spec, Duration::ZERO, self.seed, "sink", self.now);
        sink.sink = true;
        self.pipes.insert((id, node), sink);
    }

    /// The subflow is gone at both ends, with everything in it.
    fn forget(&mut self, id: SubflowId) {
        self.subflows.retain(|_, live| *live != id);
        self.joining.retain(|(_, _, joining)| *joining != id);
        for (to, node) in self.nodes.iter_mut().enumerate() {
            self.pipes.remove(&(id, to));
            node.down(id, false, self.now);
        }
    }

    fn set_cut(&mut self, path: usize, from: usize, cut: bool) {
        let Some(id) = self.subflows.get(&path) else { return };
        if let Some(pipe) = self.pipes.get_mut(&(*id, 1 - from)) {
            pipe.set_cut(cut, self.now);
        }
    }

    /// A new subflow on the path at both ends, if there is none and both want one.
    fn revive(&mut self, path: usize) {
        if let Some(id) = self.dial(path) {
            for node in 0..2 {
                self.up(node, path, id);
            }
        }
    }

    /// A new subflow on the path at the server; at the client later.
    fn join(&mut self, path: usize) {
        if let Some(id) = self.dial(path) {
            self.up(1, path, id);
            let at = self.now + self.paths[path].delay + self.extra[path];
            let place = self.joining.partition_point(|(other, ..)| *other <= at);
            self.joining.insert(place, (at, path, id));
        }
    }

    fn joined(&mut self, path: usize, id: SubflowId) {
        match self.nodes[0].wants_path(self.now) {
            true => self.up(0, path, id),
            false => self.forget(id),
        }
    }

    /// The links of a new subflow, if the path has none and both ends take one. A client that the
    /// server does not know any more learns it.
    fn dial(&mut self, path: usize) -> Option<SubflowId> {
        let now = self.now;
        let wants = [0, 1].map(|node| self.nodes[node].wants_path(now));
        let is_bare = |node: &Node| node.input.is_empty() && !node.is_crashed();
        if wants == [true, false] && self.nodes.iter().all(is_bare) {
            self.nodes[0].session.reset(0, "refused", now);
            self.nodes[0].end_with(End::Refused, now);
        }
        if self.subflows.contains_key(&path) || wants != [true, true] {
            return None;
        }
        // A server gives up an older subflow of the path.
        let older = self.nodes[1].input.keys().find(|id| self.path_of[id.0 as usize] == path);
        older.copied().into_iter().for_each(|id| self.forget(id));
        let id = SubflowId(self.path_of.len() as u64);
        self.path_of.push(path);
        self.subflows.insert(path, id);
        for to in 0..2 {
            let name = format!("path {path} to {to} id {}", id.0);
            let pipe = Pipe::new(&self.paths[path], self.extra[path], self.seed, &name, now);
            self.pipes.insert((id, to), pipe);
        }
        Some(id)
    }

    fn up(&mut self, node: usize, path: usize, id: SubflowId) {
        let node = &mut self.nodes[node];
        node.input.insert(id, BytesMut::new());
        node.no_path_since = None;
        node.session.subflow_up(id, PathId(path as u64), self.now).expect("called in turn");
    }
}
