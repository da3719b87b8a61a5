//! A lane at the server: its keys, where its client is, and by what it leaves.

use std::net::SocketAddr;

use super::super::end::LaneEnd;
use super::super::keys::{HEADER, TAG};
use super::super::socket::{LaneSocket, NOWHERE};
use super::super::status::Dropped;
use super::super::whereabouts::{Place, Whereabouts};
use crate::poll::Source;

/// A lane, and where its client is.
pub(super) struct Heard {
    pub(super) end: LaneEnd,
    pub(super) whereabouts: Whereabouts,
    /// The socket by which what is gathered leaves.
    socket: usize,
}

/// The lane over TCP.
pub(super) struct OverTcp {
    pub(super) lane: u8,
    pub(super) socket: LaneSocket,
    pub(super) source: Source,
}

/// Where a lane over TCP is heard: by no socket of the server's.
pub(super) const TCP_PLACE: Place = Place { way: NOWHERE, socket: usize::MAX };

/// What datagrams of a session leave by.
#[derive(Clone, Copy)]
pub(super) struct Sockets<'a> {
    /// The server's, and what tells when something can be read.
    pub(super) udp: &'a [(LaneSocket, Source)],
    pub(super) over_tcp: Option<&'a LaneSocket>,
}

impl Sockets<'_> {
    fn at(&self, place: usize) -> Option<&LaneSocket> {
        match place {
            _ if place == TCP_PLACE.socket => self.over_tcp,
            place => self.udp.get(place).map(|(socket, _)| socket),
        }
    }
}

impl Heard {
    pub(super) fn new(end: LaneEnd) -> Self {
        Self { end, whereabouts: Whereabouts::default(), socket: 0 }
    }

    /// A lane whose client is the one that has opened it, over an authenticated connection.
    pub(super) fn over_tcp(end: LaneEnd) -> Self {
        Self { end, whereabouts: Whereabouts::known(TCP_PLACE), socket: TCP_PLACE.socket }
    }

    /// Queues a frame to be sent, if it may be; whether the link is there.
    pub(super) fn send(
        &mut self,
        sockets: Sockets<'_>,
        (datagram, frame): ((u64, bool), &[u8]),
        dropped: &mut Dropped,
    ) -> bool {
        let Some(place) = self.whereabouts.take((HEADER + frame.len() + TAG) as u64) else {
            dropped.unproven += 1;
            return true;
        };
        self.send_to(place, sockets, (datagram, frame))
    }

    pub(super) fn send_to(
        &mut self,
        place: Place,
        sockets: Sockets<'_>,
        (datagram, frame): ((u64, bool), &[u8]),
    ) -> bool {
        let is_there = place.socket == self.socket || self.flush(sockets);
        self.socket = place.socket;
        self.end.way = Some(place.way);
        let Some(socket) = sockets.at(place.socket) else {
            self.end.batches.unsent.refused += 1;
            return false;
        };
        self.end.send(socket, datagram, frame) && is_there
    }

    pub(super) fn peer(&self) -> Option<SocketAddr> {
        let place = self.whereabouts.place().filter(|place| *place != TCP_PLACE);
        place.map(|place| place.way.peer)
    }

    /// Sends what is gathered; whether the link is there.
    pub(super) fn flush(&mut self, sockets: Sockets<'_>) -> bool {
        sockets.at(self.socket).is_none_or(|socket| self.end.batches.flush(socket))
    }
}
