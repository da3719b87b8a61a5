//! What stands before the payload of a packet between COTAG nodes (docs/protocol.md, "COTAG
//! packets").
//!
//! ```text
//! byte  0   version (4 bits, 2), low priority (1 bit), kind (3 bits)
//!       1   label, 4 bytes
//!       5   flow, 2 bytes
//!       7   generation, 2 bytes
//!       9   packets of the generation, n; 0: not known yet
//!      10   packets of the cohort and flow, 2 bytes; 0: sent early, earlier cohorts may follow
//!      12   arrival number of the generation's first packet, 4 bytes
//!      16   tag, 4 bytes                       a marker ends here
//!      20   kind 0: index; kind 1: seed, 4 bytes; kind 2: n coefficients
//!           payload
//! ```
//!
//! The tag is the gateway's, over what names the generation ([`named`]): an access point hands it on
//! with whatever it makes of the generation's packets, and cannot name one that is not. A driver
//! that does not authenticate leaves zeros. A marker has the names of a packet of its label, or of
//! nothing ([`Name::of_nothing`]): these are no packet's.
//!
//! Numbers are big endian. Decoding is total: any bytes give a packet or an error, and nothing is
//! copied or allocated.

use crate::coefficients::Coding;
use crate::generation::LENGTH_BYTES;
use crate::serial::{Arrival, Label};

/// The version of the header, in its first byte.
pub const VERSION: u8 = 2;

/// Bytes of the longest header, one with 255 coefficients.
pub const MAX_HEADER_BYTES: usize = FIXED_BYTES + 255;

/// Bytes of a header before what depends on the kind.
const FIXED_BYTES: usize = 20;

/// Where the tag is.
const TAG: std::ops::Range<usize> = 16..20;

/// Bytes of what a tag is over.
pub const NAMED_BYTES: usize = 13;

/// The number of a generation that is none: a cohort has fewer.
const NO_GENERATION: u16 = u16::MAX;

const LOW_PRIORITY: u8 = 0x08;
const KIND: u8 = 0x07;

/// Kinds of packets.
mod kind {
    pub(super) const SYSTEMATIC: u8 = 0;
    pub(super) const SEED: u8 = 1;
    pub(super) const VECTOR: u8 = 2;
    pub(super) const MARKER: u8 = 3;
}

/// What is wrong with bytes that came from another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A flow's cohort with fewer packets than one of its generations.
    #[error("a cohort of {cohort_packets} packets with a generation of {size}")]
    Cohort {
        /// Packets of the cohort.
        cohort_packets: u16,
        /// Packets of the generation.
        size: u8,
    },
    /// A packet that is not in its generation.
    #[error("packet {index} of a generation of {size}")]
    Index {
        /// The packet's index.
        index: u8,
        /// Packets of the generation.
        size: u8,
    },
    /// An unknown kind of packet.
    #[error("an unknown kind of packet, {0}; use one version of weftline at all nodes")]
    Kind(u8),
    /// A packet with the name of nothing.
    #[error("a packet of no generation")]
    Nothing,
    /// A marker with a priority, a number of packets or with bytes after its tag.
    #[error("a marker that is more than a name")]
    Marker,
    /// A combination of a generation whose size is not known.
    #[error("a combination without the generation's size")]
    NoSize,
    /// A header that ends early, or a combination too short for any packet.
    #[error("{bytes} bytes where at least {needed} are due")]
    Short {
        /// Bytes there are.
        bytes: usize,
        /// Bytes there must be.
        needed: usize,
    },
    /// Another version of the header.
    #[error("header version {0}, this side speaks {VERSION}; use one version at all nodes")]
    Version(u8),
}

/// Whether an access point may drop a packet for another (COTAG Algorithms 1 and 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// One of the first n packets of a cohort of n.
    High,
    /// Redundant: sent because there was room, dropped first.
    Low,
}

/// What is known of a packet without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The cohort.
    pub label: Label,
    /// Whether it goes first when room is scarce.
    pub priority: Priority,
    /// The flow, a number that the gateway gives.
    pub flow: u16,
    /// The generation within the flow's packets of the cohort, from 0.
    pub generation: u16,
    /// Packets of the generation; 0 while the gateway does not know it, in systematic packets only.
    pub size: u8,
    /// The flow's packets in the cohort, n_k; 0 while the gateway does not know it, or while the
    /// sender still sends of earlier cohorts ([`Packet::shows_label`]).
    pub cohort_packets: u16,
    /// The flow's arrival number of the generation's packet 0; packet i has the i-th after it.
    pub first: Arrival,
    /// The gateway's tag over the generation's names, of this size.
    pub tag: Tag,
    /// How the payload is made.
    pub coding: Coding<'a>,
}

/// A tag over what names a generation.
pub type Tag = [u8; 4];

/// What names a generation, or, of size 0, one that is not known whole; and the gateway's tag over
/// that. With nothing else it is a marker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// The cohort.
    pub label: Label,
    /// The flow.
    pub flow: u16,
    /// The generation within the flow's packets of the cohort.
    pub generation: u16,
    /// Packets of the generation, as far as they are known.
    pub size: u8,
    /// The arrival number of its first packet.
    pub first: Arrival,
    /// The tag over these.
    pub tag: Tag,
}

impl Name {
    /// The name in a gateway's own marker, of a cohort that may have no packets. With its tag nothing
    /// else can be named.
    pub fn of_nothing(label: Label) -> Self {
        Self { label, generation: NO_GENERATION, ..Self::default() }
    }

    fn encode(&self, first_byte: u8, cohort_packets: u16, out: &mut Vec<u8>) {
        out.push(first_byte);
        out.extend_from_slice(&self.label.0.to_be_bytes());
        out.extend_from_slice(&self.flow.to_be_bytes());
        out.extend_from_slice(&self.generation.to_be_bytes());
        out.push(self.size);
        out.extend_from_slice(&cohort_packets.to_be_bytes());
        out.extend_from_slice(&self.first.0.to_be_bytes());
        out.extend_from_slice(&self.tag);
    }
}

/// What the tag of an encoded packet is over: label, flow, generation, the generation's size and
/// the arrival number of its first packet. `None` if it is too short for a packet.
pub fn named(packet: &[u8]) -> Option<[u8; NAMED_BYTES]> {
    let header: &[u8; FIXED_BYTES] = packet.first_chunk()?;
    let mut named = [0; NAMED_BYTES];
    named[..9].copy_from_slice(&header[1..10]);
    named[9..].copy_from_slice(&header[12..16]);
    Some(named)
}

/// The tag of an encoded packet.
pub fn tag(packet: &[u8]) -> Option<Tag> {
    packet.get(TAG)?.try_into().ok()
}

/// Sets the tag of an encoded packet.
///
/// # Panics
///
/// If it is too short for a packet.
pub fn set_tag(packet: &mut [u8], tag: Tag) {
    packet[TAG].copy_from_slice(&tag);
}

impl Header<'_> {
    /// What names its generation.
    pub fn name(&self) -> Name {
        let Self { label, flow, generation, size, first, tag, .. } = *self;
        Name { label, flow, generation, size, first, tag }
    }

    /// Appends the header to `out`; the payload follows.
    ///
    /// # Panics
    ///
    /// If a vector has not one coefficient for each packet of the generation.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match self.coding {
            Coding::Systematic(_) => kind::SYSTEMATIC,
            Coding::Seed(_) => kind::SEED,
            Coding::Vector(_) => kind::VECTOR,
        };
        let priority = if self.priority == Priority::Low { LOW_PRIORITY } else { 0 };
        self.name().encode(VERSION << 4 | priority | kind, self.cohort_packets, out);
        match self.coding {
            Coding::Systematic(index) => out.push(index),
            Coding::Seed(seed) => out.extend_from_slice(&seed.to_be_bytes()),
            Coding::Vector(vector) => {
                let size = usize::from(self.size);
                assert_eq!(vector.len(), size, "each packet has a coefficient");
                out.extend_from_slice(vector);
            }
        }
    }

    /// Bytes that [`Self::encode`] appends.
    pub fn encoded_len(&self) -> usize {
        FIXED_BYTES
            + match self.coding {
                Coding::Systematic(_) => 1,
                Coding::Seed(_) => 4,
                Coding::Vector(vector) => vector.len(),
            }
    }
}

/// Anything that one node sends another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A packet of a generation, or a combination of its packets.
    Coded {
        /// What it is.
        header: Header<'a>,
        /// What it carries.
        payload: &'a [u8],
    },
    /// The link has come to this label, whose cohort is empty: what waits for it need not wait.
    Marker(Name),
}

impl<'a> Packet<'a> {
    /// Appends the packet to `out`.
    ///
    /// # Panics
    ///
    /// As [`Header::encode`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Coded { header, payload } => {
                header.encode(out);
                out.extend_from_slice(payload);
            }
            Self::Marker(name) => name.encode(VERSION << 4 | kind::MARKER, 0, out),
        }
    }

    /// Reads a whole packet.
    ///
    /// # Errors
    ///
    /// If the bytes are no packet of this version, or contradict themselves. What only the
    /// generation's state or the node's limits can tell is left to
    /// [`Decoder`](crate::Decoder) and [`Recoder`](crate::Recoder).
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader { rest: bytes, all: bytes.len() };
        let [first] = reader.array()?;
        if first >> 4 != VERSION {
            return Err(WireError::Version(first >> 4));
        }
        let label = Label(u32::from_be_bytes(reader.array()?));
        let kind = first & KIND;
        if kind > kind::MARKER {
            return Err(WireError::Kind(kind));
        }
        let priority = if first & LOW_PRIORITY == 0 { Priority::High } else { Priority::Low };
        let flow = u16::from_be_bytes(reader.array()?);
        let generation = u16::from_be_bytes(reader.array()?);
        let [size] = reader.array()?;
        let cohort_packets = u16::from_be_bytes(reader.array()?);
        let first = Arrival(u32::from_be_bytes(reader.array()?));
        let tag = reader.array()?;
        if kind == kind::MARKER {
            let bare = priority == Priority::High && cohort_packets == 0 && reader.rest.is_empty();
            let name = Name { label, flow, generation, size, first, tag };
            return if bare { Ok(Self::Marker(name)) } else { Err(WireError::Marker) };
        }
        if generation == NO_GENERATION {
            return Err(WireError::Nothing);
        }
        if cohort_packets != 0 && cohort_packets < u16::from(size) {
            return Err(WireError::Cohort { cohort_packets, size });
        }
        let coding = reader.coding(kind, size)?;
        let header =
            Header { label, priority, flow, generation, size, cohort_packets, first, tag, coding };
        Ok(Self::Coded { header, payload: reader.rest })
    }

    /// What names its generation, or the one whose name a marker has.
    pub fn name(&self) -> Name {
        match self {
            Self::Coded { header, .. } => header.name(),
            Self::Marker(name) => *name,
        }
    }

    /// Whether nothing of an earlier cohort comes after this packet on its link, unless the network
    /// has changed the order: the link has come to the packet's label. What is sent early, before
    /// the sender is done with the cohorts before it, has no n_k and shows nothing.
    pub fn shows_label(&self) -> bool {
        match self {
            Self::Coded { header, .. } => header.cohort_packets != 0,
            Self::Marker(_) => true,
        }
    }

    /// The cohort's label.
    pub fn label(&self) -> Label {
        match self {
            Self::Coded { header, .. } => header.label,
            Self::Marker(name) => name.label,
        }
    }
}

/// Reads off the front of a packet.
struct Reader<'a> {
    rest: &'a [u8],
    all: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            let needed = self.all - self.rest.len() + len;
            return Err(WireError::Short { bytes: self.all, needed });
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// What depends on the kind; for combinations also checks that a length can follow.
    fn coding(&mut self, kind: u8, size: u8) -> Result<Coding<'a>, WireError> {
        if kind == kind::SYSTEMATIC {
            let [index] = self.array()?;
            if size > 0 && index >= size {
                return Err(WireError::Index { index, size });
            }
            return Ok(Coding::Systematic(index));
        }
        if size == 0 {
            return Err(WireError::NoSize);
        }
        let coding = if kind == kind::SEED {
            Coding::Seed(u32::from_be_bytes(self.array()?))
        } else {
            Coding::Vector(self.take(usize::from(size))?)
        };
        if self.rest.len() < LENGTH_BYTES {
            let needed = self.all - self.rest.len() + LENGTH_BYTES;
            return Err(WireError::Short { bytes: self.all, needed });
        }
        Ok(coding)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(coding: Coding<'_>) -> Header<'_> {
        Header {
            label: Label(0x0102_0304),
            priority: Priority::Low,
            flow: 0x0506,
            generation: 0x0708,
            size: 3,
            cohort_packets: 0x090a,
            first: Arrival(0x0b0c_0d0e),
            tag: [15, 16, 17, 18],
            coding,
        }
    }

    fn encoded(packet: Packet<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        bytes
    }

    /// Other implementations must find these bytes.
    #[test]
    fn the_bytes_are_pinned() {
        let fixed = [1, 2, 3, 4, 5, 6, 7, 8, 3, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18];
        let cases = [
            (0x28, Coding::Systematic(2), vec![2]),
            (0x29, Coding::Seed(0x2021_2223), vec![0x20, 0x21, 0x22, 0x23]),
            (0x2a, Coding::Vector(&[7, 0, 9]), vec![7, 0, 9]),
        ];
        for (first, coding, tail) in cases {
            let header = header(coding);
            let bytes = encoded(Packet::Coded { header, payload: &[0xaa, 0xbb] });
            assert_eq!(bytes, [&[first][..], &fixed, &tail, &[0xaa, 0xbb]].concat());
            assert_eq!(header.encoded_len(), bytes.len() - 2);
        }
        let marker = encoded(Packet::Marker(header(Coding::Seed(0)).name()));
        let bare = [&[0x23][..], &fixed[..9], &[0, 0], &fixed[11..]].concat();
        assert_eq!(marker, bare);
        let of = [1, 2, 3, 4, 5, 6, 7, 8, 3, 11, 12, 13, 14];
        assert_eq!(named(&marker), Some(of));
        // The name of nothing is in markers only.
        let nothing = Name::of_nothing(Label(7));
        let mut marker_of_nothing = encoded(Packet::Marker(nothing));
        assert_eq!(Packet::decode(&marker_of_nothing), Ok(Packet::Marker(nothing)));
        for kind in [0x20, 0x21, 0x22] {
            marker_of_nothing[0] = kind;
            let packet = [&marker_of_nothing[..], &[0; 20]].concat();
            assert_eq!(Packet::decode(&packet), Err(WireError::Nothing));
        }
        let mut other = marker.clone();
        set_tag(&mut other, [9; 4]);
        assert_eq!((tag(&other), named(&other)), (Some([9; 4]), Some(of)));
        assert_eq!((tag(&marker[..19]), named(&marker[..19])), (None, None));
    }

    #[test]
    fn hostile_headers_are_refused() {
        let good = encoded(Packet::Coded { header: header(Coding::Systematic(2)), payload: &[] });
        let changed = |at: usize, to: u8| {
            let mut bytes = good.clone();
            bytes[at] = to;
            bytes
        };
        let refused = |bytes: &[u8], error| assert_eq!(Packet::decode(bytes), Err(error));
        assert!(Packet::decode(&good).is_ok(), "an empty packet is one");
        for len in 0..good.len() {
            let Err(WireError::Short { bytes, needed }) = Packet::decode(&good[..len]) else {
                panic!("{len} bytes are too few");
            };
            assert!(bytes == len && needed > len);
        }
        refused(&changed(0, 0x18), WireError::Version(1));
        refused(&changed(0, 0x2c), WireError::Kind(4));
        refused(&changed(0, 0x23), WireError::Marker);
        let mut low = encoded(Packet::Marker(Name::default()));
        low[0] = 0x2b;
        refused(&low, WireError::Marker);
        refused(&changed(20, 3), WireError::Index { index: 3, size: 3 });
        let mut few = changed(10, 0);
        few[11] = 2;
        refused(&few, WireError::Cohort { cohort_packets: 2, size: 3 });
        // A combination of how many?
        let mut bytes = encoded(Packet::Coded { header: header(Coding::Seed(1)), payload: &[0] });
        refused(&bytes, WireError::Short { bytes: 25, needed: 26 });
        bytes[9] = 0;
        refused(&bytes, WireError::NoSize);
        // More coefficients than bytes.
        let mut bytes =
            encoded(Packet::Coded { header: header(Coding::Seed(1)), payload: &[0; 9] });
        (bytes[0], bytes[9]) = (0x2a, 255);
        refused(&bytes, WireError::Short { bytes: 33, needed: 275 });
    }

    #[test]
    fn a_size_that_is_not_known_yet() {
        let mut header = header(Coding::Systematic(254));
        (header.size, header.cohort_packets) = (0, 0);
        let packet = Packet::Coded { header, payload: b"early" };
        assert_eq!(Packet::decode(&encoded(packet)), Ok(packet));
    }

    proptest! {
        #[test]
        fn headers_come_back(
            numbers: (u32, u16, u16, u32, u32),
            low: bool,
            vector in proptest::collection::vec(any::<u8>(), 1..=255),
            kind in 0..4,
            payload in proptest::collection::vec(any::<u8>(), 2..50),
        ) {
            let size = vector.len() as u8;
            let coding = match kind {
                0 => Coding::Systematic((numbers.4 % u32::from(size)) as u8),
                1 => Coding::Seed(numbers.4),
                _ => Coding::Vector(&vector),
            };
            let header = Header {
                label: Label(numbers.0),
                priority: if low { Priority::Low } else { Priority::High },
                flow: numbers.1,
                generation: numbers.2,
                size,
                cohort_packets: numbers.2.max(u16::from(size)),
                first: Arrival(numbers.3),
                tag: numbers.4.to_be_bytes(),
                coding,
            };
            let packet = match kind {
                3 => Packet::Marker(header.name()),
                _ => Packet::Coded { header, payload: &payload },
            };
            let bytes = encoded(packet);
            prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
            prop_assert_eq!(packet.label(), Label(numbers.0));
            prop_assert!(header.encoded_len() <= MAX_HEADER_BYTES);
        }

        /// Whatever decodes encodes to the bytes it came from.
        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), version: bool) {
            if version && let Some(first) = bytes.first_mut() {
                *first = VERSION << 4 | *first & 0x0f;
            }
            if let Ok(packet) = Packet::decode(&bytes) {
                prop_assert_eq!(encoded(packet), bytes);
            }
        }
    }
}
