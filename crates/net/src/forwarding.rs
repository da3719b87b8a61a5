//! The sysctls by which the kernel forwards packets, and what is not forwarded though they are set.

use std::fs;
use std::io;
use std::path::Path;

use crate::journal::Journal;

/// That of IPv6, of which all interfaces forward or none.
pub(crate) const ALL_V6: &str = "net/ipv6/conf/all/forwarding";

/// That of IPv4 for all links that there are, and that come: it is on where this machine is a router.
pub(crate) const ALL_V4: &str = "net/ipv4/conf/all/forwarding";

/// The sysctl that lets the kernel forward what comes by a link.
pub(crate) fn forwarding(link: &str) -> String {
    format!("net/ipv4/conf/{link}/forwarding")
}

/// Whether a sysctl is there and off.
pub(crate) fn is_off(sysctl: &str) -> bool {
    let now = fs::read_to_string(Path::new("/proc/sys").join(sysctl));
    now.is_ok_and(|now| now.trim() == "0")
}

/// Makes this machine a router of IPv6. One takes no
/// advertisements of routers, by which this machine may have its own route, unless it is told to.
pub(crate) fn forward_v6(journal: &Journal) -> io::Result<()> {
    let all = Path::new("/proc/sys/net/ipv6/conf");
    if is_off(ALL_V6) {
        for entry in fs::read_dir(all)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str().filter(|name| !matches!(*name, "all" | "default"))
            else {
                continue;
            };
            keep_advertisements(journal, name)?;
        }
    }
    journal.set(ALL_V6, "1")
}

/// Has an interface of a router take advertisements of others, as it does by itself on no router.
pub(crate) fn keep_advertisements(journal: &Journal, interface: &str) -> io::Result<()> {
    let sysctl = format!("net/ipv6/conf/{interface}/accept_ra");
    let now = fs::read_to_string(Path::new("/proc/sys").join(&sysctl));
    if now.is_ok_and(|now| now.trim() == "1") { journal.set(&sysctl, "2") } else { Ok(()) }
}
