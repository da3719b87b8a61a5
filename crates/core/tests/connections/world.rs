//! Both ends, the links between them, and time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use weftline_core::life::{Ending, Phase};
use weftline_core::path_manager::{
    Action, Carried, ConnectingId, DIAL_TIMEOUT, Failure, HANDSHAKE_TIMEOUT, Look, PathManager,
    PathPlan, ProbeSeat,
};
use weftline_core::rng::Rng;
use weftline_core::session::RESET_ABANDONED;
use weftline_core::{Instant, PathId, SubflowId};

use super::link::{CLIENT, Conn, Packet, Pipe, SERVER};
use super::node::Node;
use super::plan::{Fault, LinkPlan, Plan};

mod ending;
mod faults;
mod paths;
mod sockets;

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
    /// Something arrived that was not sent, so that no byte is promised.
    Garbled,
    /// The same, and both ends went on to believe that the other is to say something.
    Endless,
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
    Connected(ConnectingId),
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
    /// Whether the server's process knows the connection, or would accept it.
    serves: bool,
    was_opened: bool,
    read: [u64; 2],
}

struct Client {
    node: Node,
    manager: PathManager,
    connecting: BTreeMap<ConnectingId, Connecting>,
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
struct Connecting {
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
            connecting: BTreeMap::new(),
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
                    return Ok(Outcome::Endless);
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
            Due::Connected(connecting) => self.connected(connecting),
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
                stalled_since: sub.stalled_since,
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
        let changed = node.turn(now)?;
        let has_ended = !was_over && node.life.is_over();
        let ready: Vec<SubflowId> = node.ready.iter().copied().collect();
        if let Some(client) = self.client.as_mut().filter(|_| end == CLIENT) {
            changed.into_iter().for_each(|subflow| client.manager.handle_news(subflow));
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
        node.session.handle_room(subflow, room);
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
}
