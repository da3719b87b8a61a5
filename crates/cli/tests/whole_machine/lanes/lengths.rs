//! Packets longer than a link carries.

use super::*;

/// What the client shows of its lanes: the longest packet of each that is up.
fn longest(net: &Network) -> Vec<u64> {
    let status = status_with_lanes(net, &net.client, &[]);
    let lanes = lanes_of_links(&status);
    let up = lanes.iter().filter(|lane| lane["state"] == "up");
    up.map(|lane| lane["mtu"].as_u64().unwrap()).collect()
}

/// Waits until both lanes are known for what they carry.
#[track_caller]
pub(super) fn carry(net: &Network, wanted: [std::ops::RangeInclusive<u64>; 2]) {
    let began = Instant::now();
    loop {
        let longest = longest(net);
        if longest.len() == 2 && (0..2).all(|n| wanted[n].contains(&longest[n])) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{longest:?}, not {wanted:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Sends datagrams of so many bytes of payload that nobody may cut, until one is answered; or, as it may
/// become known to be too long, the error of that.
#[track_caller]
fn ask_whole(net: &Network, to: SocketAddr, length: usize) -> io::Result<()> {
    let whole = socket(net, to.is_ipv4());
    match to.is_ipv4() {
        true => sockopt::set_ip_mtu_discover(&whole, sockopt::Ipv4PathMtuDiscovery::DO)?,
        false => sockopt::set_ipv6_mtu_discover(&whole, sockopt::Ipv6PathMtuDiscovery::DO)?,
    }
    whole.set_read_timeout(Some(Duration::from_millis(100)))?;
    let began = Instant::now();
    loop {
        whole.send_to(&vec![b'x'; length], to)?;
        if whole.recv_from(&mut [0; 2048]).is_ok() {
            return Ok(());
        }
        assert!(began.elapsed() < PATIENCE, "{to}, {length} bytes");
    }
}

/// What a lane is known to carry over a link of 1,400 bytes: less than that by the headers of IP, UDP and the
/// lane, or a few bytes less. This kind of link lets four more through, for a VLAN.
pub(super) const NARROW: std::ops::RangeInclusive<u64> = 1321..=1332;

/// Both links carry less than the device's packets, and what is longer vanishes beyond them.
#[test]
fn what_no_link_carries_is_cut_or_its_sender_is_told() {
    let Some(net) = Network::set_up() else { return };
    let v4 = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let v6 = Echo::start(&net.internet, &format!("[{SITE_V6}]:7000"));
    for link in ["wlan0", "wwan0"] {
        ip(&net.server, &format!("link set {link} mtu 1400"));
    }
    let control = net.run.path().join("serve.sock");
    let control = control.to_str().unwrap();
    let (_server, invite) = net.serve_with_control(control, &["--listen", "0.0.0.0:0"]);
    let _up = up(&net, &invite);
    carry(&net, [NARROW, NARROW]);
    for to in [v4.address, v6.address] {
        let error = ask_whole(&net, to, 1348).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(90), "{to}: {error}");
        ask_whole(&net, to, 1200).unwrap();
    }
    // What may be cut comes in pieces, both ways; so does what was sent whole at first.
    assert_eq!(ask(&net, v4.address, &[b'x'; 1372]).len(), 1372 + "198.51.100.1 ".len());
    // An answer is longer than the question, and may be what is too long: then its sender is told, once the
    // server knows.
    let began = Instant::now();
    while !counters(&net, &net.server, control).contains_key("too_long_packets") {
        assert!(began.elapsed() < PATIENCE, "the server has sent all");
        ask_whole(&net, v6.address, 1272).unwrap();
    }
    ask_whole(&net, v6.address, 1272).unwrap();
}

#[test]
fn long_packets_go_over_the_link_that_carries_them_until_none_does() {
    let Some(net) = Network::set_up() else { return };
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    ip(&net.server, "link set wlan0 mtu 1400");
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let _up = up(&net, &invite);
    carry(&net, [NARROW, 1400..=1400]);
    for length in [1372, 1200, 1372] {
        ask_whole(&net, far.address, length).unwrap();
    }
    ip(&net.server, "link set wwan0 mtu 1400");
    let began = Instant::now();
    while ask_whole_once_more(&net, far.address) {
        assert!(began.elapsed() < PATIENCE, "{:?}", longest(&net));
    }
    carry(&net, [NARROW, NARROW]);
}

/// Whether a datagram that fills the device's packets is not refused yet.
fn ask_whole_once_more(net: &Network, to: SocketAddr) -> bool {
    let whole = socket(net, true);
    sockopt::set_ip_mtu_discover(&whole, sockopt::Ipv4PathMtuDiscovery::DO).unwrap();
    whole.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    (0..20).all(|_| {
        let is_sent = whole.send_to(&[b'x'; 1372], to).is_ok();
        let _ = whole.recv_from(&mut [0; 2048]);
        is_sent
    })
}
