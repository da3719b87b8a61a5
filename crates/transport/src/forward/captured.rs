//! Connections that the kernel has redirected to us: where they were going, and what the server says
//! it does with them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use weftline_core::session::{RESET_FORWARD, RESET_SERVICE};

use super::Opening;
use crate::client::Client;
use crate::error::Error;

/// The version of the answer to the question, and its flag for IPv6.
const VERSION: u8 = 1;
const HAS_IPV6: u8 = 1;
/// Its flag for lanes.
const HAS_LANES: u8 = 2;
/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a server offers to a whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InternetOffer {
    /// Whether it can reach IPv6 addresses.
    pub ipv6: bool,
    /// Whether it carries UDP and all else that is no TCP, over lanes.
    pub lanes: bool,
}

impl InternetOffer {
    /// Asks the server over a connection of its own, which shows that it can be reached and lets
    /// this client in, too.
    ///
    /// # Errors
    /// When it cannot be reached, does not accept the client, or carries no whole machines.
    pub async fn ask(client: &Client) -> Result<Self, Error> {
        let mut connection = client.connect_again().await?;
        let control = connection.control();
        let talk = async {
            Opening::Ask.write(&mut connection).await?;
            let answer = [connection.read_u8().await?, connection.read_u8().await?];
            connection.shutdown().await?;
            control.closed().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>(answer)
        };
        let answer = tokio::time::timeout(PATIENCE, talk).await;
        let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        if let Err(error) = &answer {
            // No effect when the connection itself has failed.
            control.abort(RESET_FORWARD, &error.to_string());
        }
        match answer {
            Ok([VERSION, flags]) => {
                Ok(Self { ipv6: flags & HAS_IPV6 != 0, lanes: flags & HAS_LANES != 0 })
            }
            Ok([version, _]) => Err(Error::Invalid(format!(
                "the server answers in version {version} of the protocol for whole machines, this \
                 program knows {VERSION}: update the older of the two"
            ))),
            Err(error) => Err(match control.error().as_deref() {
                Some(Error::Reset { code: RESET_SERVICE, reason }) => {
                    Error::NoInternet { reason: reason.clone() }
                }
                _ => Error::Socket(error),
            }),
        }
    }

    /// The server's answer.
    pub(super) async fn write(
        to: &mut (impl AsyncWrite + Unpin),
        has_lanes: bool,
    ) -> io::Result<()> {
        let ipv6 = if reaches_ipv6() { HAS_IPV6 } else { 0 };
        let flags = ipv6 | if has_lanes { HAS_LANES } else { 0 };
        to.write_all(&[VERSION, flags]).await?;
        to.shutdown().await
    }
}

/// Whether this machine has a route to the IPv6 internet. Nothing is sent for that.
fn reaches_ipv6() -> bool {
    let any = SocketAddr::from(([0_u16; 8], 0));
    // An address that is assigned to nobody in particular, in the part of all global ones.
    let somewhere = SocketAddr::from(([0x2000, 0, 0, 0, 0, 0, 0, 1], 443));
    std::net::UdpSocket::bind(any).and_then(|socket| socket.connect(somewhere)).is_ok()
}

/// Where a redirected connection was going.
///
/// # Errors
/// When it was not redirected: somebody has connected to our port itself. To go on with that would
/// make it an open proxy.
pub(super) fn original_target(stream: &TcpStream) -> io::Result<SocketAddr> {
    let own = stream.local_addr()?;
    let socket = SockRef::from(stream);
    let found = match own {
        SocketAddr::V4(_) => socket.original_dst_v4(),
        SocketAddr::V6(_) => socket.original_dst_v6(),
    };
    let target = found.ok().and_then(|address| address.as_socket());
    target.filter(|target| *target != own).ok_or_else(|| {
        let message = "it came to the port of the capture itself, which is no proxy";
        io::Error::new(io::ErrorKind::PermissionDenied, message)
    })
}
