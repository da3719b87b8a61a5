//! systemd-resolved, where it runs: it asks through the device while questions to DNS go to the server, as it
//! would ask by links else. What it is told goes with the device.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weftline_net::DEVICE;

/// How long one thing that it is told may take: four of them take less than who asks for a portal waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where it keeps its files while it runs.
const RESOLVED: &str = "/run/systemd/resolve";
/// Whom it is told to ask: the server answers questions to any address.
const RESOLVER: &str = "10.87.0.1";

/// Has it ask through the device.
pub(super) fn tell() {
    // By TLS, as others may be asked, the server's resolver does not answer.
    let _ = resolvectl(&["dns", DEVICE, RESOLVER])
        && resolvectl(&["dnsovertls", DEVICE, "no"])
        && resolvectl(&["domain", DEVICE, "~."])
        && resolvectl(&["default-route", DEVICE, "yes"]);
}

/// Has it ask as it would without us.
pub(super) fn revert() {
    resolvectl(&["revert", DEVICE]);
}

/// Waits for its end, but not for long, as who has asked waits, too; why it has failed, if it has.
fn wait(mut child: Child) -> io::Result<Option<String>> {
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(Some(format!("no answer within {} s", PATIENCE.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output()?;
    let failed = !output.status.success();
    Ok(failed.then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Tells it, where it runs; whether it took it.
fn resolvectl(args: &[&str]) -> bool {
    if !Path::new(RESOLVED).exists() {
        return false;
    }
    let mut command = Command::new("resolvectl");
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let why = match command.spawn().and_then(wait) {
        Ok(None) => return true,
        Ok(Some(why)) => why,
        Err(error) => error.to_string(),
    };
    tracing::warn!("systemd-resolved asks past the server: resolvectl {}: {why}", args.join(" "));
    false
}
