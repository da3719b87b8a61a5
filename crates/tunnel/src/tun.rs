//! The TUN device at either end: where IP packets come from the kernel and go back to it.
//!
//! The kernel leaves segmentation and checksums to us (and takes segments that we join), so that a
//! system call moves up to 64 KiB.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use tun_rs::{DeviceBuilder, GROTable, SyncDevice, VIRTIO_NET_HDR_LEN, VirtioNetHdr};

use crate::TunnelError;

/// An address and the length of its prefix, such as 10.9.0.1/24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address.
    pub address: IpAddr,
    /// Bits of it that are the network's.
    pub length: u8,
}

/// A text that is no address with a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no address with a prefix; write one such as 10.9.0.1/24 or fd09::1/64")]
pub struct ParsePrefixError(String);

impl Prefix {
    /// The network: its first address and its length.
    pub(crate) fn network(&self) -> (IpAddr, u8) {
        let first = |own: u128, bits: u32| {
            let host = bits.saturating_sub(self.length.into());
            own.checked_shr(host).and_then(|own| own.checked_shl(host)).unwrap_or(0)
        };
        let address = match self.address {
            IpAddr::V4(own) => {
                IpAddr::from((first(u32::from(own).into(), 32) as u32).to_be_bytes())
            }
            IpAddr::V6(own) => IpAddr::from(first(own.into(), 128).to_be_bytes()),
        };
        (address, self.length)
    }

    /// Why no host can have this address, if so.
    fn unfit(&self) -> Option<&'static str> {
        let address = self.address;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let has_hosts = bits - self.length > 1;
        let last = IpAddr::from(match address {
            IpAddr::V4(own) => (u32::from(own)
                | u32::MAX.checked_shr(self.length.into()).unwrap_or(0))
            .to_be_bytes(),
            IpAddr::V6(_) => [0; 4],
        });
        match () {
            () if address.is_loopback() => Some("a loopback address"),
            () if address.is_multicast() => Some("a multicast address"),
            () if address.is_unspecified() => Some("no address of a host"),
            () if has_hosts && address == self.network().0 => Some("the network's own"),
            () if has_hosts && address == last => Some("the network's broadcast address"),
            () => None,
        }
    }

    /// Whether an address is of this network.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let same = |own: u128, other: u128, bits: u32| {
            let host = bits.saturating_sub(self.length.into());
            (own ^ other).checked_shr(host).unwrap_or(0) == 0
        };
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                same(u32::from(own).into(), u32::from(other).into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => same(own.into(), other.into(), 128),
            _ => false,
        }
    }
}

impl std::str::FromStr for Prefix {
    type Err = ParsePrefixError;

    fn from_str(text: &str) -> Result<Self, ParsePrefixError> {
        let wrong = || ParsePrefixError(text.to_owned());
        let (address, length) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let length = length.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if length > most { Err(wrong()) } else { Ok(Self { address, length }) }
    }
}

/// What the device is to be.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// The interface's name.
    pub name: String,
    /// Its addresses; others, and routes, can be given from outside while it is there.
    pub addresses: Vec<Prefix>,
}

/// The longest interface name (`IFNAMSIZ` less the terminating zero).
const NAME_MAX: usize = 15;

/// Packets that are read or written in one go. One read gives up to 64 KiB: 48 of 1368 bytes, or
/// many more small ones. Some kernels take no more than 64 datagrams of UDP in one write.
const BATCH: usize = 64;

/// The most packets one read gives: 64 KiB in segments of the least MSS (`tcp_min_snd_mss`, 48) less the
/// timestamps.
const SEGMENTS: usize = (64 << 10) / 36 + 1;
/// Room for the longest packet of a device.
const SEGMENT_BYTES: usize = 9216;
/// Room for a segment of a packet of 64 KiB that is cut in more than 256.
const SMALL_BYTES: usize = 512;
/// The longest headers of IP and TCP.
const HEADERS: usize = 60 + 60;

/// Room for the segment of this number: those of a read that gives more than 256 are short.
fn room_of(number: usize) -> usize {
    const LARGE: usize = 256;
    const { assert!((64 << 10) / LARGE + HEADERS <= SMALL_BYTES) }
    if number < LARGE { SEGMENT_BYTES } else { SMALL_BYTES }
}

/// Packets (or super-packets) that the kernel keeps for us to read.
const QUEUE: u32 = 1000;

fn check_addresses(addresses: &[Prefix]) -> Result<(), TunnelError> {
    let Some((prefix, why)) = addresses.iter().find_map(|one| Some((one, one.unfit()?))) else {
        return Ok(());
    };
    let Prefix { address, length } = prefix;
    Err(TunnelError::Usage(format!(
        "--address {address}/{length}: that is {why}; give that of one host, such as 10.9.0.1/24"
    )))
}

/// A TUN device. It vanishes when this is dropped.
pub(crate) struct Tun {
    device: Arc<SyncDevice>,
    name: String,
    raw: Vec<u8>,
    segments: Vec<Vec<u8>>,
    lengths: Vec<usize>,
    joiner: GROTable,
    outgoing: Vec<Vec<u8>>,
    waiting: usize,
    /// Packets that the kernel refused.
    pub(crate) refused: u64,
    /// Packets that could not be read: of a form that cannot be.
    pub(crate) unread: u64,
    /// The kernel's word that the interface has been deleted.
    gone: Option<io::Error>,
}

impl Tun {
    /// Creates the device and sets it up.
    ///
    /// # Errors
    /// [`TunnelError::Usage`] for a name that cannot be or is taken, [`TunnelError::NotPossible`]
    /// without the rights or `/dev/net/tun`.
    pub(crate) fn create(config: &TunConfig, mtu: u16) -> Result<Self, TunnelError> {
        check_name(&config.name)?;
        check_addresses(&config.addresses)?;
        let mut builder =
            DeviceBuilder::new().name(&config.name).mtu(mtu).offload(true).tx_queue_len(QUEUE);
        for prefix in &config.addresses {
            builder = match prefix.address {
                IpAddr::V4(address) => builder.ipv4(address, prefix.length, None),
                IpAddr::V6(address) => builder.ipv6(address, prefix.length),
            };
        }
        let device = builder.build_sync().map_err(|error| cannot_create(&config.name, error))?;
        Self::adopt(Arc::new(device), &config.name)
    }

    /// One that is there already, made with the kernel's offloads.
    ///
    /// # Errors
    /// When the system refuses to set it up.
    pub(crate) fn adopt(device: Arc<SyncDevice>, name: &str) -> Result<Self, TunnelError> {
        device.set_nonblocking(true).map_err(TunnelError::os("setting up the TUN device"))?;
        Ok(Self {
            device,
            name: name.to_owned(),
            raw: vec![0; VIRTIO_NET_HDR_LEN + 65_536],
            segments: (0..SEGMENTS).map(|number| vec![0; room_of(number)]).collect(),
            lengths: vec![0; SEGMENTS],
            joiner: GROTable::default(),
            outgoing: Vec::new(),
            waiting: 0,
            refused: 0,
            unread: 0,
            gone: None,
        })
    }

    /// The interface's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sets the longest packet.
    pub(crate) fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        self.device.set_mtu(mtu)
    }

    /// Reads once; each packet is handed to `each`. Whether there may be more.
    pub(crate) fn read(&mut self, mut each: impl FnMut(&mut [u8])) -> bool {
        let read =
            self.device.recv_multiple(&mut self.raw, &mut self.segments, &mut self.lengths, 0);
        let count = match read {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) => {
                // A packet of a form that cannot be: it is gone, and the next may be good.
                tracing::debug!(device = self.name, %error, "a packet was not read");
                let code = error.raw_os_error();
                if code == Some(rustix::io::Errno::BADFD.raw_os_error()) {
                    self.gone = Some(error);
                } else {
                    self.unread += 1;
                }
                return code.is_none();
            }
        };
        for (segment, &length) in self.segments[..count].iter_mut().zip(&self.lengths) {
            each(&mut segment[..length]);
        }
        true
    }

    /// Whether the interface is still there: one that has been deleted never has packets again, and
    /// is always ready to say so.
    ///
    /// # Errors
    /// That it has been deleted.
    pub(crate) fn check(&mut self) -> Result<(), TunnelError> {
        match self.gone.take() {
            None => Ok(()),
            Some(error) => Err(TunnelError::os(format!(
                "the interface {} was deleted; start the node again",
                self.name
            ))(error)),
        }
    }

    /// Queues a packet to be written.
    pub(crate) fn write(&mut self, packet: &[u8]) {
        if !matches!(packet.first().map(|first| first >> 4), Some(4 | 6)) {
            // The kernel would refuse it, and not say which it was.
            self.refused += 1;
            return;
        }
        if self.waiting == self.outgoing.len() {
            // Segments are joined in the memory of the first of them.
            self.outgoing.push(Vec::with_capacity(VIRTIO_NET_HDR_LEN + 65_536));
        }
        let buffer = &mut self.outgoing[self.waiting];
        buffer.clear();
        buffer.extend_from_slice(&NOT_WRITTEN);
        buffer.extend_from_slice(packet);
        self.waiting += 1;
        if self.waiting == BATCH {
            self.flush();
        }
    }

    /// Writes what is queued, segments of one flow joined.
    pub(crate) fn flush(&mut self) {
        if self.waiting == 0 {
            return;
        }
        let buffers = &mut self.outgoing[..self.waiting];
        self.waiting = 0;
        let udp = self.device.udp_gso();
        if let Err(error) = self.joiner.apply_gro(buffers, VIRTIO_NET_HDR_LEN, udp) {
            self.refused += buffers.len() as u64;
            tracing::debug!(device = self.name, %error, "packets were not joined");
            return;
        }
        for buffer in buffers {
            let packets = joined(buffer);
            if packets == 0 {
                continue;
            }
            if let Err(error) = self.device.send(buffer) {
                self.refused += packets;
                tracing::debug!(device = self.name, %error, "the kernel did not take a packet");
            }
        }
    }
}

/// What stands before a packet until packets are joined, and then before those that are part of
/// another one: no header of the kernel's.
const NOT_WRITTEN: [u8; VIRTIO_NET_HDR_LEN] = [0xff; VIRTIO_NET_HDR_LEN];

/// How many packets a buffer has that packets were joined in; 0 if it is part of another one.
fn joined(buffer: &[u8]) -> u64 {
    let Some((header, packet)) = buffer.split_first_chunk::<VIRTIO_NET_HDR_LEN>() else { return 0 };
    if *header == NOT_WRITTEN {
        return 0;
    }
    let Ok(header) = VirtioNetHdr::decode(header) else { return 0 };
    match usize::from(header.gso_size) {
        0 => 1,
        size => packet.len().saturating_sub(header.hdr_len.into()).div_ceil(size).max(1) as u64,
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

fn check_name(name: &str) -> Result<(), TunnelError> {
    let fits = (1..=NAME_MAX).contains(&name.len());
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if fits && plain && !matches!(name, "." | ".." | "lo" | "all" | "default") {
        return Ok(());
    }
    Err(TunnelError::Usage(format!(
        "'{name}' cannot be the TUN device's name: use 1 to {NAME_MAX} letters, digits, '-', '_' \
         or '.'"
    )))
}

fn cannot_create(name: &str, error: io::Error) -> TunnelError {
    match (error.kind(), error.raw_os_error()) {
        (_, Some(libc::EBUSY)) => TunnelError::Usage(format!(
            "there is an interface '{name}' already, in use by another program; end that one or \
             choose another name with --tun"
        )),
        (_, Some(libc::EINVAL)) => TunnelError::Usage(format!(
            "the interface '{name}' is there and is no TUN device of this kind; choose another \
             name with --tun"
        )),
        (io::ErrorKind::NotFound, _) => TunnelError::not_possible(
            "there is no /dev/net/tun",
            "load it with 'modprobe tun', or pass --device /dev/net/tun to the container",
        ),
        (io::ErrorKind::PermissionDenied, _) => TunnelError::not_possible(
            format!("creating the TUN device '{name}' is not permitted"),
            "run as root (sudo), or with the capability CAP_NET_ADMIN",
        ),
        _ => {
            TunnelError::Os { context: format!("creating the TUN device '{name}'"), source: error }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_prefixes_are_checked() {
        assert!(check_name("cotag0").is_ok());
        for bad in ["", "sixteen_chars_xx", "a b", "a/b", "lo", "..", "ü"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        let good = Prefix { address: "10.9.0.1".parse().unwrap(), length: 24 };
        assert_eq!("10.9.0.1/24".parse(), Ok(good));
        assert!("fd09::1/64".parse::<Prefix>().is_ok());
        for bad in ["10.9.0.1", "10.9.0.1/33", "10.9.0/24", "fd09::1/129", "/", ""] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_addresses_of_hosts_are_taken() {
        let check = |text: &str| check_addresses(&[text.parse().unwrap()]);
        for good in ["10.9.0.1/24", "10.9.0.0/31", "10.9.0.0/32", "10.9.0.255/16", "fd09::/128"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["10.9.0.0/24", "10.9.0.255/24", "0.0.0.0/0", "127.0.0.1/8", "224.0.0.1/24"] {
            assert!(check(bad).unwrap_err().to_string().starts_with(&format!("--address {bad}: ")));
        }
        for bad in ["fd09::/64", "ff02::1/64", "::1/128", "::/0", "255.255.255.255/0"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    fn segment(number: u8, v6: bool, length: usize) -> Vec<u8> {
        use etherparse::PacketBuilder;
        let builder = if v6 {
            PacketBuilder::ipv6([1; 16], [2; 16], 64)
        } else {
            PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        };
        let builder = builder.tcp(1, 2, 1000 * u32::from(number), 1000).ack(1);
        // Segments are joined in the memory of the first of them.
        let mut buffer = Vec::with_capacity(VIRTIO_NET_HDR_LEN + 65_536);
        buffer.extend_from_slice(&NOT_WRITTEN);
        builder.write(&mut buffer, &vec![number; length]).unwrap();
        buffer
    }

    #[test]
    fn each_packet_counts_once_however_they_are_joined() {
        let mut joiner = GROTable::default();
        // Five segments of a flow, of which the last is shorter, two of another, and one alone.
        let mut buffers: Vec<_> = (0..4).map(|number| segment(number, false, 1000)).collect();
        buffers.push(segment(4, false, 500));
        buffers.extend((0..2).map(|number| segment(number, true, 1000)));
        let other = etherparse::PacketBuilder::ipv4([9; 4], [8; 4], 64).icmpv4_echo_request(1, 2);
        let mut alone = NOT_WRITTEN.to_vec();
        other.write(&mut alone, b"ping").unwrap();
        buffers.push(alone);
        joiner.apply_gro(&mut buffers, VIRTIO_NET_HDR_LEN, true).unwrap();
        let counts: Vec<_> = buffers.iter().map(|buffer| joined(buffer)).collect();
        assert_eq!(counts.iter().sum::<u64>(), 8, "{counts:?}");
        assert_eq!(counts.iter().filter(|&&count| count > 0).count(), 3, "{counts:?}");
    }
}
