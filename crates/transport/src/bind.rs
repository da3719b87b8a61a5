//! Where a path leaves this machine.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Where a path leaves this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    /// Wherever the routing table says.
    Any,
    /// From this local address.
    Address(IpAddr),
    /// Through this network interface (`SO_BINDTODEVICE` where permitted, else from the
    /// interface's address).
    Interface(String),
}

impl FromStr for Bind {
    type Err = std::convert::Infallible;

    /// An IP address is an address, anything else the name of an interface.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Interface(text.to_owned()), Self::Address))
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any interface"),
            Self::Address(address) => address.fmt(f),
            Self::Interface(name) => f.write_str(name),
        }
    }
}
