//! A server that is away, and comes back.

use std::io::Read as _;
use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Daemon, PATIENCE};
use crate::lanes::{Echo, ask, block_udp, both_lanes_up, is_refused};
use crate::network::{FAR_V4, Network, SERVER, ip, text};
use crate::site::{FIRST, LONG, Site};

/// Waits until a site is asked.
#[track_caller]
fn is_asked(site: &Site) {
    let began = Instant::now();
    while site.asked() == 0 {
        assert!(began.elapsed() < PATIENCE, "nobody asks");
        thread::sleep(Duration::from_millis(20));
    }
}

const AWAY: &str = "the server has not answered for 10 s over any link";

#[test]
fn without_its_server_a_machine_speaks_for_itself_until_that_is_back() {
    let Some(net) = Network::set_up() else { return };
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    let before = net.snapshot();
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    let up = net.up(&invite);
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1");
    ask(&net, far.address, b"who");
    // A lane that comes up later is heard later.
    both_lanes_up(&net);
    // It keeps the device's address for as long as it lives.
    let connected = net.client.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    connected.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    connected.connect(far.address).unwrap();
    let began = Instant::now();
    server.signal("-KILL");
    assert_eq!(server.end().0, None);
    up.logs(AWAY);
    assert!(began.elapsed() >= Duration::from_secs(10), "{:?}", began.elapsed());
    net.comes_to_show("weft0: nothing, as the server does not answer");
    net.comes_to_see(&beyond, "192.168.1.20");
    // One rule goes after the other.
    let asked = Instant::now();
    while is_captured(&net) {
        assert!(asked.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(20));
    }
    // No link has a way for it.
    is_refused(&connected);
    let rules = text(&net.client.command("ip").arg("rule").output().unwrap().stdout);
    let own = |rule: &&str| rule.contains("from 10.87.") && !rule.contains("ipproto");
    assert_eq!(rules.lines().filter(own).count(), 1, "{rules}");
    // It resumes by itself, UDP as well.
    let (server, _) = net.serve(&["--listen", "0.0.0.0:4433"]);
    up.logs("the server answers again");
    net.comes_to_see(&site, "198.51.100.1");
    assert_eq!(text(&ask(&net, far.address, b"again")), "198.51.100.1 again");
    net.comes_to_show("weft0: all TCP, UDP and ICMP of this machine");
    // Once more, and down while it is away.
    server.signal("-KILL");
    assert_eq!(server.end().0, None);
    net.comes_to_see(&beyond, "192.168.1.20");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    net.restored(&before);
}

/// Whether rules lead to the device what has no address of its own yet.
fn is_captured(net: &Network) -> bool {
    let rules = text(&net.client.command("ip").arg("rule").output().unwrap().stdout);
    rules.lines().any(|rule| rule.contains("30565") && !rule.contains("from 10.87."))
}

/// A server that is held up: what was captured before waits for it, and goes on.
#[test]
fn a_download_goes_on_when_its_server_is_back() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    let up = net.up(&invite);
    let args = ["--silent", "--show-error", "--no-buffer", "--max-time", "400", "--noproxy", "*"];
    let mut curl = net.client.command("curl");
    let mut curl = curl.args(args).arg(site.url("long")).stdout(Stdio::piped()).spawn().unwrap();
    let mut from = curl.stdout.take().unwrap();
    let mut got = vec![0; FIRST];
    from.read_exact(&mut got).unwrap();
    server.signal("-STOP");
    up.logs(AWAY);
    net.comes_to_see(&beyond, "192.168.1.20");
    server.signal("-CONT");
    up.logs("the server answers again");
    site.go.store(1, Ordering::SeqCst);
    from.read_to_end(&mut got).unwrap();
    assert!(curl.wait().unwrap().success());
    assert_eq!(got.len(), LONG);
}

/// Nothing tells of the server there but what connections meet.
#[test]
fn a_server_without_lanes_is_missed_where_connections_are_under_way() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    let (server, invite) = net.serve_tcp_alone(&["--listen", "0.0.0.0:4433"]);
    let up = net.up(&invite);
    let args = ["--silent", "--max-time", "400", "--noproxy", "*", "--output", "/dev/null"];
    let mut curl = net.client.command("curl");
    let mut curl = curl.args(args).arg(site.url("long")).spawn().unwrap();
    is_asked(&site);
    server.signal("-KILL");
    assert_eq!(server.end().0, None);
    up.logs(AWAY);
    net.comes_to_see(&beyond, "192.168.1.20");
    curl.kill().unwrap();
    curl.wait().unwrap();
    let (_server, _) = net.serve_tcp_alone(&["--listen", "0.0.0.0:4433"]);
    up.logs("the server answers again");
    net.comes_to_see(&site, "198.51.100.1");
}

/// Lanes that are up tell of a server that is there, but it lets the client in no more.
#[test]
fn a_server_that_has_revoked_the_invite_is_away_and_others_behind_the_address_are_let_in() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    let (server, _) = net.serve(&["--listen", "0.0.0.0:4433"]);
    let phone = text(&net.invite(&["phone"]).stdout).trim().to_owned();
    let laptop = text(&net.invite(&["laptop"]).stdout).trim().to_owned();
    server.logs("has been read again");
    let up = net.up(&phone);
    both_lanes_up(&net);
    let revoked = net.invite(&["phone", "--revoke"]);
    assert!(revoked.status.success(), "{revoked:?}");
    // Those that were ready are used up, and no others come.
    let began = Instant::now();
    while text(&net.curl_with(&["--max-time", "60"], &site.url("")).stdout) == "198.51.100.1" {
        assert!(began.elapsed() < PATIENCE, "it is let in on and on");
        thread::sleep(Duration::from_millis(20));
    }
    up.logs(AWAY);
    net.comes_to_see(&beyond, "192.168.1.20");
    net.comes_to_show("weft0: nothing, as the server does not answer");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    // Nobody has guessed so often that it has to wait.
    let _up = net.up(&laptop);
    net.comes_to_see(&site, "198.51.100.1");
}

/// Lanes are agreed on there, and none is up: nothing tells of the server but what connections meet.
#[test]
fn a_server_is_missed_where_no_lane_is_up() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    block_udp(&net, 4433, true);
    let args = [&net.up_args(&invite)[..], &["--udp-over-tcp", "off"]].concat();
    let mut up = Daemon::spawn(&mut net.command(&net.client, &args));
    up.says("up:");
    // It has answered once, when nothing was under way.
    net.comes_to_show("weft0: all TCP of this machine");
    let args = ["--silent", "--max-time", "400", "--noproxy", "*", "--output", "/dev/null"];
    let mut curl = net.client.command("curl");
    let mut curl = curl.args(args).arg(site.url("long")).spawn().unwrap();
    is_asked(&site);
    // Nothing that it has open breaks off.
    server.signal("-STOP");
    up.logs(AWAY);
    net.comes_to_see(&beyond, "192.168.1.20");
    curl.kill().unwrap();
    curl.wait().unwrap();
}

/// That helps nobody, and what comes next is perhaps a network that the server can be reached from.
#[test]
fn without_any_link_nothing_is_let_out() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    let up = net.up(&invite);
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1");
    for link in ["wlan0", "wwan0"] {
        ip(&net.client, &format!("link set {link} down"));
    }
    // Longer than a server may be away, of which the time is the thing looked at.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(15) {
        assert!(is_captured(&net));
        thread::sleep(Duration::from_millis(100));
    }
    ip(&net.client, "link set wlan0 up");
    ip(&net.client, "route add default via 192.168.1.1 dev wlan0 metric 600");
    net.comes_to_see(&site, "198.51.100.1");
    let down = net.run(&net.client, &["down"]);
    assert!(down.status.success(), "{down:?}");
    let log = up.all_it_logged();
    assert!(!log.iter().any(|line| line.contains(AWAY)), "{log:?}");
}

/// As of a server with two uplinks, or behind a router that gives it another address than its own.
#[test]
fn a_server_is_looked_for_at_each_of_its_addresses() {
    const OTHER: &str = "203.0.113.6";
    const NOBODY: &str = "203.0.113.77";
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let public = [NOBODY, SERVER, OTHER].map(|address| format!("{address}:4433"));
    let public = public.iter().flat_map(|address| ["--public", address]).collect::<Vec<_>>();
    let listen = ["--listen", "0.0.0.0:4433"];
    let (_server, invite) = net.serve(&[&listen[..], &public].concat());
    let mut up = Daemon::spawn(&mut net.command(&net.client, &net.up_args(&invite)));
    let said = up.says("up:");
    assert!(said.contains(&format!("goes to {SERVER}:4433")), "{said}");
    up.logs("the invite's next address is tried");
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1");
    // One uplink of the server dies, and there is another.
    ip(&net.server, &format!("addr add {OTHER}/32 dev lo"));
    ip(&net.server, &format!("addr del {SERVER}/32 dev lo"));
    up.logs(AWAY);
    up.logs(&format!("the server answers at {OTHER}:4433: new connections go there"));
    up.logs("the server answers again");
    net.comes_to_see(&site, "198.51.100.1");
    both_lanes_up(&net);
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
}

/// Where nobody is at the other address, the first one holds.
#[test]
fn a_server_that_comes_back_is_where_it_was() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let public = [SERVER, "203.0.113.77"].map(|address| format!("{address}:4433"));
    let public = public.iter().flat_map(|address| ["--public", address]).collect::<Vec<_>>();
    let (_server, invite) = net.serve(&[&["--listen", "0.0.0.0:4433"][..], &public].concat());
    let up = net.up(&invite);
    // What goes on at the old address does not say that the other one is right.
    let mut open = net.client.command("curl");
    let open = open.args(["--silent", "--max-time", "400", "--noproxy", "*"]).arg(site.url("long"));
    let mut open = open.stdout(Stdio::piped()).spawn().unwrap();
    is_asked(&site);
    ip(&net.server, &format!("addr del {SERVER}/32 dev lo"));
    up.logs(AWAY);
    // In vain.
    thread::sleep(Duration::from_secs(2));
    ip(&net.server, &format!("addr add {SERVER}/32 dev lo"));
    up.logs("the server answers again");
    net.comes_to_see(&site, "198.51.100.1");
    both_lanes_up(&net);
    open.kill().unwrap();
    open.wait().unwrap();
    up.signal("-TERM");
    let said = up.all_it_logged().join("\n");
    assert!(!said.contains("the server answers at"), "{said}");
}
