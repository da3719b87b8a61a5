//! systemd-resolved, where it runs: it asks through the device while questions to DNS go to the server, as it
//! would ask by links else. What it is told goes with the device.

use std::path::Path;
use std::process::{Command, Stdio};

use weftline_net::DEVICE;

/// Where it keeps its files while it runs.
const RESOLVED: &str = "/run/systemd/resolve";
/// Whom it is told to ask: the server answers questions to any address.
const RESOLVER: &str = "10.87.0.1";

/// Has it ask through the device.
pub(super) fn tell() {
    let _ = resolvectl(&["dns", DEVICE, RESOLVER])
        && resolvectl(&["domain", DEVICE, "~."])
        && resolvectl(&["default-route", DEVICE, "yes"]);
}

/// Has it ask as it would without us.
pub(super) fn revert() {
    resolvectl(&["revert", DEVICE]);
}

/// Tells it, where it runs; whether it took it.
fn resolvectl(args: &[&str]) -> bool {
    if !Path::new(RESOLVED).exists() {
        return false;
    }
    let mut command = Command::new("resolvectl");
    let done = command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).output();
    let why = match done {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    tracing::warn!("systemd-resolved asks past the server: resolvectl {}: {why}", args.join(" "));
    false
}
