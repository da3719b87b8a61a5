//! A server's name or address and its port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use rustls::pki_types::ServerName;

use crate::error::Error;
use crate::socket::Bind;

/// Where a server listens: `host:port`, the host a name, an IPv4 address or an IPv6 address in
/// brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddr {
    host: String,
    port: u16,
}

impl From<SocketAddr> for ServerAddr {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port() }
    }
}

/// A text that is no server address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no server address; write host:port, such as 192.0.2.1:7000 or [2001:db8::1]:7000"
)]
pub struct ParseServerAddrError(String);

impl FromStr for ServerAddr {
    type Err = ParseServerAddrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let parse = || {
            let (host, port) = text.rsplit_once(':')?;
            let port = port.parse().ok()?;
            let fits = !host.is_empty() && ServerName::try_from(host).is_ok();
            fits.then(|| Self { host: host.to_owned(), port })
        };
        parse().ok_or_else(|| ParseServerAddrError(text.to_owned()))
    }
}

impl fmt::Display for ServerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse() {
            Ok(ip) => SocketAddr::new(ip, self.port).fmt(f),
            Err(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl ServerAddr {
    /// What the server's certificate must be issued to.
    pub(crate) fn certificate_name(&self) -> ServerName<'static> {
        ServerName::try_from(self.host.clone()).expect("checked when the address was made")
    }

    /// The address to connect to from `bind`, looked up anew if it is a name.
    ///
    /// # Errors
    /// When the name is unknown, or has no address of the family that `bind` is of.
    pub(crate) async fn resolve(&self, bind: &Bind) -> Result<SocketAddr, Error> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(SocketAddr::new(ip, self.port));
        }
        let failed = |reason: String| Error::Resolve { name: self.host.clone(), reason };
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let family = match bind {
            Bind::Address(address) => Some(address.is_ipv4()),
            Bind::Any | Bind::Interface(_) => None,
        };
        found
            .map_err(|error| failed(error.to_string()))?
            .find(|address| family.is_none_or(|v4| address.is_ipv4() == v4))
            .ok_or_else(|| failed(format!("no address that can be reached from {bind}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_and_print() {
        for text in ["192.0.2.1:7000", "[2001:db8::1]:7000", "example.org:443", "localhost:1"] {
            assert_eq!(text.parse::<ServerAddr>().unwrap().to_string(), text);
        }
        for bad in ["", "192.0.2.1", ":7000", "host:", "host:70000", "2001:db8::1", "a b:1"] {
            assert!(bad.parse::<ServerAddr>().is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_name_is_resolved_in_the_family_of_the_path() {
        let server: ServerAddr = "localhost:7000".parse().unwrap();
        let v4 = Bind::Address("127.0.0.1".parse().unwrap());
        assert!(server.resolve(&v4).await.unwrap().is_ipv4());
        let unknown: ServerAddr = "no-such-host.invalid:1".parse().unwrap();
        assert!(matches!(unknown.resolve(&Bind::Any).await, Err(Error::Resolve { .. })));
    }
}
