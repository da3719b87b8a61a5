//! Where captured connections come.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

use crate::failure::Failure;

/// Captured connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Where the kernel redirects connections to, of each family: nobody else can reach that.
pub(super) fn listeners(ipv6: bool) -> Result<(TcpListener, Option<TcpListener>), Failure> {
    let v4 = listen(Ipv4Addr::LOCALHOST.into())
        .map_err(|error| Failure::failed(format!("cannot listen on 127.0.0.1: {error}")))?;
    let v6 = ipv6.then(|| listen(Ipv6Addr::LOCALHOST.into())).transpose();
    let v6 = v6.inspect_err(|error| tracing::info!("this machine has no IPv6: {error}"));
    Ok((v4, v6.ok().flatten()))
}

fn listen(loopback: IpAddr) -> io::Result<TcpListener> {
    let address = SocketAddr::new(loopback, 0);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if loopback.is_ipv6() {
        // Loopback may get its address later.
        socket.set_freebind_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

pub(super) fn port(listener: &TcpListener) -> Result<u16, Failure> {
    Ok(listener.local_addr()?.port())
}
