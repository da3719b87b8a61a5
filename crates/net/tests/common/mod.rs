//! A network namespace of each test's own.

use std::process::Command;

use tun_rs::{DeviceBuilder, SyncDevice};

/// Set in the process that has a namespace of its own.
const INSIDE: &str = "WEFTLINE_TEST_INSIDE";

/// Whether to go on: in a namespace of its own, in which the test `name` is started once more.
pub(crate) fn is_inside(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !Command::new("unshare").args(["--net", "true"]).status().is_ok_and(|it| it.success()) {
        assert!(std::env::var_os("CI").is_none(), "no namespace can be made");
        eprintln!("skipped: no namespace can be made; run 'sudo -E cargo test -p weftline-net'");
        return false;
    }
    // A packet that never comes is not waited for without end.
    let mut again = Command::new("timeout");
    again.args(["400", "unshare", "--net"]).arg(std::env::current_exe().unwrap());
    again.args(["--exact", name, "--nocapture"]).env(INSIDE, "1");
    let output = again.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    // The status of one that was waited for in vain is 124.
    let status = output.status;
    assert!(status.success() && said.contains("1 passed"), "{status}: {said}\n{error}");
    false
}

/// Runs `ip` there.
pub(crate) fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {output:?}");
}

/// A link to others.
pub(crate) fn link(name: &str, address: &str) -> SyncDevice {
    let device = DeviceBuilder::new().name(name).enable(false).build_sync().unwrap();
    ip(&format!("addr add {address} dev {name}"));
    ip(&format!("link set {name} addrgenmode none up"));
    device
}
