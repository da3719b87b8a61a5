//! What is captured and what goes its usual way.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use crate::common::{Daemon, PATIENCE, until};
use crate::network::{FAR_V4, Network, SERVER, SITE_V6, ip, text};
use crate::site::Site;

#[test]
fn what_is_bound_to_a_link_or_is_no_tcp_goes_its_usual_way() {
    let Some(net) = Network::set_up() else { return };
    // On the server, behind each link's own gateway address and beyond.
    let near = Site::start(&net.server, "192.168.1.1:80");
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    let udp = net.server.run(|| UdpSocket::bind((SERVER, 53))).unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    let (_server, invite) = net.serve_tcp_alone(&["--listen", "0.0.0.0:0"]);
    let _up = net.up(&invite);
    // On the link's own network.
    assert_eq!(text(&net.curl(&near.url("")).stdout), "192.168.1.20");
    for (bound, seen) in [("wwan0", "10.64.3.9"), ("192.168.1.20", "192.168.1.20")] {
        let mut curl = net.client.command("curl");
        let curl = curl.args(["-sS", "--max-time", "400", "--noproxy", "*", "--interface", bound]);
        let got = curl.arg(beyond.url("")).output().unwrap();
        assert_eq!(text(&got.stdout), seen, "{bound}: {got:?}");
    }
    let sent = net.client.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.send_to(b"a question", (SERVER, 53))
    });
    assert_eq!(sent.unwrap(), 10);
    let (_, from) = udp.recv_from(&mut [0; 16]).unwrap();
    assert_eq!(from.ip().to_string(), "192.168.1.20", "by the route of the least metric");
}

#[test]
fn rules_of_other_programs_come_first_and_those_of_earlier_versions_go() {
    let Some(net) = Network::set_up() else { return };
    // As Tailscale has it: a table of its own, asked by a rule that stands here.
    const TAILNET: &str = "100.100.1.1";
    ip(&net.server, &format!("addr add {TAILNET}/32 dev lo"));
    ip(&net.client, "route add 100.100.0.0/16 via 192.168.1.1 dev wlan0 table 52");
    ip(&net.client, "rule add pref 5270 lookup 52");
    let tailnet = Site::start(&net.server, &format!("{TAILNET}:80"));
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let before = net.snapshot();
    // What an earlier version has left.
    ip(
        &net.client,
        "rule add pref 5201 iif lo from 0.0.0.0/32 ipproto tcp lookup 30565 protocol kernel",
    );
    ip(&net.client, "-6 rule add pref 5204 iif lo ipproto tcp unreachable protocol kernel");
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let up = net.up(&invite);
    assert_eq!(text(&net.curl(&tailnet.url("")).stdout), "192.168.1.20");
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    net.restored(&before);
}

#[test]
fn the_port_of_the_capture_is_no_proxy() {
    let Some(net) = Network::set_up() else { return };
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let up = net.up(&invite);
    // All ports on which somebody listens in the client's namespace.
    let table = net.client.run(|| fs::read_to_string("/proc/thread-self/net/tcp")).unwrap();
    let ports: Vec<u16> = table
        .lines()
        .filter(|line| line.split_whitespace().nth(3) == Some("0A"))
        .filter_map(|line| u16::from_str_radix(line.split_whitespace().nth(1)?.get(9..)?, 16).ok())
        .collect();
    assert_eq!(ports.len(), 1, "{table}");
    let talk = |to: SocketAddr| {
        let mut stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        stream.read(&mut [0; 64])
    };
    let local = net.client.run(|| Ok(talk(([127, 0, 0, 1], ports[0]).into()))).unwrap();
    assert!(!matches!(local, Ok(1..)), "{local:?}");
    up.logs("is no proxy");
    // From outside there is nothing, not even at the tunnel's address.
    let mut routed = net.server.command("ip");
    assert!(
        routed
            .args(["route", "replace", "10.87.0.2/32", "via", "192.168.1.20"])
            .status()
            .unwrap()
            .success()
    );
    // Refused at the machine's own address; dropped, not refused, at the tunnel's.
    for (to, kind) in [
        ("192.168.1.20", std::io::ErrorKind::ConnectionRefused),
        ("10.87.0.2", std::io::ErrorKind::TimedOut),
    ] {
        let to = SocketAddr::new(to.parse().unwrap(), ports[0]);
        // What must be answered has time; of what must not, a second is enough to see.
        let is_answered = kind == std::io::ErrorKind::ConnectionRefused;
        let patience = if is_answered { PATIENCE } else { Duration::from_secs(1) };
        let reached = net.server.run(|| TcpStream::connect_timeout(&to, patience));
        assert_eq!(reached.unwrap_err().kind(), kind, "{to}");
    }
}

#[test]
fn exceptions_go_directly() {
    let Some(net) = Network::set_up() else { return };
    // Behind both links, and the server's own, to which it lets no client.
    const BEHIND: [&str; 2] = ["198.18.5.5", "198.18.7.7"];
    BEHIND.iter().for_each(|address| ip(&net.server, &format!("addr add {address}/32 dev lo")));
    ip(&net.client, "addr add 2001:db8:1::20/64 dev wlan0 nodad");
    ip(&net.server, "addr add 2001:db8:1::1/64 dev wlan0 nodad");
    ip(&net.server, "addr add 2001:db8:20::1/128 dev lo nodad");
    ip(&net.client, "-6 route add default via 2001:db8:1::1 dev wlan0");
    let site = |address: &str| Site::start(&net.server, address);
    let by_network = site(&format!("{}:80", BEHIND[0]));
    let [by_port, by_port_v6] =
        [site(&format!("{}:8080", BEHIND[1])), site("[2001:db8:20::1]:8080")];
    let other = site(&format!("{}:80", BEHIND[1]));
    let far = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let before = net.snapshot();
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    fs::write(net.state.path().join("up.toml"), "except = [\"port:8080\"]\n").unwrap();
    let more = ["--except", "198.18.5.0/24", "--except", "uid:1234", "--except", "uid:1234"];
    let args = [&net.up_args(&invite)[..], &more].concat();
    let mut up = Daemon::spawn(&mut net.command(&net.client, &args));
    up.says("up:");
    let seen = |site: &Site| text(&net.curl(&site.url("")).stdout);
    assert_eq!(seen(&by_network), "192.168.1.20");
    assert_eq!(seen(&by_port), "192.168.1.20");
    assert_eq!(seen(&by_port_v6), "2001:db8:1::20");
    assert_eq!(seen(&other), "", "only what is excepted");
    assert_eq!(seen(&far), "198.51.100.1");
    let as_user = ["--reuid=1234", "--clear-groups", "curl", "-sS", "--max-time", "400"];
    let mut curl = net.client.command("setpriv");
    let got = curl.args(as_user).args(["--noproxy", "*"]).arg(other.url("")).output().unwrap();
    assert_eq!(text(&got.stdout), "192.168.1.20", "{got:?}");
    up.signal("-KILL");
    net.restored(&before);
    // Those of the file have been kept with the invite.
    let kept = fs::read_to_string(net.state.path().join("up.toml")).unwrap();
    assert!(kept.contains("port:8080") && kept.contains(&invite), "{kept}");
    assert!(!kept.contains("uid:1234"), "{kept}");
    let wrong = [&net.up_args(&invite)[..], &["--except", "home"]].concat();
    let wrong = net.run(&net.client, &wrong);
    let said = text(&wrong.stderr);
    assert!(wrong.status.code() == Some(2) && said.contains("'home' is no exception"), "{said}");
    assert!(said.contains("192.168.7.0/24") && said.contains("uid:1000"), "{said}");
}

#[test]
fn what_is_not_captured_goes_by_the_administrator_s_rules() {
    let Some(net) = Network::set_up() else { return };
    // An exception, a socket with an address of its own, and a socket on its link's network, each with
    // a rule of its own that leads elsewhere than the main table or nowhere.
    const EXCEPTED: &str = "198.18.5.5";
    ip(&net.server, &format!("addr add {EXCEPTED}/32 dev lo"));
    ip(&net.client, "addr add 2001:db8:1::20/64 dev wlan0 nodad");
    ip(&net.server, "addr add 2001:db8:1::1/64 dev wlan0 nodad");
    ip(&net.server, "addr add 2001:db8:20::1/128 dev lo nodad");
    ip(&net.client, "-6 route add default via 2001:db8:1::1 dev wlan0");
    let excepted = Site::start(&net.server, &format!("{EXCEPTED}:80"));
    let v6 = Site::start(&net.server, "[2001:db8:20::1]:80");
    let near = Site::start(&net.server, "192.168.1.1:80");
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    ip(&net.client, "route add default via 10.64.3.10 dev wwan0 table 77");
    ip(&net.client, &format!("rule add pref 6000 to {EXCEPTED} lookup 77"));
    ip(&net.client, "-6 rule add pref 6000 from 2001:db8:1::20 ipproto tcp dport 80 unreachable");
    ip(&net.client, "rule add pref 6000 from 192.168.1.20 ipproto tcp dport 80 unreachable");
    let before = net.snapshot();
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let args = [&net.up_args(&invite)[..], &["--except", "198.18.5.0/24"]].concat();
    let mut up = Daemon::spawn(&mut net.command(&net.client, &args));
    up.says("up:");
    assert_eq!(text(&net.curl(&excepted.url("")).stdout), "10.64.3.9");
    for (bound, site) in
        [("2001:db8:1::20", &v6), ("192.168.1.20", &near), ("192.168.1.20", &beyond)]
    {
        let got = net.curl_with(&["--interface", bound], &site.url(""));
        assert_eq!((got.status.code(), site.asked()), (Some(7), 0), "{bound}: {got:?}");
    }
    up.signal("-KILL");
    net.restored(&before);
}

#[test]
fn a_target_that_refuses_is_refused_ahead_for_a_while() {
    let Some(net) = Network::set_up() else { return };
    let v4 = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let _up = net.up(&invite);
    let refused = std::io::ErrorKind::ConnectionRefused;
    let connect = |target: SocketAddr| {
        let connect = || {
            let mut stream = TcpStream::connect(target)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.read(&mut [0])
        };
        net.client.run(|| Ok(connect())).unwrap().unwrap_err().kind()
    };
    // Nobody listens there. A target is refused for ten seconds from such a time on, and for that the kernel
    // is asked first: what is accepted all the same asks again.
    let targets = [format!("[{SITE_V6}]:80"), format!("{FAR_V4}:81")];
    let targets = targets.map(|target| target.parse::<SocketAddr>().unwrap());
    for target in targets {
        // It is accepted here and reset.
        assert_ne!(connect(target), refused, "{target}");
        server.logs(&format!("cannot reach {target}"));
        // Now it is not accepted.
        until("it is refused", || connect(target) == refused);
    }
    // So a program finds the address that answers. Other ports are no matter.
    let resolve = format!("far.example:80:[{SITE_V6}],{FAR_V4}");
    until("the next address is tried", || {
        let got = net.curl_with(&["--resolve", &resolve], "http://far.example/");
        text(&got.stdout) == "198.51.100.1"
    });
    assert_eq!(v4.asked(), 1);
    // It is tried again after a while.
    let v6 = Site::start(&net.internet, &format!("[{SITE_V6}]:80"));
    net.comes_to_see(&v6, "2001:db8:9::1");
}

#[test]
fn what_the_server_lacks_is_not_held_against_a_target() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let _up = net.up(&invite);
    // One port to connect from, and who has it.
    let range = || fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40000");
    net.server.run(range).unwrap();
    let args = ["--silent", "--show-error", "--no-buffer", "--max-time", "400", "--noproxy", "*"];
    let mut first = net.client.command("curl");
    let mut first = first.args(args).arg(site.url("long")).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = first.stdout.take().unwrap();
    output.read_exact(&mut [0]).unwrap();
    let connect = || {
        let mut stream = TcpStream::connect(site.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.read(&mut [0])
    };
    let refused = std::io::ErrorKind::ConnectionRefused;
    for _ in 0..2 {
        let met = net.client.run(|| Ok(connect())).unwrap();
        assert!(met.as_ref().is_err_and(|error| error.kind() != refused), "{met:?}");
        server.logs(&format!("cannot reach {}", site.address));
    }
    first.kill().unwrap();
    first.wait().unwrap();
}
