//! The workload `video`: which clip is played, and by what rules.

use std::fmt;
use std::time::Duration;

use weftline_core::ByteCount;
use weftline_video::{ClipConfig, PlayerRules};

use crate::ScenarioError;
use crate::document::Table;

/// The longest caching time, VLC's own limit.
const MAX_CACHING: Duration = Duration::from_secs(60);

/// A clip and its player. A run ends when the last picture has been shown, and at the scenario's
/// duration at the latest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VideoSpec {
    /// What is played.
    pub clip: ClipConfig,
    /// How.
    pub rules: PlayerRules,
}

impl VideoSpec {
    /// Reads the settings beside `kind = "video"`.
    pub(crate) fn read(table: &mut Table<'_>) -> Result<Self, ScenarioError> {
        let Self { mut clip, mut rules } = Self::default();
        if let Some(value) = table.take("rate") {
            clip.rate = value.quantity()?;
        }
        clip.duration = table.duration_or("duration", clip.duration)?;
        if let Some(value) = table.take("fps") {
            clip.fps = value.whole(1, 120)? as u32;
        }
        clip.gop = table.duration_or("gop", clip.gop)?;
        if let Some(value) = table.take("seed") {
            clip.seed = value.whole(0, i64::MAX as u64)?;
        }
        clip.check().map_err(|error| table.error(error))?;
        if let Some(value) = table.take("caching") {
            rules.caching = value.duration()?;
            if rules.caching > MAX_CACHING {
                return Err(value.error("wants at most 60s"));
            }
        }
        rules.jitter_max = table.duration_or("jitter_max", rules.jitter_max)?;
        rules.late_tolerance = table.duration_or("late_tolerance", rules.late_tolerance)?;
        if let Some(value) = table.take("read_ahead") {
            rules.read_ahead = value.quantity()?;
            if rules.read_ahead == ByteCount::ZERO {
                return Err(value.error("a client that reads nothing ahead reads nothing at all"));
            }
        }
        Ok(Self { clip, rules })
    }
}

/// As the keys of a `[workload]` table.
impl fmt::Display for VideoSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duration = humantime::format_duration;
        let Self { clip, rules } = self;
        writeln!(f, "rate = \"{}\"", clip.rate)?;
        writeln!(f, "duration = \"{}\"", duration(clip.duration))?;
        writeln!(f, "fps = {}", clip.fps)?;
        writeln!(f, "gop = \"{}\"", duration(clip.gop))?;
        writeln!(f, "seed = {}", clip.seed)?;
        writeln!(f, "caching = \"{}\"", duration(rules.caching))?;
        writeln!(f, "jitter_max = \"{}\"", duration(rules.jitter_max))?;
        writeln!(f, "late_tolerance = \"{}\"", duration(rules.late_tolerance))?;
        writeln!(f, "read_ahead = \"{}\"", rules.read_ahead)
    }
}
