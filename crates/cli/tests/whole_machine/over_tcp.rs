//! UDP, DNS and ICMP over TCP, where links let no UDP through to the server.

use std::net::{SocketAddr, UdpSocket};

use crate::common::{PATIENCE, until};
use crate::lanes::{
    ALL, Echo, ask, block_udp, both_lanes_up, ping, status_with_lanes, up, up_with,
};
use crate::network::{FAR_V4, Network, SERVER, SITE_V6, ip, text};
use crate::sniffer::Sniffer;

/// The lanes of a machine that are up, by what they go over.
fn lanes_up(net: &Network, carrier: &str) -> usize {
    let status = status_with_lanes(net, &net.client, &[]);
    let lanes = status["bonds"][0]["lanes"].as_array().unwrap().iter();
    lanes.filter(|lane| lane["state"] == "up" && lane["carrier"] == carrier).count()
}

#[test]
fn where_no_udp_comes_through_it_goes_over_tcp_until_it_does() {
    let Some(net) = Network::set_up() else { return };
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let far_v6 = Echo::start(&net.internet, &format!("[{SITE_V6}]:7000"));
    let address = SocketAddr::new(SERVER.parse().unwrap(), 4433);
    let listen = ["--listen", "0.0.0.0:4433", "--public", &address.to_string()];
    let (server, invite) = net.serve(&listen);
    block_udp(&net, 4433, true);
    let sniffer = Sniffer::start(&net, address);
    let up = up(&net, &invite);
    up.logs("no UDP comes through to the server; a lane over TCP carries what would go there");
    assert_eq!(text(&ask(&net, far.address, b"who")), "198.51.100.1 who");
    assert_eq!(text(&ask(&net, far_v6.address, b"who")), "2001:db8:9::1 who");
    // The longest packet of a bond, and longer ones in fragments.
    for length in [1300, 1900] {
        let answer = ask(&net, far.address, &vec![b'x'; length]);
        assert_eq!(answer.len(), length + "198.51.100.1 ".len());
    }
    if let Some(got) = ping(&net, &[FAR_V4]) {
        assert!(got.status.success(), "{got:?}");
    }
    until("it is up", || (lanes_up(&net, "udp"), lanes_up(&net, "tcp")) == (0, 1));
    let said = text(&net.run(&net.client, &["status"]).stdout);
    assert!(said.lines().any(|line| line.trim().starts_with("over TCP")), "{said}");
    let seen = sniffer.stop(&net);
    let may = ["ARP", "neighbour discovery", "TCP with the server", "UDP with the server"];
    assert!(seen.iter().all(|one| may.contains(&&**one)), "{seen:?}");
    // A flow goes on while UDP comes back, and while it goes away again.
    for is_blocked in [false, true] {
        block_udp_again(&net, is_blocked);
        if !is_blocked {
            both_lanes_up(&net);
            up.logs("the lane over TCP is closed, as it is not needed any more");
            until("the lane over TCP is gone", || lanes_up(&net, "tcp") == 0);
        }
        assert_eq!(text(&ask(&net, far.address, b"again")), "198.51.100.1 again");
    }
    net.comes_to_show(ALL);
    until("it goes over TCP again", || lanes_up(&net, "tcp") == 1);
    // A server that starts anew has another session.
    drop(server);
    let (_server, _) = net.serve(&listen);
    assert_eq!(text(&ask(&net, far.address, b"anew")), "198.51.100.1 anew");
}

/// [`block_udp`] once it has set the order of rules.
fn block_udp_again(net: &Network, is_blocked: bool) {
    let how = if is_blocked { "add" } else { "del" };
    ip(&net.server, &format!("rule {how} pref 1 ipproto udp dport 4433 blackhole"));
}

/// A link that lets no UDP through stands by: what goes over another is there at once when that dies.
#[test]
fn a_link_without_udp_takes_over_from_one_that_has_it() {
    let Some(net) = Network::set_up() else { return };
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    // What comes by the first link with UDP is dropped.
    ip(&net.server, "rule add pref 2 lookup local");
    ip(&net.server, "rule del pref 0");
    ip(&net.server, "rule add pref 1 ipproto udp dport 4433 iif wlan0 blackhole");
    let up = up(&net, &invite);
    up.logs(
        "wlan0: no UDP comes through to the server; a lane over TCP carries what would go there",
    );
    until("both are up", || (lanes_up(&net, "udp"), lanes_up(&net, "tcp")) == (1, 1));
    let socket = net.client.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(far.address).unwrap();
    let sent = |carrier: &str| {
        let status = status_with_lanes(&net, &net.client, &[]);
        let lanes = status["bonds"][0]["lanes"].as_array().unwrap().clone();
        let of_it = lanes.iter().filter(|lane| lane["carrier"] == carrier);
        of_it.map(|lane| lane["sent_packets"].as_u64().unwrap()).sum::<u64>()
    };
    // UDP that comes through is better. A machine that stands still has it fall silent for a moment.
    until("all goes by UDP", || {
        let before = [sent("udp"), sent("tcp")];
        for _ in 0..20 {
            assert_eq!(text(&ask(&net, far.address, b"udp")), "198.51.100.1 udp");
        }
        sent("udp") >= before[0] + 20 && sent("tcp") == before[1]
    });
    ip(&net.client, "link set wwan0 down");
    assert_eq!(text(&ask(&net, far.address, b"over TCP")), "198.51.100.1 over TCP");
    until("no UDP comes through", || lanes_up(&net, "udp") == 0);
    assert_eq!(text(&ask(&net, far.address, b"on")), "198.51.100.1 on");
}

/// A user may want none.
#[test]
fn nothing_goes_over_tcp_that_is_not_to() {
    let Some(net) = Network::set_up() else { return };
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    std::fs::write(net.state.path().join("up.toml"), "udp_over_tcp = \"off\"\n").unwrap();
    let up = up_with(&net, &invite, &[]);
    both_lanes_up(&net);
    block_udp(&net, 4433, true);
    up.logs("UDP, DNS and ICMP go past the server until a link carries UDP there again");
    assert_eq!(lanes_up(&net, "tcp"), 0);
}
