//! Copying between a connection and a local TCP connection, both ways, so that each end sees of
//! the other what it would see without us: the bytes, the half-closes and the resets.

use std::collections::VecDeque;
use std::io;

use bytes::BufMut as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use weftline_core::session::RESET_FORWARD;

use super::SHUTTING_DOWN;
use crate::cipher::{advance, fill_slices};
use crate::connection::{Connection, ReadHalf, WriteHalf};
use crate::error::Error;

/// Bytes taken from the multipath connection for one write to the local one.
const READ_AT_ONCE: usize = 256 << 10;
/// Pieces of memory in one write: what was taken, and a piece at each end of it.
const SLICES: usize = 6;

/// What a relayed connection carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relayed {
    /// Bytes from the local TCP connection into the multipath one.
    pub sent: u64,
    /// Bytes from the multipath connection into the local one.
    pub received: u64,
}

/// Relays until both directions are finished, and waits until the peer has everything.
///
/// # Errors
/// When either side fails; the other side has been reset then.
pub async fn relay(connection: Connection, local: TcpStream) -> io::Result<Relayed> {
    relay_or(connection, local, std::future::pending(), |_| std::future::ready(())).await
}

/// As [`relay`], until `stopped`, which has then ended the connection. That alone would not end a
/// relay that waits for the local side: a program that neither reads nor closes. `failed` hears how the
/// connection ended, if it failed; when it is done with that, so does the local side.
pub(super) async fn relay_or<F: Future<Output = ()>>(
    connection: Connection,
    local: TcpStream,
    stopped: impl Future<Output = ()>,
    failed: impl FnOnce(&Error) -> F,
) -> io::Result<Relayed> {
    local.set_nodelay(true)?;
    let mut stopped = std::pin::pin!(stopped);
    let control = connection.control();
    let (mut from_peer, mut to_peer) = connection.into_split();
    let (mut from_local, mut to_local) = local.into_split();
    let both = async {
        tokio::try_join!(
            send(&mut from_local, &mut to_peer),
            receive(&mut from_peer, &mut to_local),
        )
    };
    let both = tokio::select! {
        both = both => both,
        () = &mut stopped => Err(io::Error::new(io::ErrorKind::ConnectionAborted, SHUTTING_DOWN)),
    };
    let result = match both {
        Ok((sent, received)) => {
            tokio::select! {
                _ = control.closed() => {}
                () = stopped => {}
            }
            control.closed().await.map(|()| Relayed { sent, received }).map_err(io::Error::other)
        }
        Err(error) => Err(error),
    };
    if let Err(error) = &result {
        // No effect when the connection itself has failed.
        control.abort(RESET_FORWARD, &error.to_string());
        if let Err(error) = control.closed().await {
            failed(&error).await;
        }
        if let Ok(local) = from_local.reunite(to_local) {
            // Closing with lingering time zero resets.
            let _ = local.set_zero_linger();
        }
    }
    result
}

async fn send(from: &mut OwnedReadHalf, to: &mut WriteHalf) -> io::Result<u64> {
    let mut total = 0;
    loop {
        from.readable().await?;
        let (mut memory, room) = to.reserve().await?;
        let read = from.try_read_buf(&mut (&mut memory).limit(room));
        total += to.commit(memory)? as u64;
        match read {
            Ok(0) => break,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
    }
    to.shutdown().await?;
    Ok(total)
}

async fn receive(from: &mut ReadHalf, to: &mut OwnedWriteHalf) -> io::Result<u64> {
    let mut total = 0;
    let mut received = VecDeque::new();
    while from.read_bytes(READ_AT_ONCE, &mut received).await? > 0 {
        while !received.is_empty() {
            to.writable().await?;
            let mut slices = [io::IoSlice::new(&[]); SLICES];
            let filled = fill_slices(&received, &mut slices);
            match to.try_write_vectored(&slices[..filled]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    advance(&mut received, n);
                    total += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
    to.shutdown().await?;
    Ok(total)
}
