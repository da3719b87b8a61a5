//! The addresses at which `connect` takes connections, and how they follow its configuration.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use weftline::{Client, ClientBuilder, Forwarder, LocalService, SocksUsers};

use crate::failure::Failure;
use crate::output;
use crate::signals::Stop;

/// An address to take connections at, and how they are carried.
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    pub(crate) service: LocalService,
    /// Who may use it, where that is asked.
    pub(crate) users: Option<SocksUsers>,
    pub(crate) client: ClientBuilder,
    /// Connections kept ready.
    pub(crate) ready: usize,
}

impl Listener {
    const fn place(&self) -> (SocketAddr, LocalService) {
        (self.address, self.service)
    }
}

/// Those that are open.
pub(crate) struct Listeners {
    /// The first client: the others have their paths in common with it.
    base: Option<Client>,
    stop: Arc<Stop>,
    open: BTreeMap<(SocketAddr, LocalService), Open>,
    tasks: JoinSet<()>,
}

struct Open {
    client: Client,
    /// Closes it when it is dropped.
    _remove: oneshot::Sender<()>,
}

impl Listeners {
    /// None yet. All run until `stop`.
    pub(crate) fn new(stop: Arc<Stop>) -> Self {
        Self { base: None, stop, open: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// Opens those that are new, closes those that are not in `wanted`, and lets the others go on
    /// as it says there. Connections under way go on.
    ///
    /// # Errors
    /// When one cannot be had; then nothing has changed.
    pub(crate) async fn set(&mut self, wanted: Vec<Listener>) -> Result<(), Failure> {
        let mut fresh = Vec::new();
        for one in &wanted {
            let client = match &self.base {
                Some(base) => one.client.clone().beside(base),
                None => one.client.clone(),
            };
            let client = client.build()?;
            self.base.get_or_insert_with(|| client.clone());
            if !self.open.contains_key(&one.place()) {
                let bound = Forwarder::bind(client.clone(), one.address, one.service, one.ready);
                let mut bound = bound.await?;
                if let Some(users) = one.users.clone() {
                    bound = bound.socks_users(users);
                } else if one.service == LocalService::Socks && !one.address.ip().is_loopback() {
                    tracing::warn!(
                        "whoever reaches {} can use it as a proxy; give --socks-users FILE",
                        one.address
                    );
                }
                fresh.push((one.place(), client, bound));
            }
        }
        self.open.retain(|place, open| {
            let stays = wanted.iter().find(|one| one.place() == *place);
            // It has just been built like this: there is nothing wrong with it.
            stays.is_some_and(|one| open.client.reload(one.client.clone()).is_ok())
        });
        for (place, client, forwarder) in fresh {
            output::print(&format!("listening on {}\n", forwarder.local_addr()))?;
            let (remove, removed) = oneshot::channel::<()>();
            let stop = Arc::clone(&self.stop);
            self.tasks.spawn(async move {
                let removed = async {
                    let _ = removed.await;
                };
                forwarder.run_until_removed(removed, stop.nth(1), stop.nth(2)).await;
            });
            self.open.insert(place, Open { client, _remove: remove });
        }
        Ok(())
    }

    /// Waits until all have ended, once they have been stopped.
    pub(crate) async fn ended(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}
