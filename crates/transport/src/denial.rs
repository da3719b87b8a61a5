//! That a server does not accept this client: what makes connections by itself asks such a server
//! seldom. Each refused token counts against everybody at this address.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::refusal::{EXPIRED, TOKEN};

/// How long a server that has refused the client's token is not asked again. Three times a minute is well below
/// what a server takes from one address before it answers nobody there.
const PAUSE: Duration = Duration::from_secs(20);

/// The last refusal of the client's token, if nothing has been heard since.
#[derive(Debug, Default)]
pub(crate) struct Denial(Mutex<Option<Refused>>);

#[derive(Debug)]
struct Refused {
    /// The client's settings with which it was refused: others may be accepted.
    revision: u64,
    at: Instant,
    peer: SocketAddr,
    code: u64,
    reason: String,
}

impl Denial {
    /// Whether the server's last answer was that it does not accept a client with these settings.
    pub(crate) fn holds(&self, revision: u64) -> bool {
        self.last().as_ref().is_some_and(|last| last.revision == revision)
    }

    /// What the server said, if it is not to be asked again yet. When it is, whoever comes first asks, and the
    /// others do not.
    ///
    /// # Errors
    /// That is the error.
    pub(crate) fn check(&self, revision: u64) -> Result<(), Error> {
        let mut last = self.last();
        let Some(last) = last.as_mut().filter(|last| last.revision == revision) else {
            return Ok(());
        };
        if last.at.elapsed() >= PAUSE {
            last.at = Instant::now();
            return Ok(());
        }
        Err(Error::Refused { peer: last.peer, code: last.code, reason: last.reason.clone() })
    }

    /// Notes what has come of a connection with these settings. Where the server was not reached nothing is
    /// known that was not before.
    pub(crate) fn note(&self, revision: u64, result: &Result<(), &Error>) {
        let last = match result {
            Ok(_) => None,
            Err(Error::Refused { peer, code, reason }) if [TOKEN, EXPIRED].contains(code) => {
                let (peer, code, reason) = (*peer, *code, reason.clone());
                Some(Refused { revision, at: Instant::now(), peer, code, reason })
            }
            Err(_) => return,
        };
        *self.last() = last;
    }

    fn last(&self) -> MutexGuard<'_, Option<Refused>> {
        self.0.lock().expect("nothing here panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::BUSY;

    fn refused(code: u64) -> Error {
        let peer = ([192, 0, 2, 1], 4433).into();
        Error::Refused { peer, code, reason: "no such token".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_let_the_client_in_is_asked_seldom_until_it_does() {
        let denial = Denial::default();
        denial.note(1, &Err(&refused(BUSY)));
        assert!(!denial.holds(1) && denial.check(1).is_ok());
        denial.note(1, &Err(&refused(TOKEN)));
        let said = denial.check(1).unwrap_err();
        assert!(said.to_string().contains("no such token"), "{said}");
        assert!(!denial.holds(2) && denial.check(2).is_ok(), "with another token");
        tokio::time::advance(PAUSE).await;
        assert!(denial.holds(1) && denial.check(1).is_ok(), "it is asked again");
        assert!(denial.check(1).is_err(), "by one");
        denial.note(1, &Err(&Error::NoTrust));
        assert!(denial.holds(1), "nothing was heard");
        denial.note(1, &Ok(()));
        assert!(!denial.holds(1));
    }
}
