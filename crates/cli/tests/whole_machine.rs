//! `weftline up` as its user meets it: a machine with two links, its server, and the internet behind
//! that, each a network namespace of its own. It needs root.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Daemon, PATIENCE, weftline};
use socket2::{Domain, Socket, Type};
use weftline_lab::LabError;
use weftline_lab::netns::Netns;

/// The server's address, which both links lead to, and that of its side of the internet.
const SERVER: &str = "203.0.113.5";
/// A machine of the internet.
const FAR_V4: &str = "198.51.100.9";
/// The server's router, which is a neighbour, and what lies behind it.
const FAR_V6: &str = "2001:db8:9::9";
const SITE_V6: &str = "2001:db8:10::9";
/// A machine of the server's own network.
const PRIVATE: &str = "172.20.0.9";
/// Each link: interface, the client's address, the server's, the metric of its route.
const LINKS: [(&str, &str, &str, &str); 2] = [
    ("wlan0", "192.168.1.20/24", "192.168.1.1/24", "600"),
    ("wwan0", "10.64.3.9/30", "10.64.3.10/30", "700"),
];
/// Bytes of the long answer, and how many of them come before it waits for the word to go on.
const LONG: usize = 24 << 20;
const FIRST: usize = 4 << 20;

/// How long the network may take to be as before: the janitor is at work.
const RESTORED: Duration = Duration::from_secs(30);

/// Three machines, and the directories of two of them.
struct Network {
    client: Netns,
    server: Netns,
    internet: Netns,
    state: tempfile::TempDir,
    run: tempfile::TempDir,
}

fn ip(ns: &Netns, args: &str) {
    let output = ns.command("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {output:?}");
}

/// Joins two namespaces by a pair of interfaces.
fn join(one: (&Netns, &str), other: (&Netns, &str)) {
    // A process in the other namespace, by which `ip` finds it.
    let mut there = other.0.command("cat").stdin(Stdio::piped()).spawn().unwrap();
    let (near, far, id) = (one.1, other.1, there.id());
    ip(one.0, &format!("link add {near} type veth peer name {far} netns {id}"));
    for (ns, link) in [(one.0, near), (other.0, far)] {
        // No address that the kernel makes and tries out for a second: it would look like a change.
        ip(ns, &format!("link set {link} addrgenmode none up"));
    }
    there.kill().unwrap();
    there.wait().unwrap();
}

impl Network {
    /// Sets it up, or says why that cannot be.
    fn set_up() -> Option<Self> {
        let made = || Ok::<_, LabError>([Netns::create()?, Netns::create()?, Netns::create()?]);
        let [client, server, internet] = match made() {
            Ok(made) => made,
            Err(LabError::NotPossible { what, remedy }) => {
                assert!(std::env::var_os("CI").is_none(), "{what}; {remedy}");
                eprintln!(
                    "skipped: {what}; run 'sudo -E cargo test -p weftline-cli --test whole_machine'"
                );
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        for ns in [&client, &server, &internet] {
            ip(ns, "link set lo up");
        }
        for (link, near, far, metric) in LINKS {
            join((&client, link), (&server, link));
            ip(&client, &format!("addr add {near} dev {link}"));
            ip(&server, &format!("addr add {far} dev {link}"));
            let gateway = far.split('/').next().unwrap();
            let route = format!("route add default via {gateway} dev {link} metric {metric}");
            ip(&client, &route);
        }
        ip(&server, &format!("addr add {SERVER}/32 dev lo"));
        join((&server, "eth0"), (&internet, "eth0"));
        for address in ["198.51.100.1/24", "172.20.0.1/24"] {
            ip(&server, &format!("addr add {address} dev eth0"));
        }
        ip(&server, "addr add 2001:db8:9::1/64 dev eth0 nodad");
        ip(&server, &format!("route add default via {FAR_V6} dev eth0"));
        for address in [FAR_V4, PRIVATE] {
            ip(&internet, &format!("addr add {address}/24 dev eth0"));
        }
        ip(&internet, &format!("addr add {FAR_V6}/64 dev eth0 nodad"));
        ip(&internet, &format!("addr add {SITE_V6}/128 dev lo nodad"));
        // Without these the kernel cannot ask whether a neighbour is still there.
        ip(&server, "addr add fe80::1/64 dev eth0 nodad");
        ip(&internet, "addr add fe80::2/64 dev eth0 nodad");
        let [state, run] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        Some(Self { client, server, internet, state, run })
    }

    /// The program in a namespace.
    fn command(&self, ns: &Netns, args: &[&str]) -> Command {
        let built = weftline(args);
        let mut command = ns.command(built.get_program());
        command.args(args).env("RUNTIME_DIRECTORY", self.run.path()).env_remove("RUST_LOG");
        command
    }

    /// What `up` keeps of the client's network: its lock and what sysctls were.
    fn files(&self) -> [PathBuf; 2] {
        let number = self.client.run(|| Ok(fs::metadata("/proc/thread-self/ns/net")?.ino()));
        let number = number.unwrap();
        ["lock", "journal"].map(|kind| format!("/run/weftline/up-{number}.{kind}").into())
    }

    fn state(&self) -> &str {
        self.state.path().to_str().unwrap()
    }

    /// Starts the server; the first invite.
    fn serve(&self, more: &[&str]) -> (Daemon, String) {
        let args =
            [&["serve", "--internet", "--control", "none", "--state-dir", self.state()], more]
                .concat();
        let mut server = Daemon::spawn(&mut self.command(&self.server, &args));
        server.says("fingerprint");
        server.says("listening on");
        let invite = self.invite(&["first"]);
        assert!(invite.status.success(), "{invite:?}");
        (server, text(&invite.stdout).trim().to_owned())
    }

    /// `weftline invite` at the server.
    fn invite(&self, args: &[&str]) -> Output {
        let args = [&["invite", "--state-dir", self.state()], args].concat();
        self.run(&self.server, &args)
    }

    /// The arguments of `up`.
    fn up_args<'a>(&'a self, invite: &'a str) -> [&'a str; 4] {
        ["up", invite, "--state-dir", self.state()]
    }

    fn up(&self, invite: &str) -> Daemon {
        let mut up = Daemon::spawn(&mut self.command(&self.client, &self.up_args(invite)));
        up.says("up:");
        up
    }

    fn run(&self, ns: &Netns, args: &[&str]) -> Output {
        self.command(ns, args).output().unwrap()
    }

    /// What `curl` says to a URL.
    fn curl(&self, url: &str) -> Output {
        self.curl_with(&[], url)
    }

    /// What `curl` says to a URL with further arguments.
    fn curl_with(&self, more: &[&str], url: &str) -> Output {
        let args = ["--silent", "--show-error", "--max-time", "60", "--noproxy", "*"];
        self.client.command("curl").args(args).args(more).arg(url).output().unwrap()
    }

    /// Asks a site again and again until it is asked by `peer`.
    #[track_caller]
    fn comes_to_see(&self, site: &Site, peer: &str) {
        let began = Instant::now();
        loop {
            let got = self.curl_with(&["--connect-timeout", "1"], &site.url(""));
            if text(&got.stdout) == peer {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{peer}: {got:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whatever `up` may change in the client's network.
    fn snapshot(&self) -> String {
        let mut text = String::new();
        for args in ["rule", "-6 rule", "route show table all", "-6 route show table all", "link"] {
            let output = self.client.command("ip").args(args.split(' ')).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            // Which of two default routes is in use for a while is no setting.
            text += &format!("ip {args}\n{}", String::from_utf8_lossy(&output.stdout));
        }
        let seen = self.client.run(|| {
            let mut tables = weftline_net::tables()?;
            tables.sort();
            let mut text = format!("tables {tables:?}\n");
            for family in ["ipv4", "ipv6"] {
                add_sysctls(&mut text, Path::new(&format!("/proc/sys/net/{family}/conf")));
            }
            Ok(text)
        });
        text + &seen.unwrap()
    }

    /// Waits until the client's network is as it was.
    #[track_caller]
    fn restored(&self, before: &str) {
        let began = Instant::now();
        loop {
            let now = self.snapshot();
            if now == before {
                return;
            }
            if began.elapsed() > RESTORED {
                let less = |all: &str, part: &str| -> Vec<String> {
                    let lines = all.lines().filter(|line| !part.lines().any(|one| one == *line));
                    lines.map(str::to_owned).collect()
                };
                panic!("new {:#?}, gone {:#?}", less(&now, before), less(before, &now));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for file in self.files() {
            let _ = fs::remove_file(file);
        }
    }
}

fn add_sysctls(text: &mut String, dir: &Path) {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|one| one.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            add_sysctls(text, &path);
        } else if let Ok(value) = fs::read_to_string(&path) {
            *text += &format!("{} {}\n", path.display(), value.trim());
        }
    }
}

/// A machine of the internet that speaks HTTP: it says who asks; `/long` sends many bytes, of which
/// the rest waits until `go` is not zero.
struct Site {
    address: SocketAddr,
    asked: Arc<AtomicU64>,
    go: Arc<AtomicU64>,
}

impl Site {
    fn start(ns: &Netns, address: &str) -> Self {
        let address: SocketAddr = address.parse().unwrap();
        let listener = ns.run(|| TcpListener::bind(address)).unwrap();
        let (asked, go) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let site = Self { address, asked: Arc::clone(&asked), go: Arc::clone(&go) };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                asked.fetch_add(1, Ordering::SeqCst);
                let go = Arc::clone(&go);
                thread::spawn(move || answer(stream, &go));
            }
        });
        site
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream, go: &AtomicU64) -> Option<()> {
    let mut line = String::new();
    let mut from = BufReader::new(stream.try_clone().ok()?);
    from.read_line(&mut line).ok()?;
    let is_long = line.contains("/long");
    let mut rest = String::new();
    while from.read_line(&mut rest).ok()? > 2 {
        rest.clear();
    }
    let peer = stream.peer_addr().ok()?.ip();
    let body = if is_long { LONG } else { peer.to_string().len() };
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {body}\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    if !is_long {
        return stream.write_all(peer.to_string().as_bytes()).ok();
    }
    stream.write_all(&vec![b'x'; FIRST]).ok()?;
    while go.load(Ordering::SeqCst) == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    stream.write_all(&vec![b'y'; LONG - FIRST]).ok()
}

/// What goes over the links of a machine: a line for each kind of packet.
struct Sniffer {
    seen: thread::JoinHandle<BTreeSet<String>>,
    /// What the last packet has in it.
    end: &'static [u8],
}

impl Sniffer {
    /// Begins to look. Packets of other interfaces than the links, which have other hardware addresses
    /// or none, do not count.
    fn start(net: &Network, server: SocketAddr) -> Self {
        const ALL: u16 = 3;
        const END: &[u8] = b"the last packet of them all";
        let protocol = socket2::Protocol::from(i32::from(ALL.to_be()));
        let open = || Socket::new(Domain::PACKET, Type::RAW, Some(protocol));
        let mut socket = net.client.run(open).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let links: Vec<[u8; 6]> =
            LINKS.iter().map(|(name, ..)| hardware(&net.client, name)).collect();
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
    fn stop(self, net: &Network) -> BTreeSet<String> {
        let send = || UdpSocket::bind("0.0.0.0:0")?.send_to(self.end, (SERVER, 9));
        net.client.run(send).unwrap();
        self.seen.join().unwrap()
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

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn programs_reach_the_internet_by_both_families_over_both_links() {
    let Some(net) = Network::set_up() else { return };
    let v4 = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let v6 = Site::start(&net.internet, &format!("[{SITE_V6}]:80"));
    let neighbour = Site::start(&net.internet, &format!("[{FAR_V6}]:80"));
    let private = Site::start(&net.internet, &format!("{PRIVATE}:80"));
    let before = net.snapshot();
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let up = net.up(&invite);
    // The server's own address towards the internet asks.
    let got = net.curl(&v4.url(""));
    assert_eq!(
        (text(&got.stdout), got.status.code()),
        ("198.51.100.1".to_owned(), Some(0)),
        "{got:?}"
    );
    let got = net.curl(&v6.url(""));
    assert_eq!(
        (text(&got.stdout), got.status.code()),
        ("2001:db8:9::1".to_owned(), Some(0)),
        "{got:?}"
    );

    // What is not the internet is refused at the server, and the program's connection is reset.
    let refused = net.curl(&private.url(""));
    assert!(!refused.status.success() && private.asked() == 0, "{refused:?}");
    server.logs("is not the internet: the address is private");
    // Nor are the server's neighbours by IPv6, though their addresses are of the internet.
    let refused = net.curl(&neighbour.url(""));
    assert!(!refused.status.success() && neighbour.asked() == 0, "{refused:?}");
    let refused = net.curl(&format!("http://{SERVER}:1/"));
    assert!(!refused.status.success(), "{refused:?}");
    server.logs("the server's own");
    for url in ["http://169.254.169.254/", "http://127.0.0.53:80/", &format!("http://{FAR_V4}:25/")]
    {
        assert!(!net.curl(url).status.success(), "{url}");
    }

    // Both links are there.
    let status = net.run(&net.client, &["status"]);
    let shown = text(&status.stdout);
    assert!(shown.contains("weftline up") && shown.contains("weft0"), "{status:?}");
    assert!(shown.contains("wlan0") && shown.contains("wwan0"), "{shown}");

    let down = net.run(&net.client, &["down"]);
    assert!(down.status.success() && text(&down.stdout).starts_with("down:"), "{down:?}");
    assert_eq!(up.end().0, Some(0));
    net.restored(&before);
    // The invite has been kept.
    let kept = fs::metadata(net.state.path().join("up.toml")).unwrap();
    assert_eq!(kept.mode() & 0o777, 0o600);
    let mut again =
        Daemon::spawn(&mut net.command(&net.client, &["up", "--state-dir", net.state()]));
    again.says("up:");
    assert_eq!(text(&net.curl(&v4.url("")).stdout), "198.51.100.1");
}

#[test]
fn the_server_says_what_it_opens_and_whether_it_has_ipv6() {
    let Some(net) = Network::set_up() else { return };
    let private = Site::start(&net.internet, &format!("{PRIVATE}:80"));
    let v4 = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    ip(&net.server, &format!("-6 route del default via {FAR_V6} dev eth0"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0", "--allow", "172.20.0.0/24"]);
    let mut command = net.command(&net.client, &net.up_args(&invite));
    let mut up = Daemon::spawn(&mut command);
    let said = up.says("up:");
    assert!(said.contains("IPv4 only"), "{said}");
    assert_eq!(text(&net.curl(&private.url("")).stdout), "172.20.0.1");
    // A name with both is reached by IPv4, as the program hears at once that there is no IPv6.
    let resolve = format!("far.example:80:[{SITE_V6}],{FAR_V4}");
    let mut curl = net.client.command("curl");
    let got = curl.args(["-sS", "--max-time", "60", "--noproxy", "*", "--resolve", &resolve]);
    let got = got.arg("http://far.example/").output().unwrap();
    assert_eq!(text(&got.stdout), "198.51.100.1", "{got:?}");
    assert_eq!(v4.asked(), 1);
    let got = net.curl(&format!("http://[{SITE_V6}]/"));
    assert_eq!(got.status.code(), Some(7), "cannot connect: {got:?}");
}

/// The process that waits for the end of `up`.
fn janitor_of(up: &Daemon) -> u32 {
    let parent = up.id().to_string();
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, which may hold anything, stand the state and the parent.
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&parent)
    };
    let all = fs::read_dir("/proc").unwrap();
    let mut all = all.filter_map(|one| one.unwrap().file_name().to_str()?.parse().ok());
    all.find(is_child).unwrap()
}

#[test]
fn a_server_without_ipv6_takes_none_from_bound_sockets_nor_after_a_kill() {
    let Some(net) = Network::set_up() else { return };
    // A link that has IPv6 by itself, which leads to a site that the server's side does not.
    ip(&net.client, "addr add 2001:db8:1::20/64 dev wlan0 nodad");
    ip(&net.server, "addr add 2001:db8:1::1/64 dev wlan0 nodad");
    ip(&net.server, "addr add 2001:db8:20::1/128 dev lo nodad");
    ip(&net.client, "-6 route add default via 2001:db8:1::1 dev wlan0");
    ip(&net.server, &format!("-6 route del default via {FAR_V6} dev eth0"));
    let site = Site::start(&net.server, "[2001:db8:20::1]:80");
    let directly = || text(&net.curl(&site.url("")).stdout) == "2001:db8:1::20";
    assert!(directly());
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let up = net.up(&invite);
    let got = net.curl(&site.url(""));
    assert_eq!(got.status.code(), Some(7), "cannot connect: {got:?}");
    for bound in ["wlan0", "2001:db8:1::20"] {
        let got = net.curl_with(&["--interface", bound], &site.url(""));
        assert_eq!(text(&got.stdout), "2001:db8:1::20", "{bound}: {got:?}");
    }
    // With the janitor, so that the rules stay.
    let pid = janitor_of(&up).to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    up.signal("-KILL");
    assert_eq!(up.end().0, None);
    let rules = net.client.command("ip").args(["-6", "rule"]).output().unwrap();
    assert!(text(&rules.stdout).contains("30565"), "{rules:?}");
    assert!(directly());
}

#[test]
fn what_is_bound_to_a_link_or_is_no_tcp_goes_its_usual_way() {
    let Some(net) = Network::set_up() else { return };
    // On the server, behind each link's own gateway address and beyond.
    let near = Site::start(&net.server, "192.168.1.1:80");
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    let udp = net.server.run(|| UdpSocket::bind((SERVER, 53))).unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let _up = net.up(&invite);
    // On the link's own network.
    assert_eq!(text(&net.curl(&near.url("")).stdout), "192.168.1.20");
    for (bound, seen) in [("wwan0", "10.64.3.9"), ("192.168.1.20", "192.168.1.20")] {
        let mut curl = net.client.command("curl");
        let curl = curl.args(["-sS", "--max-time", "60", "--noproxy", "*", "--interface", bound]);
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
fn a_download_outlives_a_link() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let _up = net.up(&invite);
    // Without a buffer of its own, in which it would keep the end of what has come.
    let args = ["--silent", "--show-error", "--no-buffer", "--max-time", "120", "--noproxy", "*"];
    let mut curl = net.client.command("curl");
    let mut curl = curl.args(args).arg(site.url("long")).stdout(Stdio::piped()).spawn().unwrap();
    let mut from = curl.stdout.take().unwrap();
    let mut got = vec![0; FIRST];
    from.read_exact(&mut got).unwrap();
    // The link of the least metric is gone in the middle, with its routes.
    ip(&net.client, "link set wlan0 down");
    site.go.store(1, Ordering::SeqCst);
    from.read_to_end(&mut got).unwrap();
    assert!(curl.wait().unwrap().success());
    assert_eq!(got.len(), LONG);
    assert!(got[..FIRST].iter().all(|&b| b == b'x') && got[FIRST..].iter().all(|&b| b == b'y'));
    // New ones go over the link that is left.
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1");
}

#[test]
fn a_link_that_comes_is_used() {
    let Some(net) = Network::set_up() else { return };
    ip(&net.client, "route del default dev wwan0");
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let site_v6 = Site::start(&net.internet, &format!("[{SITE_V6}]:80"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let up = net.up(&invite);
    ip(&net.client, "route add default via 10.64.3.10 dev wwan0 metric 700");
    up.logs("links: wlan0, wwan0");
    ip(&net.client, "link set wlan0 down");
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1");
    // What somebody deletes comes back: rules, routes, addresses, with which routes go, too.
    for deleted in [
        "rule del pref 5281",
        "route flush table 30565",
        "-6 route flush table 30565",
        "addr flush dev weft0",
        "link set weft0 down",
    ] {
        ip(&net.client, deleted);
        up.logs("routing rules again");
        net.comes_to_see(&site, "198.51.100.1");
        net.comes_to_see(&site_v6, "2001:db8:9::1");
    }
    // Without its IPv6 the rest is kept all the same, and it gets that again.
    let off = || fs::write("/proc/sys/net/ipv6/conf/weft0/disable_ipv6", "1");
    net.client.run(off).unwrap();
    up.logs("routing rules again");
    net.comes_to_see(&site_v6, "2001:db8:9::1");
    ip(&net.client, "rule del pref 5281");
    net.comes_to_see(&site, "198.51.100.1");
}

#[test]
fn a_modem_that_comes_back_is_loosened_again() {
    let Some(net) = Network::set_up() else { return };
    let filter = |name: &str| format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
    let strict = |name: &str| fs::write(filter(name), "1");
    net.client.run(|| ["default", "wlan0", "wwan0"].into_iter().try_for_each(strict)).unwrap();
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let path = ["--path", "lte=wwan0", "--path", "auto"];
    let mut up = net.command(&net.client, &[&net.up_args(&invite)[..], &path].concat());
    let mut up = Daemon::spawn(&mut up);
    up.says("up:");
    let is_loose = || net.client.run(|| fs::read_to_string(filter("wwan0"))).unwrap().trim() == "2";
    assert!(is_loose());
    for _ in 0..3 {
        ip(&net.client, "link del wwan0");
        join((&net.client, "wwan0"), (&net.server, "wwan0"));
        ip(&net.server, "addr add 10.64.3.10/30 dev wwan0");
        ip(&net.client, "addr add 10.64.3.9/30 dev wwan0");
        ip(&net.client, "route add default via 10.64.3.10 dev wwan0 metric 700");
        let began = Instant::now();
        while !is_loose() {
            assert!(began.elapsed() < PATIENCE, "it stays strict");
            thread::sleep(Duration::from_millis(5));
        }
    }
    let journal = fs::read_to_string(&net.files()[1]).unwrap();
    assert_eq!(journal.lines().filter(|line| line.contains("wwan0")).count(), 1, "{journal}");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    let restored = net.client.run(|| fs::read_to_string(filter("wwan0"))).unwrap();
    assert_eq!(restored.trim(), "1");
}

#[test]
fn ipv6_is_captured_where_new_interfaces_have_none() {
    let Some(net) = Network::set_up() else { return };
    // One link has it, and leads to the site, too.
    ip(&net.client, "addr add 2001:db8:1::20/64 dev wlan0 nodad");
    ip(&net.server, "addr add 2001:db8:1::1/64 dev wlan0 nodad");
    ip(&net.client, "-6 route add default via 2001:db8:1::1 dev wlan0");
    let off = || fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    net.client.run(off).unwrap();
    let site = Site::start(&net.internet, &format!("[{SITE_V6}]:80"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let _up = net.up(&invite);
    assert_eq!(text(&net.curl(&site.url("")).stdout), "2001:db8:9::1");
}

#[test]
fn the_janitor_outlives_what_ends_up() {
    let Some(net) = Network::set_up() else { return };
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let before = net.snapshot();
    // As a service manager's watchdog does it, and a terminal, to all processes at once.
    for signal in ["-ABRT", "-QUIT"] {
        let up = net.up(&invite);
        let pid = janitor_of(&up).to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        // Its own end does not depend on what signals it has inherited as ignored, as those of a job in
        // the background are.
        up.signal("-KILL");
        net.restored(&before);
    }
}

#[test]
fn a_link_that_is_given_the_device_s_address_has_it() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let beyond = Site::start(&net.server, &format!("{SERVER}:80"));
    let before = net.snapshot();
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let up = net.up(&invite);
    ip(&net.server, "addr add 10.87.0.1/24 dev wlan0");
    ip(&net.client, "addr add 10.87.0.2/24 dev wlan0");
    up.logs("has 10.187.0.2 now");
    let device = net.client.command("ip").args(["-4", "addr", "show", "dev", "weft0"]).output();
    let device = text(&device.unwrap().stdout);
    assert!(device.contains("10.187.0.2/32") && !device.contains("10.87.0.2/32"), "{device}");
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1");
    // Answers to the address come in by the link.
    let got = net.curl_with(&["--interface", "10.87.0.2"], &beyond.url(""));
    assert_eq!(text(&got.stdout), "10.87.0.2", "{got:?}");
    // There is no other address any more, and `up` has to end.
    let others = ["10.187.0.2", "172.30.87.2", "192.168.187.2"];
    others.iter().for_each(|one| ip(&net.client, &format!("addr add {one}/32 dev wwan0")));
    let (status, _) = up.end();
    assert_eq!(status, Some(2));
    others.iter().for_each(|one| ip(&net.client, &format!("addr del {one}/32 dev wwan0")));
    ip(&net.client, "addr del 10.87.0.2/24 dev wlan0");
    net.restored(&before);
}

/// Gives the client IPv6 by a link, which leads to a site behind it as well.
fn add_ipv6(net: &Network) -> Site {
    ip(&net.server, "addr add 2001:db8:1::1/64 dev wlan0 nodad");
    ip(&net.server, "addr add 2001:db8:20::1/128 dev lo nodad");
    ip(&net.client, "addr add 2001:db8:1::20/64 dev wlan0 nodad");
    ip(&net.client, "-6 route add default via 2001:db8:1::1 dev wlan0");
    Site::start(&net.server, "[2001:db8:20::1]:80")
}

#[test]
fn ipv6_that_comes_later_is_captured() {
    let Some(net) = Network::set_up() else { return };
    let off = || fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    net.client.run(off).unwrap();
    let site = Site::start(&net.internet, &format!("[{SITE_V6}]:80"));
    let before = net.snapshot();
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let up = net.up(&invite);
    let rules = || text(&net.client.command("ip").args(["-6", "rule"]).output().unwrap().stdout);
    assert!(!rules().contains("30565"), "this machine has no IPv6: {}", rules());
    let behind = add_ipv6(&net);
    net.comes_to_see(&site, "2001:db8:9::1");
    // It is the server's own, to which it lets nobody.
    assert_eq!(text(&net.curl(&behind.url("")).stdout), "");
    ip(&net.client, "-6 route del default via 2001:db8:1::1 dev wlan0");
    ip(&net.client, "addr del 2001:db8:1::20/64 dev wlan0");
    up.signal("-KILL");
    net.restored(&before);
}

#[test]
fn ipv6_is_captured_or_refused_where_loopback_has_none() {
    for has_ipv6 in [true, false] {
        let Some(net) = Network::set_up() else { return };
        let behind = add_ipv6(&net);
        let off = || fs::write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "1");
        net.client.run(off).unwrap();
        assert_eq!(text(&net.curl(&behind.url("")).stdout), "2001:db8:1::20");
        let site = Site::start(&net.internet, &format!("[{SITE_V6}]:80"));
        if !has_ipv6 {
            ip(&net.server, &format!("-6 route del default via {FAR_V6} dev eth0"));
        }
        let before = net.snapshot();
        let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
        let up = net.up(&invite);
        if has_ipv6 {
            assert_eq!(text(&net.curl(&site.url("")).stdout), "2001:db8:9::1");
            assert_eq!(text(&net.curl(&behind.url("")).stdout), "");
        } else {
            let got = net.curl(&behind.url(""));
            assert_eq!(got.status.code(), Some(7), "cannot connect: {got:?}");
        }
        // As it was, whatever ends it.
        up.signal(if has_ipv6 { "-TERM" } else { "-KILL" });
        net.restored(&before);
    }
}

#[test]
fn killed_at_any_time_it_leaves_nothing_behind() {
    let Some(net) = Network::set_up() else { return };
    // As many distributions have it: with two links it must be loosened, and restored.
    let strict = |name: &str| fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "1");
    net.client.run(|| ["all", "wlan0", "wwan0"].into_iter().try_for_each(strict)).unwrap();
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let before = net.snapshot();
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let began = Instant::now();
    let up = net.up(&invite);
    let start = began.elapsed();
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1");
    assert_ne!(net.snapshot(), before);
    let loosened = || fs::read_to_string("/proc/sys/net/ipv4/conf/wwan0/rp_filter");
    assert_eq!(net.client.run(loosened).unwrap().trim(), "2");
    // Whether a unit starts it or a shell.
    let elsewhere = tempfile::tempdir().unwrap();
    let mut second = net.command(&net.client, &net.up_args(&invite));
    let second = second.env("RUNTIME_DIRECTORY", elsewhere.path()).output().unwrap();
    let said = text(&second.stderr);
    assert!(said.contains("is up already") && second.status.code() == Some(2), "{said}");
    up.signal("-KILL");
    net.restored(&before);
    // At any step of the start: it is killed ever later, until it is up, however fast this machine is.
    const MOMENTS: u32 = 60;
    for delay in (0..MOMENTS).map(|n| start * 13 / 10 * n / (MOMENTS - 1)) {
        let mut command = net.command(&net.client, &net.up_args(&invite));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(delay);
        child.kill().unwrap();
        child.wait().unwrap();
        net.restored(&before);
    }
    // The next start works at once after a kill.
    net.up(&invite).signal("-KILL");
    let up = net.up(&invite);
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
            .args(["route", "add", "10.87.0.2/32", "via", "192.168.1.20"])
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
        let reached = net.server.run(|| TcpStream::connect_timeout(&to, Duration::from_secs(1)));
        assert_eq!(reached.unwrap_err().kind(), kind, "{to}");
    }
}

#[test]
fn invites_that_do_not_do_are_told_in_a_line() {
    let Some(net) = Network::set_up() else { return };
    let before = net.snapshot();
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let refuse = |invite: &str, part: &str| {
        let output = net.run(&net.client, &net.up_args(invite));
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{invite}: {output:?}");
        let lines = said.lines().filter(|line| line.starts_with("weftline: ")).count();
        assert_eq!(lines, 1, "{said}");
        net.restored(&before);
    };
    refuse("hello", "that is no invite");
    refuse(&invite[..invite.len() - 3], "damaged or cut off");
    let none = net.run(&net.client, &["up", "--state-dir", net.state()]);
    assert!(text(&none.stderr).contains("none kept in"), "{none:?}");
    let down = net.run(&net.client, &["down"]);
    assert!(text(&down.stderr).contains("this machine is not up"), "{down:?}");

    // One for another machine, the same again, and taken back.
    let args = ["invite", "phone", "--state-dir", net.state()];
    let phone = text(&net.run(&net.server, &args).stdout).trim().to_owned();
    assert!(phone.starts_with("weftline:") && phone != invite, "{phone}");
    assert_eq!(text(&net.run(&net.server, &args).stdout).trim(), phone);
    server.logs("has been read again");
    let up = net.up(&phone);
    let revoked = net.run(&net.server, &[&args[..], &["--revoke"]].concat());
    assert!(revoked.status.success(), "{revoked:?}");
    assert!(text(&revoked.stdout).contains("lets it in no more"), "{revoked:?}");
    server.logs("has been read again");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    refuse(&phone, "has been revoked or replaced");
    let unknown = net.run(&net.server, &[&args[..], &["--revoke"]].concat());
    assert!(text(&unknown.stderr).contains("no invite for 'phone'"), "{unknown:?}");

    // A server that is not there any more, and another one in its place.
    drop(server);
    refuse(&invite, "check that 'weftline serve --internet' runs there");
}

#[test]
fn what_a_revoked_invite_means_is_said_as_it_is() {
    let Some(net) = Network::set_up() else { return };
    let config = net.run.path().join("serve.toml");
    fs::write(&config, "listen = [\"0.0.0.0:0\"]\n").unwrap();
    let (server, _) = net.serve(&["--config", config.to_str().unwrap()]);
    let phone = text(&net.invite(&["phone"]).stdout).trim().to_owned();
    // The server cannot read its configuration any more, and so not its tokens.
    fs::write(&config, "listen = 7\n").unwrap();
    let revoked = net.invite(&["phone", "--revoke"]);
    let said = text(&revoked.stderr);
    assert!(!revoked.status.success() && revoked.stdout.is_empty(), "{revoked:?}");
    assert!(said.contains("goes on with what it had") && said.contains("may let it in"), "{said}");
    server.logs("nothing has changed");
    let up = net.up(&phone);
    // An invite that it does not know yet.
    let tablet = net.invite(&["tablet"]);
    assert!(text(&tablet.stdout).starts_with("weftline:"), "{tablet:?}");
    assert!(text(&tablet.stderr).contains("only when it has read that"), "{tablet:?}");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    // None runs.
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
    let revoked = net.invite(&["tablet", "--revoke"]);
    assert!(text(&revoked.stdout).contains("the server does not run now"), "{revoked:?}");
}

#[test]
fn an_invite_is_no_output_but_on_a_terminal_and_is_not_lost_with_a_start() {
    let Some(net) = Network::set_up() else { return };
    let taken = net.server.run(|| TcpListener::bind("0.0.0.0:4433")).unwrap();
    let args = ["serve", "--internet", "--control", "none", "--state-dir", net.state()];
    let args = [&args[..], &["--listen", "0.0.0.0:4433"]].concat();
    let failed = net.run(&net.server, &args);
    assert!(text(&failed.stderr).contains("4433") && !failed.status.success(), "{failed:?}");
    drop(taken);
    let mut server = Daemon::spawn(&mut net.command(&net.server, &args));
    server.says("fingerprint");
    server.says("listening on");
    server.logs("run 'weftline invite first");
    let invite = text(&net.invite(&["first"]).stdout).trim().to_owned();
    let up = net.up(&invite);
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    server.signal("-TERM");
    let (status, rest) = server.end();
    assert_eq!((status, &*rest), (Some(0), ""));
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
    let as_user = ["--reuid=1234", "--clear-groups", "curl", "-sS", "--max-time", "60"];
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
    for target in [format!("[{SITE_V6}]:80"), format!("{FAR_V4}:81")] {
        let target: SocketAddr = target.parse().unwrap();
        let connect = || {
            let mut stream = TcpStream::connect(target)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.read(&mut [0])
        };
        // It is accepted here and reset, as nobody listens there.
        let met = net.client.run(|| Ok(connect())).unwrap();
        assert!(met.as_ref().is_err_and(|error| error.kind() != refused), "{target}: {met:?}");
        server.logs(&format!("cannot reach {target}"));
        // Now it is not accepted.
        let met = net.client.run(|| Ok(connect())).unwrap();
        assert!(met.as_ref().is_err_and(|error| error.kind() == refused), "{target}: {met:?}");
    }
    // So a program finds the address that answers. Other ports are no matter.
    let resolve = format!("far.example:80:[{SITE_V6}],{FAR_V4}");
    let got = net.curl_with(&["--resolve", &resolve], "http://far.example/");
    assert_eq!(text(&got.stdout), "198.51.100.1", "{got:?}");
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

#[test]
fn an_invite_expires() {
    let Some(net) = Network::set_up() else { return };
    let (server, _) = net.serve(&["--listen", "0.0.0.0:0"]);
    let made = net.invite(&["phone", "--expires", "7d"]);
    let phone = text(&made.stdout).trim().to_owned();
    let up = net.up(&phone);
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    server.logs("has been read again");
    // Its time goes by.
    let file = net.state.path().join("internet.tokens");
    let tokens = fs::read_to_string(&file).unwrap();
    let line = tokens.lines().find(|line| line.starts_with("phone until ")).unwrap();
    let (name, secret) = line.split_once("Z: ").unwrap();
    let (name, _) = name.split_once(" until ").unwrap();
    let over = format!("{name} until 2020-01-01T00:00:00Z: {secret}");
    fs::write(&file, tokens.replace(line, &over)).unwrap();
    server.signal("-HUP");
    server.logs("has been read again");
    let refused = net.run(&net.client, &net.up_args(&phone));
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("the invite has expired"), "{said}");
    // It is not shown as if it were good, and can be let in again.
    let shown = net.invite(&["phone"]);
    assert!(text(&shown.stderr).contains("has expired"), "{shown:?}");
    for wrong in ["0s", "next week", "100000years"] {
        assert_eq!(net.invite(&["phone", "--expires", wrong]).status.code(), Some(2), "{wrong}");
    }
    let again = net.invite(&["phone", "--expires", "12h"]);
    assert_eq!(text(&again.stdout).trim(), phone, "{again:?}");
    net.up(&phone);
}

/// Makes all in a directory another user's.
fn give_away(dir: &Path, user: u32) {
    let entries = fs::read_dir(dir).unwrap().map(|one| one.unwrap().path());
    for path in entries.chain([dir.to_owned()]) {
        std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    }
}

#[test]
fn root_is_led_nowhere_by_the_files_of_a_server_s_user() {
    const USER: u32 = 1234;
    let Some(net) = Network::set_up() else { return };
    let (server, _) = net.serve(&["--listen", "0.0.0.0:0"]);
    let state = net.state.path();
    let [tokens, about, edit] =
        ["internet.tokens", "internet.toml", "internet.edit"].map(|name| state.join(name));
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    give_away(state, USER);
    mode(&tokens, 0o640).unwrap();
    // A file keeps its owner and mode, and the server hears of it.
    let made = net.invite(&["phone"]);
    assert!(text(&made.stdout).starts_with("weftline:"), "{made:?}");
    server.logs("has been read again");
    let of = |path: &Path| fs::metadata(path).map(|is| (is.uid(), is.gid(), is.mode() & 0o777));
    assert_eq!(of(&tokens).unwrap(), (USER, USER, 0o640));
    assert_eq!(of(&edit).unwrap(), (USER, USER, 0o600));

    // A file of root's, that only root can read or change.
    let own = net.run.path().join("tokens");
    let line = "other: the first secret of all\n";
    fs::write(&own, line).unwrap();
    mode(net.run.path(), 0o755).unwrap();
    mode(&own, 0o600).unwrap();
    let kept = fs::read_to_string(&tokens).unwrap();
    let fails = |part: &str| {
        let got = net.invite(&["tablet"]);
        let said = text(&got.stderr);
        assert!(!got.status.success() && got.stdout.is_empty() && said.contains(part), "{got:?}");
        assert_eq!(fs::read_to_string(&own).unwrap(), line);
    };
    // By a link in its place, by what the server has noted, and by a link that is opened to be locked.
    fs::remove_file(&tokens).unwrap();
    symlink(&own, &tokens).unwrap();
    fails("Permission denied");
    fs::remove_file(&tokens).unwrap();
    fs::write(&tokens, kept).unwrap();
    give_away(state, USER);
    let noted = fs::read_to_string(&about).unwrap();
    let elsewhere = noted.replace(tokens.to_str().unwrap(), own.to_str().unwrap());
    fs::write(&about, &elsewhere).unwrap();
    fails("name it with --token-file");
    let named = net.invite(&["tablet", "--token-file", own.to_str().unwrap()]);
    assert!(text(&named.stdout).starts_with("weftline:"), "{named:?}");
    assert!(fs::read_to_string(&own).unwrap().contains("tablet: "));
    assert_eq!(of(&own).unwrap(), (0, 0, 0o600));
    fs::write(&own, line).unwrap();
    fs::write(&about, &noted).unwrap();
    fs::remove_file(&edit).unwrap();
    symlink(&own, &edit).unwrap();
    fails("internet.edit");
    fs::remove_file(&edit).unwrap();

    // Nor does it end a process because a file has its number.
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
    let mut innocent = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let lock = fs::File::options().write(true).open(state.join("internet.lock")).unwrap();
    lock.lock().unwrap();
    fs::write(state.join("internet.lock"), innocent.id().to_string()).unwrap();
    let got = net.invite(&["tablet"]);
    assert!(text(&got.stderr).contains("it is no 'weftline serve'"), "{got:?}");
    drop(innocent.stdin.take());
    assert!(innocent.wait().unwrap().success(), "it has ended by itself");
    drop(lock);

    // Where its user has no way to the directory, as to that of a unit with a user of its own.
    let closed = net.run.path().join("closed");
    fs::create_dir(&closed).unwrap();
    mode(&closed, 0o700).unwrap();
    let inside = closed.join("weftline");
    assert!(Command::new("cp").arg("-a").arg(state).arg(&inside).status().unwrap().success());
    let moved = noted.replace(state.to_str().unwrap(), inside.to_str().unwrap());
    fs::write(inside.join("internet.toml"), moved).unwrap();
    let args = ["invite", "last", "--state-dir", inside.to_str().unwrap()];
    let got = net.run(&net.server, &args);
    assert!(text(&got.stdout).starts_with("weftline:"), "{got:?}");
    assert!(fs::read_to_string(inside.join("internet.tokens")).unwrap().contains("last: "));
}

#[test]
fn one_capability_is_enough() {
    let Some(net) = Network::set_up() else { return };
    let strict = |name: &str| fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "1");
    net.client.run(|| ["all", "wlan0", "wwan0"].into_iter().try_for_each(strict)).unwrap();
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let before = net.snapshot();
    // As the unit has it.
    let program = weftline(&[]);
    let mut command = net.client.command("setpriv");
    command.args(["--no-new-privs", "--bounding-set=-all,+net_admin"]).arg(program.get_program());
    command.args(net.up_args(&invite)).env("RUNTIME_DIRECTORY", net.run.path());
    let mut up = Daemon::spawn(command.env_remove("RUST_LOG"));
    up.says("up:");
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1");
    let loosened = || fs::read_to_string("/proc/sys/net/ipv4/conf/wwan0/rp_filter");
    assert_eq!(net.client.run(loosened).unwrap().trim(), "2");
    up.signal("-KILL");
    net.restored(&before);
}

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
        net.serve(&["--listen", "0.0.0.0:4433", "--public", &server.to_string()]);
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
    let ping = net.client.command("ping").args(["-c", "1", "-W", "60", SERVER]).output();
    let has_ping = ping.is_ok_and(|output| output.status.success());
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
