//! Copying between a connection and a local TCP connection, both ways, so that each end sees of
//! the other what it would see without us: the bytes, the half-closes and the resets.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::{BufMut as _, Bytes};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use weftline_core::session::RESET_FORWARD;

use super::SHUTTING_DOWN;
use crate::cipher::{advance, fill_slices};
use crate::connection::{Connection, ReadHalf, WriteHalf};
use crate::control::Control;
use crate::error::Error;

/// Bytes taken from the multipath connection for one write to the local one.
const READ_AT_ONCE: usize = 256 << 10;
/// Pieces of memory in one write: what was taken, and a piece at each end of it.
const SLICES: usize = 6;

/// How long what one side said before it failed may take to the other, which is then reset.
const LAST_TIME: Duration = Duration::from_secs(2);
/// How often it is looked at then whether it is there: at first, and later.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
const LOOK_SELDOM: Duration = Duration::from_millis(200);
/// After what time without a word the local end is asked whether it is there, how often then, and how
/// many questions it may leave unanswered: a quarter of an hour, as it may sleep. Firewalls forget
/// connections that say nothing for four minutes or more.
const KEEPALIVE_TIME: Duration = Duration::from_secs(120);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_RETRIES: u32 = 26;

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
    keep_alive(&local)?;
    let mut stopped = std::pin::pin!(stopped);
    let control = connection.control();
    let (mut from_peer, mut to_peer) = connection.into_split();
    let (mut from_local, mut to_local) = local.into_split();
    // What has been taken from the peer and not yet given on.
    let mut received = VecDeque::new();
    let both = async {
        let both = {
            let sending = std::pin::pin!(send(&mut from_local, &mut to_peer));
            let receiving = std::pin::pin!(receive(&mut from_peer, &mut received, &mut to_local));
            both_ways(sending, receiving, &control).await
        };
        if both.is_err() {
            let last = async {
                match control.error() {
                    // What had come before the end is read before it.
                    Some(_) => {
                        let _ = receive(&mut from_peer, &mut received, &mut to_local).await;
                    }
                    None => give_rest(&from_local, &mut to_peer, &control).await,
                }
            };
            let _ = tokio::time::timeout(LAST_TIME, last).await;
        }
        both
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
        if let Some(error) = control.error() {
            failed(&error).await;
        }
        if let Ok(local) = from_local.reunite(to_local) {
            // Closing with lingering time zero resets.
            let _ = local.set_zero_linger();
        }
        // The slowest subflow's end is not waited for before that.
        let _ = control.closed().await;
    }
    result
}

/// Has the kernel ask whether the local end is there while nothing moves. Nobody else does: its own
/// questions to the other end are answered here.
fn keep_alive(local: &TcpStream) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_TIME)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_RETRIES);
    SockRef::from(local).set_tcp_keepalive(&keepalive)
}

/// Sends what the local side had said before it failed, and waits until the peer has that: the reset
/// that follows would overtake it. Not its end, which would make half an answer look like a whole one.
async fn give_rest(from: &OwnedReadHalf, to: &mut WriteHalf, control: &Control) {
    // A socket that has failed is readable.
    while from.readable().await.is_ok()
        && let Ok((mut memory, room)) = to.reserve().await
    {
        let read = from.try_read_buf(&mut (&mut memory).limit(room));
        let waits = matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        if to.commit(memory).is_err() || !(waits || matches!(read, Ok(1..))) {
            break;
        }
    }
    let mut wait = LOOK_AGAIN;
    while control.shared.send_held() > 0 && control.error().is_none() {
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LOOK_SELDOM);
    }
}

/// Goes on in both directions until both are finished, or one fails.
async fn both_ways<F: Future<Output = io::Result<u64>>>(
    mut sending: Pin<&mut F>,
    mut receiving: Pin<&mut impl Future<Output = io::Result<u64>>>,
    control: &Control,
) -> io::Result<(u64, u64)> {
    let (mut sent, mut received) = (None, None);
    loop {
        tokio::select! {
            biased;
            done = &mut sending, if sent.is_none() => sent = Some(done?),
            done = &mut receiving, if received.is_none() => received = Some(done?),
            // What came before that is given on first, however slowly it is taken. A local side that says
            // nothing would never find out.
            () = control.shared.ended(), if received.is_some() => {
                return Err(control.error().map_or(io::ErrorKind::BrokenPipe.into(), io::Error::other));
            }
        }
        if let (Some(sent), Some(received)) = (sent, received) {
            return Ok((sent, received));
        }
    }
}

async fn send(from: &mut OwnedReadHalf, to: &mut WriteHalf) -> io::Result<u64> {
    let mut total = 0;
    loop {
        from.readable().await?;
        let (mut memory, room) = tokio::select! {
            biased;
            reserved = to.reserve() => reserved?,
            lost = lost(from.as_ref()) => return Err(lost),
        };
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

/// Reads what the peer says, as long as the local side is there: one that has said all it had to is heard no
/// more, and may be reset, or found to be gone, while the peer says nothing.
async fn read_while_there(
    from: &mut ReadHalf,
    received: &mut VecDeque<Bytes>,
    local: &OwnedWriteHalf,
) -> io::Result<usize> {
    tokio::select! {
        biased;
        read = from.read_bytes(READ_AT_ONCE, received) => read,
        lost = lost(local.as_ref()) => Err(lost),
    }
}

/// Waits until the local side has been reset, or is found to be gone.
async fn lost(local: &TcpStream) -> io::Error {
    let reset = || io::ErrorKind::ConnectionReset.into();
    match local.ready(Interest::ERROR).await {
        Ok(_) => local.take_error().unwrap_or_else(Some).unwrap_or_else(reset),
        Err(error) => error,
    }
}

/// Gives on what comes, behind what of it is still here: whoever is stopped in the middle goes on there.
async fn receive(
    from: &mut ReadHalf,
    received: &mut VecDeque<Bytes>,
    to: &mut OwnedWriteHalf,
) -> io::Result<u64> {
    let mut total = 0;
    while !received.is_empty() || read_while_there(from, received, to).await? > 0 {
        while !received.is_empty() {
            to.writable().await?;
            let mut slices = [io::IoSlice::new(&[]); SLICES];
            let filled = fill_slices(received, &mut slices);
            match to.try_write_vectored(&slices[..filled]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    advance(received, n);
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
