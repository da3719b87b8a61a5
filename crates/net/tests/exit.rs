//! What a server's exit lets through, in a network namespace of each test's own: what would be other
//! machines are TUN devices, which the test writes packets to and reads them from.
#![cfg(feature = "capture")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};

use tun_rs::SyncDevice;
use weftline_net::{Exit, ExitConfig, NetError};

mod common;

use common::{ip, is_inside, link};

const CLIENT: [u8; 4] = [10, 87, 0, 2];
const SERVER: [u8; 4] = [198, 51, 100, 1];
const FAR: [u8; 4] = [192, 0, 2, 9];
const NEIGHBOUR: [u8; 4] = [172, 20, 0, 9];
const ICMP: u8 = 1;
const UDP: u8 = 17;
/// A protocol for experiments.
const UNKNOWN: u8 = 253;
/// What a network card would be told of a packet stands before it at the exit's device.
const CARD: usize = 10;
/// A server with a link to the internet and one to neighbours.
struct Server {
    wan: SyncDevice,
    lan: SyncDevice,
    exit: Exit,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start(was_router: bool) -> Self {
        ip("link set lo up");
        fs::write("/proc/sys/net/ipv4/ip_forward", if was_router { "1" } else { "0" }).unwrap();
        let wan = link("wan0", "198.51.100.1/24");
        let lan = link("lan0", "172.20.0.1/24");
        ip("route add default dev wan0");
        fs::write("/proc/sys/net/ipv6/conf/all/forwarding", if was_router { "1" } else { "0" })
            .unwrap();
        ip("addr add 2001:db8:20::1/64 dev lan0 nodad");
        ip("-6 route add default dev wan0");
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("exit.journal");
        let exit = Exit::start(&ExitConfig { allowed: vec![], closed: vec![], journal }).unwrap();
        exit.add_client(CLIENT.into()).unwrap();
        Self { wan, lan, exit, _dir: dir }
    }

    /// The client sends a packet.
    fn client_sends(&self, packet: &[u8]) {
        self.exit.device().send(&[&[0; CARD], packet].concat()).unwrap();
    }

    /// All that has left by the link to the internet, up to a packet of the client that is sent now.
    fn left(&self) -> Vec<Vec<u8>> {
        self.client_sends(&datagram(CLIENT, FAR, (50_000, 9), b"the end"));
        until(&self.wan, 0, b"the end")
    }

    /// All that comes to clients, up to the answer to `packet`, the last that has left.
    fn came(&self, packet: &[u8]) -> Vec<Vec<u8>> {
        let answer = datagram(FAR, SERVER, (9, source_port(packet)), b"answer");
        self.wan.send(&answer).unwrap();
        until(&self.exit.device(), CARD, b"answer")
    }
}

/// The packets from a device that come before one that ends so, and that one, without the bytes
/// before each.
fn until(device: &SyncDevice, skipped: usize, end: &[u8]) -> Vec<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), [0; 2048]);
    loop {
        let length = device.recv(&mut buffer).unwrap();
        let packet = buffer[skipped..length].to_vec();
        // The kernel's own packets of IPv6.
        if packet[0] >> 4 == 6 && packet[6] != UNKNOWN {
            continue;
        }
        let is_end = packet.ends_with(end);
        all.push(packet);
        if is_end {
            return all;
        }
    }
}

fn source(packet: &[u8]) -> [u8; 4] {
    packet[12..16].try_into().unwrap()
}

/// The checksum of the internet.
fn sum(bytes: &[u8]) -> [u8; 2] {
    let words =
        bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    (!(sum as u16)).to_be_bytes()
}

fn packet(from: [u8; 4], to: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len() as u16).to_be_bytes();
    let mut header = [0x45, 0, length[0], length[1], 0, 1, 0, 0, 64, protocol, 0, 0].to_vec();
    header.extend([from, to].concat());
    let checksum = sum(&header);
    header[10..12].copy_from_slice(&checksum);
    [&header, payload].concat()
}

/// A packet of IPv6 from a neighbour to far away, or back.
fn packet6(is_back: bool) -> Vec<u8> {
    let mut ends = ["2001:db8:20::9", "2001:db8:99::9"];
    if is_back {
        ends.reverse();
    }
    let ends = ends.map(|end| end.parse::<Ipv6Addr>().unwrap().octets()).concat();
    [&[0x60, 0, 0, 0, 0, 4, UNKNOWN, 64][..], &ends, b"ipv6"].concat()
}

/// UDP without a checksum.
fn datagram(from: [u8; 4], to: [u8; 4], ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let length = 8 + payload.len() as u16;
    let header = [ports.0, ports.1, length, 0].map(u16::to_be_bytes).concat();
    packet(from, to, UDP, &[&header, payload].concat())
}

fn source_port(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[20], packet[21]])
}

#[test]
fn a_machine_that_was_no_router_becomes_none_between_its_other_links() {
    if !is_inside("a_machine_that_was_no_router_becomes_none_between_its_other_links") {
        return;
    }
    let server = Server::start(false);
    server.lan.send(&datagram(NEIGHBOUR, FAR, (5000, 9), b"a way out")).unwrap();
    server.lan.send(&packet6(false)).unwrap();
    let left = server.left();
    assert_eq!(left.len(), 1, "{left:?}");
    // Answers find their way to the client.
    server.wan.send(&datagram(FAR, NEIGHBOUR, (9, 5000), b"a way in")).unwrap();
    server.wan.send(&packet6(true)).unwrap();
    let came = server.came(&left[0]);
    assert_eq!(came.len(), 1, "{came:?}");
    server.lan.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2048];
    while let Ok(length) = server.lan.recv(&mut buffer) {
        let packet = &buffer[..length];
        assert!(!packet.ends_with(b"a way in") && !packet.ends_with(b"ipv6"), "{packet:?}");
    }
}

#[test]
fn a_program_that_makes_it_a_router_later_gets_answers() {
    if !is_inside("a_program_that_makes_it_a_router_later_gets_answers") {
        return;
    }
    let server = Server::start(false);
    let late = link("late0", "172.21.0.1/24");
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
    let container = [172, 21, 0, 9];
    late.send(&datagram(container, FAR, (5000, 9), b"a way out")).unwrap();
    let left = server.left();
    assert_eq!(left.iter().map(|one| source(one)).collect::<Vec<_>>(), [container, SERVER]);
    // What nobody there asked for comes by a link that did not forward.
    server.wan.send(&datagram(FAR, container, (9, 5001), b"a way in")).unwrap();
    server.wan.send(&datagram(FAR, container, (9, 5000), b"answer")).unwrap();
    let came = until(&late, 0, b"answer");
    assert_eq!(came.len(), 1, "{came:?}");
}

/// As a modem does that is plugged in: what gives links their names comes after us.
#[test]
fn a_link_that_is_renamed_leads_to_clients_alone_and_is_as_before_at_the_end() {
    if !is_inside("a_link_that_is_renamed_leads_to_clients_alone_and_is_as_before_at_the_end") {
        return;
    }
    let server = Server::start(false);
    let late = link("usb0", "172.21.0.1/24");
    assert_eq!(server.exit.keep().unwrap(), 1);
    ip("link set usb0 down");
    ip("link set usb0 name enx0 up");
    let forwards = || fs::read_to_string("/proc/sys/net/ipv4/conf/enx0/forwarding").unwrap();
    assert_eq!(forwards().trim(), "1", "the kernel does not forget");
    // Before that is seen, and after.
    for _ in 0..2 {
        late.send(&datagram([172, 21, 0, 9], FAR, (5000, 9), b"a way out")).unwrap();
        let left = server.left();
        assert_eq!(left.iter().map(|one| source(one)).collect::<Vec<_>>(), [SERVER]);
        assert_eq!(server.exit.keep().unwrap(), 0);
    }
    let Server { exit, _dir: dir, .. } = server;
    drop(exit);
    weftline_net::Journal::undo(&dir.path().join("exit.journal")).unwrap();
    assert_eq!(forwards().trim(), "0");
}

#[test]
fn a_router_stays_one() {
    if !is_inside("a_router_stays_one") {
        return;
    }
    let server = Server::start(true);
    server.lan.send(&datagram(NEIGHBOUR, FAR, (5000, 9), b"a way out")).unwrap();
    server.lan.send(&packet6(false)).unwrap();
    let left = server.left();
    assert_eq!(left.len(), 3, "{left:?}");
    assert_eq!([source(&left[0]), source(&left[2])], [NEIGHBOUR, SERVER]);
    assert_eq!(left[1][6..8], [UNKNOWN, 63]);
}

#[test]
fn a_client_does_not_take_the_place_of_a_neighbour() {
    if !is_inside("a_client_does_not_take_the_place_of_a_neighbour") {
        return;
    }
    let server = Server::start(true);
    // A route of its own is no obstacle.
    server.exit.add_client(CLIENT.into()).unwrap();
    let neighbour = Ipv4Addr::new(10, 87, 0, 9);
    ip("route add 10.87.0.9/32 dev lan0");
    let taken = server.exit.add_client(neighbour.into()).unwrap_err();
    assert!(matches!(taken, NetError::AddressTaken { tried } if tried == neighbour), "{taken}");
    ip("route delete 10.87.0.9/32 dev lan0");
    server.exit.add_client(neighbour.into()).unwrap();
}

#[test]
fn nothing_leaves_in_a_client_s_name() {
    if !is_inside("nothing_leaves_in_a_client_s_name") {
        return;
    }
    let server = Server::start(true);
    // A wrong checksum.
    let mut wrong = datagram(CLIENT, FAR, (5000, 9), b"wrong");
    wrong[26..28].copy_from_slice(&[1, 2]);
    server.client_sends(&wrong);
    // An error about a connection that nobody has.
    let about = datagram(FAR, CLIENT, (1, 2), b"");
    let mut error = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &about].concat();
    let checksum = sum(&error);
    error[2..4].copy_from_slice(&checksum);
    server.client_sends(&packet(CLIENT, FAR, ICMP, &error));
    let left = server.left();
    assert!(left.iter().all(|one| source(one) == SERVER), "{left:?}");
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn no_client_has_a_port_of_the_server_s_services() {
    if !is_inside("no_client_has_a_port_of_the_server_s_services") {
        return;
    }
    let server = Server::start(true);
    server.client_sends(&datagram(CLIENT, FAR, (4433, 9), b"as the service"));
    // An echo request keeps its number.
    let mut echo = [8, 0, 0, 0, 0x11, 0x51, 0, 1];
    let checksum = sum(&echo);
    echo[2..4].copy_from_slice(&checksum);
    server.client_sends(&packet(CLIENT, FAR, ICMP, &echo));
    let left = server.left();
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(left.iter().all(|one| source(one) == SERVER), "{left:?}");
    assert!((32_768..=60_999).contains(&source_port(&left[0])), "{left:?}");
    assert_eq!(left[1][24..26], [0x11, 0x51]);
    assert_eq!(source_port(&left[2]), 50_000, "one of those is kept");
}

#[test]
fn the_server_s_own_programs_reach_no_client() {
    if !is_inside("the_server_s_own_programs_reach_no_client") {
        return;
    }
    let server = Server::start(true);
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // A packet that is dropped there may be told to who sends it.
    let _ = socket.send_to(b"hello", (Ipv4Addr::from(CLIENT), 7000));
    let left = server.left();
    let came = server.came(left.last().unwrap());
    assert_eq!(came.len(), 1, "{came:?}");
}
