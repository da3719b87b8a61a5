//! The addresses of a server's name.

use std::net::SocketAddr;
use std::time::Duration;

use crate::Instant;

/// The resolver is asked again after this long; until it answers, its last answer holds.
const NAMES_TIME: Duration = Duration::from_secs(10);
/// Among so many attempts at the address that answered last is one at the others, too.
const OTHERS_EVERY: u64 = 4;

/// What an attempt asks of the resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolve {
    /// Nothing: what it said is fresh, or it is being asked.
    No,
    /// For the attempts after this one, which goes on with what it said last.
    Beside,
    /// Without its answer there is nothing to dial.
    First,
}

/// What the resolver says of a name, and what came of its addresses, over one path.
#[derive(Debug, Default)]
pub struct Names {
    addresses: Vec<SocketAddr>,
    /// When the resolver was last heard.
    at: Instant,
    is_asked: bool,
    /// The address where the server was last.
    good: Option<SocketAddr>,
    /// Those that took a TCP connection and then were no server, since the last one that was.
    doubted: Vec<SocketAddr>,
    dials: u64,
}

impl Names {
    /// The addresses that the attempt of `now` dials, in their order, and what it asks of the resolver.
    /// Its answer goes to [`handle_resolved`](Self::handle_resolved).
    pub fn candidates(&mut self, now: Instant) -> (Vec<SocketAddr>, Resolve) {
        if self.addresses.is_empty() {
            return (Vec::new(), Resolve::First);
        }
        let is_old = now.since(self.at) >= NAMES_TIME && !self.is_asked;
        self.is_asked |= is_old;
        (self.in_order(), if is_old { Resolve::Beside } else { Resolve::No })
    }

    /// The resolver has answered, or failed to.
    pub fn handle_resolved(&mut self, found: Option<Vec<SocketAddr>>, now: Instant) {
        (self.is_asked, self.at) = (false, now);
        if let Some(found) = found {
            self.addresses = found;
        }
    }

    /// The server has answered a hello at `peer`.
    pub fn found(&mut self, peer: SocketAddr) {
        self.good = Some(peer);
        self.doubted.clear();
    }

    /// At `peer` there was no server, though it took a TCP connection: a program that hangs, or a portal.
    pub fn doubt(&mut self, peer: SocketAddr) {
        if self.good == Some(peer) {
            self.good = None;
        }
        if !self.doubted.contains(&peer) {
            self.doubted.push(peer);
        }
        if self.addresses.iter().all(|address| self.doubted.contains(address)) {
            self.doubted = vec![peer];
        }
    }

    /// First the one where the server was last, and now and then the others after it. Where it is not
    /// known, those that are in doubt come last.
    fn in_order(&mut self) -> Vec<SocketAddr> {
        self.dials += 1;
        let Some(good) = self.good.filter(|good| self.addresses.contains(good)) else {
            let mut all = self.addresses.clone();
            all.sort_by_key(|address| self.doubted.contains(address));
            return all;
        };
        let mut all = vec![good];
        if self.dials.is_multiple_of(OTHERS_EVERY) {
            all.extend(self.addresses.iter().filter(|other| **other != good));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    fn addresses<const N: usize>() -> [SocketAddr; N] {
        std::array::from_fn(|at| SocketAddr::from(([192, 0, 2, at as u8 + 1], 7)))
    }

    fn of<const N: usize>() -> ([SocketAddr; N], Names) {
        let mut names = Names::default();
        names.handle_resolved(Some(addresses::<N>().to_vec()), NOW);
        (addresses(), names)
    }

    #[test]
    fn the_resolver_is_asked_first_and_then_beside_the_attempts() {
        let mut names = Names::default();
        assert_eq!(names.candidates(NOW), (Vec::new(), Resolve::First));
        names.handle_resolved(Some(addresses::<1>().to_vec()), NOW);
        let mut asks = |ms| names.candidates(Instant::from_millis(ms)).1;
        assert_eq!(asks(9_999), Resolve::No);
        assert_eq!(asks(10_000), Resolve::Beside);
        assert_eq!(asks(60_000), Resolve::No, "it is being asked");
        // It fails: what it said last holds, and it is asked again later.
        names.handle_resolved(None, Instant::from_millis(60_000));
        let mut asks = |ms| names.candidates(Instant::from_millis(ms));
        assert_eq!(asks(69_999), (addresses::<1>().to_vec(), Resolve::No));
        assert_eq!(asks(70_000), (addresses::<1>().to_vec(), Resolve::Beside));
    }

    #[test]
    fn the_address_that_answered_comes_first_and_the_others_now_and_then() {
        let (addresses, mut names) = of::<2>();
        assert_eq!(names.candidates(NOW).0, addresses);
        names.found(addresses[1]);
        let tries: Vec<usize> = (0..8).map(|_| names.candidates(NOW).0.len()).collect();
        assert_eq!(tries.iter().filter(|&&n| n == 2).count(), 2, "{tries:?}");
        assert_eq!(names.candidates(NOW).0[0], addresses[1]);
        // Only what the resolver still says counts.
        names.handle_resolved(Some(addresses[..1].to_vec()), NOW);
        assert_eq!(names.candidates(NOW).0, addresses[..1]);
    }

    #[test]
    fn an_address_without_a_server_lets_the_others_go_first() {
        let ([a, b, c], mut names) = of::<3>();
        let doubt = |names: &mut Names, peer| {
            names.doubt(peer);
            names.candidates(NOW).0
        };
        assert_eq!(doubt(&mut names, a), [b, c, a]);
        assert_eq!(doubt(&mut names, b), [c, a, b]);
        // None is: they begin anew.
        assert_eq!(doubt(&mut names, c), [a, b, c]);
        names.found(b);
        assert_eq!(names.candidates(NOW).0[0], b);
        // Where the server was it is no more.
        assert_eq!(doubt(&mut names, b), [a, c, b]);
    }
}
