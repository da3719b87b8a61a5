//! What programs add to the schedulers and congestion controls that come with these crates.

use std::sync::{PoisonError, RwLock};

/// Entries that a program has registered, for as long as it runs.
#[derive(Debug)]
pub struct Registered<T: 'static>(RwLock<Vec<&'static T>>);

impl<T: 'static> Registered<T> {
    /// None yet.
    pub const fn new() -> Self {
        Self(RwLock::new(Vec::new()))
    }

    /// Those there are.
    pub fn all(&self) -> Vec<&'static T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds an entry, unless one that `is_same` is among them or among the `built_in`. Returns whether
    /// it was added.
    pub fn add(&self, entry: &'static T, built_in: &[T], is_same: impl Fn(&T) -> bool) -> bool {
        let mut added = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_taken = built_in.iter().any(&is_same) || added.iter().any(|known| is_same(known));
        if !is_taken {
            added.push(entry);
        }
        !is_taken
    }
}

impl<T: 'static> Default for Registered<T> {
    fn default() -> Self {
        Self::new()
    }
}
