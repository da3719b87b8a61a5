//! What both ends of a session have: trains out, trains in, reports both ways.

use std::net::SocketAddr;
use std::time::Duration;

use weftline_core::Instant;

use super::collector::{Collector, Stamp};
use super::pacer::{Burst, Pacer};
use super::wire::{Key, Packet, Reason, TRAIN_BYTES, TrainHeader};
use super::{Ask, Sample, headers};

/// How the bytes to send are datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of each datagram.
    pub segment: usize,
    /// Whether they may go as one super-packet.
    pub together: bool,
}

/// One end of a session that is open.
#[derive(Debug)]
pub(super) struct Peer {
    session: u64,
    key: Key,
    /// Bytes before a datagram on the wire.
    headers: u16,
    size: u16,
    pub(super) pacer: Option<Pacer>,
    pub(super) collector: Option<Collector>,
    /// When something signed has last come from the other end.
    pub(super) heard: Instant,
    /// The round-trip time that the other end's trains tell.
    told_rtt: Option<Duration>,
}

/// What a packet of the other end was.
#[derive(Debug)]
pub(super) enum Heard {
    /// The session is over.
    End(Reason),
    /// Somebody else's: it was not signed with the key.
    Forged,
    /// What the peer has made of our trains.
    Results(Vec<Sample>),
    /// Something else that the session needs.
    Other,
}

impl Peer {
    /// An end that sends and takes trains as asked.
    pub(super) fn new(
        session: u64,
        key: Key,
        ask: &Ask,
        other: SocketAddr,
        [sends, receives]: [bool; 2],
        now: Instant,
    ) -> Self {
        Self {
            session,
            key,
            headers: headers(other),
            size: ask.size,
            pacer: sends.then(|| Pacer::new(ask, now)),
            collector: receives.then(Collector::default),
            heard: now,
            told_rtt: None,
        }
    }

    pub(super) fn session(&self) -> u64 {
        self.session
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// Takes a packet of `length` bytes.
    pub(super) fn handle(
        &mut self,
        decoded: &super::wire::Decoded<'_>,
        length: usize,
        stamp: Stamp,
        now: Instant,
    ) -> Heard {
        if decoded.session != self.session || !decoded.is_by(&self.key) {
            return Heard::Forged;
        }
        self.heard = now;
        match (&decoded.packet, &mut self.collector, &mut self.pacer) {
            (Packet::End(reason), _, _) => Heard::End(*reason),
            (Packet::Train(header), Some(collector), _) => {
                self.told_rtt = Some(header.rtt).filter(|rtt| !rtt.is_zero()).or(self.told_rtt);
                let bytes = u32::try_from(length).unwrap_or(u32::MAX);
                collector.on_packet(header, bytes + u32::from(self.headers), stamp, now);
                Heard::Other
            }
            (Packet::Report(report), _, Some(pacer)) => {
                pacer.on_report(report, now);
                Heard::Results(report.results.clone())
            }
            _ => Heard::Other,
        }
    }

    /// The latest round-trip time, of small packets and what they found queued.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.pacer.as_ref().and_then(Pacer::rtt).or(self.told_rtt)
    }

    /// When [`Peer::poll_transmit`] or [`Peer::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let collects = self.collector.as_ref().and_then(Collector::poll_timeout);
        let sends = self.pacer.as_ref().map(Pacer::poll_timeout);
        collects.into_iter().chain(sends).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let Some(collector) = &mut self.collector {
            collector.handle_timeout(now);
        }
    }

    /// Writes what is to be sent now to `out`, which is empty.
    pub(super) fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Shape> {
        if let Some(report) = self.collector.as_mut().and_then(|c| c.poll_report(now)) {
            Packet::Report(report).encode(self.session, Some(&self.key), out);
            return Some(Shape { segment: out.len(), together: true });
        }
        let burst = self.pacer.as_mut()?.poll(now)?;
        Some(self.write(&burst, out))
    }

    fn write(&self, burst: &Burst, out: &mut Vec<u8>) -> Shape {
        let Burst { train, packets, sent, interval, together } = *burst;
        let key = Some(&self.key);
        let rtt = self.pacer.as_ref().and_then(Pacer::rtt).unwrap_or_default();
        let segment = match packets {
            0 => TRAIN_BYTES,
            _ => usize::from(self.size - self.headers).max(TRAIN_BYTES),
        };
        for index in 0..packets.max(1) {
            let header = TrainHeader { train, index, packets, sent, interval, rtt };
            Packet::Train(header).encode(self.session, key, out);
            pad(out, segment * (usize::from(index) + 1));
        }
        Shape { segment, together }
    }
}

/// Lengthens `out` to `length` by bytes that no link can compress.
fn pad(out: &mut Vec<u8>, length: usize) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ out.len() as u64;
    while out.len() < length {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let count = (length - out.len()).min(8);
        out.extend_from_slice(&state.to_be_bytes()[..count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::wire::Cookie;

    #[test]
    fn a_train_has_packets_of_the_size_asked_for() {
        for (other, payload) in
            [("192.0.2.1:7", 1472), ("[::ffff:192.0.2.1]:7", 1472), ("[2001:db8::1]:7", 1452)]
        {
            let key = Key::new(None, 1, &Cookie { slot: 0, mac: [0; 16] });
            let ask = Ask::default();
            let other = other.parse().unwrap();
            let mut peer = Peer::new(1, key, &ask, other, [true, true], Instant::ZERO);
            let mut out = Vec::new();
            let shape = peer.poll_transmit(Instant::ZERO, &mut out).unwrap();
            assert_eq!((shape.segment, out.len()), (payload, payload * 30));
            for packet in out.chunks(payload) {
                let stamp = Stamp { at: Instant::ZERO, steps: Some(0) };
                let decoded = Packet::decode(packet).unwrap();
                let heard = peer.handle(&decoded, packet.len(), stamp, Instant::ZERO);
                assert!(matches!(heard, Heard::Other), "{heard:?}");
            }
            let sample = peer.collector.as_mut().unwrap().poll_sample().unwrap();
            assert_eq!(sample.received, 30);
        }
    }
}
