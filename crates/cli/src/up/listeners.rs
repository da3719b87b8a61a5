//! Where captured connections come.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

use crate::failure::Failure;

/// Captured connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Where the kernel redirects connections to, of each family: nobody else can reach that. Those of machines
/// behind shared links come to the address of the link.
pub(super) fn listeners(
    ipv6: bool,
    is_shared: bool,
) -> Result<(TcpListener, Option<TcpListener>), Failure> {
    let [at_v4, at_v6]: [IpAddr; 2] = if is_shared {
        [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
    } else {
        [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
    };
    let v4 = listen(at_v4)
        .map_err(|error| Failure::failed(format!("cannot listen on {at_v4}: {error}")))?;
    let v6 = ipv6.then(|| listen(at_v6)).transpose();
    let v6 = v6.inspect_err(|error| tracing::info!("this machine has no IPv6: {error}"));
    Ok((v4, v6.ok().flatten()))
}

fn listen(at: IpAddr) -> io::Result<TcpListener> {
    let address = SocketAddr::new(at, 0);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if at.is_ipv6() {
        // Loopback may get its address later.
        socket.set_freebind_v6(true)?;
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

pub(super) fn port(listener: &TcpListener) -> Result<u16, Failure> {
    Ok(listener.local_addr()?.port())
}
