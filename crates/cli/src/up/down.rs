//! `weftline down`: ends `weftline up`, waits until the machine's network is as before, and opens the kill
//! switch, which outlives all else.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weftline_net::KillSwitch;

use super::{Files, check_rights};
use crate::failure::Failure;
use crate::instance::Instance;
use crate::output;

/// The unit that starts `up` again when it has failed.
const UNIT: &str = "weftline-up";
/// What starts it again on OpenWrt, whatever has ended it.
const PROCD: &str = "/etc/init.d/weftline-up";
/// How long `up` may take to end.
const PATIENCE: Duration = Duration::from_secs(15);

/// Ends it.
pub(crate) fn run() -> Result<(), Failure> {
    check_rights("weftline down")?;
    let files = Files::find()?;
    let wrong = |error: std::io::Error| {
        Failure::failed(format!("{}: {error}; try it again", files.lock.display()))
    };
    let holder = Instance::holder(&files.lock).map_err(wrong)?;
    let pid = holder.and_then(|number| Pid::from_raw(number.cast_signed()));
    let Some(pid) = pid else {
        end_tries();
        if KillSwitch::open()? {
            return output::print("down: the kill switch is open; nothing was up\n");
        }
        return Err(Failure::wrong_use("this machine is not up; 'weftline up' begins that"));
    };
    match kill_process(pid, Signal::TERM) {
        // It has ended in this moment; its janitor may be at work.
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(wrong(error.into())),
    }
    let began = Instant::now();
    while Instance::holder(&files.lock).map_err(wrong)?.is_some() {
        if began.elapsed() > PATIENCE {
            let pid = pid.as_raw_nonzero();
            return Err(Failure::failed(format!(
                "process {pid} does not end; 'kill -9 {pid}' ends it, and the network is restored"
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    end_tries();
    KillSwitch::open()?;
    output::print("down: this machine's connections go their usual ways\n")
}

/// Has whatever is about to start `up` again stop that: it would close the kill switch anew, or capture again.
fn end_tries() {
    stop_service(Path::new(PROCD));
    stop_unit();
}

/// Has OpenWrt's procd stop the service, if there is one.
fn stop_service(script: &Path) {
    let Ok(stopped) = Command::new(script).arg("stop").output() else { return };
    if !stopped.status.success() {
        let why = String::from_utf8_lossy(&stopped.stderr).trim().to_owned();
        eprintln!(
            "weftline: {UNIT} may start 'up' again ({why}); '{} stop' ends that",
            script.display()
        );
    }
}

/// Has systemd stop its unit if that is about to start `up` again.
fn stop_unit() {
    let systemctl = |what: &str| Command::new("systemctl").args([what, UNIT]).output();
    // Where there is no systemd, nothing starts it.
    let Ok(state) = systemctl("is-active") else { return };
    if state.stdout.trim_ascii() != b"activating" {
        return;
    }
    let why = match systemctl("stop") {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("weftline: {UNIT} starts 'up' again ({why}); 'systemctl stop {UNIT}' ends that");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_service_that_would_start_it_again_is_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let (script, told) = (dir.path().join("weftline-up"), dir.path().join("told"));
        stop_service(&script);
        fs::write(&script, format!("#!/bin/sh\necho \"$@\" >{}\n", told.display())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        // A process of another test may have it open for writing for a moment, as it begins.
        while !told.exists() {
            stop_service(&script);
        }
        assert_eq!(fs::read_to_string(told).unwrap(), "stop\n");
    }
}
