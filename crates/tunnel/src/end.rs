//! What gateway and device say to each other through access points, which can neither read nor
//! change it: datagrams of a session of their own, and packets that are coded on their way.

use std::net::{Ipv4Addr, SocketAddr};

use ring::hmac;
use weftline_coding::node::{Place, Seal};
use weftline_coding::wire::{self, Tag};
use weftline_core::Instant;

use crate::TunnelError;
use crate::class::{self, Class, Classes};
use crate::complaint::Complaints;
use crate::endpoint::Dropped;
use crate::frame::{self, Frame};
use crate::key::PublicKey;
use crate::secure::{HandshakeTable, Link, Local, Nonce, Refused, Role, Taken, is_mac};

/// The longest datagram that is taken.
const DATAGRAM_BYTES: usize = 65_536;

/// One end of the way through the access points.
pub(crate) struct End {
    handshakes: HandshakeTable,
    frame: Vec<u8>,
    packet_overhead: usize,
    /// The classes of packets that were sealed for their places.
    pub(crate) classes: Classes,
    complaints: Complaints,
    pub(crate) dropped: Dropped,
}

/// What the other end said.
pub(crate) struct Said<'a> {
    pub(crate) frame: Frame<'a>,
    /// Whether it said so in the newest session.
    pub(crate) current: bool,
    /// Whether also no packet was sealed in that.
    pub(crate) fresh: bool,
}

/// What came of a datagram.
pub(crate) enum Came<'a> {
    Said(Said<'a>),
    /// A session began with it, and nothing was said.
    Begun,
    /// A response to it is to go back.
    Response,
    /// It was dropped, and counted.
    Dropped,
}

impl End {
    /// `role` is [`Role::Initiator`] at the device.
    pub(crate) fn new(local: Local, role: Role, peer: PublicKey) -> Self {
        Self {
            packet_overhead: local.packet_overhead(),
            handshakes: HandshakeTable::new(local, Link::EndToEnd, role, &[peer]),
            frame: vec![0; DATAGRAM_BYTES],
            classes: Classes::default(),
            complaints: Complaints::default(),
            dropped: Dropped::default(),
        }
    }

    /// Takes a datagram that an access point has handed on. A response is appended to `response`, as a
    /// frame for the access point.
    pub(crate) fn take(
        &mut self,
        datagram: &[u8],
        now: Instant,
        response: &mut Vec<u8>,
    ) -> Came<'_> {
        frame::begin_relay(response);
        let opened = match self.handshakes.take(datagram, now, &mut self.frame, response) {
            Ok(Taken::Response) => return Came::Response,
            Ok(Taken::Begun(_)) => return Came::Begun,
            Ok(Taken::Frame(_, opened)) => opened,
            Err(refused) => {
                self.dropped.count(refused);
                // Its sender is not known: an access point only hands it on.
                let from = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
                self.complaints.refused(refused, from, now);
                return Came::Dropped;
            }
        };
        let current = opened.current;
        let fresh = current && !self.handshakes.channel(0).has_packets();
        match Frame::decode(&self.frame[..opened.length]) {
            Some(frame) => Came::Said(Said { frame, current, fresh }),
            None => {
                self.dropped.malformed += 1;
                Came::Dropped
            }
        }
    }

    /// Makes a frame for an access point of one for the other end; whether there is a session.
    pub(crate) fn say(&mut self, frame: &[u8], out: &mut Vec<u8>) -> bool {
        frame::begin_relay(out);
        self.handshakes.channel(0).seal(frame, out).is_some()
    }

    /// Whether there is a session.
    pub(crate) fn is_open(&mut self) -> bool {
        self.handshakes.channel(0).is_open()
    }

    /// Appends a packet's ciphertext to `out`; whether there is a session. A number, or a place, is
    /// given once.
    pub(crate) fn seal_packet(&mut self, nonce: Nonce, packet: &[u8], out: &mut Vec<u8>) -> bool {
        self.handshakes.channel(0).seal_packet(nonce, packet, out)
    }

    /// The packet in a sealed one, if it is of this place.
    pub(crate) fn open_packet(
        &mut self,
        nonce: Nonce,
        sealed: &[u8],
    ) -> Result<&mut [u8], Refused> {
        let length = self.handshakes.channel(0).open_packet(nonce, sealed, &mut self.frame)?;
        Ok(&mut self.frame[..length])
    }

    /// Puts the packet in a sealed one into `out`; whether it is of this place.
    pub(crate) fn open_packet_into(&mut self, at: Place, sealed: &[u8], out: &mut Vec<u8>) -> bool {
        out.resize(sealed.len(), 0);
        let opened = self.handshakes.channel(0).open_packet(Nonce::of_place(at), sealed, out);
        out.truncate(opened.unwrap_or_default());
        opened.is_ok()
    }

    /// What was sealed in the session before is no longer taken.
    pub(crate) fn forget_previous(&mut self) {
        self.handshakes.channel(0).forget_previous();
    }

    /// Appends the initiation that is to be sent now to `out`, as a frame for an access point.
    pub(crate) fn poll_initiation(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        frame::begin_relay(out);
        self.handshakes.poll_initiation(0, now, out)
    }

    /// When an initiation is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.handshakes.poll_timeout()
    }
}

/// Packets are sealed for their places: an access point cannot put one into another's.
impl Seal for End {
    fn overhead(&self) -> usize {
        self.packet_overhead
    }

    fn seal(&mut self, place: Place, packet: &[u8], out: &mut Vec<u8>) -> bool {
        self.classes.insert((place.flow, place.arrival.0), Class::of(packet));
        self.seal_packet(Nonce::of_place(place), packet, out)
    }

    fn mark(&mut self, packet: &mut [u8]) -> bool {
        class::mark(packet)
    }
}

/// A random key.
///
/// # Errors
/// If the system has no random numbers.
pub(crate) fn draw_key() -> Result<[u8; frame::TAG_KEY], TunnelError> {
    use ring::rand::SecureRandom as _;
    let mut key = [0; frame::TAG_KEY];
    let drawn = ring::rand::SystemRandom::new().fill(&mut key);
    drawn.map_err(|_| TunnelError::not_possible("no random numbers", "see getrandom(2)"))?;
    Ok(key)
}

/// What makes and checks the tags in packets' headers: only the gateway can name a generation.
pub(crate) struct Tagger(hmac::Key);

impl Tagger {
    pub(crate) fn new(key: &[u8; frame::TAG_KEY]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// Sets the tag of a packet that the gateway's node has made.
    pub(crate) fn set(&self, packet: &mut [u8]) {
        let named = wire::named(packet).expect("a node makes whole packets");
        let whole = hmac::sign(&self.0, &named);
        let tag: Tag = *whole.as_ref().first_chunk().expect("it is longer");
        wire::set_tag(packet, tag);
    }

    /// Whether a packet has the name of one of the gateway's generations. An attacker that
    /// guesses succeeds once in 2^32 tries, and is shut out after a few.
    pub(crate) fn is_named(&self, packet: &[u8]) -> bool {
        let named = wire::named(packet).zip(wire::tag(packet));
        named.is_some_and(|(named, tag)| is_mac(&self.0, &named, &tag))
    }
}
