//! What settings of both ends have in common: defaults and bounds.

use std::time::Duration;

use weftline_core::ByteCount;
use weftline_core::session::MAX_LONGEST_MESSAGE;

use crate::error::Error;

/// How long a connection lives without a word from its peer: half as much again as the 30 s after
/// which the kernel gives up a socket on a path that is cut, so that a cut is told from a peer that
/// is gone and gets its grace.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(45);
/// The least that it may be set to.
const LEAST_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether tasks can be started here.
///
/// # Errors
/// Outside a tokio runtime.
pub(crate) fn within_runtime() -> Result<(), Error> {
    let found = tokio::runtime::Handle::try_current();
    found.map(drop).map_err(|_| {
        Error::Invalid(
            "this is no tokio runtime: call it from within one (#[tokio::main])".to_owned(),
        )
    })
}

/// Refuses a time that slow answers would take.
pub(crate) fn check_idle_timeout(timeout: Duration) -> Result<(), Error> {
    if timeout >= LEAST_IDLE_TIMEOUT {
        return Ok(());
    }
    let message = format!(
        "a peer that does not answer is given up after {LEAST_IDLE_TIMEOUT:?} or more, not after \
         {timeout:?}"
    );
    Err(Error::Invalid(message))
}

/// Refuses a bound of memory that a session would silently change.
pub(crate) fn check_max_memory(memory: ByteCount) -> Result<(), Error> {
    let (least, most) = (ByteCount::kib(256), ByteCount::mib(64 << 10));
    if (least..=most).contains(&memory) {
        return Ok(());
    }
    let message = format!("a connection's memory is {least} to {most}, {memory} is not");
    Err(Error::Invalid(message))
}

/// The longest message that is to be taken, if it can be agreed upon.
///
/// # Errors
/// [`Error::Invalid`] if it cannot.
pub(crate) fn longest_message(longest: ByteCount) -> Result<ByteCount, Error> {
    if (1..=MAX_LONGEST_MESSAGE).contains(&longest.as_u64()) {
        return Ok(longest);
    }
    let most = ByteCount::new(MAX_LONGEST_MESSAGE);
    Err(Error::Invalid(format!("the longest message has 1 B to {most}, {longest} is not in it")))
}

/// Says which schedulers there are.
pub(crate) fn unknown_scheduler(name: &str) -> Error {
    let known: Vec<&str> = weftline_core::scheduler::all().map(|entry| entry.name).collect();
    Error::UnknownScheduler { name: name.to_owned(), known: known.join(", ") }
}
