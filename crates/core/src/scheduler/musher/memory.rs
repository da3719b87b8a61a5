//! What a host's connections have in common, and what outlives each of them: the ratio, and the
//! search for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::search::Search;

/// The ratio before anything is known.
const FIRST_PERCENT: u8 = 50;

/// The ratio of `musher` and the search for it. Clones are the same memory: a host has one for all
/// connections over its two paths, so that a connection begins with what those before have found, and
/// those beside it search together. The published module has its ratio in a sysctl, and measures by
/// the devices' counters.
///
/// The ratio is the share of the segments that goes over the path of the lower number, in percent.
#[derive(Clone, Debug)]
pub struct RatioMemory(Arc<Mutex<Search>>);

impl RatioMemory {
    /// A memory whose first connection begins with so many percent for the first path, within 5 and
    /// 95.
    pub fn with_percent(percent: u8) -> Self {
        Self(Arc::new(Mutex::new(Search::new(percent.into()))))
    }

    /// The share of the first path, in percent.
    pub fn percent(&self) -> u8 {
        self.search().ratio() as u8
    }

    /// The search. One that panicked has left numbers, which any search can go on from.
    pub(super) fn search(&self) -> MutexGuard<'_, Search> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for RatioMemory {
    /// Half of the segments for each path.
    fn default() -> Self {
        Self::with_percent(FIRST_PERCENT)
    }
}

/// Memories are equal if they would begin with the same ratio.
impl PartialEq for RatioMemory {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.percent() == other.percent()
    }
}

impl Eq for RatioMemory {}
