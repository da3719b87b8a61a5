//! The messages of a live stream, as bytes.
//!
//! A message is its type, one byte, and its fields; numbers are in network byte order, `f32` is
//! IEEE 754. A connection of messages carries one in each of its messages; over a byte stream each
//! has its length before it, four bytes. docs/vr.md has the table. Decoding is total: whatever a
//! peer sends is a message within the bounds below, or an error.

use std::time::Duration;

use weftline_core::ByteCount;
use weftline_core::time::nanos;

use super::Digest;
use crate::geometry::{FrameSize, Grid};
use crate::rd::{MAX_GOPS, MAX_RUNGS, MAX_TILES, MAX_WS_MSE};
use crate::shown::Concealment;

/// The version of the messages. A peer of another one is refused by name.
pub const VERSION: u16 = 5;
/// The longest message to a player: a tile of 16 MiB.
pub const MAX_TO_PLAYER: usize = 16 << 20;
/// The longest message to a server.
pub const MAX_TO_SERVER: usize = 64 << 10;
/// The longest part of a tile message that a decoder is set up from.
pub const MAX_INIT: usize = 64 << 10;
/// The most poses of one report.
pub const MAX_POSES: usize = 32;
/// The most tiles of one report.
pub const MAX_REPORTED: usize = 4_096;
/// The most ages of a tile's concealment by an old picture.
pub const MAX_AGES: usize = 16;
/// The longest text, in bytes.
pub const MAX_TEXT: usize = 255;
/// The highest rate of samples that AAC has (ISO/IEC 14496-3, table 1.18).
pub const MAX_SAMPLE_RATE: u32 = 96_000;
/// The longest GoP of a live stream, and the shortest.
pub const GOP_LENGTHS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// The most pictures of a GoP: 480 a second in the longest one.
pub const MAX_GOP_FRAMES: u32 = 480 * GOP_LENGTHS[1].as_secs() as u32;

/// The longest buffer of a player, and the shortest.
pub const BUFFERS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// What the first message begins with.
const MAGIC: &[u8; 4] = b"WLVR";

/// A message of either side.
#[derive(Clone, Debug, PartialEq)]
pub enum Message<'a> {
    /// The player's first: it wants the stream.
    Hello(Hello),
    /// The server's first: what the stream is.
    Manifest(Manifest),
    /// The server begins a GoP: what it sends of it.
    Gop(GopNotice),
    /// A tile.
    Tile(Tile<'a>),
    /// The player: where it looks, and what arrived.
    Report(Report),
    /// The server has sent so many GoPs, and no more come.
    End {
        /// How many.
        gops: u32,
    },
    /// The last words of one that does not go on.
    Refusal {
        /// Why, and the remedy; one line of at most [`MAX_TEXT`] bytes.
        reason: String,
    },
}

/// The player's first message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hello {
    /// The angles that its viewport spans, in degrees, 1 to 170.
    pub fov_deg: [f32; 2],
    /// How long after it was announced a GoP is shown, within [`BUFFERS`]; `None`: as long as a GoP is.
    pub buffer: Option<Duration>,
    /// How long the player stops for what is late of a GoP; zero: not at all.
    pub rebuffer: Duration,
}

/// What a stream is.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The size of the frame.
    pub frame: FrameSize,
    /// Its tiles.
    pub grid: Grid,
    /// How long a GoP plays.
    pub gop: Duration,
    /// Pictures in a GoP, 1 to [`MAX_GOP_FRAMES`].
    pub gop_frames: u32,
    /// How many GoPs come; 0 if nobody knows, as of a live source: then the end says it.
    pub gops: u32,
    /// What the player is to show in place of late tiles.
    pub concealment: Concealment,
    /// The tile scheme that plans.
    pub scheme: String,
    /// The QPs of the ladder, ascending.
    pub qps: Vec<u8>,
    /// Its sound, if it has any.
    pub sound: Option<SoundFormat>,
}

/// What the sound of a stream is: AAC-LC, in a segment of its own for each GoP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoundFormat {
    /// Samples a second of each channel, 1 to [`MAX_SAMPLE_RATE`].
    pub rate_hz: u32,
    /// How many channels, at least one.
    pub channels: u8,
}

/// What is sent of a GoP.
#[derive(Clone, Debug, PartialEq)]
pub struct GopNotice {
    /// Its number, from 0.
    pub gop: u32,
    /// What the server expects the paths to carry in its time.
    pub expected: ByteCount,
    /// The length of its sound's segment, which goes before all tiles; none is sent if zero.
    pub sound: u32,
    /// Each tile, in raster order.
    pub tiles: Vec<TileNotice>,
}

/// What is sent of a tile, and what it loses if that does not arrive. All losses are parts of the
/// frame's WS-MSE.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TileNotice {
    /// What the plan sends; `None` if it leaves the tile out.
    pub planned: Option<RungNotice>,
    /// What is sent before, as a base layer.
    pub base: Option<RungNotice>,
    /// What mid-grey loses.
    pub grey: f32,
    /// What the original has changed since one GoP before, two before, and so on.
    pub changes: Vec<f32>,
}

/// One encoding of a tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RungNotice {
    /// Its QP.
    pub qp: u8,
    /// Its length.
    pub bytes: u32,
    /// What it loses.
    pub ws_mse: f32,
}

/// Which encoding of which tile; or the sound of a GoP, [`TileId::sound`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TileId {
    /// The GoP.
    pub gop: u32,
    /// The tile, in raster order.
    pub tile: u16,
    /// The QP.
    pub qp: u8,
}

/// A tile as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile<'a> {
    /// Which.
    pub id: TileId,
    /// What its decoder is set up from, until the player has said that it has it; else empty.
    pub init: &'a [u8],
    /// Its pictures: a fragment of MP4.
    pub segment: &'a [u8],
    /// What the package says of both.
    pub digests: TileDigests,
}

/// The digests of an encoding of a tile in one GoP, taken when it was packaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileDigests {
    /// Of what its decoder is set up from.
    pub init: Digest,
    /// Of its segment.
    pub segment: Digest,
}

impl TileDigests {
    /// Of these bytes.
    pub fn of(init: &[u8], segment: &[u8]) -> Self {
        Self { init: Digest::of(init), segment: Digest::of(segment) }
    }
}

impl Tile<'_> {
    /// Whether its bytes are those that were packaged.
    pub fn is_genuine(&self) -> bool {
        let init = self.init.is_empty() || Digest::of(self.init) == self.digests.init;
        init && Digest::of(self.segment) == self.digests.segment
    }
}

/// What a player reports, ten times a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Bytes of messages that it has received so far.
    pub received: u64,
    /// How long the picture has stood still so far, at most a day.
    pub stalled: Duration,
    /// Where it looked, in order of time.
    pub poses: Vec<PoseNotice>,
    /// Tiles that arrived since the report before, and whether each was there before its GoP was
    /// shown.
    pub arrived: Vec<(TileId, bool)>,
}

/// Where a head looked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoseNotice {
    /// The time in the video.
    pub at: Duration,
    /// Yaw, pitch and roll in degrees.
    pub degrees: [f32; 3],
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It ends too early.
    #[error("a message of type {kind} ends in the middle of a field; is the peer damaged?")]
    Short {
        /// Its type.
        kind: u8,
    },
    /// It goes on too long.
    #[error("a message of type {kind} has {extra} bytes too many; is the peer damaged?")]
    Long {
        /// Its type.
        kind: u8,
        /// How many.
        extra: usize,
    },
    /// No such type.
    #[error("there is no message of type {0}; is the peer damaged?")]
    Kind(u8),
    /// Not a greeting of ours.
    #[error(
        "the peer speaks something else; the other side of a stream is weftline vr serve or \
             weftline vr play"
    )]
    Stranger,
    /// Another version.
    #[error(
        "the peer has version {0} of live streams and this one has {VERSION}; use the same \
             release on both sides"
    )]
    Version(u16),
    /// A value out of range.
    #[error("a message of type {kind} has a {field} out of range; is the peer damaged?")]
    Value {
        /// Its type.
        kind: u8,
        /// The field.
        field: &'static str,
    },
}

impl TileId {
    /// What stands in the place of a tile's number for a GoP's sound: no grid has so many tiles.
    pub const SOUND: u16 = u16::MAX;

    /// The sound of a GoP.
    pub const fn sound(gop: u32) -> Self {
        Self { gop, tile: Self::SOUND, qp: 0 }
    }

    /// Whether it is a GoP's sound and no tile.
    pub const fn is_sound(self) -> bool {
        self.tile == Self::SOUND
    }

    /// The tag of the transport's message: its parts, below 2⁵⁶.
    pub fn tag(self) -> u64 {
        u64::from(self.gop) << 24 | u64::from(self.tile) << 8 | u64::from(self.qp)
    }

    /// The tile of a [`Self::tag`]; `None` if it is none.
    pub fn from_tag(tag: u64) -> Option<Self> {
        let gop = u32::try_from(tag >> 24).ok()?;
        Some(Self { gop, tile: (tag >> 8) as u16, qp: tag as u8 })
    }
}

impl Message<'_> {
    const HELLO: u8 = 1;
    const MANIFEST: u8 = 2;
    const GOP: u8 = 3;
    const TILE: u8 = 4;
    const REPORT: u8 = 5;
    const END: u8 = 6;
    const REFUSAL: u8 = 7;

    /// Appends the message to `out`. Lists and texts that are longer than they may be are cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => {
                out.push(Self::HELLO);
                out.extend_from_slice(MAGIC);
                out.extend_from_slice(&VERSION.to_be_bytes());
                hello.fov_deg.iter().for_each(|deg| put_f32(out, *deg));
                put_time(out, hello.buffer.unwrap_or_default());
                put_time(out, hello.rebuffer);
            }
            Self::Manifest(manifest) => put_manifest(out, manifest),
            Self::Gop(notice) => put_gop(out, notice),
            Self::Tile(tile) => {
                out.push(Self::TILE);
                put_id(out, tile.id);
                out.extend_from_slice(&tile.digests.init.0);
                out.extend_from_slice(&tile.digests.segment.0);
                put_u32(out, tile.init.len() as u32);
                out.extend_from_slice(tile.init);
                out.extend_from_slice(tile.segment);
            }
            Self::Report(report) => put_report(out, report),
            Self::End { gops } => {
                out.push(Self::END);
                put_u32(out, *gops);
            }
            Self::Refusal { reason } => {
                out.push(Self::REFUSAL);
                put_text(out, reason);
            }
        }
    }

    /// The message as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

impl<'a> Message<'a> {
    /// Reads a message, all of `bytes`.
    ///
    /// # Errors
    /// [`WireError`] if they are none.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let Some((&kind, rest)) = bytes.split_first() else {
            return Err(WireError::Short { kind: 0 });
        };
        let mut reader = Reader { kind, rest };
        let message = match kind {
            Self::HELLO => Self::Hello(hello(&mut reader)?),
            Self::MANIFEST => Self::Manifest(manifest(&mut reader)?),
            Self::GOP => Self::Gop(gop(&mut reader)?),
            Self::TILE => Self::Tile(tile(&mut reader)?),
            Self::REPORT => Self::Report(report(&mut reader)?),
            Self::END => Self::End { gops: reader.u32()? },
            Self::REFUSAL => Self::Refusal { reason: reader.text()? },
            kind => return Err(WireError::Kind(kind)),
        };
        match reader.rest.len() {
            0 => Ok(message),
            extra => Err(WireError::Long { kind, extra }),
        }
    }
}

fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_time(out: &mut Vec<u8>, time: Duration) {
    put_u64(out, nanos(time));
}

fn put_f32(out: &mut Vec<u8>, value: f32) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_id(out: &mut Vec<u8>, id: TileId) {
    put_u32(out, id.gop);
    put_u16(out, id.tile);
    out.push(id.qp);
}

/// A text, cut where a character ends.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let end = text.floor_char_boundary(MAX_TEXT);
    out.push(end as u8);
    out.extend_from_slice(&text.as_bytes()[..end]);
}

fn put_manifest(out: &mut Vec<u8>, manifest: &Manifest) {
    out.push(Message::MANIFEST);
    put_u16(out, VERSION);
    put_u32(out, manifest.frame.width());
    put_u32(out, manifest.frame.height());
    out.extend([manifest.grid.columns() as u8, manifest.grid.rows() as u8]);
    put_time(out, manifest.gop);
    put_u32(out, manifest.gop_frames);
    put_u32(out, manifest.gops);
    let concealment = Concealment::ALL.iter().position(|(_, one)| *one == manifest.concealment);
    out.push(concealment.unwrap_or(0) as u8);
    put_text(out, &manifest.scheme);
    let qps = &manifest.qps[..manifest.qps.len().min(MAX_RUNGS)];
    out.push(qps.len() as u8);
    out.extend_from_slice(qps);
    let sound = manifest.sound.unwrap_or(SoundFormat { rate_hz: 0, channels: 0 });
    out.push(sound.channels);
    put_u32(out, sound.rate_hz);
}

fn put_gop(out: &mut Vec<u8>, notice: &GopNotice) {
    out.push(Message::GOP);
    put_u32(out, notice.gop);
    put_u64(out, notice.expected.as_u64());
    put_u32(out, notice.sound);
    let tiles = &notice.tiles[..notice.tiles.len().min(MAX_TILES)];
    put_u16(out, tiles.len() as u16);
    for tile in tiles {
        let changes = &tile.changes[..tile.changes.len().min(MAX_AGES)];
        let flags = u8::from(tile.planned.is_some()) | u8::from(tile.base.is_some()) << 1;
        out.extend([flags, changes.len() as u8]);
        for rung in tile.planned.iter().chain(&tile.base) {
            out.push(rung.qp);
            put_u32(out, rung.bytes);
            put_f32(out, rung.ws_mse);
        }
        put_f32(out, tile.grey);
        changes.iter().for_each(|change| put_f32(out, *change));
    }
}

fn put_report(out: &mut Vec<u8>, report: &Report) {
    out.push(Message::REPORT);
    put_u64(out, report.received);
    put_time(out, report.stalled);
    let poses = &report.poses[..report.poses.len().min(MAX_POSES)];
    out.push(poses.len() as u8);
    for pose in poses {
        put_time(out, pose.at);
        pose.degrees.iter().for_each(|deg| put_f32(out, *deg));
    }
    let arrived = &report.arrived[..report.arrived.len().min(MAX_REPORTED)];
    put_u16(out, arrived.len() as u16);
    for (id, on_time) in arrived {
        put_id(out, *id);
        out.push(u8::from(*on_time));
    }
}

/// What is left of a message.
struct Reader<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) =
            self.rest.split_at_checked(len).ok_or(WireError::Short { kind: self.kind })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) =
            self.rest.split_first_chunk().ok_or(WireError::Short { kind: self.kind })?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(|[byte]| byte)
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

    /// A time of at most `most`.
    fn time(&mut self, field: &'static str, most: Duration) -> Result<Duration, WireError> {
        let time = Duration::from_nanos(self.u64()?);
        (time <= most).then_some(time).ok_or_else(|| self.wrong(field))
    }

    fn text(&mut self) -> Result<String, WireError> {
        let len = self.u8()?;
        let text = std::str::from_utf8(self.take(len.into())?);
        let plain = text.ok().filter(|text| !text.chars().any(char::is_control));
        plain.map(str::to_owned).ok_or_else(|| self.wrong("text"))
    }

    /// A number from `least` to `most`.
    fn f32(&mut self, field: &'static str, least: f32, most: f32) -> Result<f32, WireError> {
        let value = self.array().map(f32::from_be_bytes)?;
        (least..=most).contains(&value).then_some(value).ok_or_else(|| self.wrong(field))
    }

    /// A part of the frame's WS-MSE.
    fn loss(&mut self) -> Result<f32, WireError> {
        self.f32("loss", 0.0, MAX_WS_MSE as f32)
    }

    fn id(&mut self) -> Result<TileId, WireError> {
        let id = TileId { gop: self.u32()?, tile: self.u16()?, qp: self.u8()? };
        let is_sound = id == TileId::sound(id.gop);
        let is_any = usize::from(id.tile) < MAX_TILES || is_sound;
        ((id.gop as usize) < MAX_GOPS && is_any).then_some(id).ok_or_else(|| self.wrong("tile"))
    }

    fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.wrong("flag")),
        }
    }

    /// A count of at most `most`.
    fn count(&self, count: usize, field: &'static str, most: usize) -> Result<usize, WireError> {
        if count <= most { Ok(count) } else { Err(self.wrong(field)) }
    }

    fn wrong(&self, field: &'static str) -> WireError {
        WireError::Value { kind: self.kind, field }
    }
}

fn hello(reader: &mut Reader<'_>) -> Result<Hello, WireError> {
    // A stranger's first bytes may be few.
    if reader.take(MAGIC.len()).ok() != Some(MAGIC) {
        return Err(WireError::Stranger);
    }
    match reader.u16()? {
        VERSION => {}
        other => return Err(WireError::Version(other)),
    }
    let mut angle = || reader.f32("field of view", 1.0, 170.0);
    let fov_deg = [angle()?, angle()?];
    let [least, most] = BUFFERS;
    let buffer = Some(reader.time("buffer", most)?).filter(|buffer| !buffer.is_zero());
    if buffer.is_some_and(|buffer| buffer < least) {
        return Err(reader.wrong("buffer"));
    }
    Ok(Hello { fov_deg, buffer, rebuffer: reader.time("time to rebuffer", most)? })
}

fn manifest(reader: &mut Reader<'_>) -> Result<Manifest, WireError> {
    match reader.u16()? {
        VERSION => {}
        other => return Err(WireError::Version(other)),
    }
    let (width, height) = (reader.u32()?, reader.u32()?);
    let frame = FrameSize::new(width, height).map_err(|_| reader.wrong("frame"))?;
    let (columns, rows) = (reader.u8()?, reader.u8()?);
    let grid = Grid::new(columns.into(), rows.into()).map_err(|_| reader.wrong("grid"))?;
    let gop = Duration::from_nanos(reader.u64()?);
    if !(GOP_LENGTHS[0]..=GOP_LENGTHS[1]).contains(&gop) {
        return Err(reader.wrong("length of a GoP"));
    }
    let (gop_frames, gops) = (reader.u32()?, reader.u32()?);
    if !(1..=MAX_GOP_FRAMES).contains(&gop_frames) {
        return Err(reader.wrong("number of pictures in a GoP"));
    }
    reader.count(gops as usize, "number of GoPs", MAX_GOPS)?;
    let concealment = usize::from(reader.u8()?);
    let concealment = Concealment::ALL.get(concealment).map(|(_, concealment)| *concealment);
    let concealment = concealment.ok_or_else(|| reader.wrong("concealment"))?;
    let scheme = reader.text()?;
    let rungs = usize::from(reader.u8()?);
    let rungs = reader.count(rungs, "ladder", MAX_RUNGS)?;
    let qps = reader.take(rungs)?.to_vec();
    let sound = match (reader.u8()?, reader.u32()?) {
        (0, 0) => None,
        (channels @ 1.., rate_hz @ 1..=MAX_SAMPLE_RATE) => Some(SoundFormat { rate_hz, channels }),
        _ => return Err(reader.wrong("sound")),
    };
    Ok(Manifest { frame, grid, gop, gop_frames, gops, concealment, scheme, qps, sound })
}

fn gop(reader: &mut Reader<'_>) -> Result<GopNotice, WireError> {
    let gop = reader.u32()?;
    reader.count(gop as usize, "GoP", MAX_GOPS - 1)?;
    let expected = ByteCount::new(reader.u64()?);
    let sound = reader.u32()?;
    let count = usize::from(reader.u16()?);
    let count = reader.count(count, "number of tiles", MAX_TILES)?;
    let mut tiles = Vec::with_capacity(count);
    for _ in 0..count {
        let (flags, ages) = (reader.u8()?, usize::from(reader.u8()?));
        if flags > 3 {
            return Err(reader.wrong("flag"));
        }
        let ages = reader.count(ages, "number of ages", MAX_AGES)?;
        let mut rung = |flag: u8| {
            if flags & flag == 0 {
                return Ok(None);
            }
            let (qp, bytes, ws_mse) = (reader.u8()?, reader.u32()?, reader.loss()?);
            Ok(Some(RungNotice { qp, bytes, ws_mse }))
        };
        let (planned, base) = (rung(1)?, rung(2)?);
        let grey = reader.loss()?;
        let changes = (0..ages).map(|_| reader.loss()).collect::<Result<_, _>>()?;
        tiles.push(TileNotice { planned, base, grey, changes });
    }
    Ok(GopNotice { gop, expected, sound, tiles })
}

fn tile<'a>(reader: &mut Reader<'a>) -> Result<Tile<'a>, WireError> {
    let id = reader.id()?;
    let digests = TileDigests { init: Digest(reader.array()?), segment: Digest(reader.array()?) };
    let len = reader.u32()? as usize;
    let len = reader.count(len, "length of an init segment", MAX_INIT)?;
    let init = reader.take(len)?;
    let segment = std::mem::take(&mut reader.rest);
    if segment.is_empty() {
        return Err(WireError::Short { kind: reader.kind });
    }
    Ok(Tile { id, init, segment, digests })
}

fn report(reader: &mut Reader<'_>) -> Result<Report, WireError> {
    /// A video has no more GoPs than this, and none is longer.
    const LONGEST: Duration = GOP_LENGTHS[1].saturating_mul(MAX_GOPS as u32);
    const DAY: Duration = Duration::from_secs(86_400);
    let received = reader.u64()?;
    let stalled = reader.time("time of standing still", DAY)?;
    let count = usize::from(reader.u8()?);
    let count = reader.count(count, "number of poses", MAX_POSES)?;
    let mut poses = Vec::with_capacity(count);
    for _ in 0..count {
        let at = reader.time("time", LONGEST)?;
        let mut angle = || reader.f32("angle", -3_600.0, 3_600.0);
        poses.push(PoseNotice { at, degrees: [angle()?, angle()?, angle()?] });
    }
    let count = usize::from(reader.u16()?);
    let count = reader.count(count, "number of tiles", MAX_REPORTED)?;
    let arrived =
        (0..count).map(|_| Ok((reader.id()?, reader.flag()?))).collect::<Result<_, _>>()?;
    Ok(Report { received, stalled, poses, arrived })
}
