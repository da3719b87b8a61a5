//! Congestion controls, one file each behind one trait, and the coupling between the subflows of a
//! connection.
//!
//! A [`CongestionControl`] is a state machine of one subflow. The endpoint tells it of acknowledgements
//! and losses; it says how large the window is and how fast to pace. Loss recovery itself (SACK, RACK,
//! PRR, timers) is the endpoint's. Windows are in segments, as `f64`. Only + − × ÷ and square roots are
//! used, which IEEE 754 makes the same on every machine.
//!
//! [`all`] lists the controls; [`register`] adds one of yours.
//!
//! ```
//! use weftline_congestion::{AckSample, Config, Coupling, Entry, LossEvent};
//!
//! let mut reno = Entry::find("reno").expect("it is built in").make(&Config::default());
//! // A connection of one subflow has nothing to couple.
//! let members = [reno.member(Default::default())];
//! let alone = Coupling { members: &members, me: 0 };
//!
//! // Slow start: a segment more for each one that is acknowledged.
//! let ack = AckSample { delivered: 2, cwnd_limited: true, ..AckSample::default() };
//! reno.on_ack(&ack, &alone);
//! assert_eq!(reno.cwnd(), 12.0);
//! // A loss halves the window.
//! reno.on_congestion(&LossEvent { in_flight: 12, ..LossEvent::default() }, &alone);
//! assert_eq!(reno.cwnd(), 6.0);
//! ```

#![forbid(unsafe_code)]

mod balia;
mod bbr;
mod bbr3;
mod compound;
mod coupled;
mod cubic;
mod filter;
mod hystart;
pub mod lane;
mod lia;
mod olia;
mod registry;
mod reno;
#[cfg(test)]
mod tests;
mod window;

use std::time::Duration;

pub use registry::{Entry, NameTaken, REGISTRY, all, register};
use weftline_core::{Bitrate, Instant};

/// Where an endpoint stands in its loss recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is known to be lost.
    #[default]
    Open,
    /// Lost segments are being retransmitted after duplicate acknowledgements (RFC 6675).
    Recovery,
    /// A retransmission timeout has been taken.
    Loss,
}

/// A delivery rate sample (draft-cheng-iccrg-delivery-rate-estimation-02).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Segments delivered over the interval; 0 if there is no sample.
    pub delivered: u64,
    /// The longer of the send and the acknowledgement interval; zero if there is no sample.
    pub interval: Duration,
    /// `total_delivered` when the segment that was acknowledged had been sent.
    pub prior_delivered: u64,
    /// Whether the application, not the network, limited the sample.
    pub app_limited: bool,
    /// Segments marked lost while the sample was taken.
    pub lost: u64,
}

/// What a control learns from an acknowledgement that delivers something new.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckSample {
    /// The time.
    pub now: Instant,
    /// Segments newly delivered: acknowledged or selectively acknowledged. `D` in the formulas.
    pub delivered: u64,
    /// The round-trip time measured by this acknowledgement; none from retransmissions.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time (RFC 6298), this sample included.
    pub srtt: Duration,
    /// The least round-trip time seen.
    pub min_rtt: Duration,
    /// Segments in flight before this acknowledgement.
    pub prior_in_flight: u64,
    /// Segments in flight after it.
    pub in_flight: u64,
    /// Whether the window, not the application, has limited sending of late.
    pub cwnd_limited: bool,
    /// Where recovery stands, this acknowledgement included.
    pub phase: Phase,
    /// Segments marked lost by this acknowledgement.
    pub newly_lost: u64,
    /// Segments delivered since the subflow began, these included.
    pub total_delivered: u64,
    /// Segments marked lost since the subflow began.
    pub total_lost: u64,
    /// Everything below this stream offset has been acknowledged (SND.UNA), in bytes.
    pub una: u64,
    /// The next offset to be sent (SND.NXT), in bytes: where a round begun now ends.
    pub nxt: u64,
    /// The delivery rate.
    pub rate: RateSample,
}

/// What a control learns when recovery begins, by duplicate acknowledgements or by timeout.
#[derive(Clone, Copy, Debug, Default)]
pub struct LossEvent {
    /// The time.
    pub now: Instant,
    /// Segments in flight, those that have just been marked lost taken out.
    pub in_flight: u64,
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// SND.NXT in bytes.
    pub nxt: u64,
}

/// What the other controls of a connection see of one subflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// Its window in segments.
    pub cwnd: f64,
    /// Its smoothed round-trip time in seconds; 0 before the first sample.
    pub srtt_s: f64,
    /// The larger of the bytes delivered since its last loss and between its last two losses
    /// (OLIA's `l_r`).
    pub epoch_bytes: f64,
}

/// The subflows of a connection, as its coupled controls see them.
#[derive(Clone, Copy, Debug)]
pub struct Coupling<'a> {
    /// Every established subflow of the connection; `members[me]` is the control's own, as of
    /// before the event at hand.
    pub members: &'a [Member],
    /// The control's own place.
    pub me: usize,
}

/// A congestion control of one subflow.
///
/// The endpoint decides when a loss begins a recovery (at most once per round trip) and reduces
/// what is in flight by PRR (RFC 9937) towards [`cwnd`](Self::cwnd), which the control has lowered
/// at once; unless [`owns_recovery`](Self::owns_recovery).
pub trait CongestionControl: Send + std::fmt::Debug {
    /// The handshake has measured this round-trip time, before any data: the first window is
    /// paced by it. Without this call a control learns it from the first acknowledgement.
    fn on_established(&mut self, srtt: Duration) {
        let _ = srtt;
    }

    /// Takes an acknowledgement. Loss-based controls do not grow in [`Phase::Recovery`]; in
    /// [`Phase::Loss`] slow start, and what follows it, go on as in Linux.
    fn on_ack(&mut self, ack: &AckSample, coupling: &Coupling<'_>);

    /// Recovery begins: sets `ssthresh` and lowers the window to it.
    fn on_congestion(&mut self, loss: &LossEvent, coupling: &Coupling<'_>);

    /// The retransmission timer has expired. `first` is false for further expiries of the same
    /// loss, which do not lower `ssthresh` again.
    fn on_timeout(&mut self, loss: &LossEvent, first: bool, coupling: &Coupling<'_>);

    /// Everything outstanding when recovery began has been acknowledged.
    fn on_recovery_end(&mut self, now: Instant) {
        let _ = now;
    }

    /// The last reduction was for nothing (RFC 4015): takes it back.
    fn on_spurious(&mut self);

    /// Sending goes on after nothing was in flight.
    fn on_restart(&mut self, now: Instant) {
        let _ = now;
    }

    /// Halves window and, outside slow start, `ssthresh`: a scheduler's penalisation of a subflow
    /// that holds the others up (mptcp_sched.c of MPTCP v0.95).
    fn on_penalty(&mut self);

    /// The application has left the window unused for a retransmission timeout or longer: lowers
    /// the window to `cwnd` segments if it is larger, and raises `ssthresh` to three quarters of
    /// the old window if it is lower (RFC 2861; `tcp_cwnd_application_limited` and
    /// `tcp_cwnd_restart` of Linux). Controls that model the network, such as BBR, keep theirs.
    fn on_unused_window(&mut self, cwnd: f64);

    /// The congestion window in segments, at least 1.
    fn cwnd(&self) -> f64;

    /// The slow start threshold in segments; infinity before the first loss.
    fn ssthresh(&self) -> f64;

    /// How fast to send, for controls that pace.
    fn pacing_rate(&self) -> Option<Bitrate> {
        None
    }

    /// Whether the control sets the window in recovery itself, in place of PRR.
    fn owns_recovery(&self) -> bool {
        false
    }

    /// What the connection's other controls see; `srtt` is the endpoint's.
    fn member(&self, srtt: Duration) -> Member {
        Member { cwnd: self.cwnd(), srtt_s: srtt.as_secs_f64(), epoch_bytes: 0.0 }
    }
}

/// Settings of a control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The payload of a full segment in bytes.
    pub mss: u64,
    /// The window to begin with, in segments (RFC 6928).
    pub initial_cwnd: u64,
    /// The slow start of controls that have a choice.
    pub slow_start: SlowStart,
    /// The seed of a control that draws random numbers, such as BBR's first phase.
    pub seed: u64,
    /// Where there is too little to send to fill the link, a round trip that is longer than the least by no
    /// more than this, and a segment's time, and half the least, is one without a queue: BBR v1 has nothing
    /// to empty it for then, and the least holds for ten seconds more. Zero, as Linux has it: the least holds
    /// on if there is a shorter one only.
    pub near_rtt: Duration,
}

/// How slow start ends before the first loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowStart {
    /// HyStart as in Linux (CUBIC only; the others have none there).
    #[default]
    Hystart,
    /// HyStart++ (RFC 9406), in Reno and CUBIC.
    HystartPlusPlus,
    /// By loss only.
    Plain,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1448,
            initial_cwnd: 10,
            slow_start: SlowStart::default(),
            seed: 1,
            near_rtt: Duration::ZERO,
        }
    }
}
