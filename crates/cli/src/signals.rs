//! Stopping by SIGINT or SIGTERM: once to finish, twice to stop at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;

/// Counts the signals from here on.
pub(crate) struct Stop(watch::Receiver<u32>);

impl Stop {
    /// Starts to catch the signals.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(crate) fn on_signals() -> Result<Self, Failure> {
        let (mut interrupt, mut terminate): (Signal, Signal) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let (count, counted) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                count.send_modify(|n| *n += 1);
            }
        });
        Ok(Self(counted))
    }

    /// Waits for the `nth` signal.
    pub(crate) async fn nth(&self, nth: u32) {
        if self.0.clone().wait_for(|n| *n >= nth).await.is_err() {
            // The counting task ends with the runtime only.
            std::future::pending::<()>().await;
        }
    }
}
