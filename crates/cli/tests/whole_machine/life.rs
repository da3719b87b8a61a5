//! Links that come and go, and ends of all kinds.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Daemon, PATIENCE, weftline};
use crate::lanes::{Echo, ask, both_lanes_up, up};
use crate::network::{FAR_V4, LINKS, Network, SERVER, SITE_V6, ip, janitor_of, join, text};
use crate::site::{FIRST, LONG, Site};

#[test]
fn a_download_outlives_a_link() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let _up = net.up(&invite);
    // Without a buffer of its own, in which it would keep the end of what has come.
    let args = ["--silent", "--show-error", "--no-buffer", "--max-time", "400", "--noproxy", "*"];
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

/// As after a reboot: what the links are stands in up.toml, and a modem is not plugged in yet.
#[test]
fn a_link_of_the_file_that_is_not_there_yet_is_used_when_it_comes() {
    let Some(net) = Network::set_up() else { return };
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let links = "path = [\"wifi=wlan0\", \"usb=usb0,role=backup\"]\n";
    fs::write(net.state.path().join("up.toml"), links).unwrap();
    // The command line counts, and what it names has to be there.
    let alone =
        net.run(&net.client, &[&net.up_args(&invite)[..], &["--path", "usb=usb0"]].concat());
    let said = text(&alone.stderr);
    assert!(alone.status.code() == Some(2) && said.contains("unknown interface 'usb0'"), "{said}");
    let mut up = Daemon::spawn(&mut net.command(&net.client, &net.up_args(&invite)));
    up.logs("path usb: unknown interface 'usb0'");
    let said = up.says("up:");
    assert!(said.contains("over wifi, usb"), "{said}");
    net.comes_to_see(&site, "198.51.100.1");
    join((&net.client, "usb0"), (&net.server, "usb0"));
    ip(&net.server, "addr add 10.65.0.1/30 dev usb0");
    ip(&net.client, "addr add 10.65.0.2/30 dev usb0");
    ip(&net.client, "route add default via 10.65.0.1 dev usb0 metric 800");
    ip(&net.client, "link set wlan0 down");
    net.comes_to_see(&site, "198.51.100.1");
}

#[test]
fn metrics_are_where_the_file_says() {
    let Some(net) = Network::set_up() else { return };
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    fs::write(net.state.path().join("up.toml"), "metrics = \"127.0.0.1:0\"\n").unwrap();
    let mut up = Daemon::spawn(&mut net.command(&net.client, &net.up_args(&invite)));
    let at = up.says("metrics on");
    up.says("up:");
    let shown = text(&net.curl(&format!("http://{at}/metrics")).stdout);
    assert!(shown.contains("weftline_build{daemon=\"up\""), "{shown}");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    // As before the address is there that the file names: a machine needs its network more.
    fs::write(net.state.path().join("up.toml"), "metrics = \"192.0.2.7:9000\"\n").unwrap();
    let mut up = Daemon::spawn(&mut net.command(&net.client, &net.up_args(&invite)));
    up.says("up:");
    up.logs("no metrics until the next start: ");
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
fn the_janitor_outlives_what_ends_up() {
    let Some(net) = Network::set_up() else { return };
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let before = net.snapshot();
    // As a service manager's watchdog does it, and a terminal, to all processes at once.
    for signal in ["-ABRT", "-QUIT"] {
        let up = net.up(&invite);
        let pid = janitor_of(&up).to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        // A job in the background, as this may be, has inherited SIGQUIT as ignored.
        up.signal("-ABRT");
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
    // The next start works at once after a kill, but for a machine on which the janitor takes long.
    net.up(&invite).signal("-KILL");
    let up = net.up_again(&net.up_args(&invite));
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    net.restored(&before);
}

#[test]
fn killed_at_any_time_of_its_end_it_leaves_nothing_behind() {
    let Some(net) = Network::set_up() else { return };
    let strict = |name: &str| fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "1");
    net.client.run(|| ["all", "wlan0", "wwan0"].into_iter().try_for_each(strict)).unwrap();
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let before = net.snapshot();
    let args = net.up_args(&invite);
    let up = net.up(&invite);
    let began = Instant::now();
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    let end = began.elapsed();
    net.restored(&before);
    const MOMENTS: u32 = 20;
    for delay in (0..MOMENTS).map(|n| end * 11 / 10 * n / (MOMENTS - 1)) {
        let up = net.up_again(&args);
        up.signal("-TERM");
        thread::sleep(delay);
        up.signal("-KILL");
        up.end();
        net.restored(&before);
    }
}

/// As a firewall's restart does it.
#[test]
fn a_ruleset_that_is_flushed_takes_nothing_away() {
    let Some(net) = Network::set_up() else { return };
    let far = Echo::start(&net.internet, &format!("{FAR_V4}:7000"));
    let site = Site::start(&net.internet, &format!("{FAR_V4}:80"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    let _up = up(&net, &invite);
    let snapshots = || (net.snapshot(), Network::snapshot_of(&net.server));
    let before = snapshots();
    for ns in [&net.client, &net.server] {
        let nft = |args: &[&str]| {
            let done = ns.command("nft").args(args).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        nft(&["add", "table", "inet", "somebodys"]);
        nft(&["flush", "ruleset"]);
    }
    // What was somebody's is gone, and nothing else is.
    assert_eq!(snapshots(), before);
    assert_eq!(text(&net.curl(&site.url("")).stdout), "198.51.100.1");
    ask(&net, far.address, b"who");
}

/// Where both links are one route: the kernel lists it once, with two next hops.
#[test]
fn links_of_one_route_are_all_used() {
    let Some(net) = Network::set_up() else { return };
    for (link, ..) in LINKS {
        ip(&net.client, &format!("route del default dev {link}"));
    }
    let hops = "nexthop via 192.168.1.1 dev wlan0 nexthop via 10.64.3.10 dev wwan0";
    ip(&net.client, &format!("route add default {hops}"));
    let (_server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    let mut up = Daemon::spawn(&mut net.command(&net.client, &net.up_args(&invite)));
    let said = up.says("up:");
    assert!(said.contains("over wlan0, wwan0"), "{said}");
    both_lanes_up(&net);
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
