//! What a node of a coded tunnel says of itself: the part of the answer to `status` that only nodes have.
//! Its names are stable (docs/cotag.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weftline_tunnel::{Counter, DeviceStatus, LinkStatus, Status};

/// A node as it is now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Node {
    /// When this was, s, by the node's clock: a little in the past.
    #[serde(default)]
    pub(crate) at_s: f64,
    /// `gateway`, `ap` or `device`.
    pub(crate) role: String,
    pub(crate) links: Vec<Link>,
    /// At a gateway and an access point.
    pub(crate) devices: Vec<Device>,
    /// Packets that wait in it now.
    pub(crate) waiting_packets: u64,
    /// Datagrams that were dropped when they came, by the reason; what is not known is left out.
    pub(crate) dropped: BTreeMap<String, u64>,
    pub(crate) counters: BTreeMap<String, u64>,
}

/// A link to a neighbour.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Link {
    pub(crate) name: String,
    /// Whether the neighbour was heard lately.
    pub(crate) up: bool,
    pub(crate) peer: Option<String>,
    pub(crate) rtt_ms: Option<f64>,
    /// At a device: how much later packets come on it than on the nearest one.
    pub(crate) lag_ms: Option<f64>,
    /// What is sent at most, if that is set or measured.
    pub(crate) rate_mbps: Option<f64>,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sessions: u64,
    /// Longer than what the way carries.
    pub(crate) swallowed: u64,
    /// At a device: what the gateway did not make and may be this link's.
    pub(crate) wrong: u64,
    /// Datagrams that could not be sent, by the reason.
    pub(crate) unsent: BTreeMap<String, u64>,
    pub(crate) send_mbps: Option<f64>,
    pub(crate) receive_mbps: Option<f64>,
}

/// A device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) up: bool,
    /// At a gateway: the access points that reach it.
    pub(crate) through: Vec<String>,
    pub(crate) waiting_packets: u64,
    pub(crate) counters: BTreeMap<String, u64>,
}

impl From<&Status> for Node {
    fn from(status: &Status) -> Self {
        Self {
            at_s: status.at.as_secs_f64(),
            role: status.role.to_owned(),
            links: status.links.iter().map(Link::from).collect(),
            devices: status.devices.iter().map(Device::from).collect(),
            waiting_packets: status.waiting,
            dropped: named(status.dropped.by_reason()),
            counters: values(&status.counters),
        }
    }
}

impl From<&LinkStatus> for Link {
    fn from(link: &LinkStatus) -> Self {
        Self {
            name: link.name.clone(),
            up: link.up,
            peer: link.address.map(|address| address.to_string()),
            rtt_ms: link.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
            lag_ms: link.lag.map(|lag| lag.as_secs_f64() * 1e3),
            rate_mbps: link.rate.map(|rate| rate.as_mbps_f64()),
            sent_bytes: link.counters.sent_bytes,
            received_bytes: link.counters.received_bytes,
            sessions: link.counters.sessions,
            swallowed: link.counters.swallowed,
            wrong: link.wrong,
            unsent: named(link.counters.unsent.by_reason()),
            send_mbps: None,
            receive_mbps: None,
        }
    }
}

impl From<&DeviceStatus> for Device {
    fn from(device: &DeviceStatus) -> Self {
        Self {
            name: device.name.clone(),
            up: device.up,
            through: device.through.clone(),
            waiting_packets: device.waiting,
            counters: values(&device.counters),
        }
    }
}

impl Node {
    /// Fills in the rates since `before`, which was asked for `seconds` ago.
    pub(crate) fn rates_since(&mut self, before: &Self, seconds: f64) {
        let between = self.at_s - before.at_s;
        // A node of another build may not say it.
        let seconds = if between > 0.0 { between } else { seconds };
        let mbps = |now: u64, then: u64| {
            Some(now.saturating_sub(then) as f64 * 8.0 / seconds.max(1e-3) / 1e6)
        };
        for link in &mut self.links {
            if let Some(old) = before.links.iter().find(|old| old.name == link.name) {
                link.send_mbps = mbps(link.sent_bytes, old.sent_bytes);
                link.receive_mbps = mbps(link.received_bytes, old.received_bytes);
            }
        }
    }
}

fn values(counters: &[Counter]) -> BTreeMap<String, u64> {
    named(counters.iter().map(|counter| (counter.name, counter.value)))
}

fn named(counts: impl IntoIterator<Item = (&'static str, u64)>) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
