//! What a server says in its log of those it turns away.

use std::sync::Mutex;

use weftline_core::Instant;

use crate::clock;
use crate::error::Error;
use crate::refusal::JOIN;

/// Says in the log whom the server turned away and why, at most so often in a second: anybody can
/// make it say so.
#[derive(Default)]
pub(super) struct RefusalLog(Mutex<Said>);

#[derive(Default)]
struct Said {
    second: u64,
    said: u32,
    unsaid: u32,
}

impl RefusalLog {
    const PER_SECOND: u32 = 10;

    pub(super) fn log(&self, error: &Error) {
        // Clients come and go, and a path may come up just when its connection is over.
        let ordinary = matches!(error, Error::ClosedInHandshake { .. })
            || matches!(error, Error::RefusedPeer { code: JOIN, .. });
        if ordinary {
            tracing::debug!("{error}");
            return;
        }
        let second = clock::now().since(Instant::ZERO).as_secs();
        let mut now = self.0.lock().expect("the log's users do not panic");
        if now.second != second {
            if now.unsaid > 0 {
                tracing::warn!("{} more were refused", now.unsaid);
            }
            *now = Said { second, ..Said::default() };
        }
        if now.said < Self::PER_SECOND {
            now.said += 1;
            tracing::warn!("{error}");
        } else {
            now.unsaid += 1;
            tracing::debug!("{error}");
        }
    }
}
