//! The addresses of the device: some that no network of this machine has, where there are such.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::NetError;
use crate::route::{Route, Routes};

/// The number of the first client of a server, and the most of a number.
pub const FIRST_CLIENT: u16 = 2;
/// See [`FIRST_CLIENT`].
pub const LAST_CLIENT: u16 = 16_000;

/// Addresses that a client's device may have, by the client's number at its server: the first that no
/// network of this machine has, or else that nothing of this machine has itself.
pub fn addresses_v4(client: u16) -> [IpAddr; 4] {
    let bases = [[10, 87, 0, 2], [10, 187, 0, 2], [172, 30, 87, 2], [192, 168, 187, 2]];
    let further = u32::from(client.min(LAST_CLIENT).saturating_sub(FIRST_CLIENT));
    bases.map(|base| IpAddr::V4(Ipv4Addr::from_bits(Ipv4Addr::from(base).to_bits() + further)))
}

/// The same of IPv6.
pub fn addresses_v6(client: u16) -> [IpAddr; 2] {
    let client = client.clamp(FIRST_CLIENT, LAST_CLIENT);
    let address = |first| Ipv6Addr::new(first, 0x6566, 0x7400, 0, 0, 0, 0, client);
    [0xfd57, 0xfd87].map(|first| IpAddr::V6(address(first)))
}

/// One of `wanted` that no interface has; of these the first to which no route leads but a default one,
/// if there is one. Routes of half of all addresses, as other VPNs have them, lead to all.
pub(crate) fn free_address(routes: &Routes, wanted: &[IpAddr]) -> Result<IpAddr, NetError> {
    let asking = || {
        let covered = routes.routes(|route| {
            route.length > 0 && wanted.iter().any(|&address| leads_to(route, address))
        })?;
        Ok::<_, io::Error>((covered, routes.addresses()?))
    };
    let (covered, there) = asking().map_err(NetError::os("asking for the routes"))?;
    let there: Vec<IpAddr> = there.iter().map(|one| one.address).collect();
    let tried = *wanted.last().expect("some are tried");
    choose(&covered, &there, wanted).ok_or(NetError::AddressTaken { tried })
}

fn choose(covered: &[Route], there: &[IpAddr], wanted: &[IpAddr]) -> Option<IpAddr> {
    let nobodys = || wanted.iter().copied().filter(|address| !there.contains(address));
    let is_apart = |address: &IpAddr| !covered.iter().any(|route| leads_to(route, *address));
    nobodys().find(is_apart).or_else(|| nobodys().next())
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

    fn route(destination: &str, length: u8) -> Route {
        let destination = destination.parse().unwrap();
        Route { destination, length, link: None, gateway: None, table: MAIN, metric: 0 }
    }

    #[test]
    fn clients_have_addresses_of_their_own() {
        let mut all: Vec<_> = (FIRST_CLIENT..=LAST_CLIENT)
            .flat_map(|one| [addresses_v4(one)[0], addresses_v6(one)[0]])
            .collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(addresses_v4(300)[3].to_string(), "192.168.188.44");
        let last: Vec<_> = addresses_v4(u16::MAX).iter().map(ToString::to_string).collect();
        assert_eq!(last, ["10.87.62.128", "10.187.62.128", "172.30.149.128", "192.168.249.128"]);
    }

    #[test]
    fn an_address_that_only_routes_lead_to_will_do_and_one_that_is_there_will_not() {
        let wanted = addresses_v4(2);
        assert_eq!(choose(&[], &[], &wanted), Some(wanted[0]));
        assert_eq!(choose(&[route("10.87.0.0", 16)], &[], &wanted), Some(wanted[1]));
        // Another VPN takes everything.
        let all = [route("0.0.0.0", 1), route("128.0.0.0", 1)];
        assert_eq!(choose(&all, &[], &wanted), Some(wanted[0]));
        assert_eq!(choose(&all, &wanted[..1], &wanted), Some(wanted[1]));
        assert_eq!(choose(&[], &wanted, &wanted), None);
    }

    #[test]
    fn networks_that_hold_an_address_are_found() {
        let own = addresses_v4(2)[0];
        assert!(leads_to(&route("10.0.0.0", 8), own));
        assert!(leads_to(&route("10.87.0.2", 32), own));
        assert!(!leads_to(&route("10.88.0.0", 16), own));
        assert!(!leads_to(&route("fd00::", 8), own));
        assert!(leads_to(&route("fd57::", 16), addresses_v6(2)[0]));
        // A length that cannot be is taken for the longest.
        assert!(!leads_to(&route("10.88.0.0", 200), own));
    }
}
