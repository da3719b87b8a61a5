//! How a gateway sends, as its user chooses it, and what follows from that for packets' lengths.

use std::time::Duration;

use weftline_coding::Limits;
use weftline_coding::generation::LENGTH_BYTES;
use weftline_coding::node::{Mode, NodeConfig, QueueConfig, Redundancy};

use crate::TunnelError;
use crate::frame::{
    CODED_HEADER, Coding, INTERVALS, MAX_BUFFER, PACKET_BYTES, PACKET_HEADER, Settings,
};
use crate::reorder;
use crate::secure::Local;

/// Bytes of the headers below a datagram: IPv6's, so that IPv4 fits as well, and UDP's.
const IP_UDP: u16 = 40 + 8;
/// Bytes of a COTAG packet's header before its coefficients (docs/protocol.md, "COTAG packets").
const COTAG_HEADER: u16 = 20;
/// The least MTU that IPv6 needs (RFC 8200 §5).
pub const IPV6_MTU: u16 = 1280;
/// The longest wait of a device for a packet that is missing, when nothing is coded.
pub(crate) const PATIENCE: Duration = Duration::from_millis(30);

/// Whether and how packets are coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Packets go out as they are, and redundant ones are combinations.
    #[default]
    Systematic,
    /// All packets are combinations (COTAG §III-B).
    Dense,
    /// Nothing is coded: each packet goes once, over whichever link has room.
    Plain,
}

/// How a gateway sends. The other nodes hear it from the gateway.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// Whether and how packets are coded.
    pub scheme: Scheme,
    /// T: packets that come within it are a cohort.
    pub interval: Duration,
    /// The most packets of a generation, G.
    pub generation: u8,
    /// The most redundant packets, in percent of the others.
    pub redundancy_percent: u32,
    /// Whether there are so many where links have room, or as many as the device's losses call for.
    pub redundancy: Redundancy,
    /// The most packets that a node holds.
    pub buffer_packets: u32,
    /// The least MTU of all links between nodes.
    pub link_mtu: u16,
    /// Whether packets are sent on as they come, and only what is redundant waits for the end of
    /// its interval; not in the dense scheme.
    pub cut_through: bool,
    /// The gateway's queue, where packets wait until a link has room; `None` is the paper's gateway,
    /// which gives away what links cannot carry within T.
    pub queue: Option<QueueConfig>,
}

impl Default for Sending {
    /// Systematic, T of 10 ms, in which links of 40 Mb/s carry a generation, G of 32, redundancy as losses call for, 4096 packets held,
    /// links of 1500 bytes, a queue, cut-through: with it TCP has more of what the links carry, and packets
    /// wait less (docs/performance.md).
    fn default() -> Self {
        Self {
            scheme: Scheme::Systematic,
            interval: Duration::from_millis(10),
            generation: 32,
            redundancy_percent: 100,
            redundancy: Redundancy::Learned,
            buffer_packets: 4096,
            link_mtu: 1500,
            cut_through: true,
            queue: Some(QueueConfig::default()),
        }
    }
}

impl Sending {
    /// What the longest IP packet in the tunnel has, so that it fits into the links' datagrams
    /// however it is coded. It is the same without coding: what a comparison compares is then the
    /// coding only.
    ///
    /// # Errors
    /// If the links' MTU leaves nothing.
    pub(crate) fn tunnel_mtu(&self, local: &Local, ipv6: bool) -> Result<u16, TunnelError> {
        let coefficients = u16::from(self.generation.max(4));
        let coding = COTAG_HEADER + coefficients + LENGTH_BYTES as u16;
        let sealed = (local.overhead() + local.packet_overhead()) as u16;
        let taken = IP_UDP + sealed + CODED_HEADER.max(PACKET_HEADER) as u16 + coding;
        let left = self.link_mtu.saturating_sub(taken);
        let least = if ipv6 { IPV6_MTU } else { 576 };
        if left < least {
            let needs = if ipv6 { " (IPv6 needs them)" } else { "" };
            return Err(TunnelError::Usage(format!(
                "links of {} bytes leave packets of {left} bytes in the tunnel, fewer than \
                 {least}{needs}; give a --link-mtu of {} or more, or a smaller --generation",
                self.link_mtu,
                taken + least,
            )));
        }
        Ok(left.min(*PACKET_BYTES.end() - local.packet_overhead() as u16))
    }

    /// What the nodes tell each other.
    ///
    /// # Errors
    /// If something is out of range.
    pub(crate) fn settings(&self, local: &Local, ipv6: bool) -> Result<Settings, TunnelError> {
        let refuse = TunnelError::setting;
        let Self { generation, buffer_packets, redundancy_percent, .. } = self;
        if !INTERVALS.contains(&self.interval) {
            let interval = format!("{:?}", self.interval);
            let remedy = "give 200us to 200ms; the default is 10ms";
            return Err(refuse(&[("--interval", &interval)], remedy));
        }
        if !self.interval.subsec_nanos().is_multiple_of(1000) {
            // Nodes are told it in these, and would have labels last for another time.
            let interval = format!("{:?}", self.interval);
            return Err(refuse(&[("--interval", &interval)], "give whole microseconds"));
        }
        if *generation == 0 {
            return Err(refuse(&[("--generation", generation)], "give 1 to 255 packets"));
        }
        if !(1..=MAX_BUFFER).contains(buffer_packets) {
            let remedy = format!("give 1 to {MAX_BUFFER} packets");
            return Err(refuse(&[("--buffer", buffer_packets)], &remedy));
        }
        if self.scheme == Scheme::Plain && *buffer_packets > reorder::WINDOW {
            let most = reorder::WINDOW;
            let remedy =
                format!("give at most {most} packets, as many as the device puts in order");
            return Err(refuse(&[("--plain", &""), ("--buffer", buffer_packets)], &remedy));
        }
        if let Some(queue) = &self.queue {
            check_queue(queue)?;
        }
        if *redundancy_percent > 1000 {
            let remedy = "give 0 to 1000 percent";
            return Err(refuse(&[("--redundancy", redundancy_percent)], remedy));
        }
        let packet_bytes = self.tunnel_mtu(local, ipv6)? + local.packet_overhead() as u16;
        let coding = match self.scheme {
            Scheme::Systematic => Coding::Coded(Mode::Systematic),
            Scheme::Dense => Coding::Coded(Mode::Dense),
            Scheme::Plain => Coding::Plain,
        };
        let limits = Limits { packets: self.generation, packet_bytes };
        Ok(Settings {
            coding,
            interval: self.interval,
            limits,
            buffer_packets: self.buffer_packets,
            silent_intervals: 2,
            cut_through: self.cut_through,
        })
    }
}

/// What CoDel's target and interval may be: from less than a packet takes to more than any way.
const QUEUE_TIMES: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(100)..=Duration::from_secs(10);

fn check_queue(queue: &QueueConfig) -> Result<(), TunnelError> {
    let QueueConfig { target, interval, limit_bytes } = *queue;
    let refuse = TunnelError::setting;
    for (option, time) in [("--queue-target", target), ("--queue-interval", interval)] {
        if !QUEUE_TIMES.contains(&time) {
            return Err(refuse(&[(option, &format!("{time:?}"))], "give 100us to 10s"));
        }
    }
    if target > interval {
        let (target, interval) = (format!("{target:?}"), format!("{interval:?}"));
        return Err(refuse(
            &[("--queue-target", &target), ("--queue-interval", &interval)],
            "packets are to wait for less than the interval in which that is judged; give a longer \
             --queue-interval",
        ));
    }
    let packets = limit_bytes / QueueConfig::full_packets(1);
    if !(1..=u64::from(MAX_BUFFER)).contains(&packets) {
        let remedy = format!("give 1 to {MAX_BUFFER} packets");
        return Err(refuse(&[("--queue-packets", &packets)], &remedy));
    }
    Ok(())
}

impl Settings {
    /// The settings of a state machine; only a gateway needs to know how much is redundant.
    pub(crate) fn node(&self, mode: Mode, redundancy_percent: u32) -> NodeConfig {
        NodeConfig {
            interval: self.interval,
            limits: self.limits,
            mode,
            redundancy_percent,
            buffer_packets: self.buffer_packets as usize,
            silent_intervals: self.silent_intervals.into(),
            cut_through: self.cut_through,
            ..NodeConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SecretKey;

    #[test]
    fn what_fits_is_computed_and_what_does_not_is_told() {
        let sending = Sending::default();
        let local = Local::new(SecretKey::from_bytes([1; 32]), false);
        // 1500 - 48 - 29 - 9 - 20 - 32 - 2 - 16
        assert_eq!(sending.tunnel_mtu(&local, true).unwrap(), 1344);
        let small = Sending { link_mtu: 1400, ..sending };
        assert_eq!(small.tunnel_mtu(&local, false).unwrap(), 1244);
        let error = small.tunnel_mtu(&local, true).unwrap_err();
        assert_eq!(
            error.to_string(),
            "links of 1400 bytes leave packets of 1244 bytes in the tunnel, fewer than 1280 (IPv6 \
             needs them); give a --link-mtu of 1436 or more, or a smaller --generation"
        );
        let enough = Sending { link_mtu: 1436, ..sending };
        assert_eq!(enough.tunnel_mtu(&local, true).unwrap(), 1280);
        let queue = QueueConfig::default();
        for bad in [
            Sending { generation: 0, ..sending },
            Sending { interval: Duration::ZERO, ..sending },
            Sending { interval: Duration::from_nanos(1_000_500), ..sending },
            Sending { buffer_packets: 0, ..sending },
            Sending { scheme: Scheme::Plain, buffer_packets: reorder::WINDOW + 1, ..sending },
            Sending { redundancy_percent: 1001, ..sending },
            Sending { queue: Some(QueueConfig { target: Duration::ZERO, ..queue }), ..sending },
            Sending { queue: Some(QueueConfig { limit_bytes: 0, ..queue }), ..sending },
            Sending { queue: Some(QueueConfig { target: 2 * queue.interval, ..queue }), ..sending },
        ] {
            assert_eq!(bad.settings(&local, true).unwrap_err().exit_code(), 2);
        }
        let odd = Sending { interval: Duration::from_nanos(1_000_500), ..sending };
        let said = odd.settings(&local, true).unwrap_err().to_string();
        assert!(said.contains("whole microseconds"), "{said}");
        let even = Sending { interval: Duration::from_micros(1_001), ..sending };
        assert!(even.settings(&local, true).is_ok());
    }
}
