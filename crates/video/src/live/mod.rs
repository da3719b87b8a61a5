//! A live stream of tiles, as two state machines: what a server does for one player, and a player.
//!
//! The [`Server`] sends one GoP after another in real time. For each it plans with a tile scheme,
//! knowing where its player looks ([`crate::head::Predictor`]) and what the paths carried
//! ([`Forecast`]), says what it sends, and sends it in the plan's order with the GoP's time as the
//! deadline. The [`Client`] plays one GoP behind, or as far as its buffer says: what is not whole when
//! its GoP's time comes is late, and is concealed; a player that rebuffers stops for it first. It
//! reports where it looks and what arrived, and judges what its viewport shows from the losses that the
//! server tells.
//!
//! A GoP's sound is a message like a tile's, before all of them and with their deadline: its bytes are
//! taken from what the tiles may have, so that it is the last to be late.
//!
//! Neither has a clock, a socket or a file: time and bytes come in as arguments, messages
//! ([`wire`]) come out. Whatever carries them may lose, delay, reorder or double those that have a
//! deadline; the others it must bring, in whatever order.
//!
//! The order of calls is that of all state machines here: `handle_*`, then drain
//! `poll_transmit` and `poll_event`, then wait until `poll_timeout`.

mod client;
mod content;
mod digest;
mod pace;
mod playback;
mod server;
mod timeline;
mod unseen;
pub mod wire;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use crate::forecast::{Forecast, PathReading, PlanTime};
pub use client::{Client, ClientSettings, GopReport, Handled, Pose};
pub use content::{Content, LiveFormat, LiveGop, Sound, check_lengths};
pub use digest::Digest;
pub use server::{
    Counters, Outgoing, PlannedGop, PutOff, Reported, Server, ServerSettings, TileOrder, Traffic,
};
pub use timeline::{Slot, Timeline};
pub use wire::WireError;

/// GoPs whose fate a player keeps open at most: a server that says more has lost its way.
pub const MAX_OPEN_GOPS: u32 = 64;

/// Why a live stream cannot go on; the text says what, and the remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LiveError {
    /// The content cannot be streamed.
    #[error("{0}")]
    Content(String),
    /// Bytes from the peer are no message.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The peer sent a message where it makes no sense.
    #[error("the peer sent {what} {when}; is it damaged?")]
    Order {
        /// Which message.
        what: &'static str,
        /// Where.
        when: &'static str,
    },
    /// The peer named something that there is not.
    #[error("the peer speaks of {what} {number}, and there are {count}; is it damaged?")]
    Number {
        /// Of what.
        what: &'static str,
        /// Its number.
        number: u32,
        /// How many there are, or may be.
        count: u32,
    },
    /// The player stops too often to be live.
    #[error(
        "the player has stood still for {} s, and a live stream goes on: let it conceal what is \
             late (without --rebuffer), or give it more paths",
        by.as_secs()
    )]
    Behind {
        /// How long it stood still.
        by: Duration,
    },
    /// The peer does not go on.
    #[error("the peer says: {0}")]
    Refused(String),
    /// A GoP could not be planned.
    #[error("GoP {gop} cannot be planned: {reason}")]
    Plan {
        /// Which.
        gop: u32,
        /// Why.
        reason: String,
    },
}
