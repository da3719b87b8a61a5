//! Nothing is left behind, however a run ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{PATIENCE, alone, link, path, world};
use weftline_lab::emulator::Start;

const LONG: &str = r#"
name = "long"
duration = "10m"

[[path]]
name = "onlypath"
rate = "10Mbps"
delay = "1ms"
"#;

/// The children of each process, and their children.
fn descendants(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|pid| pid.parse().ok())
        .collect();
    let grandchildren: Vec<u32> = children.iter().flat_map(|&child| descendants(child)).collect();
    children.into_iter().chain(grandchildren).collect()
}

/// The network namespaces that a process is in or holds open, by inode.
fn held_by(pid: u32) -> BTreeSet<u64> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let links = open.map(|fd| fd.path()).chain([process.join("ns/net")]);
    let inode = |link| {
        let target = fs::read_link(link).ok()?;
        let target = target.to_string_lossy();
        target.strip_prefix("net:[")?.strip_suffix(']')?.parse::<u64>().ok()
    };
    links.filter_map(inode).collect()
}

/// The network namespaces of all processes. Others on this machine may come and go meanwhile.
fn namespaces() -> BTreeSet<u64> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    pids.flat_map(held_by).collect()
}

/// Waits until `done` says so.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A run under way: the program, its descendants and the namespaces that came with it.
struct Running {
    program: Child,
    children: Vec<u32>,
    namespaces: Vec<u64>,
}

fn start_run() -> Option<Running> {
    // The same rights are needed as for any world.
    drop(world(vec![path("a", link(10, 1), link(10, 1))], Start::Explicit)?);
    let dir = tempfile::tempdir().unwrap();
    let scenario = dir.path().join("long.toml");
    fs::File::create(&scenario).unwrap().write_all(LONG.as_bytes()).unwrap();
    let before = held_by(std::process::id());
    let program = PathBuf::from(env!("CARGO_BIN_EXE_weftline-lab-test"));
    let mut program = Command::new(program)
        .arg("run")
        .arg(&scenario)
        .arg("single:onlypath")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut children, mut namespaces) = (Vec::new(), Vec::new());
    wait_for("sender and receiver start", || {
        assert!(program.try_wait().unwrap().is_none(), "the run goes on");
        children = descendants(program.id());
        let all = children.iter().copied().chain([program.id()]);
        let held: BTreeSet<u64> = all.flat_map(held_by).collect();
        namespaces = held.difference(&before).copied().collect();
        children.len() == 2 && namespaces.len() == 2
    });
    Some(Running { program, children, namespaces })
}

/// Whether a process runs (a zombie does not).
fn runs(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Devices live in namespaces: with the last holder of the namespace gone, so are they.
fn check_gone(run: &Running) {
    for &child in &run.children {
        wait_for("the children die", || !runs(child));
    }
    wait_for("the namespaces go", || {
        let left = namespaces();
        run.namespaces.iter().all(|ns| !left.contains(ns))
    });
    assert!(!fs::exists("/sys/class/net/onlypath").unwrap(), "no device came to the host");
}

#[test]
fn a_killed_run_leaves_nothing() {
    let _alone = alone();
    let Some(mut run) = start_run() else { return };
    signal(run.program.id(), Signal::KILL);
    run.program.wait().unwrap();
    check_gone(&run);
}

#[test]
fn an_interrupted_run_ends_cleanly() {
    let _alone = alone();
    for asked in [Signal::TERM, Signal::INT] {
        let Some(mut run) = start_run() else { return };
        signal(run.program.id(), asked);
        let status = run.program.wait().unwrap();
        assert_eq!(status.code(), Some(1), "{asked:?}: {status}");
        // It has reaped its children before it ended: none is left even for a moment.
        assert!(run.children.iter().all(|&child| !runs(child)));
        check_gone(&run);
    }
}

#[test]
fn a_world_that_is_dropped_is_gone() {
    let _alone = alone();
    let before = held_by(std::process::id());
    let paths = vec![path("a", link(10, 1), link(10, 1)), path("b", link(10, 1), link(10, 1))];
    let Some(testbed) = world(paths, Start::Explicit) else { return };
    assert_eq!(held_by(std::process::id()).difference(&before).count(), 2);
    drop(testbed);
    assert_eq!(held_by(std::process::id()).difference(&before).count(), 0);
}
