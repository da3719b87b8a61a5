//! Segments are checked against etherparse, which computes checksums from scratch.

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice, checksum};
use proptest::prelude::*;

use super::*;

/// A super-packet as the kernel gives it: virtio header, headers, payload; the checksum field holds
/// the pseudo-header's sum.
#[derive(Clone, Debug)]
struct Made {
    ipv6: bool,
    udp: bool,
    segment: usize,
    payload: Vec<u8>,
    seq: u32,
    options: usize,
    cwr: bool,
    fin: bool,
}

impl Made {
    fn packet(&self) -> Vec<u8> {
        let ip = if self.ipv6 {
            PacketBuilder::ipv6([1; 16], [2; 16], 64)
        } else {
            PacketBuilder::ipv4([10, 77, 0, 2], [10, 77, 0, 1], 64)
        };
        let mut bytes = Vec::new();
        if self.udp {
            ip.udp(4000, 5000).write(&mut bytes, &self.payload).unwrap();
        } else {
            let options = vec![1; self.options * 4];
            let mut tcp = ip.tcp(5201, 40_000, self.seq, 65_535).ack(7).psh();
            if self.fin {
                tcp = tcp.fin();
            }
            if self.cwr {
                tcp = tcp.cwr();
            }
            tcp.options_raw(&options).unwrap().write(&mut bytes, &self.payload).unwrap();
        }
        let transport_at = if self.ipv6 { 40 } else { 20 };
        let checksum_at = if self.udp { 6 } else { 16 };
        let transport_len = (bytes.len() - transport_at) as u16;
        let pseudo = if self.ipv6 {
            ones_add(ones_sum(&bytes[8..40]), transport_len)
        } else {
            ones_add(ones_sum(&bytes[12..20]), transport_len)
        };
        let pseudo = ones_add(pseudo, if self.udp { 17 } else { 6 });
        put16(&mut bytes, transport_at + checksum_at, pseudo);
        let headers_len = bytes.len() - self.payload.len();
        let vnet = VnetHeader {
            flags: VNET_NEEDS_CSUM,
            gso_type: match (self.udp, self.ipv6) {
                (true, _) => GSO_UDP_L4,
                (false, true) => GSO_TCPV6,
                (false, false) => GSO_TCPV4,
            } | if self.cwr && !self.udp { GSO_ECN } else { 0 },
            hdr_len: headers_len as u16,
            gso_size: self.segment as u16,
            csum_start: transport_at as u16,
            csum_offset: checksum_at as u16,
        };
        let mut packet = vec![0; VNET_LEN];
        vnet.write(&mut packet);
        packet.extend(bytes);
        packet
    }
}

fn made() -> impl Strategy<Value = Made> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (flags, 1usize..1449, 1usize..20_000, any::<u32>(), 0usize..11).prop_map(
        |((ipv6, udp, cwr, fin), segment, len, seq, options)| Made {
            ipv6,
            udp,
            segment,
            payload: (0..len).map(|k| (k * 7 + k / 251) as u8).collect(),
            seq,
            options,
            cwr,
            fin,
        },
    )
}

/// What the kernel at the far end does with `CHECKSUM_PARTIAL`: sums from the transport header on.
fn complete_checksum(bytes: &mut [u8]) {
    let vnet = VnetHeader::read(bytes[..VNET_LEN].try_into().unwrap());
    let start = VNET_LEN + usize::from(vnet.csum_start);
    let sum = checksum::Sum16BitWords::new().add_slice(&bytes[start..]).ones_complement();
    let at = start + usize::from(vnet.csum_offset);
    bytes[at..at + 2].copy_from_slice(&sum.to_ne_bytes());
}

/// Checks one written run of segments as a receiver would.
fn check_run(made: &Made, bytes: &mut [u8], at: usize, len: usize) {
    let Shape::Super(layout) = shape(&made.packet()) else { panic!("a super-packet") };
    let run = shape(bytes);
    assert_eq!(matches!(run, Shape::Super(_)), len > made.segment);
    complete_checksum(bytes);
    let parsed = SlicedPacket::from_ip(&bytes[VNET_LEN..]).unwrap();
    let net = parsed.net.as_ref().unwrap();
    if let Some(ipv4) = net.ipv4_ref() {
        let header = ipv4.header().to_header();
        assert_eq!(header.header_checksum, header.calc_header_checksum());
        assert_eq!(usize::from(header.total_len), bytes.len() - VNET_LEN);
        assert_eq!(usize::from(header.identification), at / layout.segment);
    }
    let (first, last) = (at == 0, at + len == made.payload.len());
    match parsed.transport.unwrap() {
        TransportSlice::Tcp(tcp) => {
            assert_eq!(tcp.sequence_number(), made.seq.wrapping_add(at as u32));
            assert_eq!(tcp.psh(), last);
            assert_eq!(tcp.fin(), last && made.fin);
            assert_eq!(tcp.cwr(), first && made.cwr);
            assert_eq!(tcp.payload(), &made.payload[at..at + len]);
            let header = tcp.to_header();
            let sum = match net.ipv4_ref() {
                Some(ip) => {
                    header.calc_checksum_ipv4(&ip.header().to_header(), tcp.payload()).unwrap()
                }
                None => {
                    let ip = net.ipv6_ref().unwrap().header().to_header();
                    header.calc_checksum_ipv6(&ip, tcp.payload()).unwrap()
                }
            };
            assert_eq!(tcp.checksum(), sum);
        }
        TransportSlice::Udp(udp) => {
            assert_eq!(usize::from(udp.length()), 8 + len);
            assert_eq!(udp.payload(), &made.payload[at..at + len]);
            let header = udp.to_header();
            let sum = match net.ipv4_ref() {
                Some(ip) => {
                    header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap()
                }
                None => {
                    let ip = net.ipv6_ref().unwrap().header().to_header();
                    header.calc_checksum_ipv6(&ip, udp.payload()).unwrap()
                }
            };
            // UDP writes a sum of zero as all ones; the kernel does that after us.
            assert!(udp.checksum() == sum || (udp.checksum() == 0 && sum == 0xffff));
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn runs_of_segments_are_what_the_kernel_would_have_sent(
        made in made(),
        cuts in prop::collection::vec(1usize..6, 1..40),
    ) {
        let packet = made.packet();
        let Shape::Super(layout) = shape(&packet) else { panic!("a super-packet") };
        prop_assert_eq!(layout.segments().sum::<usize>(), made.payload.len());
        let mut segments = layout.segments();
        let mut at = 0;
        for run in cuts.iter().cycle() {
            let len: usize = segments.by_ref().take(*run).sum();
            if len == 0 {
                break;
            }
            let mut bytes = layout.headers(&packet, at, len).as_slice().to_vec();
            let start = VNET_LEN + layout.headers_len + at;
            bytes.extend_from_slice(&packet[start..start + len]);
            check_run(&made, &mut bytes, at, len);
            at += len;
        }
        prop_assert_eq!(at, made.payload.len());
    }

    #[test]
    fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let shape = shape(&bytes);
        payload_len(&bytes, &shape);
        if let Shape::Super(layout) = shape {
            let len = layout.segments().next().unwrap();
            layout.headers(&bytes, 0, len);
            layout.headers(&bytes, 0, layout.payload);
        }
    }

    #[test]
    fn damaged_super_packets_can_be_read(
        made in made(),
        damage in prop::collection::vec((0usize..80, any::<u8>()), 1..6),
        cut in 0usize..200,
    ) {
        let mut packet = made.packet();
        for (at, byte) in damage {
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
        }
        packet.truncate(packet.len().saturating_sub(cut));
        let shape = shape(&packet);
        payload_len(&packet, &shape);
        if let Shape::Super(layout) = shape {
            let mut at = 0;
            for len in layout.segments() {
                layout.headers(&packet, at, len);
                at += len;
            }
            prop_assert_eq!(at, layout.payload);
        }
    }
}

#[test]
fn payload_of_plain_packets_is_counted() {
    let count = |bytes: &[u8]| {
        let mut packet = vec![0; VNET_LEN];
        packet.extend_from_slice(bytes);
        assert_eq!(shape(&packet), Shape::Whole);
        payload_len(&packet, &Shape::Whole)
    };
    let mut tcp = Vec::new();
    let builder = PacketBuilder::ipv4([1; 4], [2; 4], 64).tcp(1, 2, 3, 4);
    builder.write(&mut tcp, &[0; 99]).unwrap();
    assert_eq!(count(&tcp), 99);
    let mut udp = Vec::new();
    PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(1, 2).write(&mut udp, &[0; 77]).unwrap();
    assert_eq!(count(&udp), 77);
    let mut ping = Vec::new();
    let builder = PacketBuilder::ipv4([1; 4], [2; 4], 64).icmpv4_echo_request(1, 1);
    builder.write(&mut ping, &[0; 50]).unwrap();
    assert_eq!(count(&ping), 0);
    assert_eq!(count(&[]), 0);
    assert_eq!(count(&[0xff; 3]), 0);
}
