//! `weftline congestion`: what is loaded is there for every program while its holder lives, and
//! never longer.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};

use common::{Daemon, alone, dial, failure, one_line, run, until};
use socket2::SockRef;
use weftline_bpf::{Control, IS_BUILT};

/// Whether controls can be loaded here; if not, says how to run the test. In CI they can.
fn possible() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !(IS_BUILT && root) {
        assert!(std::env::var_os("CI").is_none(), "built with BPF: {IS_BUILT}, root: {root}");
        eprintln!("skipped; run 'sudo -E cargo test -p weftline-cli --features bpf'");
    }
    IS_BUILT && root
}

fn control(name: &str) -> Control {
    Control::find(name).unwrap()
}

/// A process that holds controls, which it has loaded.
fn holder(names: &[&str]) -> Daemon {
    let mut daemon = Daemon::start(&[&["congestion", "load"], names].concat());
    for name in names {
        daemon.says(&format!("weft_{name} is loaded"));
    }
    daemon
}

fn list() -> String {
    let output = run(&["congestion", "list"]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn names_are_checked_wherever_it_runs() {
    let line = failure(2, &["congestion", "load", "warp"]);
    assert!(line.contains("'warp'") && line.contains("compound, lia, olia and balia"), "{line}");
    assert!(list().lines().any(|line| line.starts_with("weft_lia ")));
}

#[test]
fn a_build_without_bpf_says_so() {
    if IS_BUILT {
        return;
    }
    for args in [&["congestion", "load", "lia"][..], &["congestion", "unload", "lia"]] {
        assert!(failure(3, args).contains("--features bpf"));
    }
}

#[test]
fn it_is_there_while_its_holder_lives() {
    let _alone = alone();
    if !possible() {
        return;
    }
    let holder = holder(&["lia", "olia"]);
    let text = list();
    let held = format!("loaded by process {}", holder.id());
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("weft_lia").contains(&held) && line("weft_olia").contains(&held), "{text}");
    assert!(line("weft_balia").contains("not loaded"), "{text}");

    let line = failure(1, &["congestion", "load", "olia"]);
    let told = format!("weft_olia is loaded already (by process {})", holder.id());
    assert!(line.contains(&told), "{line}");
    assert!(control("lia").is_loaded() && control("olia").is_loaded());

    // A program as any other gets it by its name in the kernel, and keeps it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = SockRef::from(&listener);
    socket.set_tcp_congestion(b"weft_lia").unwrap();
    let kept = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    SockRef::from(&kept).set_tcp_congestion(b"weft_olia").unwrap();

    holder.signal("-KILL");
    assert_eq!(holder.end().0, None);
    // The kernel closes what the process held.
    for name in ["lia", "olia"] {
        until("the kernel lets it go", || !control(name).is_loaded());
    }
    let (mut peer, _) = listener.accept().unwrap();
    std::io::Write::write_all(&mut &kept, &[7; 5000]).unwrap();
    std::io::Read::read_exact(&mut peer, &mut [0; 5000]).unwrap();
}

#[test]
fn unloading_ends_the_holder_that_has_no_more() {
    let _alone = alone();
    if !possible() {
        return;
    }
    let first = holder(&["compound", "balia"]);
    assert!(run(&["congestion", "unload", "balia"]).status.success());
    assert!(control("compound").is_loaded() && !control("balia").is_loaded());
    let second = holder(&["balia"]);
    let output = run(&["congestion", "unload"]);
    assert_eq!(output.stdout, b"weft_compound is unloaded\nweft_balia is unloaded\n", "{output:?}");
    for holder in [first, second] {
        assert_eq!(holder.end().0, Some(0));
    }
    let line = failure(1, &["congestion", "unload", "balia"]);
    assert!(line.contains("weft_balia is not loaded"), "{line}");

    let third = holder(&["lia"]);
    third.signal("-TERM");
    assert_eq!(third.end().0, Some(0));
    assert!(!control("lia").is_loaded());
}

/// The program, where everybody may start it, behind the words of `wrapper`.
fn wrapped(wrapper: &[&str], args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("weftline");
    std::fs::copy(assert_cmd::cargo::cargo_bin!("weftline"), &program).unwrap();
    let all = |path: &std::path::Path| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).unwrap();
    };
    all(dir.path());
    all(&program);
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).arg(program).args(args).output().unwrap()
}

#[test]
fn what_stands_in_the_way_is_named() {
    let _alone = alone();
    if !possible() {
        return;
    }
    let load = ["congestion", "load", "lia"];
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let line = one_line(3, &wrapped(&nobody, &load), &load);
    assert!(line.contains("loading weft_lia is not permitted; run as root"), "{line}");
    let fingerprint = format!("sha256:{}", "00".repeat(32));
    let connect = [
        &["connect", "--listen", "127.0.0.1:0", "--server", "127.0.0.1:1"][..],
        &["--path", "one=127.0.0.1", "--congestion", "lia", "--fingerprint", &fingerprint],
    ]
    .concat();
    let line = one_line(3, &wrapped(&nobody, &connect), &connect);
    assert!(line.contains("not permitted"), "{line}");
    let hidden = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" \"$@\"";
    let line = one_line(3, &wrapped(&["unshare", "-m", "sh", "-c", hidden], &load), &load);
    assert!(line.contains("CONFIG_DEBUG_INFO_BTF"), "{line}");
    assert!(!control("lia").is_loaded());

    // Where somebody else has loaded it anybody may use it, but not couple what is his.
    let holder = holder(&["lia"]);
    let line = one_line(3, &wrapped(&nobody, &connect), &connect);
    assert!(line.contains("coupling sockets under weft_lia is not permitted"), "{line}");
    drop(holder);
}

#[test]
fn a_server_loads_what_its_clients_ask_for() {
    let _alone = alone();
    if !possible() {
        return;
    }
    let plain = ["--insecure-plaintext", "--control", "none"];
    let serve = ["serve", "--listen", "127.0.0.1:0", "--congestion", "balia", "--forward"];
    let target: SocketAddr = common::echo();
    let target = target.to_string();
    let mut server = Daemon::start(&[&serve[..], &[&target], &plain].concat());
    let address = server.listening().to_string();
    assert_eq!(control("balia").holder(), Some(server.id()));
    let paths = ["--path", "one=127.0.0.1", "two=127.0.0.2", "--listen", "127.0.0.1:0"];
    let connect = ["connect", "--congestion", "balia", "--server", &address];
    let mut client = Daemon::start(&[&connect[..], &paths, &plain].concat());
    let mut stream = dial(client.listening());
    std::io::Write::write_all(&mut stream, &[7; 100_000]).unwrap();
    std::io::Read::read_exact(&mut stream, &mut [0; 100_000]).unwrap();
    drop((client, server));
    until("the kernel lets it go", || !control("balia").is_loaded());
}
