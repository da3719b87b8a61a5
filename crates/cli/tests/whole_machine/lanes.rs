//! UDP, DNS and ICMP through the server, over both links.

pub(crate) mod dns;
mod lengths;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use weftline_lab::netns::Netns;

use crate::common::{Daemon, PATIENCE, weftline};
use crate::network::{FAR_V4, Network, PRIVATE, SERVER, SITE_V6, ip, join, shows, text};
use crate::sniffer::{Classes, Sniffer};
use dns::{QUERY, resolver, serve_with_resolver};

/// A machine of the internet that answers each datagram with who sent it, a space, and what was in it.
pub(crate) struct Echo {
    pub(crate) address: SocketAddr,
    asked: Arc<AtomicU64>,
}

impl Echo {
    pub(crate) fn start(ns: &Netns, address: &str) -> Self {
        let address: SocketAddr = address.parse().unwrap();
        let socket = ns.run(|| UdpSocket::bind(address)).unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        thread::spawn(move || {
            let mut buffer = [0; 2048];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                count.fetch_add(1, Ordering::SeqCst);
                let answer = [format!("{} ", from.ip()).as_bytes(), &buffer[..length]].concat();
                let _ = socket.send_to(&answer, from);
            }
        });
        Self { address, asked }
    }

    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

/// A socket of a program, bound to nothing.
fn socket(net: &Network, is_ipv4: bool) -> UdpSocket {
    socket_of(&net.client, is_ipv4)
}

fn socket_of(ns: &Netns, is_ipv4: bool) -> UdpSocket {
    let any = if is_ipv4 { "0.0.0.0:0" } else { "[::]:0" };
    let socket = ns.run(|| UdpSocket::bind(any)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket
}

/// What is answered to a question, which is asked again and again until it is.
#[track_caller]
pub(crate) fn ask(net: &Network, to: SocketAddr, question: &[u8]) -> Vec<u8> {
    ask_from(&net.client, to, question)
}

/// The same of a machine.
#[track_caller]
pub(crate) fn ask_from(ns: &Netns, to: SocketAddr, question: &[u8]) -> Vec<u8> {
    let socket = socket_of(ns, to.is_ipv4());
    let (began, mut buffer) = (Instant::now(), [0; 2048]);
    loop {
        let _ = socket.send_to(question, to);
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                assert_eq!(from, to);
                return buffer[..length].to_vec();
            }
            Err(error) => assert!(began.elapsed() < PATIENCE, "{to}: {error}"),
        }
    }
}

/// One answered ping, or what `ping` says; `None` where there is none. In CI there must be one.
pub(crate) fn ping(net: &Network, more: &[&str]) -> Option<std::process::Output> {
    let got = net.client.command("ping").args(["-c", "1", "-w", "400"]).args(more).output();
    assert!(got.is_ok() || std::env::var_os("CI").is_none(), "in CI there is ping: {got:?}");
    got.inspect_err(|error| eprintln!("not looked at: ICMP, without ping: {error}")).ok()
}

/// The status of a daemon that has lanes. One whose lanes do not say within a second how they are shows none:
/// it is asked again.
#[track_caller]
pub(crate) fn status_with_lanes(net: &Network, ns: &Netns, more: &[&str]) -> serde_json::Value {
    let began = Instant::now();
    loop {
        let shown = net.run(ns, &[&["status", "--json"], more].concat());
        let status: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
        if status["bonds"].as_array().is_some_and(|bonds| !bonds.is_empty()) {
            return status;
        }
        assert!(began.elapsed() < PATIENCE, "its lanes say nothing: {status}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The lanes over links in a status: another one, over TCP, comes where a machine stands still for a second.
pub(crate) fn lanes_of_links(status: &serde_json::Value) -> Vec<serde_json::Value> {
    let lanes = status["bonds"][0]["lanes"].as_array().cloned().unwrap_or_default();
    lanes.into_iter().filter(|lane| lane["carrier"] == "udp").collect()
}

/// What a daemon counts, by names.
#[track_caller]
pub(crate) fn counters(net: &Network, ns: &Netns, control: &str) -> BTreeMap<String, u64> {
    let status = status_with_lanes(net, ns, &["--control", control]);
    let mut all = BTreeMap::new();
    for bond in status["bonds"].as_array().into_iter().flatten() {
        for (name, value) in bond["counters"].as_object().unwrap() {
            *all.entry(name.clone()).or_default() += value.as_u64().unwrap();
        }
    }
    all
}

/// Waits until a daemon has counted something, of which `send` sends one more: a datagram may be lost.
#[track_caller]
pub(crate) fn comes_to_count(
    net: &Network,
    ns: &Netns,
    control: &str,
    name: &str,
    send: impl Fn(),
) {
    let began = Instant::now();
    loop {
        send();
        let all = counters(net, ns, control);
        if all.get(name).is_some_and(|value| *value > 0) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{name}: {all:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// What is shown of a client's scope where its lanes carry what is no TCP.
pub(crate) const ALL: &str = "weft0: all TCP, UDP and ICMP of this machine";

pub(crate) fn up(net: &Network, invite: &str) -> Daemon {
    up_with(net, invite, &[])
}

pub(crate) fn up_with(net: &Network, invite: &str, more: &[&str]) -> Daemon {
    let args = [&net.up_args(invite)[..], more].concat();
    let mut up = Daemon::spawn(&mut net.command(&net.client, &args));
    up.says("up:");
    // Where this machine stands still the first lane may come after that. A server may be in the same
    // directory.
    let control = net.run.path().join(format!("up-{}.sock", up.id()));
    let status = ["status", "--control", control.to_str().unwrap()];
    shows(|| net.command(&net.client, &status), ALL);
    up
}

#[test]
fn udp_and_icmp_go_through_the_server_by_both_families() {
    let Some(net) = Network::set_up() else { return };
    let v4 = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let v6 = Echo::start(&net.internet, &format!("[{SITE_V6}]:7000"));
    // What speaks to the server's machine past the bond.
    let beyond = net.server.run(|| UdpSocket::bind((SERVER, 9000))).unwrap();
    beyond.set_read_timeout(Some(PATIENCE)).unwrap();
    let from_before = socket(&net, true);
    from_before.connect((SERVER, 9000)).unwrap();
    let before = net.snapshot();
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let up = up(&net, &invite);
    let bound = net.client.run(|| UdpSocket::bind("10.64.3.9:0")).unwrap();
    for (socket, seen) in [(&from_before, "192.168.1.20"), (&bound, "10.64.3.9")] {
        socket.send_to(b"as before", (SERVER, 9000)).unwrap();
        let (_, from) = beyond.recv_from(&mut [0; 16]).unwrap();
        assert_eq!(from.ip().to_string(), seen);
    }
    assert_eq!(text(&ask(&net, v4.address, b"who")), "198.51.100.1 who");
    assert_eq!(text(&ask(&net, v6.address, b"who")), "2001:db8:9::1 who");
    // Longer than a lane's datagram, in fragments.
    let long = [b'x'; 1900];
    assert_eq!(ask(&net, v4.address, &long).len(), long.len() + "198.51.100.1 ".len());
    if let Some(got) = ping(&net, &[FAR_V4]) {
        assert!(got.status.success(), "{got:?}");
        let got = ping(&net, &["-6", SITE_V6]).unwrap();
        assert!(got.status.success(), "{got:?}");
        // The server is the first hop, and the machine the second.
        let got = ping(&net, &["-t", "1", FAR_V4]).unwrap();
        assert!(text(&got.stdout).contains("exceeded"), "{got:?}");
    }
    // One lane is enough for all of that, and one whose end stands still is silent for a moment.
    let began = Instant::now();
    loop {
        let status = text(&net.run(&net.client, &["status"]).stdout);
        let is_up = |link: &&str| {
            let is_lane = |line: &str| line.trim().starts_with(link) && line.contains("active  up");
            status.lines().any(is_lane)
        };
        // Of lanes that do not say within a second how they are nothing is shown.
        let is_said = status.contains("UDP, ICMP and all else");
        if is_said && ["wlan0", "wwan0"].iter().all(is_up) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{status}");
        thread::sleep(Duration::from_millis(20));
    }
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    net.restored(&before);
    drop(server);
}

#[test]
fn a_program_that_talks_loses_nothing_with_a_link() {
    for is_silent in [false, true] {
        let Some(net) = Network::set_up() else { return };
        let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
        let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
        let _up = up(&net, &invite);
        ask(&net, far.address, b"who");
        both_lanes_up(&net);
        talk(&net, far.address, || {
            // Where the machine stood still a lane may be silent for a moment.
            both_lanes_up(&net);
            cut(&net, is_silent);
        });
    }
}

/// A program talks with a machine of the internet, 50 times a second for three, and has each answer once,
/// whatever happens halfway.
#[track_caller]
pub(crate) fn talk(net: &Network, to: SocketAddr, halfway: impl Fn()) {
    const PACKETS: u64 = 150;
    let socket = socket(net, true);
    let listener = socket.try_clone().unwrap();
    let heard = thread::spawn(move || {
        let (mut heard, mut buffer) = (BTreeMap::<u64, u64>::new(), [0; 256]);
        let began = Instant::now();
        while heard.len() < PACKETS as usize && began.elapsed() < PATIENCE {
            let Ok((length, _)) = listener.recv_from(&mut buffer) else { continue };
            let said = text(&buffer[..length]);
            let number = said.split(' ').nth(1).unwrap().parse().unwrap();
            *heard.entry(number).or_default() += 1;
        }
        heard
    });
    for n in 0..PACKETS {
        let padded = format!("{n} {:60}", "");
        socket.send_to(padded.as_bytes(), to).unwrap();
        if n == PACKETS / 2 {
            halfway();
        }
        thread::sleep(Duration::from_millis(20));
    }
    let heard = heard.join().unwrap();
    let missing: Vec<_> = (0..PACKETS).filter(|n| !heard.contains_key(n)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(heard.values().all(|times| *times == 1), "each came once: {heard:?}");
}

/// Waits until both lanes are known to carry something, at both ends.
pub(crate) fn both_lanes_up(net: &Network) {
    let began = Instant::now();
    loop {
        let status = status_with_lanes(net, &net.client, &[]);
        let lanes = lanes_of_links(&status).into_iter();
        let up = lanes.filter(|lane| lane["state"] == "up" && lane["mtu"] == 1400).count();
        if up == 2 {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{status}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Ends the link of the least metric: its interface goes down, or all that is sent there vanishes.
fn cut(net: &Network, is_silent: bool) {
    if !is_silent {
        return ip(&net.client, "link set wlan0 down");
    }
    let nobody = "lladdr 02:00:00:00:00:99 dev wlan0 nud permanent";
    ip(&net.client, &format!("neigh replace 192.168.1.1 {nobody}"));
    ip(&net.server, &format!("neigh replace 192.168.1.20 {nobody}"));
}

/// A flow that understands marks of congestion keeps its class, and routers of the links may mark it; they
/// see nothing else of the class.
#[test]
fn ecn_goes_into_the_lanes_and_out_of_them_and_dscp_stays_inside() {
    let Some(net) = Network::set_up() else { return };
    let server = SocketAddr::new(SERVER.parse().unwrap(), 4433);
    let far = net.internet.run(|| UdpSocket::bind((FAR_V4, 7000))).unwrap();
    far.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let (_server, invite) =
        net.serve(&["--listen", "0.0.0.0:4433", "--public", &server.to_string()]);
    let _up = up(&net, &invite);
    let mut there = [Classes::look(&net.server, 4433), Classes::look(&net.internet, 7000)];
    let program = socket(&net, true);
    let port = program.local_addr().unwrap().port();
    // Each end's packets: expedited and ECT(0), a mark alone.
    socket2::SockRef::from(&program).set_tos_v4(0xba).unwrap();
    socket2::SockRef::from(&far).set_tos_v4(0x03).unwrap();
    let mut back = Classes::look(&net.client, port);
    let (began, mut seen) = (Instant::now(), [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()]);
    let wanted = [BTreeSet::from([0x00, 0x02]), BTreeSet::from([0xba]), BTreeSet::from([0x03])];
    while seen != wanted {
        assert!(began.elapsed() < PATIENCE, "{seen:x?}, not {wanted:x?}");
        program.send_to(b"a question", (FAR_V4, 7000)).unwrap();
        let Ok((_, from)) = far.recv_from(&mut [0; 64]) else { continue };
        far.send_to(b"an answer", from).unwrap();
        let _ = program.recv_from(&mut [0; 64]);
        for (seen, classes) in seen.iter_mut().zip(there.iter_mut().chain([&mut back])) {
            seen.extend(classes.seen());
        }
    }
}

#[test]
fn links_show_nothing_but_the_server_s_port() {
    let Some(net) = Network::set_up() else { return };
    let v4 = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let v6 = Echo::start(&net.internet, &format!("[{SITE_V6}]:7000"));
    let _asked = resolver(&net.server);
    // IPv6 would find its way by a link, too.
    ip(&net.client, "addr add 2001:db8:1::20/64 dev wlan0 nodad");
    ip(&net.server, "addr add 2001:db8:1::1/64 dev wlan0 nodad");
    ip(&net.client, "-6 route add default via 2001:db8:1::1 dev wlan0");
    let server = SocketAddr::new(SERVER.parse().unwrap(), 4433);
    let (_server, invite) =
        serve_with_resolver(&net, &["--listen", "0.0.0.0:4433", "--public", &server.to_string()]);
    let up = up(&net, &invite);
    let sniffer = Sniffer::start(&net, server);
    let talk = || {
        ask(&net, v4.address, b"who");
        ask(&net, v6.address, b"who");
        ask(&net, "192.168.1.1:53".parse().unwrap(), QUERY);
        ping(&net, &[FAR_V4]);
        // What the server lets nobody go to, and what is nowhere.
        let socket = socket(&net, true);
        for to in [format!("{PRIVATE}:9"), format!("{SERVER}:53000"), "192.0.2.1:9".to_owned()] {
            socket.send_to(b"a question", to).unwrap();
        }
    };
    talk();
    ip(&net.client, "link set wlan0 down");
    talk();
    ip(&net.client, "link set wlan0 up");
    ip(&net.client, "route add default via 192.168.1.1 dev wlan0 metric 600");
    talk();
    let mut seen = sniffer.stop(&net);
    for word in ["ARP", "neighbour discovery", "TCP with the server"] {
        seen.remove(word);
    }
    assert!(seen.remove("UDP with the server"), "{seen:?}");
    assert!(seen.is_empty(), "{seen:?}");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
}

#[test]
fn packets_go_only_where_connections_may_and_only_from_their_client() {
    let Some(net) = Network::set_up() else { return };
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let private = Echo::start(&net.internet, &format!("{PRIVATE}:7000"));
    let own = Echo::start(&net.server, "198.51.100.1:7000");
    let control = net.run.path().join("serve.sock");
    let control = control.to_str().unwrap();
    let (_server, invite) = net.serve_with_control(control, &["--listen", "0.0.0.0:0"]);
    let _up = up(&net, &invite);
    ask(&net, far.address, b"who");
    let socket = socket(&net, true);
    comes_to_count(&net, &net.server, control, "closed", || {
        for closed in [private.address, own.address, "169.254.169.254:80".parse().unwrap()] {
            socket.send_to(b"let me in", closed).unwrap();
        }
    });
    // An address that is not this client's.
    ip(&net.client, "addr add 10.87.9.9/32 dev weft0");
    ip(&net.client, "rule add pref 5000 from 10.87.9.9 lookup 30565");
    let forged = net.client.run(|| UdpSocket::bind("10.87.9.9:0")).unwrap();
    comes_to_count(&net, &net.server, control, "wrong_address", || {
        forged.send_to(b"not me", far.address).unwrap();
    });
    // Once more, so that all before has been judged.
    let before = far.asked();
    ask(&net, far.address, b"who");
    assert!(far.asked() > before && private.asked() == 0 && own.asked() == 0);
    // From outside nobody begins to speak to a client.
    let outside = net.internet.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    let mut route = net.internet.command("ip");
    let route = route.args(["route", "add", "10.87.0.2/32", "via", "198.51.100.1"]).status();
    assert!(route.unwrap().success());
    let inside = net.client.run(|| UdpSocket::bind("0.0.0.0:7001")).unwrap();
    inside.set_nonblocking(true).unwrap();
    outside.send_to(b"hello", "10.87.0.2:7001").unwrap();
    ask(&net, far.address, b"who");
    assert!(inside.recv_from(&mut [0; 64]).is_err());
}

#[test]
fn a_server_that_is_killed_leaves_nothing_behind_and_is_followed_by_another() {
    let Some(net) = Network::set_up() else { return };
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    // As a machine has it that is no router.
    net.server
        .run(|| {
            fs::write("/proc/sys/net/ipv4/ip_forward", "0")?;
            fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "0")
        })
        .unwrap();
    let before = Network::snapshot_of(&net.server);
    let port = ["--listen", "0.0.0.0:4433"];
    let (server, invite) = net.serve(&port);
    let up = up(&net, &invite);
    assert_eq!(text(&ask(&net, far.address, b"who")), "198.51.100.1 who");
    assert_ne!(Network::snapshot_of(&net.server), before);
    server.signal("-KILL");
    assert_eq!(server.end().0, None);
    Network::restored_of(&net.server, &before);
    // The client agrees on other keys with the next one.
    let (server, _) = net.serve(&port);
    assert_eq!(text(&ask(&net, far.address, b"again")), "198.51.100.1 again");
    drop(up);
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
    Network::restored_of(&net.server, &before);
}

/// As a modem's, or one that is joined again: no router by itself, and none now but for clients.
#[test]
fn a_link_of_the_server_that_comes_later_carries_answers_and_makes_it_no_router() {
    let Some(net) = Network::set_up() else { return };
    let off =
        |name: &'static str| fs::write(format!("/proc/sys/net/ipv4/conf/{name}/forwarding"), "0");
    let all = ["all", "default", "lo", "wlan0", "wwan0", "eth0"];
    net.server.run(|| all.into_iter().try_for_each(off)).unwrap();
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let _up = up(&net, &invite);
    let (later, beside) = (Netns::create().unwrap(), Netns::create().unwrap());
    for (ns, link, address, own) in [
        (&later, "eth5", "100.66.5.9", "100.66.5.1"),
        (&beside, "eth6", "100.67.6.9", "100.67.6.1"),
    ] {
        ip(ns, "link set lo up");
        join((ns, "eth0"), (&net.server, link));
        ip(ns, &format!("addr add {address}/24 dev eth0"));
        ip(&net.server, &format!("addr add {own}/24 dev {link}"));
        ip(ns, &format!("route add default via {own} dev eth0"));
    }
    ip(&later, "addr add 9.9.9.9/32 dev lo");
    ip(&net.server, "route add 9.9.9.9/32 via 100.66.5.9 dev eth5");
    let far = Echo::start(&later, "9.9.9.9:7000");
    assert_eq!(text(&ask(&net, far.address, b"who")), "100.66.5.1 who");
    server.logs("carry answers to clients, too");
    // From one of them to the other nothing goes.
    let before = far.asked();
    let socket = beside.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    (0..10).for_each(|_| _ = socket.send_to(b"let me through", far.address).unwrap());
    ask(&net, far.address, b"who");
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(socket.recv_from(&mut [0; 64]).is_err(), "it is no router");
    assert!(far.asked() > before);
    let forwards = |link: &str| {
        let sysctl = format!("/proc/sys/net/ipv4/conf/{link}/forwarding");
        net.server.run(|| fs::read_to_string(sysctl)).unwrap().trim() == "1"
    };
    assert!(forwards("eth5"));
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
    // Its janitor may not be through.
    let began = Instant::now();
    while forwards("eth5") || forwards("eth0") {
        assert!(began.elapsed() < PATIENCE, "it is a router still");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A server that has lost which client has which number gives this one another, and other addresses with it.
#[test]
fn a_client_that_is_given_another_number_goes_on_by_other_addresses() {
    let Some(net) = Network::set_up() else { return };
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let port = ["--listen", "0.0.0.0:4433"];
    let (server, invite) = net.serve(&port);
    let before = net.snapshot();
    let up = up(&net, &invite);
    assert_eq!(text(&ask(&net, far.address, b"who")), "198.51.100.1 who");
    let has = |address: &str| {
        let shown = net.client.command("ip").args(["-o", "addr", "show", "weft0"]).output();
        text(&shown.unwrap().stdout).contains(&format!(" {address}/"))
    };
    assert!(has("10.87.0.2") && has("fd57:6566:7400::2"));
    server.signal("-KILL");
    assert_eq!(server.end().0, None);
    net.server_is_cleared_away();
    fs::write(net.state.path().join("internet.addresses"), "somebody = 2\n").unwrap();
    let (_server, _) = net.serve(&port);
    let began = Instant::now();
    while !has("10.87.0.3") || !has("fd57:6566:7400::3") || has("10.87.0.2") {
        assert!(began.elapsed() < PATIENCE, "the addresses are those of before");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(text(&ask(&net, far.address, b"again")), "198.51.100.1 again");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    net.restored(&before);
}

#[test]
fn without_lanes_tcp_goes_on_alone() {
    let Some(net) = Network::set_up() else { return };
    let site = crate::site::Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let (server, invite) = net.serve_tcp_alone(&["--listen", "0.0.0.0:4433"]);
    server.logs("clients' TCP is carried, their UDP, DNS and ICMP are not");
    let mut up = Daemon::spawn(&mut net.command(&net.client, &net.up_args(&invite)));
    let said = up.says("up:");
    assert!(said.contains("all TCP of this machine"), "{said}");
    up.logs("the server carries TCP only");
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1");
    let rules = net.client.command("ip").args(["rule"]).output().unwrap();
    let rules = text(&rules.stdout);
    let ours = rules.lines().filter(|line| line.contains("30565"));
    // What has our address already is for us, whatever it is: no other link has a way for it.
    let new = ours.filter(|rule| !rule.contains("from 10.87."));
    assert!(
        new.clone().count() > 0 && new.clone().all(|rule| rule.contains("ipproto tcp")),
        "{rules}"
    );
    // One that may do more in its place is noticed.
    server.signal("-KILL");
    assert_eq!(server.end().0, None);
    let _server = net.serve(&["--listen", "0.0.0.0:4433"]);
    net.comes_to_show(ALL);
}

/// A machine on which Docker runs: what it forwards is dropped unless a rule lets it through.
#[test]
fn a_firewall_that_lets_nothing_through_the_server_is_told_of() {
    const WHAT: &str =
        "drops what it forwards, and so clients' UDP and ICMP (table 'filter', chain 'FORWARD')";
    let Some(net) = Network::set_up() else { return };
    let nft = |script: &str| {
        let done = net.server.command("nft").arg(script).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    nft("add table ip filter; add table ip6 filter");
    nft("add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }");
    let doctor = || {
        let options = ["doctor", "serve", "--internet", "--listen", "0.0.0.0:4433"];
        let options = [&options[..], &["--state-dir", net.state(), "--control", "none"]].concat();
        text(&net.run(&net.server, &options).stdout)
    };
    let said = doctor();
    assert!(said.contains(WHAT) && said.contains("'ufw route allow in on weft-exit'"), "{said}");
    assert!(!said.contains("port 4433/udp"), "{said}");
    let (server, _) = net.serve(&["--listen", "0.0.0.0:4433"]);
    server.logs(WHAT);
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
    // As the line says.
    nft("add rule ip filter FORWARD iifname weft-exit accept");
    nft("add rule ip filter FORWARD oifname weft-exit accept");
    let said = doctor();
    assert!(!said.contains(WHAT), "{said}");
    // What drops IPv6 alone is of no matter where there is none.
    nft("add chain ip6 filter FORWARD { type filter hook forward priority 0; policy drop; }");
    let said = doctor();
    assert!(said.contains("chain 'FORWARD' of IPv6"), "{said}");
    ip(&net.server, "-6 route del default");
    let said = doctor();
    assert!(!said.contains("FORWARD"), "{said}");
    // Open to TCP alone.
    nft("add chain ip filter INPUT { type filter hook input priority 0; policy drop; }");
    nft("add rule ip filter INPUT tcp dport 4433 accept");
    let said = doctor();
    assert!(said.contains("port 4433/udp") && said.contains("'ufw allow 4433/udp'"), "{said}");
    nft("flush chain ip filter INPUT");
    nft("delete chain ip filter INPUT");
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    let up = up(&net, &invite);
    assert_eq!(text(&ask(&net, far.address, b"who")), "198.51.100.1 who");
    drop(up);
    server.signal("-TERM");
    let log = server.all_it_logged();
    assert!(!log.iter().any(|line| line.contains(WHAT)), "{log:?}");
}

/// Drops UDP to the server's port where it comes in, or no more: as a firewall does that lets TCP through.
pub(crate) fn block_udp(net: &Network, port: u16, is_blocked: bool) {
    let rule = format!("pref 1 ipproto udp dport {port} blackhole");
    if !is_blocked {
        return ip(&net.server, &format!("rule del {rule}"));
    }
    // What is for the machine itself is judged first of all.
    ip(&net.server, "rule add pref 2 lookup local");
    ip(&net.server, "rule del pref 0");
    ip(&net.server, &format!("rule add {rule}"));
}

/// A connected socket hears in the end that what it sends is not let through.
pub(crate) fn is_refused(socket: &UdpSocket) {
    let began = Instant::now();
    loop {
        let heard = socket.send(b"on and on").and_then(|_| socket.recv(&mut [0; 64]));
        match heard {
            Err(error) if error.kind() == io::ErrorKind::HostUnreachable => return,
            heard => assert!(began.elapsed() < PATIENCE, "{heard:?}"),
        }
    }
}

#[test]
fn where_udp_is_blocked_it_goes_past_the_server_until_it_gets_through_again() {
    let Some(net) = Network::set_up() else { return };
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let site = crate::site::Site::start(&net.internet, &format!("{FAR_V4}:80"));
    // Past the server, packets reach its machine as anybody's do.
    let beyond = net.server.run(|| UdpSocket::bind((SERVER, 9000))).unwrap();
    let router = net.server.run(|| UdpSocket::bind("192.168.1.1:53")).unwrap();
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    let up = up_with(&net, &invite, &["--udp-over-tcp", "off"]);
    assert_eq!(text(&ask(&net, far.address, b"who")), "198.51.100.1 who");
    both_lanes_up(&net);
    // It keeps the device's address for as long as it lives.
    let connected = socket(&net, true);
    connected.connect(far.address).unwrap();
    assert!(connected.local_addr().unwrap().ip().to_string().starts_with("10.87."));
    let server = SocketAddr::new(SERVER.parse().unwrap(), 4433);
    let sniffer = Sniffer::start(&net, server);
    block_udp(&net, 4433, true);
    up.logs("UDP, DNS and ICMP go past the server until a link carries UDP there again");
    is_refused(&connected);
    let seen = sniffer.stop(&net);
    assert!(!seen.iter().any(|line| line.contains("10.87.")), "{seen:?}");
    for (to, there) in [((SERVER, 9000), &beyond), (("192.168.1.1", 53), &router)] {
        there.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let (socket, began) = (socket(&net, true), Instant::now());
        loop {
            socket.send_to(QUERY, to).unwrap();
            match there.recv_from(&mut [0; 64]) {
                Ok((_, from)) => break assert_eq!(from.ip().to_string(), "192.168.1.20"),
                Err(error) => assert!(began.elapsed() < PATIENCE, "{to:?}: {error}"),
            }
        }
    }
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1", "TCP goes on");
    // The server may have given the session up: another one is agreed on, and does not help.
    up.logs("lanes are agreed on anew, as no link carried UDP");
    net.comes_to_show("weft0: all TCP of this machine");
    block_udp(&net, 4433, false);
    assert_eq!(text(&ask(&net, far.address, b"again")), "198.51.100.1 again");
    both_lanes_up(&net);
    net.comes_to_show(ALL);
}
