//! What a lane's congestion control is told, and what it says.

use std::time::Duration;

use crate::{Bitrate, Instant};

/// The rate at which a lane has delivered over a while
/// (draft-cheng-iccrg-delivery-rate-estimation-02).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneRate {
    /// Bytes delivered over the interval.
    pub delivered: u64,
    /// The longer of the times in which they were sent, and came.
    pub interval: Duration,
    /// What had been delivered in all when the newest of them was sent, in bytes.
    pub prior_delivered: u64,
    /// Whether there was too little to send, so that the link may be faster.
    pub is_limited: bool,
}

/// What the other end has told: that something has come, or is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneAck {
    /// The time.
    pub now: Instant,
    /// Bytes that are newly told to have come, and those that are newly taken to be lost.
    pub delivered: u64,
    /// See `delivered`.
    pub lost: u64,
    /// All bytes that have come so far, and all that were lost.
    pub total_delivered: u64,
    /// See `total_delivered`.
    pub total_lost: u64,
    /// Bytes on their way before this, and after it, without those of urgent packets, which no window
    /// holds back.
    pub in_flight_before: u64,
    /// See `in_flight_before`.
    pub in_flight: u64,
    /// A round trip, without what the other end waited to tell of it.
    pub rtt: Option<Duration>,
    /// The round trip, smoothed (RFC 6298).
    pub srtt: Duration,
    /// The least round trip of late.
    pub least_rtt: Duration,
    /// The rate, if this gives one.
    pub rate: Option<LaneRate>,
    /// The greatest rate of the last seconds over a few milliseconds, in bytes a second; 0 if there is
    /// none.
    pub greatest_rate: u64,
}

/// The congestion control of a lane: how much may be on its way, and how fast it goes. It decides for
/// packets that are not urgent; those that are go at once, and count.
pub trait LaneCongestion: Send + std::fmt::Debug {
    /// The first round trip was measured.
    fn on_established(&mut self, rtt: Duration);

    /// The other end has told something new.
    fn on_ack(&mut self, ack: &LaneAck);

    /// Something is sent after nothing was on its way.
    fn on_restart(&mut self, now: Instant);

    /// The lane has fallen silent: what was on its way is taken to be lost.
    fn on_silence(&mut self, now: Instant);

    /// The bytes that may be on their way. They have come, or are lost, up to [`TELLING`] before
    /// anybody says so.
    fn window(&self) -> u64;

    /// How fast they go.
    fn pacing_rate(&self) -> Bitrate;
}

/// How long the other end gathers what has come before it tells of it.
pub const TELLING: Duration = super::arrivals::GATHER;
