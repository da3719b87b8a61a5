//! The measuring of what a path carries, by packet trains (COTAG §IV-A.2): `weftline probe`.
//!
//! A sender sends L packets of S bytes back to back, every 10 ms. The receiver stamps them in its
//! kernel and takes the rate of the slowest link from their spacing ([`Dispersion`]). It reports
//! to the sender, which keeps its trains so short and so rare that one is through before the next
//! is sent ([`Pacer`]).
//!
//! Everything but [`socket`](self) and the loops around it ([`serve`], [`run`]) is sans-IO: bytes,
//! stamps and the time go in, bytes and measurements come out. [`Estimator`] turns measurements
//! into a rate that a sender can pace by; COTAG's nodes use it.

mod client;
mod clock;
mod collector;
mod dispersion;
mod drive;
mod estimator;
mod pacer;
mod peer;
mod recorder;
mod server;
mod socket;
pub mod wire;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weftline_core::{Bitrate, ByteCount, Instant};

pub use crate::clock::now;
pub use client::{Client, ClientConfig, Ended, Event};
pub(crate) use clock::Translator;
pub use collector::{Collector, Stamp};
pub use dispersion::{Arrival, Dispersion, Unusable};
pub use drive::{run, serve};
pub use estimator::Estimator;
pub use pacer::{Burst, Pacer};
pub use peer::Shape;
pub use recorder::{CSV_HEADER, Recorded, Recorder, Row};
pub use server::{Route, Server, ServerConfig, ServerEvent, Stats};
pub use socket::{Datagram, ProbeSocket, Source};

/// Most packets of a train.
pub const TRAIN_MAX: u8 = 200;
/// Fewest packets of a train: with fewer, the ends' jitter is too large a part of it.
pub const TRAIN_MIN: u8 = 8;
/// Sizes of a train's packets, IP header included, in bytes.
pub const SIZES: std::ops::RangeInclusive<u16> = 128..=9000;
/// Times between trains.
pub const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(10);
/// The longest measurement.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

/// Which way trains go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Both ways at once.
    Both,
    /// From server to client.
    Down,
    /// From client to server.
    Up,
}

impl Direction {
    /// Whether the client's trains are measured.
    pub fn has_up(self) -> bool {
        self != Self::Down
    }

    /// Whether the server's trains are measured.
    pub fn has_down(self) -> bool {
        self != Self::Up
    }
}

/// What a client wants measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Which way.
    pub direction: Direction,
    /// Packets of a train, L; fewer where the path is slow.
    pub train: u8,
    /// The size of each packet with its IP header, S, in bytes.
    pub size: u16,
    /// From one train to the next; longer where the path is slow.
    pub every: Duration,
    /// How long.
    pub duration: Duration,
}

impl Default for Ask {
    /// COTAG's: 30 packets of 1500 bytes every 10 ms; for 10 s.
    fn default() -> Self {
        Self {
            direction: Direction::Down,
            train: 30,
            size: 1500,
            every: Duration::from_millis(10),
            duration: Duration::from_secs(10),
        }
    }
}

impl Ask {
    /// What the trains take in each direction at most.
    pub fn rate(&self) -> Bitrate {
        let bytes = u64::from(self.train) * u64::from(self.size);
        Bitrate::from_transfer(ByteCount::new(bytes), self.every)
    }

    /// Checks that it can be measured.
    ///
    /// # Errors
    /// What cannot be, and what can.
    pub fn check(&self) -> Result<(), String> {
        if !(TRAIN_MIN..=TRAIN_MAX).contains(&self.train) {
            let train = self.train;
            return Err(format!("a train has {TRAIN_MIN} to {TRAIN_MAX} packets, not {train}"));
        }
        if !SIZES.contains(&self.size) {
            let (least, most) = (SIZES.start(), SIZES.end());
            return Err(format!("packets have {least} to {most} bytes, not {}", self.size));
        }
        if !INTERVALS.contains(&self.every) {
            let every = self.every;
            return Err(format!("trains go every 1 ms to 10 s, not every {every:?}"));
        }
        if self.duration.is_zero() || self.duration > DURATION_MAX {
            let duration = self.duration;
            return Err(format!("a measurement takes up to 24 h, and some time, not {duration:?}"));
        }
        Ok(())
    }
}

/// What became of one train of which at least a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The train's number, from 0.
    pub train: u32,
    /// Packets that it had.
    pub packets: u8,
    /// Those of them that came.
    pub received: u8,
    /// When it was sent, by the sender's clock.
    pub sent: Instant,
    /// When its first packet came, by the receiver's clock.
    pub first: Instant,
    /// When its last packet came, by the receiver's clock.
    pub last: Instant,
    /// When the sender meant to send the next one, after `sent`.
    pub interval: Duration,
    /// What it measured, or why nothing.
    pub outcome: Result<Dispersion, Unusable>,
}

impl Sample {
    /// The rate of IP packets, where there is one.
    pub fn rate(&self) -> Option<Bitrate> {
        self.outcome.ok().map(|dispersion| dispersion.rate())
    }
}

/// Bytes of the IP and UDP headers before a datagram to or from `address`.
pub fn headers(address: SocketAddr) -> u16 {
    match address.ip().to_canonical() {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}
