//! `weftline cotag` as its user meets it: keys, and one clear line for what is wrong.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use common::{Daemon, PATIENCE, failure, one_line, run, weftline};
use weftline_lab::LabError;
use weftline_lab::netns::Netns;

const OTHER: &str = "public:0000000000000000000000000000000000000000000000000000000000000001";
const DEVICE: &str = "public:0000000000000000000000000000000000000000000000000000000000000003";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap().trim().to_owned()
}

#[test]
fn a_key_is_made_once_and_kept_from_others() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.key");
    let first = run(&["cotag", "key", text(&file)]);
    let again = run(&["cotag", "key", text(&file)]);
    assert!(first.status.success() && first.stdout.starts_with(b"public:"), "{first:?}");
    assert_eq!(first.stdout, again.stdout, "the same key");
    let found = std::fs::metadata(&file).unwrap();
    assert_eq!(found.mode() & 0o777, 0o600);
    let secret = std::fs::read_to_string(&file).unwrap();
    assert!(!String::from_utf8(first.stdout).unwrap().contains(&secret.trim()[7..]));
    // What is no key is not told.
    std::fs::write(&file, "something secret\n").unwrap();
    let said = failure(2, &["cotag", "key", text(&file)]);
    assert!(said.contains("no secret key") && !said.contains("something"), "{said}");
}

/// A gateway's arguments up to what a test changes.
fn gateway<'a>(key: &'a str, tun: &'a str, ap: &'a str) -> Vec<&'a str> {
    vec![
        "cotag",
        "gateway",
        "--key",
        key,
        "--listen",
        "127.0.0.1:0",
        "--tun",
        tun,
        "--ap",
        ap,
        "--device-key",
        DEVICE,
        "--address",
        "10.9.0.1/24",
        "--address",
        "fd09::1/64",
    ]
}

#[test]
fn what_makes_no_sense_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.key");
    let key = text(&file);
    assert!(run(&["cotag", "key", key]).status.success());
    let ap = format!("a={OTHER}");
    let with = |more: &[&'static str]| {
        let mut args: Vec<String> =
            gateway(key, "cgtest", &ap).into_iter().map(str::to_owned).collect();
        args.extend(more.iter().map(|&part| part.to_owned()));
        args
    };
    let long = "--tun=a-name-that-is-too-long";
    for (more, part) in [
        (&["--link-mtu", "1300"][..], "give a --link-mtu of 1436 or more"),
        (&["--interval", "1s"], "give 200us to 200ms"),
        (&["--interval", "1500ms"], "--interval 1500ms: give"),
        (&["--interval", "100 us"], "--interval 100 us: give"),
        (
            &["--queue-target", "20000us", "--queue-interval", "15000us"],
            "--queue-target 20000us, --queue-interval 15000us: packets",
        ),
        (&["--queue-interval", "1min"], "--queue-interval 1min: give"),
        (&["--interval", "soon"], "is no duration"),
        (&["--generation", "0"], "give 1 to 255"),
        (&["--buffer", "0"], "--buffer 0"),
        (&["--plain", "--buffer", "8193"], "give at most 8192"),
        (&["--plain", "--dense"], "cannot be used with"),
        (&["--ap", "b=public:12"], "is no public key"),
        (&["--address", "10.9.0.1"], "is no address with a prefix"),
        (&["--device", "tablet"], "is no device; write NAME=KEY"),
    ] {
        let args = with(more);
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let said = failure(2, &args);
        assert!(said.contains(part), "{more:?}: {said}");
    }
    let several = |devices: [&str; 2]| {
        let mut args = gateway(key, "cgtest", &ap);
        let at = args.iter().position(|arg| *arg == "--device-key").unwrap();
        args.splice(at..at + 2, ["--device", devices[0], "--device", devices[1]]);
        failure(2, &args)
    };
    let first = format!("headset={DEVICE},address=10.9.0.2");
    let same = format!("tablet={DEVICE},address=10.9.0.3");
    assert!(several([&first, &same]).contains("'headset' and 'tablet' have the same key"));
    let second = format!("tablet={}2,address=10.9.0.2", &OTHER[..OTHER.len() - 1]);
    assert!(several([&first, &second]).contains("have the same address"));
    let bare = format!("tablet={}2", &OTHER[..OTHER.len() - 1]);
    assert!(several([&first, &bare]).contains("'tablet' has no address"));
    let mut twice = gateway(key, "cgtest", &ap);
    let second = format!("b={OTHER}");
    twice.extend(["--ap", &second]);
    assert!(failure(2, &twice).contains("'a' and 'b' have the same key"));
    // One node's key where another's belongs.
    let own = text_of(&run(&["cotag", "key", key]).stdout);
    let itself = format!("a={own}");
    let said = failure(2, &gateway(key, "cgtest", &itself));
    assert!(said.contains("'this gateway' and 'a' have the same key"), "{said}");
    let mut as_device = gateway(key, "cgtest", &ap);
    as_device[11] = OTHER;
    let said = failure(2, &as_device);
    assert!(said.contains("'a' and 'device' have the same key"), "{said}");
    let point = format!("a=127.0.0.1:9,key={OTHER}");
    let device = ["cotag", "device", "--key", key, "--gateway-key", &own, "--ap", &point];
    let said = failure(2, &device);
    assert!(said.contains("'this device' and 'gateway' have the same key"), "{said}");
    let mut named = gateway(key, long, &ap);
    named[7] = "a-name-that-is-too-long";
    assert!(failure(2, &named).contains("cannot be the TUN device's name"));
    let none = failure(2, &["cotag", "device", "--key", key, "--gateway-key", OTHER]);
    assert!(none.contains("1 to 16 access points"), "{none}");
    let keyless = failure(2, &["cotag", "device", "--key", key]);
    assert!(keyless.contains("give --gateway-key KEY"), "{keyless}");
    let ap = ["cotag", "ap", "--key", key, "--gateway", "127.0.0.1", "--listen", "127.0.0.1:0"];
    let ap = [&ap[..], &["--gateway-key", OTHER, "--device-key", OTHER]].concat();
    assert!(failure(2, &ap).contains("has no port"));
    let slow = |rate: &str| {
        let mut args = ap.clone();
        (args[5], args[11]) = ("127.0.0.1:1", DEVICE);
        failure(2, &[&args[..], &["--rate", rate]].concat())
    };
    assert!(slow("32000bps").contains("--rate 32000bps: give 64"), "{}", slow("32000bps"));
    assert!(slow("0kbps").contains("--rate 0kbps: nothing"), "{}", slow("0kbps"));
}

#[test]
fn a_taken_device_and_missing_rights_are_one_line() {
    let ns = match Netns::create() {
        Ok(ns) => ns,
        Err(LabError::NotPossible { what, remedy }) => {
            assert!(std::env::var_os("CI").is_none(), "{what}; {remedy}");
            eprintln!("skipped: {what}; run 'sudo -E cargo test -p weftline-cli --test cotag'");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let up = ns.command("ip").args(["link", "set", "lo", "up"]).status().unwrap();
    assert!(up.success());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.key");
    let key = text(&file);
    assert!(run(&["cotag", "key", key]).status.success());
    let ap = format!("a={OTHER}");
    let args = gateway(key, "cgtaken", &ap);
    let program = weftline(&[]).get_program().to_owned();
    let mut daemon = Daemon::spawn(ns.command(&program).args(&args));
    daemon.says("listening on");
    let mtu = daemon.says("device cgtaken with packets of up to");
    assert!(mtu.starts_with("1344"), "{mtu}");
    let second = ns.command(&program).args(&args).output().unwrap();
    let said = one_line(2, &second, &args);
    assert!(said.contains("there is an interface 'cgtaken' already"), "{said}");
    // A node whose interface somebody deletes ends, and says so.
    let deleted = ns.command("ip").args(["link", "delete", "cgtaken"]).status().unwrap();
    assert!(deleted.success());
    daemon.logs("the interface cgtaken was deleted; start the node again");
    assert_eq!(daemon.end().0, Some(1));
    // Whoever is not root.
    const NOBODY: u32 = 65_534;
    let mut open = std::fs::metadata(dir.path()).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut open, 0o755);
    std::fs::set_permissions(dir.path(), open).unwrap();
    chown(&file, Some(NOBODY), Some(NOBODY)).unwrap();
    let args = gateway(key, "cgnobody", &ap);
    let output = weftline(&args).uid(NOBODY).gid(NOBODY).output().unwrap();
    let said = one_line(3, &output, &args);
    assert!(said.contains("is not permitted; run as root"), "{said}");
}

/// A namespace, or `None` where the tests may make none.
fn namespace() -> Option<Netns> {
    match Netns::create() {
        Ok(ns) => Some(ns),
        Err(LabError::NotPossible { what, remedy }) => {
            assert!(std::env::var_os("CI").is_none(), "{what}; {remedy}");
            eprintln!("skipped: {what}; run 'sudo -E cargo test -p weftline-cli --test cotag'");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_node_says_how_it_is() {
    let Some(ns) = namespace() else { return };
    assert!(ns.command("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let dir = tempfile::tempdir().unwrap();
    let (file, socket) = (dir.path().join("node.key"), dir.path().join("node.sock"));
    let key = text(&file);
    assert!(run(&["cotag", "key", key]).status.success());
    let ap = format!("a={OTHER},rate=300Mbps");
    let mut args = gateway(key, "cgstatus", &ap);
    args.extend(["--control", text(&socket)]);
    let program = weftline(&[]).get_program().to_owned();
    let mut daemon = Daemon::spawn(ns.command(&program).args(&args));
    daemon.says("listening on");
    daemon.says("device cgstatus");
    // It says how it is some moments after it is there, and rates when both looks came after that.
    let ask = |more: &[&str], rates: &str| {
        let start = std::time::Instant::now();
        loop {
            let output = run(&[&["status", "--control", text(&socket)], more].concat());
            let said = text_of(&output.stdout);
            if output.status.success() && said.contains(rates) {
                return said;
            }
            assert!(start.elapsed() < PATIENCE, "{output:?}");
        }
    };
    let said = ask(&[], " 0.0Mbps");
    assert!(said.starts_with("weftline cotag gateway "), "{said}");
    let row: Vec<_> =
        said.lines().find(|line| line.starts_with(" a ")).unwrap().split_whitespace().collect();
    let wanted = ["a", "down", "-", "-", "-", "300.0Mbps", "0.0Mbps", "0.0Mbps", "0B", "0B"];
    assert_eq!(row, wanted, "{said}");
    assert!(said.contains("\n device  down   -") && said.contains("waiting: 0 packets"), "{said}");
    let json: serde_json::Value =
        serde_json::from_str(&ask(&["--json"], "\"send_mbps\":0.0")).unwrap();
    assert_eq!(json["node"]["role"], "gateway");
    assert_eq!(json["node"]["links"][0]["rtt_ms"], serde_json::Value::Null);
    assert_eq!(json["node"]["counters"]["packets_received"], 0);
    daemon.signal("-TERM");
    assert_eq!(daemon.end().0, Some(0));
    assert!(!socket.exists(), "its control socket is gone with it");
}
