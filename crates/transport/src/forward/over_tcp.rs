//! Lanes over TCP: datagrams as messages of a connection of their own over all paths, where links let no UDP through
//! (docs/protocol.md, "Over TCP").
//!
//! The datagrams are those of a lane, sealed with its keys. Here they are passed on, between the connection and a
//! socket of datagrams that leads to whoever makes and takes them.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UnixDatagram;
use weftline_core::ByteCount;
use weftline_core::session::{Incoming, RESET_SERVICE, RESET_SHUTDOWN, SendError};

use super::SHUTTING_DOWN;
use super::lanes::{GRANTED, LaneControl, LaneHost, NOBODY, PATIENCE, REFUSED};
use crate::client::Client;
use crate::connection::Connection;
use crate::control::Control;
use crate::error::Error;
use crate::messages::{MessageError, MessageReceiver, MessageSender, Messages, SendOptions};
use crate::refusal::printable;

/// The longest message of such a connection: more than the longest datagram of a lane, which has 1,441 bytes.
/// A server that takes lanes over TCP is built for it ([`ServerBuilder::longest_message`]).
///
/// [`ServerBuilder::longest_message`]: crate::ServerBuilder::longest_message
pub const LONGEST_DATAGRAM: ByteCount = ByteCount::new(2048);

/// What has not left after so long is dropped: who has sent it has done so again, or has no use for it any more.
const LATE: Duration = Duration::from_secs(1);
/// The first message begins with this byte, and says a session and a lane.
const LANE: u8 = 1;
const FIRST: usize = 1 + 4 + 1;

/// A connection for a lane over TCP. It ends when this is dropped.
pub struct LaneOverTcp {
    client: Client,
    of_messages: Client,
    messages: Messages,
}

impl fmt::Debug for LaneOverTcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneOverTcp").finish_non_exhaustive()
    }
}

impl LaneOverTcp {
    /// Connects to the server, over all paths of the client.
    ///
    /// # Errors
    /// When it cannot be reached, or does not accept the client.
    pub async fn connect(client: &Client) -> Result<Self, Error> {
        let of_messages = client.of_messages(LONGEST_DATAGRAM);
        let connection = of_messages.connect_again().await?;
        connection.set_label(LaneControl::LABEL);
        let not_of_messages = |_| Error::Invalid("the server takes no messages".to_owned());
        let messages = connection.into_messages().map_err(not_of_messages)?;
        Ok(Self { client: client.clone(), of_messages, messages })
    }

    /// Has the server open a lane of this number in a session, in the place of one that there was.
    ///
    /// # Errors
    /// When it has no such session, or the connection has failed.
    pub async fn open(&mut self, session: u32, lane: u8) -> Result<(), Error> {
        let opened = open(&mut self.messages, session, lane).await;
        opened.map_err(|error| match self.messages.error().as_deref() {
            Some(Error::Reset { code, reason }) => {
                Error::Reset { code: *code, reason: reason.clone() }
            }
            _ => error,
        })
    }

    /// What can be asked of its connection, such as which paths are up.
    pub fn control(&self) -> Control {
        Control::clone(&self.messages)
    }

    /// Passes datagrams on between the server and a socket that keeps their bounds, until one of them ends that; why,
    /// or `None` if the other end of the socket is closed. Follows the changes of the client's paths meanwhile.
    pub async fn carry(mut self, datagrams: OwnedFd) -> Option<Error> {
        let socket = match socket(datagrams) {
            Ok(socket) => socket,
            Err(error) => return Some(error),
        };
        tokio::select! {
            carried = pass_on(&mut self.messages, socket) => carried.err(),
            never = self.of_messages.follow(&self.client, LONGEST_DATAGRAM) => match never {},
        }
    }
}

/// Asks for the lane.
async fn open(messages: &mut Messages, session: u32, lane: u8) -> Result<(), Error> {
    let mut first = vec![LANE];
    first.extend(session.to_be_bytes());
    first.push(lane);
    let talk = async {
        messages.send(first, SendOptions::default()).await.map_err(failed)?;
        next(messages).await
    };
    let answer = tokio::time::timeout(PATIENCE, talk).await;
    let answer = answer.map_err(|_| Error::Socket(io::ErrorKind::TimedOut.into()))??;
    match answer.as_deref().and_then(<[u8]>::split_first) {
        Some((&GRANTED, [])) => Ok(()),
        Some((&REFUSED, reason)) => {
            Err(Error::Invalid(printable(&String::from_utf8_lossy(reason)).to_string()))
        }
        _ => Err(Error::Socket(io::ErrorKind::InvalidData.into())),
    }
}

/// The server's end, until the connection ends or `stopped` completes.
pub(super) async fn serve_lane(
    connection: Connection,
    host: &dyn LaneHost,
    stopped: impl Future<Output = ()>,
) {
    connection.set_label(LaneControl::LABEL);
    let (peer, control) = (connection.peer_addr(), connection.control());
    let Ok(mut messages) = connection.into_messages() else { return };
    let serve = async {
        match serve_messages(&mut messages, host).await {
            Ok(()) => tracing::debug!("{peer}: a lane over TCP has ended"),
            Err(error) => tracing::debug!("{peer}: a lane over TCP has ended: {error}"),
        }
    };
    tokio::select! {
        () = serve => control.abort(RESET_SERVICE, "the lane is over"),
        () = stopped => control.abort(RESET_SHUTDOWN, SHUTTING_DOWN),
    }
    let _ = control.closed().await;
}

/// Until the client, or whoever makes and takes the datagrams, ends it.
async fn serve_messages(messages: &mut Messages, host: &dyn LaneHost) -> Result<(), Error> {
    let first = next(messages).await?;
    let opened = match first.as_deref() {
        Some(&[LANE, a, b, c, d, lane]) => {
            let session = u32::from_be_bytes([a, b, c, d]);
            let client = messages.client().map(str::to_owned);
            let client = client.ok_or_else(|| NOBODY.to_owned());
            client.and_then(|client| host.open_over_tcp(&client, session, lane))
        }
        Some(_) => Err(format!("a connection of messages begins with {FIRST} bytes for a lane")),
        None => return Ok(()),
    };
    let datagrams = match opened {
        Ok(datagrams) => datagrams,
        Err(reason) => {
            let answer = [&[REFUSED], reason.as_bytes()].concat();
            messages.send(answer, SendOptions::default()).await.map_err(failed)?;
            messages.shutdown();
            // The client leaves when it has read that.
            let _ = tokio::time::timeout(PATIENCE, next(messages)).await;
            return Ok(());
        }
    };
    let socket = socket(datagrams)?;
    messages.send(vec![GRANTED], SendOptions::default()).await.map_err(failed)?;
    pass_on(messages, socket).await
}

fn socket(datagrams: OwnedFd) -> Result<UnixDatagram, Error> {
    UnixDatagram::from_std(datagrams.into()).map_err(Error::Socket)
}

fn failed(error: MessageError) -> Error {
    Error::Socket(io::Error::other(error))
}

/// The next message; `None` when there is none any more.
async fn next(messages: &mut Messages) -> Result<Option<Bytes>, Error> {
    loop {
        match messages.recv().await {
            Ok(Some(Incoming::Message(message))) => return Ok(Some(message.payload)),
            Ok(Some(_)) => {}
            Ok(None) => return Ok(None),
            Err(error) => return Err(Error::Socket(io::Error::other(error))),
        }
    }
}

/// Passes datagrams on, both ways, until one end is over. What one of them has no room for is dropped.
async fn pass_on(messages: &mut Messages, socket: UnixDatagram) -> Result<(), Error> {
    let (sender, receiver) = messages.halves();
    tokio::select! {
        ended = send(sender, &socket) => ended,
        ended = receive(receiver, &socket) => ended,
    }
}

async fn send(sender: &mut MessageSender, socket: &UnixDatagram) -> Result<(), Error> {
    let options = SendOptions { deadline: Some(LATE), ..SendOptions::default() };
    let mut bytes = vec![0; LONGEST_DATAGRAM.as_u64() as usize];
    loop {
        // A datagram is never empty: the other end is closed.
        let length = socket.recv(&mut bytes).await.map_err(Error::Socket)?;
        if length == 0 {
            return Ok(());
        }
        match sender.try_send(Bytes::copy_from_slice(&bytes[..length]), options) {
            // More is under way than there is memory for.
            Ok(_) | Err(MessageError::Refused(SendError::Full)) => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

async fn receive(receiver: &mut MessageReceiver, socket: &UnixDatagram) -> Result<(), Error> {
    loop {
        let payload = match receiver.recv().await {
            Ok(Some(Incoming::Message(message))) => message.payload,
            // Dropped by its sender, as it was late.
            Ok(Some(_)) => continue,
            Ok(None) => return Ok(()),
            Err(error) => return Err(Error::Socket(io::Error::other(error))),
        };
        match socket.try_send(&payload) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                return Err(Error::Socket(error));
            }
            _ => {}
        }
    }
}
