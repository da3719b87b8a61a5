//! Machines behind the client that use its bond, too: a router's LAN.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Output;
use std::sync::atomic::Ordering;

use weftline_lab::netns::Netns;

use crate::common::{Daemon, PATIENCE, until};
use crate::lanes::dns::{QUERY, resolver, serve_with_resolver};
use crate::lanes::{Echo, ask_from};
use crate::network::{FAR_V4, Network, SERVER, SITE_V6, ip, join, text};
use crate::site::Site;
use crate::sniffer::Sniffer;
use crate::strict::leaks;

/// The client's address towards the LAN, of both families, and those of a machine there.
const ROUTER: [&str; 2] = ["192.168.50.1", "2001:db8:50::1"];
const HOST: [&str; 2] = ["192.168.50.7", "2001:db8:50::7"];
/// The server as the internet sees it.
const SEEN: [&str; 2] = ["198.51.100.1", "2001:db8:9::1"];

/// A machine behind the client, whose default routes lead there.
fn behind(net: &Network, link: &str) -> Netns {
    let lan = Netns::create().unwrap();
    ip(&lan, "link set lo up");
    join((&net.client, link), (&lan, "eth0"));
    ip(&net.client, &format!("addr add {}/24 dev {link}", ROUTER[0]));
    ip(&net.client, &format!("addr add {}/64 dev {link} nodad", ROUTER[1]));
    ip(&lan, &format!("addr add {}/24 dev eth0", HOST[0]));
    ip(&lan, &format!("addr add {}/64 dev eth0 nodad", HOST[1]));
    // So that the kernel can ask for its neighbours.
    ip(&net.client, &format!("addr add fe80::50/64 dev {link} nodad"));
    ip(&lan, "addr add fe80::57/64 dev eth0 nodad");
    for router in ROUTER {
        ip(&lan, &format!("route add default via {router} dev eth0"));
    }
    lan
}

/// What `curl` says on a machine.
fn curl(ns: &Netns, more: &[&str], url: &str) -> Output {
    let args = ["--silent", "--show-error", "--max-time", "400", "--noproxy", "*"];
    ns.command("curl").args(args).args(more).arg(url).output().unwrap()
}

#[track_caller]
fn comes_from(ns: &Netns, site: &Site, seen: &str) {
    let got = curl(ns, &[], &site.url(""));
    assert_eq!(text(&got.stdout), seen, "{got:?}");
}

fn up_sharing(net: &Network, invite: &str, more: &[&str]) -> Daemon {
    let args = [&net.up_args(invite)[..], &["--share", "eth1"], more].concat();
    let mut up = Daemon::spawn(&mut net.command(&net.client, &args));
    let said = up.says("up:");
    assert!(said.contains("of this machine and of those behind eth1"), "{said}");
    up
}

/// Makes the client a router as others have it: it forwards all, in its own name.
fn make_router(net: &Network) {
    let rules = "add table inet theirs; \
                 add chain inet theirs post { type nat hook postrouting priority srcnat; }; \
                 add rule inet theirs post oifname { wlan0, wwan0 } masquerade";
    let made = net.client.command("nft").arg(rules).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    net.client.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap();
}

#[test]
fn machines_behind_a_shared_link_use_the_bond_for_all_they_send() {
    let Some(net) = Network::set_up() else { return };
    let lan = behind(&net, "eth1");
    let sites = [format!("{FAR_V4}:80"), format!("[{SITE_V6}]:80")]
        .map(|address| Site::start(&net.internet, &address));
    let echoes = [format!("{FAR_V4}:7"), format!("[{SITE_V6}]:7")]
        .map(|address| Echo::start(&net.internet, &address));
    let near = Site::start(&net.client, &format!("{}:80", ROUTER[0]));
    let before = net.snapshot();
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let up = up_sharing(&net, &invite, &[]);
    net.comes_to_show("all TCP, UDP and ICMP of this machine and of those behind eth1");
    for (site, seen) in sites.iter().zip(SEEN) {
        comes_from(&lan, site, seen);
        // And the machine itself as before.
        comes_from(&net.client, site, seen);
    }
    for (echo, seen) in echoes.iter().zip(SEEN) {
        let answer = ask_from(&lan, echo.address, b"a question");
        assert_eq!(text(&answer), format!("{seen} a question"));
    }
    let ping = lan.command("ping").args(["-c", "1", "-w", "400", FAR_V4]).output();
    match ping {
        Ok(ping) => assert!(ping.status.success(), "{ping:?}"),
        Err(error) => assert!(std::env::var_os("CI").is_none(), "in CI there is ping: {error}"),
    }
    comes_from(&lan, &near, HOST[0]);
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    net.restored(&before);
}

#[test]
fn who_is_no_router_forwards_nothing_but_to_the_bond() {
    let Some(net) = Network::set_up() else { return };
    let lan = behind(&net, "eth1");
    // Behind the links, which know the way back.
    const BEHIND: &str = "198.18.5.5";
    ip(&net.server, &format!("addr add {BEHIND}/32 dev lo"));
    ip(&net.server, "route add 192.168.50.0/24 via 192.168.1.20");
    ip(&net.server, "addr add 2001:db8:1::1/64 dev wlan0 nodad");
    ip(&net.client, "addr add 2001:db8:1::20/64 dev wlan0 nodad");
    ip(&net.server, "route add 2001:db8:50::/64 via 2001:db8:1::20");
    let beyond = Echo::start(&net.server, &format!("{BEHIND}:7"));
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7"));
    let inside = HOST.map(|address| {
        let address = SocketAddr::new(address.parse().unwrap(), 7);
        Echo::start(&lan, &address.to_string())
    });
    let before = net.snapshot();
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let up = up_sharing(&net, &invite, &["--except", "198.18.5.0/24"]);
    net.comes_to_show("all TCP, UDP and ICMP");
    // By the bond, and so all that would let it go otherwise is there.
    assert_eq!(text(&ask_from(&lan, far.address, b"x")), format!("{} x", SEEN[0]));
    let socket = lan.run(|| std::net::UdpSocket::bind("0.0.0.0:0")).unwrap();
    for _ in 0..3 {
        socket.send_to(b"x", beyond.address).unwrap();
        ask_from(&lan, far.address, b"x");
    }
    assert_eq!(beyond.asked(), 0, "this machine was no router");
    // Nor does anybody get in by a link.
    for echo in &inside {
        let any = if echo.address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = net.server.run(|| std::net::UdpSocket::bind(any)).unwrap();
        for _ in 0..3 {
            socket.send_to(b"x", echo.address).unwrap();
            ask_from(&lan, far.address, b"x");
        }
        assert_eq!(echo.asked(), 0, "{}", echo.address);
    }
    up.signal("-KILL");
    net.restored(&before);
}

#[test]
fn what_is_excepted_or_began_before_goes_as_the_router_has_it() {
    let Some(net) = Network::set_up() else { return };
    let lan = behind(&net, "eth1");
    make_router(&net);
    const BEHIND: [&str; 2] = ["198.18.5.5", "198.18.7.7"];
    BEHIND.iter().for_each(|address| ip(&net.server, &format!("addr add {address}/32 dev lo")));
    let by_network = Site::start(&net.server, &format!("{}:80", BEHIND[0]));
    let by_port = Site::start(&net.server, &format!("{}:8080", BEHIND[1]));
    let echo_by_network = Echo::start(&net.server, &format!("{}:7", BEHIND[0]));
    let echo_by_port = Echo::start(&net.server, &format!("{}:8080", BEHIND[1]));
    let far = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let far_echo = Echo::start(&net.internet, &format!("{FAR_V4}:7"));
    let mut early = lan.run(|| TcpStream::connect(by_port.address)).unwrap();
    early.set_read_timeout(Some(PATIENCE)).unwrap();
    let before = net.snapshot();
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let except = ["--except", "198.18.5.0/24", "--except", "port:8080", "--except", "uid:0"];
    let up = up_sharing(&net, &invite, &except);
    net.comes_to_show("all TCP, UDP and ICMP");
    // Root's own programs are left alone, and others behind this machine have no user here.
    comes_from(&lan, &far, SEEN[0]);
    assert_eq!(text(&ask_from(&lan, far_echo.address, b"x")), format!("{} x", SEEN[0]));
    comes_from(&lan, &by_network, "192.168.1.20");
    comes_from(&lan, &by_port, "192.168.1.20");
    for echo in [&echo_by_network, &echo_by_port] {
        assert_eq!(text(&ask_from(&lan, echo.address, b"x")), "192.168.1.20 x");
    }
    // Who begins to speak to a machine there by a link is answered there.
    ip(&net.server, "route add 192.168.50.0/24 via 192.168.1.20");
    let published = Echo::start(&lan, &format!("{}:7", HOST[0]));
    let asked = ask_from(&net.server, published.address, b"x");
    assert_eq!(text(&asked), "192.168.1.1 x");
    early.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut said = String::new();
    early.read_to_string(&mut said).unwrap();
    assert!(said.ends_with("192.168.1.20"), "{said}");
    // With the server away all goes so.
    drop(server);
    let reached = Site::start(&net.server, &format!("{}:81", BEHIND[1]));
    let args = ["--connect-timeout", "1", "--max-time", "60"];
    until("it goes directly", || {
        text(&curl(&lan, &args, &reached.url("")).stdout) == "192.168.1.20"
    });
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    net.restored(&before);
}

#[test]
fn a_target_that_refuses_is_refused_and_the_port_is_nobody_s_proxy() {
    let Some(net) = Network::set_up() else { return };
    let lan = behind(&net, "eth1");
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let up = up_sharing(&net, &invite, &[]);
    let refused = std::io::ErrorKind::ConnectionRefused;
    let target = SocketAddr::new(FAR_V4.parse().unwrap(), 81);
    until("the kernel refuses it", || {
        let connect = || Ok(TcpStream::connect_timeout(&target, PATIENCE));
        let kind = lan.run(connect).unwrap().map(|mut stream| {
            // The first one is reset when the server has asked.
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let _ = stream.read(&mut [0; 1]);
        });
        kind.is_err_and(|error| error.kind() == refused)
    });
    let table = net.client.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp")).unwrap();
    let listening = table.lines().filter(|line| line.split_whitespace().nth(3) == Some("0A"));
    let ports: Vec<u16> = listening
        .filter_map(|line| u16::from_str_radix(line.split_whitespace().nth(1)?.get(9..)?, 16).ok())
        .collect();
    assert_eq!(ports.len(), 1, "{table}");
    // Dropped, by whatever link it comes.
    for (ns, address) in [(&lan, ROUTER[0]), (&net.server, "192.168.1.20")] {
        let to = SocketAddr::new(address.parse().unwrap(), ports[0]);
        let second = std::time::Duration::from_secs(1);
        let reached = ns.run(|| Ok(TcpStream::connect_timeout(&to, second))).unwrap();
        assert_eq!(reached.unwrap_err().kind(), std::io::ErrorKind::TimedOut, "{to}");
    }
    let own = SocketAddr::new(ROUTER[0].parse().unwrap(), ports[0]);
    let mut own = net.client.run(|| TcpStream::connect(own)).unwrap();
    own.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = own.write_all(b"GET / HTTP/1.0\r\n\r\n");
    assert!(!matches!(own.read(&mut [0; 64]), Ok(1..)));
    up.logs("is no proxy");
}

#[test]
fn with_the_kill_switch_closed_machines_behind_it_are_in_the_bond_or_nowhere() {
    let Some(net) = Network::set_up() else { return };
    let lan = behind(&net, "eth1");
    make_router(&net);
    const BEHIND: &str = "198.18.5.5";
    ip(&net.server, &format!("addr add {BEHIND}/32 dev lo"));
    ip(&net.server, "route add 192.168.50.0/24 via 192.168.1.20");
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let echo = Echo::start(&net.internet, &format!("{FAR_V4}:7"));
    let beyond = Echo::start(&net.server, &format!("{BEHIND}:7"));
    let inner = Site::start(&lan, &format!("{}:80", HOST[0]));
    // Without the bond it is reached, and reaches others.
    comes_from(&net.server, &inner, "192.168.1.1");
    assert_eq!(text(&ask_from(&lan, beyond.address, b"x")), "192.168.1.20 x");
    let asked = beyond.asked();
    let (_server, invite) = net.serve(&["--listen", &format!("{SERVER}:4433")]);
    let sniffer = Sniffer::start(&net, SocketAddr::new(SERVER.parse().unwrap(), 4433));
    let up = up_sharing(&net, &invite, &["--strict"]);
    net.comes_to_show("all TCP, UDP and ICMP");
    comes_from(&lan, &site, SEEN[0]);
    assert_eq!(text(&ask_from(&lan, echo.address, b"x")), format!("{} x", SEEN[0]));
    let second = std::time::Duration::from_secs(1);
    up.signal("-KILL");
    up.end();
    let socket = lan.run(|| std::net::UdpSocket::bind("0.0.0.0:0")).unwrap();
    for _ in 0..3 {
        socket.send_to(b"x", beyond.address).unwrap();
    }
    let _ = lan.run(|| Ok(TcpStream::connect_timeout(&site.address, second))).unwrap();
    assert_eq!(beyond.asked(), asked);
    let leaked = leaks(sniffer, &net);
    assert!(leaked.is_empty(), "{leaked:?}");
    // Nor does anybody begin to speak to it by a link, where it would answer.
    let begin = || Ok(TcpStream::connect_timeout(&inner.address, second));
    let kind = net.server.run(begin).unwrap().unwrap_err().kind();
    assert_eq!(kind, std::io::ErrorKind::TimedOut);
    let down = net.run(&net.client, &["down"]);
    assert!(down.status.success(), "{down:?}");
    assert_eq!(text(&ask_from(&lan, beyond.address, b"x")), "192.168.1.20 x");
}

#[test]
fn a_link_that_comes_later_is_shared_and_one_of_the_bond_never() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let echo = Echo::start(&net.internet, &format!("{FAR_V4}:7"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    for (args, said) in [
        (&["--share", "wlan0"][..], "wlan0 has a default route"),
        (&["--path", "wifi=wlan0", "--share", "wlan0"], "wlan0 is a link of the bond"),
        (&["--share", "lo"], "no other machine is behind it"),
        (&["--share", "a/b"], "'a/b' is no name of an interface"),
    ] {
        let wrong = net.run(&net.client, &[&net.up_args(&invite)[..], args].concat());
        let text = text(&wrong.stderr);
        assert!(wrong.status.code() == Some(2) && text.contains(said), "{args:?}: {text}");
    }
    std::fs::write(net.state.path().join("up.toml"), "share = \"eth1\"\n").unwrap();
    let mut up = Daemon::spawn(&mut net.command(&net.client, &net.up_args(&invite)));
    let said = up.says("up:");
    assert!(said.contains("behind eth1") && said.contains("wlan0, wwan0"), "{said}");
    up.logs("there is no interface eth1 yet");
    net.comes_to_show("all TCP, UDP and ICMP");
    let lan = behind(&net, "eth1");
    comes_from(&lan, &site, SEEN[0]);
    assert_eq!(text(&ask_from(&lan, echo.address, b"x")), format!("{} x", SEEN[0]));
    // One that has a way to the internet is shared no more, and no link of the bond.
    let way = format!("default via {} dev eth1 metric 900", HOST[0]);
    ip(&net.client, &format!("route add {way}"));
    up.logs("eth1 has a default route now");
    let args = ["--connect-timeout", "1", "--max-time", "60"];
    let reaches = || text(&curl(&lan, &args, &site.url("")).stdout) == SEEN[0];
    until("it is shared no more", || !reaches());
    let status = text(&net.run(&net.client, &["status"]).stdout);
    assert!(status.contains("wwan0") && status.matches("eth1").count() == 1, "{status}");
    ip(&net.client, &format!("route del {way}"));
    until("it is shared again", reaches);
}

#[test]
fn what_is_bound_to_an_address_of_a_link_is_not_captured_by_the_mark() {
    let Some(net) = Network::set_up() else { return };
    let lan = behind(&net, "eth1");
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let links = ["--path", "first=192.168.1.20", "--path", "second=10.64.3.9"];
    let wrong = [&net.up_args(&invite)[..], &links[..2], &["--share", "wlan0"]].concat();
    let wrong = text(&net.run(&net.client, &wrong).stderr);
    assert!(wrong.contains("wlan0 is a link of the bond"), "{wrong}");
    let up = up_sharing(&net, &invite, &links);
    comes_from(&net.client, &site, SEEN[0]);
    comes_from(&lan, &site, SEEN[0]);
    net.comes_to_show("second");
    let status = text(&net.run(&net.client, &["status"]).stdout);
    assert!(status.contains("first"), "{status}");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
}

#[test]
fn questions_to_a_link_s_own_router_go_to_the_server() {
    let Some(net) = Network::set_up() else { return };
    let lan = behind(&net, "eth1");
    make_router(&net);
    let asked = resolver(&net.server);
    let router = Echo::start(&net.server, "192.168.1.1:53");
    let own = Echo::start(&net.client, &format!("{}:53", ROUTER[0]));
    let (_server, invite) =
        serve_with_resolver(&net, &["--listen", "0.0.0.0:0", "--control", "none"]);
    let up = up_sharing(&net, &invite, &[]);
    net.comes_to_show("all TCP, UDP and ICMP");
    let answer = ask_from(&lan, router.address, QUERY);
    assert!(answer.starts_with(&QUERY[..2]) && answer != QUERY, "{answer:?}");
    assert_eq!((router.asked(), asked.load(Ordering::SeqCst) > 0), (0, true));
    // This machine's own answers itself.
    assert_eq!(ask_from(&lan, own.address, b"x"), format!("{} x", HOST[0]).as_bytes());
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
}

#[test]
fn who_becomes_a_router_meanwhile_stays_one_and_a_part_of_a_bridge_is_not_shared() {
    let Some(net) = Network::set_up() else { return };
    let lan = behind(&net, "eth1");
    const BEHIND: &str = "198.18.5.5";
    ip(&net.server, &format!("addr add {BEHIND}/32 dev lo"));
    let beyond = Echo::start(&net.server, &format!("{BEHIND}:7"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let up = up_sharing(&net, &invite, &["--except", "198.18.5.0/24"]);
    make_router(&net);
    // A look at the links, as whoever makes it a router changes something there, too.
    ip(&net.client, "route add 192.0.2.0/24 via 192.168.1.1");
    assert_eq!(text(&ask_from(&lan, beyond.address, b"x")), "192.168.1.20 x");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    assert_eq!(text(&ask_from(&lan, beyond.address, b"x")), "192.168.1.20 x");

    ip(&net.client, "link add br7 type bridge");
    ip(&net.client, "link set eth1 master br7");
    let wrong = [&net.up_args(&invite)[..], &["--share", "eth1"]].concat();
    let wrong = net.run(&net.client, &wrong);
    let said = text(&wrong.stderr);
    assert!(wrong.status.code() == Some(2) && said.contains("eth1 is a part of br7"), "{said}");
}

#[test]
fn a_link_of_another_name_forwards_no_more() {
    let Some(net) = Network::set_up() else { return };
    let _lan = behind(&net, "eth1");
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let up = up_sharing(&net, &invite, &[]);
    let forwards = |name: &str| {
        let file = format!("/proc/sys/net/ipv4/conf/{name}/forwarding");
        net.client.run(|| std::fs::read_to_string(file)).unwrap().trim() == "1"
    };
    assert!(forwards("eth1"));
    ip(&net.client, "link set eth1 down");
    ip(&net.client, "link set eth1 name lan7");
    ip(&net.client, "link set lan7 up");
    until("it forwards no more", || !forwards("lan7"));
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
}
