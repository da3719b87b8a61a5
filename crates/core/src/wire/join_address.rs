//! The addresses that a server announces for joins.
//!
//! Behind a balancer a second TCP connection to the server's name may reach another server, which
//! does not know the connection. So the server that accepts a hello may say where it takes joins.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::BufMut;

use super::varint::{self, Reader};

/// The most addresses that a server announces for joins: one of each family for two networks.
pub const MAX_JOIN_ADDRESSES: usize = 4;

/// Bytes of an address and a port on the wire.
const V4_LEN: usize = 4 + 2;
const V6_LEN: usize = 16 + 2;

/// An address that no server may announce for joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} cannot be announced for joins: {reason}")]
pub struct JoinAddressError {
    /// The address.
    pub address: SocketAddr,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Checks an address that a server announces for joins; both ends do. `loopback` is whether one of
/// the machine itself is of any use.
///
/// # Errors
/// When it is the address of no single machine, or has no port.
pub fn check_join_address(address: SocketAddr, loopback: bool) -> Result<(), JoinAddressError> {
    let ip = address.ip().to_canonical();
    let reason = match ip {
        _ if address.port() == 0 => "it has no port",
        _ if ip.is_unspecified() => "it stands for all addresses of a machine, not for one",
        _ if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) => {
            "it stands for several machines"
        }
        _ if ip.is_loopback() && !loopback => {
            "it is the client's own machine, on which the server is not"
        }
        _ => return Ok(()),
    };
    Err(JoinAddressError { address, reason })
}

/// Appends the addresses: how many, and each as a byte string of address and port. Without any
/// there is nothing to append.
pub(super) fn put(out: &mut impl BufMut, addresses: &[SocketAddr]) {
    let announced = &addresses[..addresses.len().min(MAX_JOIN_ADDRESSES)];
    if announced.is_empty() {
        return;
    }
    varint::put(out, announced.len() as u64);
    for address in announced {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => {
                varint::put(out, V4_LEN as u64);
                out.put_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                varint::put(out, V6_LEN as u64);
                out.put_slice(&ip.octets());
            }
        }
        out.put_u16(address.port());
    }
}

/// Reads what [`put`] appends; nothing is no address.
pub(super) fn read(body: &mut Reader<'_>) -> Option<Vec<SocketAddr>> {
    if body.0.is_empty() {
        return Some(Vec::new());
    }
    let count = usize::try_from(body.varint()?).ok().filter(|&n| n <= MAX_JOIN_ADDRESSES)?;
    (0..count).map(|_| read_one(body)).collect()
}

fn read_one(body: &mut Reader<'_>) -> Option<SocketAddr> {
    let mut bytes = Reader(body.bytes(V6_LEN)?);
    let ip = match bytes.0.len() {
        V4_LEN => IpAddr::from(bytes.array::<4>()?),
        V6_LEN => IpAddr::from(bytes.array::<16>()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(bytes.array()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_of_one_machine_is_announced() {
        let check = |text: &str, loopback| check_join_address(text.parse().unwrap(), loopback);
        for good in ["192.0.2.1:7000", "10.0.0.1:1", "[2001:db8::1]:7000", "[fe80::1]:7000"] {
            assert_eq!(check(good, false), Ok(()), "{good}");
        }
        for (bad, reason) in [
            ("192.0.2.1:0", "it has no port"),
            ("0.0.0.0:7000", "it stands for all addresses"),
            ("[::]:7000", "it stands for all addresses"),
            ("[::ffff:0.0.0.0]:7000", "it stands for all addresses"),
            ("224.0.0.1:7000", "it stands for several machines"),
            ("[::ffff:239.1.2.3]:7000", "it stands for several machines"),
            ("255.255.255.255:7000", "it stands for several machines"),
            ("[ff02::1]:7000", "it stands for several machines"),
        ] {
            let error = check(bad, true).unwrap_err().to_string();
            assert!(error.starts_with(bad) && error.contains(reason), "{bad}: {error}");
        }
        for own in ["127.0.0.1:7000", "127.9.9.9:7000", "[::1]:7000", "[::ffff:127.0.0.1]:7000"] {
            assert_eq!(check(own, true), Ok(()), "{own}");
            let error = check(own, false).unwrap_err().to_string();
            assert!(error.contains("it is the client's own machine"), "{own}: {error}");
        }
    }
}
