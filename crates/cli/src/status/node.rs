//! A node of a coded tunnel, as `status` shows it.

use std::collections::BTreeMap;

use super::text::{bytes, lines, ms, new_table, rate};
use crate::ops::node::{Device, Link, Node};

/// Links, devices, what waits and what was counted.
pub(super) fn show(node: &Node) -> String {
    let mut text = format!("{}\n", links(&node.links).join("\n"));
    if !node.devices.is_empty() {
        text += &format!("\n{}\n", devices(&node.devices).join("\n"));
    }
    text += &format!("\nwaiting: {} packets\n", node.waiting_packets);
    let drops = |link: &Link| {
        counted(&link.unsent).map(|list| format!("not sent to {}: {list}\n", link.name))
    };
    text.extend(node.links.iter().filter_map(drops));
    let swallowed = node.links.iter().filter(|link| link.swallowed > 0).map(|link| {
        format!("sent to {}, and too long for a link of the way: {}\n", link.name, link.swallowed)
    });
    text.extend(swallowed);
    text.extend(counted(&node.dropped).map(|list| format!("dropped: {list}\n")));
    text.extend(counted(&node.counters).map(|list| format!("counted: {list}\n")));
    text
}

fn links(links: &[Link]) -> Vec<String> {
    let mut table = new_table(&[
        "link",
        "state",
        "peer",
        "rtt",
        "lag",
        "rate",
        "sending",
        "receiving",
        "sent",
        "received",
    ]);
    for link in links {
        table.add_row([
            link.name.clone(),
            state(link.up),
            link.peer.clone().unwrap_or_else(|| "-".to_owned()),
            ms(link.rtt_ms),
            ms(link.lag_ms),
            rate(link.rate_mbps),
            rate(link.send_mbps),
            rate(link.receive_mbps),
            bytes(link.sent_bytes),
            bytes(link.received_bytes),
        ]);
    }
    lines(table, 3)
}

fn devices(devices: &[Device]) -> Vec<String> {
    let mut table = new_table(&["device", "state", "through", "waiting"]);
    for device in devices {
        let through = match device.through.is_empty() {
            true => "-".to_owned(),
            false => device.through.join("+"),
        };
        let waiting = device.waiting_packets.to_string();
        table.add_row([device.name.clone(), state(device.up), through, waiting]);
    }
    lines(table, 3)
}

fn state(up: bool) -> String {
    if up { "up" } else { "down" }.to_owned()
}

/// What has happened at least once.
fn counted(counts: &BTreeMap<String, u64>) -> Option<String> {
    let happened = counts.iter().filter(|(_, count)| **count > 0);
    let list: Vec<_> = happened.map(|(name, count)| format!("{name} {count}")).collect();
    (!list.is_empty()).then(|| list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_no_figure_and_what_did_not_happen_is_left_out() {
        let link = Link {
            name: "mmwave".to_owned(),
            up: true,
            peer: None,
            rtt_ms: Some(2.04),
            lag_ms: None,
            rate_mbps: Some(300.0),
            sent_bytes: 12_000,
            received_bytes: 0,
            sessions: 1,
            swallowed: 4,
            wrong: 0,
            unsent: [("no_room", 3), ("too_long", 0)].map(|(n, v)| (n.to_owned(), v)).into(),
            send_mbps: None,
            receive_mbps: None,
        };
        let device = Device {
            name: "headset".to_owned(),
            up: false,
            through: Vec::new(),
            waiting_packets: 7,
            counters: BTreeMap::new(),
        };
        let node = Node {
            at_s: 5.0,
            role: "gateway".to_owned(),
            links: vec![link],
            devices: vec![device],
            waiting_packets: 7,
            dropped: BTreeMap::new(),
            counters: [("packets_received".to_owned(), 5)].into(),
        };
        let text = show(&node);
        let words = |line: usize| {
            text.lines().nth(line).unwrap_or_default().split_whitespace().collect::<Vec<_>>()
        };
        let row = ["mmwave", "up", "-", "2.0ms", "-", "300.0Mbps", "-", "-", "12.0kB", "0B"];
        assert_eq!(words(1), row);
        assert_eq!(words(4), ["headset", "down", "-", "7"]);
        // Asked a second later it says how it was 0.8 s later.
        let mut now = Node { at_s: 5.8, ..node.clone() };
        now.links[0].sent_bytes += 1_000_000;
        now.rates_since(&node, 1.0);
        let rate = now.links[0].send_mbps.unwrap();
        assert!((rate - 10.0).abs() < 1e-6, "{rate}");
        assert!(text.contains("waiting: 7 packets\nnot sent to mmwave: no_room 3\n"), "{text}");
        assert!(
            text.contains("\nsent to mmwave, and too long for a link of the way: 4\n"),
            "{text}"
        );
        assert!(text.ends_with("counted: packets_received 5\n"), "{text}");
    }
}
