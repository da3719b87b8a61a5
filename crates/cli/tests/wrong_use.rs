//! Everything a user can get wrong: one line that names it, and the exit status.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Instant;

use common::{PATIENCE, WAITING, failure, one_line, refusing, run, serve, weftline};

/// A fingerprint that no server has.
const NOBODY: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// `connect` with everything right but what `args` change or add.
fn connect<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["connect", "--listen", "127.0.0.1:0"];
    let default =
        [("--server", "127.0.0.1:1"), ("--path", "one=127.0.0.1"), ("--fingerprint", NOBODY)];
    for (option, value) in default {
        let trust = option == "--fingerprint"
            && args.iter().any(|arg| ["--ca", "--insecure-plaintext"].contains(arg));
        if !args.contains(&option) && !trust {
            all.extend([option, value]);
        }
    }
    all.extend(args);
    all
}

#[test]
fn version_and_help_are_answers() {
    let version = run(&["--version"]);
    assert!(version.status.success());
    assert_eq!(version.stdout, format!("weftline {}\n", env!("WEFTLINE_VERSION")).as_bytes());
    for args in [&["--help"][..], &["serve", "--help"], &["connect", "--help"], &["lab", "--help"]]
    {
        let help = run(args);
        assert!(help.status.success() && help.stderr.is_empty(), "{args:?}");
        assert!(String::from_utf8(help.stdout).unwrap().contains("Usage: weftline"), "{args:?}");
    }
}

#[test]
fn wrong_arguments_are_one_line() {
    for (args, message) in [
        (&["fly"][..], "unrecognized subcommand 'fly'"),
        (&["serve", "--lisen", "x"], "unexpected argument '--lisen'"),
        (&["serve", "--listen", "nowhere"], "invalid value 'nowhere' for '--listen <ADDR>...'"),
        (&["serve", "--listen", "24433"], "an address has a port, such as 127.0.0.1:8080"),
        (&["connect", "--schedler", "fbdt"], "a similar argument exists: '--scheduler'"),
        (&["serv"], "a similar subcommand exists: 'serve'"),
        (&["list", "dinosaurs"], "possible values: schedulers, congestion, scenarios, schemes"),
        (&["serve"], "give --listen ADDR; and --forward ADDR"),
        (
            &["connect", "--server", "127.0.0.1:1"],
            "nowhere to take connections, no path given; give",
        ),
        (&["serve", "--listen", "127.0.0.1:0"], "give --forward ADDR"),
        (
            &["serve", "--listen", "0.0.0.0:4433", "127.0.0.1:4433", "--forward", "127.0.0.1:1"],
            "0.0.0.0:4433 has 127.0.0.1:4433 in it; leave out one of them",
        ),
        (
            &["sim", "run", "bond", "--seed", "-1"],
            "'--seed <N>': give a whole number without a sign",
        ),
        (&["sim", "sweep", "mptcp-players", "--jobs", "0"], "'--jobs <N>': give 1 or more"),
        (&["sim", "run", "bond", "--tls"], "TLS is of 'weftline lab run'"),
        (&["sim", "run", "bond", "--cut", "dsl@3s..4s"], "cuts are of 'weftline lab run'"),
        (&["serve", "--listen", "127.0.0.1:0", "--socks"], "give --token-file or --client-ca"),
        (&["serve", "--listen", "127.0.0.1:0", "--forward", "here"], "'here' is no server address"),
        (&["connect"], "give --listen ADDR"),
        (&["connect", "--listen", "127.0.0.1:0"], "give --server ADDR"),
        (&["report"], "required arguments were not provided: <DIR>"),
    ] {
        let line = failure(2, args);
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn wrong_paths_and_names_are_listed_with_the_right_ones() {
    for (args, message) in [
        (&["--path", "wlan0"][..], "'wlan0' is no path; write NAME=INTERFACE or NAME=ADDRESS"),
        (&["--path", "a=nosuch0"], "unknown interface 'nosuch0' (there are: "),
        (&["--path", "a=192.0.2.77"], "no local address 192.0.2.77 (there are: 127.0.0.1"),
        (&["--path", "a=127.0.0.1", "a=127.0.0.2"], "two paths are called 'a'"),
        (&["--server", "a:1", "b:1"], "2 server addresses for 1 paths"),
        (&["--server", "nowhere"], "'nowhere' is no server address; write host:port"),
        (&["--scheduler", "fastest"], "unknown scheduler 'fastest' (known: fbdt, "),
        (&["--scheduler", "musher"], "'musher' needs exactly 2 paths and there are 1"),
        (&["--congestion", "warp"], "unknown congestion control 'warp' (this kernel has: "),
        (&["--forward-path", "two"], "no path is called 'two'"),
        (&["--socks", "127.0.0.1:0"], "cannot be used with"),
        (&["--window", "much"], "--window: 'much' is no size"),
        (&["--window", "0B"], "a window is 1448B to 1GiB, 0B is not"),
        (
            &["--window", "2MiB"],
            "'earliest' has no transmission window; leave that out, or use one that has: fbdt,",
        ),
        (
            &["--scheduler", "ecf", "--latency", "50ms"],
            "'ecf' has no aim for the latency; leave that out",
        ),
        (&["--max-memory", "0B"], "a connection's memory is 256KiB to 64GiB, 0B is not"),
        (
            &["--max-total-memory", "1KiB"],
            "--max-total-memory: 1KiB of memory in all is too little",
        ),
        (&["--socks-users", "/nonexistent"], "users file /nonexistent: No such file"),
        (&["--grace", "soon"], "--grace: 'soon' is no duration"),
        (&["--ready", "1000"], "--ready: at most 64"),
        (&["--fingerprint", "sha256:12"], "'sha256:12' is no fingerprint"),
        (&["--ca", "/nonexistent.pem"], "/nonexistent.pem: No such file"),
    ] {
        let line = failure(2, &connect(args));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn a_client_must_know_its_server() {
    let args = ["connect", "--listen", "127.0.0.1:0", "--server", "127.0.0.1:1"];
    let line = failure(2, &[&args[..], &["--path", "one=127.0.0.1"]].concat());
    assert!(line.ends_with("authority (--fingerprint sha256:… or --ca FILE)"), "{line}");
}

#[test]
fn an_unreachable_server_is_named() {
    let (_held, closed) = refusing();
    let closed = closed.to_string();
    let line = failure(1, &connect(&["--server", &closed]));
    let message = format!("cannot reach the server {closed} via 127.0.0.1: Connection refused");
    assert!(line.contains(&message), "{line}");
    let line = failure(1, &connect(&["--server", "no-such-host.invalid:1"]));
    assert!(line.contains("cannot resolve the server name 'no-such-host.invalid'"), "{line}");
}

#[test]
fn the_wrong_server_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let (_server, address, fingerprint) = serve(state.path(), "127.0.0.1:1".parse().unwrap());
    let address = address.to_string();
    // Where this machine stands still, a handshake takes longer than it may.
    let began = Instant::now();
    let refused = |args: &[&str]| loop {
        let line = failure(1, &connect(args));
        if !line.contains("did not finish the handshake within") {
            return line;
        }
        assert!(began.elapsed() < PATIENCE, "{line}");
    };
    let line = refused(&["--server", &address]);
    assert!(line.contains(&format!("has the fingerprint {fingerprint}, not {NOBODY}")), "{line}");
    let line = refused(&["--server", &address, "--insecure-plaintext"]);
    assert!(
        line.ends_with(
            "wants TLS, and this end came in plaintext (leave out --insecure-plaintext)"
        ),
        "{line}"
    );
}

#[test]
fn a_taken_port_is_named() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    let state = tempfile::tempdir().unwrap();
    let state = state.path().to_str().unwrap();
    let serve = ["serve", "--listen", &address, "--forward", "127.0.0.1:1", "--state-dir", state];
    let message = format!("weftline: {address} is in use by another program; choose another port");
    assert!(failure(1, &serve).starts_with(&message));
    let mut client = vec!["connect", "--listen", &address];
    client.extend(&connect(&[])[3..]);
    assert!(failure(1, &client).starts_with(&message));
    let foreign = failure(
        2,
        &["serve", "--listen", "192.0.2.77:1", "--forward", "127.0.0.1:1", "--state-dir", state],
    );
    assert!(foreign.contains("no local address 192.0.2.77"), "{foreign}");
}

#[test]
fn certificates_tokens_and_directories_that_do_not_work_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (short, empty) = (file("short", "secret"), file("empty.pem", ""));
    let twice = file("twice", "a: 0123456789abcdef\nb: 0123456789abcdef\n");
    let state = dir.path().to_str().unwrap();
    for (status, args, message) in [
        (2, vec!["--cert", &empty], "--cert and --key belong together; give both"),
        (2, vec!["--cert", &empty, "--key", &empty], "no private key in it (PEM expected)"),
        (2, vec!["--token-file", &short, "--state-dir", state], "a token needs 16 characters"),
        (
            2,
            vec!["--token-file", "/nonexistent", "--state-dir", state],
            "/nonexistent: No such file",
        ),
        (1, vec!["--state-dir", "/proc/nowhere"], "cannot keep the server's certificate in /proc/"),
        (
            2,
            vec!["--client-ca", &empty, "--state-dir", state],
            "no certificate in it (PEM expected)",
        ),
        (
            2,
            vec!["--max-memory", "1024GiB", "--state-dir", state],
            "256KiB to 64GiB, 1024GiB is not",
        ),
        (2, vec!["--token-file", &twice, "--state-dir", state], "line 2: the same secret as"),
        (2, vec!["--insecure-plaintext", "--client-ca", &empty], "cannot be used with"),
        (
            2,
            vec!["--congestion", "cubic,warp", "--state-dir", state],
            "unknown congestion control 'warp' (this kernel has: ",
        ),
        (
            2,
            vec!["--allow-congestion", "reno,warp", "--state-dir", state],
            "unknown congestion control 'warp' (this kernel has: ",
        ),
        (
            2,
            vec!["--allow-congestion", "auto", "--state-dir", state],
            "--allow-congestion: auto is always allowed",
        ),
    ] {
        let all = [&["serve", "--listen", "127.0.0.1:0", "--forward", "127.0.0.1:1"], &args[..]];
        let line = failure(status, &all.concat());
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn a_configuration_file_is_checked_line_by_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weftline.toml");
    let path = path.to_str().unwrap();
    for (text, message) in [
        ("listen = [\"127.0.0.1:0\"]\nfoward = \"x\"\n", "line 2: unknown field `foward`"),
        ("listen = 7\n", "line 1: invalid type"),
        ("grace = 30\n", "expected a string (key 'grace')"),
        ("listen = '0.0.0.0'\n", "invalid socket address"),
        ("listen = [", "line 1: "),
    ] {
        fs::write(path, text).unwrap();
        let line = failure(2, &["serve", "--config", path]);
        assert!(
            line.starts_with(&format!("weftline: {path}: ")) && line.contains(message),
            "{line}"
        );
    }
    let line = failure(2, &["connect", "--config", "/nonexistent.toml"]);
    assert!(line.contains("/nonexistent.toml: No such file"), "{line}");
}

/// What the options refuse, a file must not bring about: a server with these settings was a proxy
/// for everybody.
#[test]
fn settings_that_exclude_each_other_do_so_in_a_file_and_beside_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weftline.toml");
    let path = path.to_str().unwrap();
    let serve = &["serve", "--listen", "127.0.0.1:0", "--config", path][..];
    let connect = &["connect", "--listen", "127.0.0.1:0", "--config", path][..];
    let server = "server = ['127.0.0.1:1']\npath = ['one=127.0.0.1']\n";
    for (command, text, more, message) in [
        (
            serve,
            "insecure-plaintext = true\nclient-ca = '/ca.pem'\nsocks = true\n",
            &[][..],
            "--insecure-plaintext cannot be used with --client-ca",
        ),
        (
            serve,
            "client-ca = '/ca.pem'\nsocks = true\n",
            &["--insecure-plaintext"],
            "--insecure-plaintext cannot be used with --client-ca",
        ),
        (
            serve,
            "insecure-plaintext = true\nforward = '127.0.0.1:1'\n",
            &["--cert", "/cert.pem", "--key", "/key.pem"],
            "--insecure-plaintext cannot be used with --cert",
        ),
        (
            serve,
            "insecure-plaintext = true\nsocks = true\n",
            &[],
            "give --token-file or --client-ca",
        ),
        (serve, "insecure-plaintext = true\n", &["--socks"], "give --token-file or --client-ca"),
        (serve, "socks = true\nforward = '127.0.0.1:1'\n", &[], "--forward and --socks exclude"),
        (
            connect,
            "insecure-plaintext = true\nca = '/ca.pem'\n",
            &[],
            "--insecure-plaintext cannot be used with --ca",
        ),
        (
            connect,
            "cert = '/cert.pem'\nkey = '/key.pem'\n",
            &["--insecure-plaintext"],
            "--insecure-plaintext cannot be used with --cert",
        ),
        (
            connect,
            "fingerprint = 'sha256:00'\nca = '/ca.pem'\n",
            &[],
            "--fingerprint cannot be used with --ca",
        ),
        (
            connect,
            "server-name = 'a'\nfingerprint = 'sha256:00'\n",
            &[],
            "--server-name is for --ca",
        ),
    ] {
        let text =
            if command[0] == "connect" { format!("{server}{text}") } else { text.to_owned() };
        fs::write(path, &text).unwrap();
        let line = failure(2, &[command, more].concat());
        assert!(line.contains(message), "{text}: {line}");
    }
}

#[test]
fn what_a_list_offers_can_be_had() {
    let said = |args: &[&str]| {
        let output = run(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let lab = said(&["lab", "list"]);
    assert!(lab.contains("demo ") && !lab.contains("tcp-shared") && !lab.contains("cotag-fig5"));
    assert!(said(&["list", "scenarios"]).contains("tcp-shared"));
    assert!(said(&["help", "serve"]).contains("--listen"));
}

#[test]
fn the_lab_names_what_it_does_not_know() {
    for (args, message) in [
        (&["nowhere"][..], "there is no scenario 'nowhere'; known: demo, "),
        (&["demo", "--scheme", "fbdt,warp"], "there is no scheme 'warp'; known: single:<path>"),
        (&["demo", "--scheme", "single:moon"], "there is no path 'moon'; known: wifi, wigig"),
        (&["demo", "--workload", "juggle"], "there is no workload 'juggle'; known: bulk"),
        (&["demo", "--congestion", "warp"], "there is no congestion control 'warp'; known: "),
        (&["demo", "--duration", "5"], "--duration: '5' is no duration"),
        (&["demo", "--duration", "1s", "--warmup", "2s"], "give --warmup or a longer --duration"),
        (
            &["demo", "--duration", "1ms"],
            "--duration: a run of 1ms is out of bounds; it lasts 100ms",
        ),
        (&["demo", "--repeat", "0"], "--repeat: at least 1, at most 100000"),
        (&["demo", "--repeat", "1000000000"], "--repeat: at least 1, at most 100000"),
        (&["demo", "--seed", "18446744073709551615", "--repeat", "2"], "beyond 2^64"),
        (&["demo", "--cut", "wigig"], "'wigig' is no cut; write it like wigig@5s..8s"),
        (&["/nonexistent.toml"], "/nonexistent.toml"),
        (&["tcp-shared", "--scheme", "min-rtt"], "use 'weftline sim run tcp-shared'"),
        (
            &["demo", "--scheme", "min-rtt,ecf", "--without", "copy-late"],
            "min-rtt, ecf have no rule 'copy-late'",
        ),
        (
            &["demo", "--without", "wait-acks"],
            "have no rule 'wait-acks'; leave that out, or use one that has: fbdt-strict",
        ),
    ] {
        let line = failure(2, &[&["lab", "run"], args].concat());
        assert!(line.contains(message), "{line}");
    }
    let dir = tempfile::tempdir().unwrap();
    let scenario = dir.path().join("mine.toml");
    fs::write(&scenario, "name = \"mine\"\nduration = \"5s\"\nspeed = 3\n").unwrap();
    let line = failure(2, &["lab", "run", scenario.to_str().unwrap()]);
    assert!(line.contains("mine.toml"), "{line}");
}

/// Without the rights for a lab this is not possible either.
#[test]
fn the_lab_has_the_kernels_congestion_controls_only() {
    let line = failure(3, &["lab", "run", "demo", "--duration", "100ms", "--congestion", "bbr3"]);
    assert!(line.contains("; "), "what and the remedy: {line}");
}

#[test]
fn a_report_needs_runs() {
    let dir = tempfile::tempdir().unwrap();
    let line = failure(1, &["report", dir.path().to_str().unwrap()]);
    assert!(line.contains("runs.jsonl"), "{line}");
}

#[test]
fn lists_name_what_there_is() {
    for (what, name) in [
        ("schedulers", "fbdt"),
        ("congestion", "cubic"),
        ("scenarios", "demo"),
        ("schemes", "fbdt"),
    ] {
        let output = run(&["list", what]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some(name)), "{text}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut child = weftline(&["list", "scenarios"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

/// Whether we may try what only root can be kept from.
fn is_root() -> bool {
    let id = std::process::Command::new("id").arg("-u").output().unwrap();
    id.stdout.trim_ascii() == b"0"
}

/// Runs the test's command if we are root; otherwise says how.
fn as_root(test: &str) -> bool {
    if is_root() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "{test} must run in CI, as root");
    eprintln!("skipped; run: sudo -E cargo test -p weftline-cli {test}");
    false
}

#[test]
fn without_root_and_without_tun_the_lab_says_what_to_do() {
    if !as_root("without_root_and_without_tun") {
        return;
    }
    let program = assert_cmd::cargo::cargo_bin!("weftline").to_str().unwrap();
    let script =
        format!("mount -t tmpfs none /dev/net && exec {program} lab run demo --duration 3s");
    let args = ["-m", "sh", "-c", &script];
    let output = std::process::Command::new("unshare").args(args).output().unwrap();
    let line = one_line(3, &output, &args);
    assert!(line.contains("/dev/net/tun"), "{line}");
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    if !as_root("a_missing_program_is_named") {
        return;
    }
    let args = ["lab", "run", "demo", "--workload", "iperf3", "--duration", "3s"];
    // A search path that has ip and no iperf3.
    let dir = tempfile::tempdir().unwrap();
    let ip = String::from_utf8(
        std::process::Command::new("sh").args(["-c", "command -v ip"]).output().unwrap().stdout,
    );
    std::os::unix::fs::symlink(ip.unwrap().trim(), dir.path().join("ip")).unwrap();
    let output = weftline(&args).env("PATH", dir.path()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{text}");
    // Before the last line there may be progress.
    let line = text.lines().last().unwrap();
    assert!(line.starts_with("weftline: ") && line.contains("install the package"), "{text}");
}

#[test]
fn a_start_that_takes_long_says_what_it_waits_for() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = silent.local_addr().unwrap().to_string();
    let args = connect(&["--server", &server]);
    let output = run(&args);
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(said.contains(&format!("{WAITING} {server}")), "{said}");
    assert!(one_line(1, &output, &args).contains("handshake"), "{said}");
}
