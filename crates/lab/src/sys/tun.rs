//! The ioctls that make a TUN device with a virtio header and segmentation offload.
#![expect(unsafe_code, reason = "ioctl has no safe form")]

use std::ffi::c_uint;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Longest interface name the kernel takes (`IFNAMSIZ` less the terminating zero).
pub(crate) const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// Makes `fd` (an open `/dev/net/tun`) the device `name`: no link-layer header, each packet
/// preceded by a legacy virtio header of 10 bytes.
pub(crate) fn attach(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    assert!(name.len() <= NAME_MAX, "interface names are checked before");
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags as i16 },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        // Signed on x86, unsigned on ARM.
        *to = libc::c_char::from_ne_bytes([from]);
    }
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which lives across the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })
}

/// Tells the kernel which offloads the reader of `fd` handles: a set of `libc::TUN_F_*`.
pub(crate) fn set_offload(fd: BorrowedFd<'_>, offloads: c_uint) -> io::Result<()> {
    let value = libc::c_ulong::from(offloads);
    // SAFETY: TUNSETOFFLOAD takes its argument by value and touches none of our memory.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, value) })
}

fn check(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
