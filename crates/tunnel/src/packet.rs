//! What a node looks at in an IP packet: which flow it is of, and the MSS of a TCP handshake.

use std::net::IpAddr;

/// IP protocol numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Bytes of the fixed headers.
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;

/// The flag of a TCP segment that opens a connection, and where flags are (RFC 9293 §3.1).
const SYN: u8 = 0x02;
const FLAGS: usize = 13;

/// TCP options (RFC 9293 §3.2).
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_MSS: u8 = 2;

/// A packet's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    protocol: u8,
    /// Where both addresses are.
    addresses: (usize, usize),
    /// Where the transport header begins; `None` in a fragment other than the first.
    transport: Option<usize>,
}

/// The parts of an IPv4 packet, or of an IPv6 packet without extension headers (others are told
/// apart by addresses only); `None` if it is neither.
fn parts(packet: &[u8]) -> Option<Parts> {
    let first = *packet.first()?;
    match first >> 4 {
        4 => {
            let header = usize::from(first & 0xf) * 4;
            if header < 20 || packet.len() < header {
                return None;
            }
            let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff;
            let transport = (fragment == 0).then_some(header);
            Some(Parts { protocol: packet[9], addresses: (12, 20), transport })
        }
        6 if packet.len() >= IPV6_HEADER => {
            let protocol = packet[6];
            let known = protocol == TCP || protocol == UDP;
            let transport = known.then_some(IPV6_HEADER);
            Some(Parts { protocol, addresses: (8, 40), transport })
        }
        _ => None,
    }
}

/// The number of the flow that a packet is of, from its addresses, protocol and ports; flows that
/// share a number are coded, and ordered, as one, which costs them nothing but that. So a node
/// keeps nothing for a flow that it could run out of. `None` if it is no IP packet.
pub(crate) fn flow(packet: &[u8]) -> Option<u16> {
    let parts = parts(packet)?;
    let (from, to) = parts.addresses;
    let mut hash = mix(0x9e37_79b9_7f4a_7c15, u64::from(parts.protocol));
    for four in packet[from..to].chunks_exact(4) {
        let four = u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
        hash = mix(hash, u64::from(four));
    }
    let ports = parts.transport.filter(|_| matches!(parts.protocol, TCP | UDP));
    if let Some(ports) = ports.and_then(|at| packet.get(at..at + 4)) {
        hash = mix(hash, u64::from(u32::from_be_bytes([ports[0], ports[1], ports[2], ports[3]])));
    }
    Some((hash >> 48) as u16)
}

/// Where an IP packet is from and where it is to; `None` if it is none.
pub(crate) fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let (from, to) = parts(packet)?.addresses;
    let (source, destination) = packet.get(from..to)?.split_at((to - from) / 2);
    let address = |bytes: &[u8]| match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    };
    Some((address(source)?, address(destination)?))
}

/// A step of a multiply-and-fold hash.
fn mix(hash: u64, value: u64) -> u64 {
    let wide = u128::from(hash ^ value) * 0x2545_f491_4f6c_dd1d_u128;
    (wide >> 64) as u64 ^ wide as u64 ^ hash.rotate_left(23)
}

/// Lowers the MSS option of a TCP SYN so that its segments fit into packets of `mtu` bytes (RFC
/// 6691); whether it did.
pub(crate) fn clamp_mss(packet: &mut [u8], mtu: u16) -> bool {
    let Some(Parts { protocol: TCP, transport: Some(at), addresses }) = parts(packet) else {
        return false;
    };
    let Some(tcp) = packet.get_mut(at..).filter(|tcp| tcp.len() >= TCP_HEADER) else {
        return false;
    };
    let header = usize::from(tcp[12] >> 4) * 4;
    if tcp[FLAGS] & SYN == 0 || header < TCP_HEADER || header > tcp.len() {
        return false;
    }
    let ip = if addresses.0 == 12 { 20 } else { IPV6_HEADER };
    let most = usize::from(mtu).saturating_sub(ip + TCP_HEADER) as u16;
    let Some(option) = mss_option(&tcp[TCP_HEADER..header]).map(|at| TCP_HEADER + at) else {
        return false;
    };
    let value = u16::from_be_bytes([tcp[option], tcp[option + 1]]);
    if value <= most {
        return false;
    }
    // The option may be at an odd place: both of its bytes are then changed in their own words.
    let words = option & !1..(option + 3) & !1;
    let before = sum(&tcp[words.clone()]);
    tcp[option..option + 2].copy_from_slice(&most.to_be_bytes());
    let after = sum(&tcp[words]);
    let checksum = u16::from_be_bytes([tcp[16], tcp[17]]);
    // RFC 1624, equation 3.
    let mut new = u32::from(!checksum) + (0xffff - fold(before)) + fold(after);
    new = fold(new);
    tcp[16..18].copy_from_slice(&(!(new as u16)).to_be_bytes());
    true
}

/// Where the value of the MSS option is.
fn mss_option(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < options.len() {
        match options[at] {
            OPTION_END => return None,
            OPTION_NOP => at += 1,
            kind => {
                let length = usize::from(*options.get(at + 1)?);
                if length < 2 || at + length > options.len() {
                    return None;
                }
                if kind == OPTION_MSS && length == 4 {
                    return Some(at + 2);
                }
                at += length;
            }
        }
    }
    None
}

fn sum(words: &[u8]) -> u32 {
    words.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum()
}

fn fold(sum: u32) -> u32 {
    let once = (sum & 0xffff) + (sum >> 16);
    (once & 0xffff) + (once >> 16)
}

#[cfg(test)]
mod tests {
    use etherparse::{IpHeaders, PacketBuilder, TcpOptionElement, TcpSlice};
    use proptest::prelude::*;

    use super::*;

    fn syn(v6: bool, ports: (u16, u16), options: &[TcpOptionElement]) -> Vec<u8> {
        let builder = if v6 {
            PacketBuilder::ipv6([1; 16], [2; 16], 64)
        } else {
            PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        };
        let builder = builder.tcp(ports.0, ports.1, 7, 1000).syn().options(options).unwrap();
        let mut packet = Vec::new();
        builder.write(&mut packet, b"").unwrap();
        packet
    }

    /// The MSS in a packet whose checksum is right.
    fn checked_mss(packet: &[u8]) -> Option<u16> {
        let (ip, payload) = IpHeaders::from_slice(packet).unwrap();
        let tcp = TcpSlice::from_slice(payload.payload).unwrap();
        let checksum = match &ip {
            IpHeaders::Ipv4(v4, _) => tcp.calc_checksum_ipv4(v4.source, v4.destination),
            IpHeaders::Ipv6(v6, _) => tcp.calc_checksum_ipv6(v6.source, v6.destination),
        };
        assert_eq!(checksum.unwrap(), tcp.checksum());
        tcp.options_iterator().flatten().find_map(|option| match option {
            TcpOptionElement::MaximumSegmentSize(mss) => Some(mss),
            _ => None,
        })
    }

    #[test]
    fn the_mss_is_lowered_wherever_it_is() {
        use TcpOptionElement::{MaximumSegmentSize, Noop, WindowScale};
        for v6 in [false, true] {
            let most = if v6 { 1340 } else { 1360 };
            for options in [
                &[MaximumSegmentSize(1460)][..],
                &[Noop, MaximumSegmentSize(1460)],
                &[WindowScale(7), Noop, Noop, MaximumSegmentSize(65_535)],
            ] {
                let mut packet = syn(v6, (1, 2), options);
                assert!(clamp_mss(&mut packet, 1400));
                assert_eq!(checked_mss(&packet), Some(most));
                assert!(!clamp_mss(&mut packet, 1400), "it fits now");
            }
            let mut small = syn(v6, (1, 2), &[MaximumSegmentSize(536)]);
            assert!(!clamp_mss(&mut small, 1400));
            let mut without = syn(v6, (1, 2), &[WindowScale(7)]);
            assert!(!clamp_mss(&mut without, 1400));
        }
    }

    #[test]
    fn flows_are_told_apart() {
        let one = flow(&syn(false, (1000, 80), &[])).unwrap();
        assert_eq!(one, flow(&syn(false, (1000, 80), &[TcpOptionElement::Noop])).unwrap());
        let mut numbers: Vec<_> =
            (1..=1000).map(|port| flow(&syn(port % 2 == 0, (port, 80), &[])).unwrap()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert!(numbers.len() > 970, "{} of 1000", numbers.len());
        assert_eq!(flow(b""), None);
        assert_eq!(flow(&[0x45; 8]), None);
    }

    proptest! {
        /// Of anything: no panic, and only a SYN's option and checksum change.
        #[test]
        fn anything_is_looked_at(
            mut bytes in prop::collection::vec(any::<u8>(), 0..120),
            v6: bool,
            mtu: u16,
        ) {
            if let Some(first) = bytes.first_mut() {
                *first = if v6 { 0x60 } else { 0x45 };
            }
            let _ = flow(&bytes);
            let before = bytes.clone();
            if !clamp_mss(&mut bytes, mtu) {
                prop_assert_eq!(before, bytes);
            }
        }
    }
}
