//! What the package for OpenWrt starts and changes, by its shell (busybox) with stand-ins for what OpenWrt has
//! besides: procd's functions, which write down what they are told, and `uci`.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A router's root, and its shell; `None` without busybox, which CI has.
fn router() -> Option<tempfile::TempDir> {
    let there = Command::new("busybox").arg("true").status().is_ok_and(|status| status.success());
    if !there {
        assert!(std::env::var_os("CI").is_none(), "busybox is needed in CI");
        eprintln!("skipped: busybox is not installed");
        return None;
    }
    Some(tempfile::tempdir().unwrap())
}

fn packaged(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/openwrt").join(name)
}

/// Runs a script of the package in such a root, with these stand-ins before it; whether it has succeeded, and what it
/// has printed.
fn sh(root: &Path, before: &str, then: &str) -> (bool, String) {
    let text = format!("IPKG_INSTROOT={}\n{before}\n{then}", root.display());
    let path = format!("{}:/usr/bin:/bin", root.join("bin").display());
    let output = Command::new("busybox")
        .args(["ash", "-c", &text])
        .env_clear()
        .env("PATH", path)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// What rc.common and procd have, as far as the scripts use it.
const PROCD: &str = "
    procd_open_instance() { echo open; }
    procd_close_instance() { echo close; }
    procd_set_param() { echo \"$*\"; }
    logger() { shift 3; echo \"said: $1\"; }
";

fn put(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn up_is_started_where_there_is_an_invite_and_no_other_multiwan() {
    let Some(root) = router() else { return };
    let script = packaged("weftline-up.init");
    let start = format!(". {}; start_service", script.display());
    let run = || sh(root.path(), PROCD, &start);
    let (done, said) = run();
    assert!(
        !done && said.contains("said: no invite is kept: run 'weftline up weftline:…' once"),
        "{said}"
    );
    put(&root.path().join("etc/weftline/up.toml"), "invite = \"weftline:x\"\n");
    let (done, said) = run();
    assert!(done, "{said}");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!((lines[0], lines[lines.len() - 1]), ("open", "close"));
    for line in ["command /usr/bin/weftline up", "respawn 3600 5 0", "term_timeout 20"] {
        assert!(lines.contains(&line), "{line}: {said}");
    }
    let mwan3 = root.path().join("etc/init.d/mwan3");
    put(&mwan3, "#!/bin/sh\n[ \"$1\" != enabled ] || exit 1\n");
    assert!(run().0, "it is there, but is not enabled");
    put(&mwan3, "#!/bin/sh\nexit 0\n");
    let (done, said) = run();
    assert!(
        !done && said.contains("/etc/init.d/mwan3 disable") && !said.contains("open"),
        "{said}"
    );
}

#[test]
fn the_kill_switch_is_closed_before_there_is_a_network_if_there_is_a_file() {
    let Some(root) = router() else { return };
    let script = packaged("weftline-strict.init");
    let text = fs::read_to_string(&script).unwrap();
    let at = |name: &str, text: &str| -> u32 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.parse().unwrap()
    };
    // OpenWrt's network has START=20.
    let up = fs::read_to_string(packaged("weftline-up.init")).unwrap();
    assert!(at("START=", &text) < 20 && at("START=", &up) > 20);
    put(&root.path().join("usr/bin/weftline"), "#!/bin/sh\necho \"weftline $*\"\n");
    let start = format!(". {}; start", script.display());
    assert_eq!(sh(root.path(), "", &start), (true, String::new()));
    put(&root.path().join("etc/weftline/up.toml"), "strict = true\n");
    assert_eq!(sh(root.path(), "", &start), (true, "weftline up --close-only\n".to_owned()));
}

#[test]
fn the_firewall_has_a_zone_once() {
    let Some(root) = router() else { return };
    // It keeps what it is told, a line for each value.
    let uci = "#!/bin/sh\nfile=$(dirname \"$0\")/uci.kept\nshift\ncase $1 in\n\
               get) grep -q \"^[a-z_]* $2=\" \"$file\" 2>/dev/null ;;\n\
               batch) sed 's/^[ \\t]*//' >>\"$file\" ;;\nesac\n";
    put(&root.path().join("bin/uci"), uci);
    let run = format!(". {}", packaged("firewall.defaults").display());
    for _ in 0..2 {
        assert_eq!(sh(root.path(), "", &run), (true, String::new()));
    }
    let kept = fs::read_to_string(root.path().join("bin/uci.kept")).unwrap_or_default();
    let lines: Vec<_> = kept.lines().collect();
    assert_eq!(lines.iter().filter(|line| **line == "set firewall.weft=zone").count(), 1, "{kept}");
    for line in [
        "add_list firewall.weft.device=weft0",
        "set firewall.weft.forward=REJECT",
        "set firewall.weft_lan.src=lan",
        "commit firewall",
    ] {
        assert!(lines.contains(&line), "{line}: {kept}");
    }
}

#[test]
fn a_package_is_for_one_kind_of_processor_and_kernels_that_let_tables_have_owners() {
    let Some(root) = router() else { return };
    let text = fs::read_to_string(packaged("preinst")).unwrap().replace("PROCESSOR", "aarch64");
    let script = root.path().join("preinst");
    put(&script, &text);
    let machine = |processor: &str, release: &str| {
        let uname = format!("uname() {{ [ $1 = -m ] && echo {processor} || echo {release}; }}");
        // Not in an image that is being built.
        sh(Path::new(""), &uname, &format!(". {}", script.display()))
    };
    for release in ["5.12", "5.15.167", "6.1.0-rc1", "6.6.73", "10.0"] {
        assert_eq!(machine("aarch64", release), (true, String::new()), "{release}");
    }
    for (processor, release, why) in [
        ("x86_64", "6.6.73", "this package is for aarch64, this machine is x86_64"),
        (
            "aarch64",
            "5.10.221",
            "it needs Linux 5.12, as OpenWrt has since 23.05; this is 5.10.221",
        ),
        ("aarch64", "4.14.275", "this is 4.14.275"),
    ] {
        let (done, said) = machine(processor, release);
        assert!(!done && said.contains(why), "{said}");
    }
    let image = sh(root.path(), "uname() { echo none; }", &format!(". {}", script.display()));
    assert_eq!(image, (true, String::new()));
}

#[test]
fn every_script_of_the_package_is_one_for_its_shell() {
    if router().is_none() {
        return;
    }
    for entry in fs::read_dir(packaged("")).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "nft") {
            continue;
        }
        let checked = Command::new("busybox").args(["ash", "-n"]).arg(&file).output().unwrap();
        assert!(checked.status.success(), "{}: {checked:?}", file.display());
    }
}
