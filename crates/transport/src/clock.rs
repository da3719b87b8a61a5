//! The only place that reads clocks: nanoseconds since the first call in this process, and dates.

use std::sync::OnceLock;
use std::time;

use weftline_core::Instant;

/// The start of this process's time.
fn epoch() -> time::Instant {
    static EPOCH: OnceLock<time::Instant> = OnceLock::new();
    *EPOCH.get_or_init(time::Instant::now)
}

/// The time now, as the core counts it.
pub(crate) fn now() -> Instant {
    let elapsed = epoch().elapsed();
    Instant::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

/// The time of day, as the time since 1970. It may be set.
#[expect(clippy::disallowed_types, reason = "tokens end at a date; nothing is timed by it")]
pub(crate) fn time_of_day() -> time::Duration {
    time::SystemTime::now().duration_since(time::UNIX_EPOCH).unwrap_or_default()
}

/// `instant` as tokio's timers count it; far in the future for [`Instant::FAR`].
pub(crate) fn to_tokio(instant: Instant) -> tokio::time::Instant {
    /// Farther than any deadline here, near enough for every timer wheel.
    const FAR: time::Duration = time::Duration::from_secs(365 * 24 * 3600);
    let since = instant.since(Instant::ZERO);
    let now = now().since(Instant::ZERO);
    tokio::time::Instant::from_std(epoch() + since.min(now + FAR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_advances_and_converts() {
        let first = now();
        assert!(now() >= first);
        let deadline = to_tokio(first + time::Duration::from_millis(5));
        assert_eq!(
            deadline.into_std() - epoch(),
            first.since(Instant::ZERO) + time::Duration::from_millis(5)
        );
        assert!(to_tokio(Instant::FAR) > to_tokio(first));
    }
}
