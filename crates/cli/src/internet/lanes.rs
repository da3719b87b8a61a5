//! The server's side of lanes: which client has which addresses, and where its packets leave.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Weak};
use std::time::{Duration, Instant};

use weftline::{Egress, LaneHost, MemoryBudget, MemoryLease, PathLimiter};
use weftline_net::{
    Exit, ExitConfig, FIRST_CLIENT, Journal, LAST_CLIENT, Watch, addresses_v4, addresses_v6,
};
use weftline_tunnel::bond::{
    BondServer, BondStatus, CLIENT_MEMORY, LaneSecret, LaneSession, Permit,
};

use super::at;
use crate::config;
use crate::failure::Failure;
use crate::instance::{Instance, write_whole};
use crate::lifeline::{self, Lifeline};

/// How long this machine's own addresses are taken to be the same.
const OWN_ADDRESSES: Duration = Duration::from_secs(5);
/// The least time between two looks at the links.
const PAUSE: Duration = Duration::from_millis(50);
/// The time between two looks at the firewall, which others change, such as Docker when it starts.
const FIREWALL: Duration = Duration::from_secs(60);
/// What lets the packets of clients through a firewall that drops what is forwarded.
pub(crate) const LET_THROUGH: &str = "let 'weft-exit' through: 'ufw route allow in on weft-exit', \
    beside Docker 'iptables -I DOCKER-USER -i weft-exit -j ACCEPT' and the same with -o, else \
    'iptables -I FORWARD -i weft-exit -j ACCEPT' and the same with -o";
/// How long the place of a server that has ended is waited for.
const CLAIM: Duration = Duration::from_secs(5);

/// What a server has for lanes; nothing is forwarded any more when this is dropped.
pub(crate) struct Lanes {
    bond: BondServer,
    exit: Exit,
    numbers: Mutex<Numbers>,
    sessions: Mutex<BTreeMap<u32, Session>>,
    journal: PathBuf,
    /// What was said of answers that links do not carry, and of IPv6 that is not forwarded.
    told: Mutex<[Option<String>; 2]>,
    _janitor: Lifeline,
    _claim: Instance,
}

/// A client's session.
struct Session {
    /// The client's number.
    number: u16,
    /// The addresses that lead to it.
    held: Vec<IpAddr>,
    memory: MemoryLease,
}

impl Lanes {
    /// Sets up what a server needs, which listens on `addresses` with TCP.
    ///
    /// # Errors
    /// When this machine cannot do it, or does not let us.
    pub(crate) fn start(
        state_dir: &Path,
        egress: &Egress,
        addresses: &[SocketAddr],
    ) -> Result<Self, Failure> {
        let numbers = Numbers::open(state_dir)?;
        let place = |kind| place(kind).map_err(Failure::failed);
        let (lock, journal) = (place("lock")?, place("journal")?);
        // The janitor of one that has just ended may not be through.
        let until = Instant::now() + CLAIM;
        let claim = loop {
            match Instance::claim(&lock).map_err(|error| at(&lock, &error))? {
                Some(claim) => break claim,
                None if Instant::now() < until => std::thread::sleep(CLAIM / 50),
                None => {
                    let message = "another server with --internet carries UDP on this machine";
                    return Err(Failure::wrong_use(message));
                }
            }
        };
        Journal::undo(&journal).map_err(|error| at(&journal, &error))?;
        // Before anything is changed that does not go with this process.
        let janitor = lifeline::start(&claim, &journal, lifeline::Left::Sysctls)?;
        let config = ExitConfig {
            allowed: egress.allowed(),
            closed: egress.closed(),
            journal: journal.clone(),
        };
        let exit = Exit::start(&config).inspect_err(|_| _ = Journal::undo(&journal))?;
        let name = weftline_net::EXIT_DEVICE;
        let permit = permit(egress.clone());
        let bond = BondServer::start(exit.device(), name, addresses, permit)
            .inspect_err(|_| _ = Journal::undo(&journal))
            .map_err(Failure::not_possible)?;
        Ok(Self {
            bond,
            exit,
            numbers: Mutex::new(numbers),
            sessions: Mutex::default(),
            journal,
            told: Mutex::default(),
            _janitor: janitor,
            _claim: claim,
        })
    }

    /// Follows the links and the firewall of this machine, for as long as there are lanes.
    pub(crate) async fn follow(lanes: Weak<Self>) {
        tokio::join!(Self::follow_links(lanes.clone()), Self::follow_firewall(lanes));
    }

    /// Has answers come by new links, too.
    async fn follow_links(lanes: Weak<Self>) {
        let watch = match Watch::start() {
            Ok(watch) => watch,
            Err(error) => return tracing::warn!("new links carry no answers to clients: {error}"),
        };
        while watch.changed().await.is_ok() {
            let Some(lanes) = lanes.upgrade() else { return };
            lanes.keep();
            drop(lanes);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Has the kernel forward by the links that there are, and as somebody may have it no more.
    fn keep(&self) {
        let kept = self.exit.keep();
        if let Ok(n @ 1..) = kept {
            tracing::info!("{n} more links carry answers to clients, too");
        }
        let v6 = self.exit.take_up_ipv6();
        if let Ok(true) = v6 {
            tracing::info!("IPv6 of clients that come now is forwarded, too");
        }
        let wrong = [
            kept.err().map(|error| format!("a link carries no answers to clients: {error}")),
            v6.err().map(|error| {
                format!(
                    "clients' IPv6 is not forwarded: {error}; a container needs --sysctl \
                     net.ipv6.conf.all.forwarding=1"
                )
            }),
        ];
        // Once, as it is looked at again and again.
        let mut told = self.told.lock().expect("no panic");
        for (wrong, told) in wrong.into_iter().zip(told.iter_mut()) {
            if let Some(wrong) = wrong.as_ref().filter(|wrong| told.as_ref() != Some(*wrong)) {
                tracing::warn!("{wrong}");
            }
            *told = wrong;
        }
    }

    /// Says when a firewall lets nothing through this machine, and so nothing of clients, and has the kernel
    /// forward again where somebody has switched that off. Without a
    /// word it would look as if all were well: lanes are up, and names are found.
    async fn follow_firewall(lanes: Weak<Self>) {
        let mut known = None;
        while let Some(there) = lanes.upgrade() {
            // Nobody tells when a sysctl is set.
            there.keep();
            let ipv6 = there.exit.has_ipv6();
            drop(there);
            let look = move || weftline_net::forbids_forwarding(weftline_net::EXIT_DEVICE, ipv6);
            if let Ok(Ok(found)) = tokio::task::spawn_blocking(look).await
                && found != known
            {
                match &found {
                    Some(chain) => tracing::warn!("{}; {LET_THROUGH}", forbidding(chain)),
                    None => tracing::info!(
                        "the firewall of this machine lets clients' UDP through again"
                    ),
                }
                known = found;
            }
            tokio::time::sleep(FIREWALL).await;
        }
    }

    /// How each client's lanes are.
    pub(crate) fn status(&self) -> Vec<BondStatus> {
        self.bond.status().unwrap_or_default()
    }
}

/// That a chain of a firewall drops what this machine forwards.
pub(crate) fn forbidding(chain: &str) -> String {
    format!(
        "the firewall of this machine drops what it forwards, and so clients' UDP and ICMP \
         ({chain})"
    )
}

impl Drop for Lanes {
    fn drop(&mut self) {
        if let Err(error) = Journal::undo(&self.journal) {
            tracing::error!("{}: {error}", self.journal.display());
        }
    }
}

/// A file of the server of this network, which has one that carries UDP at a time.
fn place(kind: &str) -> std::io::Result<PathBuf> {
    let number = fs::metadata("/proc/self/ns/net")?.ino();
    let dir =
        std::env::var_os("RUNTIME_DIRECTORY").filter(|_| !rustix::process::geteuid().is_root());
    let dir = dir.map_or_else(|| PathBuf::from("/run/weftline"), PathBuf::from);
    Ok(dir.join(format!("exit-{number}.{kind}")))
}

/// This machine's addresses with the lengths of their networks, and when it was asked for them.
type OwnAddresses = (Vec<(IpAddr, u8)>, Option<Instant>);

/// Where clients may send to, by what this machine's own addresses are of late.
fn permit(egress: Egress) -> Permit {
    let own: Mutex<OwnAddresses> = Mutex::default();
    Box::new(move |target| {
        let mut own = own.lock().expect("no panic");
        if own.1.is_none_or(|at| at.elapsed() >= OWN_ADDRESSES) {
            match weftline_net::Routes::open().and_then(|routes| routes.addresses()) {
                Ok(found) => {
                    let found = found.into_iter().map(|one| (one.address, one.length)).collect();
                    *own = (found, Some(Instant::now()));
                }
                Err(error) => {
                    tracing::warn!("cannot ask for this server's own addresses: {error}");
                    return false;
                }
            }
        }
        egress.permits(target, &own.0)
    })
}

/// Memory for a client's bond.
fn client_memory(client: &str) -> Result<MemoryLease, String> {
    MemoryBudget::default().lease(CLIENT_MEMORY).map_err(|error| {
        tracing::warn!("no memory for the UDP of '{client}': {error} (--max-total-memory)");
        format!("the server has no memory for another client's UDP: {error}")
    })
}

impl LaneHost for Lanes {
    fn open(&self, client: &str, session: u32, secret: [u8; 32]) -> Result<u16, String> {
        if self.bond.has_ended() {
            return Err("the server carries no UDP any more, since its device is gone; restart it"
                .to_owned());
        }
        let number = self.numbers.lock().expect("no panic").of(client)?;
        let mut sessions = self.sessions.lock().expect("no panic");
        if sessions.contains_key(&session) {
            return Err("the number of a session is taken; try it again".to_owned());
        }
        // The client has had another one before: its addresses, with the routes to them, and its memory
        // are this one's now.
        let before = sessions.extract_if(.., |_, other| other.number == number).next();
        let (held, memory) = match before {
            Some((_, Session { held, memory, .. })) => (held, memory),
            None => (Vec::new(), client_memory(client)?),
        };
        sessions.insert(session, Session { number, held, memory });
        let secret = LaneSecret::new(secret);
        self.bond.open(
            client,
            LaneSession {
                number: session,
                secret,
                addresses: Vec::new(),
                has_ipv6: self.exit.has_ipv6(),
            },
        );
        Ok(number)
    }

    fn set_addresses(&self, session: u32, addresses: [IpAddr; 2]) -> Result<(), String> {
        let mut sessions = self.sessions.lock().expect("no panic");
        let Some(Session { number, held, .. }) = sessions.get_mut(&session) else {
            return Err("another machine speaks with this client's invite now".to_owned());
        };
        let mut wanted: Vec<IpAddr> =
            addresses.into_iter().filter(|address| !address.is_unspecified()).collect();
        let is_its_own = |address: &IpAddr| {
            addresses_v4(*number).contains(address) || addresses_v6(*number).contains(address)
        };
        if let Some(other) = wanted.iter().find(|address| !is_its_own(address)) {
            return Err(format!("{other} is not this client's address"));
        }
        wanted.retain(|address| address.is_ipv4() || self.exit.has_ipv6());
        for address in held.extract_if(.., |address| !wanted.contains(address)) {
            self.exit.remove_client(address);
        }
        let missing: Vec<IpAddr> =
            wanted.iter().filter(|address| !held.contains(address)).copied().collect();
        for address in missing {
            match self.exit.add_client(address) {
                Ok(()) => held.push(address),
                Err(error) if address.is_ipv6() => {
                    tracing::warn!("a client's IPv6 is not forwarded: {error}");
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        self.bond.set_addresses(session, wanted);
        Ok(())
    }

    fn set_limiters(&self, session: u32, limiters: Vec<(u8, PathLimiter)>) {
        self.bond.set_limiters(session, limiters);
    }

    fn open_over_tcp(&self, client: &str, session: u32, lane: u8) -> Result<OwnedFd, String> {
        let number = self.numbers.lock().expect("no panic").of(client)?;
        let sessions = self.sessions.lock().expect("no panic");
        if sessions.get(&session).is_none_or(|session| session.number != number) {
            return Err("another machine speaks with this client's invite now".to_owned());
        }
        self.bond.open_over_tcp(session, lane).map_err(|error| error.to_string())
    }

    fn close(&self, session: u32) {
        let mut sessions = self.sessions.lock().expect("no panic");
        if let Some(Session { held, .. }) = sessions.remove(&session) {
            held.into_iter().for_each(|address| self.exit.remove_client(address));
        }
        self.bond.close(session);
    }

    fn resolvers(&self) -> Vec<SocketAddr> {
        weftline_tunnel::bond::system_resolvers()
    }

    fn has_ipv6(&self) -> bool {
        self.exit.has_ipv6()
    }
}

/// The numbers of clients, by which their devices have addresses: kept, so that they stay the same.
struct Numbers {
    file: PathBuf,
    of: BTreeMap<String, u16>,
}

impl Numbers {
    fn open(state_dir: &Path) -> Result<Self, Failure> {
        let file = state_dir.join("internet.addresses");
        let of = if file.exists() { config::read(&file)? } else { BTreeMap::new() };
        Ok(Self { file, of })
    }

    /// That of a client, which is given one if it has none.
    fn of(&mut self, client: &str) -> Result<u16, String> {
        if let Some(number) = self.of.get(client) {
            return Ok(*number);
        }
        let mut taken: Vec<u16> = self.of.values().copied().collect();
        taken.sort_unstable();
        let free = (FIRST_CLIENT..=LAST_CLIENT).find(|number| taken.binary_search(number).is_err());
        let free = free.ok_or_else(|| {
            format!("all addresses are given to clients; delete lines of {}", self.file.display())
        })?;
        self.of.insert(client.to_owned(), free);
        let text = toml::to_string(&self.of).map_err(|error| error.to_string())?;
        if let Err(error) = write_whole(&self.file, &text) {
            tracing::warn!(
                "{}: {error}; '{client}' may have another address after a restart",
                self.file.display()
            );
        }
        Ok(free)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn what_is_to_be_let_through_is_our_device() {
        assert!(LET_THROUGH.contains(weftline_net::EXIT_DEVICE));
    }

    #[test]
    fn a_client_keeps_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let mut numbers = Numbers::open(dir.path()).unwrap();
        assert_eq!(
            [numbers.of("first"), numbers.of("ann"), numbers.of("first")],
            [Ok(2), Ok(3), Ok(2)]
        );
        let mut again = Numbers::open(dir.path()).unwrap();
        assert_eq!([again.of("bob@home.example"), again.of("ann")], [Ok(4), Ok(3)]);
        for n in 5..=LAST_CLIENT {
            again.of.insert(n.to_string(), n);
        }
        assert!(again.of("one too many").unwrap_err().contains("internet.addresses"));
    }
}
