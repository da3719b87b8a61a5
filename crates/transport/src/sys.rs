//! What no crate wraps safely: two socket options, and reading into memory that is not filled yet.
#![expect(
    unsafe_code,
    reason = "TCP_INFO and SO_RCVLOWAT have no safe wrapper in socket2 or rustix, and BytesMut cannot \
              know how much of it was filled"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use bytes::BytesMut;

/// Linux's `struct tcp_info` of the socket `fd`.
///
/// Fields that this kernel does not know are zero: the structure is zeroed first, and an older
/// kernel fills only a front part of it.
///
/// # Errors
/// When `fd` is no TCP socket.
pub(crate) fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    // SAFETY: `tcp_info` is a C structure of integers only, for which all zeros is a valid value.
    let mut info = unsafe { std::mem::zeroed::<libc::tcp_info>() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `fd` is open while borrowed; `info` is writable for the `length` bytes announced,
    // and the kernel writes at most that many.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
}

/// Lets the socket count as readable only when it has so many bytes (`SO_RCVLOWAT`), or has ended. What
/// it has already is told of anew.
///
/// # Errors
/// When it is no socket any more.
pub(crate) fn set_receive_low_water(socket: impl AsFd, bytes: i32) -> io::Result<()> {
    // SAFETY: the socket is open while borrowed, and the kernel reads the four bytes of `bytes`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Appends what the socket has to `into`, as much as there is capacity for, without waiting.
///
/// # Errors
/// There is nothing, or the socket has failed.
pub(crate) fn receive(socket: impl AsFd, into: &mut BytesMut) -> io::Result<usize> {
    let (filled, _) = rustix::io::read(socket, into.spare_capacity_mut())?;
    let (read, len) = (filled.len(), into.len());
    // SAFETY: the kernel has filled the first `read` bytes of the spare capacity.
    unsafe { into.set_len(len + read) };
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn a_connected_socket_has_a_window_and_a_udp_socket_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = tcp_info(stream.as_fd()).unwrap();
        assert_eq!(info.tcpi_state, 1, "established");
        assert!(info.tcpi_snd_cwnd > 0 && info.tcpi_snd_mss > 0);
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(tcp_info(udp.as_fd()).is_err());
    }
}
