//! What is looked at in an IP packet: which flow it is of, and whether its kind alone makes it urgent.

/// IP protocol numbers.
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;
/// The port of DNS.
const DNS: u16 = 53;
/// The code point of expedited forwarding (RFC 3246).
const EXPEDITED: u8 = 46;
const IPV6_HEADER: usize = 40;

/// What a packet says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Its flow: addresses, protocol, and ports or the number of a ping, hashed. Flows that share a number are treated as one.
    pub flow: u64,
    /// Whether it is ICMP, DNS or of the class of expedited forwarding.
    pub is_urgent: bool,
}

impl Look {
    /// Looks at a packet; `None` if it is no IP packet.
    pub fn at(packet: &[u8]) -> Option<Self> {
        Self::of(packet, false)
    }

    /// The flow that a packet answers: that of what goes the other way between the same ends.
    pub(super) fn answered(packet: &[u8]) -> Option<u64> {
        Self::of(packet, true).map(|look| look.flow)
    }

    /// Looks at a packet, or at one that goes the other way.
    fn of(packet: &[u8], is_turned: bool) -> Option<Self> {
        let first = *packet.first()?;
        let (protocol, dscp, addresses, transport) = match first >> 4 {
            4 => {
                let header = usize::from(first & 15) * 4;
                if header < 20 || packet.len() < header {
                    return None;
                }
                let offset = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff;
                (packet[9], packet[1] >> 2, 12..20, (offset == 0).then_some(header))
            }
            6 if packet.len() >= IPV6_HEADER => {
                let class = first << 4 | packet[1] >> 4;
                (packet[6], class >> 2, 8..40, Some(IPV6_HEADER))
            }
            _ => return None,
        };
        let has_ports = matches!(protocol, TCP | UDP);
        let ports = transport.filter(|_| has_ports).and_then(|at| packet.get(at..at + 4));
        // Questions and answers of one ping have its number in common.
        let is_icmp = matches!(protocol, ICMP | ICMP_V6);
        let icmp = transport.filter(|_| is_icmp).and_then(|at| packet.get(at..at + 6));
        let echo = icmp.filter(|icmp| matches!(icmp[0], 0 | 8 | 128 | 129)).map(|icmp| &icmp[4..]);
        let mut flow = mix(0x9e37_79b9_7f4a_7c15, protocol.into());
        let (source, destination) = packet[addresses.clone()].split_at(addresses.len() / 2);
        let ends = if is_turned { [destination, source] } else { [source, destination] };
        let word = |part: &[u8]| u32::from_be_bytes([part[0], part[1], part[2], part[3]]);
        for part in ends.into_iter().flat_map(|end| end.chunks_exact(4)) {
            flow = mix(flow, word(part).into());
        }
        if let Some(ports) = ports.map(word) {
            flow = mix(flow, ports.rotate_left(if is_turned { 16 } else { 0 }).into());
        }
        for id in echo.iter().flat_map(|id| id.chunks_exact(2)) {
            flow = mix(flow, u16::from_be_bytes([id[0], id[1]]).into());
        }
        let is_dns = ports.is_some_and(|ports| {
            ports.chunks_exact(2).any(|port| u16::from_be_bytes([port[0], port[1]]) == DNS)
        });
        let is_urgent = is_icmp || is_dns || dscp == EXPEDITED;
        Some(Self { flow, is_urgent })
    }
}

/// The flags and the offset of a fragment in a header of IPv4: that it must not be cut, that more follow, and
/// the offset in units of eight bytes.
const WHOLE: u16 = 0x4000;
const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
/// A header of IPv4 without options.
const IPV4_HEADER: usize = 20;

/// Cuts a packet of IPv4 into fragments of `most` bytes at most (RFC 791 §3.2). `None` if it must not be cut,
/// as one of IPv6; one with options is not cut either.
pub(super) fn cut(packet: &[u8], most: usize) -> Option<Vec<Vec<u8>>> {
    let header: &[u8; IPV4_HEADER] = packet.first_chunk()?;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let place = u16::from_be_bytes([header[6], header[7]]);
    let each = most.checked_sub(IPV4_HEADER)? & !7;
    if header[0] != 0x45 || place & WHOLE != 0 || each == 0 {
        return None;
    }
    let payload = packet.get(IPV4_HEADER..length)?;
    let mut pieces = Vec::with_capacity(payload.len().div_ceil(each));
    for (n, part) in payload.chunks(each).enumerate() {
        let at = usize::from(place & OFFSET) + n * each / 8;
        let at = u16::try_from(at).ok().filter(|at| at & !OFFSET == 0)?;
        let is_last = n * each + part.len() == payload.len();
        let more = if is_last { place & MORE } else { MORE };
        let mut piece = header.to_vec();
        piece[2..4].copy_from_slice(&((IPV4_HEADER + part.len()) as u16).to_be_bytes());
        piece[6..8].copy_from_slice(&(more | at).to_be_bytes());
        piece[10..12].fill(0);
        let checksum = checksum(&piece);
        piece[10..12].copy_from_slice(&checksum.to_be_bytes());
        piece.extend_from_slice(part);
        pieces.push(piece);
    }
    Some(pieces)
}

/// That of a header (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let words =
        header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

/// A step of a multiply-and-fold hash.
fn mix(hash: u64, value: u64) -> u64 {
    let wide = u128::from(hash ^ value) * 0x2545_f491_4f6c_dd1d_u128;
    (wide >> 64) as u64 ^ wide as u64 ^ hash.rotate_left(23)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An IPv4 packet of UDP between these ports, with `length` bytes in all.
    fn udp(ports: (u16, u16), length: usize) -> Vec<u8> {
        let mut packet = vec![0; length.max(28)];
        packet[0] = 0x45;
        packet[9] = UDP;
        packet[12..20].copy_from_slice(&[10, 87, 0, 2, 198, 51, 100, 9]);
        packet[20..22].copy_from_slice(&ports.0.to_be_bytes());
        packet[22..24].copy_from_slice(&ports.1.to_be_bytes());
        packet
    }

    #[test]
    fn kinds_and_flows_are_told_apart() {
        let call = udp((5000, 6000), 200);
        let look = Look::at(&call).unwrap();
        assert!(!look.is_urgent);
        assert_eq!(Look::at(&udp((5000, 6000), 900)), Some(look), "the same flow");
        assert_ne!(Look::at(&udp((5001, 6000), 200)).unwrap().flow, look.flow);
        let mut answer = udp((6000, 5000), 300);
        answer[12..20].rotate_left(4);
        assert_eq!(
            (Look::answered(&answer), Look::answered(&call)),
            (Some(look.flow), Look::at(&answer).map(|l| l.flow))
        );
        assert!(Look::at(&udp((5000, 53), 60)).unwrap().is_urgent);
        let mut expedited = call.clone();
        expedited[1] = EXPEDITED << 2 | 1;
        assert!(Look::at(&expedited).unwrap().is_urgent);
        let mut ping = call.clone();
        ping[9] = ICMP;
        assert!(Look::at(&ping).unwrap().is_urgent);
        ping[20] = 8;
        let one = Look::at(&ping).unwrap();
        ping[25] ^= 1;
        assert_ne!(Look::at(&ping).unwrap().flow, one.flow, "another ping");
        let mut v6 = vec![0; 60];
        (v6[0], v6[6]) = (0x60, ICMP_V6);
        assert!(Look::at(&v6).unwrap().is_urgent);
        assert_eq!(
            (Look::at(&[]), Look::at(&[0x45; 8]), Look::at(&[0x75; 80])),
            (None, None, None)
        );
    }

    /// A packet whose header has its length, and says that it may be cut.
    fn whole(length: usize) -> Vec<u8> {
        let mut packet = udp((5000, 6000), length);
        packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        packet[20..].iter_mut().enumerate().for_each(|(n, byte)| *byte = n as u8);
        packet
    }

    #[test]
    fn a_packet_is_cut_into_fragments_and_a_fragment_too() {
        let packet = whole(1400);
        for most in [28, 576, 1180, 1399] {
            let pieces = cut(&packet, most).unwrap();
            // Each once more, if it is long enough.
            let again =
                |piece: &Vec<u8>| cut(piece, most / 2).unwrap_or_else(|| vec![piece.clone()]);
            let pieces: Vec<_> = pieces.iter().flat_map(again).collect();
            let mut payload = Vec::new();
            for (n, piece) in pieces.iter().enumerate() {
                let place = u16::from_be_bytes([piece[6], piece[7]]);
                assert_eq!(usize::from(place & OFFSET) * 8, payload.len());
                assert_eq!(place & MORE == 0, n + 1 == pieces.len());
                assert_eq!(usize::from(u16::from_be_bytes([piece[2], piece[3]])), piece.len());
                assert!(piece.len() <= most && checksum(&piece[..20]) == 0);
                assert_eq!((&piece[4..6], &piece[8..10]), (&packet[4..6], &packet[8..10]));
                assert_eq!(piece[12..20], packet[12..20]);
                payload.extend_from_slice(&piece[20..]);
            }
            assert_eq!(payload, packet[20..]);
        }
        let mut df = packet.clone();
        df[6] = 0x40;
        let v6 = [&[0x60][..], &[0; 1399]].concat();
        assert_eq!((cut(&df, 1180), cut(&v6, 1180), cut(&packet, 20)), (None, None, None));
    }

    proptest! {
        #[test]
        fn anything_is_cut_or_not(
            mut bytes in prop::collection::vec(any::<u8>(), 0..80),
            length: u16,
            most in 0_usize..80,
        ) {
            if let Some(first) = bytes.first_chunk_mut::<4>() {
                first[0] = 0x45;
                first[2..].copy_from_slice(&(length % 80).to_be_bytes());
            }
            let pieces = cut(&bytes, most).unwrap_or_default();
            prop_assert!(pieces.iter().all(|piece| piece.len() <= most));
        }

        #[test]
        fn anything_is_looked_at(mut bytes in prop::collection::vec(any::<u8>(), 0..80), v6: bool) {
            if let Some(first) = bytes.first_mut() {
                *first = if v6 { 0x60 } else { 0x40 | *first & 15 };
            }
            let _ = Look::at(&bytes);
        }
    }
}
