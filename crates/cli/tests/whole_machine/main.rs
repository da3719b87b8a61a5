//! `weftline up` as its user meets it: a machine with two links, its server, and the internet behind
//! that, each a network namespace of its own. It needs root.
#![allow(clippy::unwrap_used, reason = "test code")]

mod away;
mod calls;
mod capture;
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod invites;
mod ipv6;
mod lanes;
mod life;
mod network;
mod over_tcp;
mod share;
mod site;
mod sniffer;
mod spread;
mod strict;

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::common::Daemon;
use crate::network::{FAR_V4, FAR_V6, Network, PRIVATE, SERVER, SITE_V6, ip, text};
use crate::site::Site;

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
fn its_dashboard_is_reached_though_all_connections_are_captured() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let args = [&net.up_args(&invite)[..], &["--dashboard", "127.0.0.1:0"]].concat();
    let mut up = Daemon::spawn(&mut net.command(&net.client, &args));
    let url = up.says("dashboard");
    up.says("up:");
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1");
    let (address, token) = url.split_once("/#k=").unwrap();
    let bearer = format!("Authorization: Bearer {token}");
    let history = format!("{address}/api/1/history");
    let asked = net.curl_with(&["--header", &bearer], &format!("{address}/api/1/status"));
    let status = text(&asked.stdout);
    assert!(status.contains("\"daemon\":\"up\"") && status.contains("wlan0"), "{asked:?}");
    assert!(text(&net.curl(&history).stdout).contains("status --url"), "no token, nothing to see");
    let shown = net.run(&net.client, &["status", "--url"]);
    assert_eq!(text(&shown.stdout).trim(), url, "{shown:?}");
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
    let got = curl.args(["-sS", "--max-time", "400", "--noproxy", "*", "--resolve", &resolve]);
    let got = got.arg("http://far.example/").output().unwrap();
    assert_eq!(text(&got.stdout), "198.51.100.1", "{got:?}");
    assert_eq!(v4.asked(), 1);
    let got = net.curl(&format!("http://[{SITE_V6}]/"));
    assert_eq!(got.status.code(), Some(7), "cannot connect: {got:?}");
}
