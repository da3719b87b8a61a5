//! What is made from the command line, and what is shipped beside the program.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Daemon, run, weftline};

fn packaging(what: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(what);
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_command_has_a_manual_page_and_every_shell_its_completions() {
    let dir = tempfile::tempdir().unwrap();
    let man = dir.path().join("man");
    let output = run(&["generate", "man", man.to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    for name in
        ["weftline", "weftline-serve", "weftline-connect", "weftline-status", "weftline-cotag-ap"]
    {
        let page = fs::read_to_string(man.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
    let serve = fs::read_to_string(man.join("weftline-serve.1")).unwrap();
    assert!(serve.contains("\\-\\-drain") && serve.contains("\\-\\-metrics"), "{serve}");
    let hidden = fs::read_dir(&man)
        .unwrap()
        .any(|entry| entry.unwrap().file_name().to_str().unwrap().contains("endpoint"));
    assert!(!hidden, "what the lab starts is no command of users");
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["generate", "completions", shell]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("qlog") && text.contains("max-total-memory"), "{shell}: {text}");
    }
}

#[test]
fn packaged_documents_have_their_pictures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = tempfile::tempdir().unwrap();
    let done = Command::new(root.join("scripts/packaged-docs")).arg(dir.path()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let made = |file: &str| dir.path().join(file).is_file();
    assert!(made("README.md") && made("docs/gallery.md") && made("docs/bond.svg"));
    assert!(made("docs/gallery/fbdt-3b.svg"));
}

/// A dry look for what these tests need beside the program.
fn is_there(program: &str, command: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    if !there {
        assert!(std::env::var_os("CI").is_none(), "{program} is needed in CI");
        eprintln!("skipped: {program} is not installed; by hand: {command}");
    }
    there
}

#[test]
fn the_units_are_valid_and_tight() {
    if !is_there("systemd-analyze", "systemd-analyze verify packaging/systemd/*") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = weftline(&[]);
    let mut services = Vec::new();
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", "--recursive-errors=no"]);
    for unit in packaging("systemd") {
        let text = fs::read_to_string(&unit).unwrap();
        let text = text.replace("/usr/bin/weftline", program.get_program().to_str().unwrap());
        let name = unit.file_name().unwrap().to_str().unwrap().replace('@', "@test");
        let copy = dir.path().join(&name);
        fs::write(&copy, text).unwrap();
        command.arg(&copy);
        if name.ends_with(".service") {
            services.push(copy);
        }
    }
    assert_eq!(services.len(), 8);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    // systemd before 253 does not know the type and says so; everything else must be right.
    let is_of_before =
        |line: &&str| line.ends_with("Failed to parse service type, ignoring: notify-reload");
    let about_ours = |line: &&str| line.contains("weftline");
    let wrong: Vec<&str> =
        said.lines().filter(about_ours).filter(|line| !is_of_before(line)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(output.status.success() || said.lines().any(|line| is_of_before(&line)), "{said}");

    for service in services {
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=yes", "--no-pager", "--threshold=20"]).arg(&service);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "exposed more than 2.0: {text}");
    }
}

#[test]
fn the_examples_are_configurations() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for example in packaging("examples") {
        let name = example.file_name().unwrap().to_str().unwrap().to_owned();
        let kind = name.split('-').next().unwrap();
        // On ports that are free here, and paths that are there.
        let text = fs::read_to_string(&example).unwrap();
        let text = text.replace("[::]:4433", "127.0.0.1:0").replace(":9470", ":0");
        let text = text.replace(":9471", ":0").replace("\"wlan0\"", "\"127.0.0.1\"");
        let text = text
            .replace("\"wwan0\"", "\"127.0.0.2\"")
            .replace("server.example:4433", "127.0.0.1:1");
        let file = dir.path().join(&name);
        fs::write(&file, text).unwrap();
        let state = dir.path().join("state");
        let state = state.to_str().unwrap();
        let args = [kind, "--config", file.to_str().unwrap()];
        match kind {
            "serve" => {
                let mut daemon = Daemon::start(&[&args[..], &["--state-dir", state]].concat());
                daemon.says("fingerprint");
                daemon.listening();
                daemon.says("metrics on");
            }
            "connect" => {
                let daemon = Daemon::start(&args);
                daemon.logs("cannot reach the server 127.0.0.1:1");
            }
            "cotag" => cotag(&name, &file),
            other => panic!("{other} is no daemon"),
        }
        seen += 1;
    }
    assert_eq!(seen, 5);
}

/// An access point runs without rights; of the others, which make a TUN device, it is seen that
/// nothing is wrong with them but the key.
fn cotag(name: &str, file: &Path) {
    let node = name.split('-').nth(1).unwrap();
    let text = fs::read_to_string(file).unwrap();
    let text = text.replace(":9472", ":0").replace(":9473", ":0").replace(":7200", ":0");
    fs::write(file, text.replace("gateway.example:7100", "127.0.0.1:1")).unwrap();
    let key = file.with_extension("key");
    let key = key.to_str().unwrap();
    let args = ["cotag", node, "--config", file.to_str().unwrap(), "--key", key];
    let missing = common::failure(2, &args);
    assert!(missing.contains("there is none; make one with weftline cotag key"), "{missing}");
    if node == "ap" {
        assert!(run(&["cotag", "key", key]).status.success());
        let mut daemon = Daemon::start(&args);
        daemon.says("listening on");
        daemon.says("metrics on");
    }
}
