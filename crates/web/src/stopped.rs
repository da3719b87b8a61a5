//! What the tests over real sockets share: tokio's clock held, and an end to what hangs.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

/// Only what hangs takes so long.
pub(crate) const HANGS: Duration = Duration::from_secs(400);

/// While there is one, tokio's clock does not go on by itself: it waits for work that blocks.
pub(crate) struct Stopped {
    _until: Sender<()>,
}

impl Stopped {
    pub(crate) fn now() -> Self {
        let (_until, ended) = mpsc::channel();
        tokio::task::spawn_blocking(move || ended.recv());
        Self { _until }
    }
}

/// Ends all of these tests, with the name of one that hangs: where tokio's clock is held, or goes on by
/// itself, no time of its own can do that.
pub(crate) struct Bounded {
    _until: Sender<()>,
}

impl Bounded {
    pub(crate) fn new() -> Self {
        let (_until, ended) = mpsc::channel::<()>();
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        std::thread::spawn(move || {
            if ended.recv_timeout(HANGS) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{test} hangs: not within {HANGS:?}");
                std::process::abort();
            }
        });
        Self { _until }
    }
}
