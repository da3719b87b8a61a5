//! From a plan to a network: wires, where they lead, and the endpoints at their ends.

use weftline_congestion::Config;
use weftline_link::{Link, LinkConfig};

use crate::coded::{CodedNetwork, Way};
use crate::net::{Net, Next, Place, Spreading};
use crate::plan::{ControlPlace, GatewayPlan, OwnControl, Plan, Spread};
use crate::queue::Event;
use crate::tcp::{Endpoint, EndpointConfig, ReceiveBuffer};
use crate::wire::Wire;

/// Bytes of a full packet that are not its payload: IP and TCP headers with timestamps.
const HEADERS: u64 = 52;
/// The first window in segments (RFC 6928).
const INITIAL_CWND: u64 = 10;

/// The payload of a full segment.
pub(crate) const fn mss(plan: &Plan) -> u64 {
    plan.packet_bytes - HEADERS
}

/// The network of a plan, without its endpoints. Wires 2 k and 2 k + 1 are path k's, down and up;
/// then come those of the back end, and those between the gateway and each access point.
pub(crate) fn network(plan: &Plan) -> Net {
    let mut net = Net::with_paths(plan.paths.len());
    let paths = u32::try_from(plan.paths.len()).expect("a run has few paths");
    let before = plan.backend.is_some() || plan.gateway.is_some();
    let (backend_up, first_gateway) = (2 * paths + 1, 2 * paths + 2);
    for (index, path) in (0..).zip(&plan.paths) {
        let up = match (&plan.gateway, before) {
            (Some(_), _) => Next::Wire(first_gateway + 2 * index + 1),
            (None, true) => Next::Wire(backend_up),
            (None, false) => Next::Deliver,
        };
        add_wire(&mut net, plan, &path.down, &format!("{}/down", path.name), Next::Deliver);
        add_wire(&mut net, plan, &path.up, &format!("{}/up", path.name), up);
    }
    net.first_down = (0..paths).map(|index| 2 * index).collect();
    if !before {
        return net;
    }
    // Without a link of its own the gateway stands beside the server.
    let backend = plan.backend.as_ref().or(plan.gateway.as_ref().map(|gateway| &gateway.link));
    let backend = backend.expect("there is one of the two");
    let backend = match plan.backend {
        Some(_) => backend.clone(),
        None => LinkConfig { delay: std::time::Duration::ZERO, ..backend.clone() },
    };
    add_wire(&mut net, plan, &backend, "backend/down", Next::Gateway);
    add_wire(&mut net, plan, &backend, "backend/up", Next::Deliver);
    if let Some(gateway) = &plan.gateway {
        add_gateway(&mut net, plan, gateway, first_gateway);
    }
    net
}

fn add_gateway(net: &mut Net, plan: &Plan, gateway: &GatewayPlan, first: u32) {
    for (index, path) in (0..).zip(&plan.paths) {
        let down = format!("{}/gateway/down", path.name);
        let up = format!("{}/gateway/up", path.name);
        add_wire(net, plan, &gateway.link, &down, Next::Wire(2 * index));
        add_wire(net, plan, &gateway.link, &up, Next::Wire(first - 1));
        net.first_down[index as usize] = first + 2 * index;
    }
    net.spreading = match &gateway.spread {
        Spread::None => Spreading::None,
        Spread::RoundRobin => Spreading::RoundRobin { next: 0 },
        Spread::Coded { cotag, dense } => {
            let ways = plan.paths.iter().map(|path| Way {
                name: &path.name,
                to_access_point: gateway.link.clone(),
                down: &path.down,
                up: &path.up,
            });
            let (ways, flows) = (ways.collect::<Vec<_>>(), plan.flows.len());
            let network = CodedNetwork::new(cotag, *dense, &ways, flows, plan.seed);
            Spreading::Coded(Box::new(network))
        }
    };
}

fn add_wire(net: &mut Net, plan: &Plan, config: &LinkConfig, name: &str, next: Next) {
    let number = u32::try_from(net.wires.len()).expect("a run has few paths");
    let link = Link::new(config.clone(), plan.seed, name);
    net.add_wire(Wire::new(Event::Arrival(number), link), next);
}

/// How the connections of a flow's `k`-th path are made.
pub(crate) fn opener(plan: &Plan, index: u32, k: usize) -> Opener {
    let flow = &plan.flows[index as usize];
    let path = match &plan.gateway {
        Some(gateway) if flow.is_spread => gateway.uplink,
        _ => flow.paths[k],
    };
    let number = |path: usize| u32::try_from(path).expect("a run has few paths");
    let links = number(plan.paths[path].shares.unwrap_or(path));
    let before = plan.backend.is_some() || plan.gateway.is_some();
    let down = if before { 2 * number(plan.paths.len()) } else { 2 * links };
    Opener {
        flow: index,
        path: number(path),
        links,
        wires: [2 * links + 1, down],
        mss: mss(plan),
        host_paces: plan.sender_pacing,
        receive_buffer: plan.receive_buffer,
        control: plan.paths[path].congestion.unwrap_or(flow.congestion),
        own: flow.own_control.clone().map(|own| (own, path)),
        seed: plan.seed,
    }
}

/// What the connections of a flow over one path have in common.
#[derive(Debug)]
pub(crate) struct Opener {
    flow: u32,
    /// The path, by its number in the plan.
    path: u32,
    /// The path whose links they use: another one's where it shares these.
    pub(crate) links: u32,
    /// The wires on which the client's and the server's segments go out.
    wires: [u32; 2],
    mss: u64,
    /// Whether the server's host paces what its control does not.
    host_paces: bool,
    /// The most that a socket's receive buffer grows to, in bytes.
    receive_buffer: u64,
    control: &'static weftline_congestion::Entry,
    /// What makes its controls instead, and for which path of the plan.
    own: Option<(OwnControl, usize)>,
    seed: u64,
}

impl Opener {
    /// Makes the two endpoints of a connection, the flow's subflow `subflow`: the client's and the
    /// server's.
    pub(crate) fn open(&self, net: &mut Net, subflow: u32) -> [u32; 2] {
        let (client, server) = (net.next_endpoint(), net.next_endpoint() + 1);
        for (number, peer, is_server) in [(client, server, false), (server, client, true)] {
            let config = EndpointConfig {
                peer,
                mss: self.mss,
                initial_cwnd: INITIAL_CWND,
                receive_buffer: ReceiveBuffer::new(self.receive_buffer, self.mss),
                host_paces: is_server && self.host_paces,
            };
            // Every control draws from a stream of its own.
            let config_of_control = Config {
                mss: self.mss,
                initial_cwnd: INITIAL_CWND,
                seed: self.seed ^ (u64::from(number) << 32),
                ..Config::default()
            };
            let control = match &self.own {
                Some((own, path)) => {
                    own.make(&config_of_control, ControlPlace { path: *path, is_server })
                }
                None => self.control.make(&config_of_control),
            };
            let wire = self.wires[usize::from(is_server)];
            let (flow, path, links) = (self.flow, self.path, self.links);
            let place = Place { flow, subflow, server: is_server, path, links, wire };
            net.add_endpoint(Endpoint::new(&config, control), place);
        }
        [client, server]
    }
}
