//! IPv6 where there is none, where it comes later, and where it is switched off.

use std::fs;
use std::process::Command;

use crate::lanes::{Echo, ask, up};
use crate::network::{FAR_V6, Network, SITE_V6, ip, janitor_of, text};
use crate::site::Site;

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

/// The server's router says that there is IPv6 only after the server has begun.
#[test]
fn ipv6_that_the_server_gets_later_is_forwarded() {
    let Some(net) = Network::set_up() else { return };
    let route = format!("default via {FAR_V6} dev eth0");
    ip(&net.server, &format!("-6 route del {route}"));
    let before = Network::snapshot_of(&net.server);
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    ip(&net.server, &format!("-6 route add {route}"));
    server.logs("IPv6 of clients that come now is forwarded, too");
    let far = Echo::start(&net.internet, &format!("[{SITE_V6}]:7000"));
    let up = up(&net, &invite);
    assert_eq!(text(&ask(&net, far.address, b"who")), "2001:db8:9::1 who");
    drop(up);
    ip(&net.server, &format!("-6 route del {route}"));
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
    Network::restored_of(&net.server, &before);
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
