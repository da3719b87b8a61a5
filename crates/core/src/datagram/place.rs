//! The place of a packet in its flow, which goes with it unless it is urgent: what goes over several lanes at once, or
//! moves from one to another, is handed out in order.

use std::time::Duration;

use super::LaneId;
use crate::Instant;

/// Bytes of a place, which are a packet's last.
pub(super) const PLACE: usize = 2 + 2 + 1;
/// A lane that a flow has used within this time may still have packets of it on their way.
const USED_FOR: Duration = Duration::from_millis(300);

/// The place of a packet in its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The flow's number; 0 for a packet that is in no order.
    pub(super) flow: u16,
    /// The packet's number there.
    pub(super) number: u16,
    /// The lanes that the flow uses, as bits.
    pub(super) lanes: u8,
}

/// What the bit of a lane over TCP is that of.
pub(super) const TCP_LANE: LaneId = LaneId(7);

/// The bit of a lane.
pub(super) const fn bit(lane: LaneId) -> u8 {
    1 << (lane.0 & 7)
}

impl Place {
    pub(super) fn encode(self) -> [u8; PLACE] {
        let ([a, b], [c, d]) = (self.flow.to_be_bytes(), self.number.to_be_bytes());
        [a, b, c, d, self.lanes]
    }

    /// Puts the place in that of another one, at a packet's end.
    pub(super) fn replace(self, packet: &mut [u8]) {
        if let Some(end) = packet.last_chunk_mut() {
            *end = self.encode();
        }
    }

    /// Takes the place off a packet's end.
    pub(super) fn split(packet: &[u8]) -> Option<(&[u8], Self)> {
        let (packet, &[a, b, c, d, lanes]) = packet.split_last_chunk()?;
        let (flow, number) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        Some((packet, Self { flow, number, lanes }))
    }
}

/// Numbers the packets of a flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    flow: u16,
    next: u16,
    /// When each lane was used last.
    used: [Option<Instant>; 8],
    /// Whether it has left a lane since its last packet.
    left: bool,
}

impl Numbers {
    /// Those of the flow with this number.
    pub(super) fn of(flow: u16) -> Self {
        Self { flow, ..Self::default() }
    }

    /// What a packet has that gets its number when it is sent.
    pub(super) fn pending(&self) -> Place {
        Place { flow: self.flow, ..Place::default() }
    }

    /// Whether a place is one of these.
    pub(super) fn is_of(&self, place: Place) -> bool {
        self.flow == place.flow
    }

    /// Nothing more comes over this lane.
    pub(super) fn leave(&mut self, lane: LaneId) {
        self.used[usize::from(lane.0 & 7)] = None;
        self.left = true;
    }

    /// Whether packets with numbers may still be on their way, or wait for others: the next ones need one, too.
    pub(super) fn is_in_use(&self, now: Instant) -> bool {
        self.left || self.used.iter().flatten().any(|at| now.since(*at) <= USED_FOR)
    }

    /// The place of a packet that goes over a lane.
    pub(super) fn take(&mut self, lane: LaneId, now: Instant) -> Place {
        self.used[usize::from(lane.0 & 7)] = Some(now);
        self.left = false;
        let is_used = |at: &Option<Instant>| at.is_some_and(|at| now.since(at) <= USED_FOR);
        let bits = self.used.iter().enumerate().filter(|(_, at)| is_used(at));
        let lanes = bits.fold(0, |bits, (place, _)| bits | 1 << place);
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        Place { flow: self.flow, number, lanes }
    }
}
