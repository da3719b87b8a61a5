//! What can go wrong with the machine's network, each with its remedy in the message.

use std::io;
use std::net::IpAddr;

/// Why the machine's network cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// Every address that the capture's device could have is in use.
    #[error(
        "every tunnel address that could be used is taken in the networks of this machine (the last \
         tried is {tried}); leave one of those networks, such as a VPN's"
    )]
    AddressTaken {
        /// The last address tried.
        tried: IpAddr,
    },
    /// Another program has the device.
    #[error(
        "there is an interface '{name}' already; end the program that has it, or remove it with \
         'ip link delete {name}'"
    )]
    DeviceTaken {
        /// Its name.
        name: &'static str,
    },
    /// The kernel, or this process's rights, do not allow it.
    #[error("{what}; {remedy}")]
    NotPossible {
        /// What is missing.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A system call or the kernel's answer.
    #[error("{context}: {source}")]
    Os {
        /// What was done.
        context: String,
        /// The system's reason.
        source: io::Error,
    },
}

impl NetError {
    /// What to make of the system's error when `context` was done.
    pub(crate) fn os(context: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let context = context.into();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPossible {
                what: format!("{context} is not permitted"),
                remedy: "run as root (sudo), or with the capability CAP_NET_ADMIN",
            },
            _ => Self::Os { context, source },
        }
    }
}
