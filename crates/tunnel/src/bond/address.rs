//! Where packets are from and go to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use weftline_core::Instant;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;

/// A packet's ends, and its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) protocol: u8,
    /// Ports are 0 where there are none.
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    /// Where its transport header begins; `None` in a fragment.
    pub(super) transport: Option<usize>,
}

impl Ends {
    /// Of a packet; `None` if it is no IP packet.
    pub(super) fn of(packet: &[u8]) -> Option<Self> {
        let (protocol, from, to, transport): (u8, IpAddr, IpAddr, Option<usize>) =
            match packet.first()? >> 4 {
                4 => {
                    let header = usize::from(packet[0] & 15) * 4;
                    let fixed: &[u8; 20] = packet.first_chunk()?;
                    if header < 20 || packet.len() < header {
                        return None;
                    }
                    let address =
                        |at: usize| <[u8; 4]>::try_from(&fixed[at..at + 4]).ok().map(IpAddr::from);
                    // Neither an offset nor that more follow.
                    let is_whole = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff == 0;
                    (fixed[9], address(12)?, address(16)?, is_whole.then_some(header))
                }
                6 => {
                    let fixed: &[u8; 40] = packet.first_chunk()?;
                    let address = |at: usize| {
                        <[u8; 16]>::try_from(&fixed[at..at + 16]).ok().map(IpAddr::from)
                    };
                    (fixed[6], address(8)?, address(24)?, Some(40))
                }
                _ => return None,
            };
        let ports = transport.filter(|_| matches!(protocol, TCP | UDP));
        let ports = ports.and_then(|at| packet.get(at..at + 4));
        let port =
            |at: usize| ports.map_or(0, |ports| u16::from_be_bytes([ports[at], ports[at + 1]]));
        let (from, to) = (SocketAddr::new(from, port(0)), SocketAddr::new(to, port(2)));
        Some(Self { protocol, from, to, transport })
    }

    /// Whether its flow can be told: it is UDP, or ICMP.
    pub(super) fn is_counted(&self) -> bool {
        matches!(self.protocol, UDP | ICMP | ICMP_V6)
    }

    /// Whether it is a datagram of UDP to this port.
    pub(super) fn is_udp_to(&self, port: u16) -> bool {
        self.protocol == UDP && self.transport.is_some() && self.to.port() == port
    }
}

/// Where a packet goes.
pub(super) fn destination_of(packet: &[u8]) -> Option<IpAddr> {
    Ends::of(packet).map(|ends| ends.to.ip())
}

/// Whether a packet is of TCP.
pub(super) fn is_tcp(packet: &[u8]) -> bool {
    Ends::of(packet).is_some_and(|ends| ends.protocol == TCP)
}

/// Whether a packet is of IPv6.
pub(super) fn is_ipv6(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 6)
}

/// The longest packet that every link of IPv6 carries, in bytes (RFC 8200 §5), and that of errors (RFC 4443
/// §2.4); and the longest error of IPv4 (RFC 1812 §4.3.2.3).
const LEAST_V6: usize = 1280;
const MOST_ERROR_V4: usize = 576;

/// The packet that tells the sender of a packet of IPv6 that there is no way to where it goes (RFC 4443
/// §3.1); none if that is not for one machine, or an error itself.
pub(super) fn unreachable(packet: &[u8]) -> Option<Vec<u8>> {
    let ends = Ends::of(packet)?;
    // Destination unreachable: no route.
    ends.from.is_ipv6().then(|| error_v6(packet, &ends, [1, 0], 0)).flatten()
}

/// The packet that tells the sender of one that it is not let through; none as for [`too_long`]. A connected
/// socket of UDP hears of no other reason (`icmp_err_convert`, `tab_unreach`: the ones that are fatal), and its
/// program opens another one, with an address that has a way.
pub(super) fn refused(packet: &[u8]) -> Option<Vec<u8>> {
    let ends = Ends::of(packet)?;
    // Destination unreachable: administratively prohibited.
    match ends.from.is_ipv4() {
        true => error_v4(packet, &ends, [3, 13], 0),
        false => error_v6(packet, &ends, [1, 1], 0),
    }
}

/// The packet that tells the sender of one that it is too long, and that `most` bytes are not (RFC 1191 §4,
/// RFC 4443 §3.2); none if that is not for one machine, or an error itself, or what every link of IPv6 is to
/// carry.
pub(super) fn too_long(packet: &[u8], most: usize) -> Option<Vec<u8>> {
    let ends = Ends::of(packet)?;
    if ends.from.is_ipv4() {
        return error_v4(packet, &ends, [3, 4], u16::try_from(most).ok()?.into());
    }
    let most = u32::try_from(most.max(LEAST_V6)).ok()?;
    (packet.len() > LEAST_V6).then(|| error_v6(packet, &ends, [2, 0], most)).flatten()
}

/// An error by ICMPv6 of this type and code, with a number that goes with it.
fn error_v6(packet: &[u8], ends: &Ends, kind: [u8; 2], number: u32) -> Option<Vec<u8>> {
    let (IpAddr::V6(from), IpAddr::V6(to)) = (ends.from.ip(), ends.to.ip()) else { return None };
    let is_error = ends.protocol == ICMP_V6 && packet.get(40).is_none_or(|kind| *kind < 128);
    if is_error || to.is_multicast() || from.is_unspecified() || from.is_multicast() {
        return None;
    }
    let quoted = &packet[..packet.len().min(LEAST_V6 - 40 - 8)];
    let length = u16::try_from(8 + quoted.len()).ok()?;
    let mut told = vec![0x60, 0, 0, 0];
    told.extend_from_slice(&length.to_be_bytes());
    told.extend_from_slice(&[ICMP_V6, 64]);
    told.extend_from_slice(&to.octets());
    told.extend_from_slice(&from.octets());
    told.extend_from_slice(&[kind[0], kind[1], 0, 0]);
    told.extend_from_slice(&number.to_be_bytes());
    told.extend_from_slice(quoted);
    let sum = u64::from(ICMP_V6) + u64::from(length) + sum_of(&told[8..]);
    told[42..44].copy_from_slice(&(!fold(sum)).to_be_bytes());
    Some(told)
}

/// The same by ICMP.
fn error_v4(packet: &[u8], ends: &Ends, kind: [u8; 2], number: u32) -> Option<Vec<u8>> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (ends.from.ip(), ends.to.ip()) else { return None };
    let header = usize::from(packet[0] & 15) * 4;
    let is_error = |kind: &u8| matches!(kind, 3 | 4 | 5 | 11 | 12);
    let is_error = ends.protocol == ICMP && packet.get(header).is_none_or(is_error);
    let is_later_fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff != 0;
    let is_for_many = |address: Ipv4Addr| address.is_multicast() || address.is_broadcast();
    if is_error
        || is_later_fragment
        || from.is_unspecified()
        || is_for_many(from)
        || is_for_many(to)
    {
        return None;
    }
    let quoted = &packet[..packet.len().min(MOST_ERROR_V4 - 20 - 8)];
    let mut told = header_v4(ICMP, (to, from), 8 + quoted.len())?;
    told.extend_from_slice(&[kind[0], kind[1], 0, 0]);
    told.extend_from_slice(&number.to_be_bytes());
    told.extend_from_slice(quoted);
    let checksum = !fold(sum_of(&told[20..]));
    told[22..24].copy_from_slice(&checksum.to_be_bytes());
    Some(told)
}

/// A header of IPv4, for so many bytes after it.
fn header_v4(protocol: u8, (from, to): (Ipv4Addr, Ipv4Addr), length: usize) -> Option<Vec<u8>> {
    let length = u16::try_from(length + 20).ok()?;
    let mut header = vec![0x45, 0];
    header.extend_from_slice(&length.to_be_bytes());
    // No number and no fragment, 64 hops.
    header.extend_from_slice(&[0, 0, 0, 0, 64, protocol, 0, 0]);
    header.extend_from_slice(&from.octets());
    header.extend_from_slice(&to.octets());
    let checksum = !fold(sum_of(&header));
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    Some(header)
}

/// How often senders are told of errors (RFC 1812 §4.3.2.8, RFC 4443 §2.4 (f)).
#[derive(Debug, Default)]
pub(super) struct ErrorPace {
    /// When a whole burst may be told again.
    free_at: Instant,
}

impl ErrorPace {
    /// Whether one more may be told now.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        const EACH: Duration = Duration::from_millis(10);
        const BURST: u32 = 50;
        let free_at = self.free_at.max(now) + EACH;
        let may = free_at.since(now) <= EACH * BURST;
        if may {
            self.free_at = free_at;
        }
        may
    }
}

/// A packet of UDP, with its checksums.
pub(super) fn udp_packet(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(8 + payload.len()).ok()?;
    let mut packet = Vec::with_capacity(48 + payload.len());
    let mut sum = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            packet = header_v4(UDP, (from, to), length.into())?;
            sum_of(&packet[12..20])
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            packet.extend_from_slice(&[0x60, 0, 0, 0]);
            packet.extend_from_slice(&length.to_be_bytes());
            packet.extend_from_slice(&[UDP, 64]);
            packet.extend_from_slice(&from.octets());
            packet.extend_from_slice(&to.octets());
            sum_of(&packet[8..40])
        }
        _ => return None,
    };
    let at = packet.len();
    packet.extend_from_slice(&from.port().to_be_bytes());
    packet.extend_from_slice(&to.port().to_be_bytes());
    packet.extend_from_slice(&length.to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(payload);
    sum += u64::from(UDP) + u64::from(length) + sum_of(&packet[at..]);
    // Zero says that there is none.
    let checksum = match !fold(sum) {
        0 => u16::MAX,
        checksum => checksum,
    };
    packet[at + 6..at + 8].copy_from_slice(&checksum.to_be_bytes());
    Some(packet)
}

fn sum_of(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2);
    words.map(|word| u64::from(u16::from_be_bytes([word[0], *word.get(1).unwrap_or(&0)]))).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use etherparse::{IpHeaders, UdpSlice};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn packets_are_made_as_others_read_them() {
        for (from, to) in
            [("192.0.2.1:53", "10.87.0.2:4000"), ("[2001:db8::1]:53", "[fd57::2]:4000")]
        {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            for payload in [&b"an answer"[..], b"", &[0xff; 1001]] {
                let packet = udp_packet(from, to, payload).unwrap();
                let (ip, rest) = IpHeaders::from_slice(&packet).unwrap();
                let udp = UdpSlice::from_slice(rest.payload).unwrap();
                let checksum = match &ip {
                    IpHeaders::Ipv4(v4, _) => {
                        assert_eq!(v4.header_checksum, v4.calc_header_checksum());
                        udp.to_header().calc_checksum_ipv4(v4, udp.payload())
                    }
                    IpHeaders::Ipv6(v6, _) => udp.to_header().calc_checksum_ipv6(v6, udp.payload()),
                };
                assert_eq!(udp.checksum(), checksum.unwrap());
                assert_eq!(udp.payload(), payload);
                let ends = Ends::of(&packet).unwrap();
                assert_eq!((ends.from, ends.to), (from, to));
                assert!(ends.is_udp_to(4000) && !ends.is_udp_to(53) && !is_tcp(&packet));
            }
        }
    }

    #[test]
    fn what_has_no_way_is_told_so() {
        let (from, to) = ("[fd57::2]:4000".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap());
        let packet = udp_packet(from, to, &[7; 1300]).unwrap();
        let told = unreachable(&packet).unwrap();
        let (ip, rest) = IpHeaders::from_slice(&told).unwrap();
        let IpHeaders::Ipv6(ip, _) = ip else { panic!("{ip:?}") };
        assert_eq!(
            (ip.source_addr().to_string(), ip.destination_addr().to_string()),
            ("2001:db8::1".to_owned(), "fd57::2".to_owned())
        );
        let icmp = etherparse::Icmpv6Slice::from_slice(rest.payload).unwrap();
        assert!(icmp.is_checksum_valid(ip.source, ip.destination));
        assert_eq!((icmp.type_u8(), icmp.code_u8(), told.len()), (1, 0, 1280));
        // Of an error, of what is for many, and of IPv4 nothing is told.
        assert_eq!((unreachable(&told), refused(&told)), (None, None));
        let many = udp_packet(from, "[ff02::1]:9".parse().unwrap(), b"all").unwrap();
        assert_eq!(unreachable(&many), None);
        let v4 = udp_packet("10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap(), b"x");
        assert_eq!(unreachable(&v4.unwrap()), None);
    }

    #[test]
    fn what_is_too_long_is_told_how_long_it_may_be() {
        let v4: [SocketAddr; 2] =
            ["10.87.0.2:4000", "198.51.100.9:443"].map(|one| one.parse().unwrap());
        let packet = udp_packet(v4[0], v4[1], &[7; 1300]).unwrap();
        let told = too_long(&packet, 1228).unwrap();
        let (ip, rest) = IpHeaders::from_slice(&told).unwrap();
        let IpHeaders::Ipv4(ip, _) = ip else { panic!("{ip:?}") };
        assert_eq!((ip.source, ip.destination), ([198, 51, 100, 9], [10, 87, 0, 2]));
        assert_eq!(ip.header_checksum, ip.calc_header_checksum());
        let icmp = etherparse::Icmpv4Slice::from_slice(rest.payload).unwrap();
        assert_eq!(fold(sum_of(icmp.slice())), u16::MAX);
        let etherparse::Icmpv4Type::DestinationUnreachable(
            etherparse::icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu },
        ) = icmp.icmp_type()
        else {
            panic!("{icmp:?}")
        };
        assert_eq!((next_hop_mtu, icmp.payload()), (1228, &packet[..548]));
        let v6: [SocketAddr; 2] =
            ["[fd57::2]:4000", "[2001:db8::1]:443"].map(|one| one.parse().unwrap());
        let packet = udp_packet(v6[0], v6[1], &[7; 1300]).unwrap();
        for (most, said) in [(1300, 1300), (1228, 1280)] {
            let told = too_long(&packet, most).unwrap();
            let (ip, rest) = IpHeaders::from_slice(&told).unwrap();
            let IpHeaders::Ipv6(ip, _) = ip else { panic!("{ip:?}") };
            let icmp = etherparse::Icmpv6Slice::from_slice(rest.payload).unwrap();
            assert!(icmp.is_checksum_valid(ip.source, ip.destination));
            let expected = etherparse::Icmpv6Type::PacketTooBig { mtu: said };
            assert_eq!((icmp.icmp_type(), told.len()), (expected, 1280));
        }
        // Of errors, later fragments, what is for many, and what every link carries nothing is told.
        assert_eq!((too_long(&told, 1), too_long(&unreachable(&packet).unwrap(), 1)), (None, None));
        let short = udp_packet(v6[0], v6[1], &[7; 1232]).unwrap();
        assert_eq!(too_long(&short, 1228), None);
        let mut later = udp_packet(v4[0], v4[1], &[7; 1300]).unwrap();
        later[7] = 1;
        assert_eq!(too_long(&later, 1228), None);
        let many = udp_packet(v4[0], "224.0.0.1:9".parse().unwrap(), &[7; 1300]).unwrap();
        assert_eq!(too_long(&many, 1228), None);
        let mut pace = ErrorPace::default();
        let at = Instant::from_millis(5);
        assert_eq!((0..1000).filter(|_| pace.take(at)).count(), 50);
        let later = at + Duration::from_millis(100);
        assert_eq!((0..1000).filter(|_| pace.take(later)).count(), 10);
    }

    proptest! {
        #[test]
        fn anything_is_looked_at(mut bytes in prop::collection::vec(any::<u8>(), 0..80), v6: bool) {
            if let Some(first) = bytes.first_mut() {
                *first = if v6 { 0x60 } else { 0x40 | *first & 15 };
            }
            let _ = (Ends::of(&bytes), unreachable(&bytes), refused(&bytes), too_long(&bytes, 40));
        }
    }
}
