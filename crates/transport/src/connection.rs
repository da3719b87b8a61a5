//! The application's end of a connection.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use crate::about::About;
use crate::control::Control;
use crate::coop::CoopBudget;
use crate::error::Error;
use crate::shared::{Shared, WriteError};
use crate::status;

/// Bytes taken from the session at a time for [`AsyncBufRead`].
const BUFFER: usize = 256 << 10;

/// One ordered byte stream in each direction, over all the paths; or messages, if the client was
/// built for them, with [`Connection::into_messages`].
///
/// It reads and writes like a TCP stream: [`AsyncWrite::poll_shutdown`] half-closes, after which
/// the peer reads the end of the stream and may go on sending. Bytes written are on their way
/// without a flush. What can be asked of a connection besides, its [`Control`] has.
///
/// Dropping a connection (both halves of it) whose direction was shut down delivers the rest in
/// the background for up to 30 s, as closing a TCP socket does; the process must live that long,
/// see [`Control::closed`]. Dropping one that was not shut down resets it.
#[derive(Debug)]
pub struct Connection {
    read: ReadHalf,
    write: WriteHalf,
}

/// The reading half of a [`Connection`].
#[derive(Debug)]
pub struct ReadHalf {
    handle: Arc<Handle>,
    buffer: Vec<u8>,
    at: usize,
    coop: CoopBudget,
}

/// The writing half of a [`Connection`].
#[derive(Debug)]
pub struct WriteHalf {
    handle: Arc<Handle>,
    coop: CoopBudget,
}

/// The application's hold on a connection: letting go of it ends the connection.
#[derive(Debug)]
pub(crate) struct Handle(pub(crate) Control);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.shared.abandon();
    }
}

impl Deref for Connection {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.read.handle.0
    }
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>, peer: SocketAddr, client: Option<String>) -> Self {
        let about = Arc::new(About::new(peer, client));
        let handle = Arc::new(Handle(Control { shared, about }));
        let (buffer, coop) = (Vec::new(), CoopBudget::default());
        let read = ReadHalf { handle: Arc::clone(&handle), buffer, at: 0, coop };
        let connection = Self { read, write: WriteHalf { handle, coop: CoopBudget::default() } };
        status::register(&connection.read.handle.0);
        connection
    }

    /// The two halves, for two tasks.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        (self.read, self.write)
    }

    /// The hold on the connection alone.
    pub(crate) fn into_handle(self) -> Arc<Handle> {
        self.write.handle
    }

    /// What outlives a split.
    pub fn control(&self) -> Control {
        Control::clone(self)
    }
}

impl ReadHalf {
    /// Takes out what can be read in order, about `most` bytes of it and at least one, and appends it to `out`:
    /// large parts in the memory they were received in, without copying. Waits until there is
    /// something; returns how many bytes, 0 at the end of the stream.
    ///
    /// # Errors
    /// When the connection has failed.
    pub async fn read_bytes(
        &mut self,
        most: usize,
        out: &mut VecDeque<Bytes>,
    ) -> io::Result<usize> {
        if self.at < self.buffer.len() {
            out.push_back(Bytes::copy_from_slice(&self.buffer[self.at..]));
            self.at = self.buffer.len();
            return Ok(out.back().map_or(0, Bytes::len));
        }
        let Self { handle, coop, .. } = self;
        let read = poll_fn(|cx| {
            ready!(coop.poll(cx));
            handle.0.shared.read_bytes(cx.waker(), most, out).map_or(Poll::Pending, Poll::Ready)
        });
        let read = read.await.map_err(to_io)?;
        coop.count(read);
        Ok(read)
    }
}

impl WriteHalf {
    /// Memory to be filled, with how many bytes of it there is room for.
    pub(crate) async fn reserve(&mut self) -> io::Result<(BytesMut, usize)> {
        let Self { handle, coop } = self;
        let reserved = poll_fn(|cx| {
            ready!(coop.poll(cx));
            handle.0.shared.reserve(cx.waker()).map_or(Poll::Pending, Poll::Ready)
        });
        reserved.await.map_err(write_error)
    }

    /// Writes what the reserved memory was filled with.
    pub(crate) fn commit(&mut self, filled: BytesMut) -> io::Result<usize> {
        self.coop.count(filled.len());
        self.handle.0.shared.commit(filled).map_err(write_error)
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.at < this.buffer.len() {
            let held = &this.buffer[this.at..];
            let n = held.len().min(out.remaining());
            out.put_slice(&held[..n]);
            this.at += n;
            return Poll::Ready(Ok(()));
        }
        if out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        ready!(this.coop.poll(cx));
        let read = this.handle.0.shared.read(cx.waker(), |chunk| {
            let n = chunk.len().min(out.remaining());
            out.put_slice(&chunk[..n]);
            n
        });
        match read {
            None => Poll::Pending,
            Some(Ok(n)) => {
                this.coop.count(n);
                Poll::Ready(Ok(()))
            }
            Some(Err(error)) => Poll::Ready(Err(to_io(error))),
        }
    }
}

impl AsyncBufRead for ReadHalf {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.at == this.buffer.len() {
            ready!(this.coop.poll(cx));
            this.at = 0;
            let buffer = &mut this.buffer;
            buffer.clear();
            let read = this.handle.0.shared.read(cx.waker(), |chunk| {
                let n = chunk.len().min(BUFFER - buffer.len());
                buffer.extend_from_slice(&chunk[..n]);
                n
            });
            match read {
                None => {
                    // One that waits for long needs none.
                    this.buffer = Vec::new();
                    return Poll::Pending;
                }
                Some(Ok(n)) => this.coop.count(n),
                Some(Err(error)) => return Poll::Ready(Err(to_io(error))),
            }
        }
        Poll::Ready(Ok(&this.buffer[this.at..]))
    }

    fn consume(self: Pin<&mut Self>, n: usize) {
        let this = self.get_mut();
        // As std's and tokio's own readers: more than there was is all.
        this.at = this.buffer.len().min(this.at + n);
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.coop.poll(cx));
        match this.handle.0.shared.write(cx.waker(), data) {
            None => Poll::Pending,
            Some(Ok(n)) => {
                this.coop.count(n);
                Poll::Ready(Ok(n))
            }
            Some(Err(error)) => Poll::Ready(Err(write_error(error))),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.handle.0.error().map_or(Ok(()), |error| Err(to_io(error))))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.0.shared.finish();
        Poll::Ready(self.handle.0.error().map_or(Ok(()), |error| Err(to_io(error))))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.read).poll_read(cx, out)
    }
}

impl AsyncBufRead for Connection {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        Pin::new(&mut self.get_mut().read).poll_fill_buf(cx)
    }

    fn consume(mut self: Pin<&mut Self>, n: usize) {
        Pin::new(&mut self.read).consume(n);
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.write).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_shutdown(cx)
    }
}

fn write_error(error: WriteError) -> io::Error {
    match error {
        WriteError::Failed(error) => to_io(error),
        WriteError::Finished => {
            let message = "this direction of the connection is shut down";
            io::Error::new(io::ErrorKind::BrokenPipe, message)
        }
    }
}

/// A connection's failure reaches every call after it.
fn to_io(error: Arc<Error>) -> io::Error {
    io::Error::new(error.io_kind(), error)
}
