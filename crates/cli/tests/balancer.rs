//! Two servers with the same secrets behind haproxy: every path of a connection reaches the one
//! that has it, and one of them stops without a byte lost.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use common::{Daemon, PATIENCE, dial, failure, reserved, until};
use serde_json::Value;
use socket2::Socket;

/// Connections under way when one server stops, and new ones after that.
const BEFORE: u64 = 100;
const AFTER: u64 = 10;
/// Bytes in each direction of a connection before that and after it.
const HALF: usize = 150_000;

/// Whether haproxy is there.
fn has_haproxy() -> bool {
    let there = Command::new("haproxy").arg("-v").output().is_ok_and(|out| out.status.success());
    if !there {
        assert!(std::env::var_os("CI").is_none(), "haproxy is needed in CI: scripts/tools");
        eprintln!("skipped: haproxy is not installed; sudo apt-get install haproxy");
    }
    there
}

/// haproxy in front of two servers; killed at the end.
struct Balancer {
    child: Child,
    address: SocketAddr,
}

impl Balancer {
    /// It chooses at random, so that each server has some connections.
    fn start(dir: &Path, servers: &[SocketAddr]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, fd) = (listener.local_addr().unwrap(), listener.as_raw_fd());
        let mut config = format!(
            "global\n maxconn 4096\ndefaults\n mode tcp\n timeout connect 400s\n \
             timeout client 400s\n timeout server 400s\n retries 3\n option redispatch 1\n\
             listen weftline\n bind fd@{fd}\n balance random\n"
        );
        for (index, server) in servers.iter().enumerate() {
            config += &format!(" server s{index} {server}\n");
        }
        let file = dir.join("haproxy.cfg");
        fs::write(&file, config).unwrap();
        let passed = Socket::from(listener);
        passed.set_cloexec(false).unwrap();
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().unwrap(), address }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What both ends say in a connection of this number: the client these bytes, the target others.
fn bytes_of(number: u64, len: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Reads what the other end says and checks that it is `wanted`.
fn check(stream: &mut TcpStream, wanted: &[u8], whose: u64) {
    let mut got = vec![0; wanted.len()];
    stream.read_exact(&mut got).unwrap_or_else(|error| panic!("connection {whose}: {error}"));
    assert!(got == wanted, "connection {whose}: other bytes");
}

/// What a server forwards to: answers each half of what it is told by its own, and notes the numbers
/// of connections that were whole, from the first byte to the end.
struct Target {
    address: SocketAddr,
    whole: Arc<Mutex<Vec<u64>>>,
}

impl Target {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let whole: Arc<Mutex<Vec<u64>>> = Arc::default();
        let noted = Arc::clone(&whole);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, noted) = (stream.unwrap(), Arc::clone(&noted));
                thread::spawn(move || {
                    // A connection that was opened twice ends early at one of the targets.
                    if let Some(number) = answer(&mut stream) {
                        noted.lock().unwrap().push(number);
                        // Only now does the client see the end.
                        let _ = stream.shutdown(Shutdown::Write);
                    }
                });
            }
        });
        Self { address, whole }
    }

    fn whole(&self) -> Vec<u64> {
        self.whole.lock().unwrap().clone()
    }
}

/// The number of a connection that has said all it had to.
fn answer(stream: &mut TcpStream) -> Option<u64> {
    let mut number = [0; 8];
    stream.read_exact(&mut number).ok()?;
    let number = u64::from_be_bytes(number);
    let (theirs, ours) = (bytes_of(number, 2 * HALF), bytes_of(!number, 2 * HALF));
    let mut got = vec![0; HALF];
    for half in 0..2 {
        stream.read_exact(&mut got).ok()?;
        assert!(got == theirs[half * HALF..][..HALF], "connection {number}: other bytes came");
        stream.write_all(&ours[half * HALF..][..HALF]).ok()?;
    }
    (stream.read(&mut [0]).ok()? == 0).then_some(number)
}

/// Opens a connection through `connect` and exchanges the first half.
fn begin(local: SocketAddr, number: u64) -> TcpStream {
    let mut stream = dial(local);
    stream.write_all(&number.to_be_bytes()).unwrap();
    stream.write_all(&bytes_of(number, HALF)).unwrap();
    check(&mut stream, &bytes_of(!number, HALF), number);
    stream
}

/// Exchanges the second half, and sees the end.
fn finish(mut stream: TcpStream, number: u64) {
    stream.write_all(&bytes_of(number, 2 * HALF)[HALF..]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    check(&mut stream, &bytes_of(!number, 2 * HALF)[HALF..], number);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "connection {number} has more");
}

/// What a daemon says of its connections that are used.
fn connections(control: &Path) -> Vec<Value> {
    let mut stream = UnixStream::connect(control).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"{\"command\":\"status\",\"connections\":1000}\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    let status: Value = serde_json::from_str(&line).unwrap();
    let all = status["connections"].as_array().unwrap().iter();
    all.filter(|one| !one["label"].is_null()).cloned().collect()
}

/// The addresses of the other end on the paths of a connection that are up, in order.
fn peers(connection: &Value) -> BTreeSet<SocketAddr> {
    let paths = connection["paths"].as_array().unwrap().iter();
    let up = paths.filter(|path| path["state"] != "down");
    up.filter_map(|path| path["peer"].as_str()?.parse().ok()).collect()
}

/// Two servers behind haproxy, a client of that, and what the servers forward to.
struct World {
    dir: tempfile::TempDir,
    servers: Vec<Daemon>,
    addresses: Vec<SocketAddr>,
    _held: Vec<Socket>,
    targets: Vec<Target>,
    balancer: Balancer,
    _client: Daemon,
    local: SocketAddr,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let (state, tokens) = (at("state"), at("tokens"));
        fs::write(&tokens, "alice: the first secret of all\n").unwrap();
        fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
        let targets = vec![Target::start(), Target::start()];
        let (held, addresses): (Vec<_>, Vec<_>) = (0..2).map(|_| reserved()).unzip();
        let mut fingerprints = BTreeSet::new();
        let mut servers = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            let (address, target) = (address.to_string(), targets[index].address.to_string());
            let control = at(&format!("serve{index}.sock"));
            let args = ["serve", "--listen", &address, "--join-address", &address, "--forward"];
            let more = [&target, "--state-dir", &state, "--token-file", &tokens, "--drain", "1h"];
            let mut server = Daemon::start(&[&args[..], &more, &["--control", &control]].concat());
            fingerprints.insert(server.says("fingerprint"));
            server.listening();
            servers.push(server);
        }
        let balancer = Balancer::start(dir.path(), &addresses);
        let (server, control) = (balancer.address.to_string(), at("connect.sock"));
        let fingerprint = fingerprints.pop_first().unwrap();
        assert!(fingerprints.is_empty(), "the servers have one identity");
        let args = ["connect", "--server", &server, "--path", "one=127.0.0.1", "two=127.0.0.2"];
        let more = ["--listen", "127.0.0.1:0", "--fingerprint", &fingerprint, "--control"];
        let last = [&control, "--token-file", &tokens, "--ready", "0"];
        let mut client = Daemon::start(&[&args[..], &more, &last].concat());
        let local = client.listening();
        Self { dir, servers, addresses, _held: held, targets, balancer, _client: client, local }
    }

    /// Waits until each of `count` connections is on both links, one of which has come through
    /// haproxy and the other straight to the server that has the connection. Both ends agree on how
    /// many each server has, which is returned.
    fn on_both_links(&self, count: u64) -> Vec<usize> {
        let of_server = |server: &SocketAddr| BTreeSet::from([self.balancer.address, *server]);
        let wanted: Vec<_> = self.addresses.iter().map(of_server).collect();
        let began = Instant::now();
        loop {
            let found = connections(&self.dir.path().join("connect.sock"));
            let at = |wanted: &BTreeSet<SocketAddr>| {
                found.iter().filter(|one| peers(one) == *wanted).count()
            };
            let counts: Vec<usize> = wanted.iter().map(at).collect();
            let of_servers: Vec<usize> = (0..2).map(|index| self.with_two_links(index)).collect();
            if counts.iter().sum::<usize>() == count as usize && of_servers == counts {
                return counts;
            }
            let hangs = began.elapsed() > PATIENCE;
            assert!(!hangs, "{counts:?} of {count} are on both links: {found:?}");
            thread::yield_now();
        }
    }

    /// The connections of a server that are on two links.
    fn with_two_links(&self, index: usize) -> usize {
        let found = connections(&self.dir.path().join(format!("serve{index}.sock")));
        found.iter().filter(|one| peers(one).len() == 2).count()
    }
}

#[test]
fn connections_keep_to_their_server_and_one_stops_without_a_byte_lost() {
    if !has_haproxy() {
        return;
    }
    let mut world = World::new();
    let streams: Vec<_> = (0..BEFORE).map(|number| begin(world.local, number)).collect();
    let counts = world.on_both_links(BEFORE);
    assert!(counts.iter().all(|&count| count > 0), "haproxy spreads: {counts:?}");

    // The first server stops in the middle of all of them.
    let stopped = world.servers.remove(0);
    stopped.signal("-TERM");
    stopped.logs("under way may go on for 1h");
    // New ones come to the other one only, and both of their paths with them.
    let fresh: Vec<_> = (BEFORE..BEFORE + AFTER).map(|n| begin(world.local, n)).collect();
    until("the second has them all", || world.with_two_links(1) >= counts[1] + AFTER as usize);
    let all = streams.into_iter().chain(fresh).enumerate();
    thread::scope(|scope| {
        for (number, stream) in all {
            scope.spawn(move || finish(stream, number as u64));
        }
    });

    // Each was whole at one target, once.
    let mut ends: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, target) in world.targets.iter().enumerate() {
        target.whole().into_iter().for_each(|number| ends.entry(number).or_default().push(index));
    }
    assert!(ends.keys().copied().eq(0..BEFORE + AFTER), "{:?}", ends.keys());
    assert!(ends.values().all(|targets| targets.len() == 1), "{ends:?}");
    assert!(ends.range(BEFORE..).all(|(_, targets)| *targets == [1]), "{ends:?}");
    let of_first = ends.values().filter(|targets| **targets == [0]).count();
    assert_eq!(of_first, counts[0], "each ended at the server that it was with");
    let log = stopped.all_it_logged();
    assert!(log.iter().any(|line| line.contains("stopped")), "{log:?}");
    assert!(!log.iter().any(|line| line.contains("ended while under way")), "{log:?}");
}

#[test]
fn join_addresses_that_clients_would_refuse_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (file, state) = (dir.path().join("serve.toml"), dir.path().to_str().unwrap());
    let listen = ["--listen", "127.0.0.1:0", "--forward", "127.0.0.1:1", "--state-dir", state];
    let serve = [&["serve"], &listen[..]].concat();
    for (addresses, reason) in [
        (&["0.0.0.0:7000"][..], "0.0.0.0:7000 cannot be announced for joins: it stands for all"),
        (&["192.0.2.1:0"], "it has no port; give one of this server, with its port"),
        (&["224.0.0.1:7000"], "it stands for several machines"),
        (&["192.0.2.1:1", "192.0.2.1:1"], "192.0.2.1:1 is announced for joins twice"),
    ] {
        let options: Vec<&str> =
            addresses.iter().flat_map(|address| ["--join-address", address]).collect();
        let line = failure(2, &[&serve[..], &options].concat());
        assert!(line.contains(reason), "{line}");
        fs::write(&file, format!("join-address = {addresses:?}\n")).unwrap();
        let config = ["--config", file.to_str().unwrap()];
        let line = failure(2, &[&serve[..], &config].concat());
        assert!(line.contains(reason), "in a file: {line}");
    }
    let line = common::run(&[&serve[..], &["--join-address", "server.example"]].concat());
    let text = String::from_utf8(line.stderr).unwrap();
    assert!(text.contains("--join-address") && text.contains("server.example"), "{text}");
}
