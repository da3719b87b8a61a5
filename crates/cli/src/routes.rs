//! The main routing table: the interfaces that have a default route, for `--path auto`, and whether one
//! leads to an address, for `weftline doctor`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Flags of a route that is up, and of one that refuses (linux/route.h).
const UP: u32 = 0x0001;
const REJECT: u32 = 0x0200;

/// The interfaces with a default route in the main table, IPv4 before IPv6, those of the least
/// metric first, each once; not that of `weftline up`, which leads to the others.
pub(crate) fn interfaces() -> Vec<String> {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let mut found = parse(&read("/proc/net/route"), &read("/proc/net/ipv6_route"));
    found.retain(|name| name != weftline_net::DEVICE);
    found
}

/// Whether the main table has a route to `address` through `interface`.
pub(crate) fn leads(interface: &str, address: IpAddr) -> bool {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    match address {
        IpAddr::V4(address) => leads_ipv4(&read("/proc/net/route"), interface, address),
        IpAddr::V6(address) => leads_ipv6(&read("/proc/net/ipv6_route"), interface, address),
    }
}

fn leads_ipv4(table: &str, interface: &str, address: Ipv4Addr) -> bool {
    // As the kernel has them in memory, in the order of the network.
    let number = |word: &str| u32::from_str_radix(word, 16).ok();
    let address = u32::from_ne_bytes(address.octets());
    table.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, destination, _, flags, _, _, _, mask, ..] = words[..] else { return false };
        let (Some(destination), Some(mask)) = (number(destination), number(mask)) else {
            return false;
        };
        name == interface && is_usable(number(flags)) && address & mask == destination
    })
}

fn leads_ipv6(table: &str, interface: &str, address: Ipv6Addr) -> bool {
    table.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [destination, length, _, _, _, _, _, _, flags, name] = words[..] else { return false };
        let number = |word| u32::from_str_radix(word, 16).ok();
        let (Ok(destination), Some(length)) =
            (u128::from_str_radix(destination, 16), number(length))
        else {
            return false;
        };
        let beyond = 128_u32.saturating_sub(length);
        let same = (u128::from(address) ^ destination).checked_shr(beyond).unwrap_or(0) == 0;
        name == interface && is_usable(number(flags)) && same
    })
}

fn is_usable(flags: Option<u32>) -> bool {
    flags.is_some_and(|flags| flags & UP != 0 && flags & REJECT == 0)
}

fn parse(ipv4: &str, ipv6: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for mut routes in [default_ipv4(ipv4), default_ipv6(ipv6)] {
        routes.sort_by_key(|(metric, _)| *metric);
        for (_, interface) in routes {
            if interface != "lo" && !found.contains(&interface) {
                found.push(interface);
            }
        }
    }
    found
}

/// Metric and interface of each default route: `Iface Destination Gateway Flags RefCnt Use Metric
/// Mask …`, in hexadecimal but for the metric.
fn default_ipv4(table: &str) -> Vec<(u32, String)> {
    let route = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [interface, destination, _, flags, _, _, metric, mask, ..] = words[..] else {
            return None;
        };
        let flags = u32::from_str_radix(flags, 16).ok();
        let is_default = [destination, mask] == ["00000000"; 2];
        (is_default && is_usable(flags)).then_some(())?;
        Some((metric.parse().ok()?, interface.to_owned()))
    };
    table.lines().filter_map(route).collect()
}

/// The same of IPv6: `destination length source length gateway metric refcnt use flags interface`,
/// all in hexadecimal.
fn default_ipv6(table: &str) -> Vec<(u32, String)> {
    let route = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, length, _, _, _, metric, _, _, flags, interface] = words[..] else { return None };
        let number = |word| u32::from_str_radix(word, 16).ok();
        (length == "00" && is_usable(number(flags))).then_some(())?;
        Some((number(metric)?, interface.to_owned()))
    };
    table.lines().filter_map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPV4: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wwan0\t00000000\t0A034010\t0003\t0\t0\t700\t00000000\t0\t0\t0
wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
wlan0\t0001A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0
tun0\t00000000\t00000000\t0001\t0\t0\t50\t00000080\t0\t0\t0
";
    const NONE: &str = "00000000000000000000000000000000";

    #[test]
    fn the_least_metric_comes_first_and_each_interface_once() {
        let route = |length, metric, flags, interface| {
            format!("{NONE} {length} {NONE} 00 {NONE} {metric} 1 0 {flags} {interface}\n")
        };
        let ipv6 = route("00", "00000400", "00000003", "eth0")
            + &route("00", "00000100", "00000003", "wlan0")
            + &route("00", "ffffffff", "00200200", "lo")
            + &route("40", "00000100", "00000001", "eth1");
        assert_eq!(parse(IPV4, &ipv6), ["wlan0", "wwan0", "eth0"]);
        assert!(parse("", "").is_empty());
    }

    #[test]
    fn a_route_leads_to_what_is_in_its_network() {
        let at = |text: &str| text.parse::<Ipv4Addr>().unwrap();
        assert!(leads_ipv4(IPV4, "wlan0", at("203.0.113.5")), "by its default route");
        let near = IPV4.lines().filter(|line| line.contains("0001A8C0")).collect::<String>();
        assert!(leads_ipv4(&near, "wlan0", at("192.168.1.9")));
        assert!(!leads_ipv4(&near, "wlan0", at("203.0.113.5")));
        assert!(!leads_ipv4(IPV4, "eth0", at("203.0.113.5")));
        let at = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        let network = "20010db8000000000000000000000000";
        let line = format!("{network} 20 {NONE} 00 {NONE} 100 1 0 00000001 eth0\n");
        assert!(leads_ipv6(&line, "eth0", at("2001:db8::7")));
        assert!(!leads_ipv6(&line, "eth0", at("2001:db9::7")));
        assert!(!leads_ipv6(&line, "eth1", at("2001:db8::7")));
    }
}
