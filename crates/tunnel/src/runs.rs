//! Which run of the gateway a node follows: with another one labels and numbers begin anew, and
//! what is still on its way from the one before is nothing any more.

use crate::frame::Settings;

/// The gateway's run and its settings.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    current: u32,
    previous: u32,
    settings: Option<Settings>,
}

impl Runs {
    /// Takes what is said of the gateway; the settings if a run, or settings, are new.
    pub(crate) fn follow(&mut self, run: u32, settings: Settings) -> Option<Settings> {
        let known = self.current == run && self.settings == Some(settings);
        if run == 0 || known || run == self.previous {
            return None;
        }
        self.previous = self.current;
        self.current = run;
        self.settings = Some(settings);
        Some(settings)
    }

    /// Whether a frame is of the run that is followed.
    pub(crate) fn is_current(&self, run: u32) -> bool {
        run != 0 && run == self.current
    }

    /// The run that is followed; 0 while there is none.
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
    fn a_run_that_is_over_does_not_come_back() {
        let settings = Settings {
            coding: Coding::Plain,
            interval: Duration::from_millis(2),
            limits: Limits::default(),
            buffer_packets: 1,
            silent_intervals: 2,
            cut_through: false,
        };
        let mut runs = Runs::default();
        assert!(!runs.is_current(0), "none");
        assert_eq!(runs.follow(0, settings), None, "not known there either");
        assert_eq!(runs.follow(5, settings), Some(settings));
        assert_eq!(runs.follow(5, settings), None, "known");
        assert_eq!(runs.follow(6, settings), Some(settings));
        // From somebody who has not heard of it.
        assert_eq!(runs.follow(5, settings), None);
        assert!(runs.is_current(6) && !runs.is_current(5));
    }
}
