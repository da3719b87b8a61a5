//! Video as state machines: a file and its player, and 360° video.
//!
//! A [`Clip`] is a generated stream with a real encoder's structure. A [`Player`] downloads it
//! progressively and says which pictures were too late and how often the buffer ran dry. For 360°
//! video there are the sphere ([`geometry`]), quality ([`metric`]), head motion ([`head`]), tables of
//! rate and distortion ([`rd`]), the optimiser of tiles ([`ows`]), and a live stream's two ends
//! ([`live`]). Nothing here touches a clock, a file or a socket: time and bytes come in as arguments.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use weftline_core::Instant;
//! use weftline_video::{Clip, ClipConfig, Player, PlayerRules};
//!
//! let config = ClipConfig { duration: Duration::from_secs(10), ..ClipConfig::default() };
//! let clip = Arc::new(Clip::generate(&config)?);
//! let mut player = Player::new(Arc::clone(&clip), PlayerRules::default(), Instant::ZERO);
//! // All of it has arrived after 3 s, which is late for the first picture only.
//! let mut now = Instant::from_millis(3000);
//! player.handle_bytes(clip.total_bytes(), now);
//! while let Some(next) = player.poll_timeout() {
//!     now = next;
//!     player.handle_timeout(now);
//! }
//! assert!(player.is_finished());
//! let stats = player.stats(now);
//! assert_eq!((stats.picture_discards, stats.buffer_underflows), (0, 0));
//! assert!(stats.startup > Some(Duration::from_secs(3)));
//! # Ok::<(), weftline_video::ClipError>(())
//! ```

#![forbid(unsafe_code)]

pub mod evaluate;
pub mod forecast;
pub mod geometry;
pub mod head;
pub mod live;
pub mod metric;
pub mod ows;
mod player;
pub mod rd;
mod sending;
pub mod shown;
mod stream;

pub use player::{Player, PlayerEvent, PlayerRules, PlayerStats};
pub use stream::{Clip, ClipConfig, ClipError, Sample, SampleKind};
