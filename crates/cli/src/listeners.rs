//! The addresses at which `connect` takes connections, and how they follow its configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use weftline::{Client, ClientBuilder, Forwarder, LocalService, SocksUsers};

use crate::failure::Failure;
use crate::ops::Life;
use crate::ops::sockets::{Passed, Place};
use crate::output;

/// An address to take connections at, and how they are carried.
pub(crate) struct Listener {
    pub(crate) address: Place,
    pub(crate) service: LocalService,
    /// Who may use it, where that is asked.
    pub(crate) users: Option<SocksUsers>,
    pub(crate) client: ClientBuilder,
    /// Connections kept ready.
    pub(crate) ready: usize,
}

impl Listener {
    fn place(&self) -> (Place, LocalService) {
        (self.address.clone(), self.service)
    }
}

/// Those that are open.
pub(crate) struct Listeners {
    /// The first client: the others have their paths in common with it.
    base: Option<Client>,
    life: Arc<Life>,
    /// The sockets that were passed to the program.
    passed: Vec<Passed>,
    open: BTreeMap<(Place, LocalService), Open>,
    tasks: JoinSet<()>,
}

struct Open {
    client: Client,
    address: String,
    /// Who may use it.
    users: watch::Sender<Option<SocksUsers>>,
    /// Closes it when it is dropped.
    _remove: oneshot::Sender<()>,
}

impl Listeners {
    /// None yet. All run until the end of `life`.
    pub(crate) fn new(life: Arc<Life>, passed: Vec<Passed>) -> Self {
        Self { base: None, life, passed, open: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// The sockets that were passed to the program.
    pub(crate) fn passed(&self) -> &[Passed] {
        &self.passed
    }

    /// Says which of the sockets that were passed nobody has asked for.
    pub(crate) fn warn_of_unused(&self) {
        let is_used = |passed: &Passed| {
            let find = |place: &Place| place.find(&self.passed).ok().flatten();
            let used = self.open.keys().filter_map(|(place, _)| find(place));
            used.into_iter().any(|one| one.address == passed.address)
        };
        for one in self.passed.iter().filter(|one| !is_used(one)) {
            let name = &one.name;
            tracing::warn!("the socket '{name}' was passed and is not used; --listen fd:{name}");
        }
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
                self.check_change(one)?;
                let (users, now) = watch::channel(one.users.clone());
                let bound = self.bind(one, client.clone()).await?.follow_socks_users(now);
                let is_open = one.service == LocalService::Socks && one.users.is_none();
                if is_open && !bound.local_addr().ip().is_loopback() {
                    tracing::warn!(
                        "whoever reaches {} can use it as a proxy; give --socks-users FILE",
                        bound.local_addr()
                    );
                }
                fresh.push((one.place(), client, users, bound));
            }
        }
        self.open.retain(|place, open| {
            let stays = wanted.iter().find(|one| one.place() == *place);
            // It has just been built like this: there is nothing wrong with it.
            stays.is_some_and(|one| {
                open.users.send_replace(one.users.clone());
                open.client.reload(one.client.clone()).is_ok()
            })
        });
        for (place, client, users, forwarder) in fresh {
            let address = forwarder.local_addr().to_string();
            output::print(&format!("listening on {address}\n"))?;
            let (remove, removed) = oneshot::channel::<()>();
            let life = Arc::clone(&self.life);
            self.tasks.spawn(async move {
                let removed = async {
                    let _ = removed.await;
                };
                forwarder.run_until_removed(removed, life.stopping(), life.ending()).await;
            });
            self.open.insert(place, Open { client, address, users, _remove: remove });
        }
        self.life.set_listening(self.open.values().map(|open| open.address.clone()).collect());
        Ok(())
    }

    /// Refuses what is open under another service: its port is taken, by ourselves.
    fn check_change(&self, one: &Listener) -> Result<(), Failure> {
        let is_fixed = matches!(one.address, Place::Address(address) if address.port() != 0);
        if is_fixed && self.open.keys().any(|(address, _)| *address == one.address) {
            let (address, now) = (&one.address, name_of(one.service));
            return Err(Failure::wrong_use(format!(
                "{address} cannot become {now} while it is open; restart, or choose another address"
            )));
        }
        Ok(())
    }

    async fn bind(&self, one: &Listener, client: Client) -> Result<Forwarder, Failure> {
        let (service, ready) = (one.service, one.ready);
        Ok(match (&one.address, one.address.find(&self.passed)?) {
            (_, Some(passed)) => {
                Forwarder::with_listener(client, passed.listener()?, service, ready).await?
            }
            (&Place::Address(address), None) => {
                Forwarder::bind(client, address, service, ready).await?
            }
            (Place::Passed(_), None) => unreachable!("find() fails where there is none"),
        })
    }

    /// Waits until all have ended, once they have been stopped.
    pub(crate) async fn ended(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// What the option is called that offers it.
const fn name_of(service: LocalService) -> &'static str {
    match service {
        LocalService::Socks => "socks",
        _ => "listen",
    }
}
