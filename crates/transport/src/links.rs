//! The machine's interfaces and addresses as they come and go.
//!
//! A routing socket (rtnetlink(7)) says that a link, an address or a route has changed; what there
//! is then is asked anew, so that a message lost for want of buffer space costs nothing. Where
//! there is no such socket, paths are watched by their progress alone.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::watch;
use weftline_net::Watch;

use crate::bind::Bind;

/// The least time between two looks, for machines whose routes change all the time.
const PAUSE: Duration = Duration::from_millis(10);

/// One address of one interface.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    interface: String,
    address: IpAddr,
    /// Whether the interface is up and has a carrier.
    running: bool,
}

/// What there is at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links(Vec<Entry>);

impl Links {
    /// Asks the system.
    pub(crate) fn now() -> Self {
        let all = if_addrs::get_if_addrs().unwrap_or_default().into_iter();
        Self(
            all.map(|interface| Entry {
                address: interface.ip(),
                running: interface.is_oper_up(),
                interface: interface.name,
            })
            .collect(),
        )
    }

    /// Whether packets can leave from `local` by `bind`: the address is on an interface that is
    /// up, and on the right one.
    fn carry(&self, bind: &Bind, local: IpAddr) -> bool {
        self.0.iter().any(|entry| {
            let fits = match bind {
                Bind::Interface(name) => entry.interface == *name,
                Bind::Any | Bind::Address(_) => true,
            };
            fits && entry.address == local && entry.running
        })
    }

    /// Whether an interface that `bind` stands for is up; `None` if it stands for no address here.
    pub(crate) fn any_running(&self, bind: &Bind) -> Option<bool> {
        let fits = |entry: &&Entry| match bind {
            Bind::Any => true,
            Bind::Interface(name) => entry.interface == *name,
            Bind::Address(address) => entry.address == *address,
        };
        let mut found = self.0.iter().filter(fits).map(|entry| entry.running).peekable();
        found.peek()?;
        Some(found.any(|running| running))
    }

    /// Whether an interface has an address of IPv4, or else of IPv6 that reaches beyond its link.
    pub(crate) fn has_family(&self, interface: &str, ipv4: bool) -> bool {
        let fits = |address: IpAddr| match address {
            IpAddr::V4(_) => ipv4,
            IpAddr::V6(address) => !ipv4 && !address.is_unicast_link_local(),
        };
        self.0.iter().any(|entry| entry.interface == interface && fits(entry.address))
    }

    /// The interface that has `address`.
    pub(crate) fn interface_of(&self, address: IpAddr) -> Option<String> {
        let found = self.0.iter().find(|entry| entry.address == address);
        found.map(|entry| entry.interface.clone())
    }
}

/// The state of what a path leaves through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It is up and has an address; or it is no interface's, as those of 127.0.0.0/8.
    Up,
    /// It is down, or has no carrier.
    Down,
    /// The interface has no address.
    NoAddress,
}

impl Bind {
    /// How the interface is that it stands for.
    pub fn link(&self) -> LinkState {
        let links = Links::now();
        match (links.any_running(self), self) {
            (Some(true), _) | (None, Self::Any | Self::Address(_)) => LinkState::Up,
            (Some(false), _) => LinkState::Down,
            (None, Self::Interface(_)) => LinkState::NoAddress,
        }
    }

    /// Whether it has an address to reach `server` from: one of its family.
    pub fn has_family_of(&self, server: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Address(address) => address.is_ipv4() == server.is_ipv4(),
            Self::Interface(name) => Links::now().has_family(name, server.is_ipv4()),
        }
    }

    /// The interface that it names, or that has its address.
    pub fn interface(&self) -> Option<String> {
        match self {
            Self::Any => None,
            Self::Interface(name) => Some(name.clone()),
            Self::Address(address) => Links::now().interface_of(*address),
        }
    }
}

/// Keeps watch over the machine's links until it is dropped.
#[derive(Clone, Debug)]
pub(crate) struct LinkWatch(watch::Receiver<Links>);

impl LinkWatch {
    /// Starts watching; `None`, with a line in the log, where the system does not let us.
    pub(crate) fn start() -> Option<Self> {
        let changes = Watch::start();
        let changes =
            changes.inspect_err(|error| tracing::info!("links are not watched: {error}")).ok()?;
        let (sender, receiver) = watch::channel(Links::now());
        tokio::spawn(async move {
            if let Err(error) = follow(&changes, &sender).await {
                tracing::warn!("links are not watched any more: {error}");
            }
        });
        Some(Self(receiver))
    }

    /// The same watch, for one who wants to hear of changes from here on.
    pub(crate) fn subscribe(&self) -> Self {
        let mut receiver = self.0.clone();
        receiver.mark_unchanged();
        Self(receiver)
    }

    /// Whether packets can leave from `local` by `bind` now.
    pub(crate) fn carry(&self, bind: &Bind, local: IpAddr) -> bool {
        self.0.borrow().carry(bind, local)
    }

    /// Whether nobody watches any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.has_changed().is_err()
    }

    /// Waits until something has changed since the last call; for ever when nobody watches.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Publishes what there is after every change, until nobody listens. Routes count, too: they follow
/// their addresses by a moment, and without them nothing can be sent from these.
async fn follow(changes: &Watch, sender: &watch::Sender<Links>) -> io::Result<()> {
    loop {
        tokio::select! {
            () = sender.closed() => return Ok(()),
            changed = changes.changed() => changed?,
        }
        sender.send_replace(Links::now());
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_carries_on_its_own_running_interface_only() {
        let entry = |interface: &str, address: &str, running| Entry {
            interface: interface.to_owned(),
            address: address.parse().unwrap(),
            running,
        };
        let links = Links(vec![
            entry("wifi", "192.0.2.1", true),
            entry("lte", "192.0.2.2", false),
            entry("lte", "192.0.2.3", false),
        ]);
        let wifi = Bind::Interface("wifi".to_owned());
        let at = |address: &str| address.parse().unwrap();
        assert!(links.carry(&wifi, at("192.0.2.1")));
        assert!(links.carry(&Bind::Any, at("192.0.2.1")));
        assert!(!links.carry(&Bind::Interface("lte".to_owned()), at("192.0.2.1")));
        assert!(!links.carry(&Bind::Any, at("192.0.2.2")), "its interface is down");
        assert!(!links.carry(&wifi, at("192.0.2.9")), "it is gone");
    }

    #[tokio::test]
    async fn loopback_is_there_and_watched() {
        let watch = LinkWatch::start().unwrap();
        assert!(watch.carry(&Bind::Any, "127.0.0.1".parse().unwrap()));
    }
}
