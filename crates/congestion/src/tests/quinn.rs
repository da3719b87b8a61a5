//! Reno and CUBIC against quinn-proto's controllers on the same acknowledgements, where the
//! definitions agree.
//!
//! They do not agree on these, which the scripts avoid or the tolerances cover:
//! - quinn counts bytes and halves them; we halve whole segments, as Linux does.
//! - quinn keeps what has been acknowledged towards the next segment across a loss; we, and Linux,
//!   begin anew.
//! - quinn's CUBIC is RFC 8312's: its plateau after fast convergence is reached later (its K does
//!   not depend on the window that the epoch starts from), its epoch starts with the loss, ours
//!   with the first acknowledgement after it, and Reno's window is a function of time there and
//!   of acknowledgements here.
//! - quinn's CUBIC drops what is beyond a whole segment at each increase.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "quinn's instants are the system's and cannot be made from a number"
)]

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as QuinnInstant};

use quinn_proto::congestion::{Controller, ControllerFactory, Cubic, CubicConfig};
use quinn_proto::congestion::{NewReno, NewRenoConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig,
    RttEstimator, ServerConfig, TransportConfig,
};
use weftline_core::rng::{Rng, probability};

use super::Acks;

const RTT: Duration = Duration::from_millis(100);
/// quinn's segment in these scripts, in bytes.
const MTU: u16 = 1200;

/// The same segments acknowledged and lost, to one of ours and one of quinn's.
struct Pair {
    ours: Acks,
    theirs: Box<dyn Controller>,
    rtt: RttEstimator,
    start: QuinnInstant,
}

impl Pair {
    fn new(name: &str, make: impl FnOnce(QuinnInstant) -> Box<dyn Controller>) -> Self {
        let start = now();
        Self { ours: Acks::one(name, RTT), theirs: make(start), rtt: estimator(), start }
    }

    fn step(&mut self, lost: bool) {
        self.ours.step(|_| lost);
        let now = self.start + Duration::from_nanos(self.ours.now.as_nanos());
        // Sent at the same moment, so that quinn sees neither in the last recovery.
        if lost {
            self.theirs.on_congestion_event(now, now, false, u64::from(MTU));
        } else {
            self.theirs.on_ack(now, now, u64::from(MTU), false, &self.rtt);
        }
    }

    /// Both windows in segments.
    fn windows(&self) -> (f64, f64) {
        let theirs = self.theirs.window() as f64 / f64::from(MTU);
        (self.ours.flows[0].control.cwnd(), theirs)
    }
}

fn new_reno(start: QuinnInstant) -> Box<dyn Controller> {
    let mut config = NewRenoConfig::default();
    config.initial_window(10 * u64::from(MTU));
    Box::new(NewReno::new(Arc::new(config), start, MTU))
}

fn cubic(start: QuinnInstant) -> Box<dyn Controller> {
    let mut config = CubicConfig::default();
    config.initial_window(10 * u64::from(MTU));
    Box::new(Cubic::new(Arc::new(config), start, MTU))
}

/// With losses where nothing is lost by halving, the whole windows are the same throughout.
#[test]
fn reno_is_the_same() {
    let mut pair = Pair::new("reno", new_reno);
    let mut since_loss = 0;
    for step in 0..300_000 {
        let (ours, _) = pair.windows();
        let lost = since_loss > 4_000 && ours % 2.0 == 0.0;
        since_loss = if lost { 0 } else { since_loss + 1 };
        pair.step(lost);
        let (ours, theirs) = pair.windows();
        assert_eq!(ours.floor(), theirs, "at step {step}");
    }
}

/// With losses anywhere they stay within two segments: each loss costs us up to half a segment by
/// halving and up to one of what was acknowledged towards the next, and both halve with the window.
#[test]
fn reno_is_close_under_random_losses() {
    let mut pair = Pair::new("reno", new_reno);
    let mut rng = Rng::stream(5, "losses");
    for step in 0..300_000 {
        pair.step(rng.happens(probability(0.0005)));
        let (ours, theirs) = pair.windows();
        assert!((ours - theirs).abs() <= 3.0, "{ours} and {theirs} at step {step}");
    }
}

/// Each loss beyond the last one's window, so that fast convergence stays out of it.
#[test]
fn cubic_follows_the_same_curve() {
    let mut pair = Pair::new("cubic", cubic);
    let mut next_loss = 150.0;
    let mut losses = 0;
    while losses < 6 {
        let (ours, theirs) = pair.windows();
        let lost = ours.min(theirs) >= next_loss;
        if lost {
            losses += 1;
            next_loss *= 1.2;
        }
        pair.step(lost);
        let (ours, theirs) = pair.windows();
        let apart = (ours - theirs).abs() / theirs;
        assert!(apart <= 0.04, "{ours} and {theirs} after {losses} losses");
    }
}

fn now() -> QuinnInstant {
    QuinnInstant::now()
}

/// An estimator that has measured [`RTT`]: quinn makes them only within a connection, so one goes
/// through a handshake in memory and its controller keeps the first that it is shown.
fn estimator() -> RttEstimator {
    let capture = Arc::new(Capture::default());
    let mut transport = TransportConfig::default();
    transport.initial_rtt(RTT).congestion_controller_factory(capture.clone());

    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let chain = vec![certified.cert.der().clone()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(chain[0].clone()).expect("a certificate");
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).expect("a verifier");
    client.transport_config(Arc::new(transport));
    let server = ServerConfig::with_single_cert(chain, key.into()).expect("a key pair");

    Handshake::new(client, server).run_until(|| capture.seen());
    capture.seen().expect("the handshake was acknowledged")
}

#[derive(Default)]
struct Capture(Arc<Mutex<Option<RttEstimator>>>);

impl Capture {
    fn seen(&self) -> Option<RttEstimator> {
        *self.0.lock().expect("nobody panics with it")
    }
}

impl ControllerFactory for Capture {
    fn build(self: Arc<Self>, start: QuinnInstant, _: u16) -> Box<dyn Controller> {
        Box::new(Capturing { seen: self.0.clone(), inner: new_reno(start) })
    }
}

struct Capturing {
    seen: Arc<Mutex<Option<RttEstimator>>>,
    inner: Box<dyn Controller>,
}

impl Controller for Capturing {
    fn on_ack(&mut self, _: QuinnInstant, _: QuinnInstant, _: u64, _: bool, rtt: &RttEstimator) {
        self.seen.lock().expect("nobody panics with it").get_or_insert(*rtt);
    }

    fn on_congestion_event(&mut self, _: QuinnInstant, _: QuinnInstant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { seen: self.seen.clone(), inner: self.inner.clone_box() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}

/// Two endpoints and a wire of half a round-trip time each way.
struct Handshake {
    now: QuinnInstant,
    client: Endpoint,
    server: Endpoint,
    client_side: (ConnectionHandle, Connection),
    server_side: Option<(ConnectionHandle, Connection)>,
}

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 1);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 2);

impl Handshake {
    fn new(client_config: ClientConfig, server_config: ServerConfig) -> Self {
        let now = now();
        let config = Arc::new(EndpointConfig::default());
        let mut client = Endpoint::new(config.clone(), None, false, None);
        let server = Endpoint::new(config, Some(Arc::new(server_config)), false, None);
        let client_side =
            client.connect(now, client_config, SERVER, "localhost").expect("it can connect");
        Self { now, client, server, client_side, server_side: None }
    }

    fn run_until(&mut self, done: impl Fn() -> Option<RttEstimator>) {
        for _ in 0..10 {
            let datagrams = transmits(&mut self.client_side.1, self.now);
            self.now += RTT / 2;
            for datagram in datagrams {
                self.deliver(&datagram);
            }
            let replies = self.server_side.as_mut();
            let replies = replies.map_or_else(Vec::new, |side| transmits(&mut side.1, self.now));
            self.now += RTT / 2;
            for datagram in replies {
                let data = datagram.as_slice().into();
                let event = self.client.handle(self.now, SERVER, None, None, data, &mut Vec::new());
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.client_side.1.handle_event(event);
                }
            }
            settle(&mut self.client, &mut self.client_side);
            if done().is_some() {
                return;
            }
        }
    }

    fn deliver(&mut self, datagram: &[u8]) {
        let mut response = Vec::new();
        let data = datagram.into();
        match self.server.handle(self.now, CLIENT, None, None, data, &mut response) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.server.accept(incoming, self.now, &mut response, None);
                self.server_side = accepted.ok();
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.server_side {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
        if let Some(side) = &mut self.server_side {
            settle(&mut self.server, side);
        }
    }
}

fn transmits(connection: &mut Connection, now: QuinnInstant) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    let mut buffer = Vec::new();
    while let Some(transmit) = connection.poll_transmit(now, 1, &mut buffer) {
        datagrams.push(buffer[..transmit.size].to_vec());
        buffer.clear();
    }
    datagrams
}

fn settle(endpoint: &mut Endpoint, (handle, connection): &mut (ConnectionHandle, Connection)) {
    while let Some(event) = connection.poll_endpoint_events() {
        if let Some(event) = endpoint.handle_event(*handle, event) {
            connection.handle_event(event);
        }
    }
}
