//! What a connection sends and receives where, recorded while somebody looks.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::about::ConnectionWeave;
use crate::shared::Shared;

/// A look at a connection's weave. The connection records it as long as one of these lives, and not
/// longer; it does not keep the connection open.
pub struct WeaveWatch {
    shared: Weak<Shared>,
}

impl fmt::Debug for WeaveWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeaveWatch").finish_non_exhaustive()
    }
}

impl WeaveWatch {
    pub(crate) fn begin(shared: &Arc<Shared>) -> Self {
        shared.watch_weave();
        Self { shared: Arc::downgrade(shared) }
    }

    /// The weave since the first look began; `None` when nothing is left of the connection.
    pub fn look(&self) -> Option<ConnectionWeave> {
        self.shared.upgrade()?.weave()
    }
}

impl Drop for WeaveWatch {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.leave_weave();
        }
    }
}
