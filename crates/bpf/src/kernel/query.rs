//! What BPF objects the kernel has. The kernel itself is the only register of what is loaded, so
//! that nothing is left behind when a process is killed.
#![expect(unsafe_code, reason = "libbpf-rs does not wrap detaching a link by its number")]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use libbpf_rs::MapType;
use libbpf_rs::btf::Btf;
use libbpf_rs::query::{
    LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter, ProgInfoQueryOptions,
};

use crate::Control;

/// Names of programs and maps in the kernel have at most so many bytes.
const NAME_MAX: usize = 15;

/// Whether the kernel registers `struct_ops` by links, which go with their process (Linux 6.4).
pub(super) fn has_links() -> bool {
    let of_kernel = Btf::from_vmlinux();
    of_kernel.is_ok_and(|btf| {
        btf.type_by_name::<libbpf_rs::btf::types::Struct<'_>>("bpf_struct_ops_link").is_some()
    })
}

/// The newest `struct_ops` map of a control.
pub(super) fn ops_map(control: Control) -> Option<u32> {
    let maps = MapInfoIter::default().filter(|map| map.ty == MapType::StructOps);
    maps.filter(|map| map.name.to_string_lossy() == control.kernel_name).map(|map| map.id).max()
}

/// The link by which a control is registered.
pub(super) fn link(control: Control) -> Option<u32> {
    let maps: Vec<u32> = MapInfoIter::default()
        .filter(|map| map.name.to_string_lossy() == control.kernel_name)
        .map(|map| map.id)
        .collect();
    let mut links = LinkInfoIter::default();
    let of_ours = links.find(|link| match &link.info {
        LinkTypeInfo::StructOps(ops) => maps.contains(&ops.map_id),
        _ => false,
    });
    of_ours.map(|link| link.id)
}

/// The maps that the newest program of a control uses. Older programs of the same name may serve
/// connections that have outlived their registration.
pub(super) fn maps_of(control: Control) -> Vec<u32> {
    let mut name = format!("{}_pkts_acked", control.name);
    name.truncate(NAME_MAX);
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let programs = ProgInfoIter::with_query_opts(options);
    let ours = programs.filter(|program| program.name.to_string_lossy() == name);
    ours.max_by_key(|program| program.id).map(|program| program.map_ids).unwrap_or_default()
}

/// Undoes a link whoever holds it.
pub(super) fn detach(link: u32) -> io::Result<()> {
    // SAFETY: the call takes a number and gives a descriptor or an error.
    let fd = unsafe { libbpf_sys::bpf_link_get_fd_by_id(link) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor is new and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the call takes an open descriptor.
    match unsafe { libbpf_sys::bpf_link_detach(fd.as_raw_fd()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}
