//! What both ends agree on before they speak over lanes (docs/protocol.md, "Lanes"): keys and addresses,
//! over a connection of their own that is authenticated as any other, and lives as long as the lanes do.
//!
//! The secret is made of fresh random bytes of both ends. It is not exported from TLS: the connection's
//! bytes go over several TLS channels, of which none lives as long as it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use ring::hmac;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use weftline_core::PathId;
use weftline_core::limiter::PathLimiter;
use weftline_core::session::{RESET_FORWARD, RESET_SERVICE, RESET_SHUTDOWN};

use super::{Opening, SHUTTING_DOWN};
use crate::client::Client;
use crate::connection::Connection;
use crate::control::Control;
use crate::error::Error;
use crate::random::random;
use crate::refusal::printable;

/// How long a client that was refused has to leave.
const LEAVING: Duration = Duration::from_secs(10);
/// After each message of a client nothing more is read for so long: links change now and then, and each
/// change costs all clients a little.
const MESSAGE_PAUSE: Duration = Duration::from_millis(50);

/// The version of what is agreed on.
const VERSION: u8 = 2;
/// Bytes of each end's part of the secret, and of the secret.
const SECRET: usize = 32;
/// The first byte of an answer.
pub(super) const GRANTED: u8 = 0;
pub(super) const REFUSED: u8 = 1;
/// The flags of a server that forwards IPv6, of one that takes in which lanes and paths are one link, and of one that
/// carries lanes over TCP.
const HAS_IPV6: u8 = 1;
const TAKES_PATHS: u8 = 2;
const TAKES_TCP: u8 = 4;
/// Why a client without a name has no lanes.
pub(super) const NOBODY: &str = "the server lets in everybody, and knows no client by name";
/// What begins with this byte says that: no device has such an address. The most lanes it may name.
const PATHS: u8 = 255;
const MOST_PATHS: usize = 32;
/// Bytes of a lane and its path.
const PATH: usize = 1 + 8;
/// How long the server may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What a server has granted for lanes. It has no `Debug`, as it holds a secret.
#[derive(Clone)]
pub struct LaneGrant {
    /// The session's number in each datagram.
    pub session: u32,
    /// The secret of which keys are made.
    pub secret: [u8; SECRET],
    /// The client's number at this server, which stays the same, and by which its device has addresses.
    pub client: u16,
    /// Whether the server forwards IPv6.
    pub ipv6: bool,
}

/// The client's end of what is agreed on. The session ends when this is dropped.
#[derive(Debug)]
pub struct LaneControl {
    connection: Connection,
    flags: u8,
}

impl LaneControl {
    /// The label of its connection, which is no program's.
    pub const LABEL: &'static str = "lanes for UDP";

    /// Agrees with the server over a connection of its own.
    ///
    /// # Errors
    /// When it cannot be reached, does not accept the client, or does not grant it.
    pub async fn open(client: &Client) -> Result<(Self, LaneGrant), Error> {
        let mut connection = client.connect_again().await?;
        connection.set_label(Self::LABEL);
        let ours = random::<SECRET>()?;
        let talk = async {
            Opening::Lanes.write(&mut connection).await?;
            connection.write_all(&[&[VERSION][..], &ours].concat()).await?;
            read_grant(&mut connection, &ours).await
        };
        let granted = within(talk).await;
        match granted {
            Ok((grant, flags)) => Ok((Self { connection, flags }, grant)),
            Err(error) => Err(failed(&connection, error)),
        }
    }

    /// Says which addresses the device has now.
    ///
    /// # Errors
    /// When the server does not take them, or the connection has failed.
    pub async fn set_addresses(&mut self, v4: Ipv4Addr, v6: Ipv6Addr) -> Result<(), Error> {
        let connection = &mut self.connection;
        let talk = async {
            connection.write_all(&[&v4.octets()[..], &v6.octets()].concat()).await?;
            read_verdict(connection).await
        };
        let answer = within(talk).await;
        answer.map_err(|error| failed(&self.connection, error))
    }

    /// Says which paths the lanes of these numbers share their links with, so that TCP there makes way for
    /// calls. Of more than 32 the first ones are taken. An older server is told nothing.
    ///
    /// # Errors
    /// When the connection has failed.
    pub async fn set_paths(&mut self, paths: &[(u8, PathId)]) -> Result<(), Error> {
        if self.flags & TAKES_PATHS == 0 {
            return Ok(());
        }
        let paths = &paths[..paths.len().min(MOST_PATHS)];
        let mut message = vec![PATHS, u8::try_from(paths.len()).expect("cut above")];
        for (lane, path) in paths {
            message.push(*lane);
            message.extend(path.0.to_be_bytes());
        }
        let connection = &mut self.connection;
        let talk = async {
            connection.write_all(&message).await?;
            read_verdict(connection).await
        };
        let answer = within(talk).await;
        answer.map_err(|error| failed(&self.connection, error))
    }

    /// Whether the server carries lanes over TCP, too.
    pub const fn takes_tcp(&self) -> bool {
        self.flags & TAKES_TCP != 0
    }

    /// What can be asked of its connection, such as which paths are up.
    pub fn control(&self) -> Control {
        self.connection.control()
    }

    /// Waits until the session is over; why.
    pub async fn closed(&mut self) -> Error {
        // The server says nothing unasked.
        let over = self.connection.read_u8().await.err();
        let over = over.unwrap_or_else(|| io::ErrorKind::InvalidData.into());
        failed(&self.connection, over)
    }
}

async fn within<T>(talk: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let answer = tokio::time::timeout(PATIENCE, talk).await;
    answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// What a failure of the talk means.
fn failed(connection: &Connection, error: io::Error) -> Error {
    let control = connection.control();
    // No effect when the connection itself has failed.
    control.abort(RESET_FORWARD, &error.to_string());
    match control.error().as_deref() {
        Some(Error::Reset { code, reason }) if *code != RESET_FORWARD => {
            Error::Reset { code: *code, reason: reason.clone() }
        }
        _ if error.kind() == io::ErrorKind::PermissionDenied => Error::Invalid(error.to_string()),
        _ => Error::Socket(error),
    }
}

async fn read_verdict(from: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    if from.read_u8().await? == GRANTED {
        return Ok(());
    }
    let mut reason = vec![0; usize::from(from.read_u8().await?)];
    from.read_exact(&mut reason).await?;
    let reason = printable(&String::from_utf8_lossy(&reason)).to_string();
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// What is granted, and the server's flags.
async fn read_grant(
    from: &mut (impl AsyncRead + Unpin),
    ours: &[u8; SECRET],
) -> io::Result<(LaneGrant, u8)> {
    let version = from.read_u8().await?;
    if version != VERSION {
        let message = format!(
            "the server speaks version {version} of the protocol of lanes, this program {VERSION}: \
             update the older of the two"
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    read_verdict(from).await?;
    let mut theirs = [0; SECRET];
    from.read_exact(&mut theirs).await?;
    let (session, client) = (from.read_u32().await?, from.read_u16().await?);
    let flags = from.read_u8().await?;
    let (secret, ipv6) = (secret_of(ours, &theirs), flags & HAS_IPV6 != 0);
    Ok((LaneGrant { session, secret, client, ipv6 }, flags))
}

/// The secret, of which neither end alone has chosen anything.
fn secret_of(of_client: &[u8; SECRET], of_server: &[u8; SECRET]) -> [u8; SECRET] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, of_client);
    let mut secret = [0; SECRET];
    secret.copy_from_slice(hmac::sign(&key, of_server).as_ref());
    secret
}

/// What a server does for clients that speak over lanes.
pub trait LaneHost: Send + Sync {
    /// Begins a session of a client, with this number, which no other session has, and this secret. The
    /// client's number, by which its device has addresses.
    ///
    /// # Errors
    /// Why it may not have one, as a sentence's end.
    fn open(&self, client: &str, session: u32, secret: [u8; SECRET]) -> Result<u16, String>;

    /// The client's device has these addresses.
    ///
    /// # Errors
    /// Why it may not have them, as a sentence's end.
    fn set_addresses(&self, session: u32, addresses: [IpAddr; 2]) -> Result<(), String>;

    /// Takes, for each lane, the limiter of the path that shares its link: what the client's
    /// connections send over that path goes through it. Lanes that are not named have none.
    fn set_limiters(&self, session: u32, limiters: Vec<(u8, PathLimiter)>) {
        let _ = (session, limiters);
    }

    /// Opens a lane over TCP in a session of a client: a socket of datagrams that leads there, as long as it is open,
    /// and keeps their bounds. One that there was before is closed.
    ///
    /// # Errors
    /// Why there is none, as a sentence's end.
    fn open_over_tcp(&self, client: &str, session: u32, lane: u8) -> Result<OwnedFd, String> {
        let _ = (client, session, lane);
        Err("the server carries UDP by UDP only".to_owned())
    }

    /// Ends a session.
    fn close(&self, session: u32);

    /// Whether IPv6 is forwarded.
    fn has_ipv6(&self) -> bool;

    /// Who answers questions to DNS by TCP that are for where a client may not go. (Those by UDP come over
    /// lanes.) Without any they are refused.
    fn resolvers(&self) -> Vec<SocketAddr> {
        Vec::new()
    }
}

/// Ends a session when it is dropped.
struct Session<'a> {
    host: &'a dyn LaneHost,
    number: u32,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.host.close(self.number);
    }
}

/// The server's end, until the connection ends or `stopped` completes.
pub(super) async fn serve_lanes(
    mut connection: Connection,
    host: &dyn LaneHost,
    stopped: impl Future<Output = ()>,
) {
    connection.set_label(LaneControl::LABEL);
    let peer = connection.peer_addr();
    let talk = async {
        let result = talk(&mut connection, host).await;
        if let Err(error) = result {
            tracing::debug!("{peer}: lanes have ended: {error}");
        }
    };
    tokio::select! {
        () = talk => connection.abort(RESET_SERVICE, "lanes are over"),
        () = stopped => connection.abort(RESET_SHUTDOWN, SHUTTING_DOWN),
    }
    let _ = connection.closed().await;
}

async fn talk(connection: &mut Connection, host: &dyn LaneHost) -> io::Result<()> {
    let version = connection.read_u8().await?;
    let mut of_client = [0; SECRET];
    connection.read_exact(&mut of_client).await?;
    connection.write_u8(VERSION).await?;
    if version != VERSION {
        return Ok(());
    }
    let client = connection.client().map(str::to_owned);
    let Some(client) = client else {
        return refuse(connection, NOBODY).await;
    };
    let of_server: [u8; SECRET] = random().map_err(io::Error::other)?;
    let number = u32::from_be_bytes(random().map_err(io::Error::other)?);
    let granted = host.open(&client, number, secret_of(&of_client, &of_server));
    let place = match granted {
        Ok(place) => place,
        Err(reason) => return refuse(connection, &reason).await,
    };
    let session = Session { host, number };
    let flags = TAKES_PATHS | TAKES_TCP | if host.has_ipv6() { HAS_IPV6 } else { 0 };
    let mut answer = vec![GRANTED];
    answer.extend(of_server);
    answer.extend(number.to_be_bytes());
    answer.extend(place.to_be_bytes());
    answer.push(flags);
    connection.write_all(&answer).await?;
    loop {
        let first = connection.read_u8().await?;
        if first == PATHS {
            session.host.set_limiters(number, read_limiters(connection).await?);
            connection.write_u8(GRANTED).await?;
            tokio::time::sleep(MESSAGE_PAUSE).await;
            continue;
        }
        let mut bytes = [first; 20];
        connection.read_exact(&mut bytes[1..]).await?;
        let (v4, v6) = bytes.split_first_chunk::<4>().expect("20 bytes");
        let v6: [u8; 16] = v6.try_into().expect("the other 16");
        let addresses = [IpAddr::from(*v4), IpAddr::from(v6)];
        match session.host.set_addresses(number, addresses) {
            Ok(()) => {
                connection.write_u8(GRANTED).await?;
                tokio::time::sleep(MESSAGE_PAUSE).await;
            }
            Err(reason) => refuse(connection, &reason).await?,
        }
    }
}

/// Lanes, and the limiters of the paths that they share their links with.
async fn read_limiters(connection: &mut Connection) -> io::Result<Vec<(u8, PathLimiter)>> {
    let count = usize::from(connection.read_u8().await?);
    if count > MOST_PATHS {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; count * PATH];
    connection.read_exact(&mut bytes).await?;
    let control = connection.control();
    let limiters = bytes.chunks_exact(PATH).filter_map(|one| {
        let (lane, path) = one.split_first()?;
        let path = u64::from_be_bytes(path.try_into().ok()?);
        Some((*lane, control.limiter(PathId(path))?))
    });
    Ok(limiters.collect())
}

async fn refuse(connection: &mut Connection, reason: &str) -> io::Result<()> {
    let reason = reason.as_bytes();
    let reason = &reason[..reason.len().min(u8::MAX.into())];
    let length = u8::try_from(reason.len()).expect("cut above");
    connection.write_all(&[&[REFUSED, length], reason].concat()).await?;
    connection.shutdown().await?;
    // The client leaves when it has read that; ended before, the connection would take it along.
    let _ = tokio::time::timeout(LEAVING, connection.read_u8()).await;
    Ok(())
}
