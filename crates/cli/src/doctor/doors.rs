//! Where a daemon shows how it is: whether it can.

use super::finding::{Check, Finding};
use super::{directory, ports};
use crate::ops::Wanted;
use crate::ops::control::{self, Control};

/// What was found of each place.
pub(super) fn look(wanted: &Wanted) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(wanted.metrics.map(ports::look));
    if let Some(dir) = &wanted.qlog {
        findings.extend(directory::look("qlog directory", dir));
    }
    if let Some(Control::At(path)) = &wanted.control
        && let Err(error) = control::check(path)
    {
        let subject = format!("control socket {}", path.display());
        let remedy = "give --control another path, whose directory is there, or none";
        findings.push(Finding::error(Check::File, subject, error, remedy));
    }
    findings
}
