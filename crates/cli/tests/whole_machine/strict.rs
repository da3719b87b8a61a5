//! The kill switch, and links that are opened to a browser.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};
use weftline_lab::netns::Netns;
use weftline_net::KillSwitch;

use crate::common::{Daemon, PATIENCE, accept, patient, until};
use crate::lanes::dns::QUERY;
use crate::lanes::{ALL, Echo, ask, block_udp, is_refused, ping};
use crate::network::{FAR_V4, Network, SERVER, SITE_V6, ip, join, text};
use crate::site::Site;
use crate::sniffer::Sniffer;

/// What is reached by the client's links without the server: the server's own address, one to which a route
/// of its own leads, as DHCP's option 121 gives one out, one by IPv6, and the router of a link, which answers
/// questions to DNS.
const SERVER_PORT: &str = "203.0.113.5:9000";
const BY_ROUTE: &str = "198.18.5.5:9000";
const BY_IPV6: &str = "[2001:db8:20::1]:9000";
const ROUTER: &str = "192.168.1.1:53";
const DIRECTLY: [&str; 4] = [SERVER_PORT, BY_ROUTE, BY_IPV6, ROUTER];

fn strict_network() -> Option<Network> {
    let net = Network::set_up()?;
    ip(&net.client, "addr add 2001:db8:1::20/64 dev wlan0 nodad");
    ip(&net.server, "addr add 2001:db8:1::1/64 dev wlan0 nodad");
    ip(&net.server, "addr add 2001:db8:20::1/128 dev lo nodad");
    ip(&net.client, "-6 route add default via 2001:db8:1::1 dev wlan0");
    ip(&net.server, "addr add 198.18.5.5/32 dev lo");
    ip(&net.client, "route add 198.18.0.0/16 via 192.168.1.1 dev wlan0");
    Some(net)
}

/// What a machine does that is to be seen on no link.
fn try_all(net: &Network) {
    for to in DIRECTLY {
        let to: SocketAddr = to.parse().unwrap();
        let domain = Domain::for_address(to);
        for bound in [None, Some("wlan0"), Some("wwan0")] {
            let attempt = || {
                let socket = Socket::new(domain, Type::DGRAM, None)?;
                socket.bind_device(bound.map(str::as_bytes))?;
                let _ = socket.send_to(b"a question", &to.into());
                let socket = Socket::new(domain, Type::STREAM, None)?;
                socket.bind_device(bound.map(str::as_bytes))?;
                let _ = socket.connect_timeout(&to.into(), Duration::from_millis(50));
                Ok(())
            };
            net.client.run(attempt).unwrap();
        }
        // From an address of a link.
        if to.is_ipv4() {
            let send = || UdpSocket::bind("10.64.3.9:0").map(|socket| _ = socket.send_to(b"x", to));
            net.client.run(send).unwrap();
        }
    }
    // The later deadline counts.
    let got = ping(net, &["-w", "1", SERVER]);
    assert!(!got.is_some_and(|output| output.status.success()), "it is not answered");
}

/// All that a sniffer has seen but for what may be.
pub(crate) fn leaks(sniffer: Sniffer, net: &Network) -> Vec<String> {
    let seen = sniffer.stop(net);
    let may = ["ARP", "neighbour discovery", "TCP with the server", "UDP with the server"];
    seen.into_iter().filter(|one| !may.contains(&&**one)).collect()
}

fn strict_up(net: &Network, invite: &str, more: &[&str]) -> Daemon {
    let args = [&net.up_args(invite)[..], &["--strict"], more].concat();
    Daemon::spawn(&mut net.command(&net.client, &args))
}

/// What nothing carries and what may not go past the server either is refused, and said to be.
#[test]
fn where_no_udp_comes_through_it_is_refused() {
    let Some(net) = strict_network() else { return };
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    block_udp(&net, 4433, true);
    let mut up = strict_up(&net, &invite, &["--udp-over-tcp", "off"]);
    up.says("up:");
    net.comes_to_show("UDP and ICMP: refused");
    net.comes_to_show("weft0: all TCP of this machine");
    let socket = net.client.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    net.client.run(|| socket.connect(far.address)).unwrap();
    is_refused(&socket);
    net.comes_to_see(&site, "198.51.100.1");
    // Names need no lane: who asks is to do so by TCP.
    net.client.run(|| socket.connect(ROUTER)).unwrap();
    let (mut answer, mut length) = ([0; 512], 0);
    until("a question is answered", || {
        let _ = socket.send(QUERY);
        length = socket.recv(&mut answer).unwrap_or(0);
        length > 0
    });
    assert_eq!((&answer[..2], answer[2] & 0x82), (&QUERY[..2], 0x82), "cut: {answer:?}");
    block_udp(&net, 4433, false);
    net.comes_to_show(ALL);
    assert_eq!(text(&ask(&net, far.address, b"who")), "198.51.100.1 who");
    let status = text(&net.run(&net.client, &["status"]).stdout);
    assert!(!status.contains("refused,"), "{status}");
}

#[test]
fn nothing_leaves_in_any_state_until_down() {
    let Some(net) = strict_network() else { return };
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let v6 = Echo::start(&net.internet, &format!("[{SITE_V6}]:7000"));
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    let server = SocketAddr::new(SERVER.parse().unwrap(), 4433);
    let before = net.snapshot();
    let (daemon, invite) =
        net.serve(&["--listen", "0.0.0.0:4433", "--public", &server.to_string()]);
    // Without it all of that is seen.
    let sniffer = Sniffer::start(&net, server);
    try_all_open(&net);
    let seen = leaks(sniffer, &net);
    assert!(seen.len() >= 6, "{seen:?}");

    // While it starts, as the server takes its time.
    daemon.signal("-STOP");
    let (mut up, began) = (strict_up(&net, &invite, &[]), Instant::now());
    up.logs("the kill switch is closed");
    let sniffer = Sniffer::start(&net, server);
    try_all(&net);
    daemon.signal("-CONT");
    if began.elapsed() > Duration::from_secs(5) {
        // It may have given up by itself, with the kill switch closed.
        up.signal("-KILL");
        up.end();
        up = net.up_again(&[&net.up_args(&invite)[..], &["--strict"]].concat());
    } else {
        up.says("up:");
    }
    let works = || {
        net.comes_to_see(&site, "198.51.100.1");
        assert_eq!(text(&ask(&net, far.address, b"who")), "198.51.100.1 who");
        assert_eq!(text(&ask(&net, v6.address, b"who")), "2001:db8:9::1 who");
    };
    works();
    try_all(&net);
    let status = text(&net.run(&net.client, &["status"]).stdout);
    assert!(status.contains("kill switch: closed"), "{status}");
    ip(&net.client, "link set wlan0 down");
    try_all(&net);
    works();
    ip(&net.client, "link set wlan0 up");
    ip(&net.client, "route add default via 192.168.1.1 dev wlan0 metric 600");
    ip(&net.client, "route add 198.18.0.0/16 via 192.168.1.1 dev wlan0");
    ip(&net.client, "addr add 2001:db8:1::20/64 dev wlan0 nodad");
    ip(&net.client, "-6 route add default via 2001:db8:1::1 dev wlan0");
    try_all(&net);
    // Killed, with its janitor's work done, and started again.
    up.signal("-KILL");
    assert_eq!(up.end().0, None);
    try_all(&net);
    let mut up = strict_up(&net, &invite, &[]);
    up.says("up:");
    works();
    try_all(&net);
    // Ended; a service manager that restarts it does so.
    up.signal("-TERM");
    up.logs("the kill switch stays closed");
    assert_eq!(up.end().0, Some(0));
    try_all(&net);
    // One that does not ask for it does not open it.
    let up = net.up(&invite);
    try_all(&net);
    works();
    let seen = leaks(sniffer, &net);
    assert_eq!(seen, Vec::<String>::new());
    // What comes in is answered.
    let listener = net.client.run(|| TcpListener::bind("192.168.1.20:2222")).unwrap();
    let from = net
        .server
        .run(|| TcpStream::connect_timeout(&"192.168.1.20:2222".parse().unwrap(), PATIENCE))
        .unwrap();
    let (mut from, mut to) = (patient(from), accept(&listener));
    to.write_all(b"welcome").unwrap();
    drop(to);
    let mut said = String::new();
    from.read_to_string(&mut said).unwrap();
    assert_eq!(said, "welcome");
    // Somebody removes it.
    assert!(net.client.run(|| Ok(KillSwitch::open())).unwrap().unwrap());
    up.logs("it is closed again");
    let down = net.run(&net.client, &["down"]);
    assert!(down.status.success(), "{down:?}");
    assert_eq!(up.end().0, Some(0));
    assert_eq!(text(&net.curl(&beyond.url("")).stdout), "192.168.1.20");
    // With nothing else to end.
    let open = net.snapshot();
    let mut up = strict_up(&net, &invite, &[]);
    up.says("up:");
    up.signal("-KILL");
    assert_eq!(up.end().0, None);
    // The janitor is through.
    let lock = std::fs::File::open(&net.files()[0]).unwrap();
    until("the janitor is through", || lock.try_lock().is_ok());
    drop(lock);
    let down = net.run(&net.client, &["down"]);
    assert!(
        down.status.success() && text(&down.stdout).contains("kill switch is open"),
        "{down:?}"
    );
    assert_eq!(text(&net.curl(&beyond.url("")).stdout), "192.168.1.20");
    net.restored(&open);
    // The route of the link that was down is not as before.
    let after = net.snapshot();
    let tables =
        |text: &str| text.lines().find(|line| line.starts_with("tables")).unwrap().to_owned();
    assert_eq!(tables(&after), tables(&before));
}

/// The same where all of it may go, so that it is known to be seen.
fn try_all_open(net: &Network) {
    for to in DIRECTLY {
        let to: SocketAddr = to.parse().unwrap();
        let attempt = || {
            let socket = Socket::new(Domain::for_address(to), Type::DGRAM, None)?;
            socket.bind_device(Some(b"wlan0"))?;
            socket.send_to(b"a question", &to.into())?;
            let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
            let _ = socket.connect_timeout(&to.into(), Duration::from_millis(50));
            Ok(())
        };
        net.client.run(attempt).unwrap();
    }
}

#[test]
fn nothing_goes_directly_by_exceptions_and_a_link_s_network_only_if_it_may() {
    let Some(net) = Network::set_up() else { return };
    let near = Site::start(&net.server, "192.168.1.1:80");
    // As a hostile network says it is on the link.
    ip(&net.server, "addr add 8.8.8.1/24 dev wlan0");
    ip(&net.client, "addr add 8.8.8.20/24 dev wlan0");
    let false_near = Site::start(&net.server, "8.8.8.1:80");
    let router = net.server.run(|| UdpSocket::bind(ROUTER)).unwrap();
    router.set_nonblocking(true).unwrap();
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let wrong = [&net.up_args(&invite)[..], &["--strict", "--except", "port:22"]].concat();
    let wrong = net.run(&net.client, &wrong);
    let said = text(&wrong.stderr);
    assert!(wrong.status.code() == Some(2) && said.contains("nothing goes directly"), "{said}");
    // What must get there has time; of what must not, a second is enough to see.
    let reaches = |site: &Site| net.curl(&site.url("")).status.success();
    let is_kept_from =
        |site: &Site| !net.curl_with(&["--connect-timeout", "1"], &site.url("")).status.success();
    assert!(reaches(&near), "a start that is refused closes nothing");
    let wrong = net.run(&net.client, &[&net.up_args(&invite)[..], &["--lan"]].concat());
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    for (more, is_near) in [(&[][..], false), (&["--lan"], true)] {
        let mut up = strict_up(&net, &invite, more);
        up.says("up:");
        assert!(if is_near { reaches(&near) } else { is_kept_from(&near) });
        assert!(is_kept_from(&false_near));
        let ask = || {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
            socket.bind_device(Some(b"wlan0"))?;
            let _ = socket.send_to(b"a question", &ROUTER.parse::<SocketAddr>().unwrap().into());
            Ok(())
        };
        net.client.run(ask).unwrap();
        up.signal("-TERM");
        assert_eq!(up.end().0, Some(0));
    }
    assert!(router.recv_from(&mut [0; 16]).is_err(), "DNS goes to no network");
    // A network of a link that comes later.
    fs_strict(&net);
    let mut up = Daemon::spawn(&mut net.command(&net.client, &net.up_args(&invite)));
    up.says("up:");
    ip(&net.server, "addr add 172.16.9.1/24 dev wwan0");
    let later = Site::start(&net.server, "172.16.9.1:80");
    ip(&net.client, "addr add 172.16.9.2/24 dev wwan0");
    net.comes_to_see(&later, "172.16.9.2");
    let down = net.run(&net.client, &["down"]);
    assert!(down.status.success(), "{down:?}");
    assert_eq!(up.end().0, Some(0));
    assert!(reaches(&false_near));
}

/// As its user writes it down.
fn fs_strict(net: &Network) {
    std::fs::write(net.state.path().join("up.toml"), "strict = true\nlan = true\n").unwrap();
}

#[test]
fn links_get_their_addresses_and_what_others_send_through_this_machine_is_dropped() {
    let Some(net) = Network::set_up() else { return };
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    // A machine behind this one, which forwards for it.
    let behind = Netns::create().unwrap();
    join((&behind, "eth0"), (&net.client, "lan0"));
    ip(&behind, "addr add 192.168.44.2/24 dev eth0");
    ip(&net.client, "addr add 192.168.44.1/24 dev lan0");
    ip(&behind, "route add default via 192.168.44.1 dev eth0");
    ip(&net.server, "route add 192.168.44.0/24 via 192.168.1.20 dev wlan0");
    net.client.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap();
    let reaches = |patience| {
        let connected = || Ok(TcpStream::connect_timeout(&beyond.address, patience).is_ok());
        behind.run(connected).unwrap()
    };
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    assert!(reaches(PATIENCE));
    let mut up = strict_up(&net, &invite, &[]);
    up.says("up:");
    assert!(!reaches(Duration::from_millis(500)));
    // A question for an address, as of a client of DHCP that has one and renews it.
    let server = net.server.run(|| UdpSocket::bind("0.0.0.0:67")).unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let ask = |port: u16| {
        let socket = UdpSocket::bind(("0.0.0.0", port))?;
        let as_link = SockRef::from(&socket);
        as_link.bind_device(Some(b"wlan0"))?;
        as_link.set_broadcast(true)?;
        socket.send_to(&port.to_be_bytes(), "255.255.255.255:67")
    };
    net.client.run(|| Ok(ask(1068))).unwrap().unwrap_err();
    net.client.run(|| ask(68)).unwrap();
    let (_, from) = server.recv_from(&mut [0; 16]).unwrap();
    assert_eq!(from.port(), 68);
    let doctor = net.run(&net.client, &["doctor", "up", "--state-dir", net.state()]);
    let said = text(&doctor.stdout);
    assert!(said.contains("the kill switch is closed"), "{doctor:?}");
    assert!(!said.contains("unreachable") && doctor.status.success(), "{doctor:?}");
    let down = net.run(&net.client, &["down"]);
    assert!(down.status.success(), "{down:?}");
    assert!(reaches(PATIENCE));
}

#[test]
fn a_link_is_opened_to_a_user_s_browser_and_closed_again() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    let other_port = Site::start(&net.server, &format!("{SERVER}:8123"));
    let router = net.server.run(|| UdpSocket::bind("10.64.3.10:53")).unwrap();
    router.set_read_timeout(Some(PATIENCE)).unwrap();
    let browse_for = |seconds: &str, user: &str, url: &str| {
        let as_user = [&format!("--reuid={user}"), "--clear-groups", "curl", "-sS"];
        let mut curl = net.client.command("setpriv");
        let curl = curl.args(as_user).args(["--noproxy", "*", "--max-time", seconds]);
        text(&curl.arg(url).output().unwrap().stdout)
    };
    // What must get there has time; of what must not, two seconds are enough to see.
    let browse = |user: &str, url: &str| browse_for("2", user, url);
    let portal = |args: &[&str]| {
        let mut command = net.command(&net.client, &[&["portal"], args].concat());
        command.env_remove("SUDO_UID").output().unwrap()
    };
    let nothing = portal(&["wwan0", "--user", "1234"]);
    assert_eq!(nothing.status.code(), Some(2), "{nothing:?}");
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    for strict in [&[][..], &["--strict"]] {
        let before = net.snapshot();
        let args = [&net.up_args(&invite)[..], strict].concat();
        let mut up = Daemon::spawn(&mut net.command(&net.client, &args));
        up.says("up:");
        assert_ne!(browse("1234", &beyond.url("")), "10.64.3.9");
        let unknown = portal(&["wlan7", "--user", "1234"]);
        assert!(text(&unknown.stderr).contains("there is no link 'wlan7'"), "{unknown:?}");
        let opened = portal(&["wwan0", "--user", "1234"]);
        assert!(opened.status.success(), "{opened:?}");
        up.logs("wwan0 is open to the browser of user 1234");
        // By this link, though another one has the default route; nobody else, and nothing else.
        assert_eq!(browse_for("400", "1234", &beyond.url("")), "10.64.3.9");
        assert_ne!(browse("1235", &beyond.url("")), "10.64.3.9");
        assert_ne!(browse("1234", &other_port.url("")), "10.64.3.9");
        let ask = || UdpSocket::bind("0.0.0.0:0")?.send_to(b"a question", "10.64.3.10:53");
        net.client.run(ask).unwrap();
        assert_eq!(router.recv_from(&mut [0; 16]).unwrap().1.ip().to_string(), "10.64.3.9");
        assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1", "all else goes on");
        // The kernel closes it in the end, whatever becomes of us.
        let ended = portal(&["wwan0", "--end"]);
        assert_eq!(ended.status.code(), Some(2), "whose is it? {ended:?}");
        let ended = portal(&["wwan0", "--end", "--user", "1234"]);
        assert!(ended.status.success(), "{ended:?}");
        assert_ne!(browse("1234", &beyond.url("")), "10.64.3.9");
        let ended = portal(&["wwan0", "--end", "--user", "1234"]);
        assert!(text(&ended.stderr).contains("is not open"), "{ended:?}");
        // Killed with a link open, it leaves nothing but the kill switch.
        assert!(portal(&["wwan0", "--user", "1234"]).status.success());
        up.signal("-KILL");
        assert_eq!(up.end().0, None);
        if !strict.is_empty() {
            let down = net.run(&net.client, &["down"]);
            assert!(down.status.success(), "{down:?}");
        }
        net.restored(&before);
    }
}

/// Somebody flushes all rules while the server does not let this machine in, and a service manager would
/// begin it again at once.
#[test]
fn the_kill_switch_is_looked_after_when_nothing_is_up() {
    let Some(net) = Network::set_up() else { return };
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    let revoked = net.invite(&["first", "--revoke"]);
    assert!(revoked.status.success(), "{revoked:?}");
    let args = [&net.up_args(&invite)[..], &["--strict"]].concat();
    let mut up = net.command(&net.client, &args);
    let up = Daemon::spawn(up.env("NOTIFY_SOCKET", "/nowhere"));
    up.logs("ending in 30s");
    assert!(net.client.run(|| Ok(KillSwitch::open())).unwrap().unwrap());
    up.logs("it is closed again");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    assert!(net.client.run(|| Ok(KillSwitch::is_closed())).unwrap().unwrap());
}

/// As at the start of a machine in a network that wants a login: the server does not answer, and `up` is begun
/// again and again.
#[test]
fn a_link_is_opened_to_a_browser_before_the_server_is_reached() {
    let Some(net) = Network::set_up() else { return };
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    let before = net.snapshot();
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    server.signal("-STOP");
    let browse = |seconds: &str, user: &str| {
        let as_user = [&format!("--reuid={user}"), "--clear-groups", "curl", "-sS"];
        let mut curl = net.client.command("setpriv");
        let curl = curl.args(as_user).args(["--noproxy", "*", "--max-time", seconds]);
        text(&curl.arg(beyond.url("")).output().unwrap().stdout)
    };
    let args = [&net.up_args(&invite)[..], &["--strict"]].concat();
    let start = || {
        let up = Daemon::spawn(&mut net.command(&net.client, &args));
        up.logs("the kill switch is closed");
        up
    };
    let up = start();
    let opens = || net.run(&net.client, &["portal", "wlan0", "--user", "1234"]);
    // It listens for that a moment later.
    until("the link is opened", || opens().status.success());
    assert_eq!(browse("400", "1234"), "192.168.1.20");
    // It fails, as nothing answers, and the login may not be done by then.
    assert_eq!(up.end().0, Some(1));
    assert_eq!(browse("400", "1234"), "192.168.1.20");
    // The next one closes the kill switch anew, and leaves the link as it is.
    let up = start();
    assert_eq!(browse("400", "1234"), "192.168.1.20");
    assert_ne!(browse("2", "1235"), "192.168.1.20");
    // One link at a time, whoever has opened the other.
    let other = ["portal", "wwan0", "--user", "1234"];
    until("the other link is opened", || net.run(&net.client, &other).status.success());
    assert_ne!(browse("2", "1234"), "192.168.1.20");
    let end = |link| net.run(&net.client, &["portal", link, "--user", "1234", "--end"]);
    assert_eq!(end("wlan0").status.code(), Some(1));
    // By another administrator, too, who need not know whose browser it is. An `up` that just gives up hears
    // nothing.
    let root_ends = || net.run(&net.client, &["portal", "wwan0", "--user", "0", "--end"]);
    until("the link is closed", || root_ends().status.success());
    assert_ne!(browse("2", "1234"), "10.64.3.9");
    assert_eq!(end("wwan0").status.code(), Some(1));
    up.signal("-KILL");
    // Where this machine is slow it has given up before, as the server does not answer.
    assert!(matches!(up.end().0, None | Some(1)));
    let down = net.run(&net.client, &["down"]);
    assert!(down.status.success(), "{down:?}");
    net.restored(&before);
}

/// What this machine sends by its links, other than to the server.
fn sent(sniffer: Sniffer, net: &Network) -> Vec<String> {
    let mut seen = leaks(sniffer, net);
    seen.retain(|one| ["from 192.168.1.20", "from 10.64.3.9"].iter().any(|own| one.contains(own)));
    seen
}

/// Nothing has followed connections on this machine before, so that the kernel takes one whose peer speaks
/// first for one that the peer has begun.
#[test]
fn flows_from_before_and_blocked_ones_stay_so_when_their_peers_speak() {
    let Some(net) = Network::set_up() else { return };
    let server = SocketAddr::new(SERVER.parse().unwrap(), 4433);
    let (_server, invite) =
        net.serve(&["--listen", "0.0.0.0:4433", "--public", &server.to_string()]);
    let listener = net.server.run(|| TcpListener::bind((SERVER, 7002))).unwrap();
    let mut tcp = patient(net.client.run(|| TcpStream::connect((SERVER, 7002))).unwrap());
    let mut tcp_peer = accept(&listener);
    let udp_peer = net.server.run(|| UdpSocket::bind((SERVER, 7001))).unwrap();
    let bind = |port: u16| net.client.run(|| UdpSocket::bind(("192.168.1.20", port))).unwrap();
    let (udp, blocked) = (bind(7001), bind(7003));
    for socket in [&udp, &blocked, &udp_peer] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    udp.send_to(b"before", (SERVER, 7001)).unwrap();
    udp_peer.recv_from(&mut [0; 16]).unwrap();
    let mut up = strict_up(&net, &invite, &[]);
    up.says("up:");
    let sniffer = Sniffer::start(&net, server);
    // What they send themselves is dropped; then comes what their peers send.
    let _ = udp.send_to(b"x", (SERVER, 7001));
    let _ = blocked.send_to(b"x", (SERVER, 7001));
    let _ = tcp.write(b"x");
    tcp_peer.write_all(b"peer").unwrap();
    tcp.read_exact(&mut [0; 4]).unwrap();
    for (port, socket) in [(7001, &udp), (7003, &blocked)] {
        udp_peer.send_to(b"peer", ("192.168.1.20", port)).unwrap();
        socket.recv_from(&mut [0; 16]).unwrap();
        let _ = socket.send_to(b"an answer", (SERVER, 7001));
    }
    let _ = tcp.write(b"an answer");
    assert_eq!(sent(sniffer, &net), Vec::<String>::new());
    let down = net.run(&net.client, &["down"]);
    assert!(down.status.success(), "{down:?}");
}

#[test]
fn a_link_is_no_way_out_for_its_name() {
    let Some(net) = Network::set_up() else { return };
    let server = SocketAddr::new(SERVER.parse().unwrap(), 4433);
    let (_server, invite) =
        net.serve(&["--listen", "0.0.0.0:4433", "--public", &server.to_string()]);
    // Links with names like those of containers, of which the bond uses one by its address.
    for (from, to) in [("wlan0", "br-ex"), ("wwan0", "veth9")] {
        ip(&net.client, &format!("link set {from} down"));
        ip(&net.client, &format!("link set {from} name {to} up"));
    }
    ip(&net.client, "route add default via 192.168.1.1 dev br-ex metric 600");
    ip(&net.client, "route add default via 10.64.3.10 dev veth9 metric 700");
    // Networks of containers are reached, also where a link has such a name.
    let inside = Netns::create().unwrap();
    ip(&net.client, "link add br-app type bridge");
    join((&net.client, "veth1"), (&inside, "eth0"));
    ip(&net.client, "link set veth1 master br-app");
    ip(&net.client, "link set br-app up");
    ip(&net.client, "addr add 172.30.9.1/24 dev br-app");
    ip(&inside, "addr add 172.30.9.2/24 dev eth0");
    let app = Site::start(&inside, "172.30.9.2:80");
    let args = ["--path", "lan=192.168.1.20", "--path", "lte=veth9"];
    let mut up = strict_up(&net, &invite, &args);
    up.says("up:");
    let sniffer = Sniffer::on(&net, server, &["br-ex", "veth9"]);
    for link in ["br-ex", "veth9"] {
        let send = || {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
            socket.bind_device(Some(link.as_bytes()))?;
            let _ = socket.send_to(b"x", &SERVER_PORT.parse::<SocketAddr>().unwrap().into());
            Ok(())
        };
        net.client.run(send).unwrap();
    }
    assert_eq!(sent(sniffer, &net), Vec::<String>::new());
    assert_eq!(text(&net.curl(&app.url("")).stdout), "172.30.9.1");
    let down = net.run(&net.client, &["down"]);
    assert!(down.status.success(), "{down:?}");
}

/// Also where nothing else in the file is of use.
#[test]
fn what_the_file_says_is_closed_first_and_stays_so() {
    let Some(net) = Network::set_up() else { return };
    let near = Site::start(&net.server, "192.168.1.1:80");
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    // What must get there has time; of what must not, a second is enough to see.
    let reaches = || net.curl(&near.url("")).status.success();
    let is_kept_from =
        || !net.curl_with(&["--connect-timeout", "1"], &near.url("")).status.success();
    let file = net.state.path().join("up.toml");
    let tries = [
        ("strict = true\nexcept = [\"port:22\"]\n", "nothing goes directly"),
        ("strict = true\ndns = \"system\"\n", "questions to DNS reach the server alone"),
        ("strict = true\nexcept = [\n", "up.toml"),
    ];
    for (kept, why) in tries {
        std::fs::write(&file, kept).unwrap();
        let wrong = net.run(&net.client, &net.up_args(&invite));
        assert!(!wrong.status.success() && text(&wrong.stderr).contains(why), "{wrong:?}");
        assert!(is_kept_from(), "{kept}");
        // Between two tries of the unit, which would close it again.
        let manager = tempfile::tempdir().unwrap();
        let said = manager.path().join("said");
        let script = format!("#!/bin/sh\necho $* >>{}\necho activating\n", said.display());
        let program = manager.path().join("systemctl");
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut down = net.command(&net.client, &["down"]);
        let path = std::env::var("PATH").unwrap();
        down.env("PATH", format!("{}:{path}", manager.path().display()));
        let down = down.output().unwrap();
        assert!(text(&down.stdout).contains("kill switch is open"), "{down:?}");
        let said = std::fs::read_to_string(said).unwrap_or_default();
        assert_eq!(said, "is-active weftline-up\nstop weftline-up\n");
        assert!(reaches());
    }
    // As at boot, before there is a network.
    let close = ["up", "--close-only", "--state-dir", net.state()];
    for is_strict in [false, true] {
        std::fs::write(&file, format!("strict = {is_strict}\n")).unwrap();
        let closed = net.run(&net.client, &close);
        assert!(closed.status.success(), "{closed:?}");
        assert!(if is_strict { is_kept_from() } else { reaches() });
    }
    let down = net.run(&net.client, &["down"]);
    assert!(text(&down.stdout).contains("kill switch is open"), "{down:?}");
    assert!(reaches());
}
