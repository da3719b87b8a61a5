//! Dialling a host that has several addresses, of which some may be dead (RFC 8305).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use weftline_core::Instant;
use weftline_core::addresses::Race;

use crate::clock;

/// What `dial` makes of the first of `addresses` that answers, in a [`Race`]. When all have failed,
/// what the first of them had to say whose failure is `telling`, or else the first; `None` without
/// any.
pub(crate) async fn race<T, E, F>(
    addresses: Vec<SocketAddr>,
    stagger: Duration,
    dial: impl Fn(SocketAddr) -> F,
    telling: impl Fn(&E) -> bool,
) -> Option<Result<T, E>>
where
    T: Send + 'static,
    E: Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let mut race = Race::new(addresses.len(), stagger, clock::now());
    let mut dials = JoinSet::new();
    let mut error = None;
    loop {
        while let Some(place) = race.poll_dial(clock::now()) {
            let dial = dial(addresses[place]);
            dials.spawn(async move { (place, dial.await) });
        }
        if race.is_lost() {
            return error.map(Err);
        }
        let next = race.poll_timeout();
        tokio::select! {
            Some(done) = dials.join_next() => match done {
                Ok((_, Ok(dialled))) => return Some(Ok(dialled)),
                Ok((place, Err(failed))) => {
                    race.handle_failed(place, telling(&failed), clock::now());
                    if race.told() == Some(place) {
                        error = Some(failed);
                    }
                }
                // Nobody aborts it: a bug of ours is not hidden.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            () = tokio::time::sleep_until(clock::to_tokio(next.unwrap_or(Instant::FAR))),
                if next.is_some() => {}
        }
    }
}

/// Whether a failure says something of the other end or the way there. Where a link has no address or
/// no route of the family, as many have none of IPv6, an address of it was never tried.
pub(crate) fn was_tried(kind: io::ErrorKind) -> bool {
    let untried = [io::ErrorKind::NetworkUnreachable, io::ErrorKind::AddrNotAvailable];
    !untried.contains(&kind)
}

#[cfg(test)]
mod tests {
    use io::ErrorKind::{ConnectionRefused, NetworkUnreachable, TimedOut};

    use weftline_core::addresses::STAGGER;

    use super::*;

    #[tokio::test]
    async fn of_failures_one_that_tells_something_is_told() {
        let addresses: Vec<SocketAddr> =
            ["[2001:db8::1]:7", "192.0.2.1:7"].map(|text| text.parse().unwrap()).to_vec();
        let failing = |kinds: [io::ErrorKind; 2]| {
            let dial = move |address: SocketAddr| async move {
                Err::<(), io::Error>(kinds[usize::from(address.is_ipv4())].into())
            };
            race(addresses.clone(), STAGGER, dial, |error| was_tried(error.kind()))
        };
        let kind = |raced: Option<io::Result<()>>| raced.unwrap().unwrap_err().kind();
        assert_eq!(kind(failing([NetworkUnreachable, TimedOut]).await), TimedOut);
        assert_eq!(kind(failing([ConnectionRefused, TimedOut]).await), ConnectionRefused);
        assert_eq!(kind(failing([NetworkUnreachable; 2]).await), NetworkUnreachable);
    }
}
