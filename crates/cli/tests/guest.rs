//! Schemes that run in a guest with another kernel: what is missing is said before anything runs, and a
//! guest that fails is a failed run. A program of a few lines stands in for QEMU here; the real one, with
//! a real kernel, is in `make test-lab`.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use common::{PATIENCE, run, run_alone, weftline};
use weftline_judged::verdict;
use weftline_scenario::RunRecord;

/// A run of a tenth of a second.
const RUN: [&str; 9] =
    ["lab", "run", "bond", "--duration", "100ms", "--warmup", "0s", "--json", "--scheme"];

/// A command that finds no image but what a test puts into `home`.
fn in_home(home: &Path, args: &[&str]) -> Command {
    let mut command = weftline(args);
    command.env("HOME", home).env_remove("WEFTLINE_KERNEL").env_remove("WEFTLINE_KERNEL_CACHE");
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn without_an_image_it_is_said_how_to_build_one() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out");
    for (variable, words) in [
        ("", "there is no patched kernel for guests in "),
        ("WEFTLINE_KERNEL_CACHE", "there is no patched kernel for guests in /nonesuch;"),
        ("WEFTLINE_KERNEL", "WEFTLINE_KERNEL: /nonesuch cannot be read"),
    ] {
        let run = [&RUN[..], &["single:dsl,linux-fbdt", "--out", out.to_str().unwrap()]].concat();
        let mut command = in_home(home.path(), &run);
        // So that QEMU is not what is missing first.
        with_qemu(&mut command, home.path(), "exit 9");
        if !variable.is_empty() {
            command.env(variable, "/nonesuch");
        }
        let output = command.output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(words) && said.contains("'kernel/build'"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!out.exists(), "nothing was begun");
    }
}

#[test]
fn what_a_guest_cannot_run_is_refused() {
    let home = tempfile::tempdir().unwrap();
    for (args, words) in [
        (
            &["--workload", "iperf3"][..],
            "scheme 'linux-forward': its guest has the lab's own sender",
        ),
        (&["--workload", "vlc"], "scheme 'linux-forward': its guest has the lab's own sender"),
        (&["--congestion", "lia"], "its guest has no congestion control 'lia'; give --congestion"),
        (&["--tls"], "--tls encrypts weftline's connections, and none of these schemes has any"),
        (&["--cut", "lan@1s..2s"], "--cut: the scenario has no path 'lan'; it has dsl, lte"),
    ] {
        let run = [&RUN[..], &["linux-forward"], args].concat();
        let output = in_home(home.path(), &run).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(words), "{}", said(&output));
    }
    let output = run(&["sim", "run", "bond", "--scheme", "linux-default"]);
    assert_eq!(output.status.code(), Some(2));
    let words =
        "the simulator has no scheme 'linux-default': it is the scheduler default of a real";
    assert!(said(&output).contains(words), "{}", said(&output));
    let output = run(&["lab-guest"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("this is for a guest's kernel"), "{}", said(&output));
}

/// Lets `command` find a script in place of QEMU, and any program in place of `ip`, which goes into the guest
/// and is run by none here: the machine may have no iproute2.
fn with_qemu(command: &mut Command, dir: &Path, script: &str) {
    let ip = dir.join("ip");
    if !ip.exists() {
        fs::copy("/bin/true", &ip).unwrap();
    }
    let qemu = dir.join("qemu-system-x86_64");
    fs::write(&qemu, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(dir.to_owned()).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(paths).unwrap());
}

/// A command that would boot a guest, and does what the script says instead.
fn faked(dir: &Path, script: &str, args: &[&str]) -> Command {
    // What of a kernel is looked at before it is booted: its header.
    let mut image = vec![0; 0x300];
    image[0x1fe..0x200].copy_from_slice(b"\x55\xaa");
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x20e] = 0x80;
    image[0x280..0x28a].copy_from_slice(b"6.12.0 (x)");
    let kernel = dir.join("kernel");
    fs::write(&kernel, image).unwrap();
    let mut command = in_home(dir, args);
    command.env("WEFTLINE_KERNEL", kernel);
    with_qemu(&mut command, dir, script);
    command
}

#[test]
fn a_guest_that_fails_is_a_failed_run() {
    let dir = tempfile::tempdir().unwrap();
    let run = [&RUN[..], &["linux-fbdt"]].concat();
    for (script, error) in [
        (
            "echo 'no such machine' >&2; exit 1",
            "it ended before it was through (exit status 1); its console: no such",
        ),
        (
            "echo 'Kernel panic - not syncing: x' >&2; echo more >&2",
            "(exit status 0); its console: Kernel panic",
        ),
        ("echo garbage; exec sleep 1000", "the guest: it said what cannot be read: 'garbage'"),
        ("printf '\\377\\n'; exec sleep 1000", "it said what cannot be read: '\u{fffd}'"),
        ("exec >&-; exec sleep 1000", "the guest: it closed its port and went on"),
        ("kill -9 $$", "it ended before it was through (killed by signal 9)"),
        ("printf '{\"failed\":\"\\\\u001b[2Jx\"}\\n'; exec sleep 1000", "the guest: \\u{1b}[2Jx"),
        ("echo '\"end\"'; exec sleep 1000", "the guest: it ended without a record"),
        (
            "echo '{\"at\":200}'; echo '{\"failed\":\"no TUN\"}'; exec sleep 1000",
            "the guest: no TUN",
        ),
        ("yes '{\"at\":1}'", "the guest: it said more than a run has to say"),
        ("head -c 3000000 /dev/zero | tr '\\0' x; echo", "it said more than a run has to say"),
    ] {
        let output = run_alone(&mut faked(dir.path(), script, &run));
        assert_eq!(output.status.code(), Some(1), "{script}: {}", said(&output));
        let line = String::from_utf8(output.stdout).unwrap();
        let record: RunRecord = serde_json::from_str(&line).unwrap();
        assert_eq!((record.scheme.as_str(), record.completed), ("linux-fbdt", false));
        let why = record.error.unwrap();
        assert!(why.contains(error) && why.len() < 400, "{script}: {why}");
        assert!(record.guest_kernel.is_none() && record.goodput_mbps.is_none());
        // What has said nothing may never have booted.
        let has_remedy = why.ends_with("kernel does not boot, 'kernel/build' makes one that does");
        assert_eq!(has_remedy, why.contains("ended before") || why.contains("port"), "{why}");
    }
}

/// A kernel that warns ends the run, whatever it says after that: it is told so.
#[test]
fn a_guests_kernel_ends_at_its_first_warning() {
    let dir = tempfile::tempdir().unwrap();
    let run = [&RUN[..], &["linux-fbdt"]].concat();
    let said = dir.path().join("said");
    let script = format!("printf '%s\\n' \"$@\" >{}", said.display());
    assert_eq!(run_alone(&mut faked(dir.path(), &script, &run)).status.code(), Some(1));
    let args = fs::read_to_string(said).unwrap();
    let line = args.lines().skip_while(|arg| *arg != "-append").nth(1).unwrap();
    // Before the dashes: what is behind them is for the first process.
    let (kernel, program) = line.split_once(" -- ").unwrap();
    let has = |word: &str| kernel.split(' ').any(|own| own == word);
    for word in ["panic_on_warn=1", "oops=panic", "panic=-1", "LD_LIBRARY_PATH=/lib"] {
        assert!(has(word), "{word}: {line}");
    }
    assert!(args.lines().any(|arg| arg == "-no-reboot"), "a panic must end the guest: {args}");
    assert_eq!(program, "lab-guest");
}

#[test]
fn a_guest_ends_with_whoever_started_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = [&RUN[..], &["linux-fbdt"]].concat();
    for signal in ["INT", "TERM", "KILL"] {
        let number = dir.path().join(signal);
        let script = format!("echo $$ >{}.new; mv {0}.new {0}; exec sleep 1000", number.display());
        let mut lab = faked(dir.path(), &script, &run).spawn().unwrap();
        let guest = wait_for(|| fs::read_to_string(&number).ok());
        let runs = || is_running(guest.trim());
        assert!(runs());
        let status = Command::new("kill").args(["-s", signal, &lab.id().to_string()]).status();
        assert!(status.unwrap().success());
        assert!(!lab.wait().unwrap().success());
        wait_for(|| (!runs()).then_some(()));
    }
    let left = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 6, "the numbers, the kernel, the script and ip, and nothing else");
}

/// Whether a process runs (a zombie does not).
fn is_running(process: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

fn wait_for<T>(mut there: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(it) = there() {
            return it;
        }
        assert!(Instant::now() < until, "waited too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// In a guest of the real kernel, which is emulated and takes a minute of processor time: on every
/// machine with an image for it.
#[test]
#[ignore = "boots a kernel: make test-lab"]
fn each_scheduler_of_the_kernel_carries_data() {
    verdict("each scheduler of the patched kernel carries data", |_| {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().to_str().unwrap();
        let schemes = "linux-default,linux-forward,linux-fbdt";
        let args = ["lab", "run", "bond", "--duration", "2s", "--warmup", "0s", "--json"];
        let run = [&args[..], &["--scheme", schemes, "--out", out]].concat();
        let output = common::run(&run);
        if output.status.code() == Some(3) {
            eprintln!("skipped: {}", said(&output));
            return None;
        }
        assert!(output.status.success(), "{}", said(&output));
        let records: Vec<RunRecord> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(records.iter().map(|record| record.scheme.as_str()).eq(schemes.split(',')));
        for record in &records {
            assert!(record.counts() && record.bytes_delivered.unwrap() > 0, "{record:?}");
            assert!(record.guest_kernel.is_some(), "{record:?}");
            let carry = |path: &weftline_scenario::PathRecord| path.bytes_sent.unwrap() > 0;
            assert!(record.paths.iter().all(carry), "{record:?}");
        }
        let series = fs::read_to_string(dir.path().join("series.csv")).unwrap();
        assert!(series.lines().count() > 3 * 20, "a row for each 100 ms of each run");
        Some(())
    });
}
