//! What becomes of a packet when its place is known: a driver seals it for the device, so that
//! nobody on the way can read it, or put it into another place.

use crate::serial::{Arrival, Label};

/// Where a packet is in what a gateway sends. No two packets of a gateway have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The flow, a number that the driver gives.
    pub flow: u16,
    /// Which of the flow's packets it is.
    pub arrival: Arrival,
    /// Its cohort. Flow and arrival number alone name the packet; with the label it is of one generation
    /// only, also while the size of a generation is not known.
    pub label: Label,
}

/// Makes of packets what is coded.
pub trait Seal {
    /// Bytes that what is coded has more than the packet.
    fn overhead(&self) -> usize;

    /// Appends what is coded instead of `packet` to `out`; whether it could. A packet that cannot be
    /// sealed is dropped, and has no place.
    fn seal(&mut self, place: Place, packet: &[u8], out: &mut Vec<u8>) -> bool;

    /// Says in a packet that it has met congestion, instead of dropping it (RFC 3168); whether its
    /// ends understand that.
    fn mark(&mut self, _packet: &mut [u8]) -> bool {
        false
    }
}

/// Packets are coded as they are.
pub(super) struct Bare;

impl Seal for Bare {
    fn overhead(&self) -> usize {
        0
    }

    fn seal(&mut self, _: Place, packet: &[u8], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(packet);
        true
    }
}
