//! Every scheduler, by name: those of this crate, and those that a program has registered.

use std::sync::{PoisonError, RwLock};

use super::{
    Scheduler, SchedulerConfig, blest, earliest, ecf, fbdt, largest_credits, largest_throughput,
    linux, min_rtt, musher, redundant, round_robin, single, sticky,
};

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
}

/// Every scheduler of this crate.
pub const REGISTRY: &[Entry] = &[
    fbdt::ENTRY,
    fbdt::STRICT_ENTRY,
    earliest::ENTRY,
    min_rtt::ENTRY,
    largest_credits::ENTRY,
    largest_throughput::ENTRY,
    sticky::GREEDY,
    sticky::THROUGHPUT,
    sticky::THROUGHPUT_SOFT,
    sticky::THROUGHPUT_RTT,
    sticky::THROUGHPUT_RTT_SOFT,
    blest::ENTRY,
    ecf::ENTRY,
    linux::ENTRY,
    musher::ENTRY,
    round_robin::ENTRY,
    redundant::ENTRY,
    single::ENTRY,
];

/// The schedulers of other crates.
static REGISTERED: RwLock<Vec<&'static Entry>> = RwLock::new(Vec::new());

/// A scheduler that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// There is one of that name.
    #[error("there is a scheduler '{0}' already; choose another name")]
    Taken(&'static str),
    /// It could not be said on the command line or on the wire.
    #[error("a scheduler's name is 1 to 32 of a-z, 0-9 and '-', '{0}' is not; choose another name")]
    Unspeakable(&'static str),
}

/// The longest name of a scheduler in bytes.
const MAX_NAME: usize = 32;

/// Makes a scheduler of another crate known by its name, in this process: to the command line,
/// scenarios, the simulator, and a server whose clients ask for it. Call it before anything else.
///
/// # Errors
///
/// The name is taken, or no name.
pub fn register(entry: &'static Entry) -> Result<(), BadName> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if entry.name.is_empty() || entry.name.len() > MAX_NAME || !entry.name.chars().all(fits) {
        return Err(BadName::Unspeakable(entry.name));
    }
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    let taken = |known: &Entry| known.name == entry.name;
    if REGISTRY.iter().any(taken) || registered.iter().any(|known| taken(known)) {
        return Err(BadName::Taken(entry.name));
    }
    registered.push(entry);
    Ok(())
}

/// Every scheduler there is: [`REGISTRY`], and what was registered.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner).clone();
    REGISTRY.iter().chain(registered)
}

/// The scheduler of a connection that asks for none: as good as `fbdt` on every set of networks, and
/// simpler (docs/schedulers.md).
pub static DEFAULT: Entry = earliest::ENTRY;

/// A scheduler that is not in the registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scheduler '{name}'; known are {known}")]
pub struct UnknownScheduler {
    name: String,
    known: String,
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
        Self { name, about, make, chunk: CHUNK, paths: None, by_segment: false }
    }

    /// The same, of a kernel: the simulator asks it for each segment when there is room for that, where
    /// daemons keep a little unsent in each socket.
    #[must_use]
    pub const fn by_segment(self) -> Self {
        Self { by_segment: true, ..self }
    }

    /// Whether it decides for each segment, as a kernel's does.
    pub const fn is_by_segment(&self) -> bool {
        self.by_segment
    }

    /// The entry called `name`.
    ///
    /// # Errors
    ///
    /// There is none; the error lists those there are.
    pub fn find(name: &str) -> Result<&'static Self, UnknownScheduler> {
        all().find(|entry| entry.name == name).ok_or_else(|| UnknownScheduler {
            name: name.chars().take(64).collect(),
            known: all().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
        })
    }

    /// A scheduler of this kind.
    pub fn make(&self, config: &SchedulerConfig) -> Box<dyn Scheduler> {
        (self.make)(config)
    }

    /// The least and largest number of bytes it assigns at once.
    pub const fn chunk(&self) -> (u64, u64) {
        self.chunk
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
