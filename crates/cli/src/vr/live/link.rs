//! What carries the messages of a live stream: a connection of weftline's messages, or for
//! comparison one of the kernel's TCP or MPTCP, each message with its length before it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use clap::ValueEnum;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use weftline::{
    Control, Incoming, MessageError, MessageReceiver, MessageSender, Messages, SendError,
    SendOptions,
};

/// Connections of the kernel that may wait to be accepted.
const BACKLOG: i32 = 128;
/// Unsent bytes that the kernel holds for a connection, as many as weftline leaves in each of its own on
/// such links: what the kernel has can no longer be called back.
const NOTSENT: u32 = 16 << 10;
/// How much room is made for reading at a time.
const READ: usize = 256 << 10;

/// What a stream is carried by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Transport {
    /// Messages over all paths, each handed over as soon as it is whole
    #[default]
    Weftline,
    /// One connection of the kernel's MPTCP, in plaintext: for comparison
    Mptcp,
    /// One connection of the kernel's TCP, in plaintext: for comparison
    Tcp,
}

impl Transport {
    /// Its name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Weftline => "weftline",
            Self::Mptcp => "mptcp",
            Self::Tcp => "tcp",
        }
    }

    /// Its protocol in the kernel, if it is the kernel's.
    pub(super) const fn kernel(self) -> Option<Protocol> {
        match self {
            Self::Weftline => None,
            Self::Mptcp => Some(Protocol::MPTCP),
            Self::Tcp => Some(Protocol::TCP),
        }
    }
}

/// Both directions of a stream.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// What weftline knows of its connection.
    pub(super) control: Option<Control>,
}

/// The sending direction.
#[derive(Debug)]
pub(super) enum Sender {
    Messages(MessageSender),
    Stream(StreamSender),
}

/// The receiving direction.
#[derive(Debug)]
pub(super) enum Receiver {
    Messages(MessageReceiver),
    Stream(StreamReceiver),
}

/// What is received.
#[derive(Debug)]
pub(super) enum Received {
    Message(Bytes),
    /// The message of this tag will not come.
    CalledBack(u64),
}

/// Messages over a byte stream.
#[derive(Debug)]
pub(super) struct StreamSender {
    half: OwnedWriteHalf,
    /// How much of the message under way has been written, its length included.
    written: usize,
    /// How much of all messages has been, without their lengths, and when that last grew.
    all: u64,
    at: tokio::time::Instant,
}

/// Messages from a byte stream.
#[derive(Debug)]
pub(super) struct StreamReceiver {
    half: OwnedReadHalf,
    buffer: BytesMut,
    /// The longest message taken.
    longest: usize,
}

impl Link {
    /// Over weftline's messages.
    pub(super) fn messages(messages: Messages) -> Self {
        let (sender, receiver) = messages.into_split();
        let control = Some(sender.control());
        let (sender, receiver) = (Sender::Messages(sender), Receiver::Messages(receiver));
        Self { sender, receiver, control }
    }

    /// Over a connection of the kernel; messages of at most `longest` bytes are taken.
    pub(super) fn stream(stream: TcpStream, longest: usize) -> Self {
        // A kernel that cannot (MPTCP could not before 6.9) only holds more.
        let _ = SockRef::from(&stream).set_tcp_notsent_lowat(NOTSENT);
        let _ = stream.set_nodelay(true);
        let (read, write) = stream.into_split();
        let sender = Sender::Stream(StreamSender {
            half: write,
            written: 0,
            all: 0,
            at: tokio::time::Instant::now(),
        });
        let buffer = BytesMut::new();
        let receiver = Receiver::Stream(StreamReceiver { half: read, buffer, longest });
        Self { sender, receiver, control: None }
    }
}

impl Sender {
    /// Sends a message; `false` if its time was over before it could be. Cancel safe, as long as
    /// the next message is the same one where [`Self::has_begun`] says so.
    pub(super) async fn send(
        &mut self,
        message: &Bytes,
        deadline: Option<Duration>,
        tag: u64,
    ) -> io::Result<bool> {
        match self {
            Self::Messages(sender) => {
                let sent = sender.send(message.clone(), SendOptions { deadline, tag }).await;
                match sent {
                    Ok(_) => Ok(true),
                    Err(MessageError::Refused(SendError::Expired)) => Ok(false),
                    Err(error) => Err(io::Error::other(error)),
                }
            }
            Self::Stream(sender) => sender.send(message).await.map(|()| true),
        }
    }

    /// Whether a part of a message is out, so that the rest must follow.
    pub(super) fn has_begun(&self) -> bool {
        matches!(self, Self::Stream(sender) if sender.written > 0)
    }

    /// Gives messages whose deadline is later than `after` from now so much more time. The kernel knows no
    /// deadlines.
    pub(super) fn put_off(&self, after: Duration, by: Duration) {
        if let Self::Messages(sender) = self {
            sender.put_off(after, by);
        }
    }

    /// Bytes of messages that no path has been given.
    pub(super) fn unsent(&self) -> u64 {
        match self {
            Self::Messages(sender) => sender.unsent().as_u64(),
            Self::Stream(_) => 0,
        }
    }

    /// Bytes of messages that the kernel has taken of a connection of its own; of weftline's, its counters
    /// know more.
    pub(super) fn written(&self) -> u64 {
        match self {
            Self::Messages(_) => 0,
            Self::Stream(sender) => sender.all,
        }
    }

    /// How long ago that was more for the last time.
    pub(super) fn written_ago(&self) -> Duration {
        match self {
            Self::Messages(_) => Duration::ZERO,
            Self::Stream(sender) => sender.at.elapsed(),
        }
    }

    /// Nothing more will be sent.
    pub(super) async fn shutdown(&mut self) {
        match self {
            Self::Messages(sender) => sender.shutdown(),
            // The peer may have gone.
            Self::Stream(sender) => drop(sender.half.shutdown().await),
        }
    }
}

impl StreamSender {
    async fn send(&mut self, message: &Bytes) -> io::Result<()> {
        let head = (message.len() as u32).to_be_bytes();
        while self.written < head.len() + message.len() {
            let rest = match self.written.checked_sub(head.len()) {
                None => &head[self.written..],
                Some(at) => &message[at..],
            };
            match self.half.write(rest).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => {
                    let payload = |written: usize| written.saturating_sub(head.len()) as u64;
                    let before = payload(self.written);
                    self.written += n;
                    self.all = self.all.saturating_add(payload(self.written) - before);
                    self.at = tokio::time::Instant::now();
                }
            }
        }
        self.written = 0;
        Ok(())
    }
}

impl Receiver {
    /// The next message; `None` when the peer sends nothing more. Cancel safe.
    pub(super) async fn recv(&mut self) -> io::Result<Option<Received>> {
        match self {
            Self::Messages(receiver) => {
                let incoming = receiver.recv().await.map_err(io::Error::other)?;
                Ok(incoming.map(|incoming| match incoming {
                    Incoming::Message(message) => Received::Message(message.payload),
                    Incoming::Dropped(dropped) => Received::CalledBack(dropped.tag),
                }))
            }
            Self::Stream(receiver) => Ok(receiver.recv().await?.map(Received::Message)),
        }
    }
}

impl StreamReceiver {
    async fn recv(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            self.buffer.reserve(READ);
            if self.half.read_buf(&mut self.buffer).await? == 0 {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    /// The first message, if it is whole.
    fn take(&mut self) -> io::Result<Option<Bytes>> {
        let Some(head) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_be_bytes(*head) as usize;
        if len == 0 || len > self.longest {
            let longest = self.longest;
            let message = format!(
                "the peer announces a message of {len} bytes, and 1 to {longest} are taken; is \
                 there something else at this address?"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        if self.buffer.len() < head.len() + len {
            return Ok(None);
        }
        self.buffer.advance(4);
        Ok(Some(self.buffer.split_to(len).freeze()))
    }
}

fn kernel_socket(address: SocketAddr, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Connects through the kernel, with the congestion control of this name, if one is given.
pub(super) async fn connect_kernel(
    server: SocketAddr,
    protocol: Protocol,
    congestion: Option<&str>,
) -> io::Result<TcpStream> {
    let socket = kernel_socket(server, protocol)?;
    if let Some(name) = congestion {
        socket.set_tcp_congestion(name.as_bytes())?;
    }
    TcpSocket::from_std_stream(socket.into()).connect(server).await
}

/// Listens through the kernel.
pub(super) fn listen_kernel(address: SocketAddr, protocol: Protocol) -> io::Result<TcpListener> {
    let socket = kernel_socket(address, protocol)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes, however slow the machine is; only what hangs takes so long.
    async fn within<T>(future: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(400), future).await.unwrap()
    }

    async fn pair(longest: usize) -> (TcpStream, Receiver) {
        let address = "127.0.0.1:0".parse().unwrap();
        let listener = listen_kernel(address, Protocol::TCP).unwrap();
        let server = listener.local_addr().unwrap();
        let connect = connect_kernel(server, Protocol::TCP, None);
        let (client, accepted) = within(async { tokio::join!(connect, listener.accept()) }).await;
        (client.unwrap(), Link::stream(accepted.unwrap().0, longest).receiver)
    }

    #[tokio::test]
    async fn messages_keep_their_bounds_over_a_stream() {
        let (client, mut receiver) = pair(1 << 20).await;
        let mut sender = Link::stream(client, 1).sender;
        let sizes = [1_usize, 70_000, 3, 1 << 20];
        let sending = tokio::spawn(async move {
            for size in sizes {
                assert!(sender.send(&vec![size as u8; size].into(), None, 0).await.unwrap());
            }
            sender.shutdown().await;
            sender
        });
        let all = sizes.iter().sum::<usize>() as u64;
        for size in sizes {
            let Some(Received::Message(message)) = within(receiver.recv()).await.unwrap() else {
                panic!("no message of {size} bytes")
            };
            assert!(message == vec![size as u8; size]);
        }
        assert!(within(receiver.recv()).await.unwrap().is_none());
        // What a player says to have received is what was taken: no lengths are among it.
        assert_eq!(within(sending).await.unwrap().written(), all);
    }

    #[tokio::test]
    async fn messages_that_are_too_long_or_cut_are_errors() {
        let (mut client, mut receiver) = pair(1 << 10).await;
        client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        let error = within(receiver.recv()).await.unwrap_err().to_string();
        assert!(error.contains("something else at this address"), "{error}");
        let (mut client, mut receiver) = pair(1 << 10).await;
        client.write_all(&[0, 0, 0, 9, 1]).await.unwrap();
        drop(client);
        assert!(within(receiver.recv()).await.is_err());
    }
}
