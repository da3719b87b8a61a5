//! A lane at one end: its keys, and where the other end is.

use weftline_core::datagram::{Frame, packet_in};

use super::keys::{Direction, Header, LaneSecret, Opener, Refused, Sealer};
use super::socket::{Batches, LaneSocket};
use crate::class::{Class, NOT_CAPABLE, decapsulate};
use crate::way::Way;

/// A lane's keys and address.
pub(super) struct LaneEnd {
    sealer: Sealer,
    opener: Opener,
    /// Where the other end is.
    pub(super) way: Option<Way>,
    pub(super) batches: Batches,
}

impl LaneEnd {
    pub(super) fn new(session: u32, secret: &LaneSecret, lane: u8, sends: Direction) -> Self {
        let receives = match sends {
            Direction::FromClient => Direction::FromServer,
            Direction::FromServer => Direction::FromClient,
        };
        Self {
            sealer: Sealer::new(session, secret, lane, sends),
            opener: Opener::new(secret, lane, receives),
            way: None,
            batches: Batches::default(),
        }
    }

    /// Decrypts a datagram in its place; the frame, and whether it is the newest so far.
    ///
    /// # Errors
    /// When it is not authentic, or came before.
    pub(super) fn open<'a>(
        &mut self,
        header: Header,
        datagram: &'a mut [u8],
    ) -> Result<(&'a mut [u8], bool), Refused> {
        self.opener.open(header, datagram)
    }

    /// Queues a frame to be sent; whether the link is there. The datagram is ECN-capable as the packet in it
    /// is (RFC 6040 §4.1, normal mode); its DSCP is that of all else. One that may be too long for the link,
    /// as it is not known to be carried, leaves alone.
    pub(super) fn send(
        &mut self,
        socket: &LaneSocket,
        (sequence, is_carried): (u64, bool),
        frame: &[u8],
    ) -> bool {
        let Some(way) = self.way else { return true };
        let sealer = &mut self.sealer;
        let ecn = match Frame::decode(frame) {
            Ok(Frame::Data { packet, .. }) => Class::of(packet).ecn(),
            _ => NOT_CAPABLE,
        };
        let write = |out: &mut Vec<u8>| sealer.seal(sequence, frame, out);
        match is_carried {
            true => self.batches.push(socket, (way, ecn), write),
            false => self.batches.push_alone(socket, (way, ecn), write),
        }
    }
}

/// Puts what the outer header of a datagram says in its ECN field into the packet in it, if there is one
/// (RFC 6040 §4.2); whether it may go on.
pub(super) fn take_mark(frame: &mut [u8], ecn: u8) -> bool {
    ecn == NOT_CAPABLE || packet_in(frame).is_none_or(|packet| decapsulate(packet, Class(ecn)))
}
