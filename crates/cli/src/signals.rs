//! Stopping by SIGINT or SIGTERM: once to finish, twice to stop at once. Reading the configuration
//! again by SIGHUP.

use std::path::Path;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;

/// The wish to read the configuration again.
pub(crate) struct Reload(Option<Signal>);

impl Reload {
    /// Starts to catch the signal if there is a configuration `file`; otherwise it does what it
    /// does to other programs.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(crate) fn on_signal(file: Option<&Path>) -> Result<Self, Failure> {
        Ok(Self(file.map(|_| signal(SignalKind::hangup())).transpose()?))
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn wanted(&mut self) {
        if let Some(signal) = &mut self.0
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

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
