//! Every scheduler, by name: those of this crate, and those that a program has registered.

use super::entry::Entry;
use super::{
    blest, earliest, ecf, fbdt, largest_credits, largest_throughput, linux, min_rtt, musher,
    redundant, round_robin, single, sticky,
};
use crate::registry::Registered;

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
static REGISTERED: Registered<Entry> = Registered::new();

/// Names of other schemes, that a scheduler of such a name could not be told from in scenarios and results.
pub const RESERVED: [&str; 8] = [
    "linux-mptcp",
    "linux-default",
    "linux-forward",
    "linux-fbdt",
    "cotag",
    "cotag-dense",
    "packet-round-robin",
    "oracle",
];

/// A scheduler that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// There is one of that name, or another scheme.
    #[error("there is a scheme '{0}' already; choose another name")]
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
    let is_speakable = entry.name.len() <= MAX_NAME && entry.name.chars().all(fits);
    if entry.name.is_empty() || !(is_speakable || entry.simulator_only) {
        return Err(BadName::Unspeakable(entry.name));
    }
    if RESERVED.contains(&entry.name) {
        return Err(BadName::Taken(entry.name));
    }
    match REGISTERED.add(entry, REGISTRY, |known| known.name == entry.name) {
        true => Ok(()),
        false => Err(BadName::Taken(entry.name)),
    }
}

/// Every scheduler there is: [`REGISTRY`], and what was registered.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    REGISTRY.iter().chain(REGISTERED.all())
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

impl Entry {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_schemes_and_words_that_nobody_can_say_are_refused() {
        for name in ["oracle", "cotag", "earliest", "linux-mptcp"] {
            let entry: &'static Entry = Box::leak(Box::new(Entry { name, ..DEFAULT }));
            assert_eq!(register(entry), Err(BadName::Taken(name)));
        }
        for name in ["", "Widest", "two words"] {
            let entry: &'static Entry = Box::leak(Box::new(Entry { name, ..DEFAULT }));
            assert_eq!(register(entry), Err(BadName::Unspeakable(name)));
        }
    }
}
