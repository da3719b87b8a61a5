//! UDP of several clients, of one behind a router, and what a server that is killed leaves.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use weftline_lab::netns::Netns;

use crate::common::{Daemon, PATIENCE};
use crate::lanes::{
    ALL, Echo, ask, ask_from, both_lanes_up, comes_to_count, counters, status_with_lanes, talk, up,
};
use crate::network::{FAR_V4, Network, SERVER, SITE_V6, ip, janitor_of, shows, text};

/// A second client, with directories of its own.
struct Second {
    ns: Netns,
    dir: tempfile::TempDir,
    invite: String,
}

impl Second {
    fn new(net: &Network) -> Self {
        let invite = net.invite(&["second"]);
        assert!(invite.status.success(), "{invite:?}");
        let invite = text(&invite.stdout).trim().to_owned();
        Self { ns: net.another_client(), dir: tempfile::tempdir().unwrap(), invite }
    }

    /// It goes up; what it says then.
    fn up(&self, net: &Network) -> (Daemon, String) {
        let dir = self.dir.path().to_str().unwrap();
        let mut command = net.command(&self.ns, &["up", &self.invite, "--state-dir", dir]);
        let mut up = Daemon::spawn(command.env("RUNTIME_DIRECTORY", dir));
        let said = up.says("up:");
        (up, said)
    }

    /// Waits until its status says something.
    #[track_caller]
    fn comes_to_show(&self, net: &Network, what: &str) {
        let status = || {
            let mut status = net.command(&self.ns, &["status"]);
            status.env("RUNTIME_DIRECTORY", self.dir.path());
            status
        };
        shows(status, what);
    }
}

#[test]
fn two_clients_have_addresses_of_their_own_and_do_not_reach_each_other() {
    let Some(net) = Network::set_up() else { return };
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let control = net.run.path().join("serve.sock");
    let control = control.to_str().unwrap();
    let options = ["--listen", "0.0.0.0:0", "--metrics", "127.0.0.1:9470"];
    let (_server, invite) = net.serve_with_control(control, &options);
    let second = Second::new(&net);
    let _first = up(&net, &invite);
    let (_up, _) = second.up(&net);
    second.comes_to_show(&net, ALL);
    assert_eq!(text(&ask(&net, far.address, b"one")), "198.51.100.1 one");
    assert_eq!(text(&ask_from(&second.ns, far.address, b"two")), "198.51.100.1 two");
    for (ns, address) in [(&net.client, "10.87.0.2/32"), (&second.ns, "10.87.0.3/32")] {
        let shown = ns.command("ip").args(["-4", "addr", "show", "dev", "weft0"]).output();
        let shown = text(&shown.unwrap().stdout);
        assert!(shown.contains(address), "{shown}");
    }
    // From one to the other, nothing.
    let there = second.ns.run(|| UdpSocket::bind("0.0.0.0:7001")).unwrap();
    there.set_nonblocking(true).unwrap();
    let before = counters(&net, &net.server, control).get("closed").copied().unwrap_or(0);
    assert_eq!(before, 0);
    let socket = net.client.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    comes_to_count(&net, &net.server, control, "closed", || {
        socket.send_to(b"hello", "10.87.0.3:7001").unwrap();
    });
    ask(&net, far.address, b"again");
    ask_from(&second.ns, far.address, b"again");
    let nothing = there.recv_from(&mut [0; 64]).map_err(|error| error.kind());
    assert_eq!(nothing.unwrap_err(), io::ErrorKind::WouldBlock);
    // Both are seen.
    let curl = ["-sS", "--max-time", "400", "http://127.0.0.1:9470/metrics"];
    let began = Instant::now();
    // A lane whose end stands still is silent for a moment, and what was sent may still be on its way.
    loop {
        let closed = counters(&net, &net.server, control)["closed"];
        let counted = format!("weftline_lane_events_total{{reason=\"closed\"}} {closed}\n");
        let page = text(&net.server.command("curl").args(curl).output().unwrap().stdout);
        let is_up = |client: &&str| {
            page.contains(&format!("weftline_lane_up{{client=\"{client}\",lane=\"lane 0\"}} 1"))
        };
        if ["first", "second"].iter().all(is_up) && page.contains(&counted) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{counted}{page}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Somebody deletes the device by which packets leave the server.
#[test]
fn a_server_whose_device_is_gone_tells_whoever_comes() {
    let Some(net) = Network::set_up() else { return };
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    ip(&net.server, "link delete weft-exit");
    server.logs("clients' UDP and ICMP go nowhere");
    let client = net.up(&invite);
    client.logs("the server carries no UDP any more, since its device is gone");
}

#[test]
fn a_client_whose_lanes_have_no_memory_is_told_and_has_tcp() {
    let Some(net) = Network::set_up() else { return };
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let site = crate::site::Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let control = net.run.path().join("serve.sock");
    let control = control.to_str().unwrap();
    // Three quarters of it are enough for one client's.
    let options = ["--listen", "0.0.0.0:0", "--max-total-memory", "26MiB"];
    let (_server, invite) = net.serve_with_control(control, &options);
    let second = Second::new(&net);
    let first = up(&net, &invite);
    assert_eq!(text(&ask(&net, far.address, b"one")), "198.51.100.1 one");
    let (waiting, said) = second.up(&net);
    assert!(said.contains("all TCP of this machine"), "{said}");
    let why = waiting.logs("UDP, DNS and ICMP go past the server");
    assert!(why.contains("no memory for another client's UDP"), "{why}");
    let got = second.ns.command("curl").args(["-sS", "--max-time", "400", &site.url("")]).output();
    let got = got.unwrap();
    assert_eq!(text(&got.stdout), "198.51.100.1", "{got:?}");
    for one in [waiting, first] {
        one.signal("-TERM");
        assert_eq!(one.end().0, Some(0));
    }
    // What the first had is there for the second, as soon as the server has seen it go.
    let began = Instant::now();
    loop {
        let status = status_with_lanes(&net, &net.server, &["--control", control]);
        let mut bonds = status["bonds"].as_array().into_iter().flatten();
        if !bonds.any(|bond| bond["client"] == "first") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "the first one's lanes are still there: {status}");
        thread::sleep(Duration::from_millis(20));
    }
    let (_up, _) = second.up(&net);
    second.comes_to_show(&net, ALL);
    assert_eq!(text(&ask_from(&second.ns, far.address, b"two")), "198.51.100.1 two");
}

/// A router before the server's port, which translates where UDP comes from, and forgets it.
struct Router {
    /// By who sends, the socket by which it goes on.
    mappings: Arc<Mutex<BTreeMap<SocketAddr, Arc<UdpSocket>>>>,
    carried: Arc<AtomicU64>,
}

impl Router {
    /// At an address of the server's machine, to a port there.
    fn start(ns: &'static Netns, at: SocketAddr, to: SocketAddr) -> Self {
        let listener = ns.run(|| TcpListener::bind(at)).unwrap();
        thread::spawn(move || {
            while let Ok((one, _)) = listener.accept() {
                let Ok(other) = ns.run(|| TcpStream::connect(to)) else { continue };
                for (mut from, mut into) in
                    [(one.try_clone().unwrap(), other.try_clone().unwrap()), (other, one)]
                {
                    thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut into);
                        let _ = into.shutdown(Shutdown::Write);
                    });
                }
            }
        });
        let outside = Arc::new(ns.run(|| UdpSocket::bind(at)).unwrap());
        let mappings: Arc<Mutex<BTreeMap<SocketAddr, Arc<UdpSocket>>>> = Arc::default();
        let carried = Arc::new(AtomicU64::new(0));
        let (known, count) = (Arc::clone(&mappings), Arc::clone(&carried));
        thread::spawn(move || {
            let mut buffer = [0; 2048];
            while let Ok((length, from)) = outside.recv_from(&mut buffer) {
                let mut known = known.lock().unwrap();
                let mapped = known.entry(from).or_insert_with(|| {
                    let inside = ns.run(|| {
                        let socket = UdpSocket::bind((SERVER, 0))?;
                        socket.connect(to)?;
                        Ok(socket)
                    });
                    let inside = Arc::new(inside.unwrap());
                    let (back, outside) = (Arc::downgrade(&inside), Arc::clone(&outside));
                    let socket = inside.try_clone().unwrap();
                    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                    thread::spawn(move || {
                        let mut buffer = [0; 2048];
                        loop {
                            let read = socket.recv(&mut buffer);
                            // A mapping that is forgotten lets nothing in.
                            if back.strong_count() == 0 {
                                return;
                            }
                            let Ok(length) = read else { continue };
                            let _ = outside.send_to(&buffer[..length], from);
                        }
                    });
                    inside
                });
                count.fetch_add(1, Ordering::SeqCst);
                let _ = mapped.send(&buffer[..length]);
            }
        });
        Self { mappings, carried }
    }

    /// Forgets all mappings: what comes next goes on from another port.
    fn forget(&self) {
        self.mappings.lock().unwrap().clear();
    }
}

#[test]
fn a_router_that_gives_another_port_ends_no_lane() {
    let Some(net) = Network::set_up() else { return };
    // Its threads speak there until the program ends.
    let net: &'static Network = Box::leak(Box::new(net));
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    ip(&net.server, "addr add 203.0.113.7/32 dev lo");
    let at: SocketAddr = "203.0.113.7:4433".parse().unwrap();
    let router = Router::start(&net.server, at, SocketAddr::new(SERVER.parse().unwrap(), 4433));
    let listen = format!("{SERVER}:4433");
    let (server, invite) = net.serve(&["--listen", &listen, "--public", &at.to_string()]);
    let up = up(net, &invite);
    assert_eq!(text(&ask(net, far.address, b"who")), "198.51.100.1 who");
    both_lanes_up(net);
    let before = router.carried.load(Ordering::SeqCst);
    assert!(before > 0, "lanes go through the router");
    let sent = || -> Vec<u64> {
        let status = status_with_lanes(net, &net.client, &[]);
        let lanes = crate::lanes::lanes_of_links(&status);
        lanes.iter().map(|lane| lane["sent_packets"].as_u64().unwrap()).collect()
    };
    // Where the machine stands still for a while a lane is silent for a moment, and carries less.
    let began = Instant::now();
    while sent().iter().any(|packets| *packets <= 100) {
        assert!(began.elapsed() < PATIENCE, "{:?}", sent());
        talk(net, far.address, || ());
    }
    let (first, carried) = (sent(), router.carried.load(Ordering::SeqCst));
    talk(net, far.address, || {
        both_lanes_up(net);
        router.forget();
    });
    assert!(router.carried.load(Ordering::SeqCst) > carried + 100);
    // A lane that began anew would have carried half of the talk.
    let then = sent();
    assert!(then.len() == 2 && first.len() == 2, "{first:?} {then:?}");
    assert!(first.iter().zip(&then).all(|(first, then)| then >= first), "{first:?} {then:?}");
    both_lanes_up(net);
    for one in [up, server] {
        one.signal("-TERM");
        assert_eq!(one.end().0, Some(0));
    }
}

/// As a package of the system does that sets all sysctls anew.
#[test]
fn a_server_forwards_again_where_somebody_switches_that_off() {
    let Some(net) = Network::set_up() else { return };
    let far = [FAR_V4, SITE_V6].map(|address| {
        let at = SocketAddr::new(address.parse().unwrap(), 7000);
        Echo::start(&net.internet, &at.to_string())
    });
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    let _up = up(&net, &invite);
    far.iter().for_each(|far| drop(ask(&net, far.address, b"who")));
    let off = || {
        // What is off for all already is not switched off for each.
        fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        fs::write("/proc/sys/net/ipv4/ip_forward", "0")?;
        fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "0")
    };
    net.server.run(off).unwrap();
    // It looks once a minute, and whenever a link changes.
    ip(&net.server, "addr add 203.0.113.99/32 dev lo");
    server.logs("somebody has switched off that IPv4 is forwarded");
    server.logs("somebody has switched off that IPv6 is forwarded");
    server.logs("IPv6 of clients that come now is forwarded, too");
    far.iter().for_each(|far| drop(ask(&net, far.address, b"who")));
}

#[test]
fn a_server_that_is_killed_at_any_step_of_its_start_leaves_nothing_behind() {
    let Some(net) = Network::set_up() else { return };
    // As a machine has it that is no router.
    net.server
        .run(|| {
            fs::write("/proc/sys/net/ipv4/ip_forward", "0")?;
            fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "0")
        })
        .unwrap();
    let before = Network::snapshot_of(&net.server);
    let began = Instant::now();
    let (server, _) = net.serve(&["--listen", "0.0.0.0:4433"]);
    let start = began.elapsed();
    assert_ne!(Network::snapshot_of(&net.server), before);
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
    Network::restored_of(&net.server, &before);
    let args = ["serve", "--internet", "--state-dir", net.state(), "--control", "none"];
    let args = [&args[..], &["--listen", "0.0.0.0:4433"]].concat();
    const MOMENTS: u32 = 40;
    for delay in (0..MOMENTS).map(|n| start * 13 / 10 * n / (MOMENTS - 1)) {
        let mut command = net.command(&net.server, &args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(delay);
        child.kill().unwrap();
        child.wait().unwrap();
        Network::restored_of(&net.server, &before);
    }
    // Where the janitor is killed as well, the next start restores what there was.
    let (server, _) = net.serve(&["--listen", "0.0.0.0:4433"]);
    let janitor = janitor_of(&server).to_string();
    assert!(Command::new("kill").args(["-KILL", &janitor]).status().unwrap().success());
    server.signal("-KILL");
    assert_eq!(server.end().0, None);
    assert_ne!(Network::snapshot_of(&net.server), before, "a router still");
    let (server, _) = net.serve(&["--listen", "0.0.0.0:4433"]);
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
    Network::restored_of(&net.server, &before);
}
