//! A device's link that is dead in one direction, and one that swallows what is long.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use support::{DEVICE_V4, GATEWAY_V4, World, alone, ip, link};
use weftline_core::Bitrate;
use weftline_link::RateTrace;
use weftline_tunnel::{Sending, Status};

/// What stands between the device and its first access point.
struct Between {
    /// Bytes of the longest datagram that it hands on to the device.
    down: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Between {
    fn start(socket: UdpSocket, far: SocketAddr) -> Self {
        let (down, stop) =
            (Arc::new(AtomicUsize::new(usize::MAX)), Arc::new(AtomicBool::new(false)));
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (longest, wanted) = (Arc::clone(&down), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let (mut near, mut bytes) = (None, vec![0; 65_536]);
            while !wanted.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
                let to = if from == far {
                    near.filter(|_| length <= longest.load(Ordering::Relaxed))
                } else {
                    near = Some(from);
                    Some(far)
                };
                if let Some(to) = to {
                    let _ = socket.send_to(&bytes[..length], to);
                }
            }
        });
        Self { down, stop, thread: Some(thread) }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A tunnel over two links alike, the first with somebody between.
fn world() -> Option<(World, Between)> {
    let same = || link(RateTrace::constant(Bitrate::mbps(20)), Duration::from_millis(5), 0.0);
    let mut world = World::build([same(), same()], Sending::default())?;
    let ap = world.ap_address(0);
    let socket = world.testbed.client.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    let port = socket.local_addr().unwrap().port();
    world.first_link = Some(SocketAddr::new(ip("127.0.0.1"), port));
    let between = Between::start(socket, ap);
    world.start();
    Some((world, between))
}

/// Whether the gateway knows that the device can be reached through the first access point.
fn is_reached(status: &Status) -> bool {
    status.devices[0].through.iter().any(|name| name == "mmwave")
}

#[test]
fn a_link_whose_way_down_is_cut_is_left_and_taken_again() {
    let _alone = alone();
    let Some((world, between)) = world() else { return };
    for _ in 0..2 {
        between.down.store(0, Ordering::Relaxed);
        world.gateway().wait_for("the first link is away", |status| !is_reached(status));
        world.ap(0).wait_for("the access point hears the device", |status| status.links[1].up);
        between.down.store(usize::MAX, Ordering::Relaxed);
        world.gateway().wait_for("the first link is back", is_reached);
    }
}

#[test]
fn what_a_link_swallows_is_counted() {
    let _alone = alone();
    let Some((world, between)) = world() else { return };
    let socket = world.testbed.server.run(|| UdpSocket::bind((GATEWAY_V4, 0))).unwrap();
    let swallowed = |status: &Status| {
        let _ = socket.send_to(&[0; 1300], (DEVICE_V4, 9));
        status.links[1].counters.swallowed > 0
    };
    between.down.store(1300, Ordering::Relaxed);
    world.ap(0).wait_for("long datagrams are missed", swallowed);
    assert_eq!(world.ap(1).status().links[1].counters.swallowed, 0, "nor on the other link");
    world.gateway().wait_for("what is short comes", is_reached);
}
