//! Why a control cannot be loaded or taken out.

use std::path::PathBuf;

/// Why a control cannot be loaded or taken out: what, and the remedy, in one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The feature `bpf` is off.
    #[error(
        "this weftline was built without BPF; build it with: cargo build --release -p weftline-cli \
         --features bpf (needs clang, libelf-dev and zlib1g-dev)"
    )]
    NotBuilt,
    /// There is no such control.
    #[error("there is no control '{name}' to load; there are compound, lia, olia and balia")]
    Unknown {
        /// The name that was given.
        name: String,
    },
    /// The kernel lets us not.
    #[error(
        "{what} is not permitted; run as root (sudo), or with CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN \
         and CAP_SYS_ADMIN outside any user namespace"
    )]
    NotPermitted {
        /// What was tried.
        what: String,
    },
    /// The kernel does not describe its types.
    #[error(
        "this kernel does not describe its types in {}; it needs CONFIG_DEBUG_INFO_BTF=y",
        path.display()
    )]
    NoBtf {
        /// Where they should be.
        path: PathBuf,
    },
    /// The kernel is too old.
    #[error("this kernel is Linux {release}; BPF congestion controls need 6.1 or later")]
    OldKernel {
        /// Its release, as `uname -r` has it.
        release: String,
    },
    /// The control is there already.
    #[error(
        "{name} is loaded already{}; use it, or take it out first: weftline congestion unload {name}",
        by(*.pid)
    )]
    AlreadyLoaded {
        /// The kernel's name of it.
        name: &'static str,
        /// The process that holds it, if that can be seen.
        pid: Option<u32>,
    },
    /// The control is not there.
    #[error("{name} is not loaded")]
    NotLoaded {
        /// The kernel's name of it.
        name: &'static str,
    },
    /// The kernel cannot take a control from the process that holds it.
    #[error(
        "this kernel takes {name} out only with the process that holds it{}; end that one",
        by(*.pid)
    )]
    Held {
        /// The kernel's name of it.
        name: &'static str,
        /// The process that holds it, if that can be seen.
        pid: Option<u32>,
    },
    /// The kernel refused.
    #[error("{what}: {reason}")]
    Refused {
        /// What was tried.
        what: String,
        /// What the kernel or libbpf said.
        reason: String,
    },
}

impl BpfError {
    /// The exit status of a program that ends with this error: 1 it failed, 2 wrong use, 3 not
    /// possible here.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::AlreadyLoaded { .. } | Self::NotLoaded { .. } | Self::Refused { .. } => 1,
            Self::Unknown { .. } => 2,
            Self::NotBuilt
            | Self::NotPermitted { .. }
            | Self::NoBtf { .. }
            | Self::OldKernel { .. }
            | Self::Held { .. } => 3,
        }
    }
}

fn by(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (by process {pid})")).unwrap_or_default()
}
