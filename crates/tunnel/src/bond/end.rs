//! A lane at one end: its keys, and where the other end is.

use super::keys::{Direction, Header, LaneSecret, Opener, Refused, Sealer};
use super::socket::{Batch, LaneSocket, Way};

/// A lane's keys and address.
pub(super) struct LaneEnd {
    sealer: Sealer,
    opener: Opener,
    /// Where the other end is.
    pub(super) way: Option<Way>,
    pub(super) batch: Batch,
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
            batch: Batch::default(),
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

    /// Queues a frame to be sent; whether the link is there.
    pub(super) fn send(&mut self, socket: &LaneSocket, sequence: u64, frame: &[u8]) -> bool {
        let Some(way) = self.way else { return true };
        let sealer = &mut self.sealer;
        self.batch.push(socket, way, |out| sealer.seal(sequence, frame, out))
    }
}
