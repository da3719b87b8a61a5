//! The connections of this process, for status displays and metrics: which there are, what each
//! does, and what all of them together have carried.
//!
//! A connection is listed from its first subflow until its last is gone. What it has carried is
//! then added to the totals, so that these only grow. Names come from peers and are bounded: the first
//! to come are counted by themselves for as long as the process lives, and all others under [`OTHER`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::broadcast;

use crate::about::About;
pub use crate::about::ConnectionStatus;
use crate::control::Control;
use crate::error::Error;
use crate::shared::Shared;

/// Paths, and clients, that are counted by their own names.
pub const MAX_NAMES: usize = 64;
/// The name under which all others are counted.
pub const OTHER: &str = "other";
/// New connections, and ends of connections, that a slow listener has not been told of yet; older ones
/// are dropped for it.
const CAPACITY: usize = 1024;

/// What has been carried, by connections under way and by those that are over.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Stream bytes that peers have acknowledged in order.
    pub sent: u64,
    /// Stream bytes received in order.
    pub received: u64,
    /// Stream bytes received more than once.
    pub duplicates: u64,
    /// By path: its name, at most [`MAX_NAMES`] and [`OTHER`].
    pub paths: BTreeMap<Arc<str>, PathTotals>,
    /// By client (server): its name, at most [`MAX_NAMES`] and [`OTHER`]. Those without a name are
    /// not listed.
    pub clients: BTreeMap<Arc<str>, ClientTotals>,
}

/// What all connections have carried on the paths of one name, and how its subflows are now.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathTotals {
    /// Payload bytes given to it.
    pub sent: u64,
    /// Of these, bytes that were on another path already: reinjected, redundant copies included.
    pub reinjected: u64,
    /// Payload bytes that peers have received on it.
    pub delivered: u64,
    /// Payload bytes received on it.
    pub received: u64,
    /// Subflows that it has had and that are gone.
    pub lost_subflows: u64,
    /// Its live subflows.
    pub subflows: u64,
    /// Of these, subflows that have data outstanding and make no progress.
    pub stalled: u64,
    /// The sum of their congestion windows in bytes.
    pub cwnd: u64,
    /// Their payload bytes sent and not known to have arrived.
    pub outstanding: u64,
    /// Segments that the kernel has sent again on all its subflows so far.
    pub retransmitted: u64,
    /// The mean of their smoothed round-trip times, where there has been a sample.
    pub srtt: Option<Duration>,
    srtt_sum: Duration,
    srtt_count: u32,
}

/// What a client has carried in all its connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientTotals {
    /// Its connections now.
    pub connections: u64,
    /// Stream bytes it has acknowledged in order.
    pub sent: u64,
    /// Stream bytes received from it in order.
    pub received: u64,
}

/// How a connection has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its number.
    pub number: u64,
    /// What it was used for; `None` if it was only kept ready.
    pub label: Option<Arc<str>>,
    /// Why it failed, if it did.
    pub error: Option<Arc<Error>>,
    /// Stream bytes that the peer had acknowledged in order.
    pub sent: u64,
    /// Stream bytes received in order.
    pub received: u64,
}

impl Totals {
    /// Adds what a connection has carried. Those under way (`live`) also have subflows now.
    fn add(&mut self, status: &ConnectionStatus, live: bool, known: &mut Known) {
        self.sent += status.stats.acknowledged;
        self.received += status.stats.delivered;
        self.duplicates += status.stats.duplicates;
        for (id, stats) in &status.stats.paths {
            let name = status.names.get(id).map_or(OTHER, |name| name);
            let path = self.paths.entry(known.paths.admit(name)).or_default();
            path.sent += stats.sent;
            path.reinjected += stats.reinjected;
            path.delivered += stats.delivered;
            path.received += stats.received;
            path.lost_subflows += stats.lost_subflows;
            path.retransmitted += stats.retransmitted;
            if let Some(subflow) = stats.subflow.as_ref().filter(|_| live) {
                path.subflows += 1;
                path.stalled += u64::from(subflow.stalled);
                path.cwnd += subflow.info.cwnd.as_u64();
                path.outstanding += subflow.outstanding;
                if !subflow.info.srtt.is_zero() {
                    path.srtt_sum += subflow.info.srtt;
                    path.srtt_count += 1;
                    path.srtt = Some(path.srtt_sum / path.srtt_count);
                }
            }
        }
        if let Some(client) = &status.client {
            let client = self.clients.entry(known.clients.admit(client)).or_default();
            client.connections += u64::from(live);
            client.sent += status.stats.acknowledged;
            client.received += status.stats.delivered;
        }
    }
}

/// Names that are counted by themselves. One that is stays so: were it counted with the others once and
/// by itself then, either would fall or leap.
#[derive(Default)]
struct Names(BTreeSet<Arc<str>>);

impl Names {
    /// The name under which `name` is counted.
    fn admit(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return Arc::clone(known);
        }
        let key: Arc<str> = if self.0.len() < MAX_NAMES { name } else { OTHER }.into();
        if *key != *OTHER {
            self.0.insert(Arc::clone(&key));
        }
        key
    }
}

/// The names of paths and of clients that are counted by themselves.
#[derive(Default)]
struct Known {
    paths: Names,
    clients: Names,
}

struct Registry {
    live: BTreeMap<u64, Entry>,
    /// What connections carried that are over.
    past: Totals,
    known: Known,
    opened: Option<broadcast::Sender<u64>>,
    ended: Option<broadcast::Sender<Ended>>,
}

#[derive(Clone)]
struct Entry {
    shared: Weak<Shared>,
    about: Arc<About>,
}

impl Entry {
    fn control(&self) -> Option<Control> {
        let shared = self.shared.upgrade()?;
        Some(Control { shared, about: Arc::clone(&self.about) })
    }
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    live: BTreeMap::new(),
    past: Totals {
        sent: 0,
        received: 0,
        duplicates: 0,
        paths: BTreeMap::new(),
        clients: BTreeMap::new(),
    },
    known: Known { paths: Names(BTreeSet::new()), clients: Names(BTreeSet::new()) },
    opened: None,
    ended: None,
});

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().expect("the registry's users do not panic")
}

/// Lists a connection from now on.
pub(crate) fn register(control: &Control) {
    let (number, shared) = (control.number(), Arc::downgrade(&control.shared));
    let entry = Entry { shared, about: Arc::clone(&control.about) };
    let mut registry = registry();
    registry.live.insert(number, entry);
    if let Some(opened) = &registry.opened {
        // Nobody need be listening.
        let _ = opened.send(number);
    }
    drop(registry);
    control.shared.on_gone(Box::new(move || forget(number)));
}

/// The connection is over and its last subflow gone.
fn forget(number: u64) {
    let control = registry().live.get(&number).and_then(Entry::control);
    let last = control.map(|control| (control.status(), control.error()));
    let mut registry = registry();
    let Registry { live, past, known, ended, .. } = &mut *registry;
    if live.remove(&number).is_some()
        && let Some((status, error)) = last
    {
        past.add(&status, false, known);
        // Nobody misses one that was never used, and is given up.
        if let Some(ended) = ended
            && (status.label.is_some() || error.is_some())
        {
            let (sent, received) = (status.stats.acknowledged, status.stats.delivered);
            let end = Ended { number, label: status.label, error, sent, received };
            // Nobody need be listening.
            let _ = ended.send(end);
        }
    }
}

/// The connections there are, the oldest first.
pub fn connections() -> Vec<Control> {
    registry().live.values().filter_map(Entry::control).collect()
}

/// The connection of this number, if it is not over.
pub fn connection(number: u64) -> Option<Control> {
    registry().live.get(&number)?.control()
}

/// Tells the number of each connection from here on, as it is opened or accepted. A listener that
/// falls behind by 1024 loses the oldest.
pub fn opened() -> broadcast::Receiver<u64> {
    let mut registry = registry();
    registry.opened.get_or_insert_with(|| broadcast::Sender::new(CAPACITY)).subscribe()
}

/// Tells how each connection ends from here on that was used, or has failed. A listener that falls behind by 1024 loses the oldest.
pub fn ended() -> broadcast::Receiver<Ended> {
    let mut registry = registry();
    registry.ended.get_or_insert_with(|| broadcast::Sender::new(CAPACITY)).subscribe()
}

/// What all connections have carried so far.
pub fn totals() -> Totals {
    look().1
}

/// The connections there are as they are now, the oldest first, and what all have carried so far:
/// each is looked at once.
pub fn look() -> (Vec<ConnectionStatus>, Totals) {
    // No other lock is taken under the registry's.
    let (mut totals, live) = {
        let registry = registry();
        let live: Vec<_> = registry.live.values().filter_map(Entry::control).collect();
        (registry.past.clone(), live)
    };
    let all: Vec<_> = live.iter().map(Control::status).collect();
    let mut registry = registry();
    for status in &all {
        totals.add(status, true, &mut registry.known);
    }
    drop(registry);
    (all, totals)
}

#[cfg(test)]
mod tests {
    use weftline_core::session::{PathStats, SessionStats};
    use weftline_core::{ByteCount, PathId};

    use super::*;

    /// A connection with a path of this name, which has carried so much.
    fn connection(number: u64, path: &str, sent: u64) -> ConnectionStatus {
        let id = PathId(0);
        let paths = [(id, PathStats { sent, ..PathStats::default() })].into();
        ConnectionStatus {
            number,
            peer: ([192, 0, 2, 1], 1).into(),
            client: Some(path.into()),
            label: None,
            scheduler: "earliest",
            age: Duration::ZERO,
            memory: ByteCount::ZERO,
            send_held: ByteCount::ZERO,
            stats: SessionStats { paths, acknowledged: sent, ..SessionStats::default() },
            names: [(id, path.into())].into(),
            peers: BTreeMap::new(),
            congestion: BTreeMap::new(),
        }
    }

    #[test]
    fn names_are_bounded_and_nothing_is_lost() {
        let (mut totals, mut known) = (Totals::default(), Known::default());
        for n in 0..1000 {
            totals.add(&connection(n, &format!("path {n}"), 1), false, &mut known);
        }
        assert_eq!(totals.paths.len(), MAX_NAMES + 1);
        assert_eq!(totals.paths.values().map(|path| path.sent).sum::<u64>(), 1000);
        assert_eq!(totals.paths[OTHER].sent, 1000 - MAX_NAMES as u64);
        assert_eq!(totals.clients.len(), MAX_NAMES + 1);
    }

    #[test]
    fn what_is_counted_of_a_name_never_falls_whichever_connections_end() {
        let (mut past, mut known) = (Totals::default(), Known::default());
        let name = |n: u64| format!("path {n}");
        let mut live: Vec<_> = (0..200).map(|n| connection(n, &name(n), 1000)).collect();
        let mut before = Totals::default();
        while !live.is_empty() {
            let mut totals = past.clone();
            for status in &live {
                totals.add(status, true, &mut known);
            }
            for (name, path) in &before.paths {
                assert_eq!(totals.paths[name].sent, path.sent, "{name}");
            }
            for (name, client) in &before.clients {
                assert_eq!(totals.clients[name].sent, client.sent, "{name}");
            }
            before = totals;
            // The last that came end first.
            for status in live.split_off(live.len() - 20) {
                past.add(&status, false, &mut known);
            }
        }
        assert_eq!(before.paths.len(), MAX_NAMES + 1);
    }
}
