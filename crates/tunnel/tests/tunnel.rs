//! Kernel TCP through gateway, two access points and device over emulated links.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ring::hmac;
use support::{
    DEVICE_V4, DEVICE_V6, GATEWAY_PORT, GATEWAY_V4, GATEWAY_V6, Node, PATIENCE, World, alone, ip,
    link,
};
use weftline_core::Bitrate;
use weftline_judged::{MISSES, Watch, verdict};
use weftline_lab::netns::Netns;
use weftline_lab::testbed::Testbed;
use weftline_link::RateTrace;
use weftline_tunnel::{DeviceStatus, Pace, Redundancy, Scheme, SecretKey, Sending, Status};

const DELAY: Duration = Duration::from_millis(5);

/// 30 and 10 Mb/s.
fn links(loss: f64) -> [weftline_link::LinkConfig; 2] {
    [30, 10].map(|mbps| link(RateTrace::constant(Bitrate::mbps(mbps)), DELAY, loss))
}

/// Bytes that repeat after no short while.
fn content(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Sends bytes by TCP from one end of the tunnel to the other and compares them; how long it took.
/// `during` runs when a quarter has come.
fn transfer(
    testbed: &Testbed,
    from: IpAddr,
    down: bool,
    length: usize,
    during: impl FnOnce(),
) -> Duration {
    let (server, client) =
        if down { (&testbed.server, &testbed.client) } else { (&testbed.client, &testbed.server) };
    let sent = content(length);
    std::thread::scope(|scope| {
        let listener = server.run(|| TcpListener::bind(SocketAddr::new(from, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        socket2::SockRef::from(&listener).set_read_timeout(Some(PATIENCE)).unwrap();
        let bytes = &sent;
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(bytes).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let _ = stream.read(&mut [0]);
        });
        let begun = Instant::now();
        let mut stream = client.run(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut received = vec![0; length / 4];
        stream.read_exact(&mut received).unwrap();
        during();
        stream.read_to_end(&mut received).unwrap();
        assert!(received == sent, "{} of {length} bytes came, or others", received.len());
        begun.elapsed()
    })
}

#[test]
fn tcp_passes_both_ways_byte_for_byte_in_every_scheme() {
    let _alone = alone();
    for (scheme, cut_through) in [
        (Scheme::Systematic, true),
        (Scheme::Systematic, false),
        (Scheme::Dense, false),
        (Scheme::Plain, false),
    ] {
        let sending = Sending { scheme, cut_through, ..Sending::default() };
        let Some(mut world) = World::build(links(0.0), sending) else { return };
        world.start();
        for (from, down) in
            [(GATEWAY_V4, true), (GATEWAY_V6, true), (DEVICE_V4, false), (DEVICE_V6, false)]
        {
            let took = transfer(&world.testbed, ip(from), down, 2 << 20, || {});
            eprintln!("{scheme:?}, cut-through {cut_through}, from {from}: {took:.1?}");
        }
        let dropped = world.device().status().dropped;
        assert_eq!((dropped.forged, dropped.malformed), (0, 0));
    }
}

/// The rate by which `node` sends over the link with `index`, in Mb/s.
fn mbps(status: &Status, index: usize) -> Option<f64> {
    status.links[index].rate.map(Bitrate::as_mbps_f64)
}

/// Waits until both links have been measured, and the gateway is told, by what `fits` says of the
/// rate found and the link's rate in Mb/s: while they are idle, and after a load.
fn measure(world: &World, patience: Duration, fits: impl Fn(f64, f64) -> bool) {
    for load in [0, 4 << 20] {
        transfer(&world.testbed, ip(GATEWAY_V4), true, load, || {});
        for (index, carried) in [(0, 30.0), (1, 10.0)] {
            let fits = |rate: Option<f64>| rate.is_some_and(|rate| fits(rate, carried));
            // Behind the gateway's is the link to the device.
            world.ap(index).wait_within(patience, "its rate", |status| fits(mbps(status, 1)));
            let told = |status: &Status| fits(mbps(status, index));
            world.gateway().wait_within(patience, "the rate it is told", told);
        }
    }
}

/// A tunnel that measures its links.
fn measuring(links: [weftline_link::LinkConfig; 2]) -> Option<World> {
    let mut world = World::build(links, Sending::default())?;
    world.pace = Some(Pace::Measured);
    world.start();
    Some(world)
}

#[test]
fn access_points_measure_their_links_and_tell_the_gateway() {
    let _alone = alone();
    let Some(world) = measuring(links(0.0)) else { return };
    measure(&world, PATIENCE, |rate, _| rate > 0.0);
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn measured_rates_are_the_links() {
    let _alone = alone();
    verdict("measured rates are the links'", |_| {
        let world = measuring(links(0.0))?;
        measure(&world, Duration::from_secs(60), |rate, carried| {
            (rate / carried - 1.0).abs() < 0.1
        });
        Some(())
    });
}

/// What may go over a link that stands still for 3 s: small packets that tell when it is back, keepalives and
/// reports. It is a tenth of what would be the link's part of what is transferred meanwhile.
const SIGNS: u64 = 80_000;

/// The first link stands still for 4 s of every 8 s: each time the gateway knows it, the other link
/// carries, and the first one's rate is then more than `least` Mb/s again. Twice the transfer has to have
/// been over before the link was back: then it is known that nothing went over it.
fn stand_still(least: f64, patience: Duration) -> Option<()> {
    let seconds = Duration::from_secs;
    let steps = vec![(seconds(0), Bitrate::mbps(30)), (seconds(4), Bitrate::ZERO)];
    let [mut mmwave, sub6] = links(0.0);
    mmwave.rate = RateTrace::from_steps(steps, seconds(8)).unwrap();
    let world = measuring([mmwave, sub6])?;
    let sent = |status: &Status| status.links[1].counters.sent_bytes;
    let (begun, mut judged) = (Instant::now(), 0);
    while judged < 2 {
        assert!(
            begun.elapsed() < patience,
            "no transfer takes less than the link stands still for"
        );
        let stands = |status: &Status| mbps(status, 1) == Some(0.0);
        world.ap(0).wait_within(patience, "the link stands still", stands);
        let knows = |status: &Status| mbps(status, 0) == Some(0.0);
        world.gateway().wait_within(patience, "the gateway knows", knows);
        let before = world.ap(0).status();
        let took = transfer(&world.testbed, ip(GATEWAY_V4), true, 1 << 20, || {});
        let after = world.ap(0).status();
        let went = sent(&after) - sent(&before);
        eprintln!("1 MiB while one link stands still: {took:.1?}, {went} bytes over that");
        if stands(&before) && stands(&after) && took < seconds(3) {
            assert!(went < SIGNS, "{went} bytes over a link that stands still");
            judged += 1;
        }
        let is_back = |status: &Status| mbps(status, 1) > Some(least);
        world.ap(0).wait_within(patience, "the link is back", is_back);
    }
    Some(())
}

#[test]
fn nothing_is_sent_over_a_link_that_stands_still() {
    let _alone = alone();
    stand_still(0.0, PATIENCE);
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn a_link_that_is_back_is_measured_again() {
    let _alone = alone();
    verdict("a link that is back is measured again", |_| {
        stand_still(20.0, Duration::from_secs(60))
    });
}

/// What `tc` counts of the queue of an interface: packets sent and dropped.
fn queue(end: &Netns, interface: &str) -> (u64, u64) {
    let mut tc = end.command("tc");
    let output = tc.args(["-s", "qdisc", "show", "dev", interface]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let after = |word: &str| {
        let found = text.split_whitespace().skip_while(|found| *found != word).nth(1);
        found.and_then(|number| number.trim_end_matches(',').parse().ok())
    };
    // "Sent 2951 bytes 17 pkt (dropped 0, overlimits 3 requeues 0)"
    let sent = text.split_whitespace().skip_while(|word| *word != "bytes").nth(1);
    (sent.unwrap().parse().unwrap(), after("(dropped").unwrap())
}

#[test]
fn an_interface_without_room_holds_its_access_point_back() {
    let _alone = alone();
    hold_back(true);
}

/// The device stops reading what its programs send.
#[test]
fn an_interface_without_room_holds_an_upload_back() {
    let _alone = alone();
    hold_back(false);
}

fn hold_back(down: bool) {
    // The links carry what comes; the interfaces do not, and their queues would overflow with what
    // the gateway has.
    let fast = link(RateTrace::constant(Bitrate::mbps(400)), DELAY, 0.0);
    let Some(mut world) = World::build([fast.clone(), fast], Sending::default()) else { return };
    world.pace = Some(Pace::Interface);
    let end = if down { &world.testbed.server } else { &world.testbed.client };
    for (interface, rate) in [("mmwave", "20mbit"), ("sub6", "10mbit")] {
        let mut tc = end.command("tc");
        tc.args(["qdisc", "add", "dev", interface, "root", "tbf", "rate", rate]);
        tc.args(["burst", "16k", "limit", "600k"]);
        let output = tc.output().unwrap();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(std::env::var_os("CI").is_none(), "tc: {said}");
            eprintln!("skipped: the kernel has no tbf ({}); run it on one that has", said.trim());
            return;
        }
    }
    world.start();
    let from = ip(if down { GATEWAY_V4 } else { DEVICE_V4 });
    let took = transfer(&world.testbed, from, down, 4 << 20, || {});
    eprintln!("4 MiB through interfaces of 20 and 10 Mb/s: {took:.1?}");
    let end = if down { &world.testbed.server } else { &world.testbed.client };
    let mut carrying = 0;
    for interface in ["mmwave", "sub6"] {
        let (sent, dropped) = queue(end, interface);
        eprintln!("{interface}: {sent} packets, {dropped} dropped");
        carrying += usize::from(sent > 100);
        assert_eq!(dropped, 0, "{interface} said that it had no room");
    }
    // An upload goes over the best link.
    assert!(carrying >= if down { 2 } else { 1 }, "{carrying} carry");
}

/// Sends `packets` datagrams from the gateway to the device and waits until it is known what became of each:
/// a gateway that stood still drops what is too old in its queue, and what is for a device that it did not
/// hear.
fn burst(world: &World, packets: u64) {
    let bind = |ns: &Netns, address: &str| {
        ns.run(|| UdpSocket::bind(SocketAddr::new(ip(address), 0))).unwrap()
    };
    let from = bind(&world.testbed.server, GATEWAY_V4);
    let to = bind(&world.testbed.client, DEVICE_V4).local_addr().unwrap();
    let settled = |status: &Status| {
        let of = |name| status.counters.iter().find(|counter| counter.name == name);
        let count = |name| of(name).map_or(0, |counter| counter.value);
        let dropped =
            ["packets_delayed", "packets_no_device"].map(|name| world.gateway().counter(name));
        count("packets_delivered") + count("packets_lost") + dropped.iter().sum::<u64>()
    };
    let before = settled(&world.device().status());
    (0..packets).for_each(|_| assert_eq!(from.send_to(&[7; 64], to).unwrap(), 64));
    world
        .device()
        .wait_for("what became of the packets", |status| settled(status) >= before + packets);
}

#[test]
fn losses_on_the_links_are_made_up_for() {
    const BURSTS: u64 = 6;
    const PACKETS: u64 = 256;
    let _alone = alone();
    // One packet in twenty is lost, and a burst takes a tenth of the time in which links that show
    // nothing are waited for: there is room for what is redundant.
    let sending = Sending {
        interval: Duration::from_millis(200),
        redundancy: Redundancy::Limit,
        ..Sending::default()
    };
    let (begun, mut misses) = (Instant::now(), 0);
    loop {
        let Some(mut world) = World::build(links(0.05), sending) else { return };
        world.start();
        let watch = Watch::start();
        (0..BURSTS).for_each(|_| burst(&world, PACKETS));
        let (recovered, lost) =
            (world.device().counter("packets_recovered"), world.device().counter("packets_lost"));
        eprintln!("recovered {recovered}, lost {lost}");
        // As many as the links lose, and hardly one that could not be computed.
        if recovered + lost >= BURSTS * PACKETS / 40 && recovered >= 19 * lost {
            return;
        }
        // What stands still for longer than a link is waited for has lost what comes later. Not so on a
        // quiet machine, though a program may have stood still there, too.
        misses += usize::from(watch.finish().is_none());
        let fails = misses == MISSES || begun.elapsed() > PATIENCE;
        assert!(!fails, "recovered {recovered}, lost {lost}");
    }
}

#[test]
fn an_access_point_may_die_and_come_back() {
    let _alone = alone();
    let Some(mut world) = World::build(links(0.0), Sending::default()) else { return };
    world.start();
    let World { aps, testbed, .. } = &mut world;
    let dead = std::cell::RefCell::new(aps[0].take());
    transfer(testbed, ip(GATEWAY_V4), true, 4 << 20, || drop(dead.take()));
    let ap = world.start_ap(0);
    let begun = Instant::now();
    world.aps[0] = Some(ap);
    let up = |name: &'static str| {
        move |status: &Status| status.links.iter().any(|link| link.name == name && link.up)
    };
    world.gateway().wait_for("the gateway's link", up("mmwave"));
    world.device().wait_for("the device's link", up("mmwave"));
    eprintln!("back after {:.0?}", begun.elapsed());
    let before = world.ap(0).counter("packets_high");
    let begun = Instant::now();
    // While it stands still the other one carries all.
    while world.ap(0).counter("packets_high") <= before {
        assert!(begun.elapsed() < PATIENCE, "it does not carry again");
        transfer(&world.testbed, ip(GATEWAY_V4), true, 4 << 20, || {});
    }
}

#[test]
fn a_gateway_that_is_started_anew_is_followed() {
    let _alone = alone();
    let Some(mut world) = World::build(links(0.0), Sending::default()) else { return };
    world.start();
    transfer(&world.testbed, ip(GATEWAY_V4), true, 1 << 20, || {});
    world.gateway = None;
    world.gateway = Some(world.start_gateway());
    transfer(&world.testbed, ip(GATEWAY_V4), true, 1 << 20, || {});
    transfer(&world.testbed, ip(DEVICE_V4), false, 1 << 20, || {});
    world.device = None;
    world.device = Some(world.start_device());
    transfer(&world.testbed, ip(GATEWAY_V4), true, 1 << 20, || {});
}

#[test]
fn junk_is_counted_and_dropped_and_harms_nobody() {
    let _alone = alone();
    let Some(mut world) = World::build(links(0.0), Sending::default()) else { return };
    world.start();
    let target = world.ap_address(0);
    let socket = world.testbed.client.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    let junk = || {
        for round in 0..200_u32 {
            // Initiations, responses and data, none of which anybody made with a key.
            for kind in 0..4_u8 {
                let length = [60, 141, 73, 200][usize::from(kind)];
                let mut bytes = vec![round as u8; length];
                bytes[0] = kind;
                bytes[1..4].fill(0);
                // Index 0 names the first neighbour.
                bytes[4] = 0;
                socket.send_to(&bytes, target).unwrap();
            }
        }
    };
    transfer(&world.testbed, ip(GATEWAY_V4), true, 2 << 20, junk);
    let ap = world.ap(0);
    ap.wait_for("the junk is counted", |status| {
        let dropped = status.dropped;
        dropped.malformed >= 100 && dropped.handshakes >= 100 && dropped.unknown >= 100
    });
    eprintln!("{:?}", ap.status().dropped);
    transfer(&world.testbed, ip(GATEWAY_V4), true, 1 << 20, || {});
}

/// The first message of a stranger who knows a node's public key: all but the proof.
fn initiation_of_a_stranger(node: &SecretKey, number: u32) -> Vec<u8> {
    let digits = node.public().to_string();
    let digits = digits.strip_prefix("public:").unwrap().as_bytes();
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
    let key: Vec<u8> = digits.chunks_exact(2).map(byte).collect();
    let mac = hmac::Key::new(hmac::HMAC_SHA256, &[b"weftline cotag mac", &key[..]].concat());
    let mut initiation = vec![7; 1 + 4 + 8 + 96];
    initiation[0] = 1;
    initiation[1..5].copy_from_slice(&number.to_be_bytes());
    let mac = hmac::sign(&mac, &initiation);
    initiation.extend_from_slice(&mac.as_ref()[..16]);
    initiation.extend_from_slice(&[0; 16]);
    initiation
}

/// Does something while first messages of strangers come to `node` from so many addresses, the first thousand
/// of which it has counted.
fn under_a_flood<T>(
    testbed: &Testbed,
    (node, key, target): (&Node, &SecretKey, SocketAddr),
    addresses: u32,
    meanwhile: impl FnOnce() -> T,
) -> T {
    let before = node.status().dropped.handshakes;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| {
            let send = |number: u32| {
                let [_, a, b, c] = (number % addresses + 0x0001_0001).to_be_bytes();
                let socket = UdpSocket::bind(SocketAddr::from(([127, a, b, c], 0)))?;
                socket.send_to(&initiation_of_a_stranger(key, number), target)
            };
            let flood = || (0..u32::MAX).take_while(|_| !stop.load(Ordering::Relaxed));
            testbed.server.run(|| flood().try_for_each(|number| send(number).map(drop)))
        });
        // Whatever fails here, the flood is to end: the thread is waited for.
        let _stop = StopAtEnd(&stop);
        node.wait_for("the flood", |status| status.dropped.handshakes > before + 1_000);
        let done = meanwhile();
        assert!(!flooding.is_finished(), "the flood was over before");
        stop.store(true, Ordering::Relaxed);
        flooding.join().unwrap().unwrap();
        done
    })
}

/// Whether the first link is up.
fn has_first_link(status: &Status) -> bool {
    status.links.iter().any(|link| link.name == "mmwave" && link.up)
}

#[test]
fn a_flood_from_one_address_or_ten_thousand_keeps_no_access_point_out() {
    let _alone = alone();
    let Some(mut world) = World::build(links(0.0), Sending::default()) else { return };
    world.start();
    let target = SocketAddr::from(([127, 0, 0, 1], GATEWAY_PORT));
    for addresses in [1, 10_000] {
        world.aps[0] = None;
        let flooded = (world.gateway(), &world.keys.gateway, target);
        drop(under_a_flood(&world.testbed, flooded, addresses, || {
            let ap = world.start_ap(0);
            world.gateway().wait_for("the access point is in", has_first_link);
            world.device().wait_for("and the device's link", has_first_link);
            transfer(&world.testbed, ip(GATEWAY_V4), true, 1 << 20, || {});
            ap
        }));
    }
}

#[test]
fn nor_does_one_at_an_access_point_keep_a_device_out() {
    let _alone = alone();
    let Some(mut world) = World::build(links(0.0), Sending::default()) else { return };
    world.start();
    for addresses in [1, 10_000] {
        world.device = None;
        let flooded = (world.ap(0), &world.keys.aps[0], world.ap_address(0));
        drop(under_a_flood(&world.testbed, flooded, addresses, || {
            let device = world.start_device();
            device.wait_for("the device is in", has_first_link);
            transfer(&world.testbed, ip(GATEWAY_V4), true, 1 << 20, || {});
            device
        }));
    }
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_was_recorded_or_changed_on_the_way_is_dropped() {
    let _alone = alone();
    let Some(mut world) = World::build(links(0.0), Sending::default()) else { return };
    // The device's first link goes through somebody who repeats and changes what passes.
    let ap = world.ap_address(0);
    let socket = world.testbed.client.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    let port = socket.local_addr().unwrap().port();
    let mut between = ap;
    between.set_port(port);
    between.set_ip(ip("127.0.0.1"));
    world.first_link = Some(between);
    let relay = Relay::start(socket, ap);
    world.start();
    transfer(&world.testbed, ip(GATEWAY_V4), true, 2 << 20, || {});
    transfer(&world.testbed, ip(DEVICE_V4), false, 1 << 20, || {});
    // What both say to each other goes on, and through the relay, also if that stood still meanwhile.
    let both = |status: &Status| status.dropped.forged > 0 && status.dropped.replayed > 0;
    world.device().wait_for("both are counted by the device", both);
    world.ap(0).wait_for("both are counted by the access point", both);
    let (device, ap) = (world.device().status().dropped, world.ap(0).status().dropped);
    eprintln!("device {device:?}, access point {ap:?}");
    drop(relay);
}

/// Somebody on the way who sends every tenth datagram twice, and every tenth once more with a bit
/// changed.
struct Relay {
    stop: std::sync::Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Relay {
    fn start(socket: UdpSocket, far: SocketAddr) -> Self {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let wanted = std::sync::Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut near, mut passed) = (None, 0_u64);
            let mut bytes = vec![0; 65_536];
            while !wanted.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
                let to = if from == far {
                    near
                } else {
                    near = Some(from);
                    Some(far)
                };
                let Some(to) = to else { continue };
                passed += 1;
                let datagram = &mut bytes[..length];
                let _ = socket.send_to(datagram, to);
                if passed % 10 == 0 {
                    let _ = socket.send_to(datagram, to);
                } else if passed % 10 == 5 {
                    *datagram.last_mut().unwrap() ^= 1;
                    // Another counter, so that it is not taken for a copy.
                    datagram[12] ^= 0x80;
                    let _ = socket.send_to(datagram, to);
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn a_wrong_key_keeps_out_and_leaves_the_others_alone() {
    let _alone = alone();
    let Some(mut world) = World::build(links(0.0), Sending::default()) else { return };
    world.start();
    // A device with a key of its own, and one with the device's, beside the device.
    let stranger = world.start_second_device(&SecretKey::generate().unwrap());
    transfer(&world.testbed, ip(GATEWAY_V4), true, 1 << 20, || {});
    world.ap(0).wait_for("the stranger is counted", |status| status.dropped.handshakes > 0);
    assert!(stranger.status().links.iter().all(|link| !link.up));
    drop(stranger);
    let twin = world.start_second_device(&world.keys.device.clone());
    twin.wait_for("the twin gets in", |status| status.links.iter().any(|link| link.up));
    drop(twin);
    transfer(&world.testbed, ip(GATEWAY_V4), true, 1 << 20, || {});
}

/// How the gateway knows the second device.
fn second(status: &Status) -> &DeviceStatus {
    &status.devices[1]
}

#[test]
fn devices_share_the_nodes_leave_and_roam() {
    let _alone = alone();
    let Some(mut world) = World::build(links(0.0), Sending::default()) else { return };
    let key = SecretKey::generate().unwrap();
    world.second = Some(key.clone());
    world.start();
    let device = world.start_second_device(&key);
    let at_both = |status: &Status| second(status).up && second(status).through.len() == 2;
    world.gateway().wait_for("both access points reach the second device", at_both);
    let run = |ns: &Netns, arguments: &str| {
        let status = ns.command("ip").args(arguments.split(' ')).status().unwrap();
        assert!(status.success(), "ip {arguments}");
    };
    let routes = |world: &World| {
        // Both devices are in one namespace here: what is from the second one goes its way.
        run(&world.testbed.client, "route replace default dev dev2 table 7");
    };
    run(&world.testbed.server, "route add 10.9.1.0/24 dev gw");
    run(&world.testbed.client, "rule add from 10.9.1.2 table 7");
    routes(&world);
    let second_up = |world: &World| {
        transfer(&world.testbed, ip("10.9.1.2"), false, 1 << 20, || {});
    };
    second_up(&world);
    // One leaves while the other one is sent to.
    let leaves = std::cell::RefCell::new(Some(device));
    transfer(&world.testbed, ip(GATEWAY_V4), true, 4 << 20, || drop(leaves.take()));
    world.gateway().wait_for("the second device has left", |status| {
        !second(status).up && second(status).through.is_empty()
    });
    let count = |status: &Status, device: usize, name: &str| {
        let found = status.devices[device].counters.iter().find(|counter| counter.name == name);
        found.unwrap().value
    };
    world.gateway().wait_for("each device's bytes are counted", |status| {
        count(status, 0, "bytes_down") >= 4 << 20 && count(status, 1, "bytes_up") >= 1 << 20
    });
    assert!(world.ap(0).status().devices.iter().all(|device| !device.counters.is_empty()));
    // It comes back at one access point, and then at the other one.
    for (index, name) in ["mmwave", "sub6"].into_iter().enumerate() {
        world.only = Some(index);
        let device = world.start_second_device(&key);
        let roamed = |status: &Status| second(status).up && second(status).through == [name];
        world.gateway().wait_for("the second device is elsewhere", roamed);
        routes(&world);
        second_up(&world);
        drop(device);
    }
    transfer(&world.testbed, ip(GATEWAY_V4), true, 1 << 20, || {});
}
