//! The epoch of the gateway that a node follows. Labels and numbers begin anew with each epoch, and the
//! node drops frames of other epochs.

use crate::frame::Settings;

/// The gateway's epoch and its settings.
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    current: u32,
    previous: u32,
    settings: Option<Settings>,
}

impl Epochs {
    /// Takes the gateway's epoch and settings; returns the settings if either is new.
    pub(crate) fn follow(&mut self, epoch: u32, settings: Settings) -> Option<Settings> {
        let known = self.current == epoch && self.settings == Some(settings);
        if epoch == 0 || known || epoch == self.previous {
            return None;
        }
        self.previous = self.current;
        self.current = epoch;
        self.settings = Some(settings);
        Some(settings)
    }

    /// Whether a frame is of the epoch that is followed.
    pub(crate) fn is_current(&self, epoch: u32) -> bool {
        epoch != 0 && epoch == self.current
    }

    /// The epoch that is followed; 0 while there is none.
    pub(crate) fn current(&self) -> u32 {
        self.current
    }

    /// Its settings.
    pub(crate) fn settings(&self) -> Option<Settings> {
        self.settings
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weftline_coding::Limits;

    use super::*;
    use crate::frame::Coding;

    #[test]
    fn an_epoch_that_is_over_does_not_come_back() {
        let settings = Settings {
            coding: Coding::Plain,
            interval: Duration::from_millis(2),
            limits: Limits::default(),
            buffer_packets: 1,
            silent_intervals: 2,
            cut_through: false,
        };
        let mut epochs = Epochs::default();
        assert!(!epochs.is_current(0), "none");
        assert_eq!(epochs.follow(0, settings), None, "not known there either");
        assert_eq!(epochs.follow(5, settings), Some(settings));
        assert_eq!(epochs.follow(5, settings), None, "known");
        assert_eq!(epochs.follow(6, settings), Some(settings));
        // From somebody who has not heard of it.
        assert_eq!(epochs.follow(5, settings), None);
        assert!(epochs.is_current(6) && !epochs.is_current(5));
    }
}
