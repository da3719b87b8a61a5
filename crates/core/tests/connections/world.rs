//! Both ends, the links between them, and time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use weftline_core::life::{Ending, Phase};
use weftline_core::path_manager::{
    Action, AttemptId, Carried, Failure, Look, PathManager, PathPlan, ProbeSeat,
};
use weftline_core::rng::Rng;
use weftline_core::session::RESET_ABANDONED;
use weftline_core::{Instant, PathId, SubflowId};

use super::link::{CLIENT, Conn, Packet, Pipe, SERVER};
use super::node::Node;
use super::plan::{Fault, LinkPlan, Plan};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const DIAL_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an end that has said all waits for the other to close, too.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// After everything is mended a connection has come to its end within this time: pings, backoff,
/// grace, what lingers, and a slow link for what is left.
const PATIENCE: Duration = Duration::from_secs(240);
/// Connections of the kernel's that a path may have at once: 16 dials, an attempt that is further, and
/// subflows that are up, stalled and about to be closed.
const MOST_CONNS: usize = 20;
const TURNS: u64 = 2_000_000;

/// How a seed ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Closed,
    Failed,
    Unopened,
    Half,
    /// Something arrived that was not sent, so that nothing is promised but that it ends.
    Garbled,
}

/// What is not as it should be.
#[derive(Clone, Debug)]
pub enum Wrong {
    /// Bytes are lost, or others than were sent.
    Bytes(String),
    /// Bytes come twice.
    Double(String),
    /// There is no end.
    Stuck(String),
    /// Memory, sockets or subflows become more and more.
    Grows(String),
    /// An error says what is not so.
    Untrue(String),
    /// Nothing has happened that a connection need not survive.
    ForNothing(String),
    /// The scheduler has broken its contract.
    Scheduler(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(text) => write!(f, "lost: {text}"),
            Self::Double(text) => write!(f, "double: {text}"),
            Self::Stuck(text) => write!(f, "stuck: {text}"),
            Self::Grows(text) => write!(f, "grows: {text}"),
            Self::Untrue(text) => write!(f, "untrue: {text}"),
            Self::ForNothing(text) => write!(f, "failed for nothing: {text}"),
            Self::Scheduler(text) => write!(f, "scheduler: {text}"),
        }
    }
}

/// What happens when its time comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Fault(usize),
    Light(usize),
    Dark(usize, Duration),
    Memory(usize),
    Plug(usize),
    Connected(AttemptId),
    Arrive(u64, usize),
    /// The other end has not closed.
    Overdue(u64, usize),
}

pub struct World<'a> {
    plan: &'a Plan,
    now: Instant,
    rng: Rng,
    due: BTreeSet<(Instant, Due)>,
    conns: BTreeMap<u64, Conn>,
    next_conn: u64,
    /// As they are now, and until when each is dark.
    links: Vec<LinkPlan>,
    dark: Vec<Instant>,
    client: Option<Client>,
    server: Option<Node>,
    /// Whether the server's process knows the connection, or would let it in.
    serves: bool,
    was_opened: bool,
    read: [u64; 2],
}

struct Client {
    node: Node,
    manager: PathManager,
    attempts: BTreeMap<AttemptId, Attempt>,
    has_begun: bool,
    gave_up: bool,
    /// Which links its settings have.
    plugged: Vec<bool>,
}

fn paths(seed: u64, plugged: &[bool]) -> Vec<PathPlan> {
    let paths = (0..plugged.len()).filter(|&index| plugged[index]).map(|index| PathPlan {
        id: PathId(index as u64),
        reserve: false,
        seat: ProbeSeat::default(),
        rng: Rng::stream(seed, &format!("path/{index}")),
    });
    paths.collect()
}

#[derive(Clone, Copy)]
struct Attempt {
    conn: u64,
    path: PathId,
    subflow: Option<SubflowId>,
}

impl<'a> World<'a> {
    pub fn new(plan: &'a Plan) -> Self {
        let plugged = vec![true; plan.links.len()];
        let plans = paths(plan.seed, &plugged);
        let dial = Some(DIAL_TIMEOUT);
        let client = Client {
            node: Node::new(plan, CLIENT, Instant::ZERO),
            manager: PathManager::new(plans, HANDSHAKE_TIMEOUT, dial, Instant::ZERO),
            attempts: BTreeMap::new(),
            has_begun: false,
            gave_up: false,
            plugged,
        };
        let faults = plan.faults.iter().enumerate().map(|(n, &(at, _))| (at, Due::Fault(n)));
        Self {
            plan,
            now: Instant::ZERO,
            rng: Rng::stream(plan.seed, "world"),
            due: faults.collect(),
            conns: BTreeMap::new(),
            next_conn: 0,
            links: plan.links.clone(),
            dark: vec![Instant::ZERO; plan.links.len()],
            client: Some(client),
            server: None,
            serves: true,
            was_opened: false,
            read: [0; 2],
        }
    }

    /// Runs until nothing is left of the connection.
    ///
    /// # Errors
    /// What is not as it should be.
    pub fn run(&mut self) -> Result<Outcome, Wrong> {
        let last = self.plan.healed_at() + PATIENCE;
        for turn in 0.. {
            self.settle()?;
            if self.is_gone() {
                return self.verdict();
            }
            let Some(next) = self.next() else {
                let text = format!("nothing is due at {}: {}", self.now, self.report());
                return Err(Wrong::Stuck(text));
            };
            if next > last || turn > TURNS {
                if self.plan.is_garbled() && turn <= TURNS {
                    return Ok(Outcome::Garbled);
                }
                let text = format!("no end by {} in {turn} turns: {}", self.now, self.report());
                return Err(Wrong::Stuck(text));
            }
            self.now = next.max(self.now);
            self.advance();
            if turn % 64 == 0 {
                self.check_bounds()?;
            }
        }
        unreachable!("it ends before")
    }

    /// One end, unless its process is gone.
    pub fn end(&self, end: usize) -> Option<&Node> {
        match end {
            CLIENT => self.client.as_ref().map(|client| &client.node),
            _ => self.server.as_ref(),
        }
    }

    fn next(&self) -> Option<Instant> {
        let due = self.due.first().map(|(at, _)| *at);
        let client = self.client.as_ref().and_then(|client| {
            let node = client.has_begun.then(|| client.node.next(self.now)).flatten();
            node.into_iter().chain(client.manager.poll_timeout()).min()
        });
        let server = self.server.as_ref().and_then(|server| server.next(self.now));
        due.into_iter().chain(client).chain(server).min()
    }

    fn is_gone(&self) -> bool {
        let gone = |node: &Node| node.life.phase() == Phase::Gone;
        let client = self
            .client
            .as_ref()
            .is_none_or(|client| gone(&client.node) || (client.gave_up && !client.has_begun));
        client && self.server.as_ref().is_none_or(gone)
    }

    // ---- time ----

    fn advance(&mut self) {
        while let Some(&(at, due)) = self.due.first().filter(|(at, _)| *at <= self.now) {
            self.due.remove(&(at, due));
            self.happen(due);
        }
        let now = self.now;
        if let Some(client) = &mut self.client {
            client.node.handle_timeout(now);
            if client.manager.poll_timeout().is_some_and(|at| at <= now) {
                let stats = client.node.session.stats();
                client.manager.handle_timeout(stats.acknowledged + stats.delivered, now);
            }
        }
        if let Some(server) = &mut self.server {
            server.handle_timeout(now);
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Fault(n) => self.fault(self.plan.faults[n].1),
            Due::Dark(link, time) => self.darken(link, time),
            Due::Light(link) => self.light(link),
            Due::Memory(end) => {
                let now = self.now;
                self.node(end).into_iter().for_each(|node| node.limit_memory(None, now));
            }
            Due::Plug(link) => self.plug(link, true),
            Due::Connected(attempt) => self.connected(attempt),
            Due::Arrive(conn, end) => self.arrive(conn, end),
            Due::Overdue(conn, end) => self.lose(conn, end, false),
        }
    }

    fn node(&mut self, end: usize) -> Option<&mut Node> {
        match end {
            CLIENT => self.client.as_mut().filter(|client| client.has_begun).map(|c| &mut c.node),
            _ => self.server.as_mut(),
        }
    }

    // ---- what goes wrong ----

    fn fault(&mut self, fault: Fault) {
        let now = self.now;
        match fault {
            Fault::Cut(link) => self.cut(link),
            Fault::HalfOpen(link) => {
                self.on_link(link).into_iter().for_each(|conn| self.lose(conn, CLIENT, false));
            }
            Fault::HalfOpenAtServer(link) => {
                self.on_link(link).into_iter().for_each(|conn| self.lose(conn, SERVER, false));
            }
            Fault::Dark(link, time) => self.darken(link, time),
            Fault::Flap(link, time, times) => {
                for n in 0..times {
                    self.due.insert((now + 2 * time * n, Due::Dark(link, time)));
                }
            }
            Fault::Delay(link, delay) => self.links[link].delay = delay,
            Fault::DelayAll(delay) => self.links.iter_mut().for_each(|link| link.delay = delay),
            Fault::Corrupt(link) => self.mark(link, |pipe| pipe.corrupt = true),
            Fault::Repeat(link) => self.mark(link, |pipe| pipe.repeat = true),
            Fault::Swap(link) => self.mark(link, |pipe| pipe.swap = true),
            Fault::Garble(link) => self.mark(link, |pipe| pipe.garble = true),
            Fault::Swallow(link) => self.mark(link, |pipe| pipe.swallows = true),
            Fault::Unplug(link, time) => {
                self.plug(link, false);
                self.due.insert((now + time, Due::Plug(link)));
            }
            Fault::NewAddress(link) => {
                self.on_link(link).into_iter().for_each(|conn| self.lose(conn, CLIENT, false));
                if let Some(client) = &mut self.client {
                    client.manager.handle_links_changed();
                }
            }
            Fault::StopReading(end, time) => {
                self.node(end).into_iter().for_each(|node| node.stopped_until = now + time);
            }
            Fault::ReadSlowly(end, time, most) => {
                self.node(end).into_iter().for_each(|node| node.read_slowly(now + time, most));
            }
            Fault::ShortOfMemory(end, time) => {
                self.node(end).into_iter().for_each(|node| node.limit_memory(Some(256 << 10), now));
                self.due.insert((now + time, Due::Memory(end)));
            }
            Fault::ServerRestart => {
                self.serves &= self.server.is_none();
                self.read[SERVER] = self.server.take().map_or(0, |server| server.read);
                let all: Vec<u64> = self.conns.keys().copied().collect();
                all.into_iter().for_each(|conn| self.close(conn, SERVER));
            }
            Fault::ClientEnds { told } => {
                let Some(client) = self.client.take() else { return };
                self.read[CLIENT] = client.node.read;
                for conn in self.conns.keys().copied().collect::<Vec<_>>() {
                    match told {
                        true => self.close(conn, CLIENT),
                        false => self.lose(conn, CLIENT, false),
                    }
                }
            }
            Fault::Drop(end) => self.node(end).into_iter().for_each(|node| node.leave(now)),
        }
    }

    /// The client's settings have the link from now on, or do not. They always have one, and change
    /// only while the connection is open.
    fn plug(&mut self, link: usize, is_in: bool) {
        let (now, seed) = (self.now, self.plan.seed);
        let Some(client) = &mut self.client else { return };
        let is_last = client.plugged.iter().filter(|&&is_in| is_in).count() == 1;
        let is_open = client.node.life.was_open() && !client.node.life.is_over();
        if client.plugged[link] == is_in || (!is_in && (is_last || !is_open)) {
            return;
        }
        client.plugged[link] = is_in;
        client.manager.set_paths(paths(seed, &client.plugged), now);
    }

    fn cut(&mut self, link: usize) {
        for conn in self.on_link(link) {
            // What is on its way is lost as well.
            if let Some(conn) = self.conns.get_mut(&conn) {
                conn.to.iter_mut().for_each(Pipe::lose_all);
            }
            self.close(conn, CLIENT);
            self.close(conn, SERVER);
        }
    }

    fn on_link(&self, link: usize) -> Vec<u64> {
        let all = self.conns.iter().filter(|(_, conn)| conn.link == link);
        all.map(|(&id, _)| id).collect()
    }

    fn mark(&mut self, link: usize, set: impl Fn(&mut Pipe)) {
        for conn in self.conns.values_mut().filter(|conn| conn.link == link) {
            conn.to.iter_mut().for_each(&set);
        }
    }

    fn darken(&mut self, link: usize, time: Duration) {
        self.dark[link] = self.dark[link].max(self.now + time);
        self.due.insert((self.dark[link], Due::Light(link)));
    }

    /// What waited is sent again when the kernel's timer runs out.
    fn light(&mut self, link: usize) {
        if self.dark[link] > self.now {
            return;
        }
        for id in self.on_link(link) {
            let after = Duration::from_millis(self.rng.below(1_500));
            for end in [CLIENT, SERVER] {
                self.due.insert((self.now + after, Due::Arrive(id, end)));
            }
        }
    }

    fn is_dark(&self, link: usize) -> bool {
        self.dark[link] > self.now
    }

    // ---- connections of the kernel's ----

    fn say(&mut self, id: u64, end: usize, packet: Packet) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let plan = &self.links[conn.link];
        let at = conn.say(end, packet, plan, self.now);
        self.due.insert((at, Due::Arrive(id, 1 - end)));
    }

    /// An end closes the connection; the other is told, if anything comes through.
    fn close(&mut self, id: u64, end: usize) {
        if self.conns.get(&id).is_some_and(|conn| conn.open[end]) {
            self.say(id, end, Packet::Reset);
        }
        self.lose(id, end, false);
    }

    /// An end has said all on the connection, and waits for the other to do so.
    fn shut_down(&mut self, id: u64, end: usize) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if std::mem::replace(&mut conn.is_shut[end], true) {
            return;
        }
        let was_heard = conn.heard_end[end];
        self.say(id, end, Packet::End);
        match was_heard {
            true => self.lose(id, end, true),
            false => _ = self.due.insert((self.now + CLOSE_TIMEOUT, Due::Overdue(id, end))),
        }
    }

    /// The other end has said all. One that has not, and is not over, closes.
    fn ended(&mut self, id: u64, end: usize) {
        let is_over = self.node(end).is_some_and(|node| node.life.is_over());
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.heard_end[end] = true;
        match (conn.is_shut[end], is_over) {
            (true, _) => self.lose(id, end, true),
            (false, true) => {}
            (false, false) => self.close(id, end),
        }
    }

    /// An end does not have the connection any more, whoever knows; `answered` if both have said all.
    fn lose(&mut self, id: u64, end: usize, answered: bool) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if !std::mem::replace(&mut conn.open[end], false) {
            return;
        }
        self.forget(id, end, answered);
        self.reap(id);
    }

    /// Whoever has a subflow or an attempt on the connection at that end loses it.
    fn forget(&mut self, id: u64, end: usize, answered: bool) {
        let now = self.now;
        if let Some(node) = self.node(end) {
            let found = node.subs.iter().find(|(_, sub)| sub.conn == id).map(|(&sub, _)| sub);
            if let Some(subflow) = found {
                node.detach(subflow, answered, now);
                if let Some(client) = self.client.as_mut().filter(|_| end == CLIENT) {
                    client.manager.handle_down(subflow, now);
                }
            }
        }
        if end == CLIENT {
            self.forget_attempt(id);
        }
    }

    fn forget_attempt(&mut self, conn: u64) {
        let now = self.now;
        let Some(client) = &mut self.client else { return };
        let found = client.attempts.iter().find(|(_, attempt)| attempt.conn == conn);
        if let Some(attempt) = found.map(|(&attempt, _)| attempt) {
            client.attempts.remove(&attempt);
            client.manager.handle_failed(attempt, Failure::Temporary, now);
        }
    }

    fn arrive(&mut self, id: u64, end: usize) {
        while let Some(conn) =
            self.conns.get_mut(&id).filter(|conn| self.dark[conn.link] <= self.now)
        {
            let Some(packet) = conn.arrive(end, self.now) else {
                let next = conn.to[end].queue.front().map(|(at, _)| *at);
                self.due.extend(next.map(|at| (at, Due::Arrive(id, end))));
                break;
            };
            if conn.to[end].swallows {
                self.note_room(id, 1 - end);
                continue;
            }
            let corrupt =
                matches!(packet, Packet::Records(_)) && std::mem::take(&mut conn.to[end].corrupt);
            // There is room in the socket again.
            self.note_room(id, 1 - end);
            if corrupt {
                self.close(id, end);
            } else if self.conns.get(&id).is_some_and(|conn| conn.open[end]) {
                self.take(id, end, packet);
            } else if !matches!(packet, Packet::Reset) {
                // The kernel knows no such connection.
                self.say(id, end, Packet::Reset);
            }
        }
        self.reap(id);
    }

    /// Forgets a connection that neither end has and on which nothing is on its way.
    fn reap(&mut self, id: u64) {
        let is_over = |conn: &Conn| {
            conn.open == [false; 2] && conn.to.iter().all(|pipe| pipe.queue.is_empty())
        };
        if self.conns.get(&id).is_some_and(is_over) {
            self.conns.remove(&id);
        }
    }

    fn note_room(&mut self, conn: u64, end: usize) {
        if let Some(node) = self.node(end) {
            let found = node.subs.iter().find(|(_, sub)| sub.conn == conn).map(|(&id, _)| id);
            node.ready.extend(found);
        }
    }

    fn take(&mut self, id: u64, end: usize, packet: Packet) {
        let now = self.now;
        match packet {
            Packet::Secure => self.say(id, SERVER, Packet::Secured),
            Packet::Hello(subflow) => self.greeted(id, subflow, true),
            Packet::Join(subflow) => self.greeted(id, subflow, false),
            Packet::Records(records) => {
                let Some(node) = self.node(end) else { return };
                let found = node.subs.iter().find(|(_, sub)| sub.conn == id).map(|(&id, _)| id);
                if let Some(subflow) = found {
                    node.take(subflow, &records, now);
                }
            }
            Packet::End => self.ended(id, end),
            Packet::Reset => self.lose(id, end, false),
            Packet::Secured | Packet::Welcome | Packet::Refused => self.answered(id, &packet),
        }
    }

    // ---- the server's door ----

    fn greeted(&mut self, conn: u64, subflow: SubflowId, is_hello: bool) {
        let (now, plan) = (self.now, self.plan);
        let Some(path) = self.conns.get(&conn).map(|conn| PathId(conn.link as u64)) else { return };
        if is_hello && self.server.is_none() && self.serves {
            let mut server = Node::new(plan, SERVER, now);
            server.life.accepted(now);
            self.server = Some(server);
        }
        let Some(server) = self.server.as_mut().filter(|server| server.life.takes_subflow()) else {
            self.say(conn, SERVER, Packet::Refused);
            return self.close(conn, SERVER);
        };
        // The client has replaced an older one.
        let older = server.subs.values().filter(|sub| sub.path == path).map(|sub| sub.conn);
        let older: Vec<u64> = older.collect();
        server.attach(subflow, path, conn, now);
        older.into_iter().for_each(|older| self.close(older, SERVER));
        self.say(conn, SERVER, Packet::Welcome);
    }

    // ---- the client's path manager ----

    fn connected(&mut self, attempt: AttemptId) {
        let now = self.now;
        let Some(client) = &mut self.client else { return };
        let Some(found) = client.attempts.get(&attempt) else { return };
        let link = found.path.0 as usize;
        // A SYN that the dark swallows is not sent again before the dial is given up.
        if self.dark[link] <= now {
            client.manager.handle_connected(attempt, 2 * self.links[link].delay, now);
        }
    }

    /// The server has answered a step of an attempt.
    fn answered(&mut self, conn: u64, packet: &Packet) {
        let now = self.now;
        let Some(client) = &mut self.client else { return };
        let found = client.attempts.iter().find(|(_, attempt)| attempt.conn == conn);
        let Some((&id, &attempt)) = found else { return };
        match packet {
            Packet::Secured => client.manager.handle_secured(id, now),
            Packet::Welcome => {
                client.attempts.remove(&id);
                self.was_opened = true;
                client.node.life.accepted(now);
                if let Some(subflow) = attempt.subflow
                    && !client.node.subs.contains_key(&subflow)
                {
                    if !client.node.life.takes_subflow() {
                        client.manager.handle_failed(id, Failure::Temporary, now);
                        return self.close(conn, CLIENT);
                    }
                    client.node.attach(subflow, attempt.path, conn, now);
                }
                client.manager.handle_up(id, now);
            }
            _ => {
                client.attempts.remove(&id);
                if let Some(subflow) = attempt.subflow {
                    client.node.detach(subflow, false, now);
                }
                client.manager.handle_failed(id, Failure::Permanent, now);
                // A server that does not know the connection any more will not know it later.
                if client.node.life.was_open() && client.node.subs.is_empty() {
                    let (node, reason) = (&mut client.node, "the server has forgotten it");
                    node.life.forgotten();
                    node.life.fail(RESET_ABANDONED, reason, &mut node.session, now);
                }
                self.close(conn, CLIENT);
            }
        }
    }

    fn act(&mut self, action: Action) {
        let now = self.now;
        let Some(client) = &mut self.client else { return };
        match action {
            Action::Dial { attempt, path, .. } => {
                let (conn, link) = (self.next_conn, path.0 as usize);
                self.next_conn += 1;
                client.attempts.insert(attempt, Attempt { conn, path, subflow: None });
                self.conns.insert(conn, Conn::new(link));
                let rtt = 2 * self.links[link].delay;
                if !self.is_dark(link) {
                    self.due.insert((now + rtt, Due::Connected(attempt)));
                }
            }
            Action::Secure(attempt) => {
                let conn = client.attempts.get(&attempt).map(|attempt| attempt.conn);
                conn.into_iter().for_each(|conn| self.say(conn, CLIENT, Packet::Secure));
            }
            Action::Hello(attempt, subflow) => {
                let Some(found) = client.attempts.get_mut(&attempt) else { return };
                found.subflow = Some(subflow);
                let Attempt { conn, path, .. } = *found;
                client.has_begun = true;
                client.node.attach(subflow, path, conn, now);
                self.say(conn, CLIENT, Packet::Hello(subflow));
            }
            Action::Join(attempt, subflow) => {
                let Some(found) = client.attempts.get_mut(&attempt) else { return };
                found.subflow = Some(subflow);
                let conn = found.conn;
                self.say(conn, CLIENT, Packet::Join(subflow));
            }
            Action::Abandon(attempt) | Action::TimeOut(attempt, _) => {
                let Some(attempt) = client.attempts.remove(&attempt) else { return };
                self.close(attempt.conn, CLIENT);
            }
            Action::Look(subflow) => self.look(subflow),
            Action::Rest(subflow) => {
                let sub = client.node.subs.get_mut(&subflow);
                sub.into_iter().for_each(|sub| sub.rests = true);
                self.look(subflow);
            }
            Action::Probe(subflow) => client.node.session.probe(subflow, now),
            Action::Replace(subflow) => {
                let conn = client.node.subs.get(&subflow).map(|sub| sub.conn);
                conn.into_iter().for_each(|conn| self.close(conn, CLIENT));
            }
            Action::GiveUp => {
                client.gave_up = true;
                if client.has_begun {
                    let node = &mut client.node;
                    node.life.fail(RESET_ABANDONED, "gave up", &mut node.session, now);
                }
            }
            Action::Carried(path) => {
                let node = &client.node;
                let of_path = node.subs.values().filter(|sub| sub.path == path).count();
                let stats = node.session.stats();
                let stats = stats.paths.get(&path).filter(|_| of_path > 0);
                let carried = stats.map(|stats| Carried {
                    outstanding: stats.subflow.as_ref().map_or(0, |subflow| subflow.outstanding),
                    received: stats.received,
                    is_spare: node.subs.len() > of_path,
                });
                client.manager.handle_carried(path, carried, now);
            }
            Action::ClosePath(path) => {
                let subs = client.node.subs.values().filter(|sub| sub.path == path);
                let conns: Vec<u64> = subs.map(|sub| sub.conn).collect();
                conns.into_iter().for_each(|conn| self.close(conn, CLIENT));
            }
            Action::Stalled(..) => {}
        }
    }

    fn look(&mut self, subflow: SubflowId) {
        let Some(client) = &mut self.client else { return };
        let look = client.node.subs.get(&subflow).and_then(|sub| {
            let conn = self.conns.get(&sub.conn)?;
            let info = conn.info(CLIENT, &self.links[conn.link]);
            Some(Look {
                acked: conn.to[SERVER].acked,
                unacked: conn.unacked(CLIENT),
                unsent: 0,
                srtt: info.srtt,
                rttvar: info.rttvar,
                silent_since: sub.silent_since,
                unanswered_since: client.node.session.unanswered_since(subflow),
                received: client.node.session.received_on(subflow),
            })
        });
        client.manager.handle_look(subflow, look, self.now);
    }

    // ---- everything moves ----

    /// Ends, sockets and path manager, until nothing moves at this instant.
    fn settle(&mut self) -> Result<(), Wrong> {
        for turn in 0.. {
            if turn > 20_000 {
                let text = format!("the world spins at {}: {}", self.now, self.report());
                return Err(Wrong::Stuck(text));
            }
            let mut moved = false;
            for end in [CLIENT, SERVER] {
                moved |= self.move_end(end)?;
            }
            moved |= self.manage();
            if !moved {
                return Ok(());
            }
        }
        Ok(())
    }

    fn manage(&mut self) -> bool {
        let now = self.now;
        let Some(client) = &mut self.client else { return false };
        let wanted = !client.has_begun || client.node.life.wants_subflow();
        client.manager.set_wanted(wanted && !client.gave_up, now);
        let action = client.manager.poll_action();
        action.into_iter().for_each(|action| self.act(action));
        action.is_some()
    }

    fn move_end(&mut self, end: usize) -> Result<bool, Wrong> {
        let now = self.now;
        let Some(node) = self.node(end) else { return Ok(false) };
        let was_over = node.life.is_over();
        let judged = node.turn(now)?;
        let has_ended = !was_over && node.life.is_over();
        let ready: Vec<SubflowId> = node.ready.iter().copied().collect();
        if let Some(client) = self.client.as_mut().filter(|_| end == CLIENT) {
            judged.into_iter().for_each(|subflow| client.manager.handle_news(subflow));
        }
        let mut moved = has_ended;
        if has_ended && self.plan.cut_at_ending == Some(end) {
            (0..self.links.len()).for_each(|link| self.cut(link));
        }
        for subflow in ready {
            moved |= self.transmit(end, subflow);
        }
        Ok(moved)
    }

    /// Writes to a subflow's socket. Returns whether there was something.
    fn transmit(&mut self, end: usize, subflow: SubflowId) -> bool {
        let now = self.now;
        let Some(id) = self.node(end).and_then(|node| node.subs.get(&subflow)).map(|s| s.conn)
        else {
            return false;
        };
        let Some(conn) = self.conns.get(&id) else { return false };
        let link = &self.links[conn.link];
        let (room, info) = (conn.room(end, link), conn.info(end, link));
        let Some(node) = self.node(end) else { return false };
        node.session.handle_path_info(subflow, info);
        // A socket that is full takes nothing, not even control records.
        let records = if room > 0 { node.transmit(subflow, room, now) } else { Vec::new() };
        if !records.is_empty() {
            let rests = node.subs.get_mut(&subflow).is_some_and(|s| std::mem::take(&mut s.rests));
            if let Some(client) = self.client.as_mut().filter(|_| rests && end == CLIENT) {
                client.manager.handle_news(subflow);
            }
            self.say(id, end, Packet::Records(records));
            return true;
        }
        node.ready.remove(&subflow);
        if room > 0 && node.life.is_over() {
            self.shut_down(id, end);
        }
        false
    }

    // ---- how it ended ----

    fn report(&self) -> String {
        let node = |node: &Node| {
            let stats = node.session.stats();
            format!(
                "end {}: {:?}, {} subflows, read {}, acknowledged {}, held {}, {:?}",
                node.which,
                node.life.phase(),
                node.subs.len(),
                node.read,
                stats.acknowledged,
                node.session.send_held(),
                node.ending
            )
        };
        let client = self
            .client
            .as_ref()
            .map(|client| format!("{}; {} attempts", node(&client.node), client.attempts.len()));
        format!("{client:?} {:?}; {} sockets", self.server.as_ref().map(node), self.conns.len())
    }

    /// Neither memory nor the number of sockets grows.
    fn check_bounds(&self) -> Result<(), Wrong> {
        let client = self.client.as_ref().map(|client| &client.node);
        client.into_iter().chain(&self.server).try_for_each(Node::check_memory)?;
        let most = MOST_CONNS * self.links.len();
        let subflows = self.server.as_ref().map_or(0, |server| server.subs.len());
        let sockets = self.conns.values().filter(|conn| conn.open[CLIENT]).count();
        let attempts = self.client.as_ref().map_or(0, |client| client.attempts.len());
        if subflows.max(sockets).max(attempts) <= most {
            return Ok(());
        }
        let text = format!("{subflows} subflows at {}: {}", self.now, self.report());
        Err(Wrong::Grows(text))
    }

    fn verdict(&mut self) -> Result<Outcome, Wrong> {
        // What has come may be read when the connection is over.
        for end in [CLIENT, SERVER] {
            let now = self.now;
            if let Some(node) = self.node(end) {
                node.read_the_rest();
                node.turn(now)?;
            }
        }
        self.check_bounds()?;
        if self.plan.is_garbled() {
            return Ok(Outcome::Garbled);
        }
        let client = self.client.as_ref().map(|client| &client.node);
        let nodes = [client, self.server.as_ref()];
        for (end, node) in nodes.into_iter().enumerate() {
            let Some(node) = node else { continue };
            let peer = nodes[1 - end];
            let peer_has = peer.map_or(self.read[1 - end], Node::in_order);
            if let Some((delivered, received)) = node.told()
                && (received != node.in_order() || (peer.is_some() && delivered > peer_has))
            {
                return Err(Wrong::Untrue(self.report()));
            }
            let closed = node.ending == Some(Ending::Closed);
            let all_there = peer.is_none_or(Node::read_to_end) && node.read_to_end();
            let left = self.plan.faults.iter().any(|(_, fault)| matches!(fault, Fault::Drop(_)));
            if closed && !all_there && !left {
                return Err(Wrong::Bytes(format!("closed without all: {}", self.report())));
            }
        }
        let closed = |node: Option<&Node>| node.is_some_and(|n| n.ending == Some(Ending::Closed));
        let ends = nodes.map(closed);
        let outcome = match ends {
            [true, true] => Outcome::Closed,
            [false, false] if !self.was_opened => Outcome::Unopened,
            [false, false] => Outcome::Failed,
            _ => Outcome::Half,
        };
        let survived = matches!(outcome, Outcome::Closed | Outcome::Unopened);
        if !survived && self.plan.is_survivable() {
            return Err(Wrong::ForNothing(self.report()));
        }
        Ok(outcome)
    }
}
