//! Places for what takes long and costs something meanwhile, so that one client leaves room for others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

/// So many at once of all clients, and of one.
#[derive(Debug)]
pub(super) struct Waiting {
    most: usize,
    most_of_one: usize,
    counts: Mutex<BTreeMap<String, usize>>,
    freed: Notify,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    waiting: Arc<Waiting>,
    client: String,
}

impl Waiting {
    /// Nobody waits.
    pub(super) fn new(most: usize, most_of_one: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_one, counts: Mutex::default(), freed: Notify::new() })
    }

    /// A place for a client, if there is one.
    pub(super) fn take(self: &Arc<Self>, client: &str) -> Option<Turn> {
        let mut counts = self.counts();
        let (all, own) = (counts.values().sum::<usize>(), counts.get(client).copied());
        if all >= self.most || own.is_some_and(|own| own >= self.most_of_one) {
            return None;
        }
        *counts.entry(client.to_owned()).or_default() += 1;
        Some(Turn { waiting: Arc::clone(self), client: client.to_owned() })
    }

    /// A place for a client, as soon as there is one.
    pub(super) async fn wait(self: &Arc<Self>, client: &str) -> Turn {
        loop {
            let freed = self.freed.notified();
            if let Some(turn) = self.take(client) {
                return turn;
            }
            freed.await;
        }
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.counts.lock().expect("nothing here panics")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut counts = self.waiting.counts();
        if let Some(own) = counts.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                counts.remove(&self.client);
            }
        }
        drop(counts);
        self.waiting.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    const MOST: usize = 64;
    const MOST_OF_ONE: usize = 8;

    #[test]
    fn a_client_leaves_room_for_others() {
        let names: Vec<_> = (1..MOST / MOST_OF_ONE).map(|n| format!("b{n}")).collect();
        let waiting = Waiting::new(MOST, MOST_OF_ONE);
        let mut turns: Vec<_> = (0..MOST_OF_ONE).map(|_| waiting.take("a").unwrap()).collect();
        assert!(waiting.take("a").is_none());
        turns.extend(
            names.iter().flat_map(|name| (0..MOST_OF_ONE).map(|_| waiting.take(name).unwrap())),
        );
        assert!(waiting.take("c").is_none(), "it is full");
        turns.truncate(1);
        assert!(waiting.take("a").is_some() && waiting.take("c").is_some());
        drop(turns);
        assert!(waiting.counts().is_empty());
    }

    #[tokio::test]
    async fn whoever_waits_gets_the_next_place() {
        let waiting = Waiting::new(1, 1);
        let first = waiting.take("a").unwrap();
        let mut second = std::pin::pin!(waiting.wait("b"));
        let mut once = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut once).is_pending());
        drop(first);
        assert_eq!(second.await.client, "b");
    }
}
