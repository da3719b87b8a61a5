//! The paths of a simulated connection: what the core's [`PathManager`] wants is done with TCP
//! endpoints, as the daemons do it with sockets.
//!
//! Schedulers of kernels have it open the connection only: kernel MPTCP does not dial a stalled path
//! anew.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use weftline_core::Instant;
use weftline_core::path::{PathId, SubflowId};
use weftline_core::path_manager::{
    Action, ConnectingId, DIAL_TIMEOUT, Failure, HANDSHAKE_TIMEOUT, Look, PathManager, PathPlan,
};

use super::{ByteQueue, Multi, Options, Subflow};
use crate::build::Opener;
use crate::flow::ends::{CLIENT, SERVER, ZEROS};
use crate::net::Net;

/// Bytes of the record that opens a subflow, and of its answer: a hello or a join with its token.
const GREETING: usize = 64;
/// Kernels wait for TCP's own timers.
const KERNELS_PATIENCE: Duration = Duration::from_secs(30);

/// Keeps the client's paths up.
#[derive(Debug)]
pub(super) struct Paths {
    manager: PathManager,
    /// By path.
    openers: Vec<Opener>,
    /// The number of each path in the run.
    ids: Vec<PathId>,
    /// Whether it goes on when the connection is open.
    redials: bool,
}

impl Paths {
    pub(super) fn new(plans: Vec<PathPlan>, openers: Vec<Opener>, redials: bool) -> Self {
        let ids = plans.iter().map(|plan| plan.id).collect();
        let (dial, handshake) = match redials {
            true => (Some(DIAL_TIMEOUT), HANDSHAKE_TIMEOUT),
            false => (None, KERNELS_PATIENCE),
        };
        let manager = PathManager::new(plans, handshake, dial, Instant::ZERO);
        Self { manager, openers, ids, redials }
    }

    /// When something is due on them.
    pub(super) fn next(&self) -> Option<Instant> {
        self.manager.poll_timeout()
    }

    /// Something has happened to a subflow.
    pub(super) fn note_news(&mut self, id: SubflowId) {
        self.manager.handle_news(id);
    }
}

impl Multi {
    /// Does what is due on the paths.
    pub(super) fn expire_paths(&mut self, net: &mut Net) {
        let stats = self.sessions[CLIENT].stats();
        let now = now(net);
        self.paths.manager.handle_timeout(stats.acknowledged + stats.delivered, now);
        self.act(net);
    }

    /// Carries out what the path manager wants.
    pub(super) fn act(&mut self, net: &mut Net) {
        let now = now(net);
        while let Some(action) = self.paths.manager.poll_action() {
            match action {
                Action::Dial { connecting, path, .. } => self.dial(connecting, path, net),
                // In plaintext there is nothing to do.
                Action::Secure(connecting) => self.paths.manager.handle_secured(connecting, now),
                Action::Hello(connecting, id) | Action::Join(connecting, id) => {
                    if let Some(index) = self.find_connecting(connecting) {
                        self.subflows[index].id = Some(id);
                        write_greeting(&mut self.subflows[index], CLIENT, net);
                    }
                }
                Action::Abandon(connecting) | Action::TimeOut(connecting, _) => {
                    if let Some(index) = self.find_connecting(connecting) {
                        self.end(index, CLIENT, net);
                    }
                }
                Action::Look(id) => self.look(id, net),
                Action::Rest(id) => {
                    if let Some(index) = self.find(id) {
                        self.subflows[index].rests = true;
                    }
                    self.look(id, net);
                }
                Action::Probe(id) => self.sessions[CLIENT].probe(id, now),
                Action::Replace(id) => {
                    if let Some(index) = self.find(id) {
                        self.end(index, CLIENT, net);
                    }
                }
                // A simulated application asks once more, as often as it takes.
                Action::GiveUp | Action::PotentiallyFailed(..) | Action::Recovered(_) => {}
                // The paths of a run stay.
                Action::Carried(_) | Action::ClosePath(_) => {}
            }
        }
    }

    /// Whether every path carries data that can.
    fn has_all(&self, net: &Net) -> bool {
        let mut paths = self.paths.openers.iter().enumerate();
        paths.all(|(k, opener)| self.is_path_up(k) || net.is_unplugged(opener.links))
    }

    fn find_connecting(&self, connecting: ConnectingId) -> Option<usize> {
        self.subflows.iter().position(|subflow| subflow.connecting == Some(connecting))
    }

    fn find(&self, id: SubflowId) -> Option<usize> {
        self.subflows.iter().position(|subflow| subflow.id == Some(id))
    }

    /// The client's interface on the links of a path has gone, or is there again with a new address.
    pub(in crate::flow) fn replug(&mut self, links: u32, is_in: bool, net: &mut Net) {
        let is_on = |one: &Subflow, paths: &Paths| paths.openers[one.k].links == links;
        if is_in && !self.paths.redials {
            self.paths.manager.set_wanted(true, now(net));
        }
        if !is_in {
            // A kernel also tells its peer which address is gone (RFC 8684, 3.4.2), if it can.
            let others = || self.subflows.iter().filter(|one| !is_on(one, &self.paths));
            let is_told = !self.paths.redials && others().any(|one| one.up == [true; 2]);
            for index in 0..self.subflows.len() {
                if is_on(&self.subflows[index], &self.paths) {
                    self.end(index, CLIENT, net);
                    if is_told {
                        self.end(index, SERVER, net);
                    }
                }
            }
        }
        self.paths.manager.handle_links_changed();
        self.expire_paths(net);
    }

    fn dial(&mut self, connecting: ConnectingId, path: PathId, net: &mut Net) {
        let Some(k) = self.paths.ids.iter().position(|&id| id == path) else { return };
        if net.is_unplugged(self.paths.openers[k].links) {
            return self.paths.manager.handle_failed(connecting, Failure::Temporary, now(net));
        }
        let index = u32::try_from(self.subflows.len()).expect("a run has few connections");
        let ends = self.paths.openers[k].open(net, index);
        self.subflows.push(Subflow::new(connecting, path, k, ends));
        net.endpoint_mut(ends[CLIENT]).connect();
        net.transmit(ends[CLIENT]);
    }

    /// What the client's kernel and session know of a subflow.
    fn look(&mut self, id: SubflowId, net: &Net) {
        let look = self.find(id).map(|index| {
            let subflow = &self.subflows[index];
            let endpoint = net.endpoint(subflow.ends[CLIENT]);
            let info = endpoint.info(self.mss);
            let (acked, unsent) = (endpoint.acknowledged(), endpoint.unsent());
            Look {
                acked,
                unacked: endpoint.written().saturating_sub(acked + unsent),
                unsent,
                srtt: info.srtt,
                rttvar: info.rttvar,
                stalled_since: subflow.stalled_since,
                // A kernel asks nothing: here a question would go with a segment that may be lost.
                unanswered_since: self.sessions[CLIENT]
                    .unanswered_since(id)
                    .filter(|_| self.paths.redials),
                received: self.sessions[CLIENT].received_on(id),
            }
        });
        self.paths.manager.handle_look(id, look, now(net));
    }

    /// What a change at one end of a subflow means for its path.
    pub(super) fn note_endpoint(&mut self, index: usize, end: usize, net: &mut Net) {
        let subflow = &self.subflows[index];
        let endpoint = net.endpoint(subflow.ends[end]);
        if endpoint.is_closed() {
            self.end(index, end, net);
        } else if end == CLIENT
            && endpoint.is_established()
            && let Some(connecting) = subflow.connecting
            && !subflow.is_connected
        {
            let rtt = Duration::from_nanos(endpoint.srtt_ns());
            self.subflows[index].is_connected = true;
            self.paths.manager.handle_connected(connecting, rtt, now(net));
        }
        self.act(net);
    }

    /// Takes the greeting that opens a subflow at one end. Returns whether it is up there.
    pub(super) fn take_greeting(&mut self, index: usize, end: usize, net: &mut Net) -> bool {
        let subflow = &mut self.subflows[index];
        if subflow.up[end] {
            return true;
        }
        let Some(id) = subflow.id.filter(|_| subflow.inputs[end].len() >= GREETING) else {
            return false;
        };
        let _ = subflow.inputs[end].split_to(GREETING);
        (subflow.up[end], subflow.woken[end]) = (true, true);
        let path = subflow.path;
        if end == SERVER {
            write_greeting(subflow, SERVER, net);
            // The client has replaced an older one.
            let is_older = |other: &Subflow| other.path == path && other.up[SERVER];
            let older = (0..index).filter(|&other| is_older(&self.subflows[other]));
            for other in older.collect::<Vec<_>>() {
                self.end(other, SERVER, net);
            }
        }
        self.sessions[end]
            .subflow_up(id, path, now(net))
            .expect("the path manager gives each subflow a number of its own");
        if end == CLIENT
            && let Some(connecting) = self.subflows[index].connecting.take()
        {
            self.paths.manager.handle_up(connecting, now(net));
            if !self.paths.redials && self.has_all(net) {
                self.paths.manager.set_wanted(false, now(net));
            }
            self.act(net);
        }
        true
    }

    /// One end of a subflow is gone.
    fn end(&mut self, index: usize, end: usize, net: &mut Net) {
        let subflow = &mut self.subflows[index];
        let (ends, now) = (subflow.ends, now(net));
        if !net.endpoint(ends[end]).is_closed() {
            net.endpoint_mut(ends[end]).abort();
        }
        net.transmit(ends[end]);
        let was_up = std::mem::take(&mut subflow.up[end]);
        subflow.inputs[end] = BytesMut::new();
        if let Some(id) = subflow.id.filter(|_| was_up) {
            self.sessions[end].subflow_down(id, now);
        }
        if end == CLIENT {
            if let Some(connecting) = subflow.connecting.take() {
                self.paths.manager.handle_failed(connecting, Failure::Temporary, now);
            } else if let Some(id) = subflow.id.filter(|_| was_up) {
                self.paths.manager.handle_down(id, now);
            }
        }
    }
}

impl Subflow {
    fn new(connecting: ConnectingId, path: PathId, k: usize, ends: [u32; 2]) -> Self {
        Self {
            path,
            k,
            id: None,
            connecting: Some(connecting),
            is_connected: false,
            ends,
            queues: [ByteQueue::default(), ByteQueue::default()],
            inputs: [BytesMut::new(), BytesMut::new()],
            options: Options::default(),
            up: [false; 2],
            woken: [true; 2],
            stale: [true; 2],
            room: [0; 2],
            starves: false,
            starved_ns: 0,
            rests: false,
            stalled_since: None,
        }
    }
}

fn now(net: &Net) -> Instant {
    Instant::from_nanos(net.now_ns())
}

fn write_greeting(subflow: &mut Subflow, end: usize, net: &mut Net) {
    subflow.queues[end].write(&mut VecDeque::from([Bytes::from_static(&ZEROS[..GREETING])]));
    net.endpoint_mut(subflow.ends[end]).write(GREETING as u64);
    net.transmit(subflow.ends[end]);
}
