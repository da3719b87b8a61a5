//! The client's side of forwarding.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use weftline_core::session::{RESET_SHUTDOWN, RESET_TARGET};

use super::captured::original_target;
use super::pool::Pool;
use super::socks::{self, Reply, SocksUsers};
use super::{ACCEPT_PAUSE, Open, Opening, SHUTTING_DOWN, Stage, reached, relay_until};
use crate::client::Client;
use crate::connection::Connection;
use crate::error::Error;
use crate::socket;

/// How long a local program may take to say where it wants to go.
const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(10);

/// What local programs find at the address of a [`Forwarder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LocalService {
    /// The server's one target.
    Forward,
    /// A SOCKS 5 proxy.
    Socks,
    /// Nothing that they look for: the kernel has redirected their connections there.
    Captured,
}

/// Takes TCP connections at a local address, or at several, and carries each over the paths of a client.
pub struct Forwarder {
    listeners: Vec<TcpListener>,
    local: SocketAddr,
    service: LocalService,
    users: watch::Receiver<Option<SocksUsers>>,
    pool: Arc<Pool>,
    unreachable: Unreachable,
}

/// Hears of targets that the server has not reached.
type Unreachable = Arc<dyn Fn(SocketAddr) -> Hearing + Send + Sync>;
/// What is done with one.
type Hearing = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Forwarder {
    /// Listens on `address`, after making sure that the server can be reached. `ready`
    /// connections are kept open ahead of use.
    ///
    /// # Errors
    /// When the address is taken or not there, or the server cannot be reached or does not fit.
    pub async fn bind(
        client: Client,
        address: SocketAddr,
        service: LocalService,
        ready: usize,
    ) -> Result<Self, Error> {
        Self::start(client, vec![socket::listen(address)?], service, ready).await
    }

    /// As [`bind`](Self::bind), with a listener that is there already, such as one of systemd.
    ///
    /// # Errors
    /// When the listener is none, or the server cannot be reached or does not fit.
    pub async fn with_listener(
        client: Client,
        listener: std::net::TcpListener,
        service: LocalService,
        ready: usize,
    ) -> Result<Self, Error> {
        Self::start(client, vec![socket::adopt(listener)?], service, ready).await
    }

    /// Carries connections that the kernel redirects to `listeners`, such as one for each address
    /// family, each to where it was going. A connection to a listener itself is reset.
    ///
    /// # Errors
    /// When there is no listener or one is none, or the server cannot be reached or does not fit.
    pub async fn captured(
        client: Client,
        listeners: Vec<std::net::TcpListener>,
        ready: usize,
    ) -> Result<Self, Error> {
        let listeners = listeners.into_iter().map(socket::adopt).collect::<Result<_, _>>()?;
        Self::start(client, listeners, LocalService::Captured, ready).await
    }

    async fn start(
        client: Client,
        listeners: Vec<TcpListener>,
        service: LocalService,
        ready: usize,
    ) -> Result<Self, Error> {
        let Some(first) = listeners.first() else {
            return Err(Error::Invalid("nothing to listen on; give an address".to_owned()));
        };
        let local = first.local_addr().map_err(Error::Socket)?;
        let pool = Arc::new(Pool::start(client, ready).await?);
        let (_, users) = watch::channel(None);
        Ok(Self {
            listeners,
            local,
            service,
            users,
            pool,
            unreachable: Arc::new(|_| Box::pin(std::future::ready(()))),
        })
    }

    /// Tells `hears` of each target of a captured connection that the server has not reached, or does
    /// not let this client go to. The program hears of it when what `hears` returns is done; nothing
    /// else waits for that.
    #[must_use]
    pub fn on_unreachable<F>(
        mut self,
        hears: impl Fn(SocketAddr) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.unreachable = Arc::new(move |target| Box::pin(hears(target)));
        self
    }

    /// Lets only `users` use the proxy; without, whoever reaches its address may.
    #[must_use]
    pub fn socks_users(self, users: SocksUsers) -> Self {
        self.follow_socks_users(watch::channel(Some(users)).1)
    }

    /// Lets only those use the proxy that `users` has when they come; `None` admits whoever reaches
    /// its address.
    #[must_use]
    pub fn follow_socks_users(mut self, users: watch::Receiver<Option<SocksUsers>>) -> Self {
        self.users = users;
        self
    }

    /// The address listened on, with the port the system chose for port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Forwards until `stop` completes. No connections are taken any more then, and those under
    /// way may finish until `stop_now` completes; those that have not are reset.
    pub async fn run(self, stop: impl Future<Output = ()>, stop_now: impl Future<Output = ()>) {
        self.run_until_removed(std::future::pending(), stop, stop_now).await;
    }

    /// As [`run`](Self::run). When `removed` completes no more connections are taken, and those
    /// under way go on until they end, or until `stop` completes.
    pub async fn run_until_removed(
        self,
        removed: impl Future<Output = ()>,
        stop: impl Future<Output = ()>,
        stop_now: impl Future<Output = ()>,
    ) {
        let mut open = Open::new();
        let mut keeper = JoinSet::new();
        keeper.spawn(Arc::clone(&self.pool).keep());
        tokio::pin!(stop, removed);
        let mut turn = 0;
        let is_removed = loop {
            let (local, peer) = tokio::select! {
                accepted = accept(&self.listeners, &mut turn) => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
                Some(_) = open.tasks.join_next() => continue,
                () = &mut stop => break false,
                () = &mut removed => break true,
            };
            let (pool, stage) = (Arc::clone(&self.pool), open.stage.subscribe());
            let (users, unreachable) = (self.users.borrow().clone(), Arc::clone(&self.unreachable));
            let service = self.service;
            open.tasks.spawn(async move {
                let opened = (service, users, local, peer);
                forward_one(pool, opened, unreachable, stage).await;
            });
        };
        drop(self.listeners);
        keeper.shutdown().await;
        for unused in self.pool.empty() {
            open.tasks.spawn(async move {
                unused.abort(RESET_SHUTDOWN, SHUTTING_DOWN);
                let _ = unused.closed().await;
            });
        }
        if is_removed {
            tokio::select! {
                () = open.finish() => return,
                () = &mut stop => {}
            }
        }
        open.drain(stop_now).await;
    }
}

/// The next connection of any of the listeners. They are asked by turns: one at which connections never
/// cease to come does not keep those of another waiting.
async fn accept(
    listeners: &[TcpListener],
    turn: &mut usize,
) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|cx| {
        let first = *turn % listeners.len();
        let (before, from) = listeners.split_at(first);
        for (place, listener) in (first..).zip(from.iter().chain(before)) {
            if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                *turn = (place + 1) % listeners.len();
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    })
    .await
}

async fn forward_one(
    pool: Arc<Pool>,
    (service, users, mut local, peer): (LocalService, Option<SocksUsers>, TcpStream, SocketAddr),
    unreachable: Unreachable,
    mut stage: watch::Receiver<Stage>,
) {
    let opened = tokio::select! {
        opened = open(&pool, service, users.as_ref(), &mut local) => opened,
        () = reached(&mut stage, Stage::Over) => return,
    };
    match opened {
        Ok((connection, target)) => {
            let to = target.as_ref().map(|target| format!(" to {target}"));
            connection.set_label(&format!("from {peer}{}", to.unwrap_or_default()));
            let failed = |error: &Error| match (error, target) {
                (Error::Reset { code: RESET_TARGET, .. }, Some(Goal::Address(target))) => {
                    unreachable(target)
                }
                _ => Box::pin(std::future::ready(())),
            };
            relay_until(connection, local, peer, stage, failed).await;
        }
        Err(error) => {
            tracing::warn!("cannot forward a connection of {peer}: {error}");
            if service != LocalService::Socks {
                let _ = local.set_zero_linger();
            }
        }
    }
}

/// Where a program wants to go.
enum Goal {
    Address(SocketAddr),
    Named(String),
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Named(name) => name.fmt(f),
        }
    }
}

/// A connection whose other end is where `local` wants to go, and where that is if it said so.
async fn open(
    pool: &Pool,
    service: LocalService,
    users: Option<&SocksUsers>,
    local: &mut TcpStream,
) -> io::Result<(Connection, Option<Goal>)> {
    if service == LocalService::Forward {
        return Ok((pool.open(&Opening::Forward).await?, None));
    }
    if service == LocalService::Captured {
        let target = original_target(local)?;
        return Ok((pool.open(&Opening::Address(target)).await?, Some(Goal::Address(target))));
    }
    let negotiation = socks::negotiate(local, users);
    let negotiation = tokio::time::timeout(NEGOTIATION_TIMEOUT, negotiation).await;
    let target = negotiation.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    let answer = async {
        let mut connection = pool.open(&Opening::Named(target.clone())).await?;
        let reply = connection.read_u8().await?;
        Ok::<_, io::Error>((connection, Reply(reply)))
    };
    match answer.await {
        Ok((connection, Reply::SUCCEEDED)) => {
            socks::reply(local, Reply::SUCCEEDED).await?;
            Ok((connection, Some(Goal::Named(target))))
        }
        Ok((mut connection, reply)) => {
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut connection).await;
            socks::reply(local, reply).await?;
            Err(io::Error::other(format!("the server cannot reach {target} (reply {})", reply.0)))
        }
        Err(error) => {
            socks::reply(local, Reply::FAILED).await?;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_listener_has_its_turn() {
        let mut listeners = Vec::new();
        for _ in 0..3 {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let ports: Vec<_> = listeners.iter().map(|one| one.local_addr().unwrap()).collect();
        // Connections wait at the first two, many of them at the first.
        let connect = |port| std::net::TcpStream::connect(port).unwrap();
        let _waiting: Vec<_> =
            [0, 0, 0, 0, 1, 1].iter().map(|&place: &usize| connect(ports[place])).collect();
        let (mut turn, mut taken) = (0, Vec::new());
        for _ in 0..6 {
            let (stream, _) = accept(&listeners, &mut turn).await.unwrap();
            let at = stream.local_addr().unwrap();
            taken.push(ports.iter().position(|port| *port == at).unwrap());
        }
        assert_eq!(taken, [0, 1, 0, 1, 0, 0]);
    }
}
