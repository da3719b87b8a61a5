//! Looks at a machine all of whose connections are to go to a server: what `up` needs, and then its
//! links as those of any client.

use std::path::Path;

use weftline_net::KillSwitch;

use super::finding::{Check, Finding, Findings, Level};
use super::{client, lanes};
use crate::instance::Instance;
use crate::up::{NO_LINK, UpParts};

/// All that can be found.
pub(super) async fn examine(parts: UpParts) -> Findings {
    let mut findings = Findings::default();
    findings.extend(rights());
    findings.extend(running(&parts.lock));
    findings.extend(kernel());
    findings.extend(kill_switch(&parts.lock));
    match parts.client {
        Ok(client) if client.paths.is_empty() => {
            let (found, remedy) = NO_LINK;
            findings.add(Finding::error(Check::Link, "paths", found, remedy));
        }
        Ok(client) => {
            findings.extend(client::examine(client).await);
            // Another session would end that of the `up` that runs, which shows its own.
            if let Some((client, links)) = parts.lanes.filter(|_| running(&parts.lock).is_none())
                && findings.count(Level::Error) == 0
            {
                findings.extend(lanes::examine(client, links, parts.udp_over_tcp).await);
            }
        }
        Err(failure) => {
            let remedy =
                "correct it; 'weftline up INVITE' takes the invite that the server has printed";
            findings.add(Finding::error(
                Check::Configuration,
                "invite and options",
                failure,
                remedy,
            ));
        }
    }
    findings
}

/// Whether this user may change the machine's routes.
fn rights() -> Option<Finding> {
    let is_root = rustix::process::geteuid().is_root();
    (!is_root).then(|| {
        let found = "'weftline up' changes the routes of this machine, and this user may not";
        Finding::error(Check::Permission, "user", found, "run it as root, or with sudo")
    })
}

/// Whether an `up` runs already.
fn running(lock: &Path) -> Option<Finding> {
    let id = Instance::holder(lock).ok().flatten()?;
    let found = format!("this machine is up (process {id}); 'weftline status' says more");
    Some(Finding::ok(Check::Machine, "weftline up", found))
}

/// Whether the kernel can send connections another way; others than root are not told.
fn kernel() -> Option<Finding> {
    let is_root = rustix::process::geteuid().is_root();
    let error = weftline_net::tables().err().filter(|_| is_root)?;
    let remedy = "'modprobe nf_tables'; in a container it needs CAP_NET_ADMIN, too";
    Some(Finding::error(Check::Machine, "nf_tables", error, remedy))
}

/// Whether nothing but `up` reaches anything; others than root are not told.
fn kill_switch(lock: &Path) -> Option<Finding> {
    KillSwitch::is_wanted().ok().filter(|&is_wanted| is_wanted)?;
    if !KillSwitch::is_closed().unwrap_or(true) {
        let found = "somebody has emptied the table of the kill switch: it is open";
        let remedy = "'weftline up' closes it again; 'weftline down' removes it";
        return Some(Finding::warning(Check::Machine, "kill switch", found, remedy));
    }
    let found = "the kill switch is closed: nothing but 'weftline up' leaves by the links";
    let subject = "kill switch";
    match running(lock) {
        Some(_) => Some(Finding::ok(Check::Machine, subject, found)),
        None => {
            let remedy = "'weftline down' opens it; 'weftline up' carries all else";
            Some(Finding::warning(Check::Machine, subject, found, remedy))
        }
    }
}
