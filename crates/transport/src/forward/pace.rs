//! How often one client of a server that carries whole machines may have it open a target: many devices may
//! stand behind one client, and no scan or flood of theirs is to be the server's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weftline_core::Instant;

/// What a client may open over time: one target each 10 ms.
const EACH: Duration = Duration::from_millis(10);
/// How many a client may open at once that has opened none for a while.
const BURST: u32 = 500;
/// How often it is told of one client that it opens too many.
const TOLD_EACH: Duration = Duration::from_secs(60);
/// Clients that are remembered. One is forgotten when it may open a whole burst again.
const MAX_CLIENTS: usize = 4096;

/// Whether a client may open one more target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Yes,
    /// Not now; whether that is to be told.
    No {
        is_news: bool,
    },
}

/// The targets that clients have opened lately.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<BTreeMap<Arc<str>, Client>>);

#[derive(Clone, Copy, Debug)]
struct Client {
    /// When it may open a whole burst again.
    free_at: Instant,
    told_at: Option<Instant>,
}

impl Pace {
    /// Counts a target that `client` opens at `now`, if it may.
    pub(super) fn take(&self, client: &str, now: Instant) -> Pass {
        let mut clients = self.0.lock().expect("nobody panics with it");
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(client) {
            forget(&mut clients, now);
        }
        let known = clients.entry(client.into());
        let known = known.or_insert(Client { free_at: now, told_at: None });
        let free_at = known.free_at.max(now) + EACH;
        if free_at.since(now) <= EACH * BURST {
            known.free_at = free_at;
            return Pass::Yes;
        }
        let is_news = known.told_at.is_none_or(|at| now.since(at) >= TOLD_EACH);
        if is_news {
            known.told_at = Some(now);
        }
        Pass::No { is_news }
    }
}

/// Forgets who may open a whole burst, and one client at least: the one that is nearest to that.
fn forget(clients: &mut BTreeMap<Arc<str>, Client>, now: Instant) {
    clients.retain(|_, client| client.free_at > now);
    if clients.len() >= MAX_CLIENTS {
        let nearest = clients.iter().min_by_key(|(_, client)| client.free_at);
        let nearest = nearest.map(|(name, _)| Arc::clone(name));
        nearest.into_iter().for_each(|name| _ = clients.remove(&name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_client_has_a_burst_and_then_a_hundred_a_second_and_takes_nothing_from_others() {
        let pace = Pace::default();
        let taken = |client: &str, now: Instant| {
            (0..2000).take_while(|_| pace.take(client, now) == Pass::Yes).count()
        };
        assert_eq!(taken("ann", at(0)), 500);
        assert_eq!(taken("ben", at(0)), 500);
        assert_eq!(taken("ann", at(9)), 0);
        assert_eq!(taken("ann", at(1000)), 100);
        assert_eq!(taken("ann", at(60_000)), 500, "no more is saved");
    }

    #[test]
    fn it_is_told_once_a_minute() {
        let pace = Pace::default();
        while pace.take("ann", at(0)) == Pass::Yes {}
        assert_eq!(pace.take("ann", at(0)), Pass::No { is_news: false }, "the loop has heard it");
        assert_eq!(pace.take("ben", at(0)), Pass::Yes);
        while pace.take("ann", at(60_000)) == Pass::Yes {}
        assert_eq!(pace.take("ann", at(60_001)), Pass::No { is_news: false });
        while pace.take("ann", at(119_999)) == Pass::Yes {}
        assert_eq!(pace.take("ann", at(119_999)), Pass::No { is_news: false });
        assert_eq!(pace.take("ann", at(120_000)), Pass::No { is_news: true });
    }

    #[test]
    fn clients_without_end_take_no_memory_without_end() {
        let pace = Pace::default();
        while pace.take("busy", at(0)) == Pass::Yes {}
        for n in 0..3 * MAX_CLIENTS {
            assert_eq!(pace.take(&n.to_string(), at(0)), Pass::Yes);
        }
        assert_eq!(pace.0.lock().unwrap().len(), MAX_CLIENTS);
        assert_eq!(pace.take("busy", at(0)), Pass::No { is_news: false }, "it is still known");
        assert_eq!(pace.take("new", at(6000)), Pass::Yes);
        assert_eq!(pace.0.lock().unwrap().len(), 1, "all may open a burst again");
    }
}
