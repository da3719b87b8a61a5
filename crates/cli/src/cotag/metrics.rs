//! A node's metrics for Prometheus (docs/cotag.md).

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use weftline_tunnel::{DeviceStatus, LinkStatus, Publish};

use crate::ops::metrics::Page;

/// What is measured of a node, looked at when it is asked for.
#[derive(Debug)]
pub(super) struct NodeMetrics(pub(super) Publish);

/// A counter's name, what it counts, and where to find it.
type Row = (&'static str, &'static str, fn(&LinkStatus) -> u64);

impl Collector for NodeMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(status) = self.0.status() else { return Ok(()) };
        let mut page = Page(encoder);
        let labels = ("node", status.role, "version", env!("CARGO_PKG_VERSION"));
        let (a, b, c, d) = labels;
        let info = [([(a, b), (c, d)], ConstGauge::<u64>::new(1))];
        page.family("build", "What runs here", info)?;
        let links = || status.links.iter().map(|link| ([("link", &*link.name)], link));
        let up = links().map(|(label, link)| (label, ConstGauge::new(u64::from(link.up))));
        page.family("cotag_link_up", "1 while the neighbour is heard", up)?;
        let rtt = links()
            .filter_map(|(label, link)| Some((label, ConstGauge::new(link.rtt?.as_secs_f64()))));
        page.family("cotag_link_rtt_seconds", "Smoothed round-trip time to the neighbour", rtt)?;
        let rate =
            links().filter_map(|(label, link)| Some((label, ConstGauge::new(link.rate?.as_bps()))));
        page.family(
            "cotag_link_rate_bits_per_second",
            "What is sent at most, set or measured",
            rate,
        )?;
        let lag = links()
            .filter_map(|(label, link)| Some((label, ConstGauge::new(link.lag?.as_secs_f64()))));
        page.family("cotag_link_lag_seconds", "How much later than the nearest one", lag)?;
        let waiting = [([("node", status.role)], ConstGauge::new(status.waiting))];
        page.family("cotag_waiting_packets", "Packets that wait in the node", waiting)?;
        let counters: [Row; 8] = [
            ("cotag_link_sent", "Datagrams sent", |l| l.counters.sent),
            ("cotag_link_sent_bytes", "Their bytes, IP headers included", |l| {
                l.counters.sent_bytes
            }),
            ("cotag_link_received", "Authentic datagrams received", |l| l.counters.received),
            ("cotag_link_received_bytes", "Their bytes, IP headers included", |l| {
                l.counters.received_bytes
            }),
            ("cotag_link_unsent", "Datagrams that could not be sent", |l| {
                l.counters.unsent.total()
            }),
            (
                "cotag_link_swallowed",
                "Longer than what came to the neighbour: a smaller MTU",
                |l| l.counters.swallowed,
            ),
            ("cotag_link_sessions", "Sessions made", |l| l.counters.sessions),
            ("cotag_link_wrong", "What the gateway did not make and may be its", |l| l.wrong),
        ];
        for (name, about, value) in counters {
            let rows = links().map(|(label, link)| (label, ConstCounter::new(value(link))));
            page.family(name, about, rows)?;
        }
        let unsent = links().flat_map(|([(_, name)], link)| {
            link.counters
                .unsent
                .by_reason()
                .map(|(reason, n)| ([("link", name), ("reason", reason)], ConstCounter::new(n)))
        });
        page.family("cotag_link_dropped", "Those that could not be sent, by the reason", unsent)?;
        let dropped = status.dropped.by_reason().into_iter();
        let dropped = dropped.map(|(reason, n)| ([("reason", reason)], ConstCounter::new(n)));
        page.family("cotag_dropped", "Datagrams dropped before anything was believed", dropped)?;
        for counter in &status.counters {
            page.counter(&format!("cotag_{}", counter.name), counter.about, counter.value)?;
        }
        devices(&mut page, &status.devices)
    }
}

/// What is known of each device.
fn devices(page: &mut Page<'_>, devices: &[DeviceStatus]) -> fmt::Result {
    if devices.is_empty() {
        return Ok(());
    }
    let each = || devices.iter().map(|device| (("device", &*device.name), device));
    let up = each().map(|(label, device)| ([label], ConstGauge::new(u64::from(device.up))));
    page.family("cotag_device_up", "1 while the device is heard", up)?;
    let waiting = each().map(|(label, device)| ([label], ConstGauge::new(device.waiting)));
    page.family("cotag_device_waiting_packets", "Packets for the device that wait", waiting)?;
    let through = each().flat_map(|(label, device)| {
        let links = device.through.iter();
        links.map(move |link| ([label, ("link", &**link)], ConstGauge::<u64>::new(1)))
    });
    page.family("cotag_device_reached", "1 for each access point that reaches it", through)?;
    let named: BTreeMap<_, _> = devices
        .iter()
        .flat_map(|device| device.counters.iter().map(|counter| (counter.name, counter.about)))
        .collect();
    for (counter, about) in named {
        let rows = each().filter_map(|(label, device)| {
            let found = device.counters.iter().find(|known| known.name == counter)?;
            Some(([label], ConstCounter::new(found.value)))
        });
        page.family(&format!("cotag_device_{counter}"), about, rows)?;
    }
    Ok(())
}
