//! `weftline vr serve` and `weftline vr play`: a package, or a live source, as a live stream. The state machines are
//! `weftline_video::live`; here are the clock, the connections and the files.

mod admission;
mod heads;
mod link;
mod log;
mod origin;
mod p1203;
pub(super) mod play;
mod player;
mod save;
pub(super) mod serve;
mod session;
mod source;
#[cfg_attr(not(feature = "web"), path = "web_off.rs")]
mod web;

use std::time::Duration;

use weftline_core::Instant;

/// How often counters are read, and heads are looked at.
const TICK: Duration = Duration::from_millis(50);

/// The state machines' time.
#[derive(Clone, Copy, Debug)]
struct Clock(std::time::Instant);

impl Clock {
    /// Begins at zero.
    fn start() -> Self {
        Self(std::time::Instant::now())
    }

    fn now(self) -> Instant {
        Instant::from_nanos(weftline_core::time::nanos(self.0.elapsed()))
    }

    /// Waits until then; for ever if there is no such time. Cancel safe.
    async fn until(self, at: Option<Instant>) {
        match at {
            None => std::future::pending().await,
            Some(at) => {
                let at = self.0 + at.since(Instant::ZERO);
                tokio::time::sleep_until(at.into()).await;
            }
        }
    }
}

/// A timer for [`TICK`]; what was missed is not made up for.
fn ticks() -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks
}

/// The next thing that happens to a path; never, where there are no paths to know of.
async fn path_event(
    events: &mut Option<tokio::sync::broadcast::Receiver<weftline::PathEvent>>,
) -> weftline::PathEvent {
    use tokio::sync::broadcast::error::RecvError;
    while let Some(receiver) = events {
        match receiver.recv().await {
            Ok(event) => return event,
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => *events = None,
        }
    }
    std::future::pending().await
}
