//! The settings that not every scheduler reads.

use std::fmt;

use super::SchedulerConfig;

/// A setting that some schedulers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// [`SchedulerConfig::window`].
    Window,
    /// [`SchedulerConfig::forward_pin`].
    Forward,
    /// [`SchedulerConfig::latency`].
    Latency,
}

impl Setting {
    pub(super) const ALL: [Self; 3] = [Self::Window, Self::Forward, Self::Latency];

    pub(super) const fn is_in(self, config: &SchedulerConfig) -> bool {
        match self {
            Self::Window => config.window.is_some(),
            Self::Forward => config.forward_pin.is_some(),
            Self::Latency => config.latency.is_some(),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Window => "transmission window",
            Self::Forward => "forward path",
            Self::Latency => "aim for the latency",
        })
    }
}
