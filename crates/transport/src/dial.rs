//! Where a path is dialled, and what the connections of a client know of it together.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weftline_core::Instant;
use weftline_core::path_manager::ProbeSeat;

use crate::client::Settings;
use crate::clock;
use crate::error::Error;
use crate::socket::{self, Bind};

/// The resolver is asked again after this long; until it answers, its last answer holds.
const NAMES_TIME: Duration = Duration::from_secs(10);
/// How long the resolver may take.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Among so many attempts at the address that answered last is one at the others, too.
const OTHERS_EVERY: u64 = 4;

/// First attempts on one path at a time, of all connections of a client: a server takes up to 64
/// handshakes of one source, which may be that of several paths.
const MAX_ATTEMPTS: usize = 20;

/// What all connections of a client know of one path.
#[derive(Debug)]
pub(crate) struct PathKnowledge {
    /// For the connection that dials often.
    pub(crate) seat: ProbeSeat,
    /// How often the server has answered on the path.
    answered: AtomicU64,
    names: Mutex<Names>,
    /// The connections that may make their first attempt on the path now.
    attempts: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Names {
    addresses: Vec<SocketAddr>,
    /// When the resolver gave them.
    at: Instant,
    /// Whether it is being asked.
    asking: bool,
    /// The address that answered last.
    good: Option<SocketAddr>,
    dials: u64,
}

impl Default for PathKnowledge {
    fn default() -> Self {
        Self {
            seat: ProbeSeat::default(),
            answered: AtomicU64::new(0),
            names: Mutex::default(),
            attempts: Arc::new(Semaphore::new(MAX_ATTEMPTS)),
        }
    }
}

impl PathKnowledge {
    /// How often the server has answered on the path.
    pub(crate) fn answers(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().expect("nobody panics with it")
    }

    fn take_names(&self, found: Option<Vec<SocketAddr>>) {
        let mut names = self.names();
        names.asking = false;
        names.at = clock::now();
        if let Some(found) = found {
            names.addresses = found;
        }
    }
}

impl Names {
    /// The addresses to try now: the one that answered last, and now and then the others after it.
    fn candidates(&mut self) -> Vec<SocketAddr> {
        self.dials += 1;
        let Some(good) = self.good.filter(|good| self.addresses.contains(good)) else {
            return self.addresses.clone();
        };
        let mut all = vec![good];
        if self.dials.is_multiple_of(OTHERS_EVERY) {
            all.extend(self.addresses.iter().filter(|other| **other != good));
        }
        all
    }
}

impl PathKnowledge {
    /// Waits for a turn to make an attempt, but no longer than `limit`: on a dark path the
    /// attempts before it may all take their time.
    pub(crate) async fn turn(&self, limit: Duration) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.attempts).acquire_owned();
        let turn = tokio::time::timeout(limit, turn).await.ok()?;
        Some(turn.expect("never closed"))
    }
}

/// A TCP connection to the server on the path `index`.
///
/// # Errors
/// When the server's name has no address, or none of its addresses answers in time.
pub(crate) async fn dial(settings: &Arc<Settings>, index: usize) -> Result<TcpStream, Error> {
    let (path, server) = &settings.paths[index];
    let knowledge = &settings.knowledge[index];
    let (mut candidates, is_old) = {
        let mut names = knowledge.names();
        let is_old = clock::now().since(names.at) >= NAMES_TIME && !names.asking;
        names.asking |= is_old && !names.addresses.is_empty();
        (names.candidates(), is_old)
    };
    if candidates.is_empty() {
        candidates = server.resolve(&path.bind, RESOLVE_TIMEOUT).await?;
        knowledge.take_names(Some(candidates.clone()));
    } else if is_old {
        let settings = Arc::clone(settings);
        tokio::spawn(async move {
            let (path, server) = &settings.paths[index];
            let found = server.resolve(&path.bind, RESOLVE_TIMEOUT).await;
            settings.knowledge[index].take_names(found.ok());
        });
    }
    let stream = connect(settings, index, &candidates).await?;
    knowledge.names().good = stream.peer_addr().ok();
    Ok(stream)
}

/// A TCP connection on the path `index` to where the connection's server takes joins.
///
/// # Errors
/// When the path reaches none of the addresses, or none answers in time.
pub(crate) async fn dial_join(
    settings: &Settings,
    index: usize,
    addresses: &[SocketAddr],
) -> Result<TcpStream, Error> {
    let candidates = within_reach(&settings.paths[index].0.bind, addresses)?;
    connect(settings, index, &candidates).await
}

/// Those of `addresses` that are of the family of `bind`.
///
/// # Errors
/// When none is.
fn within_reach(bind: &Bind, addresses: &[SocketAddr]) -> Result<Vec<SocketAddr>, Error> {
    let fits = |address: &&SocketAddr| match bind {
        Bind::Address(local) => local.is_ipv4() == address.is_ipv4(),
        Bind::Any | Bind::Interface(_) => true,
    };
    let found: Vec<SocketAddr> = addresses.iter().filter(fits).copied().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let known: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    Err(Error::NoJoinAddress { via: bind.clone(), known: known.join(", ") })
}

/// A TCP connection on the path `index` to the first of `candidates` that answers.
async fn connect(
    settings: &Settings,
    index: usize,
    candidates: &[SocketAddr],
) -> Result<TcpStream, Error> {
    let path = &settings.paths[index].0;
    let options = settings.socket_options(path);
    let stream = socket::connect_any(&path.bind, candidates, &options).await?;
    settings.knowledge[index].answered.fetch_add(1, Ordering::Relaxed);
    settings.common.answers.send_replace(());
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_dials_the_join_addresses_of_its_family() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let both = ["192.0.2.1:7", "[2001:db8::1]:7"].map(parse);
        let bind = |text: &str| text.parse::<Bind>().unwrap();
        assert_eq!(within_reach(&bind("10.0.0.1"), &both).unwrap(), both[..1]);
        assert_eq!(within_reach(&bind("fd00::1"), &both).unwrap(), both[1..]);
        assert_eq!(within_reach(&bind("wlan0"), &both).unwrap(), both);
        assert_eq!(within_reach(&Bind::Any, &both).unwrap(), both);
        let error = within_reach(&bind("fd00::1"), &both[..1]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("192.0.2.1:7 only") && text.contains("fd00::1"), "{text}");
    }

    #[test]
    fn the_address_that_answered_comes_first_and_the_others_now_and_then() {
        let addresses: Vec<SocketAddr> =
            ["192.0.2.1:7", "192.0.2.2:7"].map(|text| text.parse().unwrap()).to_vec();
        let mut names = Names { addresses: addresses.clone(), ..Names::default() };
        assert_eq!(names.candidates(), addresses);
        names.good = Some(addresses[1]);
        let tries: Vec<usize> = (0..8).map(|_| names.candidates().len()).collect();
        assert_eq!(tries.iter().filter(|&&n| n == 2).count(), 2, "{tries:?}");
        assert_eq!(names.candidates()[0], addresses[1]);
        // Only what the resolver still says counts.
        names.addresses.truncate(1);
        assert_eq!(names.candidates(), addresses[..1]);
    }
}
