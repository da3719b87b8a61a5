//! Where a server listens, and how many it answers at once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::guard::WrongName;

/// How long a client may take to ask, and to take its answer or a part of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The longest head of a request in bytes; hyper wants no less.
pub(crate) const MAX_HEAD: usize = 8 << 10;
/// Of these, those of one other machine: none keeps all others out by connecting.
const MOST_OF_ONE: usize = 16;
/// The wait after the system refused to accept somebody (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address cannot be had.
    #[error("{address}: {source}; {remedy}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// The address is reached from elsewhere, where nothing would be encrypted.
    #[error(
        "{0} is reached from other machines, and the dashboard speaks no TLS yet; choose an address \
         of 127.0.0.1 and reach it by ssh -L, or put a proxy with TLS before it and name it: \
         --behind-proxy NAME"
    )]
    NotLoopback(SocketAddr),
    /// With TLS, any address of the machine: what requests are to name is not known.
    #[error(
        "{0} stands for all addresses of this machine; give the one by which browsers reach it, such \
         as 192.168.1.5:{port}", port = .0.port()
    )]
    Everywhere(SocketAddr),
    /// A name that no host can have.
    #[error("--behind-proxy: {0}")]
    Name(#[from] WrongName),
    /// The system has no randomness for the token.
    #[error("the system gives no random bytes for the token")]
    Random,
}

/// Listens at an address; with port 0 the system chooses one. Returns which it is, too.
pub(crate) async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), OpenError> {
    let wrong = |source: io::Error| {
        let remedy = match source.kind() {
            io::ErrorKind::AddrInUse => "stop the program that has it, or choose another port",
            _ => "choose an address of this machine, such as 127.0.0.1:9480",
        };
        OpenError::Bind { address, source, remedy }
    };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    Ok((listener, address))
}

/// Serves everybody, at most so many at once: further ones wait in the kernel's queue.
pub(crate) async fn accept<S, F>(listener: TcpListener, most: usize, serve: S)
where
    S: Fn(TcpStream) -> F,
    F: Future<Output = hyper::Result<()>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(most));
    // They end with it.
    let mut tasks = JoinSet::new();
    let mut held: BTreeMap<IpAddr, usize> = BTreeMap::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while let Some(done) = tasks.try_join_next() {
            // A task that panicked does not say whose it was.
            if let Ok(ip) = done
                && let Entry::Occupied(mut count) = held.entry(ip)
            {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        match listener.accept().await {
            Ok((stream, peer)) => {
                let ip = peer.ip().to_canonical();
                let count = held.entry(ip).or_default();
                if *count >= MOST_OF_ONE && !ip.is_loopback() {
                    tracing::debug!("{peer} has {MOST_OF_ONE} connections already");
                    continue;
                }
                *count += 1;
                let served = serve(stream);
                tasks.spawn(async move {
                    if let Err(error) = served.await {
                        tracing::debug!("{peer}: {error}");
                    }
                    drop(place);
                    ip
                });
            }
            Err(error) => {
                tracing::debug!("nobody can be accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
