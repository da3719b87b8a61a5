//! What the daemons have in common: units in options, the runtime, the memory of all connections, and
//! a configuration file that is read again.

use std::path::Path;
use std::time::Duration;

use weftline::MemoryBudget;
use weftline_core::ByteCount;

use crate::failure::Failure;
use crate::output;

/// Says on standard error what plaintext means.
pub(crate) fn warn_plaintext() {
    output::warn("--insecure-plaintext: anybody on the way can read and change the data");
}

/// Reads a size such as 64MiB.
pub(crate) fn parse_size(option: &str, text: &str) -> Result<ByteCount, Failure> {
    text.parse().map_err(|error| Failure::wrong_use(format!("{option}: {error}")))
}

/// Reads a duration such as 30s.
pub(crate) fn parse_duration(option: &str, text: &str) -> Result<Duration, Failure> {
    humantime::parse_duration(text).map_err(|error| {
        Failure::wrong_use(format!(
            "{option}: '{text}' is no duration ({error}); write it like 30s or 500ms"
        ))
    })
}

/// The same; a bare number is seconds.
pub(crate) fn parse_seconds(option: &str, text: &str) -> Result<Duration, Failure> {
    let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
    match seconds {
        Some(Ok(duration)) => Ok(duration),
        _ => parse_duration(option, text),
    }
}

/// The daemons' runtime. Under load tokio looks at sockets and timers only once in so many turns of
/// its tasks; ours move up to a quarter of a megabyte in a turn, so that must be often.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    const EVENT_INTERVAL: u32 = 4;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.enable_all().event_interval(EVENT_INTERVAL).build()?)
}

/// Ends a runtime. A name that is being looked up, or a file that does not come, is not waited for
/// long.
pub(crate) fn end(runtime: tokio::runtime::Runtime) {
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// Makes `--max-total-memory` the limit of all connections of this process.
pub(crate) fn limit_memory(size: Option<&str>) -> Result<(), Failure> {
    let Some(size) = size else { return Ok(()) };
    let total = parse_size("--max-total-memory", size)?;
    MemoryBudget::limit_process(total)
        .map_err(|error| Failure::wrong_use(format!("--max-total-memory: {error}")))
}

/// The keys that have changed, with commas between; `None` if none has.
pub(crate) fn changed(keys: &[(&str, bool)]) -> Option<String> {
    let changed: Vec<_> =
        keys.iter().filter(|(_, changed)| *changed).map(|(key, _)| *key).collect();
    (!changed.is_empty()).then(|| changed.join(", "))
}

/// Warns of keys whose values were changed under a daemon that reads them at its start alone.
pub(crate) fn warn_of_restart(keys: &[(&str, bool)]) {
    if let Some(changed) = changed(keys) {
        tracing::warn!("{changed}: changed, and read at the start only; restart for it to hold");
    }
}

/// Says what came of reading a configuration file again.
pub(crate) fn log_reload(file: &Path, result: Result<(), Failure>) {
    let file = file.display();
    match result {
        Ok(()) => tracing::info!("{file} has been read again"),
        Err(error) => tracing::error!("{file} is left aside, nothing has changed: {error}"),
    }
}

/// How long a start may take without a word: people wonder after that.
const WORDLESS: Duration = Duration::from_secs(2);

/// Waits for an answer of `whom`, and says so when that takes long: of a name server that is not reached,
/// or somebody else's server, nothing comes for some seconds.
pub(crate) async fn await_answer<T>(whom: &str, answer: impl Future<Output = T>) -> T {
    tokio::pin!(answer);
    tokio::select! {
        // Also where this process has stood still for as long.
        biased;
        () = tokio::time::sleep(WORDLESS) => tracing::info!("waiting for an answer of {whom}"),
        answer = &mut answer => return answer,
    }
    answer.await
}

/// Refuses what cannot begin: of each thing that is needed, whether it is there, what it means that it
/// is not, and what to give. All that is missing is named at once.
pub(crate) fn need(things: &[(bool, &str, &str)]) -> Result<(), Failure> {
    let missing = things.iter().filter(|(is_there, ..)| !is_there);
    let (what, give): (Vec<_>, Vec<_>) = missing.map(|(_, what, give)| (*what, *give)).unzip();
    if what.is_empty() {
        return Ok(());
    }
    let message = format!("{}; give {}", what.join(", "), give.join("; and "));
    Err(Failure::wrong_use(message))
}
