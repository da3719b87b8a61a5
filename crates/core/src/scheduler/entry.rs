//! What is known of a scheduler by its name.

use super::settings::Setting;
use super::{Rule, RulesOff, Scheduler, SchedulerConfig};

/// A scheduler's entry in the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    pub(super) make: fn(&SchedulerConfig) -> Box<dyn Scheduler>,
    /// The least and largest chunk in bytes; the paper's FBDT assigns single segments, which would
    /// cost a system call each.
    pub(super) chunk: (u64, u64),
    /// The only number of paths it works with, if there is one.
    pub(super) paths: Option<usize>,
    /// Whether it decides for each segment, as a kernel's does.
    pub(super) by_segment: bool,
    /// Whether daemons never ask for it.
    pub(super) simulator_only: bool,
    /// The settings that it reads.
    pub(super) settings: &'static [Setting],
    /// Its rules that can be switched off.
    pub(super) rules: &'static [Rule],
}

/// A scheduler that does not work with that many paths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the scheduler '{name}' needs exactly {needs} paths and there are {given}; give it {needs}, or \
     choose another scheduler, such as min-rtt"
)]
pub struct WrongPaths {
    name: &'static str,
    needs: usize,
    given: usize,
}

impl Entry {
    /// A scheduler called `name` that does what `about` says. A session checks what it assigns.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        make: fn(&SchedulerConfig) -> Box<dyn Scheduler>,
    ) -> Self {
        let (settings, rules): (&[_], &[_]) = (&[], &[]);
        Self {
            name,
            about,
            make,
            chunk: CHUNK,
            paths: None,
            by_segment: false,
            simulator_only: false,
            settings,
            rules,
        }
    }

    /// The same, which reads these settings. Whoever gives it another is told that it has none.
    #[must_use]
    pub const fn reading(self, settings: &'static [Setting]) -> Self {
        Self { settings, ..self }
    }

    /// The same, with rules that can be switched off.
    #[must_use]
    pub const fn with_rules(self, rules: &'static [Rule]) -> Self {
        Self { rules, ..self }
    }

    /// The same, of a kernel: the simulator asks it for each segment when there is room for that, where
    /// daemons keep a little unsent in each socket.
    #[must_use]
    pub const fn by_segment(self) -> Self {
        Self { by_segment: true, ..self }
    }

    /// The same, for simulations alone: nobody writes its name on a command line or asks a server for it,
    /// so it may be any.
    #[must_use]
    pub const fn in_simulator_only(self) -> Self {
        Self { simulator_only: true, ..self }
    }

    /// Whether it decides for each segment, as a kernel's does.
    pub const fn is_by_segment(&self) -> bool {
        self.by_segment
    }

    /// A scheduler of this kind.
    pub fn make(&self, config: &SchedulerConfig) -> Box<dyn Scheduler> {
        (self.make)(config)
    }

    /// The least and largest number of bytes it assigns at once.
    pub const fn chunk(&self) -> (u64, u64) {
        self.chunk
    }

    /// The settings that it reads, beside the rules that can be switched off.
    pub const fn settings(&self) -> &'static [Setting] {
        self.settings
    }

    /// Of the rules that are switched off those that it has.
    pub fn rules_of(&self, off: RulesOff) -> RulesOff {
        let its = self.rules.iter().filter(|rule| !off.keeps(**rule));
        its.fold(RulesOff::default(), |set, rule| set.and(*rule))
    }

    /// The only number of paths it works with, if there is one.
    pub const fn paths(&self) -> Option<usize> {
        self.paths
    }

    /// Whether it works with `given` paths. Call it before a connection is made; a scheduler whose
    /// paths die later works with those that are left.
    ///
    /// # Errors
    ///
    /// It needs another number of paths.
    pub const fn check_paths(&self, given: usize) -> Result<(), WrongPaths> {
        match self.paths {
            Some(needs) if needs != given => Err(WrongPaths { name: self.name, needs, given }),
            _ => Ok(()),
        }
    }
}

/// The chunk limits of schedulers without reasons of their own.
pub(super) const CHUNK: (u64, u64) = (4 << 10, 64 << 10);
