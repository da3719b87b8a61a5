//! TCP forwarding: `weftline connect` takes local TCP connections, `weftline serve` makes one to
//! their target for each, and a multipath connection carries the bytes between them.
//!
//! The client says ahead of its data whose they are (see [`Opening`]). Until then the connection
//! is one of the few kept ready, so that a new local connection need not wait for any handshake,
//! and the server does not bother the target. A target that speaks first is heard at once.

mod captured;
mod connect;
mod dial;
mod dns;
mod egress;
mod lanes;
mod over_tcp;
mod pace;
mod pool;
mod relay;
mod serve;
mod socks;
mod trial;
mod waiting;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use weftline_core::session::RESET_SHUTDOWN;

use crate::connection::Connection;
use crate::error::Error;

pub use captured::InternetOffer;
pub use connect::{Forwarder, LocalService};
pub use egress::{Egress, Network, ParseNetworkError};
pub use lanes::{LaneControl, LaneGrant, LaneHost};
pub use over_tcp::{LONGEST_DATAGRAM, LaneOverTcp};
use relay::relay_or;
pub use relay::{Relayed, relay};
pub use serve::{Target, serve, serve_with_lanes};
pub use socks::SocksUsers;

/// What a peer is told when its connection is stopped.
const SHUTTING_DOWN: &str = "the other side is shutting down";
/// The wait after the system refused to accept a connection (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The client's preface on a connection: from here on it belongs to a local one
/// (docs/protocol.md).
#[derive(Clone, Debug, PartialEq, Eq)]
enum Opening {
    /// To the server's own target: one byte, and data follow.
    Forward,
    /// To this `host:port`: a byte, the text's length in a byte, the text. The server answers with
    /// a reply byte of RFC 1928 §6 before any data.
    Named(String),
    /// To this address: a byte, 4 or 6, the address in 4 or 16 bytes, the port in two; data follow.
    /// The server resets the connection if it cannot be reached.
    Address(SocketAddr),
    /// To nobody: a byte. The server says what it offers to a whole machine.
    Ask,
    /// To nobody: a byte, and what both ends agree on for lanes.
    Lanes,
}

impl Opening {
    const FORWARD: u8 = 1;
    const NAMED: u8 = 2;
    const ADDRESS: u8 = 3;
    const ASK: u8 = 4;
    const LANES: u8 = 5;

    async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        match self {
            Self::Forward => to.write_u8(Self::FORWARD).await,
            Self::Named(target) => {
                let length = u8::try_from(target.len())
                    .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "name too long"))?;
                to.write_all(&[&[Self::NAMED, length], target.as_bytes()].concat()).await
            }
            Self::Address(target) => {
                let mut bytes = vec![Self::ADDRESS];
                match target.ip() {
                    IpAddr::V4(address) => {
                        bytes.push(4);
                        bytes.extend(address.octets());
                    }
                    IpAddr::V6(address) => {
                        bytes.push(6);
                        bytes.extend(address.octets());
                    }
                }
                bytes.extend(target.port().to_be_bytes());
                to.write_all(&bytes).await
            }
            Self::Ask => to.write_u8(Self::ASK).await,
            Self::Lanes => to.write_u8(Self::LANES).await,
        }
    }

    async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let wrong = |message: &str| io::Error::new(io::ErrorKind::InvalidData, message.to_owned());
        match from.read_u8().await? {
            Self::FORWARD => Ok(Self::Forward),
            Self::NAMED => {
                let length = from.read_u8().await?;
                let mut text = vec![0; usize::from(length)];
                from.read_exact(&mut text).await?;
                let text = String::from_utf8(text).map_err(|_| wrong("a target is not UTF-8"))?;
                Ok(Self::Named(text))
            }
            Self::ADDRESS => {
                let address: IpAddr = match from.read_u8().await? {
                    4 => Ipv4Addr::from_bits(from.read_u32().await?).into(),
                    6 => Ipv6Addr::from_bits(from.read_u128().await?).into(),
                    other => return Err(wrong(&format!("there is no address family {other}"))),
                };
                Ok(Self::Address(SocketAddr::new(address, from.read_u16().await?)))
            }
            Self::ASK => Ok(Self::Ask),
            Self::LANES => Ok(Self::Lanes),
            other => Err(wrong(&format!("a forwarded connection cannot begin with byte {other}"))),
        }
    }
}

/// Relays to the end, which comes early when the connections under way are stopped: this one is
/// reset then, and the peer told why. `failed` hears how the connection has failed, if it has.
async fn relay_until<F: Future<Output = ()>>(
    connection: Connection,
    local: TcpStream,
    peer: SocketAddr,
    mut stage: watch::Receiver<Stage>,
    failed: impl FnOnce(&Error) -> F,
) {
    let control = connection.control();
    let stopped = async {
        reached(&mut stage, Stage::Over).await;
        control.abort(RESET_SHUTDOWN, SHUTTING_DOWN);
    };
    match relay_or(connection, local, stopped, failed).await {
        Ok(relayed) => {
            let (sent, received) = (relayed.sent, relayed.received);
            tracing::debug!("{peer}: finished, {sent} bytes sent, {received} bytes received");
        }
        Err(error) => tracing::info!("{peer}: a forwarded connection failed: {error}"),
    }
}

/// How far a daemon's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It takes new connections.
    Running,
    /// Connections under way may finish.
    Finishing,
    /// They are stopped.
    Over,
}

/// Waits until the daemon has come as far as `wanted`.
async fn reached(stage: &mut watch::Receiver<Stage>, wanted: Stage) {
    if stage.wait_for(|stage| *stage >= wanted).await.is_err() {
        // The daemon holds the sender until its last connection is gone.
        std::future::pending::<()>().await;
    }
}

/// The connections under way.
struct Open {
    tasks: JoinSet<()>,
    stage: watch::Sender<Stage>,
}

impl Open {
    fn new() -> Self {
        Self { tasks: JoinSet::new(), stage: watch::Sender::new(Stage::Running) }
    }

    /// Waits until the connections have ended by themselves.
    async fn finish(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Lets the connections finish until `stop_now` and ends those that do not.
    async fn drain(mut self, stop_now: impl Future<Output = ()>) {
        self.stage.send_replace(Stage::Finishing);
        tokio::select! {
            () = self.finish() => return,
            () = stop_now => {}
        }
        self.stage.send_replace(Stage::Over);
        self.finish().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `read` never waits for more than it is given here.
    fn now<T>(work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match work.as_mut().poll(&mut context) {
            std::task::Poll::Ready(value) => value,
            std::task::Poll::Pending => panic!("bytes in memory are there"),
        }
    }

    proptest! {
        #[test]
        fn openings_are_read_as_written(
            name in "[a-z0-9.:\\[\\]]{0,255}",
            address: IpAddr,
            port: u16,
            kind in 0..5,
        ) {
            let opening = match kind {
                0 => Opening::Forward,
                1 => Opening::Named(name),
                2 => Opening::Address(SocketAddr::new(address, port)),
                3 => Opening::Ask,
                _ => Opening::Lanes,
            };
            let mut bytes = Vec::new();
            now(opening.write(&mut bytes)).unwrap();
            prop_assert_eq!(now(Opening::read(&mut &bytes[..])).unwrap(), opening);
        }

        #[test]
        fn anything_else_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let known = bytes.first().is_some_and(|first| (1..=5).contains(first));
            prop_assert!(now(Opening::read(&mut &bytes[..])).is_err() || known);
        }
    }
}
