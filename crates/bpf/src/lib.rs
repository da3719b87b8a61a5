//! Congestion controls that Linux does not have (Compound, LIA, OLIA, BALIA) as BPF programs
//! (`struct_ops`), which any TCP or MPTCP socket of the machine can use while they are loaded.
//!
//! The programs are in `bpf/`. What is loaded belongs to the process that did it: when that ends,
//! whatever the way, the kernel takes the controls out, and connections that use them go on with
//! them to their end. Without the feature `bpf` everything here says
//! [`NotBuilt`](BpfError::NotBuilt).

mod controls;
mod error;
mod group;
mod host;
#[cfg(feature = "bpf")]
mod kernel;
#[cfg(not(feature = "bpf"))]
#[path = "absent.rs"]
mod kernel;
#[cfg(feature = "bpf")]
mod process;
mod provide;

pub use controls::{CONTROLS, Control};
pub use error::BpfError;
pub use group::Groups;
pub use host::available;
pub use kernel::{Loaded, unload};

/// Whether this build can load anything.
pub const IS_BUILT: bool = cfg!(feature = "bpf");

/// The compiled test programs.
#[cfg(feature = "bpf")]
#[doc(hidden)]
pub const VECTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vectors.bpf.o"));
