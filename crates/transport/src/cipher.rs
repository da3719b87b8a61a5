//! TLS around a subflow in use.
//!
//! rustls is driven directly: reader and writer share it for short calls only, and no more is
//! buffered in it than one batch of frames.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, Write as _};
use std::sync::Mutex;

use bytes::{Buf as _, Bytes, BytesMut};
use rustls::Connection;
use tokio::net::TcpStream;

/// The state of TLS on one subflow, shared by its reader and its writer.
pub(crate) struct Cipher(Mutex<Connection>);

impl Cipher {
    /// Takes over a connection whose handshake is done.
    pub(crate) fn new(mut tls: Connection) -> Self {
        // What is written is fetched at once, in `encrypt`: the bound is the size of the batch.
        tls.set_buffer_limit(None);
        Self(Mutex::new(tls))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Connection> {
        self.0.lock().expect("TLS does not panic")
    }

    /// Decrypts what has come, `received`, and appends it to `out`. An incomplete TLS record stays
    /// inside until the rest comes.
    ///
    /// # Errors
    /// When the bytes are no valid TLS.
    pub(crate) fn decrypt(
        &self,
        received: &mut BytesMut,
        out: &mut BytesMut,
    ) -> io::Result<Received> {
        let mut tls = self.lock();
        // First what was received together with the end of the handshake.
        let mut closed = take_plaintext(&mut tls, out)?;
        while !received.is_empty() && !closed {
            let taken = tls.read_tls(&mut &received[..])?;
            received.advance(taken);
            tls.process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            closed = take_plaintext(&mut tls, out)?;
        }
        Ok(Received { closed, answer_due: tls.wants_write() })
    }

    /// Encrypts `frames`, emptying it. Returns whether there is something to write: that, or what
    /// TLS itself has to say.
    ///
    /// # Errors
    /// When TLS has been closed.
    pub(crate) fn encrypt(&self, frames: &mut VecDeque<Bytes>) -> io::Result<bool> {
        /// Frames handed to rustls at once: it fills its records across them.
        const BATCH: usize = 32;
        let mut tls = self.lock();
        while !frames.is_empty() {
            let mut slices = [io::IoSlice::new(&[]); BATCH];
            let filled = fill_slices(frames, &mut slices);
            let written = tls.writer().write_vectored(&slices[..filled])?;
            advance(frames, written);
        }
        Ok(tls.wants_write())
    }

    /// Writes as much of what is encrypted as `stream` takes now: how many bytes, and whether more
    /// are left.
    ///
    /// The lock is held for the system call, which does not wait; only this subflow's reader ever
    /// wants it, too, and one more copy of everything costs more.
    ///
    /// # Errors
    /// The stream's, [`io::ErrorKind::WouldBlock`] among them.
    pub(crate) fn write_to(&self, stream: &TcpStream) -> io::Result<(usize, bool)> {
        let mut tls = self.lock();
        let written = tls.write_tls(&mut NonBlocking(stream))?;
        Ok((written, tls.wants_write()))
    }

    /// Says that nothing more will be sent; the closing alert is then to be written.
    pub(crate) fn close(&self) {
        self.lock().send_close_notify();
    }
}

/// A socket that is written to without waiting.
struct NonBlocking<'a>(&'a TcpStream);

impl io::Write for NonBlocking<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.try_write(data)
    }

    fn write_vectored(&mut self, data: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What [`Cipher::decrypt`] found besides data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// The peer said that nothing more comes.
    pub(crate) closed: bool,
    /// TLS itself has something to send (such as the answer to a key update).
    pub(crate) answer_due: bool,
}

/// Moves all plaintext that is ready to `out`; whether the peer has closed.
fn take_plaintext(tls: &mut Connection, out: &mut BytesMut) -> io::Result<bool> {
    let mut reader = tls.reader();
    loop {
        let len = match reader.fill_buf() {
            Ok([]) => return Ok(true),
            Ok(chunk) => {
                out.extend_from_slice(chunk);
                chunk.len()
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        reader.consume(len);
    }
}

/// Points `slices` at the front of `frames`; how many were filled.
pub(crate) fn fill_slices<'a>(
    frames: &'a VecDeque<Bytes>,
    slices: &mut [io::IoSlice<'a>],
) -> usize {
    let pairs = slices.iter_mut().zip(frames);
    pairs.map(|(slice, frame)| *slice = io::IoSlice::new(frame)).count()
}

/// Takes `written` bytes off the front of `frames`.
pub(crate) fn advance(frames: &mut VecDeque<Bytes>, mut written: usize) {
    while written > 0 {
        let front = frames.front_mut().expect("no more is written than there was");
        if front.len() > written {
            front.advance(written);
            return;
        }
        written -= front.len();
        frames.pop_front();
    }
}
