//! Runs as they happen, for whoever watches.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Is told of runs on their way. The calls must not wait: a run's clock does not.
pub trait Observer: fmt::Debug + Send + Sync {
    /// A run begins; another one may be over. What it is: scheme, scenario, control, seed.
    fn begins(&self, scheme: &str, what: &str);

    /// How the run is. Schemes in a guest, players and programs that are not the lab's tell nothing.
    fn goes(&self, seen: Seen);

    /// The run has come so far, whether it tells how it is or not.
    fn passes(&self, time: Duration);

    /// The run does not count, and why; it begins again.
    fn fails_to_count(&self, why: &str);

    /// The run is over, and what went wrong.
    fn ends(&self, error: Option<&str>);
}

/// A run at a moment, as its sender sees it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Since the workload began.
    pub time: Duration,
    /// Bytes that the application has written.
    pub written: u64,
    /// Stream bytes that the receiver is known to have, in order where the sender can tell.
    pub delivered: u64,
    /// Each path that has carried something, in the scenario's order.
    pub paths: Vec<SeenPath>,
}

/// A path at that moment.
#[derive(Clone, Debug)]
pub struct SeenPath {
    /// Its name.
    pub name: String,
    /// Its newest socket; `None`: it has none any more.
    pub socket: Option<SeenSocket>,
    /// Bytes that the receiver's TCP has acknowledged, on all sockets there have been.
    pub delivered: u64,
    /// Segments sent again, on all of them.
    pub retransmitted: u64,
}

/// A socket at that moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenSocket {
    /// Whether it has data outstanding and makes no progress, where the sender can tell.
    pub silent: bool,
    /// Smoothed and least round-trip time; zero before the first.
    pub srtt: Duration,
    /// The least.
    pub min_rtt: Duration,
    /// The congestion window in bytes.
    pub cwnd: u64,
    /// Payload bytes sent and not acknowledged.
    pub outstanding: u64,
}

/// What a sender tells of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SenderSample {
    /// On the monotonic clock.
    pub(crate) at_ns: u64,
    pub(crate) written: u64,
    /// What the session knows that the receiver has in order.
    pub(crate) acknowledged: Option<u64>,
    pub(crate) sockets: Vec<SocketSample>,
}

/// A socket of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SocketSample {
    pub(crate) local: IpAddr,
    pub(crate) id: u64,
    pub(crate) delivered: Delivered,
    pub(crate) retransmitted: u64,
    pub(crate) socket: SeenSocket,
}

/// Bytes that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Delivered {
    /// Of one socket.
    On(u64),
    /// Of all sockets that the path has had.
    OnPath(u64),
}

/// What was seen of a run so far: sockets that are gone keep what they have counted.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Each path and the server's address on it.
    paths: Vec<(String, IpAddr)>,
    counted: Vec<Counted>,
}

/// What was counted on a path.
#[derive(Clone, Debug, Default)]
struct Counted {
    /// Each socket there was: its number, what it had delivered, and what it had sent again.
    sockets: Vec<(u64, [u64; 2])>,
    /// What all of them had delivered, where that is told at once.
    delivered: u64,
}

/// Sockets of a path that are told apart; what more come is not counted.
const SOCKETS: usize = 256;

impl Watched {
    pub(crate) fn new(paths: Vec<(String, IpAddr)>) -> Self {
        let counted = vec![Counted::default(); paths.len()];
        Self { paths, counted }
    }

    /// The run, whose workload began at `epoch_ns`, with one more sample. `None` before it began.
    pub(crate) fn take(&mut self, sample: &SenderSample, epoch_ns: u64) -> Option<Seen> {
        let time = Duration::from_nanos(sample.at_ns.checked_sub(epoch_ns)?);
        let mut now = vec![None; self.paths.len()];
        for socket in &sample.sockets {
            let Some(path) = self.paths.iter().position(|(_, at)| *at == socket.local) else {
                continue;
            };
            self.counted[path].add(socket);
            now[path] = Some(socket.socket);
        }
        let paths = self.paths.iter().zip(&self.counted).zip(now);
        let paths = paths.filter(|((_, counted), _)| !counted.sockets.is_empty());
        let path = |(((name, _), counted), socket): ((&(String, _), &Counted), _)| {
            let [delivered, retransmitted] = counted.sums();
            SeenPath { name: name.clone(), socket, delivered, retransmitted }
        };
        let paths: Vec<SeenPath> = paths.map(path).collect();
        let carried = || paths.iter().map(|path| path.delivered).sum();
        let delivered = sample.acknowledged.unwrap_or_else(carried);
        Some(Seen { time, written: sample.written, delivered, paths })
    }
}

impl Counted {
    fn add(&mut self, socket: &SocketSample) {
        let delivered = match socket.delivered {
            Delivered::On(bytes) => bytes,
            Delivered::OnPath(bytes) => {
                self.delivered = self.delivered.max(bytes);
                0
            }
        };
        let counted = [delivered, socket.retransmitted];
        let known = self.sockets.iter().position(|(id, _)| *id == socket.id);
        match known {
            Some(place) => self.sockets[place].1 = counted,
            None if self.sockets.len() < SOCKETS => self.sockets.push((socket.id, counted)),
            None => {}
        }
    }

    /// What was delivered, and what was sent again.
    fn sums(&self) -> [u64; 2] {
        let sum = |at: usize| self.sockets.iter().map(|(_, counted)| counted[at]).sum::<u64>();
        [self.delivered + sum(0), sum(1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_gone_keeps_what_it_counted_and_its_path_is_without_one() {
        let address = |n| IpAddr::from([10, 0, 0, n]);
        let paths = vec![("dsl".to_owned(), address(1)), ("lte".to_owned(), address(2))];
        let mut watched = Watched::new(paths);
        let socket = |local, id, delivered| SocketSample {
            local: address(local),
            id,
            delivered: Delivered::On(delivered),
            retransmitted: 1,
            socket: SeenSocket { cwnd: 10, ..SeenSocket::default() },
        };
        let mut take = |at_ns, sockets: &[SocketSample]| {
            let sample =
                SenderSample { at_ns, written: 9, acknowledged: None, sockets: sockets.to_vec() };
            let seen = watched.take(&sample, 100)?;
            let path = |path: &SeenPath| {
                (path.name.clone(), path.delivered, path.retransmitted, path.socket.is_some())
            };
            Some((seen.time.as_nanos(), seen.delivered, seen.paths.iter().map(path).collect()))
        };
        let dsl = |delivered, retransmitted, is_there| {
            ("dsl".to_owned(), delivered, retransmitted, is_there)
        };
        assert_eq!(take(99, &[]), None);
        assert_eq!(take(101, &[socket(1, 7, 5)]), Some((1, 5, vec![dsl(5, 1, true)])));
        assert_eq!(take(102, &[]), Some((2, 5, vec![dsl(5, 1, false)])));
        // Another socket on the same path, and one whose address is nobody's.
        let sockets = [socket(1, 8, 2), socket(9, 1, 1000)];
        assert_eq!(take(103, &sockets), Some((3, 7, vec![dsl(7, 2, true)])));
        // A session's sums are of all its sockets.
        let of_path =
            |id, sum| SocketSample { delivered: Delivered::OnPath(sum), ..socket(2, id, 0) };
        take(104, &[of_path(1, 50)]);
        let lte = ("lte".to_owned(), 60, 2, true);
        assert_eq!(take(105, &[of_path(2, 60)]), Some((5, 67, vec![dsl(7, 2, false), lte])));
    }
}
