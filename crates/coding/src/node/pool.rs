//! Memory that is used again: generations that ended, up to so many.

use super::NodeConfig;

/// Generations that are kept beyond those that fill the buffer, for flows with few packets.
const MORE: usize = 64;

/// What may be used again.
#[derive(Debug)]
pub(super) struct Pool<T> {
    spare: Vec<T>,
    most: usize,
}

impl<T> Pool<T> {
    /// For a node of these settings. Each spare generation may have the memory of a full one, so
    /// that only as many are kept as full ones fit in the buffer.
    pub(super) fn new(config: &NodeConfig) -> Self {
        let full = config.buffer_packets / usize::from(config.limits.packets.max(1));
        Self { spare: Vec::new(), most: full + MORE }
    }

    /// A spare one, or a new one.
    pub(super) fn take(&mut self, new: impl FnOnce() -> T) -> T {
        self.spare.pop().unwrap_or_else(new)
    }

    /// Keeps what is not needed now.
    pub(super) fn put(&mut self, spare: T) {
        if self.spare.len() < self.most {
            self.spare.push(spare);
        }
    }
}
