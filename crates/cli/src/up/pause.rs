//! When a server is asked again that has not granted something.

use std::time::Duration;

use weftline::Error;

/// The wait before the server is asked again, at first and at most, as each question takes some kilobytes of a
/// link that may be metered; and at most where it has not said no, but does not answer: it may be back at any
/// time.
pub(super) const RETRY: Duration = Duration::from_secs(1);
const MOST_RETRY: Duration = Duration::from_secs(600);
const MOST_UNANSWERED: Duration = Duration::from_secs(5);
/// A session that has lasted so long has begun well.
pub(super) const LASTING: Duration = Duration::from_secs(30);

/// Why there is no session.
pub(super) struct Why {
    pub(super) says: String,
    /// Whether the server has said nothing.
    pub(super) is_unanswered: bool,
}

impl Why {
    /// Somebody has said no.
    pub(super) fn said(says: impl Into<String>) -> Self {
        Self { says: says.into(), is_unanswered: false }
    }

    /// Nobody has said why.
    pub(super) fn ended() -> Self {
        Self { says: "it has ended".to_owned(), is_unanswered: true }
    }
}

impl From<Error> for Why {
    fn from(error: Error) -> Self {
        let is_answer = error.is_permanent()
            || matches!(error, Error::Refused { .. } | Error::MemoryUsedUp { .. });
        Self { says: error.to_string(), is_unanswered: !is_answer }
    }
}

/// How long it is before the server is asked again.
pub(super) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(RETRY)
    }
}

impl Pause {
    pub(super) fn after(&mut self, why: &Why) -> Duration {
        let most = if why.is_unanswered { MOST_UNANSWERED } else { MOST_RETRY };
        let pause = self.0.min(most);
        self.0 = (pause * 2).min(most);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_away_is_asked_more_often_than_one_that_says_no() {
        let pauses = |error: fn() -> Error| {
            let mut pause = Pause::default();
            (0..7).map(|_| pause.after(&error().into()).as_secs()).collect::<Vec<_>>()
        };
        let away = || Error::Socket(std::io::ErrorKind::TimedOut.into());
        assert_eq!(pauses(away), [1, 2, 4, 5, 5, 5, 5]);
        let no = [1, 2, 4, 8, 16, 32, 64];
        assert_eq!(pauses(|| Error::Invalid("no such client".to_owned())), no);
        let busy = || Error::Refused {
            peer: ([192, 0, 2, 1], 4433).into(),
            code: weftline::refusal::BUSY,
            reason: String::new(),
        };
        assert_eq!(pauses(busy), no);
        // One that says no once it is back has been asked for the first time.
        let mut pause = Pause::default();
        for _ in 0..20 {
            pause.after(&away().into());
        }
        assert_eq!(pause.after(&busy().into()), MOST_UNANSWERED);
    }
}
