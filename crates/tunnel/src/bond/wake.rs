//! Waking a loop from another thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::EventfdFlags;

use crate::TunnelError;

/// Wakes a loop that waits for it.
#[derive(Clone, Debug)]
pub(super) struct Wake(Arc<OwnedFd>);

impl Wake {
    /// # Errors
    /// When the system has no descriptor left.
    pub(super) fn new() -> Result<Self, TunnelError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let made = rustix::event::eventfd(0, flags);
        Ok(Self(Arc::new(made.map_err(TunnelError::os("making an eventfd"))?)))
    }

    pub(super) fn wake(&self) {
        // It fails only if the loop has been woken countless times already.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// From here on it has not been woken.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
