//! A file through the proxy, in the lab's world, while one path and then the other is cut and
//! restored, twice each: every byte arrives, once and in order.
//!
//! By default 64 MiB at 30 + 60 Mb/s. The measure of the project's targets is 1 GiB:
//! `sudo -E WEFTLINE_CUT_SIZE=1GiB WEFTLINE_CUT_RATES=400Mbps,800Mbps cargo test --release
//! -p weftline-cli --test cut_and_restore -- --nocapture`

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use weftline_core::{Bitrate, ByteCount};
use weftline_lab::LabError;
use weftline_lab::emulator::Start;
use weftline_lab::netns::Netns;
use weftline_lab::testbed::{PathLinks, Testbed};
use weftline_lab::topology::End;
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};

const FORWARD: &str = "127.0.0.1:8080";
const LOCAL: &str = "127.0.0.1:9000";
/// Far more than anything here takes: a test that waits this long hangs.
const PATIENCE: Duration = Duration::from_secs(400);
/// Shares of the file, in percent, at which a path is cut or restored.
const SCRIPT: [(u64, &str, bool); 8] = [
    (10, "wifi", true),
    (22, "wifi", false),
    (30, "wigig", true),
    (42, "wigig", false),
    (50, "wifi", true),
    (62, "wifi", false),
    (70, "wigig", true),
    (82, "wigig", false),
];

/// A daemon that ends with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn setting<T: std::str::FromStr>(name: &str, default: &str) -> Vec<T> {
    let text = std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let parse = |part: &str| part.parse().unwrap_or_else(|_| panic!("{name} is '{text}'"));
    text.split(',').map(parse).collect()
}

/// The byte at `offset` of the file; its period is no power of two.
fn word_at(offset: u64) -> u8 {
    (offset % 65_521).wrapping_mul(offset >> 16 | 1) as u8
}

fn world() -> Option<Testbed> {
    let rates: Vec<Bitrate> = setting("WEFTLINE_CUT_RATES", "30Mbps,60Mbps");
    let link = |rate: Bitrate| LinkConfig {
        rate: RateTrace::constant(rate),
        delay: Duration::from_millis(2),
        jitter: Duration::ZERO,
        queue: QueueLimit::Bytes(rate.bytes_in(Duration::from_millis(20))),
        loss: LossModel::None,
    };
    let path = |(name, &rate): (&str, &Bitrate)| PathLinks {
        name: name.to_owned(),
        down: link(rate),
        up: link(rate),
    };
    let paths = ["wifi", "wigig"].into_iter().zip(&rates).map(path).collect();
    match Testbed::build(paths, "cubic", 1, Start::Explicit) {
        Ok(world) => Some(world),
        Err(LabError::NotPossible { what, remedy }) => {
            assert!(std::env::var_os("CI").is_none(), "{what}; {remedy}");
            eprintln!("skipped: {what}; run 'sudo -E cargo test -p weftline-cli'");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn spawn(ns: &Netns, args: &[&str]) -> Daemon {
    let mut command = ns.command(assert_cmd::cargo::cargo_bin!("weftline"));
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    Daemon(command.spawn().expect("the daemon starts"))
}

/// Waits until the daemon accepts connections at `address`.
fn wait_for(ns: &Netns, address: &str, daemon: &mut Daemon) {
    let address: SocketAddr = address.parse().expect("an address");
    let start = Instant::now();
    while ns.run(|| TcpStream::connect(address)).is_err() {
        if let Ok(Some(status)) = daemon.0.try_wait() {
            let mut said = String::new();
            let stderr = daemon.0.stderr.as_mut().expect("piped");
            BufReader::new(stderr).read_to_string(&mut said).expect("text");
            panic!("the daemon ended with {status}: {said}");
        }
        assert!(start.elapsed() < PATIENCE, "no daemon at {address}");
        std::thread::yield_now();
    }
}

#[test]
fn a_file_survives_cuts_of_both_paths() {
    let size = setting::<ByteCount>("WEFTLINE_CUT_SIZE", "64MiB")[0].as_u64();
    let Some(world) = world() else { return };
    let listener = world.server.run(|| TcpListener::bind(FORWARD)).expect("a free port");
    let state = tempfile::tempdir().expect("a directory");
    let servers = [0, 1].map(|path| world.address(path, End::Server, 4433).to_string());
    let mut serve = spawn(
        &world.server,
        &[
            "serve",
            "--listen",
            &servers[0],
            "--listen",
            &servers[1],
            "--forward",
            FORWARD,
            "--state-dir",
            state.path().to_str().expect("UTF-8"),
        ],
    );
    let fingerprint = fingerprint(&mut serve);
    let mut connect = spawn(
        &world.client,
        &[
            "connect",
            "--server",
            &servers[0],
            "--server",
            &servers[1],
            "--path",
            "wifi=wifi",
            "--path",
            "wigig=wigig",
            "--fingerprint",
            &fingerprint,
            "--listen",
            LOCAL,
        ],
    );
    let sender = std::thread::spawn(move || send(&listener, size));
    wait_for(&world.client, LOCAL, &mut connect);
    let started = Instant::now();
    let cuts = receive(&world, size);
    let took = started.elapsed();
    sender.join().expect("the sender does not panic");
    assert_eq!(cuts, SCRIPT.len());
    let mbps = size as f64 * 8e-6 / took.as_secs_f64();
    eprintln!("{} in {took:.1?}: {mbps:.0} Mb/s, byte-identical", ByteCount::new(size));
}

/// The fingerprint that `serve` prints.
fn fingerprint(serve: &mut Daemon) -> String {
    let said: Box<dyn std::io::Read> = Box::new(
        serve.0.stdout.take().expect("piped").chain(serve.0.stderr.take().expect("piped")),
    );
    for line in BufReader::new(said).lines() {
        let line = line.expect("text");
        if let Some(at) = line.find("sha256:") {
            return line[at..].split_whitespace().next().expect("found").to_owned();
        }
    }
    panic!("serve says no fingerprint");
}

/// Serves the file to the connection that asks for it; others close at once.
fn send(listener: &TcpListener, size: u64) {
    let (mut stream, block) = loop {
        let (mut stream, _) = listener.accept().expect("a connection");
        if stream.read(&mut [0; 1]).is_ok_and(|n| n == 1) {
            break (stream, vec![0; 256 << 10]);
        }
    };
    let mut block = block;
    let mut at = 0;
    while at < size {
        let n = (size - at).min(block.len() as u64) as usize;
        for (i, byte) in block[..n].iter_mut().enumerate() {
            *byte = word_at(at + i as u64);
        }
        stream.write_all(&block[..n]).expect("the proxy takes everything");
        at += n as u64;
    }
}

/// Asks for the file, checks every byte, and cuts and restores paths on the way. Returns the
/// number of steps done.
fn receive(world: &Testbed, size: u64) -> usize {
    let mut stream = world.client.run(|| TcpStream::connect(LOCAL)).expect("connect listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a valid time");
    stream.write_all(b"?").expect("the proxy takes it");
    let mut block = vec![0; 256 << 10];
    let mut at = 0;
    let mut steps = SCRIPT.iter().peekable();
    let mut done = 0;
    loop {
        let n = stream.read(&mut block).expect("the file goes on");
        if n == 0 {
            break;
        }
        let wrong = (0..n).find(|&i| block[i] != word_at(at + i as u64));
        assert_eq!(wrong, None, "a wrong byte after {at}");
        at += n as u64;
        while let Some((_, path, cut)) = steps.next_if(|(share, ..)| at * 100 >= size * share) {
            world.emulator.cut(path, None, *cut).expect("the path exists");
            done += 1;
        }
    }
    assert_eq!(at, size, "the file has all its bytes");
    done
}
