//! Congestion controls that Linux does not have (Compound, LIA, OLIA, BALIA) as BPF programs
//! (`struct_ops`), which any TCP or MPTCP socket of the machine can use while they are loaded.
//!
//! The programs are in `bpf/`. Loaded controls belong to the process that has loaded them. When it ends,
//! however it ends, the kernel unloads them; connections that use them keep them to their end.
//!
//! | feature | |
//! |---|---|
//! | `bpf` | compiles the programs with clang and links libbpf, which needs libelf and zlib. Without it every function that loads or unloads returns [`NotBuilt`](BpfError::NotBuilt) |
//!
//! ```no_run
//! use weftline_bpf::{Control, Loaded};
//!
//! // Needs root and the feature `bpf`.
//! let lia = Control::find("lia").expect("it is built in");
//! let loaded = Loaded::load(&[lia])?;
//! // From now on TCP_CONGESTION takes this name.
//! assert_eq!(lia.kernel_name, "weft_lia");
//! drop(loaded); // The kernel unloads it.
//! # Ok::<(), weftline_bpf::BpfError>(())
//! ```

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
