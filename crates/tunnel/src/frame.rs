//! What nodes say to each other within a session (docs/protocol.md, "COTAG datagrams").
//!
//! ```text
//! keepalive  byte 0: 1 | sender's time, 8 | time heard last, 8 | its age, 4 |
//!            how long ago anything came, 4 | longest datagram heard, 2 |
//!            settings, 16 (all zero where they are not known) | from the gateway for each device:
//!            device, 4, epoch, 4
//! coded      byte 0: 2 | epoch, 4 | COTAG packet
//! down       byte 0: 3 | epoch, 4 | number, 4 | sealed IP packet
//! padding    byte 0: 5 | anything
//! mark       byte 0: 6 | measurement, 4 | first counter, 8 | train's header of the probe, 22
//! report     byte 0: 7 | measurement, 4 | report of the probe
//! rate       byte 0: 8 | what the access point's link carries, bit/s, 8
//! relay      byte 0: 9 | datagram between gateway and device
//! classed    byte 0: 12 | class of the IP packet in it, 1 | a frame of one that is not classed
//! of device  byte 0: 14 | device, 4 | a frame relay or rate that is of this device
//! ```
//!
//! Within such a datagram gateway and device say:
//!
//! ```text
//! up         byte 0: 4 | epoch, 4 | number, 4 | IP packet
//! hello      byte 0: 10 | device's epoch, 4 | device's time, 8 | how far the link lags, 4
//! losses     byte 0: 13 | device's epoch, 4 | gateway's epoch, 4 | packets, 8 | of these missing, 8
//! terms      byte 0: 11 | the hello's time, 8 | epoch, 4 | settings, 16 | key of tags, 32
//! ```
//!
//! Numbers are big endian, times in microseconds. An *epoch* is a random number that the gateway draws
//! for each device when it starts (in a frame up, the device draws its own). Labels and numbers begin
//! anew with each epoch, and by the epoch an access point knows which device a coded packet is for. A
//! *device* is named by [`DeviceTag`].

use std::time::Duration;

use ring::digest::{SHA256, digest};
use weftline_coding::Limits;
use weftline_coding::node::Mode;
use weftline_core::Bitrate;

use crate::class::Class;
use crate::key::PublicKey;

/// Bytes of a coded frame before its COTAG packet.
pub(crate) const CODED_HEADER: usize = 5;
/// Bytes of a frame down or up before its IP packet.
pub(crate) const PACKET_HEADER: usize = 9;
/// Bytes of a keepalive.
const KEEPALIVE: usize = 1 + 8 + 8 + 4 + 4 + 2 + SETTINGS;
/// Bytes of a device and its epoch behind a keepalive.
const EPOCH: usize = 4 + 4;
/// The most devices of a gateway or an access point: a keepalive names all of them.
pub(crate) const MAX_DEVICES: usize = 64;
/// Bytes of the settings.
const SETTINGS: usize = 16;

/// First bytes of the kinds.
mod kind {
    pub(super) const KEEPALIVE: u8 = 1;
    pub(super) const CODED: u8 = 2;
    pub(super) const DOWN: u8 = 3;
    pub(super) const UP: u8 = 4;
    pub(super) const PADDING: u8 = 5;
    pub(super) const MARK: u8 = 6;
    pub(super) const REPORT: u8 = 7;
    pub(super) const RATE: u8 = 8;
    pub(super) const RELAY: u8 = 9;
    pub(super) const HELLO: u8 = 10;
    pub(super) const TERMS: u8 = 11;
    pub(super) const CLASSED: u8 = 12;
    pub(super) const LOSSES: u8 = 13;
    pub(super) const OF_DEVICE: u8 = 14;
}

/// How packets are sent down. The gateway's choice, which it tells the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Not coded: each packet once, on whichever link has room.
    Plain,
    /// Coded (COTAG §III).
    Coded(Mode),
}

/// What all nodes have to do the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) coding: Coding,
    /// T.
    pub(crate) interval: Duration,
    /// The size of generations, and of the TUN devices' packets.
    pub(crate) limits: Limits,
    /// The most packets that a node holds.
    pub(crate) buffer_packets: u32,
    /// Intervals after which a silent link is given up.
    pub(crate) silent_intervals: u8,
    /// Whether packets are sent on as they come.
    pub(crate) cut_through: bool,
}

/// What settings may be: an interval that a node can keep, and memory that it has.
pub(crate) const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(200)..=Duration::from_millis(200);
/// The most packets that any node may be told to hold: 400 MB of full ones.
pub(crate) const MAX_BUFFER: u32 = 1 << 18;
/// The longest and shortest packets of a TUN device (IPv4's least, RFC 791).
pub(crate) const PACKET_BYTES: std::ops::RangeInclusive<u16> = 68..=9000;

/// What neighbours tell each other ten times a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keepalive {
    /// The sender's clock.
    pub(crate) time_us: u64,
    /// The time in the last keepalive that the sender got, 0 if there was none.
    pub(crate) heard_us: u64,
    /// How long ago that was.
    pub(crate) age_us: u32,
    /// How long ago the sender got anything authentic: a keepalive may be lost, or late where much waits
    /// before it.
    pub(crate) quiet_us: u32,
    /// The bytes of the longest datagram that the sender got of late.
    pub(crate) longest: u16,
    /// The gateway's settings, if it is from the gateway.
    pub(crate) settings: Option<Settings>,
}

/// What a node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// With what the gateway says of its devices.
    Keepalive(Keepalive, EpochList<'a>),
    /// A packet of the coding layer, from the gateway of `epoch`.
    Coded { epoch: u32, packet: &'a [u8] },
    /// A sealed packet that is not coded, on its way to the device.
    Down { epoch: u32, number: u32, packet: &'a [u8] },
    /// An IP packet on its way to the gateway.
    Up { epoch: u32, number: u32, packet: &'a [u8] },
    /// It only fills a train.
    Padding,
    /// Which datagrams measured the link (`capacity.rs`).
    Mark { body: &'a [u8] },
    /// What became of them.
    Report { body: &'a [u8] },
    /// What the sender's link carries: of a device, the one to that; else all of its links to devices
    /// together. Zero: nothing goes now, the device may be elsewhere; [`NO_LIMIT`]: as much as comes.
    Rate(Bitrate),
    /// A datagram between gateway and device, which an access point hands on.
    Relay(&'a [u8]),
    /// A device asks for the gateway's terms, and says how much later labels come on this link than on
    /// the first one, if it knows.
    Hello { epoch: u32, time_us: u64, lag: Option<Duration> },
    /// A device reports what came of a gateway's packets.
    Losses(Losses),
    /// What the gateway answers.
    Terms(Terms),
}

/// What a device has counted in the gateway's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Losses {
    /// The device's epoch, and the gateway's.
    pub(crate) epoch: u32,
    pub(crate) of: u32,
    /// Packets handed out or given up, and of these those that did not come as they were.
    pub(crate) packets: u64,
    pub(crate) missing: u64,
}

impl Losses {
    /// Appends the frame to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(kind::LOSSES);
        out.extend_from_slice(&self.epoch.to_be_bytes());
        out.extend_from_slice(&self.of.to_be_bytes());
        out.extend_from_slice(&self.packets.to_be_bytes());
        out.extend_from_slice(&self.missing.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let whole = bytes.len() == 24;
        let read = || {
            let (epoch, of) = (u32_at(bytes, 0)?, u32_at(bytes, 4)?);
            Some(Self { epoch, of, packets: u64_at(bytes, 8)?, missing: u64_at(bytes, 16)? })
        };
        whole.then(read).flatten()
    }
}

/// How far a link lags of which that is not known.
const UNKNOWN_LAG: u32 = u32::MAX;

/// A device's link that no rate is known of: it is there, and the system holds packets back.
pub(crate) const NO_LIMIT: Bitrate = Bitrate::bps(u64::MAX);

/// What names a device between gateway and access points, of which both know its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceTag([u8; 4]);

impl DeviceTag {
    /// That of the device with this key.
    pub(crate) fn of(key: &PublicKey) -> Self {
        let named = [b"weftline cotag device", &key.0[..]].concat();
        let hash = digest(&SHA256, &named);
        Self(*hash.as_ref().first_chunk().expect("it is longer"))
    }
}

/// Devices and the gateway's epoch for each, as they stand in a keepalive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EpochList<'a>(pub(crate) &'a [u8]);

impl EpochList<'_> {
    /// Each device with its epoch.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DeviceTag, u32)> {
        self.0
            .chunks_exact(EPOCH)
            .filter_map(|one| Some((DeviceTag(*one.first_chunk()?), u32_at(one, 4)?)))
    }
}

/// Appends a device and its epoch to a list.
pub(crate) fn list_epoch(device: DeviceTag, epoch: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&device.0);
    out.extend_from_slice(&epoch.to_be_bytes());
}

/// How a gateway sends to a device: what it says to the device alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The time in the hello that is answered.
    pub(crate) heard_us: u64,
    pub(crate) epoch: u32,
    pub(crate) settings: Settings,
    /// The key of the tags in packets' headers.
    pub(crate) tag_key: [u8; TAG_KEY],
}

/// Bytes of the key of tags.
pub(crate) const TAG_KEY: usize = 32;

impl Terms {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(kind::TERMS);
        out.extend_from_slice(&self.heard_us.to_be_bytes());
        out.extend_from_slice(&self.epoch.to_be_bytes());
        self.settings.encode(out);
        out.extend_from_slice(&self.tag_key);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (rest, &tag_key) = bytes.split_last_chunk::<TAG_KEY>()?;
        if rest.len() != 8 + 4 + SETTINGS {
            return None;
        }
        let settings = Settings::decode(&rest[12..])??;
        Some(Self { heard_us: u64_at(rest, 0)?, epoch: u32_at(rest, 8)?, settings, tag_key })
    }
}

impl Keepalive {
    /// Appends the frame to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(kind::KEEPALIVE);
        out.extend_from_slice(&self.time_us.to_be_bytes());
        out.extend_from_slice(&self.heard_us.to_be_bytes());
        out.extend_from_slice(&self.age_us.to_be_bytes());
        out.extend_from_slice(&self.quiet_us.to_be_bytes());
        out.extend_from_slice(&self.longest.to_be_bytes());
        match &self.settings {
            Some(settings) => settings.encode(out),
            None => out.extend_from_slice(&[0; SETTINGS]),
        }
    }

    fn decode(bytes: &[u8]) -> Option<(Self, EpochList<'_>)> {
        let (keepalive, epochs) = bytes.split_at_checked(KEEPALIVE - 1)?;
        if epochs.len() % EPOCH != 0 || epochs.len() > MAX_DEVICES * EPOCH {
            return None;
        }
        let keepalive = Self {
            time_us: u64_at(keepalive, 0)?,
            heard_us: u64_at(keepalive, 8)?,
            age_us: u32_at(keepalive, 16)?,
            quiet_us: u32_at(keepalive, 20)?,
            longest: u16::from_be_bytes(*keepalive[24..].first_chunk()?),
            settings: Settings::decode(&keepalive[26..])?,
        };
        Some((keepalive, EpochList(epochs)))
    }
}

impl Settings {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self.coding {
            Coding::Plain => 1,
            Coding::Coded(Mode::Systematic) => 2,
            Coding::Coded(Mode::Dense) => 3,
        });
        out.push(self.limits.packets);
        out.extend_from_slice(&self.limits.packet_bytes.to_be_bytes());
        out.extend_from_slice(&(self.interval.as_micros() as u32).to_be_bytes());
        out.extend_from_slice(&self.buffer_packets.to_be_bytes());
        out.extend_from_slice(&[self.silent_intervals, self.cut_through.into(), 0, 0]);
    }

    /// `None` if it is impossible, `Some(None)` if there is none.
    fn decode(bytes: &[u8]) -> Option<Option<Self>> {
        let coding = match bytes[0] {
            0 => return bytes.iter().all(|&byte| byte == 0).then_some(None),
            1 => Coding::Plain,
            2 => Coding::Coded(Mode::Systematic),
            3 => Coding::Coded(Mode::Dense),
            _ => return None,
        };
        let limits = Limits { packets: bytes[1], packet_bytes: u16_at(bytes, 2)? };
        let interval = Duration::from_micros(u32_at(bytes, 4)?.into());
        let (buffer_packets, silent_intervals) = (u32_at(bytes, 8)?, bytes[12]);
        if bytes[13] > 1 || bytes[14..] != [0, 0] {
            return None;
        }
        let cut_through = bytes[13] == 1;
        let settings =
            Self { coding, interval, limits, buffer_packets, silent_intervals, cut_through };
        settings.is_possible().then_some(Some(settings))
    }

    /// Whether a node can do as it says.
    pub(crate) fn is_possible(&self) -> bool {
        self.limits.packets > 0
            && PACKET_BYTES.contains(&self.limits.packet_bytes)
            && INTERVALS.contains(&self.interval)
            && (1..=MAX_BUFFER).contains(&self.buffer_packets)
            && self.silent_intervals > 0
    }
}

impl<'a> Frame<'a> {
    /// Reads a frame; `None` if it is none of this version. Total, and copies nothing.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (&first, rest) = bytes.split_first()?;
        let numbered = || Some((u32_at(rest, 0)?, u32_at(rest, 4)?, rest.get(8..)?));
        match first {
            kind::KEEPALIVE => Keepalive::decode(rest)
                .map(|(keepalive, epochs)| Self::Keepalive(keepalive, epochs)),
            kind::CODED => Some(Self::Coded { epoch: u32_at(rest, 0)?, packet: rest.get(4..)? }),
            kind::DOWN => {
                numbered().map(|(epoch, number, packet)| Self::Down { epoch, number, packet })
            }
            kind::UP => {
                numbered().map(|(epoch, number, packet)| Self::Up { epoch, number, packet })
            }
            kind::PADDING => Some(Self::Padding),
            kind::MARK => Some(Self::Mark { body: rest }),
            kind::REPORT => Some(Self::Report { body: rest }),
            kind::RATE => Some(Self::Rate(Bitrate::bps(u64::from_be_bytes(rest.try_into().ok()?)))),
            kind::RELAY => Some(Self::Relay(rest)),
            kind::HELLO if rest.len() == 16 => {
                let (epoch, time_us, lag) = (u32_at(rest, 0)?, u64_at(rest, 4)?, u32_at(rest, 12)?);
                let lag = (lag != UNKNOWN_LAG).then_some(Duration::from_micros(lag.into()));
                Some(Self::Hello { epoch, time_us, lag })
            }
            kind::TERMS => Terms::decode(rest).map(Self::Terms),
            kind::LOSSES => Losses::decode(rest).map(Self::Losses),
            _ => None,
        }
    }
}

/// Begins a classed frame; the frame follows. It has two bytes more: packets that go as they are have
/// room for them where combinations have coefficients.
pub(crate) fn begin_classed(class: Class, out: &mut Vec<u8>) {
    out.extend_from_slice(&[kind::CLASSED, class.0]);
}

/// The class that is said with a frame, and the frame.
pub(crate) fn class(bytes: &[u8]) -> (Class, &[u8]) {
    match bytes {
        [kind::CLASSED, class, frame @ ..] => (Class(*class), frame),
        frame => (Class::NONE, frame),
    }
}

/// Begins a frame that is of a device; the frame follows.
pub(crate) fn begin_of(device: DeviceTag, out: &mut Vec<u8>) {
    out.push(kind::OF_DEVICE);
    out.extend_from_slice(&device.0);
}

/// The device that a frame is of, if one is said, and the frame.
pub(crate) fn of_device(bytes: &[u8]) -> (Option<DeviceTag>, &[u8]) {
    match bytes {
        [kind::OF_DEVICE, a, b, c, d, frame @ ..] => (Some(DeviceTag([*a, *b, *c, *d])), frame),
        frame => (None, frame),
    }
}

/// Begins a relayed frame; the datagram between gateway and device follows.
pub(crate) fn begin_relay(out: &mut Vec<u8>) {
    out.push(kind::RELAY);
}

/// A device asks for the gateway's terms; see [`Frame::Hello`].
pub(crate) fn encode_hello(epoch: u32, time_us: u64, lag: Option<Duration>, out: &mut Vec<u8>) {
    let lag =
        lag.map_or(UNKNOWN_LAG, |lag| lag.as_micros().min(u128::from(UNKNOWN_LAG - 1)) as u32);
    out.push(kind::HELLO);
    out.extend_from_slice(&epoch.to_be_bytes());
    out.extend_from_slice(&time_us.to_be_bytes());
    out.extend_from_slice(&lag.to_be_bytes());
}

/// A frame of `length` bytes that says nothing.
pub(crate) fn pad(length: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(kind::PADDING);
    out.resize(start + length, 0);
}

/// Begins a mark; the capacity estimator appends the rest.
pub(crate) fn begin_mark(out: &mut Vec<u8>) {
    out.push(kind::MARK);
}

/// Begins a report's frame; the receiver's part follows.
pub(crate) fn begin_report(out: &mut Vec<u8>) {
    out.push(kind::REPORT);
}

/// Says what the link to the device carries.
pub(crate) fn encode_rate(rate: Bitrate, out: &mut Vec<u8>) {
    out.push(kind::RATE);
    out.extend_from_slice(&rate.as_bps().to_be_bytes());
}

/// Begins a coded frame; the COTAG packet follows.
pub(crate) fn begin_coded(epoch: u32, out: &mut Vec<u8>) {
    out.push(kind::CODED);
    out.extend_from_slice(&epoch.to_be_bytes());
}

/// Begins a frame down; the sealed packet follows.
pub(crate) fn begin_down(epoch: u32, number: u32, out: &mut Vec<u8>) {
    out.push(kind::DOWN);
    out.extend_from_slice(&epoch.to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
}

/// Begins a frame up; the IP packet follows.
pub(crate) fn begin_up(epoch: u32, number: u32, out: &mut Vec<u8>) {
    out.push(kind::UP);
    out.extend_from_slice(&epoch.to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings() -> Settings {
        Settings {
            coding: Coding::Coded(Mode::Dense),
            interval: Duration::from_millis(2),
            limits: Limits { packets: 32, packet_bytes: 1370 },
            buffer_packets: 4096,
            silent_intervals: 2,
            cut_through: true,
        }
    }

    fn keepalive(settings: Option<Settings>) -> Keepalive {
        Keepalive { time_us: 2, heard_us: 3, age_us: 4, quiet_us: 1, longest: 1300, settings }
    }

    fn plain(settings: Option<Settings>) -> Frame<'static> {
        Frame::Keepalive(keepalive(settings), EpochList::default())
    }

    #[test]
    fn the_bytes_are_pinned() {
        let mut bytes = Vec::new();
        keepalive(Some(settings())).encode(&mut bytes);
        let times = [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1, 5, 20];
        let rest = [3, 32, 5, 90, 0, 0, 7, 208, 0, 0, 16, 0, 2, 1, 0, 0];
        assert_eq!(bytes, [&[1][..], &times, &rest].concat());
        assert_eq!(Frame::decode(&bytes), Some(plain(Some(settings()))));
        let device = DeviceTag([1, 2, 3, 4]);
        list_epoch(device, 5, &mut bytes);
        assert_eq!(bytes[43..], [1, 2, 3, 4, 0, 0, 0, 5]);
        let Some(Frame::Keepalive(_, epochs)) = Frame::decode(&bytes) else { panic!() };
        assert_eq!(epochs.iter().collect::<Vec<_>>(), [(device, 5)]);
        assert_eq!(Frame::decode(&bytes[..bytes.len() - 1]), None);
        (1..=MAX_DEVICES).for_each(|_| list_epoch(device, 5, &mut bytes));
        assert_eq!(Frame::decode(&bytes), None, "too many devices");
        bytes.clear();
        keepalive(None).encode(&mut bytes);
        assert_eq!(Frame::decode(&bytes), Some(plain(None)));
        bytes.clear();
        begin_of(device, &mut bytes);
        begin_relay(&mut bytes);
        assert_eq!(bytes, [14, 1, 2, 3, 4, 9]);
        assert_eq!(of_device(&bytes), (Some(device), &[9][..]));
        assert_eq!(of_device(&bytes[..4]), (None, &bytes[..4]), "and that is no frame");
        assert_eq!(Frame::decode(&bytes), None, "what is of a device is read as such, once");
        let key = crate::key::SecretKey::from_bytes([1; 32]).public();
        assert_eq!(DeviceTag::of(&key), DeviceTag([174, 56, 47, 103]), "pinned");
        bytes.clear();
        begin_up(7, 9, &mut bytes);
        assert_eq!((bytes.len(), &bytes[..]), (PACKET_HEADER, &[4, 0, 0, 0, 7, 0, 0, 0, 9][..]));
        assert_eq!(Frame::decode(&bytes), Some(Frame::Up { epoch: 7, number: 9, packet: &[] }));
        bytes.clear();
        let terms = Terms { heard_us: 6, epoch: 7, settings: settings(), tag_key: [8; TAG_KEY] };
        terms.encode(&mut bytes);
        assert_eq!(bytes.len(), 1 + 8 + 4 + SETTINGS + TAG_KEY);
        assert_eq!(Frame::decode(&bytes), Some(Frame::Terms(terms)));
        assert_eq!(Frame::decode(&bytes[..bytes.len() - 1]), None);
        bytes.clear();
        for (lag, said) in [(Some(Duration::from_millis(70)), [0, 1, 17, 112]), (None, [255; 4])] {
            encode_hello(7, 9, lag, &mut bytes);
            assert_eq!(bytes, [&[10, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9][..], &said].concat());
            assert_eq!(Frame::decode(&bytes), Some(Frame::Hello { epoch: 7, time_us: 9, lag }));
            bytes.clear();
        }
        encode_hello(7, 9, Some(Duration::from_secs(1 << 40)), &mut bytes);
        assert_eq!(bytes[13..], [255, 255, 255, 254]);
        assert_eq!(Frame::decode(&bytes[..13]), None);
        bytes.clear();
        let losses = Losses { epoch: 1, of: 2, packets: 3, missing: 4 };
        losses.encode(&mut bytes);
        let counts = [0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4];
        assert_eq!(bytes, [&[13, 0, 0, 0, 1, 0, 0, 0, 2][..], &counts].concat());
        assert_eq!(Frame::decode(&bytes), Some(Frame::Losses(losses)));
        assert_eq!(Frame::decode(&bytes[..24]), None);
        bytes.clear();
        encode_rate(Bitrate::mbps(300), &mut bytes);
        assert_eq!(bytes, [8, 0, 0, 0, 0, 17, 225, 163, 0]);
        assert_eq!(Frame::decode(&bytes), Some(Frame::Rate(Bitrate::mbps(300))));
        assert_eq!(Frame::decode(&bytes[..8]), None);
        bytes.clear();
        begin_classed(Class(0xb9), &mut bytes);
        encode_hello(7, 9, None, &mut bytes);
        assert_eq!((bytes.len(), &bytes[..3]), (19, &[12, 0xb9, 10][..]));
        assert_eq!(class(&bytes), (Class(0xb9), &bytes[2..]));
        assert_eq!(class(&bytes[2..]), (Class::NONE, &bytes[2..]));
        assert_eq!(Frame::decode(&bytes), None, "what is classed is read as such, once");
        bytes.clear();
        begin_coded(7, &mut bytes);
        assert_eq!((bytes.len(), bytes[0]), (CODED_HEADER, 2));
    }

    #[test]
    fn impossible_settings_are_refused() {
        let changes: [fn(&mut Settings); 7] = [
            |s| s.limits.packets = 0,
            |s| s.limits.packet_bytes = 60,
            |s| s.limits.packet_bytes = 9001,
            |s| s.interval = Duration::from_micros(100),
            |s| s.interval = Duration::from_secs(1),
            |s| s.buffer_packets = 0,
            |s| s.buffer_packets = MAX_BUFFER + 1,
        ];
        for change in changes {
            let mut bad = settings();
            change(&mut bad);
            let mut bytes = Vec::new();
            keepalive(Some(bad)).encode(&mut bytes);
            assert_eq!(Frame::decode(&bytes), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_none(
            kind in 0_u8..16, rest in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let bytes = [&[kind][..], &rest].concat();
            match Frame::decode(&bytes) {
                Some(Frame::Keepalive(keepalive, epochs)) => {
                    prop_assert!(epochs.iter().count() <= MAX_DEVICES);
                    prop_assert!(keepalive.settings.is_none_or(|settings| settings.is_possible()));
                }
                Some(Frame::Terms(terms)) => prop_assert!(terms.settings.is_possible()),
                _ => {}
            }
        }
    }
}
