//! Connections of the kernel's: two ordered queues over a link that may be dark.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use weftline_core::{Bitrate, ByteCount, Instant, PathInfo, SubflowId};

use super::plan::LinkPlan;

/// What arrives together.
const SEGMENT: usize = 4 << 10;

/// What the client's end and the server's are called.
pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

/// What is said on a connection.
#[derive(Clone, Debug)]
pub enum Packet {
    /// TCP's handshake, TLS's, and its answer.
    Secure,
    Secured,
    Hello(SubflowId),
    Join(SubflowId),
    Welcome,
    Refused,
    Records(Vec<Bytes>),
    /// The other end has said all.
    End,
    /// The other end is gone.
    Reset,
}

impl Packet {
    fn size(&self) -> u64 {
        match self {
            Self::Records(records) => records.iter().map(|bytes| bytes.len() as u64).sum(),
            _ => 100,
        }
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub struct Pipe {
    /// What is on its way, with when it is there.
    pub queue: VecDeque<(Instant, Packet)>,
    bytes: u64,
    /// What has arrived in all.
    pub acked: u64,
    /// When the last byte so far has left.
    free_at: Instant,
    /// Whether the next records are said twice.
    pub repeat: bool,
    /// Whether the next records are held back until others have gone.
    pub swap: bool,
    held: Option<Packet>,
    /// Whether a bit of the next records changes.
    pub garble: bool,
    /// Whether a relay acknowledges and keeps everything.
    pub swallows: bool,
    /// Whether the connection breaks when the next records arrive.
    pub corrupt: bool,
}

/// A connection.
#[derive(Debug)]
pub struct Conn {
    pub link: usize,
    /// Whether each end still has it.
    pub open: [bool; 2],
    /// Whether each end has said all, and has heard that from the other.
    pub is_shut: [bool; 2],
    pub heard_end: [bool; 2],
    pub to: [Pipe; 2],
}

impl Conn {
    pub fn new(link: usize) -> Self {
        let to = [Pipe::default(), Pipe::default()];
        Self { link, open: [true; 2], is_shut: [false; 2], heard_end: [false; 2], to }
    }

    /// What the socket at `end` has room for.
    pub fn room(&self, end: usize, plan: &LinkPlan) -> u64 {
        plan.socket.saturating_sub(self.to[1 - end].bytes)
    }

    /// Says a packet from `end`. Returns when it is there.
    pub fn say(&mut self, end: usize, packet: Packet, plan: &LinkPlan, now: Instant) -> Instant {
        let pipe = &mut self.to[1 - end];
        let is_data = matches!(packet, Packet::Records(_));
        let again = (is_data && std::mem::take(&mut pipe.repeat)).then(|| packet.clone());
        let held = pipe.held.take();
        if is_data && held.is_none() && std::mem::take(&mut pipe.swap) {
            pipe.held = Some(packet);
            return now;
        }
        let first = pipe.push(packet, plan, now);
        again.into_iter().chain(held).for_each(|packet| _ = pipe.push(packet, plan, now));
        first
    }

    /// The next packet for `end`, if it is there.
    pub fn arrive(&mut self, end: usize, now: Instant) -> Option<Packet> {
        let pipe = &mut self.to[end];
        pipe.queue.front().filter(|(at, _)| *at <= now)?;
        let (_, packet) = pipe.queue.pop_front()?;
        pipe.bytes -= packet.size();
        pipe.acked += packet.size();
        Some(packet)
    }

    /// The kernel's metrics at `end`.
    pub fn info(&self, end: usize, plan: &LinkPlan) -> PathInfo {
        let (rtt, out) = (2 * plan.delay, &self.to[1 - end]);
        let rate = Bitrate::bps(plan.bytes_per_s * 8);
        let window = rate.bytes_in(rtt).as_u64().max(15_000);
        PathInfo {
            cwnd: ByteCount::new(window),
            in_flight: ByteCount::new(out.bytes.min(window)),
            unsent: ByteCount::new(out.bytes.saturating_sub(window)),
            srtt: rtt,
            rttvar: rtt / 8,
            min_rtt: rtt,
            delivery_rate: rate,
            ..PathInfo::default()
        }
    }

    /// Bytes on their way from `end`.
    pub fn unacked(&self, end: usize) -> u64 {
        self.to[1 - end].bytes
    }
}

impl Pipe {
    /// Nothing of what is on its way arrives.
    pub fn lose_all(&mut self) {
        self.queue.clear();
        self.bytes = 0;
    }

    /// Says a packet in segments. Returns when the first is there.
    fn push(&mut self, packet: Packet, plan: &LinkPlan, now: Instant) -> Instant {
        let Packet::Records(records) = packet else { return self.push_segment(packet, plan, now) };
        let mut first = Instant::FAR;
        for mut record in records {
            while !record.is_empty() {
                let mut segment = record.split_to(record.len().min(SEGMENT));
                if std::mem::take(&mut self.garble) {
                    segment = garbled(&segment, now);
                }
                let at = self.push_segment(Packet::Records(vec![segment]), plan, now);
                first = first.min(at);
            }
        }
        first
    }

    fn push_segment(&mut self, packet: Packet, plan: &LinkPlan, now: Instant) -> Instant {
        let size = packet.size();
        let takes = Duration::from_nanos(size * 1_000_000_000 / plan.bytes_per_s);
        self.free_at = self.free_at.max(now) + takes;
        self.bytes += size;
        let at = self.free_at + plan.delay;
        self.queue.push_back((at, packet));
        at
    }
}

/// The bytes with one bit changed; which, the time says.
fn garbled(bytes: &[u8], now: Instant) -> Bytes {
    let bit = (now.as_nanos() / 1_000) as usize % (8 * bytes.len());
    let mut bytes = bytes.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes.into()
}
