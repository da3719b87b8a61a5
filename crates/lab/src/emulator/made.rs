//! Packets for tests, as a TUN device gives them.

use std::time::Duration;

use etherparse::PacketBuilder;
use weftline_core::{Bitrate, ByteCount};
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};

use crate::packet::VNET_LEN;

/// IPv4 and TCP headers.
pub(super) const HEADERS: usize = 40;

/// A packet of `size` bytes on the wire that carries `number`.
pub(super) fn whole(number: u32, size: usize) -> Vec<u8> {
    tcp(vec![0; VNET_LEN], number, size.checked_sub(HEADERS).expect("room for the headers"))
}

/// A super-packet with `payload` bytes of payload in segments of `segment` that carries `number`.
pub(super) fn parts(number: u32, payload: usize, segment: usize) -> Vec<u8> {
    // The checksum is to be completed; TCP over IPv4; headers, segment, and the checksum's place.
    let mut packet = vec![1, 1];
    for word in [HEADERS as u16, segment as u16, 20, 16] {
        packet.extend(word.to_ne_bytes());
    }
    tcp(packet, number, payload)
}

/// TCP's sequence number is the packet's number.
fn tcp(mut packet: Vec<u8>, number: u32, payload: usize) -> Vec<u8> {
    let ip = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    ip.tcp(1, 2, number, 65_535).write(&mut packet, &vec![7; payload]).unwrap();
    packet
}

/// The number that a packet carries.
pub(super) fn number(packet: &[u8]) -> u32 {
    let at = VNET_LEN + 24;
    u32::from_be_bytes(packet[at..at + 4].try_into().unwrap())
}

/// A link of `mbps` with a delay of `delay_ms`, no jitter, no loss, and room for `queue` packets.
pub(super) fn link(mbps: u64, delay_ms: u64, queue: u64) -> LinkConfig {
    LinkConfig {
        rate: RateTrace::constant(Bitrate::mbps(mbps)),
        delay: Duration::from_millis(delay_ms),
        jitter: Duration::ZERO,
        queue: QueueLimit::Packets(queue),
        loss: LossModel::None,
    }
}

/// A queue of `bytes`.
pub(super) fn bytes(bytes: u64) -> QueueLimit {
    QueueLimit::Bytes(ByteCount::new(bytes))
}
