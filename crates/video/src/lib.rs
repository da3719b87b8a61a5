//! Video workloads as state machines.
//!
//! A [`Clip`] is a generated stream with a real encoder's structure; a [`Player`] downloads it
//! progressively and says which pictures were too late and how often the buffer ran dry. Neither
//! touches a clock or a socket: time and bytes come in as arguments.

#![forbid(unsafe_code)]

pub mod evaluate;
pub mod geometry;
pub mod head;
pub mod live;
pub mod metric;
pub mod ows;
mod player;
pub mod rd;
mod stream;

pub use player::{Player, PlayerEvent, PlayerRules, PlayerStats};
pub use stream::{Clip, ClipConfig, ClipError, Sample, SampleKind};
