//! The network of a run: wires and where they lead, TCP endpoints at their ends, and the endpoints'
//! timers.

use std::collections::BTreeMap;

use weftline_congestion::{Coupling, Member};

use crate::coded::CodedNetwork;
use crate::queue::{Event, Queue};
use crate::tcp::{Endpoint, Segment};
use crate::wire::{Cargo, Wire};

/// Segments that come within this time are taken together: the interrupts that a network card holds
/// back, or what a program takes to wake up.
const TOGETHER_NS: u64 = 50_000;

/// Which of the segments that come to an endpoint are taken together.
#[derive(Clone, Copy, Debug, Default)]
struct Together {
    /// When the first of those came that have not been looked at, if there are any.
    since: Option<u64>,
    /// When the last one came.
    last: u64,
}

/// Where an endpoint belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The flow.
    pub(crate) flow: u32,
    /// The subflow of the flow.
    pub(crate) subflow: u32,
    /// Whether it is the server's end, which sends the data.
    pub(crate) server: bool,
    /// The path, by its number in the plan.
    pub(crate) path: u32,
    /// The path whose links it uses.
    pub(crate) links: u32,
    /// The wire that its segments go out on.
    pub(crate) wire: u32,
}

/// A client's interface on a path.
#[derive(Clone, Copy, Debug, Default)]
struct Interface {
    is_out: bool,
    /// Since when it has its present address.
    addressed_ns: u64,
}

/// Where what comes off a wire goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// To the endpoint it is for.
    Deliver,
    /// Onto another wire.
    Wire(u32),
    /// Onto the wire of its path, or of the path that the gateway chooses.
    Gateway,
}

/// How a gateway spreads the packets of plain TCP over the paths.
#[derive(Debug, Default)]
pub(crate) enum Spreading {
    /// It does not: each packet has its path.
    #[default]
    None,
    /// In turns.
    RoundRobin {
        /// The path of the next packet.
        next: usize,
    },
    /// Coded.
    Coded(Box<CodedNetwork>),
}

/// Wires and endpoints.
#[derive(Debug, Default)]
pub(crate) struct Net {
    pub(crate) queue: Queue,
    pub(crate) wires: Vec<Wire>,
    /// Where each wire leads.
    pub(crate) next: Vec<Next>,
    /// The first wire to the client of each path, behind the gateway.
    pub(crate) first_down: Vec<u32>,
    pub(crate) spreading: Spreading,
    endpoints: Vec<Endpoint>,
    places: Vec<Place>,
    /// When each endpoint was made.
    made_ns: Vec<u64>,
    /// By path.
    interfaces: Vec<Interface>,
    /// The time of each endpoint's pending timer event.
    armed: Vec<Option<u64>>,
    /// By endpoint.
    together: Vec<Together>,
    /// By endpoint: the data segments that it sent and a wire dropped, by offset, and when.
    lost: Vec<BTreeMap<u64, u64>>,
    /// Endpoints of flows whose controls look at each other, by flow: the server's ends.
    coupled: Vec<Vec<u32>>,
    /// Whether the controls of a flow look at each other.
    coupled_flows: Vec<bool>,
    members: Vec<Member>,
}

impl Net {
    /// A network of so many paths, of which nothing is there yet.
    pub(crate) fn with_paths(paths: usize) -> Self {
        Self { interfaces: vec![Interface::default(); paths], ..Self::default() }
    }

    /// Adds a flow, whose controls look at each other if `coupled`. Flows are numbered from 0.
    pub(crate) fn add_flow(&mut self, coupled: bool) {
        self.coupled.push(Vec::new());
        self.coupled_flows.push(coupled);
    }

    /// Adds a wire and says where it leads.
    pub(crate) fn add_wire(&mut self, wire: Wire, next: Next) {
        self.wires.push(wire);
        self.next.push(next);
    }

    /// Adds an endpoint.
    pub(crate) fn add_endpoint(&mut self, endpoint: Endpoint, place: Place) -> u32 {
        let index = self.next_endpoint();
        let Place { flow, server, .. } = place;
        self.endpoints.push(endpoint);
        self.places.push(place);
        self.made_ns.push(self.now_ns());
        self.armed.push(None);
        self.together.push(Together::default());
        self.lost.push(BTreeMap::new());
        if self.coupled_flows[flow as usize] && server {
            self.coupled[flow as usize].push(index);
        }
        index
    }

    /// The number that the next endpoint will have.
    pub(crate) fn next_endpoint(&self) -> u32 {
        u32::try_from(self.endpoints.len()).expect("a run has few endpoints")
    }

    pub(crate) fn endpoint(&self, index: u32) -> &Endpoint {
        &self.endpoints[index as usize]
    }

    pub(crate) fn endpoint_mut(&mut self, index: u32) -> &mut Endpoint {
        &mut self.endpoints[index as usize]
    }

    pub(crate) fn place(&self, index: u32) -> Place {
        self.places[index as usize]
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.queue.now_ns()
    }

    /// The packet at the head of a wire arrives and goes on. Returns it where it has come to its
    /// endpoint.
    pub(crate) fn arrive(&mut self, wire: u32) -> Option<Cargo> {
        let cargo = self.wires[wire as usize].arrive(&mut self.queue);
        let (path, is_up) = (wire as usize / 2, wire % 2 == 1);
        if let Spreading::Coded(network) = &mut self.spreading
            && is_up
            && path < self.first_down.len()
        {
            network.came_up(path, self.queue.now_ns());
        }
        match self.next[wire as usize] {
            Next::Deliver if self.is_for_nobody(&cargo) => {}
            Next::Deliver => return Some(cargo),
            Next::Wire(next) => drop(self.wires[next as usize].send(cargo, &mut self.queue)),
            Next::Gateway => match cargo {
                Cargo::Tcp(segment) => self.pass_gateway(segment),
                Cargo::Lane(ref datagram) => {
                    let wire = self.first_down[datagram.path as usize] as usize;
                    self.wires[wire].send(cargo, &mut self.queue);
                }
            },
        }
        None
    }

    /// Unplugs the client's interface on a path, or plugs it in with a new address. Returns whether it
    /// is there now.
    pub(crate) fn plug(&mut self, path: u32) -> bool {
        let now_ns = self.now_ns();
        let interface = &mut self.interfaces[path as usize];
        interface.is_out = !interface.is_out;
        interface.addressed_ns = now_ns;
        !interface.is_out
    }

    /// Whether the client has no interface on a path.
    pub(crate) fn is_unplugged(&self, path: u32) -> bool {
        self.interfaces[path as usize].is_out
    }

    /// Whether an endpoint is a client's whose address its interface has not any more.
    fn is_cut_off(&self, index: u32) -> bool {
        let place = self.places[index as usize];
        let interface = self.interfaces[place.links as usize];
        let is_old = self.made_ns[index as usize] < interface.addressed_ns;
        !place.server && (interface.is_out || is_old)
    }

    /// Whether it goes to an address that its end has not any more.
    fn is_for_nobody(&self, cargo: &Cargo) -> bool {
        match cargo {
            Cargo::Tcp(segment) => self.is_cut_off(segment.to),
            Cargo::Lane(datagram) => self.is_unplugged(datagram.path),
        }
    }

    fn pass_gateway(&mut self, segment: Segment) {
        let place = self.places[segment.to as usize];
        let path = match &mut self.spreading {
            Spreading::None => place.links as usize,
            Spreading::RoundRobin { next } => {
                let path = *next;
                *next = (path + 1) % self.first_down.len();
                path
            }
            Spreading::Coded(network) => {
                return network.receive(place.flow, segment, &mut self.queue);
            }
        };
        let wire = self.first_down[path] as usize;
        self.wires[wire].send(Cargo::Tcp(segment), &mut self.queue);
    }

    /// Delivers a segment. Returns whether its endpoint has just been established.
    pub(crate) fn deliver(&mut self, segment: &Segment) -> bool {
        let (index, now_ns) = (segment.to, self.now_ns());
        let me = self.look_around(index);
        let coupling = Coupling { members: &self.members, me };
        self.endpoints[index as usize].handle(segment, now_ns, &coupling)
    }

    /// Whether a segment with payload that has come to endpoint `to` by that wire is taken together with
    /// one that follows closely: interrupts, GRO and reads see both at once. What has to be said at
    /// once does not wait.
    pub(crate) fn is_followed(&mut self, wire: u32, to: u32) -> bool {
        let now_ns = self.now_ns();
        let endpoint = &mut self.endpoints[to as usize];
        let together = &mut self.together[to as usize];
        let until = together.since.unwrap_or(now_ns) + TOGETHER_NS;
        let next = self.wires[wire as usize].next();
        let is_more =
            |next: &Cargo| matches!(next, Cargo::Tcp(next) if next.to == to && next.len > 0);
        let next = next.filter(|(_, next)| is_more(next)).map(|(at, _)| at);
        let follows = next.is_some_and(|at| at <= until) && !endpoint.is_urgent();
        let is_last = next.is_none_or(|at| at > now_ns + TOGETHER_NS);
        if is_last && now_ns <= together.last + TOGETHER_NS {
            endpoint.end_run();
        }
        *together =
            Together { since: follows.then(|| together.since.unwrap_or(now_ns)), last: now_ns };
        follows
    }

    /// An endpoint's timer event has come. Returns whether anything was due.
    pub(crate) fn expire(&mut self, index: u32) -> bool {
        let now_ns = self.now_ns();
        if self.armed[index as usize] != Some(now_ns) {
            // A later deadline was replaced by an earlier one, which has been served.
            return false;
        }
        self.armed[index as usize] = None;
        let due = self.endpoint(index).deadline_ns().is_some_and(|at| at <= now_ns);
        if due {
            let me = self.look_around(index);
            let coupling = Coupling { members: &self.members, me };
            self.endpoints[index as usize].handle_timeout(now_ns, &coupling);
        }
        due
    }

    /// Gathers what the endpoint's control sees of its connection; gives its own place in it.
    /// Controls that look at no other see an empty connection.
    fn look_around(&mut self, index: u32) -> usize {
        let place = self.places[index as usize];
        let flow = &self.coupled[place.flow as usize];
        self.members.clear();
        let mut me = 0;
        if place.server && !flow.is_empty() {
            for &other in flow {
                let endpoint = &self.endpoints[other as usize];
                if other == index {
                    me = self.members.len();
                } else if !endpoint.is_established() {
                    continue;
                }
                self.members.push(endpoint.member());
            }
        } else if self.coupled_flows[place.flow as usize] {
            // The client's end of a coupled flow: it sends a little, on its own.
            self.members.push(self.endpoints[index as usize].member());
        }
        me
    }

    /// Sends what the endpoint has to send, and arms its timer.
    pub(crate) fn transmit(&mut self, index: u32) {
        let now_ns = self.now_ns();
        let place = self.places[index as usize];
        let wire = match &mut self.spreading {
            Spreading::Coded(network) if !place.server => {
                2 * network.uplink(place.links as usize, now_ns) + 1
            }
            _ => place.wire as usize,
        };
        let is_cut_off = self.is_cut_off(index);
        while let Some(segment) = self.endpoints[index as usize].poll_transmit(now_ns) {
            if is_cut_off {
                continue;
            }
            let sent = self.wires[wire].send(Cargo::Tcp(segment), &mut self.queue);
            if let Some(Cargo::Tcp(lost)) = sent
                && lost.len > 0
            {
                self.lost[index as usize].insert(lost.seq, now_ns);
            }
        }
        self.arm(index);
    }

    /// When the first of the endpoint's segments was lost that its peer, who has all below `in_order`,
    /// still lacks.
    pub(crate) fn first_lost(&mut self, index: u32, in_order: u64) -> Option<u64> {
        let lost = &mut self.lost[index as usize];
        while let Some(first) = lost.first_entry() {
            if *first.key() >= in_order {
                return Some(*first.get());
            }
            first.remove();
        }
        None
    }

    /// Makes sure that a timer event comes in time; one that comes early is re-armed.
    fn arm(&mut self, index: u32) {
        let Some(deadline) = self.endpoints[index as usize].deadline_ns() else { return };
        let deadline = deadline.max(self.now_ns());
        let armed = &mut self.armed[index as usize];
        if armed.is_none_or(|at| deadline < at) {
            *armed = Some(deadline);
            self.queue.push(deadline, Event::Endpoint(index));
        }
    }

    /// Invariants of the whole network, and the sums of its packets.
    pub(crate) fn check(&self) {
        self.wires.iter().for_each(Wire::check);
        if let Spreading::Coded(network) = &self.spreading {
            network.check();
        }
        self.endpoints.iter().for_each(Endpoint::check);
    }
}
