//! The interfaces that have a default route, for `--path auto`.

use std::fs;

/// Flags of a route that is up, and of one that refuses (linux/route.h).
const UP: u32 = 0x0001;
const REJECT: u32 = 0x0200;

/// The interfaces with a default route in the main table, IPv4 before IPv6, those of the least
/// metric first, each once.
pub(crate) fn interfaces() -> Vec<String> {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    parse(&read("/proc/net/route"), &read("/proc/net/ipv6_route"))
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
        let flags = u32::from_str_radix(flags, 16).ok()?;
        let is_default = [destination, mask] == ["00000000"; 2] && flags & UP != 0;
        (is_default && flags & REJECT == 0).then_some(())?;
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
        let flags = number(flags)?;
        (length == "00" && flags & UP != 0 && flags & REJECT == 0).then_some(())?;
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
}
