//! The sound that a package is to have.

use serde::{Deserialize, Serialize};

/// All sound is packaged at this rate.
const RATE_HZ: u32 = 48_000;

/// What the sound of a package is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoundTrack {
    /// Samples a second of each channel.
    pub rate_hz: u32,
    /// One or two.
    pub channels: u8,
}

impl SoundTrack {
    /// What becomes of a track of so many channels.
    pub(crate) const fn of(channels: u8) -> Self {
        Self { rate_hz: RATE_HZ, channels }
    }

    /// Whether it can be.
    pub(crate) const fn is_sane(self) -> bool {
        self.rate_hz == RATE_HZ && (self.channels == 1 || self.channels == 2)
    }
}
