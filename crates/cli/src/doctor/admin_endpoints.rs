//! Whether a daemon can open its admin endpoints.

use std::io;
use std::path::Path;

use super::finding::{Check, Finding, Level};
use super::{directory, ports};
use crate::ops::control::{self, Control};
use crate::ops::{Daemon, Wanted};

/// What was found of each endpoint.
pub(super) fn look(daemon: Daemon, wanted: &Wanted) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(address) = wanted.metrics {
        let mut found = ports::look(daemon, address);
        // It starts without those of its file.
        if daemon == Daemon::Up && found.level == Level::Error {
            found.level = Level::Warning;
        }
        findings.push(found);
    }
    let dashboard = wanted.dashboard.as_ref().map(|place| place.address);
    findings.extend(dashboard.map(|address| ports::look(daemon, address)));
    if let Some(dir) = &wanted.qlog {
        findings.extend(directory::look("qlog directory", dir));
    }
    if let Some(Control::At(path)) = &wanted.control {
        findings.extend(control(path));
    }
    findings
}

fn control(path: &Path) -> Option<Finding> {
    let subject = format!("control socket {}", path.display());
    let error = control::check(path).err()?;
    if error.kind() == io::ErrorKind::AddrInUse {
        let found = "a daemon has it: if it is not the one that is meant, give another path";
        return Some(Finding::ok(Check::File, subject, found));
    }
    let remedy =
        "give --control another path, whose directory is there when the daemon starts, or none";
    // A service manager makes directories in /run when it starts the daemon.
    let may_come = error.kind() == io::ErrorKind::NotFound && path.starts_with("/run");
    Some(match may_come {
        true => Finding::warning(Check::File, subject, error, remedy),
        false => Finding::error(Check::File, subject, error, remedy),
    })
}
