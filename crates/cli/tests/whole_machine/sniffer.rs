//! What goes over the links, frame by frame.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use weftline_lab::netns::Netns;

use crate::common::{PATIENCE, until};
use crate::lanes::ping;
use crate::network::{FAR_V4, LINKS, Network, SERVER, SITE_V6, ip, text};
use crate::site::Site;

/// What goes over the links of a machine: a line for each kind of packet.
pub(crate) struct Sniffer {
    seen: thread::JoinHandle<BTreeSet<String>>,
    /// What the last packet has in it.
    end: &'static [u8],
}

impl Sniffer {
    /// Begins to look. Packets of other interfaces than the links, which have other hardware addresses
    /// or none, do not count.
    pub(crate) fn start(net: &Network, server: SocketAddr) -> Self {
        Self::on(net, server, &LINKS.map(|(name, ..)| name))
    }

    /// The same with links that have other names.
    pub(crate) fn on(net: &Network, server: SocketAddr, names: &[&str]) -> Self {
        const ALL: u16 = 3;
        const END: &[u8] = b"the last packet of them all";
        let protocol = socket2::Protocol::from(i32::from(ALL.to_be()));
        let open = || Socket::new(Domain::PACKET, Type::RAW, Some(protocol));
        let mut socket = net.client.run(open).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        // So that nothing is lost while this machine stands still.
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 8 << 20).unwrap();
        let links: Vec<[u8; 6]> = names.iter().map(|name| hardware(&net.client, name)).collect();
        let seen = thread::spawn(move || {
            let (mut seen, mut frame) = (BTreeSet::new(), vec![0; 1 << 17]);
            loop {
                let length = socket.read(&mut frame).unwrap();
                let frame = &frame[..length];
                let is_of_link = |at: std::ops::Range<usize>| {
                    frame.get(at).is_some_and(|one| links.iter().any(|link| link == one))
                };
                if !is_of_link(0..6) && !is_of_link(6..12) {
                    continue;
                }
                if frame.ends_with(END) {
                    return seen;
                }
                seen.insert(kind_of(frame, server));
            }
        });
        Self { seen, end: END }
    }

    /// All that went over the links to this moment.
    pub(crate) fn stop(self, net: &Network) -> BTreeSet<String> {
        // From an address of a link: what has none is captured.
        let send = || {
            let socket = UdpSocket::bind("10.64.3.9:0")?;
            // A kill switch lets it pass.
            socket2::SockRef::from(&socket).set_mark(weftline_net::MARK)?;
            socket.send_to(self.end, (SERVER, 9))
        };
        until("the last packet is seen", || {
            net.client.run(send).unwrap();
            thread::sleep(Duration::from_millis(20));
            self.seen.is_finished()
        });
        self.seen.join().unwrap()
    }
}

/// The classes (DSCP and ECN) of datagrams of UDP to a port that come to a machine.
pub(crate) struct Classes {
    socket: Socket,
    port: u16,
}

impl Classes {
    /// Begins to look.
    pub(crate) fn look(ns: &Netns, port: u16) -> Self {
        const IPV4: u16 = 0x0800;
        let protocol = socket2::Protocol::from(i32::from(IPV4.to_be()));
        // Packets without the header of their link.
        let open = || Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol));
        let socket = ns.run(open).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, port }
    }

    /// Those of the packets that have come since the last look.
    pub(crate) fn seen(&mut self) -> BTreeSet<u8> {
        let (mut seen, mut packet) = (BTreeSet::new(), vec![0; 1 << 17]);
        while let Ok(length) = self.socket.read(&mut packet) {
            let packet = &packet[..length];
            let transport = 4 * usize::from(packet[0] & 15);
            if packet[9] == 17 && packet[transport + 2..][..2] == self.port.to_be_bytes() {
                seen.insert(packet[1]);
            }
        }
        seen
    }
}

/// A link's hardware address.
fn hardware(ns: &Netns, name: &str) -> [u8; 6] {
    let shown = ns.command("ip").args(["-o", "link", "show", "dev", name]).output().unwrap();
    let shown = text(&shown.stdout);
    let address = shown.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap();
    let bytes = address.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap());
    bytes.collect::<Vec<_>>().try_into().unwrap()
}

/// What a frame of Ethernet carries.
fn kind_of(frame: &[u8], server: SocketAddr) -> String {
    let u16_at = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let (source, target, protocol, after): (IpAddr, IpAddr, u8, usize) = match u16_at(12) {
        0x0806 => return "ARP".to_owned(),
        0x0800 => {
            let at = |at: usize| <[u8; 4]>::try_from(&frame[at..at + 4]).unwrap().into();
            (at(26), at(30), frame[23], 14 + 4 * usize::from(frame[14] & 15))
        }
        0x86dd => {
            let at = |at: usize| <[u8; 16]>::try_from(&frame[at..at + 16]).unwrap().into();
            (at(22), at(38), frame[20], 54)
        }
        other => return format!("of type {other:#x}"),
    };
    match protocol {
        // Neighbours and routers are looked for, by multicast, whose listeners say so.
        58 if (133..=136).contains(&frame[after]) => "neighbour discovery".to_owned(),
        0 if target.is_multicast() => "neighbour discovery".to_owned(),
        1 | 58 => {
            format!("ICMP with {}", if target.to_string() == SERVER { target } else { source })
        }
        6 | 17 => {
            let ends = [
                SocketAddr::new(source, u16_at(after)),
                SocketAddr::new(target, u16_at(after + 2)),
            ];
            let name = if protocol == 6 { "TCP" } else { "UDP" };
            match ends.contains(&server) {
                true => format!("{name} with the server"),
                false => format!("{name} from {} to {}", ends[0].ip(), ends[1]),
            }
        }
        other => format!("IP's {other} from {source} to {target}"),
    }
}

/// As with a server that has no lanes.
#[test]
fn links_show_the_server_and_what_goes_past_it() {
    let Some(net) = Network::set_up() else { return };
    let v4 = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let v6 = Site::start(&net.internet, &format!("[{SITE_V6}]:80"));
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    // IPv6 would find its way by a link, too.
    ip(&net.client, "addr add 2001:db8:1::20/64 dev wlan0 nodad");
    ip(&net.server, "addr add 2001:db8:1::1/64 dev wlan0 nodad");
    ip(&net.client, "-6 route add default via 2001:db8:1::1 dev wlan0");
    let server = SocketAddr::new(SERVER.parse().unwrap(), 4433);
    let (_server, invite) =
        net.serve_tcp_alone(&["--listen", "0.0.0.0:4433", "--public", &server.to_string()]);
    // Without `up` it sees a connection that is not to the server's port.
    let sniffer = Sniffer::start(&net, server);
    assert_eq!(text(&net.curl(&beyond.url("")).stdout), "192.168.1.20");
    let seen = sniffer.stop(&net);
    assert!(seen.contains("TCP from 192.168.1.20 to 203.0.113.5:80"), "{seen:?}");

    let up = net.up(&invite);
    let sniffer = Sniffer::start(&net, server);
    let visit = || {
        assert_eq!(text(&net.curl(&v4.url("")).stdout), "198.51.100.1");
        assert_eq!(text(&net.curl(&v6.url("")).stdout), "2001:db8:9::1");
        // What the server lets nobody go to, and what refuses.
        assert_ne!(net.curl(&beyond.url("")).status.code(), Some(0));
        assert_ne!(net.curl(&format!("http://[{SITE_V6}]:81/")).status.code(), Some(0));
    };
    visit();
    // As the document says, these go their usual ways.
    let ask = || UdpSocket::bind("0.0.0.0:0")?.send_to(b"a question", (SERVER, 53));
    net.client.run(ask).unwrap();
    let got = ping(&net, &[SERVER]);
    let has_ping = got.is_some_and(|output| output.status.success());
    // A link is lost, and comes back.
    ip(&net.client, "link set wlan0 down");
    visit();
    ip(&net.client, "link set wlan0 up");
    ip(&net.client, "route add default via 192.168.1.1 dev wlan0 metric 600");
    visit();
    let mut seen = sniffer.stop(&net);
    for word in ["ARP", "neighbour discovery"] {
        seen.remove(word);
    }
    assert!(seen.remove("TCP with the server"), "{seen:?}");
    let udp = |one: &String| one.starts_with("UDP from 192.168.1.20 to 203.0.113.5:53");
    assert!(seen.iter().any(udp), "{seen:?}");
    seen.retain(|one| !udp(one));
    // Nobody listens there, which the server's system says.
    assert!(seen.remove("ICMP with 203.0.113.5") || !has_ping, "{seen:?}");
    assert!(seen.is_empty(), "{seen:?}");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
}
