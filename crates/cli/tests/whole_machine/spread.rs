//! One flow of UDP over both links at once, on links of a rate and a delay.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weftline_core::{Bitrate, ByteCount};
use weftline_judged::verdict;
use weftline_lab::emulator::{Emulator, Start};
use weftline_lab::netns::Netns;
use weftline_lab::testbed::{PathLinks, Testbed};
use weftline_lab::topology::{End, address};
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};

use crate::common::{Daemon, PATIENCE};
use crate::lanes::{Echo, ask, status_with_lanes};
use crate::network::{FAR_V4, Network, ip};

/// Bytes of a datagram, with its number.
const DATAGRAM: usize = 1200;

/// A link of so many Mb/s with so long a way, and room for 200 ms.
pub(crate) fn link(mbps: u64, delay_ms: u64) -> LinkConfig {
    LinkConfig {
        rate: RateTrace::constant(Bitrate::mbps(mbps)),
        delay: Duration::from_millis(delay_ms),
        jitter: Duration::ZERO,
        queue: QueueLimit::Bytes(ByteCount::new(mbps * 25_000)),
        loss: LossModel::Bernoulli(0.0),
    }
}

/// A client with two emulated links, its server, and the internet behind that; skipped where that cannot be.
pub(crate) fn emulated(links: [LinkConfig; 2]) -> Option<(Network, Emulator)> {
    let links = ["wlan0", "wwan0"].into_iter().zip(links);
    let paths =
        links.map(|(name, link)| PathLinks { name: name.to_owned(), down: link.clone(), up: link });
    let made = Testbed::build(paths.collect(), "cubic", 1, Start::Explicit)
        .and_then(|bed| Ok((bed, Netns::create()?)));
    let (bed, internet) = match made {
        Ok(made) => made,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            eprintln!("skipped: {error}");
            return None;
        }
    };
    ip(&internet, "link set lo up");
    for path in 0..2 {
        let gateway = address(path, End::Server).v4;
        let name = if path == 0 { "wlan0" } else { "wwan0" };
        let route = format!("route add default via {gateway} dev {name} metric {}", 600 + path);
        ip(&bed.client, &route);
    }
    Some((Network::with_internet([bed.client, bed.server, internet]), bed.emulator))
}

/// What each lane has sent, in bytes.
fn sent(net: &Network) -> Vec<u64> {
    let status = status_with_lanes(net, &net.client, &[]);
    let lanes = crate::lanes::lanes_of_links(&status);
    lanes.iter().map(|lane| lane["sent_bytes"].as_u64().unwrap()).collect()
}

/// Sends numbered datagrams at a rate until `over`; how many.
fn flood(socket: &UdpSocket, mbps: u64, over: &AtomicBool) -> u64 {
    let (began, mut number) = (Instant::now(), 0_u64);
    let mut datagram = [0; DATAGRAM];
    while !over.load(Ordering::Relaxed) {
        let due = began.elapsed().as_micros() as u64 * mbps / 8 / DATAGRAM as u64;
        while number < due {
            datagram[..8].copy_from_slice(&number.to_be_bytes());
            let _ = socket.send(&datagram);
            number += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    number
}

/// Numbers as they come, until none has for a second after `over`.
fn gather(socket: &UdpSocket, over: &AtomicBool) -> Vec<(Instant, u64)> {
    let (mut came, mut buffer) = (Vec::new(), [0; 2048]);
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => {
                let number = u64::from_be_bytes(buffer[..8].try_into().unwrap());
                came.push((Instant::now(), number));
            }
            Err(_) if over.load(Ordering::Relaxed) => return came,
            Err(_) => {}
        }
    }
}

/// What came of a flow.
struct Outcome {
    /// Numbers of datagrams, in the order in which they came.
    came: Vec<u64>,
    /// Of the second half, as at first nobody knows the links: those that came after a later one.
    disordered: usize,
    /// All of that in words.
    said: String,
}

/// 65 Mb/s over links of 50 and 30, the second one of a longer way, until each has carried what takes it
/// some seconds; `None` where that cannot be.
fn spread() -> Option<Outcome> {
    let (net, _links) = emulated([link(50, 4), link(30, 20)])?;
    let echo = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let sink = net.internet.run(|| UdpSocket::bind((FAR_V4, 7001))).unwrap();
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let args = net.up_args(&invite);
    let paths = ["--path", "wlan0=wlan0", "--path", "wwan0=wwan0"];
    let mut up = Daemon::spawn(&mut net.command(&net.client, &[&args[..], &paths].concat()));
    up.says("up:");
    net.comes_to_show(crate::lanes::ALL);
    ask(&net, echo.address, b"who");
    crate::lanes::both_lanes_up(&net);
    let socket = net.client.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    net.client.run(|| socket.connect((FAR_V4, 7001))).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let [till, until] = [(); 2].map(|()| Arc::clone(&over));
    let sending = thread::spawn(move || flood(&socket, 65, &till));
    let coming = thread::spawn(move || gather(&sink, &until));
    let began = Instant::now();
    while sent(&net).iter().any(|bytes| *bytes < 16_000_000) {
        assert!(began.elapsed() < PATIENCE, "{:?}", sent(&net));
        thread::sleep(Duration::from_millis(100));
    }
    over.store(true, Ordering::Relaxed);
    let (numbers, came) = (sending.join().unwrap(), coming.join().unwrap());
    let mut greatest = 0;
    let steady = &came[came.len() / 2..];
    let disordered = steady.iter().filter(|(_, number)| {
        greatest = greatest.max(*number);
        *number < greatest
    });
    let disordered = disordered.count();
    let took = steady[steady.len() - 1].0.duration_since(steady[0].0).as_secs_f64();
    let rate = (steady.len() * (DATAGRAM + 28) * 8) as f64 / took / 1e6;
    let said = format!(
        "{} of {numbers} came, {disordered} out of order, {rate:.1} Mb/s; lanes {:?}",
        came.len(),
        sent(&net)
    );
    println!("{said}");
    Some(Outcome { came: came.into_iter().map(|(_, number)| number).collect(), disordered, said })
}

#[test]
fn one_flow_goes_over_both_links() {
    let Some(Outcome { mut came, said, .. }) = spread() else { return };
    came.sort_unstable();
    assert!(came.windows(2).all(|two| two[0] < two[1]), "each once: {said}");
}

/// On a busy machine the links themselves are late.
#[test]
#[ignore = "has a bound of time: make test-lab"]
fn one_flow_over_both_links_comes_in_order() {
    verdict("one_flow_over_both_links_comes_in_order", |_| {
        let Outcome { came, disordered, said } = spread()?;
        assert!(disordered * 20 < came.len() / 2, "{said}");
        Some(())
    });
}
