//! What is told to systemd, or to whoever set NOTIFY_SOCKET (sd_notify(3)).

use std::time::Duration;

use sd_notify::NotifyState;

use crate::failure::Failure;

/// Whether anybody listens.
pub(crate) fn is_listening() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// How long a program that a service manager starts again and again goes on after its server has
/// refused it: wrong tokens count against all clients that share its address, and ten a minute shut
/// them out.
const REFUSED: Duration = Duration::from_secs(30);

/// Hands a result on, and takes its time about it if a server does not let this client in.
pub(crate) async fn unhurried<T>(result: Result<T, Failure>) -> Result<T, Failure> {
    if let Err(failure) = &result
        && failure.is_refusal()
        && is_listening()
    {
        let wait = humantime::format_duration(REFUSED);
        tracing::error!("{failure}; ending in {wait}, as each attempt counts against this address");
        tokio::time::sleep(REFUSED).await;
    }
    result
}

/// How often it wants to hear that the program lives, at least.
pub(crate) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|time| !time.is_zero())
}

/// The start, or a reload, is finished.
pub(crate) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// A reload begins. systemd wants the time of it, to tell it from an older one.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now, NotifyState::Status("reloading")]),
        Err(error) => tracing::debug!("no time for systemd: {error}"),
    }
}

/// The end begins.
pub(crate) fn stopping(status: &str) {
    send(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// The program lives, and its status has become another one.
pub(crate) fn alive(watchdog: bool, status: Option<&str>) {
    let watchdog = watchdog.then_some(NotifyState::Watchdog);
    let states: Vec<_> = watchdog.into_iter().chain(status.map(NotifyState::Status)).collect();
    if !states.is_empty() {
        send(&states);
    }
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        // Nothing that the daemon does depends on it.
        tracing::debug!("cannot tell systemd: {error}");
    }
}
