//! The probe's packets (docs/protocol.md, "Probe packets").
//!
//! ```text
//! byte  0   "wp", version (1), kind
//!       4   session, 8 bytes, chosen by the client
//!      12   what the kind has
//!           tag, 16 bytes: HMAC-SHA256, cut, over all before it; not in hello, challenge, refusal
//!           padding (hello and packets of trains)
//! ```
//!
//! Numbers are big endian. Decoding is total: any bytes give a packet or an error.

use std::time::Duration;

use ring::hmac;
use weftline_core::{ByteCount, Instant};

use super::dispersion::{Dispersion, Unusable};
use super::{Ask, Direction, Sample};

/// The version of the packets, in their third byte.
pub const VERSION: u8 = 1;
/// Bytes of a hello: more than any answer to it.
pub const HELLO_BYTES: usize = 128;
/// Results that a report repeats at most, so that a lost report loses none.
pub const RESULTS_MAX: usize = 8;
/// Bytes of a train's packet before its padding.
pub const TRAIN_BYTES: usize = HEADER_BYTES + 22 + TAG_BYTES;

const MAGIC: [u8; 2] = *b"wp";
const HEADER_BYTES: usize = 12;
const COOKIE_BYTES: usize = 16;
const TAG_BYTES: usize = 16;

mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const CHALLENGE: u8 = 2;
    pub(super) const START: u8 = 3;
    pub(super) const ACCEPT: u8 = 4;
    pub(super) const TRAIN: u8 = 5;
    pub(super) const REPORT: u8 = 6;
    pub(super) const END: u8 = 7;
    pub(super) const REFUSAL: u8 = 8;
}

/// What is wrong with bytes that came from somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A field has a value that it cannot have.
    #[error("a packet of the probe with an impossible {0}")]
    Field(&'static str),
    /// An unknown kind of packet.
    #[error("an unknown kind of packet, {0}")]
    Kind(u8),
    /// Nothing of the probe's.
    #[error("no packet of the probe")]
    NotProbe,
    /// A packet that ends early.
    #[error("a packet of the probe that ends early")]
    Short,
    /// Another version.
    #[error("version {0} of the probe, this side speaks {VERSION}; use one version at both ends")]
    Version(u8),
}

/// What proves to a server that a client gets what is sent to its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// When it was made, in units of the server's choice.
    pub slot: u32,
    /// What only the server can make.
    pub mac: [u8; COOKIE_BYTES],
}

/// What stands in each packet of a train. A packet of a train of 0 only tells that the link lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainHeader {
    /// The train's number, from 0.
    pub train: u32,
    /// The packet's number in it, from 0.
    pub index: u8,
    /// Packets of the train.
    pub packets: u8,
    /// When the train was sent, by the sender's clock.
    pub sent: Instant,
    /// When the next train is due after this one; at most 4,294 s.
    pub interval: Duration,
    /// The sender's latest round-trip time, in whole microseconds; zero: none is known.
    pub rtt: Duration,
}

/// What a receiver tells the sender of trains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Counts the reports of a session.
    pub number: u32,
    /// [`TrainHeader::sent`] of the newest train, or sign of life, of which a packet came.
    pub echo: Instant,
    /// How long ago its first packet came; at most 4,294 s.
    pub held: Duration,
    /// What became of the latest trains, the oldest first; at most [`RESULTS_MAX`].
    pub results: Vec<Sample>,
}

/// Why a session is over, or never began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The server has as many clients as it may have.
    Busy,
    /// It has lasted as long as was asked for.
    Done,
    /// Longer than the server allows: so many seconds.
    Duration(u32),
    /// More than the server allows: so many kb/s.
    Rate(u32),
    /// The peer has not been heard for long.
    Silent,
    /// Packets of that size do not leave the sender; its interface's MTU, or 0.
    Size(u32),
    /// The peer was stopped.
    Stopped,
    /// The server wants a token, or another one.
    Token,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// The server takes the client.
    Accept,
    /// The answer to a hello: say this again from where you are.
    Challenge(Cookie),
    /// The end of a session, by either side.
    End(Reason),
    /// A client's first word.
    Hello,
    /// The server does not take the client.
    Refusal(Reason),
    /// What has come of the peer's trains.
    Report(Report),
    /// The client's wish, with the cookie that it got.
    Start(Cookie, Ask),
    /// A packet of a train.
    Train(TrainHeader),
}

/// A packet and how to check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The session that it names.
    pub session: u64,
    /// What it says, of which nothing is true before [`Decoded::is_by`].
    pub packet: Packet,
    signed: &'a [u8],
    tag: &'a [u8],
}

/// The key of one session's packets.
#[derive(Clone, Debug)]
pub struct Key(hmac::Key);

impl Key {
    /// The key of `session`, which whoever saw `cookie` and has `secret` can make. Without a secret
    /// it keeps out those who did not see the cookie.
    pub fn new(secret: Option<&[u8; 32]>, session: u64, cookie: &Cookie) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, secret.unwrap_or(&[0; 32]));
        let mut context = hmac::Context::with_key(&root);
        context.update(b"weftline probe 1");
        context.update(&session.to_be_bytes());
        context.update(&cookie.slot.to_be_bytes());
        context.update(&cookie.mac);
        Self(hmac::Key::new(hmac::HMAC_SHA256, context.sign().as_ref()))
    }

    fn tag(&self, bytes: &[u8]) -> [u8; TAG_BYTES] {
        let tag = hmac::sign(&self.0, bytes);
        let mut cut = [0; TAG_BYTES];
        cut.copy_from_slice(&tag.as_ref()[..TAG_BYTES]);
        cut
    }
}

impl Decoded<'_> {
    /// Whether a holder of `key` made it.
    pub fn is_by(&self, key: &Key) -> bool {
        let wanted = key.tag(self.signed);
        // Every byte is looked at, however many are wrong.
        let differs = wanted.iter().zip(self.tag).fold(0, |acc, (a, b)| acc | (a ^ b));
        self.tag.len() == TAG_BYTES && differs == 0
    }
}

impl Packet {
    /// Appends the packet, signed by `key` where its kind has a tag.
    ///
    /// # Panics
    /// If the kind has a tag and there is no key.
    pub fn encode(&self, session: u64, key: Option<&Key>, out: &mut Vec<u8>) {
        let start = out.len();
        let kind = match self {
            Self::Accept => kind::ACCEPT,
            Self::Challenge(_) => kind::CHALLENGE,
            Self::End(_) => kind::END,
            Self::Hello => kind::HELLO,
            Self::Refusal(_) => kind::REFUSAL,
            Self::Report(_) => kind::REPORT,
            Self::Start(..) => kind::START,
            Self::Train(_) => kind::TRAIN,
        };
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION, kind]);
        out.extend_from_slice(&session.to_be_bytes());
        match self {
            Self::Accept => {}
            Self::Hello => out.resize(start + HELLO_BYTES, 0),
            Self::Challenge(cookie) => put_cookie(cookie, out),
            Self::End(reason) | Self::Refusal(reason) => put_reason(*reason, out),
            Self::Report(report) => put_report(report, out),
            Self::Start(cookie, ask) => {
                put_cookie(cookie, out);
                put_ask(ask, out);
            }
            Self::Train(header) => put_train(header, out),
        }
        if !matches!(self, Self::Challenge(_) | Self::Hello | Self::Refusal(_)) {
            let key = key.expect("the caller has the session's key");
            let tag = key.tag(&out[start..]);
            out.extend_from_slice(&tag);
        }
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Decoded<'_>, WireError> {
        let mut reader = Reader { bytes, at: 0 };
        if reader.take(2).map_err(|_| WireError::NotProbe)? != MAGIC {
            return Err(WireError::NotProbe);
        }
        let version = reader.u8()?;
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        let kind = reader.u8()?;
        let session = reader.u64()?;
        let packet = match kind {
            kind::ACCEPT => Self::Accept,
            kind::CHALLENGE => Self::Challenge(cookie(&mut reader)?),
            kind::END => Self::End(reason(&mut reader)?),
            kind::HELLO if bytes.len() < HELLO_BYTES => return Err(WireError::Short),
            kind::HELLO => Self::Hello,
            kind::REFUSAL => Self::Refusal(reason(&mut reader)?),
            kind::REPORT => Self::Report(report(&mut reader)?),
            kind::START => Self::Start(cookie(&mut reader)?, ask(&mut reader)?),
            kind::TRAIN => Self::Train(train(&mut reader)?),
            _ => return Err(WireError::Kind(kind)),
        };
        let signed = &bytes[..reader.at];
        let tag = match packet {
            Self::Challenge(_) | Self::Hello | Self::Refusal(_) => &[],
            _ => reader.take(TAG_BYTES)?,
        };
        if reader.at != bytes.len() && !matches!(packet, Self::Hello | Self::Train(_)) {
            return Err(WireError::Field("length"));
        }
        Ok(Decoded { session, packet, signed, tag })
    }
}

fn put_cookie(cookie: &Cookie, out: &mut Vec<u8>) {
    out.extend_from_slice(&cookie.slot.to_be_bytes());
    out.extend_from_slice(&cookie.mac);
}

fn cookie(reader: &mut Reader<'_>) -> Result<Cookie, WireError> {
    let slot = reader.u32()?;
    let mac = reader.take(COOKIE_BYTES)?.try_into().map_err(|_| WireError::Short)?;
    Ok(Cookie { slot, mac })
}

fn put_ask(ask: &Ask, out: &mut Vec<u8>) {
    let direction = match ask.direction {
        Direction::Down => 1,
        Direction::Up => 2,
        Direction::Both => 3,
    };
    out.extend_from_slice(&[direction, ask.train]);
    out.extend_from_slice(&ask.size.to_be_bytes());
    out.extend_from_slice(&micros(ask.every).to_be_bytes());
    let duration_ms = u32::try_from(ask.duration.as_millis()).unwrap_or(u32::MAX);
    out.extend_from_slice(&duration_ms.to_be_bytes());
}

fn ask(reader: &mut Reader<'_>) -> Result<Ask, WireError> {
    let direction = match reader.u8()? {
        1 => Direction::Down,
        2 => Direction::Up,
        3 => Direction::Both,
        _ => return Err(WireError::Field("direction")),
    };
    let ask = Ask {
        direction,
        train: reader.u8()?,
        size: reader.u16()?,
        every: Duration::from_micros(reader.u32()?.into()),
        duration: Duration::from_millis(reader.u32()?.into()),
    };
    ask.check().map_err(|_| WireError::Field("wish"))?;
    Ok(ask)
}

fn put_reason(reason: Reason, out: &mut Vec<u8>) {
    let (code, value) = match reason {
        Reason::Done => (1_u8, 0),
        Reason::Stopped => (2, 0),
        Reason::Busy => (3, 0),
        Reason::Token => (4, 0),
        Reason::Rate(kbps) => (5, kbps),
        Reason::Duration(seconds) => (6, seconds),
        Reason::Size(mtu) => (7, mtu),
        Reason::Silent => (8, 0),
    };
    out.push(code);
    out.extend_from_slice(&value.to_be_bytes());
}

fn reason(reader: &mut Reader<'_>) -> Result<Reason, WireError> {
    let (code, value) = (reader.u8()?, reader.u32()?);
    Ok(match code {
        5 => Reason::Rate(value),
        6 => Reason::Duration(value),
        7 => Reason::Size(value),
        // The others have none: one packet has one form.
        _ if value != 0 => return Err(WireError::Field("reason's value")),
        1 => Reason::Done,
        2 => Reason::Stopped,
        3 => Reason::Busy,
        4 => Reason::Token,
        8 => Reason::Silent,
        _ => return Err(WireError::Field("reason")),
    })
}

/// Appends a train's header: 22 bytes.
pub(crate) fn put_train(header: &TrainHeader, out: &mut Vec<u8>) {
    out.extend_from_slice(&header.train.to_be_bytes());
    out.extend_from_slice(&[header.index, header.packets]);
    out.extend_from_slice(&header.sent.as_nanos().to_be_bytes());
    out.extend_from_slice(&micros(header.interval).to_be_bytes());
    out.extend_from_slice(&micros(header.rtt).to_be_bytes());
}

/// Reads what [`put_train`] wrote, whatever follows it.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read_train(bytes: &[u8]) -> Result<TrainHeader, WireError> {
    train(&mut Reader { bytes, at: 0 })
}

/// Reads what [`put_report`] wrote, and nothing else.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read_report(bytes: &[u8]) -> Result<Report, WireError> {
    let mut reader = Reader { bytes, at: 0 };
    let report = report(&mut reader)?;
    if reader.at != bytes.len() {
        return Err(WireError::Field("length"));
    }
    Ok(report)
}

fn train(reader: &mut Reader<'_>) -> Result<TrainHeader, WireError> {
    let header = TrainHeader {
        train: reader.u32()?,
        index: reader.u8()?,
        packets: reader.u8()?,
        sent: Instant::from_nanos(reader.u64()?),
        interval: Duration::from_micros(reader.u32()?.into()),
        rtt: Duration::from_micros(reader.u32()?.into()),
    };
    // One that only tells that the link lives has index 0 of 0.
    if header.index > 0 && header.index >= header.packets {
        return Err(WireError::Field("index"));
    }
    Ok(header)
}

/// How the outcome of a train is written: what it was, then packets, stamps, bytes and time.
mod outcome {
    pub(super) const USABLE: u8 = 0;
    pub(super) const CLOCK: u8 = 1;
    pub(super) const COALESCED: u8 = 2;
    pub(super) const FEW: u8 = 3;
}

/// Appends a report.
pub(crate) fn put_report(report: &Report, out: &mut Vec<u8>) {
    assert!(report.results.len() <= RESULTS_MAX, "a report has room for {RESULTS_MAX} results");
    out.extend_from_slice(&report.number.to_be_bytes());
    out.extend_from_slice(&report.echo.as_nanos().to_be_bytes());
    out.extend_from_slice(&micros(report.held).to_be_bytes());
    out.push(report.results.len() as u8);
    for sample in &report.results {
        out.extend_from_slice(&sample.train.to_be_bytes());
        out.extend_from_slice(&[sample.packets, sample.received]);
        for time in [sample.sent, sample.first, sample.last] {
            out.extend_from_slice(&time.as_nanos().to_be_bytes());
        }
        out.extend_from_slice(&micros(sample.interval).to_be_bytes());
        let (code, stamps, bytes, ns) = match sample.outcome {
            Ok(Dispersion { bytes, time, stamps }) => {
                (outcome::USABLE, stamps, bytes.as_u64(), weftline_core::time::nanos(time))
            }
            Err(Unusable::ClockStep) => (outcome::CLOCK, 0, 0, 0),
            Err(Unusable::Coalesced { stamps }) => (outcome::COALESCED, stamps, 0, 0),
            Err(Unusable::TooFew) => (outcome::FEW, 0, 0, 0),
        };
        out.extend_from_slice(&[code, stamps]);
        out.extend_from_slice(&u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(&ns.to_be_bytes());
    }
}

fn report(reader: &mut Reader<'_>) -> Result<Report, WireError> {
    let number = reader.u32()?;
    let echo = Instant::from_nanos(reader.u64()?);
    let held = Duration::from_micros(reader.u32()?.into());
    let count = usize::from(reader.u8()?);
    if count > RESULTS_MAX {
        return Err(WireError::Field("number of results"));
    }
    let results = (0..count).map(|_| result(reader)).collect::<Result<_, _>>()?;
    Ok(Report { number, echo, held, results })
}

fn result(reader: &mut Reader<'_>) -> Result<Sample, WireError> {
    let train = reader.u32()?;
    let (packets, received) = (reader.u8()?, reader.u8()?);
    let [sent, first, last] =
        [reader.u64()?, reader.u64()?, reader.u64()?].map(Instant::from_nanos);
    let interval = Duration::from_micros(reader.u32()?.into());
    let (code, stamps) = (reader.u8()?, reader.u8()?);
    let (bytes, ns) = (reader.u32()?, reader.u64()?);
    if received > packets || last < first {
        return Err(WireError::Field("result"));
    }
    let outcome = match code {
        outcome::USABLE if bytes > 0 && ns > 0 => {
            let bytes = ByteCount::new(bytes.into());
            Ok(Dispersion { bytes, time: Duration::from_nanos(ns), stamps })
        }
        // What goes with it must be 0: one packet has one form.
        outcome::CLOCK if (stamps, bytes, ns) == (0, 0, 0) => Err(Unusable::ClockStep),
        outcome::COALESCED if (bytes, ns) == (0, 0) => Err(Unusable::Coalesced { stamps }),
        outcome::FEW if (stamps, bytes, ns) == (0, 0, 0) => Err(Unusable::TooFew),
        _ => return Err(WireError::Field("outcome")),
    };
    Ok(Sample { train, packets, received, sent, first, last, interval, outcome })
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

/// Reads numbers one after the other.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let end = self.at + count;
        let taken = self.bytes.get(self.at..end).ok_or(WireError::Short)?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.take(N)?.try_into().map_err(|_| WireError::Short)
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOKIE: Cookie = Cookie { slot: 7, mac: [3; 16] };

    fn packets() -> Vec<Packet> {
        let ms = Instant::from_millis;
        let usable = Dispersion {
            bytes: ByteCount::new(43_500),
            time: Duration::from_micros(348),
            stamps: 30,
        };
        let sample = |outcome| Sample {
            train: 9,
            packets: 30,
            received: 29,
            sent: ms(10),
            first: ms(12),
            last: ms(13),
            interval: Duration::from_millis(10),
            outcome,
        };
        let results = vec![
            sample(Ok(usable)),
            sample(Err(Unusable::ClockStep)),
            sample(Err(Unusable::Coalesced { stamps: 2 })),
            sample(Err(Unusable::TooFew)),
        ];
        let held = Duration::from_micros(120);
        vec![
            Packet::Accept,
            Packet::Challenge(COOKIE),
            Packet::End(Reason::Size(1400)),
            Packet::Hello,
            Packet::Refusal(Reason::Busy),
            Packet::Report(Report { number: 3, echo: ms(10), held, results }),
            Packet::Start(COOKIE, Ask::default()),
            Packet::Train(TrainHeader {
                train: 1,
                index: 29,
                packets: 30,
                sent: ms(10),
                interval: Duration::from_millis(10),
                rtt: Duration::from_micros(700),
            }),
        ]
    }

    #[test]
    fn packets_are_read_as_they_were_written_and_only_whole() {
        let key = Key::new(None, 5, &COOKIE);
        for packet in packets() {
            let mut bytes = Vec::new();
            packet.encode(5, Some(&key), &mut bytes);
            let decoded = Packet::decode(&bytes).unwrap();
            assert_eq!((decoded.session, &decoded.packet), (5, &packet));
            for length in 0..bytes.len() {
                assert!(Packet::decode(&bytes[..length]).is_err(), "{packet:?} cut to {length}");
            }
        }
    }

    #[test]
    fn a_changed_byte_or_another_secret_is_noticed() {
        let (key, other) =
            (Key::new(Some(&[1; 32]), 5, &COOKIE), Key::new(Some(&[2; 32]), 5, &COOKIE));
        for packet in packets() {
            let mut bytes = Vec::new();
            packet.encode(5, Some(&key), &mut bytes);
            let whole = Packet::decode(&bytes).unwrap();
            if whole.tag.is_empty() {
                continue;
            }
            assert!(whole.is_by(&key) && !whole.is_by(&other), "{packet:?}");
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert!(!Packet::decode(&changed).is_ok_and(|packet| packet.is_by(&key)), "{at}");
            }
        }
    }

    #[test]
    fn answers_to_strangers_are_shorter_than_what_they_answer() {
        let mut hello = Vec::new();
        Packet::Hello.encode(1, None, &mut hello);
        let (mut challenge, mut refusal) = (Vec::new(), Vec::new());
        Packet::Challenge(COOKIE).encode(1, None, &mut challenge);
        Packet::Refusal(Reason::Busy).encode(1, None, &mut refusal);
        assert!(challenge.len() * 4 <= hello.len() && refusal.len() * 4 <= hello.len());
    }
}
