//! What the kernel tells of a TCP or MPTCP socket: `TCP_INFO`, `MPTCP_INFO` and the subflows.
#![expect(unsafe_code, reason = "neither std, socket2 nor rustix reads these options")]

use std::io;
use std::mem::offset_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// `SOL_MPTCP` and its options (linux/mptcp.h).
const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;
const MPTCP_TCPINFO: libc::c_int = 2;
const MPTCP_SUBFLOW_ADDRS: libc::c_int = 3;

/// More subflows than the kernel allows (`MPTCP_SUBFLOWS_MAX` is 8).
const SUBFLOWS_MAX: usize = 16;

/// The numbers the lab wants of one TCP connection or MPTCP subflow, at its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpInfo {
    /// Segments sent again, ever.
    pub(crate) retransmitted: u64,
    /// Smoothed round-trip time.
    pub(crate) rtt: Duration,
    /// Congestion window in segments.
    pub(crate) cwnd: u32,
    /// The payload of a segment in bytes.
    pub(crate) mss: u32,
    /// Segments sent and not acknowledged.
    pub(crate) unacknowledged: u32,
    /// Bytes that the peer has acknowledged.
    pub(crate) acknowledged: u64,
    /// The least round-trip time; zero before the first, and from a kernel before Linux 4.6.
    pub(crate) min_rtt: Duration,
}

/// The numbers the lab wants of one MPTCP connection, at its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MptcpInfo {
    /// Bytes the MPTCP level sent a second time, on another subflow or after a timeout.
    pub(crate) bytes_retransmitted: u64,
}

/// Bytes of `struct tcp_info` that are asked for, and where in it there is what the C library does not
/// know of (linux/tcp.h: `tcpi_bytes_acked`, `tcpi_min_rtt`).
const TCP_INFO_BYTES: usize = 256;
const BYTES_ACKED: usize = 120;
const MIN_RTT: usize = 148;

/// `TCP_INFO` of a TCP socket.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut bytes = [0; TCP_INFO_BYTES];
    let length = get_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
    Ok(parse_tcp_info(&bytes[..length]))
}

/// `MPTCP_INFO` of an MPTCP socket; an error if the connection fell back to TCP.
pub(crate) fn mptcp_info(socket: BorrowedFd<'_>) -> io::Result<MptcpInfo> {
    let mut bytes = [0; 128];
    let length = get_option(socket, SOL_MPTCP, MPTCP_INFO, &mut bytes)?;
    // struct mptcp_info: mptcpi_bytes_retrans is a u64 at byte 48 (Linux 6.5; 0 before).
    Ok(MptcpInfo { bytes_retransmitted: field_u64(&bytes[..length], 48) })
}

/// Local address, remote address and `TCP_INFO` of each subflow of an MPTCP socket.
pub(crate) fn mptcp_subflows(
    socket: BorrowedFd<'_>,
) -> io::Result<Vec<(SocketAddr, SocketAddr, TcpInfo)>> {
    const ADDRESSES: usize = 2 * size_of::<libc::sockaddr_storage>();
    let addresses = subflow_array(socket, MPTCP_SUBFLOW_ADDRS, ADDRESSES)?;
    let infos = subflow_array(socket, MPTCP_TCPINFO, TCP_INFO_BYTES)?;
    let infos = infos.iter().map(|info| parse_tcp_info(info));
    let subflow = |(addresses, info): (&[u8], TcpInfo)| {
        let (local, remote) = addresses.split_at(ADDRESSES / 2);
        Some((parse_address(local)?, parse_address(remote)?, info))
    };
    Ok(addresses.iter().map(Vec::as_slice).zip(infos).filter_map(subflow).collect())
}

/// Bytes of a `struct mptcp_subflow_data`.
const SUBFLOW_DATA: usize = 16;

/// Reads an option that gives one element per subflow, of at most `size` bytes.
fn subflow_array(
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    size: usize,
) -> io::Result<Vec<Vec<u8>>> {
    let mut bytes = vec![0; SUBFLOW_DATA + SUBFLOWS_MAX * size];
    bytes[..4].copy_from_slice(&(SUBFLOW_DATA as u32).to_ne_bytes());
    bytes[12..16].copy_from_slice(&(size as u32).to_ne_bytes());
    get_option(socket, SOL_MPTCP, option, &mut bytes)?;
    Ok(elements(&bytes))
}

/// The elements behind a `struct mptcp_subflow_data`, which says how many there are and how long each is:
/// a kernel that is older than our structures has shorter ones.
fn elements(bytes: &[u8]) -> Vec<Vec<u8>> {
    let count = (field_u32(bytes, 4) as usize).min(SUBFLOWS_MAX);
    let size = (field_u32(bytes, 12) as usize).max(1);
    let elements = bytes.get(SUBFLOW_DATA..).unwrap_or_default().chunks_exact(size);
    elements.take(count).map(<[u8]>::to_vec).collect()
}

/// The fields we use of a `struct tcp_info` as long as this kernel fills it.
fn parse_tcp_info(bytes: &[u8]) -> TcpInfo {
    let rtt_us = field_u32(bytes, offset_of!(libc::tcp_info, tcpi_rtt));
    let retransmitted = field_u32(bytes, offset_of!(libc::tcp_info, tcpi_total_retrans));
    let cwnd = field_u32(bytes, offset_of!(libc::tcp_info, tcpi_snd_cwnd));
    let mss = field_u32(bytes, offset_of!(libc::tcp_info, tcpi_snd_mss));
    TcpInfo {
        retransmitted: retransmitted.into(),
        rtt: Duration::from_micros(rtt_us.into()),
        cwnd,
        mss,
        unacknowledged: field_u32(bytes, offset_of!(libc::tcp_info, tcpi_unacked)),
        acknowledged: field_u64(bytes, BYTES_ACKED),
        min_rtt: Duration::from_micros(field_u32(bytes, MIN_RTT).into()),
    }
}

/// The `sockaddr_in` or `sockaddr_in6` at the start of `bytes`; IPv4-mapped addresses as IPv4.
fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip = match family {
        libc::AF_INET => IpAddr::V4(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?.into()),
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?);
            ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), |v4: Ipv4Addr| IpAddr::V4(v4))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// A native integer at `offset`; zero where an older kernel's answer is shorter.
fn field_u32(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..offset + 4).map_or(0, |b| u32::from_ne_bytes(b.try_into().expect("4 bytes")))
}

fn field_u64(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..offset + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().expect("8 bytes")))
}

/// `getsockopt` into `bytes`; how many of them the kernel filled.
fn get_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    bytes: &mut [u8],
) -> io::Result<usize> {
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `bytes`, and the new length to `length`;
    // any bytes are valid in both.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((length as usize).min(bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kernel answers that was asked for elements of more bytes than it has.
    #[test]
    fn elements_are_as_long_as_the_kernel_says() {
        let header = |count: u32, size: u32| {
            [SUBFLOW_DATA as u32, count, size, size].map(u32::to_ne_bytes).concat()
        };
        let mut bytes = header(2, 6);
        bytes.extend(b"first second and what was never written");
        assert_eq!(elements(&bytes), [b"first ".to_vec(), b"second".to_vec()]);
        assert_eq!(elements(&header(2, 0)), Vec::<Vec<u8>>::new());
        assert_eq!(elements(&header(u32::MAX, u32::MAX)), Vec::<Vec<u8>>::new());
        assert_eq!(elements(&[]), Vec::<Vec<u8>>::new());
    }
}
