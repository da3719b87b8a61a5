//! What the lab's tests share: worlds of simple links, and the right to build them.

#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod download;

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weftline_core::{Bitrate, ByteCount};
use weftline_lab::LabError;
use weftline_lab::emulator::Start;
use weftline_lab::testbed::{PathLinks, Testbed};
use weftline_lab::topology::{self, End};
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};

/// Far more than anything here takes: a test that waits this long hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(400);

/// A link of constant rate without loss and with a queue of 1000 packets.
pub(crate) fn link(mbps: u64, delay_ms: u64) -> LinkConfig {
    LinkConfig {
        rate: RateTrace::constant(Bitrate::mbps(mbps)),
        delay: Duration::from_millis(delay_ms),
        jitter: Duration::ZERO,
        queue: QueueLimit::Packets(1000),
        loss: LossModel::None,
    }
}

pub(crate) fn with_loss(link: LinkConfig, loss: LossModel) -> LinkConfig {
    LinkConfig { loss, ..link }
}

pub(crate) fn with_queue(link: LinkConfig, bytes: u64) -> LinkConfig {
    LinkConfig { queue: QueueLimit::Bytes(ByteCount::new(bytes)), ..link }
}

pub(crate) fn path(name: &str, down: LinkConfig, up: LinkConfig) -> PathLinks {
    PathLinks { name: name.to_owned(), down, up }
}

/// One world at a time: they measure time, and share two cores with their neighbours.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result; `None`, after saying how to run the test, where the lab cannot run. In CI it must be
/// able to.
pub(crate) fn possible<T>(result: Result<T, LabError>) -> Option<T> {
    match result {
        Ok(result) => Some(result),
        Err(LabError::NotPossible { what, remedy }) => {
            assert!(std::env::var_os("CI").is_none(), "{what}; {remedy}");
            eprintln!("skipped: {what}; run 'sudo -E cargo test -p weftline-lab'");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Builds a world, where that is possible.
pub(crate) fn world(paths: Vec<PathLinks>, start: Start) -> Option<Testbed> {
    possible(Testbed::build(paths, "cubic", 1, start))
}

/// A UDP socket at each end of the first path: client, server.
pub(crate) fn udp_pair(testbed: &Testbed) -> (UdpSocket, UdpSocket) {
    let bind = |end: End| {
        let ns = match end {
            End::Client => &testbed.client,
            End::Server => &testbed.server,
        };
        ns.run(|| UdpSocket::bind(testbed.address(0, end, 4000))).unwrap()
    };
    let (client, server) = (bind(End::Client), bind(End::Server));
    client.connect(testbed.address(0, End::Server, 4000)).unwrap();
    server.connect(testbed.address(0, End::Client, 4000)).unwrap();
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        // Takes all that a test sends, beyond what users may have: a reader that waits for a processor
        // loses nothing.
        let big = 32 << 20;
        rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, big).unwrap();
    }
    (client, server)
}

/// The IPv6 address of an end of the first path.
pub(crate) fn v6(end: End, port: u16) -> SocketAddr {
    SocketAddr::new(topology::address(0, end).v6.into(), port)
}
