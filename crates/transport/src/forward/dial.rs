//! Connecting to a target by name: one of its addresses may be dead, and the others are not made to
//! wait for it (RFC 8305).

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use weftline_core::addresses::STAGGER;

use super::waiting::{Turn, Waiting};
use crate::address::ServerAddr;
use crate::race::{race, was_tried};

/// How long the target may take to accept a connection, all its addresses together.
const TARGET_TIMEOUT: Duration = Duration::from_secs(10);
/// The most lookups of names at a time, of all clients and of one.
const MOST_LOOKUPS: usize = 128;
const MOST_LOOKUPS_OF_ONE: usize = 32;
/// The most addresses tried.
const MAX_ADDRESSES: usize = 16;

/// A connection to the first address of the target that answers.
///
/// # Errors
/// When the name is unknown, or no address answers: what the first of them had to say.
pub(super) async fn connect(
    target: &ServerAddr,
    client: &str,
    lookups: &Arc<Waiting>,
) -> io::Result<TcpStream> {
    let connecting = async {
        let found = match target.address() {
            Some(address) => vec![address],
            None => look_up(target.to_string(), lookups.wait(client).await).await?,
        };
        first_of(by_turns(found.into_iter())).await
    };
    let connected = tokio::time::timeout(TARGET_TIMEOUT, connecting).await;
    connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The lookups of names under way: each has a thread to itself, of which there are some hundred, and has it
/// until the resolver has answered, whether anybody still waits for that or not.
pub(super) fn lookups() -> Arc<Waiting> {
    Waiting::new(MOST_LOOKUPS, MOST_LOOKUPS_OF_ONE)
}

async fn look_up(target: String, turn: Turn) -> io::Result<Vec<SocketAddr>> {
    let looked_up = spawn_blocking(move || {
        let _turn = turn;
        target.to_socket_addrs().map(Vec::from_iter)
    });
    looked_up.await.map_err(io::Error::other).flatten()
}

/// A connection to one address.
///
/// # Errors
/// When it does not answer.
pub(super) async fn connect_to(target: SocketAddr) -> io::Result<TcpStream> {
    let connected = tokio::time::timeout(TARGET_TIMEOUT, TcpStream::connect(target)).await;
    connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Whether a failure to connect is the doing of the target or of the way there, or forbidden. Others are
/// wants of this machine, such as of files, memory or ports, which say nothing of the target.
pub(super) fn is_of_target(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, NetworkUnreachable, PermissionDenied, TimedOut,
    };
    matches!(
        error.kind(),
        ConnectionRefused | HostUnreachable | NetworkUnreachable | TimedOut | PermissionDenied
    )
}

/// The addresses in the resolver's order, its families by turns (RFC 8305 §4).
fn by_turns(found: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut found = found.peekable();
    let first_is_v4 = found.peek().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) =
        found.partition(|address| address.is_ipv4() == first_is_v4);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut turns = Vec::new();
    while turns.len() < MAX_ADDRESSES {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            break;
        }
        turns.extend(pair.into_iter().flatten());
    }
    turns
}

async fn first_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let none = || Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    race(addresses, STAGGER, TcpStream::connect, |error| was_tried(error.kind()))
        .await
        .unwrap_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address that never answers: its queue of connections is full, and the kernel drops the
    /// next ones' first packet.
    fn dead() -> (socket2::Socket, Vec<std::net::TcpStream>, SocketAddr) {
        use socket2::{Domain, Socket, Type};
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let connect =
            || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
        let filling = std::iter::from_fn(connect).collect();
        (listener, filling, address)
    }

    /// An address that refuses: nobody listens, and nobody else can get its port.
    fn refusing() -> (socket2::Socket, SocketAddr) {
        let held =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        held.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        let address = held.local_addr().unwrap().as_socket().unwrap();
        (held, address)
    }

    #[tokio::test]
    async fn a_dead_address_does_not_keep_from_the_others() {
        let (_listener, _filling, dead) = dead();
        let (_held, refusing) = refusing();
        let live = std::net::TcpListener::bind("[::1]:0").unwrap();
        let live = live.local_addr().map(|address| (live, address)).unwrap();
        let stream = first_of(vec![dead, refusing, live.1]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), live.1);
    }

    #[tokio::test]
    async fn when_none_answers_the_first_reason_is_told() {
        let (_held, refusing) = refusing();
        let error = first_of(vec![refusing, refusing]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(first_of(Vec::new()).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn wants_of_this_machine_are_not_the_target_s_doing() {
        use rustix::io::Errno;
        let of_target = |code: Errno| is_of_target(&io::Error::from(code));
        for code in [
            Errno::CONNREFUSED,
            Errno::HOSTUNREACH,
            Errno::NETUNREACH,
            Errno::TIMEDOUT,
            Errno::ACCESS,
        ] {
            assert!(of_target(code), "{code:?}");
        }
        for code in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::NOBUFS,
            Errno::ADDRNOTAVAIL,
            Errno::NETDOWN,
            Errno::AFNOSUPPORT,
        ] {
            assert!(!of_target(code), "{code:?}");
        }
        assert!(is_of_target(&io::ErrorKind::TimedOut.into()), "our own patience, too");
    }

    #[test]
    fn families_take_turns() {
        let list = |text: &str| -> Vec<SocketAddr> {
            text.split(' ').map(|one| format!("{one}:1").parse().unwrap()).collect()
        };
        let found = list("[::1] [::2] [::3] 127.0.0.1 127.0.0.2");
        let turns = list("[::1] 127.0.0.1 [::2] 127.0.0.2 [::3]");
        assert_eq!(by_turns(found.into_iter()), turns);
    }
}
