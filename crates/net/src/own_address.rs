//! The addresses of the device: some that no network of this machine has.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::NetError;
use crate::route::{Route, Routes};

/// Addresses that the device may have: the first that no network of this machine has.
pub(crate) const ADDRESSES_V4: [Ipv4Addr; 4] = [
    Ipv4Addr::new(10, 87, 0, 2),
    Ipv4Addr::new(10, 187, 0, 2),
    Ipv4Addr::new(172, 30, 87, 2),
    Ipv4Addr::new(192, 168, 187, 2),
];
pub(crate) const ADDRESSES_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd57, 0x6566, 0x7400, 0, 0, 0, 0, 2),
    Ipv6Addr::new(0xfd87, 0x6566, 0x7400, 0, 0, 0, 0, 2),
];

/// The first of `wanted` that no network of this machine has.
pub(crate) fn free_address(routes: &Routes, wanted: &[IpAddr]) -> Result<IpAddr, NetError> {
    let asking = || {
        let taken = routes.routes(|route| {
            route.length > 0 && wanted.iter().any(|&address| leads_to(route, address))
        })?;
        Ok::<_, io::Error>((taken, routes.addresses()?))
    };
    let (taken, there) = asking().map_err(NetError::os("asking for the routes"))?;
    let is_free = |address: &&IpAddr| {
        !taken.iter().any(|route| leads_to(route, **address))
            && !there.iter().any(|one| one.address == **address)
    };
    let tried = *wanted.last().expect("some are tried");
    wanted.iter().find(is_free).copied().ok_or(NetError::AddressTaken { tried })
}

fn leads_to(route: &Route, address: IpAddr) -> bool {
    let (one, other, bits) = match (route.destination, address) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (u128::from(one.to_bits()), u128::from(other.to_bits()), 32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits(), other.to_bits(), 128),
        _ => return false,
    };
    let beyond = u32::from(bits - route.length.min(bits));
    (one ^ other).checked_shr(beyond).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::MAIN;

    #[test]
    fn networks_that_hold_an_address_are_found() {
        let route = |destination: &str, length| Route {
            destination: destination.parse().unwrap(),
            length,
            link: None,
            table: MAIN,
            metric: 0,
        };
        let own = ADDRESSES_V4[0].into();
        assert!(leads_to(&route("10.0.0.0", 8), own));
        assert!(leads_to(&route("10.87.0.2", 32), own));
        assert!(!leads_to(&route("10.88.0.0", 16), own));
        assert!(!leads_to(&route("fd00::", 8), own));
        assert!(leads_to(&route("fd57::", 16), ADDRESSES_V6[0].into()));
        // A length that cannot be is taken for the longest.
        assert!(!leads_to(&route("10.88.0.0", 200), own));
    }
}
