//! A server's name or address and its port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use rustls::pki_types::ServerName;

use crate::bind::Bind;
use crate::error::Error;

/// Addresses of one family that are tried at most.
const MAX_ADDRESSES: usize = 4;

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
        if let Some(address) = text.parse::<SocketAddr>().ok().filter(|one| one.port() != 0) {
            return Ok(address.into());
        }
        let parse = || {
            let (host, port) = text.rsplit_once(':')?;
            let port = port.parse().ok().filter(|&port: &u16| port != 0)?;
            // Without brackets nobody knows whether the last part of IPv6 is the port.
            let fits =
                !host.is_empty() && !host.contains(':') && ServerName::try_from(host).is_ok();
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

    /// The address, where it is none that a name has to be looked up for.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.host.parse().ok()?, self.port))
    }

    /// The addresses to connect to from `bind`, in the order to try them in: as the resolver
    /// sorted them, families taking turns (RFC 8305 §4).
    ///
    /// # Errors
    /// When the name is unknown, has no address of the family that `bind` is of, or the resolver
    /// does not answer within `limit`.
    pub(crate) async fn resolve(
        &self,
        bind: &Bind,
        limit: Duration,
    ) -> Result<Vec<SocketAddr>, Error> {
        let failed = |reason: String| Error::Resolve { name: self.host.clone(), reason };
        let family = match bind {
            Bind::Address(address) => Some(address.is_ipv4()),
            Bind::Any | Bind::Interface(_) => None,
        };
        let fits = |address: &IpAddr| family.is_none_or(|v4| address.is_ipv4() == v4);
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return match fits(&ip) {
                true => Ok(vec![SocketAddr::new(ip, self.port)]),
                false => Err(Error::Invalid(format!(
                    "the server {ip} cannot be reached from {bind}, an address of the other family; \
                     give the path an address of the server's, or its interface"
                ))),
            };
        }
        let lookup = tokio::net::lookup_host((self.host.as_str(), self.port));
        let found = tokio::time::timeout(limit, lookup)
            .await
            .map_err(|_| failed(format!("no answer within {limit:?}")))?
            .map_err(|error| failed(error.to_string()))?;
        match take_turns(found.filter(|address| fits(&address.ip()))) {
            none if none.is_empty() => {
                Err(failed(format!("no address that can be reached from {bind}")))
            }
            some => Ok(some),
        }
    }
}

/// Distinct addresses, one of each family after the other, the first one's family first.
fn take_turns(found: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let (mut first, mut second): (Vec<SocketAddr>, Vec<SocketAddr>) = (Vec::new(), Vec::new());
    for address in found {
        let same = first.first().is_none_or(|other| other.is_ipv4() == address.is_ipv4());
        let family = if same { &mut first } else { &mut second };
        if !family.contains(&address) && family.len() < MAX_ADDRESSES {
            family.push(address);
        }
    }
    let mut sorted = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    loop {
        let (a, b) = (first.next(), second.next());
        if a.is_none() && b.is_none() {
            return sorted;
        }
        sorted.extend(a.into_iter().chain(b));
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
        for bad in [
            "",
            "192.0.2.1",
            ":7000",
            "host:",
            "host:70000",
            "2001:db8::1",
            "2001:db8::1:443",
            "a b:1",
        ] {
            assert!(bad.parse::<ServerAddr>().is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_name_is_resolved_in_the_family_of_the_path() {
        let server: ServerAddr = "localhost:7000".parse().unwrap();
        let v4 = Bind::Address("127.0.0.1".parse().unwrap());
        let limit = Duration::from_secs(30);
        let found = server.resolve(&v4, limit).await.unwrap();
        assert!(!found.is_empty() && found.iter().all(SocketAddr::is_ipv4));
        let unknown: ServerAddr = "no-such-host.invalid:1".parse().unwrap();
        assert!(matches!(unknown.resolve(&Bind::Any, limit).await, Err(Error::Resolve { .. })));
        let literal: ServerAddr = "192.0.2.1:7".parse().unwrap();
        assert!(literal.resolve(&v4, limit).await.is_ok());
        let v6 = Bind::Address("fd00::7".parse().unwrap());
        let said = literal.resolve(&v6, limit).await.unwrap_err().to_string();
        assert!(said.contains("192.0.2.1") && said.contains("other family"), "{said}");
    }

    #[test]
    fn families_take_turns() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let found = ["[::1]:7", "[::2]:7", "[::1]:7", "192.0.2.1:7", "192.0.2.2:7", "192.0.2.3:7"];
        let wanted = ["[::1]:7", "192.0.2.1:7", "[::2]:7", "192.0.2.2:7", "192.0.2.3:7"];
        assert_eq!(take_turns(found.map(parse).into_iter()), wanted.map(parse));
    }
}
