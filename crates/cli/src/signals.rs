//! Stopping by SIGINT or SIGTERM: once to finish, twice to stop at once. Reading the configuration
//! again by SIGHUP.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;

/// The wish to read the configuration again.
pub(crate) struct Reload(Signal);

impl Reload {
    /// Starts to catch the signal, whether there is a configuration file or not: a daemon must not
    /// end by what a service manager sends to have its configuration read.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(crate) fn on_signal() -> Result<Self, Failure> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn wanted(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Says that there is nothing to read again.
pub(crate) fn log_nothing_to_reload() {
    tracing::warn!(
        "SIGHUP: there is no file to read again, as the daemon was started without --config; it \
         goes on as it is"
    );
}

/// Counts the signals from here on.
pub(crate) struct Stop(watch::Receiver<u32>);

impl Stop {
    /// Starts to catch the signals.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(crate) fn on_signals() -> Result<Self, Failure> {
        Self::on(None)
    }

    /// The same, and SIGHUP as well, for what leaves files behind that nobody else removes: a terminal
    /// that is closed sends it. Not where it is ignored, as under `nohup`.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(crate) fn on_signals_and_hangup() -> Result<Self, Failure> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hangup =
            if ignores_hangup(&status) { None } else { Some(signal(SignalKind::hangup())?) };
        Self::on(hangup)
    }

    fn on(mut hangup: Option<Signal>) -> Result<Self, Failure> {
        let (mut interrupt, mut terminate): (Signal, Signal) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let (count, counted) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    () = hung_up(hangup.as_mut()) => {}
                }
                count.send_modify(|n| *n += 1);
            }
        });
        Ok(Self(counted))
    }

    /// Whether a signal has come.
    pub(crate) fn has_come(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Waits for the `nth` signal.
    pub(crate) async fn nth(&self, nth: u32) {
        if self.0.clone().wait_for(|n| *n >= nth).await.is_err() {
            // The counting task ends with the runtime only.
            std::future::pending::<()>().await;
        }
    }
}

/// Waits for a signal, for ever if there is none.
async fn hung_up(signal: Option<&mut Signal>) {
    let came = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if came.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Whether SIGHUP, the first signal, is ignored by the process whose /proc/PID/status that is.
fn ignores_hangup(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_seen() {
        assert!(ignores_hangup("SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hangup("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n"));
        assert!(!ignores_hangup(""));
    }
}
