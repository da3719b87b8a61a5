//! Blocks of memory for received bytes that are used again, by whatever connection needs one next,
//! instead of being returned to the system: fresh memory costs a page fault every 4 KiB.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes per block.
pub const BLOCK: usize = 64 << 10;

/// Blocks that are free, shared by all its clones.
///
/// A block keeps what was in it: whoever takes one reads only what it has written there itself.
#[derive(Clone, Debug)]
pub struct BlockPool {
    spare: Arc<Mutex<Vec<Box<[u8]>>>>,
    most: usize,
}

impl BlockPool {
    /// A pool that keeps at most `most` free blocks.
    pub fn new(most: usize) -> Self {
        Self { spare: Arc::default(), most }
    }

    /// A free block, or a new one.
    pub fn take(&self) -> Block {
        let spare = self.spare().pop();
        let bytes = spare.unwrap_or_else(|| vec![0; BLOCK].into_boxed_slice());
        Block { bytes, pool: self.clone() }
    }

    /// Blocks that are free now.
    pub fn free(&self) -> usize {
        self.spare().len()
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        self.spare.lock().expect("nothing panics with a pool locked")
    }
}

impl Default for BlockPool {
    /// A pool of 4 MiB.
    fn default() -> Self {
        Self::new(64)
    }
}

/// [`BLOCK`] bytes of a pool, which go back to it when dropped.
#[derive(Debug)]
pub struct Block {
    bytes: Box<[u8]>,
    pool: BlockPool,
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut spare = self.pool.spare();
        if spare.len() < self.pool.most {
            spare.push(mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_used_again_and_no_more_are_kept_than_wanted() {
        let pool = BlockPool::new(2);
        let blocks: Vec<Block> = (0..3).map(|_| pool.clone().take()).collect();
        assert!(blocks.iter().all(|block| block.len() == BLOCK) && pool.free() == 0);
        drop(blocks);
        assert_eq!(pool.free(), 2);
        let _block = pool.take();
        assert_eq!(pool.free(), 1);
    }
}
