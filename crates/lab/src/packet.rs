//! Packets as a TUN device gives them: virtio header, IP header, and what has to change when a
//! super-packet is cut into segments and some of these are joined again.
//!
//! With segmentation offload the kernel hands over up to 64 KiB of one flow behind one set of
//! headers. On the wire it would be several segments, each with these headers and its own length,
//! IPv4 identification, TCP sequence number, flags and checksum. [`Layout::headers`] makes the
//! headers of any contiguous run of the segments.

/// Length of the legacy `virtio_net_hdr` before each packet.
pub(crate) const VNET_LEN: usize = 10;

/// Longest IP and transport headers together that are taken apart: an IPv6 header, some extension
/// headers and a full TCP header. A super-packet with longer ones passes as one packet.
pub(crate) const HEADERS_MAX: usize = 256;

/// Longest packet read from a TUN device, virtio header included.
pub(crate) const PACKET_MAX: usize = VNET_LEN + 65_535 + 40;

const VNET_NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

const TCP: u8 = 6;
const UDP: u8 = 17;

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// What precedes a packet: what the kernel left undone. Native byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct VnetHeader {
    flags: u8,
    gso_type: u8,
    hdr_len: u16,
    gso_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

impl VnetHeader {
    fn read(bytes: &[u8; VNET_LEN]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            gso_type: bytes[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    fn write(self, bytes: &mut [u8]) {
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        let words = [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset];
        for (to, word) in bytes[2..VNET_LEN].chunks_exact_mut(2).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
    }
}

/// What a packet from a TUN device is to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One packet, passed on as it came.
    Whole,
    /// A super-packet of several segments.
    Super(Layout),
}

/// Transport of a super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
}

/// Where things are in a super-packet. Offsets count from the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    gso_type: u8,
    ipv4: bool,
    transport: Transport,
    transport_at: usize,
    /// IP and transport headers together.
    pub(crate) headers_len: usize,
    /// Payload bytes of each segment but the last, which may be shorter.
    pub(crate) segment: usize,
    /// Payload bytes in all.
    pub(crate) payload: usize,
}

/// The headers of one write: virtio, IP, transport.
pub(crate) struct Headers {
    bytes: [u8; VNET_LEN + HEADERS_MAX],
    len: usize,
}

impl Headers {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Takes `packet` (virtio header first) apart. A packet we do not understand is passed on whole.
pub(crate) fn shape(packet: &[u8]) -> Shape {
    let Some((vnet, packet)) = packet.split_first_chunk::<VNET_LEN>() else {
        return Shape::Whole;
    };
    super_layout(VnetHeader::read(vnet), packet).map_or(Shape::Whole, Shape::Super)
}

fn super_layout(vnet: VnetHeader, packet: &[u8]) -> Option<Layout> {
    let kind = vnet.gso_type & !GSO_ECN;
    if kind == GSO_NONE || vnet.gso_size == 0 || vnet.flags & VNET_NEEDS_CSUM == 0 {
        return None;
    }
    let ipv4 = packet.first()? >> 4 == 4;
    let transport_at = usize::from(vnet.csum_start);
    let ip_len = if ipv4 { usize::from(packet[0] & 0x0f) * 4 } else { 40 };
    // IPv6 extension headers may come between; nothing may between IPv4 and its transport.
    if transport_at < ip_len || ip_len < 20 || (ipv4 && transport_at != ip_len) {
        return None;
    }
    let (transport, transport_len) = match (kind, ipv4, vnet.csum_offset) {
        (GSO_TCPV4, true, 16) | (GSO_TCPV6, false, 16) => {
            (Transport::Tcp, usize::from(packet.get(transport_at + 12)? >> 4) * 4)
        }
        (GSO_UDP_L4, _, 6) => (Transport::Udp, 8),
        _ => return None,
    };
    let shortest = if transport == Transport::Tcp { 20 } else { 8 };
    let headers_len = transport_at + transport_len;
    if transport_len < shortest || headers_len > HEADERS_MAX || headers_len >= packet.len() {
        return None;
    }
    let (segment, payload) = (usize::from(vnet.gso_size), packet.len() - headers_len);
    let gso_type = vnet.gso_type;
    Some(Layout { gso_type, ipv4, transport, transport_at, headers_len, segment, payload })
}

impl Layout {
    /// Payload lengths of the segments, first to last.
    pub(crate) fn segments(&self) -> impl Iterator<Item = usize> + use<> {
        let (segment, payload) = (self.segment, self.payload);
        (0..payload.div_ceil(segment)).map(move |k| segment.min(payload - k * segment))
    }

    /// The headers for a write of payload bytes `at..at + len` of the super-packet `packet` (virtio
    /// header first). The range starts at a segment's start and ends at a segment's end; several
    /// segments make a super-packet again.
    pub(crate) fn headers(&self, packet: &[u8], at: usize, len: usize) -> Headers {
        debug_assert!(at.is_multiple_of(self.segment) && at + len <= self.payload);
        let mut headers = Headers { bytes: [0; _], len: VNET_LEN + self.headers_len };
        headers.bytes[..headers.len].copy_from_slice(&packet[..headers.len]);
        let (vnet, headers_part) = headers.bytes[..headers.len].split_at_mut(VNET_LEN);
        let (ip, transport) = headers_part.split_at_mut(self.transport_at);
        let first = at == 0;
        let last = at + len == self.payload;

        let transport_len = transport.len() + len;
        // The checksum field holds the pseudo-header's sum, of which only the length changes.
        let checksum_at = match self.transport {
            Transport::Tcp => 16,
            Transport::Udp => 6,
        };
        let old_len = (transport.len() + self.payload) as u16;
        let pseudo = be16(transport, checksum_at);
        let pseudo = ones_add(ones_add(pseudo, !old_len), transport_len as u16);
        put16(transport, checksum_at, pseudo);

        let mut ecn = false;
        match self.transport {
            Transport::Tcp => {
                let seq = u32::from_be_bytes(transport[4..8].try_into().expect("4 bytes"));
                transport[4..8].copy_from_slice(&seq.wrapping_add(at as u32).to_be_bytes());
                if !last {
                    transport[13] &= !(TCP_PSH | TCP_FIN);
                }
                if first {
                    ecn = self.gso_type & GSO_ECN != 0;
                } else {
                    transport[13] &= !TCP_CWR;
                }
            }
            Transport::Udp => put16(transport, 4, transport_len as u16),
        }
        if self.ipv4 {
            put16(ip, 2, (ip.len() + transport_len) as u16);
            let id = be16(ip, 4).wrapping_add((at / self.segment) as u16);
            put16(ip, 4, id);
            put16(ip, 10, 0);
            put16(ip, 10, !ones_sum(ip));
        } else {
            put16(ip, 4, (ip.len() - 40 + transport_len) as u16);
        }
        self.vnet(len, ecn, checksum_at).write(vnet);
        headers
    }

    fn vnet(&self, len: usize, ecn: bool, checksum_at: usize) -> VnetHeader {
        let several = len > self.segment;
        let kind = self.gso_type & !GSO_ECN;
        VnetHeader {
            flags: VNET_NEEDS_CSUM,
            gso_type: match (several, ecn) {
                (false, _) => GSO_NONE,
                (true, false) => kind,
                (true, true) => kind | GSO_ECN,
            },
            hdr_len: self.headers_len as u16,
            gso_size: if several { self.segment as u16 } else { 0 },
            csum_start: self.transport_at as u16,
            csum_offset: checksum_at as u16,
        }
    }
}

/// Bytes of application data in `packet` (virtio header first): TCP or UDP payload, 0 for anything
/// else. For counting, so a packet we do not understand is no error.
pub(crate) fn payload_len(packet: &[u8], shape: &Shape) -> usize {
    match shape {
        Shape::Super(layout) => layout.payload,
        Shape::Whole => packet.get(VNET_LEN..).and_then(whole_payload).unwrap_or(0),
    }
}

fn whole_payload(packet: &[u8]) -> Option<usize> {
    let (protocol, transport_at, total) = match packet.first()? >> 4 {
        4 => {
            let fragment = be16(packet.get(6..8)?, 0) & 0x1fff;
            if fragment != 0 {
                return None;
            }
            let total = usize::from(be16(packet.get(2..4)?, 0));
            (*packet.get(9)?, usize::from(packet[0] & 0x0f) * 4, total)
        }
        6 => (*packet.get(6)?, 40, 40 + usize::from(be16(packet.get(4..6)?, 0))),
        _ => return None,
    };
    let transport_len = match protocol {
        TCP => usize::from(packet.get(transport_at + 12)? >> 4) * 4,
        UDP => 8,
        _ => return None,
    };
    total.min(packet.len()).checked_sub(transport_at + transport_len)
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// One's-complement addition (RFC 1071).
fn ones_add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

/// One's-complement sum of `bytes` (an even number of them).
fn ones_sum(bytes: &[u8]) -> u16 {
    bytes.chunks_exact(2).fold(0, |sum, pair| ones_add(sum, be16(pair, 0)))
}

#[cfg(test)]
mod tests;
