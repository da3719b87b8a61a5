//! The emulator against closed forms, with real sockets of a real kernel.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use support::{PATIENCE, alone, link, path, udp_pair, v6, with_loss, with_queue, world};
use weftline_core::Bitrate;
use weftline_judged::{Attempt, verdict};
use weftline_lab::clock;
use weftline_lab::emulator::{Counters, EmulatorReport, SERIES_STEP, Start, Way};
use weftline_lab::testbed::Testbed;
use weftline_lab::topology::End;
use weftline_link::{LinkConfig, LossModel, RateTrace};

/// IPv4 and UDP headers.
const HEADERS: usize = 28;

/// Sends one echo request and waits for its answer; the round-trip time.
fn ping(socket: &Socket, to: SocketAddr, sequence: u16) -> Duration {
    let mut echo = vec![0; 64];
    // Echo request: type 8 (IPv4) or 128 (IPv6). The kernel fills in the IPv6 checksum.
    echo[0] = if to.is_ipv4() { 8 } else { 128 };
    echo[6..8].copy_from_slice(&sequence.to_be_bytes());
    if to.is_ipv4() {
        let sum = etherparse::checksum::Sum16BitWords::new().add_slice(&echo).ones_complement();
        echo[2..4].copy_from_slice(&sum.to_ne_bytes());
    }
    let sent = Instant::now();
    socket.send_to(&echo, &to.into()).unwrap();
    loop {
        let mut reply = [0; 256];
        let count = (&*socket).read(&mut reply).expect("the echo is answered");
        let at = if to.is_ipv4() { 20 } else { 0 };
        let is_reply = reply[at] == if to.is_ipv4() { 0 } else { 129 };
        if is_reply && count >= at + 64 && reply[at + 6..at + 8] == sequence.to_be_bytes() {
            return sent.elapsed();
        }
    }
}

/// A socket for echo requests to `to`.
fn echo_socket(testbed: &Testbed, to: SocketAddr) -> Socket {
    let (domain, protocol) = match to {
        SocketAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
        SocketAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
    };
    let socket = testbed.client.run(|| Socket::new(domain, Type::RAW, Some(protocol))).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Shortest round-trip time of 21 echoes, and of up to 210 while none is shorter than 40.5 ms: other
/// load can only delay the program that measures.
fn shortest_ping(testbed: &Testbed, to: SocketAddr) -> Duration {
    let socket = echo_socket(testbed, to);
    let mut least = Duration::MAX;
    for sequence in 0..210 {
        least = least.min(ping(&socket, to, sequence));
        if sequence >= 20 && least < Duration::from_micros(40_500) {
            break;
        }
    }
    least
}

/// A world of one path with 20 ms each way, and the server's addresses in it.
fn delayed() -> Option<(Testbed, [SocketAddr; 2])> {
    let testbed = world(vec![path("a", link(100, 20), link(100, 20))], Start::Explicit)?;
    let servers = [testbed.address(0, End::Server, 0), v6(End::Server, 0)];
    Some((testbed, servers))
}

#[test]
fn nothing_arrives_before_its_delay() {
    let _alone = alone();
    let Some((testbed, servers)) = delayed() else { return };
    for to in servers {
        let socket = echo_socket(&testbed, to);
        for sequence in 0..5 {
            let rtt = ping(&socket, to, sequence);
            assert!(rtt >= Duration::from_millis(40), "{rtt:?} to {to}");
        }
    }
}

/// The delay as the lab's design gives it: 40 ± 0.5 ms for 20 ms each way.
#[test]
#[ignore = "has a bound of time: make test-lab"]
fn the_delay_is_what_the_scenario_says() {
    let _alone = alone();
    verdict("the delay is what the scenario says", |_| {
        let (testbed, servers) = delayed()?;
        for to in servers {
            let rtt = shortest_ping(&testbed, to).as_secs_f64() * 1e3;
            assert!((40.0..40.5).contains(&rtt), "{rtt} ms to {to}");
        }
        Some(())
    });
}

/// What the link from the server to the client counts.
fn counted(testbed: &Testbed) -> Counters {
    testbed.emulator.report().unwrap().paths[0].down.counters
}

/// Waits until `done`.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends `count` packets of `size` bytes of payload from the server, each starting with its number,
/// and waits now and then until the emulator has taken them: the device's queue is short. When it
/// returns, the link has settled what becomes of each.
fn blast(testbed: &Testbed, from: &UdpSocket, count: u32, size: usize) {
    let before = counted(testbed);
    let taken = |counters: Counters| {
        counters.offered.packets + counters.unread - before.offered.packets - before.unread
    };
    let mut packet = vec![0; size];
    for number in 0..count {
        packet[..4].copy_from_slice(&number.to_be_bytes());
        from.send(&packet).unwrap();
        if number % 200 == 199 || number + 1 == count {
            let sent = u64::from(number) + 1;
            wait_for("the emulator takes the packets", || taken(counted(testbed)) == sent);
        }
    }
    wait_for("every packet is settled", || {
        let counters = counted(testbed);
        counters.settled() == counters.offered.packets
    });
}

/// The numbers of the packets that arrive until there are as many as `all` says, and when each came.
fn collect(at: &UdpSocket, all: &AtomicU64) -> Vec<(u32, Instant)> {
    let mut packet = [0; 2048];
    let mut numbers = Vec::new();
    let begun = Instant::now();
    while (numbers.len() as u64) < all.load(Ordering::SeqCst) && begun.elapsed() < PATIENCE {
        if at.recv(&mut packet).is_ok() {
            let number = u32::from_be_bytes(packet[..4].try_into().unwrap());
            numbers.push((number, Instant::now()));
        }
    }
    numbers
}

/// How many packets [`collect`] waits for while nobody knows it.
fn unknown() -> AtomicU64 {
    AtomicU64::new(u64::MAX)
}

/// What arrives at `client` of the packets that `send` sends, until the link has settled them all.
fn received(testbed: &Testbed, client: &UdpSocket, send: impl FnOnce()) -> Vec<(u32, Instant)> {
    let (before, all) = (counted(testbed).delivered.packets, unknown());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| collect(client, &all));
        send();
        all.store(counted(testbed).delivered.packets - before, Ordering::SeqCst);
        reader.join().unwrap()
    })
}

/// Offers a link of 20 Mb/s twice its rate for a second; how far it was from carrying its rate, and
/// what it counts.
fn overload() -> Option<(f64, EmulatorReport)> {
    let (size, mbps) = (1000, 20);
    // 80 ms: the link stays busy while the sender waits for a processor.
    let queue = 200 * (size + HEADERS) as u64;
    let paths = vec![path("a", with_queue(link(mbps, 5), queue), link(100, 5))];
    let testbed = world(paths, Start::Explicit)?;
    let (client, server) = udp_pair(&testbed);
    let total = 2 * mbps * 1_000_000 / 8 / (size + HEADERS) as u64;
    let got = received(&testbed, &client, || {
        let start = Instant::now();
        for number in 0..total as u32 {
            let mut packet = vec![0; size];
            packet[..4].copy_from_slice(&number.to_be_bytes());
            server.send(&packet).unwrap();
            let due = start + Duration::from_secs(1) * number / total as u32;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        wait_for("every packet is settled", || {
            let counters = counted(&testbed);
            counters.offered.packets + counters.unread == total
                && counters.settled() == counters.offered.packets
        });
    });
    assert!(got.is_sorted_by_key(|&(number, _)| number), "the order is kept");
    let report = testbed.emulator.report().unwrap();
    let counters = report.paths[0].down.counters;
    assert_eq!(counters.offered.packets + counters.unread, total);
    assert_eq!(counters.delivered.packets, got.len() as u64);
    assert_eq!(counters.queue_full.packets, counters.offered.packets - got.len() as u64);
    assert!(got.len() as u64 >= 200, "what fits its queue arrives: {counters:?}");
    let (first, last) = (got.first().unwrap(), got.last().unwrap());
    let bits = (got.len() - 1) * (size + HEADERS) * 8;
    let rate = bits as f64 / 1e6 / (last.1 - first.1).as_secs_f64();
    Some((rate / mbps as f64 - 1.0, report))
}

#[test]
fn a_full_link_counts_what_it_drops() {
    let _alone = alone();
    let _ = overload();
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn a_full_link_carries_its_rate_and_drops_the_rest() {
    let _alone = alone();
    verdict("a full link carries its rate and drops the rest", |attempt| {
        let (error, report) = overload()?;
        in_time(attempt, &report);
        assert!(error.abs() < 0.01, "{error}");
        assert_eq!(report.paths[0].down.counters.unread, 0);
        Some(())
    });
}

/// Says so if what was measured means nothing: a virtual machine's host may take its processors
/// away for longer than any queue bridges.
fn in_time(attempt: &Attempt, report: &EmulatorReport) {
    if !report.valid() {
        attempt.disturbed(format!(
            "the emulator was late with {} of the packets",
            report.late_share()
        ));
    }
}

/// The numbers that arrive of `count` packets over a link with that loss.
fn survivors(loss: LossModel, count: u32) -> Option<Vec<u32>> {
    let down = with_loss(link(1000, 1), loss);
    let down = with_queue(down, 1 << 30);
    let testbed = world(vec![path("a", down, link(1000, 1))], Start::Explicit)?;
    testbed.emulator.start(clock::now()).unwrap();
    let (client, server) = udp_pair(&testbed);
    let got = received(&testbed, &client, || blast(&testbed, &server, count, 100));
    let got: Vec<u32> = got.into_iter().map(|(number, _)| number).collect();
    let counters = counted(&testbed);
    assert_eq!((counters.offered.packets, counters.unread), (u64::from(count), 0));
    assert_eq!(counters.settled(), u64::from(count));
    assert_eq!(counters.lost.packets, u64::from(count) - got.len() as u64);
    Some(got)
}

#[test]
fn loss_has_its_probability_and_its_seed() {
    let _alone = alone();
    let (count, p) = (20_000, 0.05);
    let Some(first) = survivors(LossModel::Bernoulli(p), count) else { return };
    let lost = f64::from(count) - first.len() as f64;
    let sigma = (f64::from(count) * p * (1.0 - p)).sqrt();
    assert!((lost - f64::from(count) * p).abs() < 4.0 * sigma, "{lost} lost");
    let second = survivors(LossModel::Bernoulli(p), count).unwrap();
    assert_eq!(first, second, "the same seed loses the same packets");
}

#[test]
fn listed_packets_are_lost() {
    let _alone = alone();
    let Some(got) = survivors(LossModel::Nth(vec![3, 10, 11]), 20) else { return };
    let lost: Vec<u32> = (0..20).filter(|number| !got.contains(number)).collect();
    // The model counts from one or from zero; the distances tell that each was counted once.
    assert_eq!((lost.len(), lost[1] - lost[0], lost[2] - lost[1]), (3, 7, 1), "{lost:?}");
}

/// Bytes that differ everywhere.
fn content(len: usize, salt: u64) -> Vec<u8> {
    let mut state = salt | 1;
    let next = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

/// Sends `out` and receives as much as the peer sends, at the same time.
fn exchange(stream: &TcpStream, out: &[u8]) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&*stream).write_all(out).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        (&*stream).read_to_end(&mut received).unwrap();
        received
    })
}

#[test]
fn tcp_super_packets_arrive_unchanged_both_ways() {
    let _alone = alone();
    let loss = |link| with_loss(link, LossModel::Bernoulli(0.002));
    let paths = vec![path("a", loss(link(400, 1)), loss(link(400, 1)))];
    let Some(testbed) = world(paths, Start::Explicit) else { return };
    for address in [testbed.address(0, End::Server, 5000), v6(End::Server, 5000)] {
        let before = testbed.emulator.report().unwrap();
        let listener = testbed.server.run(|| TcpListener::bind(address)).unwrap();
        socket2::SockRef::from(&listener).set_read_timeout(Some(PATIENCE)).unwrap();
        let (down, up) = (content(12_000_000, 1), content(12_000_000, 2));
        let (down_sent, up_expected) = (down.clone(), up.clone());
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            assert!(exchange(&stream, &down_sent) == up_expected, "upload differs");
        });
        let dial = || TcpStream::connect_timeout(&address, PATIENCE);
        let stream = testbed.client.run(dial).unwrap();
        assert!(exchange(&stream, &up) == down, "download differs");
        server.join().unwrap();
        let report = testbed.emulator.report().unwrap();
        let (now, then) = (&report.paths[0], &before.paths[0]);
        for (now, then) in [(&now.down, &then.down), (&now.up, &then.up)] {
            let (now, then) = (now.counters, then.counters);
            let packets = now.offered.packets - then.offered.packets;
            // Loss and losses' repairs break super-packets up, but far from all of them.
            assert!(now.reads - then.reads < packets / 2, "super-packets came: {now:?}");
            assert!(now.writes - then.writes < packets, "super-packets left: {now:?}");
            assert!(now.lost.packets > then.lost.packets, "segments were lost: {now:?}");
        }
    }
}

/// 10 Mb/s for half a second, 40 Mb/s for the next, again and again.
fn stepped() -> LinkConfig {
    let half = Duration::from_millis(500);
    let steps = vec![(Duration::ZERO, Bitrate::mbps(10)), (half, Bitrate::mbps(40))];
    let rate = RateTrace::from_steps(steps, 2 * half).unwrap();
    // 40 ms at the higher rate: the link stays busy while the sender waits for a processor.
    LinkConfig { rate, ..with_queue(link(1, 5), 200_000) }
}

/// Offers more than a stepped link carries, with short pauses.
fn flood(from: &UdpSocket, until: Instant) {
    let packet = vec![0; 1200];
    while Instant::now() < until {
        for _ in 0..8 {
            from.send(&packet).unwrap();
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[test]
fn a_trace_starts_at_the_time_it_is_given() {
    let _alone = alone();
    let Some(testbed) = world(vec![path("a", stepped(), link(100, 5))], Start::Explicit) else {
        return;
    };
    let (client, server) = udp_pair(&testbed);
    let got = received(&testbed, &client, || blast(&testbed, &server, 10, 1200));
    assert_eq!(got.len(), 10, "a link carries before its trace starts");
    let before = testbed.emulator.report().unwrap();
    assert_eq!((before.epoch, before.paths[0].down.series.len()), (None, 0));
    let epoch = clock::now() + Duration::from_millis(50);
    testbed.emulator.start(epoch).unwrap();
    assert_eq!(testbed.emulator.report().unwrap().epoch, Some(epoch));
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn a_trace_starts_when_told() {
    let _alone = alone();
    verdict("a trace starts when told", |attempt| {
        let testbed = world(vec![path("a", stepped(), link(100, 5))], Start::Explicit)?;
        let (_client, server) = udp_pair(&testbed);
        // Longer than the first step: the trace must wait for its start.
        flood(&server, Instant::now() + Duration::from_millis(700));
        let begin = Instant::now() + Duration::from_millis(50);
        testbed.emulator.start(clock::now() + Duration::from_millis(50)).unwrap();
        flood(&server, begin + Duration::from_millis(1250));
        let report = testbed.emulator.report().unwrap();
        in_time(attempt, &report);
        check_steps(&report.paths[0].down.series);
        Some(())
    });
}

/// Checks that a stepped link delivered its rate in each step.
fn check_steps(series: &[u64]) {
    let payload = |mbps: u64| {
        let wire = Bitrate::mbps(mbps).bytes_in(SERIES_STEP).as_u64() as f64;
        wire * 1200.0 / (1200 + HEADERS) as f64
    };
    for (step, &bytes) in series.iter().enumerate().take(12) {
        // The packet under way and the 5 ms of delay blur the two steps at a change.
        if step % 5 == 0 {
            continue;
        }
        let expected = payload(if step % 10 < 5 { 10 } else { 40 });
        let off = (bytes as f64 - expected).abs();
        assert!(off < 0.03 * expected, "step {step}: {bytes} bytes instead of {expected}");
    }
}

#[test]
fn a_trace_starts_with_the_first_data() {
    let _alone = alone();
    let paths = vec![path("a", stepped(), link(100, 5))];
    let Some(testbed) = world(paths, Start::FirstData(1024)) else { return };
    let (_client, server) = udp_pair(&testbed);
    blast(&testbed, &server, 10, 1000);
    assert_eq!(testbed.emulator.report().unwrap().epoch, None, "small packets are no data");
    let before = clock::now();
    blast(&testbed, &server, 1, 1024);
    let epoch = testbed.emulator.report().unwrap().epoch.expect("there was data");
    assert!(epoch >= before && epoch <= clock::now());
}

#[test]
fn a_cut_path_carries_nothing() {
    let _alone = alone();
    let Some(testbed) = world(vec![path("a", link(100, 1), link(100, 1))], Start::Explicit) else {
        return;
    };
    let (client, server) = udp_pair(&testbed);
    // What a cut drops is counted, and then nothing of it comes any more.
    let arrives = |way: Way| {
        let counters = || {
            let path = &testbed.emulator.report().unwrap().paths[0];
            if way == Way::Down { path.down.counters } else { path.up.counters }
        };
        let (from, to) = if way == Way::Down { (&server, &client) } else { (&client, &server) };
        let before = counters();
        from.send(&[0; 4]).unwrap();
        wait_for("the packet is settled", || counters().settled() == before.settled() + 1);
        if counters().delivered.packets > before.delivered.packets {
            wait_for("the packet comes", || to.recv(&mut [0; 16]).is_ok());
            return true;
        }
        assert_eq!(counters().cut.packets, before.cut.packets + 1);
        to.set_nonblocking(true).unwrap();
        assert!(to.recv(&mut [0; 16]).is_err(), "a packet that was dropped comes");
        to.set_nonblocking(false).unwrap();
        false
    };
    assert!(arrives(Way::Down) && arrives(Way::Up));
    testbed.emulator.cut("a", Some(Way::Up), true).unwrap();
    assert!(arrives(Way::Down) && !arrives(Way::Up));
    testbed.emulator.cut("a", Some(Way::Down), true).unwrap();
    assert!(!arrives(Way::Down) && !arrives(Way::Up));
    testbed.emulator.cut("a", None, false).unwrap();
    assert!(arrives(Way::Down) && arrives(Way::Up));
    let counters = testbed.emulator.report().unwrap().paths[0].up.counters;
    assert_eq!((counters.cut.packets, counters.delivered.packets), (2, 2));
    assert!(testbed.emulator.cut("b", None, true).is_err());
}

#[test]
fn a_device_that_is_down_costs_packets_not_the_run() {
    let _alone = alone();
    let Some(testbed) = world(vec![path("a", link(100, 1), link(100, 1))], Start::Explicit) else {
        return;
    };
    let (client, server) = udp_pair(&testbed);
    let set = |state: &str| {
        let mut command = testbed.client.command("ip");
        assert!(command.args(["link", "set", "dev", "a", state]).status().unwrap().success());
    };
    set("down");
    let came = received(&testbed, &client, || blast(&testbed, &server, 5, 100));
    assert!(came.is_empty());
    assert_eq!(counted(&testbed).write_failed.packets, 5);
    set("up");
    let came = received(&testbed, &client, || blast(&testbed, &server, 5, 100));
    assert_eq!(came.len(), 5);
}
