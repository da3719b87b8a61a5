//! What a daemon says of itself: the answer to `status`. Its names are stable (docs/service.md).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weftline::status::ConnectionStatus;
use weftline::{CongestionInUse, MemoryBudget, ProcessStats, Role, process_stats};
use weftline_core::PathId;
use weftline_core::session::PathStats;
use weftline_tunnel::bond::{BondStatus, NamedLane};

use super::node::Node;

/// The version of these names.
pub(crate) const SCHEMA: u32 = 1;

/// A daemon as it is now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) schema: u32,
    /// `serve`, `connect` or `up`; or `cotag` and the kind of node.
    pub(crate) daemon: String,
    pub(crate) version: String,
    pub(crate) pid: u32,
    /// `starting`, `running` or `draining`.
    pub(crate) state: String,
    pub(crate) uptime_s: f64,
    pub(crate) listening: Vec<String>,
    /// Since the daemon began.
    pub(crate) connections_opened: u64,
    pub(crate) connections_failed: u64,
    pub(crate) handshakes_refused: u64,
    /// Now.
    pub(crate) connections_open: u64,
    /// Of these, those kept ready and not used yet.
    pub(crate) connections_ready: u64,
    /// Of these, those that are not among `connections`.
    pub(crate) connections_unlisted: u64,
    pub(crate) memory: Memory,
    /// Those in use first, then by the bytes they have moved.
    pub(crate) connections: Vec<Connection>,
    /// What carries UDP and all else that is no TCP, of `serve --internet` and `up`: one for each client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) bonds: Vec<Bond>,
    /// Of a node of a coded tunnel, once it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Node>,
}

/// The lanes with another machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Bond {
    /// At a server: the client, or nothing for what is of none.
    pub(crate) client: Option<String>,
    pub(crate) lanes: Vec<Lane>,
    /// What was dropped or came twice, by reason; those that have not happened are left out.
    pub(crate) counters: BTreeMap<String, u64>,
}

/// A lane: one link, for datagrams, or TCP over all links.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) role: String,
    /// `udp` or `tcp`.
    #[serde(default)]
    pub(crate) carrier: String,
    /// `new`, `up` or `silent`.
    pub(crate) state: String,
    pub(crate) peer: Option<String>,
    pub(crate) srtt_ms: Option<f64>,
    pub(crate) min_rtt_ms: Option<f64>,
    /// The part of what is sent of late that is lost.
    pub(crate) loss: f64,
    pub(crate) rate_mbps: Option<f64>,
    /// The longest packet that it is known to carry.
    pub(crate) mtu: u64,
    pub(crate) sent_bytes: u64,
    /// Of these, those of urgent packets.
    #[serde(default)]
    pub(crate) urgent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) received_packets: u64,
    /// Of those sent, copies of what went over another lane, and those that went again.
    pub(crate) copied_packets: u64,
    pub(crate) resent_packets: u64,
    pub(crate) lost_packets: u64,
    /// Dropped by its queue.
    pub(crate) dropped_packets: u64,
    /// How often it has fallen silent.
    pub(crate) silences: u64,
    /// What is sent over the link is held back to this for calls, if it is.
    #[serde(default)]
    pub(crate) held_mbps: Option<f64>,
    /// How much longer than the least the last packets were on their way.
    #[serde(default)]
    pub(crate) queue_ms: f64,
    /// How often that limit was lowered, and how often it was given up, as the delay is not ours.
    #[serde(default)]
    pub(crate) held_cuts: u64,
    #[serde(default)]
    pub(crate) held_in_vain: u64,
}

impl From<&BondStatus> for Bond {
    fn from(status: &BondStatus) -> Self {
        let counters = status.counters.iter().map(|one| (one.name.to_owned(), one.value));
        Self {
            client: status.client.clone(),
            lanes: status.lanes.iter().map(Lane::from).collect(),
            counters: counters.collect(),
        }
    }
}

impl From<&NamedLane> for Lane {
    fn from(lane: &NamedLane) -> Self {
        let status = &lane.status;
        let counters = status.counters;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Self {
            name: lane.name.clone(),
            role: status.role.name().to_owned(),
            carrier: status.carrier.name().to_owned(),
            state: status.state.name().to_owned(),
            peer: lane.peer.map(|peer| peer.to_string()),
            srtt_ms: status.srtt.map(ms),
            min_rtt_ms: status.least_rtt.map(ms),
            loss: status.loss,
            rate_mbps: status.rate.map(|rate| rate as f64 * 8.0 / 1e6),
            mtu: status.longest_packet as u64,
            sent_bytes: counters.sent_bytes,
            urgent_bytes: counters.urgent_bytes,
            received_bytes: counters.received_bytes,
            sent_packets: counters.sent_packets,
            received_packets: counters.received_packets,
            copied_packets: counters.copies,
            resent_packets: counters.resent,
            lost_packets: counters.lost_packets,
            dropped_packets: status.dropped + status.overflowed,
            silences: counters.silences,
            held_mbps: status.hold.limit.map(|limit| limit.as_bps() as f64 / 1e6),
            queue_ms: ms(status.hold.queue),
            held_cuts: status.hold.cuts,
            held_in_vain: status.hold.in_vain,
        }
    }
}

/// The process's memory.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) resident_bytes: u64,
    /// Promised to connections, and the most that may be.
    pub(crate) reserved_bytes: u64,
    pub(crate) total_bytes: u64,
}

/// A connection.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Connection {
    pub(crate) number: u64,
    pub(crate) peer: String,
    pub(crate) client: Option<String>,
    /// What it is used for; `None` while it is kept ready.
    pub(crate) label: Option<String>,
    pub(crate) scheduler: String,
    pub(crate) age_s: f64,
    /// Stream bytes acknowledged in order, and received in order.
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) duplicate_bytes: u64,
    /// Promised to it; then held of received bytes, and of bytes to send.
    pub(crate) memory_bytes: u64,
    pub(crate) receive_held_bytes: u64,
    pub(crate) send_held_bytes: u64,
    pub(crate) window_bytes: Option<u64>,
    /// The path that sends forward.
    pub(crate) forward: Option<String>,
    /// Over the last moments, where these were looked at (`weftline status`).
    pub(crate) send_mbps: Option<f64>,
    pub(crate) receive_mbps: Option<f64>,
    pub(crate) paths: Vec<Path>,
}

/// A path of a connection.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Path {
    pub(crate) name: String,
    pub(crate) role: String,
    /// `up`, `standby` (its role keeps what this end sends off it now), `silent` or `down`.
    pub(crate) state: String,
    /// The other end's address on it.
    #[serde(default)]
    pub(crate) peer: Option<String>,
    pub(crate) cap_mbps: Option<f64>,
    pub(crate) srtt_ms: Option<f64>,
    pub(crate) min_rtt_ms: Option<f64>,
    pub(crate) cwnd_bytes: Option<u64>,
    /// The kernel's congestion control of what this end sends, and why it is not bbr if it was to be
    /// the best that may be set.
    #[serde(default)]
    pub(crate) congestion: Option<String>,
    #[serde(default)]
    pub(crate) congestion_fallback: Option<String>,
    pub(crate) outstanding_bytes: Option<u64>,
    /// Segments that the kernel sent again on the present subflow.
    pub(crate) retransmitted_segments: Option<u64>,
    /// Measured while it has data.
    pub(crate) rate_mbps: Option<f64>,
    pub(crate) sent_bytes: u64,
    pub(crate) delivered_bytes: u64,
    pub(crate) received_bytes: u64,
    /// Of those sent, bytes that were on another path already.
    pub(crate) rescued_bytes: u64,
    /// Subflows it has had and that are gone.
    pub(crate) lost_subflows: u64,
    pub(crate) send_mbps: Option<f64>,
    pub(crate) receive_mbps: Option<f64>,
}

/// What a program says of itself besides its connections.
pub(crate) struct About {
    pub(crate) daemon: &'static str,
    pub(crate) state: &'static str,
    pub(crate) began: Instant,
    pub(crate) listening: Vec<String>,
    pub(crate) lanes: Vec<BondStatus>,
    /// If it is a node of a coded tunnel.
    pub(crate) node: Option<Node>,
}

/// The links of a node of a coded tunnel.
#[cfg_attr(not(feature = "web"), expect(dead_code, reason = "only a dashboard reads it"))]
#[derive(Default)]
pub(crate) struct NodeLinks {
    pub(crate) links: Vec<NodeLink>,
    /// When they were so, by the machine's clock, and how long ago that was.
    pub(crate) at: weftline_core::Instant,
    pub(crate) age: Duration,
}

/// A link of a node of a coded tunnel.
#[cfg_attr(not(feature = "web"), expect(dead_code, reason = "only a dashboard reads it"))]
pub(crate) struct NodeLink {
    pub(crate) name: String,
    /// Whether the neighbour was heard lately.
    pub(crate) up: bool,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) rtt: Option<Duration>,
}

impl Snapshot {
    /// The program now, with the `most` most interesting connections.
    pub(crate) fn take(about: About, most: usize) -> Self {
        let mut all: Vec<_> =
            weftline::status::connections().iter().map(weftline::Control::status).collect();
        let ready = all.iter().filter(|one| one.label.is_none()).count() as u64;
        all.sort_by_key(|one| (one.label.is_none(), std::cmp::Reverse(one.moved()), one.number));
        let open = all.len() as u64;
        all.truncate(most);
        let ProcessStats { connections_opened, connections_failed, handshakes_refused, .. } =
            process_stats();
        Self {
            schema: SCHEMA,
            daemon: about.daemon.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            state: about.state.to_owned(),
            uptime_s: about.began.elapsed().as_secs_f64(),
            listening: about.listening,
            connections_opened,
            connections_failed,
            handshakes_refused,
            connections_open: open,
            connections_ready: ready,
            connections_unlisted: open - all.len() as u64,
            memory: Memory::now(),
            connections: all.iter().map(Connection::from).collect(),
            bonds: about.lanes.iter().map(Bond::from).collect(),
            node: about.node,
        }
    }

    /// Fills in the rates since `before`, which was taken `seconds` ago.
    pub(crate) fn rates_since(&mut self, before: &Self, seconds: f64) {
        let mbps = |now: u64, then: u64| {
            Some(now.saturating_sub(then) as f64 * 8.0 / seconds.max(1e-3) / 1e6)
        };
        if let (Some(node), Some(old)) = (&mut self.node, &before.node) {
            node.rates_since(old, seconds);
        }
        for one in &mut self.connections {
            let Some(old) = before.connections.iter().find(|old| old.number == one.number) else {
                continue;
            };
            one.send_mbps = mbps(one.sent_bytes, old.sent_bytes);
            one.receive_mbps = mbps(one.received_bytes, old.received_bytes);
            for path in &mut one.paths {
                if let Some(old) = old.paths.iter().find(|old| old.name == path.name) {
                    path.send_mbps = mbps(path.delivered_bytes, old.delivered_bytes);
                    path.receive_mbps = mbps(path.received_bytes, old.received_bytes);
                }
            }
        }
    }
}

impl Memory {
    pub(crate) fn now() -> Self {
        let budget = MemoryBudget::default();
        Self {
            resident_bytes: resident().unwrap_or(0),
            reserved_bytes: budget.reserved().as_u64(),
            total_bytes: budget.total().as_u64(),
        }
    }
}

/// The process's resident memory (proc_pid_status(5), VmRSS), where there is /proc.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim();
    Some(kib.strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

impl From<&ConnectionStatus> for Connection {
    fn from(status: &ConnectionStatus) -> Self {
        let name = |id: &PathId| status.names.get(id).map(|name| name.to_string());
        let stats = &status.stats;
        let path = |(id, path): (&PathId, &PathStats)| {
            // One that was taken out of use and is gone tells nothing any more.
            let is_past = path.policy.role == Role::Retired && path.subflow.is_none();
            let name = || name(id).unwrap_or_else(|| id.0.to_string());
            (!is_past).then(|| Path {
                peer: status.peers.get(id).map(ToString::to_string),
                ..Path::of(name(), path, status.congestion.get(id))
            })
        };
        Self {
            number: status.number,
            peer: status.peer.to_string(),
            client: status.client.as_deref().map(str::to_owned),
            label: status.label.as_deref().map(str::to_owned),
            scheduler: status.scheduler.to_owned(),
            age_s: status.age.as_secs_f64(),
            sent_bytes: stats.acknowledged,
            received_bytes: stats.delivered,
            duplicate_bytes: stats.duplicates,
            memory_bytes: status.memory.as_u64(),
            receive_held_bytes: stats.receive_memory.as_u64(),
            send_held_bytes: status.send_held.as_u64(),
            window_bytes: stats.window.map(weftline_core::ByteCount::as_u64),
            forward: stats.forward.as_ref().and_then(name),
            send_mbps: None,
            receive_mbps: None,
            paths: stats.paths.iter().filter_map(path).collect(),
        }
    }
}

impl Path {
    fn of(name: String, stats: &PathStats, control: Option<&CongestionInUse>) -> Self {
        let subflow = stats.subflow.as_ref();
        let ms = |time: Duration| (!time.is_zero()).then_some(time.as_secs_f64() * 1e3);
        Self {
            name,
            role: stats.policy.role.name().to_owned(),
            state: match subflow {
                None => "down",
                Some(subflow) if subflow.stalled => "silent",
                Some(subflow) if subflow.standby => "standby",
                Some(_) => "up",
            }
            .to_owned(),
            peer: None,
            cap_mbps: stats.policy.cap.map(|cap| cap.as_bps() as f64 / 1e6),
            srtt_ms: subflow.and_then(|subflow| ms(subflow.info.srtt)),
            min_rtt_ms: subflow.and_then(|subflow| ms(subflow.info.min_rtt)),
            cwnd_bytes: subflow.map(|subflow| subflow.info.cwnd.as_u64()),
            congestion: control.map(|control| control.name.to_string()),
            congestion_fallback: control
                .and_then(|control| Some(control.fallback.as_ref()?.to_string())),
            outstanding_bytes: subflow.map(|subflow| subflow.outstanding),
            retransmitted_segments: subflow.map(|subflow| subflow.info.retransmitted),
            rate_mbps: stats.rate.map(|rate| rate.as_bps() as f64 / 1e6),
            sent_bytes: stats.sent,
            delivered_bytes: stats.delivered,
            received_bytes: stats.received,
            rescued_bytes: stats.reinjected,
            lost_subflows: stats.lost_subflows,
            send_mbps: None,
            receive_mbps: None,
        }
    }
}

/// When a snapshot was taken, by who asked for it.
pub(crate) struct Taken {
    pub(crate) at: Instant,
    pub(crate) snapshot: Snapshot,
}
