//! What a page says to the program whose stream it shows, and what it is told besides the stream's own
//! messages. A message is its type, one byte, and its fields in network byte order (docs/web.md has the
//! table). Decoding is total: whatever a page sends is a message within the bounds below, or an error.

use std::time::Duration;

use weftline_core::time::nanos;
use weftline_video::live::wire::{GOP_LENGTHS, MAX_POSES, PoseNotice};
use weftline_video::rd::{MAX_GOPS, MAX_TILES};

/// What speaks like this, as the opening of a WebSocket names it (RFC 6455 §1.9).
pub(crate) const PROTOCOL: &str = "weftline-vr-1";

/// The longest message of a page.
pub(crate) const MAX_FROM_PAGE: usize = 64 << 10;

const SAMPLE: u8 = 32;
const REPORT: u8 = 33;
const PONG: u8 = 34;
const BEGIN: u8 = 35;
const HELD: u8 = 36;
const POSES: u8 = 48;
const SHOWN: u8 = 49;
const PING: u8 = 50;
const STEER: u8 = 51;

/// In the place of a QP: nothing of the tile was shown.
const NOTHING: u8 = u8::MAX;

/// A message of a page.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FromPage {
    /// Where its viewer looked, in order of time.
    Poses(Vec<PoseNotice>),
    /// What it has shown of a GoP.
    Shown(Shown),
    /// It wants to know the time in the video; what it says comes back.
    Ping(u64),
    /// It wants to be the page that steers.
    Steer,
}

/// What a page has shown of a GoP.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    /// Which, from 0.
    pub gop: u32,
    /// Pictures that were shown.
    pub shown: u16,
    /// Pictures that were not: decoded too late, or the browser had no time to draw them.
    pub dropped: u16,
    /// Tiles that were planned and were not there in time.
    pub late_network: u16,
    /// Tiles that were there and were not decoded in time for each of the pictures that were shown.
    pub late_decoding: u16,
    /// How long before its time that picture was ready which was so the latest; negative if it was late.
    pub lead_ms: f32,
    /// Of each tile, in raster order: the QP that was shown, if any was, and in how many of the pictures
    /// that were shown it was not.
    pub tiles: Vec<(Option<u8>, u16)>,
    /// Of each tile, the QP that was there when the GoP began and was to be decoded.
    pub had: Vec<Option<u8>>,
    /// Tiles of the GoP that this page was not sent though they were whole in time: it was too slow, or
    /// there was no room. The page does not say this; it is what was dropped on the way to it.
    pub unsent: u32,
}

/// Why bytes are no message of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WrongMessage {
    /// It ends too early.
    #[error("a message of type {0} ends in the middle of a field")]
    Short(u8),
    /// It goes on too long.
    #[error("a message of type {0} is too long")]
    Long(u8),
    /// No such type.
    #[error("there is no message of type {0}")]
    Kind(u8),
    /// A value out of range.
    #[error("a message of type {0} has a {1} out of range")]
    Value(u8, &'static str),
}

/// Reads a message, all of `bytes`.
///
/// # Errors
/// [`WrongMessage`] if they are none.
pub(crate) fn decode(bytes: &[u8]) -> Result<FromPage, WrongMessage> {
    let Some((&kind, rest)) = bytes.split_first() else { return Err(WrongMessage::Short(0)) };
    let mut reader = Reader { kind, rest };
    let message = match kind {
        POSES => FromPage::Poses(poses(&mut reader)?),
        SHOWN => FromPage::Shown(shown(&mut reader)?),
        PING => FromPage::Ping(u64::from_be_bytes(reader.array()?)),
        STEER => FromPage::Steer,
        kind => return Err(WrongMessage::Kind(kind)),
    };
    if reader.rest.is_empty() { Ok(message) } else { Err(WrongMessage::Long(kind)) }
}

struct Reader<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WrongMessage> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(WrongMessage::Short(self.kind))?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16, WrongMessage> {
        self.array().map(u16::from_be_bytes)
    }

    /// A number of at most `most`, either way of zero.
    fn f32(&mut self, field: &'static str, most: f32) -> Result<f32, WrongMessage> {
        let value = self.array().map(f32::from_be_bytes)?;
        (-most..=most).contains(&value).then_some(value).ok_or_else(|| self.wrong(field))
    }

    fn count(&self, count: usize, field: &'static str, most: usize) -> Result<usize, WrongMessage> {
        if count <= most { Ok(count) } else { Err(self.wrong(field)) }
    }

    const fn wrong(&self, field: &'static str) -> WrongMessage {
        WrongMessage::Value(self.kind, field)
    }
}

fn poses(reader: &mut Reader<'_>) -> Result<Vec<PoseNotice>, WrongMessage> {
    /// A video has no more GoPs than this, and none is longer.
    const LONGEST: Duration = GOP_LENGTHS[1].saturating_mul(MAX_GOPS as u32);
    let [count] = reader.array()?;
    let count = reader.count(count.into(), "number of poses", MAX_POSES)?;
    let mut poses = Vec::with_capacity(count);
    for _ in 0..count {
        let at = Duration::from_nanos(u64::from_be_bytes(reader.array()?));
        if at > LONGEST {
            return Err(reader.wrong("time"));
        }
        let mut angle = || reader.f32("angle", 3_600.0);
        poses.push(PoseNotice { at, degrees: [angle()?, angle()?, angle()?] });
    }
    Ok(poses)
}

fn shown(reader: &mut Reader<'_>) -> Result<Shown, WrongMessage> {
    /// No page is off by more than an hour.
    const HOUR_MS: f32 = 3.6e6;
    let gop = u32::from_be_bytes(reader.array()?);
    reader.count(gop as usize, "GoP", MAX_GOPS - 1)?;
    let (shown, dropped) = (reader.u16()?, reader.u16()?);
    let (late_network, late_decoding) = (reader.u16()?, reader.u16()?);
    let lead_ms = reader.f32("lead", HOUR_MS)?;
    let count = usize::from(reader.u16()?);
    let count = reader.count(count, "number of tiles", MAX_TILES)?;
    let (mut tiles, mut had) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let known = |qp: u8| (qp != NOTHING).then_some(qp);
    for _ in 0..count {
        let [there, qp] = reader.array()?;
        let missed = reader.u16()?;
        if missed > shown {
            return Err(reader.wrong("number of pictures"));
        }
        tiles.push((known(qp), missed));
        had.push(known(there));
    }
    let shown =
        Shown { gop, shown, dropped, late_network, late_decoding, lead_ms, tiles, had, unsent: 0 };
    Ok(shown)
}

/// What a page is told of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pong {
    /// What it said.
    pub(crate) echo: u64,
    /// The time in the video; `None` before it begins.
    pub(crate) position: Option<Duration>,
    /// Whether its viewer's head is the one that counts.
    pub(crate) steers: bool,
    /// Whether the picture moves.
    pub(crate) moves: bool,
    /// Pages that watch.
    pub(crate) viewers: u8,
    /// Tiles that this page was not sent: it was too slow, or there was no room.
    pub(crate) dropped: u32,
}

impl Pong {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = vec![PONG];
        out.extend_from_slice(&self.echo.to_be_bytes());
        let position = self.position.map_or(u64::MAX, nanos);
        out.extend_from_slice(&position.to_be_bytes());
        out.extend([u8::from(self.steers) | u8::from(self.moves) << 1, self.viewers]);
        out.extend_from_slice(&self.dropped.to_be_bytes());
        out
    }
}

/// A GoP's time has come: what comes of it later is late. `stood` says that the picture stood still before.
pub(crate) fn begin(gop: u32, stood: bool) -> Vec<u8> {
    [&[BEGIN][..], &gop.to_be_bytes(), &[u8::from(stood)]].concat()
}

/// What a page holds of a tile as it comes: its last picture of an older GoP. `tile` is a message of a tile.
pub(crate) fn held(tile: &[u8]) -> Vec<u8> {
    [&[HELD], tile.get(1..).unwrap_or_default()].concat()
}

/// What the paths carry, a JSON object.
pub(crate) fn sample(json: &str) -> Vec<u8> {
    [&[SAMPLE], json.as_bytes()].concat()
}

/// What became of a GoP, a JSON object.
pub(crate) fn report(json: &str) -> Vec<u8> {
    [&[REPORT], json.as_bytes()].concat()
}
