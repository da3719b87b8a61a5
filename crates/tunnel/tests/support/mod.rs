//! A tunnel in the lab: gateway and access points in one namespace, the device in another, emulated
//! links between access points and device, and each node a thread.

#![allow(clippy::unwrap_used, dead_code, reason = "a test fails by panicking")]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weftline_core::{Bitrate, ByteCount};
use weftline_lab::LabError;
use weftline_lab::emulator::Start;
use weftline_lab::netns::Netns;
use weftline_lab::testbed::{PathLinks, Testbed};
use weftline_lab::topology::End;
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};
use weftline_tunnel::{
    AccessPoint, AccessPointConfig, AccessPointPeer, Device, DeviceConfig, DevicePeer, Gateway,
    GatewayConfig, GatewayDevice, GatewayPeer, Pace, Publish, SecretKey, Sending, Status, Stop,
    TunConfig, TunnelError, Uplink, Via,
};

/// The ends of the tunnel.
pub(crate) const GATEWAY_V4: &str = "10.9.0.1";
pub(crate) const DEVICE_V4: &str = "10.9.0.2";
pub(crate) const GATEWAY_V6: &str = "fd09::1";
pub(crate) const DEVICE_V6: &str = "fd09::2";

pub(crate) const GATEWAY_PORT: u16 = 7100;
const AP_PORT: u16 = 7200;
/// Far more than anything here takes: a test that waits this long hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(400);

/// One world at a time: two cores for all.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A link of a rate, a delay one way and a queue of 50 ms.
pub(crate) fn link(trace: RateTrace, delay: Duration, loss: f64) -> LinkConfig {
    let queue = trace.mean().bytes_in(Duration::from_millis(50)).max(ByteCount::new(30_000));
    let loss = if loss > 0.0 { LossModel::Bernoulli(loss) } else { LossModel::None };
    LinkConfig { rate: trace, delay, jitter: Duration::ZERO, queue: QueueLimit::Bytes(queue), loss }
}

/// A running node.
pub(crate) struct Node {
    stop: Stop,
    publish: Publish,
    thread: Option<JoinHandle<io::Result<Result<(), TunnelError>>>>,
}

impl Node {
    fn start<N: Send + 'static>(
        ns: &Netns,
        open: impl FnOnce() -> Result<N, TunnelError> + Send,
        run: impl FnOnce(N, &Stop, &Publish) -> Result<(), TunnelError> + Send + 'static,
    ) -> Self {
        let node = ns.run(|| Ok(open())).unwrap().unwrap();
        let (stop, publish) = (Stop::new().unwrap(), Publish::default());
        let thread = {
            let (ns, stop, publish) = (ns.clone(), stop.clone(), publish.clone());
            std::thread::spawn(move || ns.run(|| Ok(run(node, &stop, &publish))))
        };
        Self { stop, publish, thread: Some(thread) }
    }

    /// How it is, once it says so.
    pub(crate) fn status(&self) -> Status {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.publish.status() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "the node says nothing");
            // Who looks without a pause keeps the node from saying it: both need the same lock.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        let status = self.status();
        status.counters.iter().find(|counter| counter.name == name).map_or(0, |found| found.value)
    }

    /// Waits until `wanted` of its status.
    pub(crate) fn wait_for(&self, what: &str, wanted: impl Fn(&Status) -> bool) {
        self.wait_within(PATIENCE, what, wanted);
    }

    /// Waits for `patience` at most until `wanted` of its status.
    pub(crate) fn wait_within(
        &self,
        patience: Duration,
        what: &str,
        wanted: impl Fn(&Status) -> bool,
    ) {
        let begun = Instant::now();
        while !wanted(&self.status()) {
            assert!(begun.elapsed() < patience, "{what}: {:?}", self.status());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.stop();
        let (thread, begun) = (self.thread.take().unwrap(), Instant::now());
        while !thread.is_finished() {
            if begun.elapsed() > PATIENCE {
                assert!(std::thread::panicking(), "the node does not stop");
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let ended = thread.join();
        if !std::thread::panicking() {
            ended.unwrap().unwrap().unwrap();
        }
    }
}

/// The keys of all nodes.
pub(crate) struct Keys {
    pub(crate) gateway: SecretKey,
    pub(crate) aps: [SecretKey; 2],
    pub(crate) device: SecretKey,
}

impl Keys {
    pub(crate) fn draw() -> Self {
        let draw = || SecretKey::generate().unwrap();
        Self { gateway: draw(), aps: [draw(), draw()], device: draw() }
    }
}

/// The links, the keys and the nodes.
pub(crate) struct World {
    pub(crate) device: Option<Node>,
    pub(crate) aps: [Option<Node>; 2],
    pub(crate) gateway: Option<Node>,
    pub(crate) keys: Keys,
    pub(crate) sending: Sending,
    pub(crate) rates: [Bitrate; 2],
    pub(crate) plaintext: bool,
    /// How access points know what their links carry; by the rates above if nothing is said.
    pub(crate) pace: Option<Pace>,
    /// A second device, if the nodes know one.
    pub(crate) second: Option<SecretKey>,
    /// The only access point that devices which are started from now on know; all, if none is said.
    pub(crate) only: Option<usize>,
    /// Where the device finds the first access point, if not where it is.
    pub(crate) first_link: Option<SocketAddr>,
    pub(crate) testbed: Testbed,
}

impl World {
    /// A tunnel over two links, paced at 95 % of the rate they carry on average; `None`, after
    /// saying how to run the test, where the lab cannot run. In CI it must be able to.
    pub(crate) fn build(links: [LinkConfig; 2], sending: Sending) -> Option<Self> {
        let rates = links.clone().map(|link| Bitrate::bps(link.rate.mean().as_bps() / 100 * 95));
        let path = |(name, down): (&str, LinkConfig)| {
            let up = LinkConfig { loss: LossModel::None, ..down.clone() };
            PathLinks { name: name.to_owned(), down, up }
        };
        let paths = ["mmwave", "sub6"].into_iter().zip(links).map(path).collect();
        let testbed = match Testbed::build(paths, "cubic", 1, Start::Explicit) {
            Ok(testbed) => testbed,
            Err(LabError::NotPossible { what, remedy }) => {
                assert!(std::env::var_os("CI").is_none(), "{what}; {remedy}");
                eprintln!("skipped: {what}; run 'sudo -E cargo test -p weftline-tunnel'");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        testbed.emulator.start(weftline_lab::clock::now()).unwrap();
        let (aps, keys) = ([None, None], Keys::draw());
        Some(Self {
            device: None,
            aps,
            gateway: None,
            keys,
            sending,
            rates,
            plaintext: false,
            pace: None,
            second: None,
            only: None,
            first_link: None,
            testbed,
        })
    }

    /// Starts all nodes and waits until all links are up.
    pub(crate) fn start(&mut self) {
        self.gateway = Some(self.start_gateway());
        self.aps = [0, 1].map(|index| Some(self.start_ap(index)));
        self.device = Some(self.start_device());
        let all_up =
            |status: &Status| status.links.iter().all(|link| link.up && link.rtt.is_some());
        self.gateway().wait_for("links of the gateway", all_up);
        self.device().wait_for("links of the device", all_up);
        self.gateway().wait_for("access points that reach the device", |status| {
            status.devices[0].through.len() == status.links.len()
        });
        // A packet with no session would be dropped, and counted.
        self.device().wait_for("the gateway's terms", |status| {
            status.counters.iter().any(|counter| {
                counter.name == "packets_delivered" || counter.name == "packets_lost"
            })
        });
    }

    pub(crate) fn gateway(&self) -> &Node {
        self.gateway.as_ref().unwrap()
    }

    pub(crate) fn ap(&self, index: usize) -> &Node {
        self.aps[index].as_ref().unwrap()
    }

    pub(crate) fn device(&self) -> &Node {
        self.device.as_ref().unwrap()
    }

    pub(crate) fn start_gateway(&self) -> Node {
        let peer = |(index, name): (usize, &&str)| GatewayPeer {
            name: (*name).to_owned(),
            key: self.keys.aps[index].public(),
            pace: Pace::Interface,
        };
        let config = GatewayConfig {
            secret: self.keys.gateway.clone(),
            insecure_plaintext: self.plaintext,
            listen: SocketAddr::from(([127, 0, 0, 1], GATEWAY_PORT)),
            tun: tun("gw", [GATEWAY_V4, GATEWAY_V6]),
            access_points: ["mmwave", "sub6"].iter().enumerate().map(peer).collect(),
            devices: self.devices(),
            sending: self.sending,
        };
        Node::start(&self.testbed.server, || Gateway::open(config), Gateway::run)
    }

    /// The device, and the second one if there is one.
    fn devices(&self) -> Vec<GatewayDevice> {
        let device = |name: &str, key: &SecretKey, addresses: [&str; 2]| GatewayDevice {
            name: name.to_owned(),
            key: key.public(),
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        };
        let first = device("first", &self.keys.device, ["10.9.0.2/32", "fd09::2/128"]);
        let second = self.second.as_ref();
        let second = second.map(|key| device("second", key, ["10.9.1.2/32", "fd09:1::2/128"]));
        [first].into_iter().chain(second).collect()
    }

    pub(crate) fn ap_address(&self, index: usize) -> SocketAddr {
        self.testbed.address(index, End::Server, AP_PORT)
    }

    pub(crate) fn start_ap(&self, index: usize) -> Node {
        let config = AccessPointConfig {
            secret: self.keys.aps[index].clone(),
            insecure_plaintext: self.plaintext,
            gateway: SocketAddr::from(([127, 0, 0, 1], GATEWAY_PORT)),
            gateway_key: self.keys.gateway.public(),
            gateway_via: None,
            listen: self.ap_address(index),
            devices: self
                .devices()
                .into_iter()
                .map(|GatewayDevice { name, key, .. }| AccessPointPeer { name, key })
                .collect(),
            pace: self.pace.unwrap_or(Pace::Fixed(self.rates[index])),
        };
        Node::start(&self.testbed.server, || AccessPoint::open(config), AccessPoint::run)
    }

    pub(crate) fn start_device(&self) -> Node {
        self.start_device_as(&self.keys.device, tun("dev", [DEVICE_V4, DEVICE_V6]))
    }

    /// A device with another TUN device beside the device.
    pub(crate) fn start_second_device(&self, secret: &SecretKey) -> Node {
        self.start_device_as(secret, tun("dev2", ["10.9.1.2", "fd09:1::2"]))
    }

    fn start_device_as(&self, secret: &SecretKey, tun: TunConfig) -> Node {
        let peer = |(index, name): (usize, &&str)| {
            let elsewhere = self.first_link.filter(|_| index == 0);
            DevicePeer {
                name: (*name).to_owned(),
                key: self.keys.aps[index].public(),
                address: elsewhere.unwrap_or_else(|| self.ap_address(index)),
                via: elsewhere.is_none().then(|| Via::Interface((*name).to_owned())),
            }
        };
        let config = DeviceConfig {
            secret: secret.clone(),
            insecure_plaintext: self.plaintext,
            gateway_key: self.keys.gateway.public(),
            tun,
            access_points: ["mmwave", "sub6"]
                .iter()
                .enumerate()
                .filter(|(index, _)| self.only.is_none_or(|only| only == *index))
                .map(peer)
                .collect(),
            uplink: Uplink::Lowest,
        };
        Node::start(&self.testbed.client, || Device::open(config), Device::run)
    }
}

fn tun(name: &str, [v4, v6]: [&str; 2]) -> TunConfig {
    let addresses = [format!("{v4}/24"), format!("{v6}/64")];
    let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
    TunConfig { name: name.to_owned(), addresses }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
