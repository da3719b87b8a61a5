//! How the network is to treat a packet: the byte of the IP header that has DSCP and ECN (IPv4's TOS,
//! IPv6's traffic class), on its way through the tunnel (RFC 6040, normal mode; RFC 2983, uniform).
//!
//! A packet's class is copied to the outer header of the datagram that carries it as it is; what a
//! router marks there is put into the packet at the other end. An access point takes the class from
//! the frame (`frame.rs`) and the mark from the outer header. Combinations are of many packets and have
//! no class: they are not ECN-capable.

use std::collections::BTreeMap;

use weftline_coding::Coding;
use weftline_coding::wire::Packet;

/// The bits of ECN (RFC 3168 §5).
const ECN: u8 = 3;
/// Its values: of a packet that is not ECN-capable, ECT(1), and congestion experienced.
pub(crate) const NOT_CAPABLE: u8 = 0;
pub(crate) const CAPABLE_1: u8 = 1;
pub(crate) const EXPERIENCED: u8 = 3;

/// So many places are remembered, twice: more than are between two nodes.
const REMEMBERED: usize = 1 << 14;

/// DSCP and ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Class(pub(crate) u8);

impl Class {
    /// Best effort, and not ECN-capable.
    pub(crate) const NONE: Self = Self(0);

    /// That of an IP packet; none of anything else.
    pub(crate) fn of(packet: &[u8]) -> Self {
        match *packet {
            [first, tos, ..] if first >> 4 == 4 => Self(tos),
            [first, second, ..] if first >> 4 == 6 => Self(first << 4 | second >> 4),
            _ => Self::NONE,
        }
    }

    /// Puts it into an IP packet.
    pub(crate) fn put(self, packet: &mut [u8]) {
        match packet {
            [first, tos, rest @ ..] if *first >> 4 == 4 && rest.len() >= 18 => {
                let word = |tos: u8| u32::from(u16::from_be_bytes([*first, tos]));
                let checksum = u32::from(u16::from_be_bytes([rest[8], rest[9]]));
                // RFC 1624, equation 3.
                let sum = (0xffff - checksum) + (0xffff - word(*tos)) + word(self.0);
                let folded = (sum & 0xffff) + (sum >> 16);
                let folded = (folded & 0xffff) + (folded >> 16);
                rest[8..10].copy_from_slice(&(!(folded as u16)).to_be_bytes());
                *tos = self.0;
            }
            [first, second, ..] if *first >> 4 == 6 => {
                *first = *first & 0xf0 | self.0 >> 4;
                *second = self.0 << 4 | *second & 0xf;
            }
            _ => {}
        }
    }

    pub(crate) fn ecn(self) -> u8 {
        self.0 & ECN
    }

    pub(crate) fn dscp(self) -> u8 {
        self.0 & !ECN
    }

    fn with_ecn(self, ecn: u8) -> Self {
        Self(self.dscp() | ecn)
    }

    /// The class of a packet whose datagram came with this ECN in its outer header: routers mark there.
    pub(crate) fn came_with(self, outer_ecn: u8) -> Self {
        if outer_ecn & ECN == EXPERIENCED { self.with_ecn(EXPERIENCED) } else { self }
    }

    /// Whether an end has something to put into the packet.
    pub(crate) fn matters(self) -> bool {
        matches!(self.ecn(), EXPERIENCED | CAPABLE_1)
    }
}

/// Says in a packet that congestion was experienced; whether it is ECN-capable.
pub(crate) fn mark(packet: &mut [u8]) -> bool {
    let class = Class::of(packet);
    if class.ecn() == NOT_CAPABLE {
        return false;
    }
    class.with_ecn(EXPERIENCED).put(packet);
    true
}

/// Puts what the outer header says into the packet that came with it (RFC 6040 §4.2, Figure 4);
/// whether it may go on: a mark cannot be told to a packet that is not ECN-capable.
pub(crate) fn decapsulate(packet: &mut [u8], outer: Class) -> bool {
    let inner = Class::of(packet);
    let ecn = match (inner.ecn(), outer.ecn()) {
        (NOT_CAPABLE, EXPERIENCED) => return false,
        (NOT_CAPABLE, _) => NOT_CAPABLE,
        (EXPERIENCED, _) | (_, EXPERIENCED) => EXPERIENCED,
        (_, CAPABLE_1) => CAPABLE_1,
        (inner, _) => inner,
    };
    if ecn != inner.ecn() {
        inner.with_ecn(ecn).put(packet);
    }
    true
}

/// Which of a flow's packets one is.
pub(crate) type At = (u16, u32);

/// Where a packet of the coding layer is, if it goes as it is.
pub(crate) fn place_of(packet: &[u8]) -> Option<At> {
    let Ok(Packet::Coded { header, .. }) = Packet::decode(packet) else { return None };
    let Coding::Systematic(index) = header.coding else { return None };
    Some((header.flow, header.first.plus(index.into()).0))
}

/// The classes of packets that have one, of those that came last.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    new: BTreeMap<At, Class>,
    old: BTreeMap<At, Class>,
}

impl Classes {
    /// Whether no packet has one, as is usual.
    pub(crate) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.old.is_empty()
    }

    pub(crate) fn insert(&mut self, at: At, class: Class) {
        if class == Class::NONE {
            // A place may have been another gateway's.
            if !self.is_empty() {
                self.new.remove(&at);
                self.old.remove(&at);
            }
            return;
        }
        if self.new.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(at, class);
    }

    pub(crate) fn get(&self, at: At) -> Class {
        self.new.get(&at).or_else(|| self.old.get(&at)).copied().unwrap_or_default()
    }

    /// That of a packet of the coding layer.
    pub(crate) fn of_coded(&self, packet: &[u8]) -> Class {
        if self.is_empty() {
            return Class::NONE;
        }
        place_of(packet).map_or(Class::NONE, |at| self.get(at))
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{Ipv4HeaderSlice, PacketBuilder};
    use proptest::prelude::*;

    use super::*;

    fn packet(v6: bool, class: u8) -> Vec<u8> {
        let builder = if v6 {
            PacketBuilder::ipv6([1; 16], [2; 16], 64)
        } else {
            PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        };
        let mut packet = Vec::new();
        builder.udp(1, 2).write(&mut packet, b"payload").unwrap();
        Class(class).put(&mut packet);
        packet
    }

    /// RFC 6040, Figure 4: rows are the inner field, columns the outer one, in the order of the codes;
    /// 4 is a packet that is dropped.
    const FIGURE_4: [[u8; 4]; 4] = [[0, 0, 0, 4], [1, 1, 1, 3], [2, 1, 2, 3], [3, 3, 3, 3]];

    #[test]
    fn what_comes_out_is_what_rfc_6040_says() {
        for v6 in [false, true] {
            for (inner, row) in (0_u8..).zip(FIGURE_4) {
                for (outer, expected) in (0_u8..).zip(row) {
                    // The inner packet's DSCP stays, whatever became of the outer one.
                    let mut one = packet(v6, 0xb8 | inner);
                    let goes_on = decapsulate(&mut one, Class(0x48 | outer));
                    assert_eq!(goes_on, expected < 4, "{inner} in {outer}");
                    if goes_on {
                        assert_eq!(Class::of(&one), Class(0xb8 | expected), "{inner} in {outer}");
                    }
                }
            }
        }
    }

    #[test]
    fn marks_meet_those_only_that_understand_them() {
        for v6 in [false, true] {
            for (ecn, marked) in [(0, 0), (1, 3), (2, 3), (3, 3)] {
                let mut one = packet(v6, 0x28 | ecn);
                assert_eq!(mark(&mut one), ecn != 0);
                assert_eq!(Class::of(&one), Class(0x28 | marked));
                assert_eq!(Class(0x28 | ecn).came_with(3), Class(0x2b));
                assert_eq!(Class(0x28 | ecn).came_with(2), Class(0x28 | ecn));
            }
        }
    }

    #[test]
    fn classes_are_those_of_the_last_packets() {
        let mut classes = Classes::default();
        classes.insert((1, 5), Class::NONE);
        assert!(classes.is_empty());
        let last = 3 * REMEMBERED as u32;
        (0..=last).for_each(|arrival| classes.insert((1, arrival), Class(2)));
        assert_eq!(classes.get((1, last - REMEMBERED as u32)), Class(2));
        assert_eq!((classes.get((1, 0)), classes.get((2, last))), (Class::NONE, Class::NONE));
        assert!(classes.new.len() + classes.old.len() <= 2 * REMEMBERED);
        classes.insert((1, last), Class::NONE);
        assert_eq!(classes.get((1, last)), Class::NONE);
    }

    proptest! {
        /// Of anything: no panic, and an IPv4 header's checksum stays right.
        #[test]
        fn the_checksum_stays_right(before: u8, after: u8, v6: bool, cut in 0_usize..60) {
            let mut one = packet(v6, before);
            Class(after).put(&mut one);
            prop_assert_eq!(Class::of(&one), Class(after));
            if !v6 {
                let header = Ipv4HeaderSlice::from_slice(&one).unwrap().to_header();
                prop_assert_eq!(header.calc_header_checksum(), header.header_checksum);
            }
            one.truncate(cut);
            mark(&mut one);
            decapsulate(&mut one, Class(after));
        }
    }
}
