//! TUN devices: where the emulator takes packets from a namespace's kernel and gives them to it.
//!
//! Each packet comes with a virtio header, so that the kernel may leave checksums and
//! segmentation to the other end: one read or write moves up to 64 KiB.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use crate::LabError;
use crate::netns::Netns;
use crate::sys::tun as sys;
use crate::topology::Address;

/// The largest packet on an emulated link, IP header included.
pub(crate) const MTU: u32 = 1500;

/// Packets (or super-packets) the kernel keeps for the emulator to read. At 1.8 Gb/s a receiver
/// sends 78,000 acknowledgements a second: 4096 bridge 50 ms in which the emulator gets no
/// processor, and cost nothing while empty. What does not fit is lost outside the link model, and
/// counted.
const READ_QUEUE: u32 = 4096;

/// A TUN device inside a namespace. It vanishes when this is dropped.
#[derive(Debug)]
pub struct Tun {
    fd: OwnedFd,
    name: String,
    ns: Netns,
}

impl Tun {
    /// Creates the device `name` inside `ns`, with `address` on it, and sets it up.
    ///
    /// # Errors
    /// [`LabError::Usage`] for a name the kernel would refuse, [`LabError::NotPossible`] where
    /// `/dev/net/tun` is missing or closed to us.
    pub(crate) fn create(ns: &Netns, name: &str, address: Address) -> Result<Self, LabError> {
        check_name(name)?;
        let fd = ns.run(|| open(name)).map_err(|error| cannot_open(name, error))?;
        let tun = Self { fd, name: name.to_owned(), ns: ns.clone() };
        ns.ip(&format!("link set dev {name} mtu {MTU} txqueuelen {READ_QUEUE}"))?;
        // No packet of the kernel's own: it would draw from the loss stream.
        ns.ip(&format!("link set dev {name} multicast off addrgenmode none"))?;
        ns.ip(&format!("link set dev {name} up"))?;
        ns.ip(&format!("addr add {}/24 dev {name}", address.v4))?;
        ns.ip(&format!("addr add {}/64 dev {name} nodad", address.v6))?;
        Ok(tun)
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the device's counters, from any thread, without keeping the device.
    pub(crate) fn meter(&self) -> Meter {
        Meter { ns: self.ns.clone(), name: self.name.clone() }
    }
}

/// The kernel's counters of a TUN device.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    ns: Netns,
    name: String,
}

impl Meter {
    /// Packets the kernel dropped because nobody read them in time; 0 once the device is gone.
    pub(crate) fn unread_drops(&self) -> io::Result<u64> {
        let table = self.ns.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
        // After "name:" eight columns of reception, then transmitted bytes, packets, errors, drops.
        // What the kernel transmits is what we read.
        let mut rows = table.lines().filter_map(|line| line.trim().split_once(':'));
        let row = rows.find(|(name, _)| *name == self.name).map_or("", |(_, columns)| columns);
        Ok(row.split_whitespace().nth(11).and_then(|n| n.parse().ok()).unwrap_or(0))
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether `name` can be an interface's name.
pub(crate) fn check_name(name: &str) -> Result<(), LabError> {
    let fits = (1..=sys::NAME_MAX).contains(&name.len());
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if fits && plain && !matches!(name, "." | ".." | "lo" | "all" | "default") {
        return Ok(());
    }
    Err(LabError::Usage(format!(
        "path '{name}' cannot be an interface's name: use 1 to {} letters, digits, '-', '_' or '.'",
        sys::NAME_MAX
    )))
}

/// Runs inside the namespace: the device is created where the opening thread is.
fn open(name: &str) -> io::Result<OwnedFd> {
    let fd = open_clone_device()?;
    sys::attach(fd.as_fd(), name)?;
    set_offloads(fd.as_fd())?;
    Ok(fd)
}

fn open_clone_device() -> io::Result<OwnedFd> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    options.open("/dev/net/tun").map(OwnedFd::from)
}

/// TCP super-packets, and UDP ones where the kernel has them; whether it has.
fn set_offloads(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    // UDP super-packets came with Linux 6.2; an older kernel cuts them itself.
    if sys::set_offload(fd, tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6).is_ok() {
        return Ok(true);
    }
    sys::set_offload(fd, tcp).map(|()| false)
}

/// Whether `/dev/net/tun` can be opened by us.
pub(crate) fn check_access() -> Result<(), LabError> {
    open_clone_device().map(drop).map_err(|error| cannot_open("for a check", error))
}

/// Whether TUN devices in `ns` have UDP segmentation offload besides TCP's.
pub(crate) fn check_offloads(ns: &Netns) -> Result<bool, LabError> {
    let probe = || {
        let fd = open_clone_device()?;
        sys::attach(fd.as_fd(), "probe")?;
        set_offloads(fd.as_fd())
    };
    ns.run(probe).map_err(|error| cannot_open("probe", error))
}

fn cannot_open(name: &str, error: io::Error) -> LabError {
    match error.kind() {
        io::ErrorKind::NotFound => LabError::not_possible(
            "there is no /dev/net/tun",
            "load it with 'modprobe tun', or pass --device /dev/net/tun to the container",
        ),
        io::ErrorKind::PermissionDenied => LabError::not_possible(
            "opening /dev/net/tun is not permitted",
            "run as root (sudo), or give your user access to /dev/net/tun",
        ),
        _ => LabError::Os { context: format!("creating the TUN device {name}"), source: error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["wifi", "wigig", "path-1.5_x", "exactly15chars_"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "sixteen_chars_xx", "a b", "a/b", "lo", ".", "..", "ü"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
