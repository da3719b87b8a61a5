//! Copying between a connection and a local TCP connection, both ways, so that each end sees of
//! the other what it would see without us: the bytes, the half-closes and the resets.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use weftline_core::session::RESET_FORWARD;

use crate::connection::{Connection, ReadHalf, WriteHalf};

/// A local read's buffer: small for the many connections that say little, growing to what saves
/// system calls for those that say much.
const BUFFER_MIN: usize = 16 << 10;
const BUFFER_MAX: usize = 256 << 10;

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
    local.set_nodelay(true)?;
    let control = connection.control();
    let (mut from_peer, mut to_peer) = connection.into_split();
    let (mut from_local, mut to_local) = local.into_split();
    let both = tokio::try_join!(
        send(&mut from_local, &mut to_peer),
        receive(&mut from_peer, &mut to_local),
    );
    let result = match both {
        Ok((sent, received)) => {
            control.closed().await.map(|()| Relayed { sent, received }).map_err(io::Error::other)
        }
        Err(error) => Err(error),
    };
    if let Err(error) = &result {
        // No effect when the connection itself has failed.
        control.abort(RESET_FORWARD, &error.to_string());
        let _ = control.closed().await;
        if let Ok(local) = from_local.reunite(to_local) {
            // Closing with lingering time zero resets.
            let _ = local.set_zero_linger();
        }
    }
    result
}

async fn send(from: &mut OwnedReadHalf, to: &mut WriteHalf) -> io::Result<u64> {
    let mut total = 0;
    let mut buffer = vec![0; BUFFER_MIN];
    loop {
        from.readable().await?;
        let n = match from.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..n]).await?;
        total += n as u64;
        if n == buffer.len() && n < BUFFER_MAX {
            buffer.resize(n * 2, 0);
        }
    }
    to.shutdown().await?;
    Ok(total)
}

async fn receive(from: &mut ReadHalf, to: &mut OwnedWriteHalf) -> io::Result<u64> {
    let mut total = 0;
    loop {
        let chunk = from.fill_buf().await?;
        if chunk.is_empty() {
            break;
        }
        let n = chunk.len();
        to.write_all(chunk).await?;
        from.consume(n);
        total += n as u64;
    }
    to.shutdown().await?;
    Ok(total)
}
