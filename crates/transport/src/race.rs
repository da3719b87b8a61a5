//! Dialling a host that has several addresses, of which some may be dead (RFC 8305).

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;

/// How long an address has before the next is tried beside it (RFC 8305 §8).
const STAGGER: Duration = Duration::from_millis(250);

/// What `dial` makes of the first of `addresses` that answers. They are tried in order, the next one
/// when the last has failed or has not answered for a while. When all have failed, what the first of
/// them had to say; `None` without any.
pub(crate) async fn race<T, E, F>(
    addresses: Vec<SocketAddr>,
    dial: impl Fn(SocketAddr) -> F,
) -> Option<Result<T, E>>
where
    T: Send + 'static,
    E: Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let mut dials = JoinSet::new();
    let mut rest = addresses.into_iter().enumerate();
    let mut failed: Option<(usize, E)> = None;
    loop {
        if let Some((place, address)) = rest.next() {
            let dial = dial(address);
            dials.spawn(async move { (place, dial.await) });
        } else if dials.is_empty() {
            return failed.map(|(_, error)| Err(error));
        }
        tokio::select! {
            Some(done) = dials.join_next() => match done {
                Ok((_, Ok(dialled))) => return Some(Ok(dialled)),
                Ok((place, Err(error))) => {
                    if failed.as_ref().is_none_or(|(first, _)| place < *first) {
                        failed = Some((place, error));
                    }
                }
                // Nobody aborts it: a bug of ours is not hidden.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            () = tokio::time::sleep(STAGGER), if rest.len() > 0 => {}
        }
    }
}
