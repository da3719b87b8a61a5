//! What can be found out about a path without a connection of Weftline: whether TCP reaches the server
//! through it, and how large packets may be. For diagnosis: nothing
//! here is used to carry data.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::address::ServerAddr;
use crate::bind::Bind;
use crate::dial::RESOLVE_TIMEOUT;
use crate::error::Error;
use crate::socket::{self, SocketOptions};
use crate::sys;

/// How often the kernel is asked whether the large packets have arrived.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// What fills some packets of full size: the front part of a TLS record and of the handshake message
/// in it, which says that more is to come. A server waits for that, and then sees the connection end.
const FILLING: usize = 8 << 10;
/// A TLS record of a handshake (RFC 8446 §5.1) that is as long as one may be, and in it a client hello
/// (§4) that is longer.
const FILLING_HEAD: [u8; 9] = [0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff];

/// What TCP alone finds on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The address of the server that answered.
    pub server: SocketAddr,
    /// The first round trip.
    pub rtt: Duration,
    /// The largest IP packet that the kernel sends there, in bytes: by the interface, by what routers
    /// have said, and by what the server takes.
    pub packet: u32,
    /// Whether packets of that size arrive. Where routers say nothing of those they drop, a
    /// connection comes up and then stands still.
    pub full_size: bool,
}

/// Connects to `server` from `bind`, sends some packets of full size, and waits up to `patience` for
/// the server's kernel to have them. The server's program sees a handshake that breaks off. `mark` is as that
/// of [`ClientBuilder::mark`](crate::ClientBuilder::mark).
///
/// # Errors
/// When the name has no address, the link is not there, or nothing answers.
pub async fn reach(
    bind: &Bind,
    server: &ServerAddr,
    mark: Option<u32>,
    patience: Duration,
) -> Result<Reach, Error> {
    let addresses = server.resolve(bind, RESOLVE_TIMEOUT).await?;
    let options = SocketOptions { mark, ..SocketOptions::default() };
    let mut stream = socket::connect_any(bind, &addresses, &options).await?;
    let server = stream.peer_addr().map_err(Error::Socket)?;
    let rtt = socket::TcpInfo::of(&stream).map_err(Error::Socket)?.srtt;
    let mut filling = vec![0; FILLING];
    filling[..FILLING_HEAD.len()].copy_from_slice(&FILLING_HEAD);
    // A server that hangs up at once has had the packets, or resets the connection: both are told by
    // what the kernel knows.
    let arrived = async {
        stream.write_all(&filling).await?;
        loop {
            let info = socket::TcpInfo::of(&stream)?;
            if info.unacked_bytes == 0 && info.unsent_bytes == 0 {
                return Ok::<_, io::Error>(());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    let full_size = tokio::time::timeout(patience, arrived).await.is_ok();
    let packet = packet(&stream, server).map_err(Error::Socket)?;
    Ok(Reach { server, rtt, packet, full_size })
}

/// The largest IP packet that the kernel sends to `server`.
fn packet(stream: &TcpStream, server: SocketAddr) -> io::Result<u32> {
    /// The IP header, the one of TCP, and its time stamps (RFC 7323 §3), as Linux has them.
    const TCP: u32 = 20 + 12;
    let ip = if server.is_ipv4() { 20 } else { 40 };
    let info = sys::tcp_info(stream.as_fd())?;
    Ok(info.tcpi_pmtu.min(info.tcpi_snd_mss + ip + TCP))
}

/// Checks that a server can listen on `address`: that it is this machine's, free and permitted.
///
/// # Errors
/// [`Error::PortInUse`], [`Error::UnknownAddress`] and [`Error::Listen`].
pub fn check_listen(address: SocketAddr) -> Result<(), Error> {
    socket::bind_listener(address, false).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn packets_of_full_size_arrive_over_loopback() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let bind = Bind::Address("127.0.0.2".parse().unwrap());
        let reached = reach(&bind, &address.into(), None, Duration::from_secs(400)).await.unwrap();
        assert_eq!((reached.server, reached.full_size), (address, true));
        assert!(reached.packet > 1500, "{reached:?}");
        assert_eq!(bind.link(), crate::links::LinkState::Up);
        assert_eq!(Bind::Interface("lo".to_owned()).link(), crate::links::LinkState::Up);
    }

    #[test]
    fn an_address_is_free_taken_or_somebody_elses() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(matches!(check_listen(address), Err(Error::PortInUse { .. })));
        drop(listener);
        assert!(check_listen(address).is_ok());
        let other = "192.0.2.77:7000".parse().unwrap();
        assert!(matches!(check_listen(other), Err(Error::UnknownAddress { .. })));
    }
}
